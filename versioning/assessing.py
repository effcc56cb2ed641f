"""Which runs in flight a build touches: a few statements, whatever the number of runs.

Runs that recorded the same versions on the same build are compared once. One statement counts the runs in flight by that
pair (and by which models will have retired when they wake); the comparison itself is `versioning.mismatch`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from django.db import connection
from django.db.models import Min

from journals import store
from runs.models import Run, VersionSet
from versioning import buildfile, live, mismatch
from versioning.mismatch import Contents, Difference, Versions
from versioning.models import AgentPolicy, Build, Part

RUNS_LISTED: Final = 1_000  # keys named per group in the machine-readable answer


@dataclass(frozen=True, slots=True, order=True)
class Pair:
    """What decides the verdict of a run: what it recorded, the build that it is on, and how many retirements it sleeps through."""

    versions_set: int  # runs_versionset.id; 0: nothing recorded
    base: str  # build label; empty: not known
    native: bool
    retired: int = 0  # of the retirement days in play, how many lie before the moment at which it can go on


@dataclass(slots=True)
class Group:
    """Runs in flight with one verdict and the same differences."""

    key: str
    verdict: mismatch.Verdict
    differences: tuple[Difference, ...]
    count: int = 0
    in_step: int = 0  # a step is begun and has no result
    parked: int = 0
    parked_on_approval: int = 0
    stranded: int = 0  # no live worker for their build
    held: int = 0
    pinned: int = 0
    oldest: datetime | None = None
    pairs: list[Pair] = field(default_factory=list)
    builds: dict[str, int] = field(default_factory=dict)  # label that the runs are on -> runs

    def as_json(self, keys: Sequence[str]) -> dict[str, Any]:
        """The group of `check_deploy`."""
        return {
            "group": self.key,
            "verdict": self.verdict,
            "differences": [d.as_json() for d in self.differences],
            "runs": list(keys),
            "count": self.count,
            "in_step": self.in_step,
            "parked": self.parked,
            "parked_on_approval": self.parked_on_approval,
            "stranded": self.stranded,
            "held": self.held,
            "pinned": self.pinned,
            "oldest": self.oldest.isoformat() if self.oldest else None,
            "builds": dict(sorted(self.builds.items())),
        }


@dataclass(frozen=True, slots=True)
class Assessed:
    """An assessment: groups by urgency (mismatch, unknown, compatible, same), the largest first."""

    agent: str
    environment: str  # empty: every environment
    groups: Sequence[Group]
    assessed_at: datetime
    thresholds: Sequence[datetime]  # retirement moments in play
    not_started: int  # native runs that no worker has opened: they take whatever build opens them

    @property
    def runs(self) -> int:
        """Runs in flight that were compared."""
        return sum(g.count for g in self.groups)

    def verdicts(self) -> dict[str, int]:
        """Runs by verdict, every verdict named."""
        return {v: sum(g.count for g in self.groups if g.verdict == v) for v in mismatch.VERDICTS}

    def group(self, key: str) -> Group | None:
        """The group of this key, if runs are in it now."""
        return next((g for g in self.groups if g.key == key), None)


@dataclass(frozen=True, slots=True)
class Measure:
    """A build with everything that runs are held against, loaded once per assessment."""

    label: str  # empty: not registered
    contents: Contents
    policy: mismatch.Policy
    bases: Mapping[str, Versions]  # label -> what that build states
    bodies: Mapping[int, Versions]  # versions_set -> what the runs recorded
    thresholds: Sequence[datetime]

    def assess(self, pair: Pair, *, now: datetime) -> mismatch.Assessment:
        """The verdict for every run of this pair."""
        wakes_at = self.thresholds[pair.retired - 1] if pair.retired else now
        here = pair.native and pair.base == self.label  # its worker was let in with this build: that is decided
        recorded = self.contents.versions if here else self.bodies.get(pair.versions_set, Versions())
        base = None if here else self.bases.get(pair.base)
        found = mismatch.assess(recorded, self.contents, now=now, policy=self.policy, base=base, wakes_at=wakes_at)
        return mismatch.Assessment("same", ()) if here and not found.differences else found


def assess(
    *,
    agent: str,
    environment: str,
    stated: Versions,
    texts: Mapping[str, str],
    now: datetime,
    label: str = "",
    retires: Mapping[str, Any] | None = None,
) -> Assessed:
    """Every run in flight of this agent against a build's versions. `texts`: prompt name -> digest, where known."""
    contents = contents_of(stated, agent=agent, texts=texts, retires=retires)
    thresholds = sorted({mismatch.retires_at(day) for day in contents.retires_on.values()})
    rows = _count(agent=agent, environment=environment, thresholds=thresholds, now=now)
    pairs = [row[0] for row in rows]
    measure = measure_of(contents, label=label, agent=agent, pairs=pairs, thresholds=thresholds)
    groups: dict[str, Group] = {}
    for pair, counts, oldest in rows:
        found = measure.assess(pair, now=now)
        group = groups.setdefault(found.group, Group(found.group, found.verdict, found.differences))
        _add(group, pair, counts, oldest)
    order = {"mismatch": 0, "unknown": 1, "compatible": 2, "same": 3}
    ranked = sorted(groups.values(), key=lambda g: (order[g.verdict], -g.count, g.key))
    return Assessed(agent, environment, ranked, now, thresholds, not_started(agent=agent, environment=environment))


def assess_build(build: Build, *, environment: str, now: datetime) -> Assessed:
    """Every run in flight of the build's agent against a registered build."""
    stated, texts = stated_of([build.pk])[build.pk]
    return assess(agent=build.agent, environment=environment, stated=stated, texts=texts, now=now, label=build.label)


def assess_file(described: buildfile.Described, *, environment: str, now: datetime) -> Assessed:
    """Every run in flight of the agent against a build that is not registered."""
    prompts = described.body.get("prompts") or {}
    return assess(
        agent=described.agent,
        environment=environment,
        stated=buildfile.versions_in(described.body),
        texts={name: got["sha256"] for name, got in prompts.items() if got.get("sha256")},
        retires=buildfile.retirements_in(described.body),
        now=now,
    )


def measure_for(build: Build, *, pairs: Iterable[Pair]) -> Measure:
    """What the runs of these pairs, all awake now, are held against."""
    stated, texts = stated_of([build.pk])[build.pk]
    contents = contents_of(stated, agent=build.agent, texts=texts)
    return measure_of(contents, label=build.label, agent=build.agent, pairs=pairs, thresholds=())


def measure_of(
    contents: Contents, *, label: str, agent: str, pairs: Iterable[Pair], thresholds: Sequence[datetime]
) -> Measure:
    """Loads the policy, and what the runs of these pairs recorded and stand on."""
    pairs = list(pairs)
    ids = {p.versions_set for p in pairs} - {0}
    labels = {p.base for p in pairs} - {""}
    bodies = VersionSet.objects.filter(pk__in=ids).values_list("pk", "body") if ids else ()
    known = dict(Build.objects.filter(agent=agent, label__in=labels).values_list("pk", "label")) if labels else {}
    stated = stated_of(known) if known else {}
    return Measure(
        label=label,
        contents=contents,
        policy=policy_of(agent),
        bases={known[pk]: versions for pk, (versions, _) in stated.items()},
        bodies={pk: mismatch.versions_of(body) for pk, body in bodies},
        thresholds=thresholds,
    )


def policy_of(agent: str) -> mismatch.Policy:
    """What the agent's owners said about code changes; strict when they said nothing."""
    row = AgentPolicy.objects.filter(agent=agent).first()
    return mismatch.Policy(code_changes_compatible=bool(row and row.code_changes_compatible))


def contents_of(
    stated: Versions, *, agent: str, texts: Mapping[str, str], retires: Mapping[str, Any] | None = None
) -> Contents:
    """A build's versions with what all registered builds know about models that retire and prompts whose version moved."""
    retirements = (
        Part.objects.exclude(retires_on=None).values_list("version").annotate(day=Min("retires_on")).order_by()
    )
    known: dict[tuple[str, str], set[str]] = {}
    for name, version, digest in (
        Part.objects.filter(build__agent=agent, component="prompt", name__in=list(stated.prompts or {}))
        .exclude(digest="")
        .values_list("name", "version", "digest")
    ):
        known.setdefault((name, version), set()).add(digest)
    for name, digest in texts.items():
        known.setdefault((name, (stated.prompts or {})[name]), set()).add(digest)
    return Contents(
        versions=stated,
        retires_on={**dict(retirements), **(retires or {})},
        texts={key: frozenset(found) for key, found in known.items()},
    )


def stated_of(builds: Iterable[int]) -> dict[int, tuple[Versions, dict[str, str]]]:
    """Build id -> the versions that it states and the digests of its prompts, without loading texts and schemas."""
    ids = list(builds)
    made: dict[int, dict[str, dict[str, str]]] = {pk: {} for pk in ids}
    texts: dict[int, dict[str, str]] = {pk: {} for pk in ids}
    for part in Part.objects.filter(build__in=ids).only("build_id", "component", "name", "version", "digest"):
        of = made[part.build_id].setdefault(part.component, {})
        if part.version:
            of[part.name] = part.version
        if part.digest:
            texts[part.build_id][part.name] = part.digest
    code = {pk: (app, sdk) for pk, app, sdk in Build.objects.filter(pk__in=ids).values_list("pk", "app", "sdk")}
    return {
        pk: (
            Versions(
                app=code[pk][0], sdk=code[pk][1], prompts=of.get("prompt"), models=of.get("model"), tools=of.get("tool")
            ),
            texts[pk],
        )
        for pk, of in made.items()
    }


def not_started(*, agent: str, environment: str) -> int:
    """Native runs in flight that no worker has opened yet."""
    with connection.cursor() as cursor:
        encoded = store.encode_text(environment)
        cursor.execute(_NOT_STARTED, [store.encode_text(agent), encoded, encoded])
        (found,) = cursor.fetchone()
    return int(found)


def runs_of(
    assessed: Assessed, pairs: Sequence[Pair], *, limit: int = RUNS_LISTED, after: int = 0, without: int = 0
) -> list[tuple[int, str]]:
    """(head id, key) of the runs of these pairs, by head id: at most `limit` of those after a head id.

    `without`: a decision; runs whose journal holds it are left out.
    """
    params = {
        **_params(assessed.agent, assessed.environment, assessed.thresholds, assessed.assessed_at),
        "sets": [p.versions_set for p in pairs],
        "bases": [p.base for p in pairs],
        "natives": [p.native for p in pairs],
        "buckets": [p.retired for p in pairs],
        "after": after,
        "without": without,
        "limit": limit,
    }
    with connection.cursor() as cursor:
        cursor.execute(_RUNS, params)
        return list(cursor.fetchall())


def pair_of(head_id: int) -> Pair:
    """The pair of one run that is awake now."""
    row = Run.objects.filter(pk=head_id).values_list("versions_set_id", "build", "native").first()
    return Pair(row[0] or 0, row[1], row[2]) if row else Pair(0, "", True)


_BUCKET: Final = "width_bucket(greatest(wake_at, %(now)s), %(thresholds)s::timestamptz[])"
_FROM: Final = """FROM runs_run WHERE in_flight AND agent = %(agent)s AND (%(environment)s = '' OR environment = %(environment)s)
    AND NOT (native AND worker = '' AND steps = 0 AND versions_set_id IS NULL)"""  # those: no worker has opened them yet
_COUNT: Final = f"""SELECT coalesce(versions_set_id, 0), build, native, {_BUCKET}, count(*),
    count(*) FILTER (WHERE gap = 'may_run_twice'),
    count(*) FILTER (WHERE status = 'parked'),
    count(*) FILTER (WHERE status = 'parked' AND parked_on LIKE 'approval:%%'),
    count(*) FILTER (WHERE 'stranded' = ANY(findings) OR (native AND coalesce(nullif(pinned_to, ''), build) <> ALL(%(live)s))),
    count(*) FILTER (WHERE status = 'held'),
    count(*) FILTER (WHERE pinned_to <> ''),
    min(coalesce(started_at, last_at))
    {_FROM} GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"""
_RUNS: Final = f"""SELECT head_id, key {_FROM} AND head_id > %(after)s
    AND (coalesce(versions_set_id, 0), build, native, {_BUCKET}) IN
        (SELECT * FROM unnest(%(sets)s::bigint[], %(bases)s::text[], %(natives)s::boolean[], %(buckets)s::integer[]))
    AND NOT EXISTS (SELECT 1 FROM versioning_applied a WHERE a.head_id = runs_run.head_id AND a.decision_id = %(without)s)
    ORDER BY head_id LIMIT %(limit)s"""
_NOT_STARTED: Final = """SELECT count(*) FROM journals_head
    WHERE native AND ended = '' AND agent = %s AND (%s = '' OR environment = %s) AND epoch = 0"""


def _params(agent: str, environment: str, thresholds: Sequence[datetime], now: datetime) -> dict[str, Any]:
    place = {"agent": store.encode_text(agent), "environment": store.encode_text(environment)}
    return {**place, "thresholds": list(thresholds), "now": now}


def _count(
    *, agent: str, environment: str, thresholds: Sequence[datetime], now: datetime
) -> list[tuple[Pair, Sequence[int], datetime]]:
    runnable = sorted(live.builds(agent=agent, environment=environment, now=now))
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, {**_params(agent, environment, thresholds, now), "live": runnable})
        return [(Pair(*row[:4]), row[4:11], row[11]) for row in cursor.fetchall()]


def _add(group: Group, pair: Pair, counts: Sequence[int], oldest: datetime) -> None:
    group.pairs.append(pair)
    group.builds[pair.base] = group.builds.get(pair.base, 0) + counts[0]
    for name, count in zip(_COUNTED, counts, strict=True):
        setattr(group, name, getattr(group, name) + count)
    group.oldest = min(oldest, group.oldest or oldest)


_COUNTED: Final = ("count", "in_step", "parked", "parked_on_approval", "stranded", "held", "pinned")
