"""Background work of the journal. The row is the truth: each task is idempotent and a lost message costs a sweep's interval."""

from __future__ import annotations

import logging
from typing import Any

import psycopg
from celery import shared_task
from django.conf import settings
from django.db import connection
from kombu.exceptions import OperationalError

from journals import ingest
from journals.imports_kept import drop_older

__all__ = ["SCHEDULE", "drop_files", "nudge", "run_import", "sweep_imports"]

log = logging.getLogger(__name__)

SCHEDULE = {"journals.tasks.sweep_imports": 30.0, "journals.tasks.drop_files": 3_600.0}


@shared_task(name="journals.tasks.run_import")
def run_import(*, import_id: int, **_: Any) -> None:
    """Does the work of one import, if it is still to be done."""
    ingest.run(import_id)


@shared_task(name="journals.tasks.sweep_imports")
def sweep_imports(**_: Any) -> None:
    """Sends again what waits or was abandoned."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id FROM journals_import WHERE state = 'queued' AND created_at < now() - interval '20 seconds'"
            " OR state = 'running' AND beat_at < now() - make_interval(secs => %s) ORDER BY created_at LIMIT 100",
            [ingest.STALE_S],
        )
        waiting = [import_id for (import_id,) in cursor.fetchall()]
    for import_id in waiting:
        nudge(import_id)


@shared_task(name="journals.tasks.drop_files")
def drop_files(**_: Any) -> None:
    """Forgets imported files that are older than `IMPORT_FILES_DAYS`."""
    if settings.IMPORT_FILES_DAYS:
        drop_older(days=settings.IMPORT_FILES_DAYS)


def nudge(import_id: int) -> None:
    """Tells a worker about an import. A broker that is away is logged; the sweep tells again."""
    try:
        run_import.delay(import_id=import_id)
    except (OperationalError, psycopg.Error, OSError) as e:
        log.warning("import %s waits for the sweep: the broker is away (%s)", import_id, e)
