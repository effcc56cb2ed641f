"""What the list and the overview read. No request, no writes, no clock of its own."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.core.cache import cache
from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import Q, QuerySet
from django.db.models.expressions import RawSQL
from psycopg.types.json import Jsonb

from journals import store
from runs import seams
from runs.concerns import LEFT_OPEN, left_open, of_rows
from runs.findings import CODES
from runs.forms import PAGE, VIEWS, Filters
from runs.models import Run, Step, VersionSet

NAMES_S: Final = 10  # how old the lists of names may be
COUNTS_S: Final = 3  # how old the counts of the shortcuts may be
CAP: Final = 10_000  # counts stop here and say so
_STEP_OF_KEY = re.compile(r"^[^/]+/[^/]+/(?P<run>.+):[0-9.]*:[0-9]+$")
_VERSION = re.compile(r"^(?P<not>[!≠]?)\s*(?:(?P<part>prompt|model|tool|app|sdk)\s+)?(?P<rest>.+)$", re.DOTALL)


class Capped(int):
    """A count that stops at a limit; `capped` says that it did."""

    capped: bool

    def __new__(cls, value: int, *, capped: bool = False) -> Capped:
        made = super().__new__(cls, value)
        made.capped = capped
        return made


@dataclass(frozen=True, slots=True)
class Page:
    """Rows of a keyset page and the addresses of its neighbours ('' at an end)."""

    rows: Sequence[Any]
    newer_url: str
    older_url: str
    tag: str  # changes when anything shown changes
    note: str = ""


def environments() -> list[str]:
    """Names of the environments that have runs, in order; at most ten seconds old."""
    return list(cache.get_or_set("runs:environments", lambda: _distinct("environment"), NAMES_S) or ())


def agents() -> list[str]:
    """Names of the agents that have runs, in order; at most ten seconds old."""
    return list(cache.get_or_set("runs:agents", lambda: _distinct("agent"), NAMES_S) or ())


def finding_codes() -> list[str]:
    """Codes of findings that any run has, in order; one probe of the array's index per code, at most ten seconds old."""
    return list(cache.get_or_set("runs:findings", _finding_codes, NAMES_S) or ())


def _finding_codes() -> list[str]:
    sql = (
        "SELECT code FROM unnest(%s::text[]) AS code WHERE EXISTS (SELECT FROM runs_run WHERE findings @> ARRAY[code])"
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, [sorted(CODES)])
        return [row[0] for row in cursor.fetchall()]


def _distinct(column: str) -> list[str]:
    """Distinct non-empty values by a loose index scan: one probe per value, not one per run; at most 200."""
    sql = f"""WITH RECURSIVE v AS (
        (SELECT {column} AS x FROM runs_run WHERE {column} > '' ORDER BY {column} LIMIT 1)
        UNION ALL SELECT (SELECT {column} FROM runs_run WHERE {column} > v.x ORDER BY {column} LIMIT 1) FROM v WHERE v.x IS NOT NULL
    ) SELECT x FROM v WHERE x IS NOT NULL LIMIT 200"""  # noqa: S608 - the column is a word of this module
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return [row[0] for row in cursor.fetchall()]


# -- filters --------------------------------------------------------------------------------------------------------

GAP_OPEN: Final = Q(in_flight=True, gap__in=LEFT_OPEN)
NEAR_LIMIT: Final = Q(findings__contains=["near_limit"])


def nobody_resumes() -> Q:
    """In flight and not held, and no live worker can take it."""
    condition = Q(in_flight=True, findings__contains=["stranded"])
    for read in seams.NOBODY_RESUMES:
        condition |= read()
    return condition & ~Q(status="held")


def doubled() -> Q:
    """Runs of which a finding of severity error says that an effect may have happened twice; the array's index narrows first.

    A held run with a changed key was held before the second send: its gap says what is open, and nothing happened twice yet.
    """
    condition = Q(pk__in=[])
    for code, happened in (("possible_double_effect", Q()), ("key_unstable", ~Q(status="held"))):
        told = Q(summary__findings__contains=[{"code": code, "severity": "error"}])
        condition |= Q(findings__contains=[code]) & told & happened
    return condition


def old_build() -> Q | None:
    """In flight on another build than new runs go to; None when no part of the installation knows the current builds."""
    if not seams.CURRENT_BUILDS:
        return None
    condition = Q(pk__in=[])
    for read in seams.CURRENT_BUILDS:
        for (agent, environment), label in read().items():
            condition |= Q(agent=agent, environment=environment) & ~Q(build=label)
    return Q(in_flight=True) & condition


def view_condition(view: str) -> Q | None:
    """The runs of a shortcut pill; None when it cannot be told here."""
    if view == "old_build":
        return old_build()
    if view == "nobody":
        return nobody_resumes()
    if view == "double":
        return doubled()
    simple = {
        "": Q(),
        "in_flight": Q(in_flight=True),
        "gap": GAP_OPEN,
        "parked": Q(status="parked"),
        "near_limit": NEAR_LIMIT,
    }
    return simple[view]


def matching(filters: Filters) -> QuerySet[Run]:
    """The runs that a filter names, in no order."""
    found = Run.objects.filter(pk__in=[]) if filters.nothing else Run.objects.all()
    view = view_condition(filters.view)
    if view is not None and filters.view:
        found = found.filter(view)
    for name in ("environment", "agent", "status", "build", "source", "gap"):
        value = getattr(filters, name)
        if value:
            found = found.filter(**{name: value})
    if filters.finding:
        found = found.filter(findings__contains=[filters.finding])
    if filters.version:
        found = found.filter(version_condition(filters.version))
    return found.filter(id_condition(filters.q)) if filters.q else found


def id_condition(fragment: str) -> Q:
    """Runs whose id or key holds the fragment; pages show a key's first 8; an idempotency key made by `run.key()` finds its run."""
    keyed = _STEP_OF_KEY.match(fragment)
    condition = Q(run__icontains=fragment) | (Q(key__startswith=fragment) if len(fragment) >= 8 else Q(key=fragment))
    return condition | Q(run=keyed["run"]) if keyed else condition


def version_condition(text: str) -> Q:
    """Runs whose last recorded versions hold (or with `≠` do not hold) a version; `prompt NAME@VERSION`, `model ID`, `tool NAME`.

    Without a part it is what the versions column shows: `NAME@VERSION` of a prompt, a model, a tool or the app.

    The few distinct sets are looked through first, so the cost does not grow with the runs.
    """
    found = _VERSION.match(text)
    if found is None:
        return Q(pk__in=[])
    rest = found["rest"].strip()
    held, present = _sets(found["part"], rest) if found["part"] else _any_part(rest)
    wanted = VersionSet.objects.filter(present & ~held if found["not"] else held)
    return Q(versions_set__in=list(wanted.values_list("pk", flat=True)))


def _any_part(rest: str) -> tuple[Q, Q]:
    held = Q(pk__in=[])
    for part in ("prompt", "model", "tool", "app"):
        held |= _sets(part, rest)[0]
    return held, Q()


def _sets(part: str, rest: str) -> tuple[Q, Q]:
    """Sets that hold a version, and sets that say anything about its component."""
    if part == "prompt":
        name, _, version = rest.rpartition("@") if "@" in rest else (rest, "", "")
        named = Q(body__prompt__has_key=name)
        return (Q(body__prompt__contains={name: version}) if version else named), named
    if part == "tool":
        return Q(body__tools__has_key=rest), Q(body__has_key="tools")
    if part == "model":
        roles = RawSQL(
            "SELECT id FROM runs_versionset WHERE jsonb_path_exists(body, %s, %s)", [_ANY_ROLE, Jsonb({"m": rest})]
        )
        return Q(pk__in=roles), Q(body__has_key="model")
    return Q(**{f"body__{part}": rest}), Q(body__has_key=part)


_ANY_ROLE: Final = "$.model.* ? (@ == $m)"


# -- list -----------------------------------------------------------------------------------------------------------

ROW: Final = (
    "head_id",
    "key",
    "run",
    "source",
    "runtime",
    "agent",
    "environment",
    "status",
    "complete",
    "build",
    "pinned_to",
    "current_branch",
    "current_step",
    "current_kind",
    "current_name",
    "gap",
    "gap_confidence",
    "waiting_for",
    "parked_on",
    "parked_since",
    "wake_at",
    "lease_until",
    "native",
    "started_at",
    "ended_at",
    "last_at",
    "entries",
    "findings",
    "in_flight",
    "folded_pos",
    "versions_set__body",
)


def list_page(filters: Filters) -> Page:
    """One page of runs in the order in which they were first seen here (the run's number): equal cost at every depth."""
    oldest = filters.order == "oldest"
    backwards = filters.before is not None
    cursor = filters.before if backwards else filters.after
    ascending = oldest != backwards
    found = matching(filters)
    if cursor is not None:
        found = found.filter(head_id__gt=cursor) if ascending else found.filter(head_id__lt=cursor)
    rows = list(
        found.select_related("versions_set").order_by("head_id" if ascending else "-head_id").only(*ROW)[: PAGE + 1]
    )
    more, rows = len(rows) > PAGE, rows[:PAGE]
    if backwards:
        rows.reverse()
    has_newer, has_older = (more, True) if backwards else (filters.after is not None, more)
    return Page(
        rows=rows,
        newer_url=filters.url(before=rows[0].head_id) if rows and has_newer else "",
        older_url=filters.url(after=rows[-1].head_id) if rows and has_older else "",
        tag=tag_of([(r.head_id, r.folded_pos, r.status, r.gap, r.waiting_for, str(r.parked_since)) for r in rows]),
    )


FULLEST: Final = 3  # runs shown of each source


def fullest_in_flight() -> list[dict[str, Any]]:
    """Of each source the runs in flight that use most of a limit, with their `limits`; at most `FULLEST` each, the fullest first.

    The longest and the largest journals are looked at, and those that are near a limit by any measure.
    """
    flight = Run.objects.filter(in_flight=True)
    ways = (
        flight.order_by("-entries", "-head_id"),
        flight.order_by("-bytes", "-head_id"),
        flight.filter(NEAR_LIMIT).order_by("-head_id"),
    )
    rows: dict[str, dict[str, Any]] = {
        row["key"]: {**row}
        for way in ways
        for row in way.values("key", "run", "source", "agent", "summary__limits")[:50]
    }
    found = [{**row, "limits": row.pop("summary__limits") or []} for row in rows.values()]
    by_use = sorted(found, key=lambda row: -max((item.get("share") or 0 for item in row["limits"]), default=0))
    of_source: dict[str, int] = {}
    made = []
    for row in by_use:
        of_source[row["source"]] = of_source.get(row["source"], 0) + 1
        if row["limits"] and of_source[row["source"]] <= FULLEST:
            made.append(row)
    return made


def tag_of(*shown: Any) -> str:
    """A short word that changes when what is shown changes."""
    return hashlib.blake2b(repr(shown).encode(), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class Listed:
    """A run as a row shows it."""

    run: Run
    versions: str  # the last recorded ones, in a few words
    differs: str = ""  # from the agent's current build
    error: str = ""  # the last one, of a failed run
    doubled: bool = False  # an effect may have happened twice
    seen_at: datetime | None = None  # when the run was first seen here
    concern: Mapping[str, Any] | None = None  # the step that the row is about: {branch, step, name}

    @property
    def left_open(self) -> bool:
        return left_open(self.run)


def listed(rows: Sequence[Run]) -> list[Listed]:
    """The rows with what stands beside their own columns; a statement for each kind of it at most."""
    errors, twice = last_errors(rows), doubled_of(rows)
    differs: dict[int, str] = {}
    for read in seams.DIFFERENCES:
        differs.update(read([row.head_id for row in rows if row.in_flight]))
    seen, about = store.first_seen([row.head_id for row in rows]), of_rows(rows, twice)
    return [
        Listed(row, versions_text(row), differs.get(i, ""), errors.get(i, ""), i in twice, seen.get(i), about.get(i))
        for i, row in ((row.head_id, row) for row in rows)
    ]


def doubled_of(rows: Sequence[Run]) -> set[int]:
    """Head ids of those among these runs whose effects may have happened twice."""
    asked = [row.head_id for row in rows if {"possible_double_effect", "key_unstable"}.intersection(row.findings)]
    return set(Run.objects.filter(doubled(), pk__in=asked).values_list("pk", flat=True)) if asked else set()


def last_errors(rows: Sequence[Run]) -> dict[int, str]:
    """By head id, the last error of the failed ones among these runs."""
    failed = [row.head_id for row in rows if row.status == "failed"]
    found = (
        Step.objects.filter(run_id__in=failed)
        .exclude(error="")
        .exclude(status="result")
        .order_by("run_id", "-ord")
        .distinct("run_id")
    )
    return dict(found.values_list("run_id", "error")) if failed else {}


def versions_text(run: Run) -> str:
    """The last versions that a run recorded, in a few words: prompts, models, how many tools; '' without any."""
    body = run.versions_set.body if run.versions_set else {}
    words = [
        f"{name}@{version}" if version and version != name else name
        for name, version in (body.get("prompt") or {}).items()
    ]
    words += dict.fromkeys(str(model) for model in (body.get("model") or {}).values())
    tools = len(body.get("tools") or {})
    return " · ".join([*words, *([f"{tools} tool{'s' if tools > 1 else ''}"] if tools else [])]) or str(
        body.get("app") or ""
    )


def counted(filters: Filters) -> dict[str, Capped]:
    """Capped counts of every shortcut in the filter's environment (at most three seconds old), and of the filter as `shown`."""
    key = f"runs:views:{tag_of(filters.environment)}"
    views = cache.get_or_set(key, lambda: view_counts(filters.environment), COUNTS_S) or {}
    if not (filters.tags() or filters.nothing) and filters.view in views:
        return {**views, "shown": views[filters.view]}
    return {**views, **capped_counts({"shown": matching(filters)})}


def view_counts(environment: str) -> dict[str, Capped]:
    """Capped counts of every shortcut in an environment ('' for all); one statement."""
    base = Run.objects.filter(environment=environment) if environment else Run.objects.all()
    conditions = {view: view_condition(view) for view in VIEWS}
    return capped_counts({view: base.filter(c) for view, c in conditions.items() if c is not None})


def capped_counts(sets: Mapping[str, QuerySet[Any]]) -> dict[str, Capped]:
    """The size of each set, counted to CAP and no further, in one statement."""
    parts: list[str] = []
    params: list[Any] = []
    for found in sets.values():
        try:
            sql, values = found.order_by().values("pk")[: CAP + 1].query.sql_with_params()
        except EmptyResultSet:  # a condition that nothing can meet
            sql, values = "SELECT 1 WHERE false", ()
        parts.append(f"(SELECT count(*) FROM ({sql}) AS counted)")  # noqa: S608 - SQL of Django's compiler, values apart
        params.extend(values)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(parts)}", params)
        counts = cursor.fetchone()
    return {name: Capped(min(n, CAP), capped=n > CAP) for name, n in zip(sets, counts or (), strict=True)}
