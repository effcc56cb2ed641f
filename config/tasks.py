"""What the process does regularly for itself."""

from __future__ import annotations

from typing import Any

from celery import shared_task
from django.conf import settings

from config.roles import make_partitions

__all__ = ["SCHEDULE", "partitions"]

SCHEDULE = {"config.tasks.partitions": 3_600.0}


@shared_task
def partitions(**_: Any) -> int:
    """Make the journal's partitions ahead of need, under the owner role; returns how many were made."""
    return make_partitions(settings.DATABASE_OWNER)
