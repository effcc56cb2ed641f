"""Data for the page of one source: its runs, the names of its steps, the runs that a preview may take. No request, no writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from django.db import connection

from journals import store
from runs.models import Run

__all__ = ["Counts", "Name", "Names", "counts", "in_flight_of", "names", "preview_runs"]

RUNS: Final = 2_000  # newest runs in which names are looked for
STEPS: Final = 200_000  # steps that are looked at
PAGE: Final = 50
CAP: Final = 10_000


@dataclass(slots=True)
class Name:
    """A name of model calls or tools, as its steps are now."""

    name: str
    steps: int = 0
    keyed: int = 0  # steps that carry a key
    kinds: dict[str, int] = field(default_factory=dict)
    effects: dict[str, int] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return ", ".join(sorted(self.kinds))

    @property
    def effect(self) -> str:
        return ", ".join(sorted(self.effects))


@dataclass(frozen=True, slots=True)
class Names:
    """A page of names, most steps first."""

    rows: Sequence[Name]
    total: int
    page: int  # from 1
    pages: int
    narrowed: bool  # only the newest `RUNS` runs, or `STEPS` steps, were looked at


_NAMES: Final = """SELECT name, kind, effect, sum(n), sum(keyed) FROM (
    SELECT s.name, s.kind, s.effect, 1 AS n, (s.key IS NOT NULL)::int AS keyed FROM runs_step s JOIN
        (SELECT head_id FROM runs_run WHERE source = %(source)s AND (%(run)s::bigint IS NULL OR head_id = %(run)s)
         ORDER BY head_id DESC LIMIT %(runs)s) r ON r.head_id = s.run_id
    WHERE s.kind IN ('model', 'tool') AND s.name IS NOT NULL LIMIT %(steps)s) few GROUP BY name, kind, effect"""


def names(source: str, *, like: str = "", run: int | None = None, page: int = 1) -> Names:
    """Names of the steps of the source's newest runs, or of one run, that hold `like` (upper and lower case are the same)."""
    with connection.cursor() as cursor:
        cursor.execute(_NAMES, {"source": source, "run": run, "runs": RUNS, "steps": STEPS})
        found = cursor.fetchall()
    made: dict[str, Name] = {}
    for stored, kind, effect, steps, keyed in found:
        name = store.decode_text(stored)
        one = made.setdefault(name, Name(name))
        one.steps += int(steps)
        one.keyed += int(keyed)
        one.kinds[kind] = one.kinds.get(kind, 0) + int(steps)
        one.effects[effect] = one.effects.get(effect, 0) + int(steps)
    looked_at = sum(n.steps for n in made.values())
    wanted = [n for n in made.values() if like.casefold() in n.name.casefold()]
    wanted.sort(key=lambda n: (-n.steps, n.name))
    pages = max(1, -(-len(wanted) // PAGE))
    page = min(max(page, 1), pages)
    rows = wanted[(page - 1) * PAGE : page * PAGE]
    narrowed = run is None and (looked_at >= STEPS or _capped("source = %s", [source], RUNS) > RUNS)
    return Names(rows, len(wanted), page, pages, narrowed)


@dataclass(frozen=True, slots=True)
class Counts:
    """Runs of a source; each at most `CAP` + 1."""

    runs: int
    in_flight: int

    @property
    def texts(self) -> dict[str, str]:
        return {k: f"{CAP:,}+" if n > CAP else f"{n:,}" for k, n in (("runs", self.runs), ("in_flight", self.in_flight))}  # fmt: skip


def counts(source: str) -> Counts:
    """How many runs the source has, and how many of them are in flight."""
    return Counts(_capped("source = %s", [source], CAP), _capped("source = %s AND in_flight", [source], CAP))


def in_flight_of(sources: Sequence[str], cap: int) -> dict[str, int]:
    """Runs in flight of each of these sources, counted to `cap` + 1; one statement."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT name, (SELECT count(*) FROM (SELECT 1 FROM runs_run WHERE source = name AND in_flight LIMIT %s) few)"
            " FROM unnest(%s::text[]) AS name",
            [cap + 1, list(sources)],
        )
        return {name: int(count) for name, count in cursor.fetchall()}


def _capped(where: str, params: Sequence[Any], cap: int) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM (SELECT 1 FROM runs_run WHERE {where} LIMIT %s) few", [*params, cap + 1])  # noqa: S608
        return int(cursor.fetchone()[0])


def preview_runs(source: str, *, asked: str = "", limit: int = 40) -> tuple[list[Run], Run | None]:
    """Runs to choose from, newest in flight first, and the one that is chosen: `asked` by its key, else the first."""
    flight = list(Run.objects.filter(source=source, in_flight=True).order_by("-head_id")[:limit])
    others = list(Run.objects.filter(source=source, in_flight=False).order_by("-head_id")[: limit - len(flight)])
    runs = [*flight, *others]
    chosen = Run.objects.filter(source=source, key=asked).first() if asked else None
    if chosen is not None and chosen not in runs:
        runs.insert(0, chosen)
    return runs, chosen or (runs[0] if runs else None)
