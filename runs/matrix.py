"""Which version of each prompt, model and tool a run used, and under which of its steps."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from django.db import connection

from runs.models import Run
from runs.page import components, number_of

PARTS: Final = ("app", "prompt", "model", "tools", "sdk")


@dataclass(frozen=True, slots=True)
class Stretch:
    """The steps that recorded one version of a component, from the first to the last; others may lie between."""

    value: str
    first: str
    last: str
    steps: int
    entry: int | None  # the first entry that recorded it


@dataclass(frozen=True, slots=True)
class Component:
    """A prompt, model, tool, app or sdk through the run; versions in the order of their first use."""

    part: str
    name: str
    stretches: Sequence[Stretch]

    @property
    def changed(self) -> bool:
        """More than one version was recorded."""
        return len(self.stretches) > 1


class Used(NamedTuple):
    """Steps that recorded equal versions: how many, and the places, names and first entry of the first and last."""

    versions: Any
    steps: int
    first_ord: int
    last_ord: int
    first: str
    last: str
    entry: int | None


def version_matrix(run: Run) -> list[Component]:
    """Every component that the run recorded, with the steps under each of its versions; parts in a fixed order."""
    merged: dict[tuple[str, str], dict[str, Used]] = {}
    for used in _distinct_versions(run):
        for part in PARTS:
            for name, value in components(part, (used.versions or {}).get(part)).items():
                values = merged.setdefault((part, name), {})
                values[value] = _joined(values[value], used) if value in values else used
    return [
        Component(part, name, [Stretch(v, u.first, u.last, u.steps, u.entry) for v, u in values.items()])
        for (part, name), values in sorted(merged.items(), key=lambda item: (PARTS.index(item[0][0]), item[0][1]))
    ]


def _joined(one: Used, more: Used) -> Used:
    """Two groups of steps as one."""
    first, last = min(one, more, key=lambda u: u.first_ord), max(one, more, key=lambda u: u.last_ord)
    return Used(
        one.versions, one.steps + more.steps, first.first_ord, last.last_ord, first.first, last.last, first.entry
    )


def _distinct_versions(run: Run) -> Iterator[Used]:
    """The distinct versions that steps recorded, by first use: few, however many steps there are."""
    sql = """SELECT g.versions, g.n, g.low, g.high, a.branch, a.step, b.branch, b.step, a.entries[1]
        FROM (SELECT versions, count(*) AS n, min(ord) AS low, max(ord) AS high FROM runs_step
            WHERE run_id = %s AND versions IS NOT NULL GROUP BY versions) g
        JOIN runs_step a ON a.run_id = %s AND a.ord = g.low JOIN runs_step b ON b.run_id = %s AND b.ord = g.high ORDER BY g.low"""
    with connection.cursor() as cursor:
        cursor.execute(sql, [run.pk, run.pk, run.pk])
        for versions, n, low, high, branch, step, last_branch, last_step, entry in cursor.fetchall():
            body = json.loads(versions) if isinstance(versions, str) else versions
            if isinstance(body, dict):
                yield Used(body, n, low, high, number_of(branch, step), number_of(last_branch, last_step), entry)
