"""Background work on approvals."""

from __future__ import annotations

from typing import Any

from celery import shared_task

from runs.approvals import actions

SCHEDULE = {"runs.approvals.tasks.expire": 10.0}


@shared_task
def expire(**_: Any) -> int:
    """Expires undecided requests whose time is over; answers how many."""
    return actions.expire_due()
