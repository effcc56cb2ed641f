"""Which step a row of runs is about: a reader looks for the endangered one, and not for the newest."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.db import connection

from runs.models import Run

__all__ = ["LEFT_OPEN", "concerns", "left_open", "of_rows"]

LEFT_OPEN: Final = ("may_run_twice", "failed_may_have_run")
"""Verdicts of steps that stay a question when their run is over."""

_TWICE: Final = (
    '$.findings[*] ? (@.severity == "error" && (@.code == "possible_double_effect" || @.code == "key_unstable")).detail'
)


def left_open(run: Run) -> bool:
    """Whether the run is over, and nobody knows whether one of its writes happened."""
    return not run.in_flight and run.gap in LEFT_OPEN


def of_rows(rows: Sequence[Run], twice: set[int]) -> dict[int, Mapping[str, Any]]:
    """`concerns` of any rows: the step in the gap of a run in flight, else the one with two effects, else what was left open."""
    gap = [r for r in rows if (r.in_flight and r.gap in LEFT_OPEN) or (r.gap and r.head_id not in twice)]
    mine = {r.head_id for r in gap}
    return concerns([r for r in rows if r.head_id in twice - mine], gap)


def concerns(twice: Sequence[Run], open_: Sequence[Run]) -> dict[int, Mapping[str, Any]]:
    """By head id, the step {branch, step, name} whose effect may have happened twice, or that stands in the gap. One statement."""
    asked = [row.head_id for row in twice], [row.head_id for row in open_]
    if not any(asked):
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT head_id, CASE WHEN head_id = ANY(%s) THEN coalesce(jsonb_path_query_first(summary, %s), jsonb_path_query_first(summary, %s))"
            " ELSE jsonb_path_query_first(summary, '$.gaps[*] ? (@.verdict == $worst)', jsonb_build_object('worst', gap)) END"
            " FROM runs_run WHERE head_id = ANY(%s)",
            [asked[0], f"{_TWICE}.step", f"{_TWICE}.steps[0]", [*asked[0], *asked[1]]],
        )
        found = ((i, json.loads(step) if isinstance(step, str) else step) for i, step in cursor.fetchall())
        return {i: step for i, step in found if isinstance(step, dict) and step.get("name")}
