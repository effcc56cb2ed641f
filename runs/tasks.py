"""Background work of the run pages."""

from __future__ import annotations

from typing import Any

from celery import shared_task

from runs import projection

SCHEDULE = {"runs.tasks.catch_up": 5.0}


@shared_task(name="runs.tasks.catch_up", ignore_result=True)
def catch_up(**_: Any) -> int:
    """Folds what workers have appended since, so that a page finds little to do; returns how many runs are still behind."""
    return projection.catch_up(within_s=20)
