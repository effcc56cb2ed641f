"""Which version of each prompt, model and tool a run used, and under which of its steps."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from runs.models import Run
from runs.page import components, number_of


@dataclass(frozen=True, slots=True)
class Stretch:
    """Steps in a row that recorded the same version of a component."""

    value: str
    first: str
    last: str
    steps: int
    entry: int | None  # the first entry that recorded it


@dataclass(frozen=True, slots=True)
class Component:
    """A prompt, model, tool, app or sdk through the run."""

    part: str
    name: str
    stretches: Sequence[Stretch]

    @property
    def changed(self) -> bool:
        """More than one version was recorded."""
        return len({s.value for s in self.stretches}) > 1


def version_matrix(run: Run) -> list[Component]:
    """Every component that the run recorded, with the steps under each of its versions; parts in a fixed order."""
    open_: dict[tuple[str, str], list[list[Any]]] = {}
    for branch, step, versions, numbers, repeat in _version_islands(run):
        for part_name in ("app", "prompt", "model", "tools", "sdk"):
            for name, value in components(part_name, (versions or {}).get(part_name)).items():
                stretches = open_.setdefault((part_name, name), [])
                number = number_of(branch, step)
                if not stretches or stretches[-1][0] != value:
                    stretches.append([value, number, number, 0, numbers[0] if numbers else None])
                stretches[-1][2] = number
                stretches[-1][3] += repeat
    order = {"app": 0, "prompt": 1, "model": 2, "tools": 3, "sdk": 4}
    return [
        Component(part_name, name, [Stretch(*s) for s in stretches])
        for (part_name, name), stretches in sorted(open_.items(), key=lambda kv: (order[kv[0][0]], kv[0][1]))
    ]


def _version_islands(run: Run) -> Iterator[tuple[str, int | None, Any, list[int], int]]:
    """First and last step of every stretch with equal versions: a run of 25,000 steps answers a few rows."""
    sql = """SELECT branch, step, versions, entries, CASE WHEN starts THEN 1 ELSE ord - lag(ord) OVER (ORDER BY ord) END FROM (
        SELECT ord, branch, step, versions, entries, versions IS DISTINCT FROM lag(versions) OVER w AS starts,
            versions IS DISTINCT FROM lead(versions) OVER w AS ends
        FROM runs_step WHERE run_id = %s AND versions IS NOT NULL AND versions <> '{}' WINDOW w AS (ORDER BY ord)) s
        WHERE starts OR ends ORDER BY ord"""
    with connection.cursor() as cursor:
        cursor.execute(sql, [run.pk])
        for branch, step, versions, numbers, repeat in cursor.fetchall():
            yield branch, step, json.loads(versions) if isinstance(versions, str) else versions, numbers, repeat
