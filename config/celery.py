"""The Celery application. Tasks live in each app's ``tasks.py``, and so does what beat sends.

An app that wants something done regularly has in its ``tasks.py``::

    SCHEDULE = {"app.tasks.sweep": 30.0}    # task name: seconds between two nudges

The row in PostgreSQL is the truth and a message only a nudge: tasks are idempotent.
"""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from celery import Celery
from celery.signals import setup_logging
from django.apps import apps

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
app = Celery("drainboard")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@setup_logging.connect  # type: ignore[untyped-decorator]
def keep_django_logging(**_: Any) -> None:
    """Being connected is enough: Celery then leaves logging as the settings made it."""


@app.on_after_finalize.connect  # type: ignore[untyped-decorator]
def collect_schedules(sender: Celery, **_: Any) -> None:
    """Read SCHEDULE of every app's tasks into beat's list. Raises ValueError for a doubled or bad entry."""
    for config in apps.get_app_configs():
        name = f"{config.name}.tasks"
        if find_spec(name) is None:
            continue
        for task, seconds in getattr(import_module(name), "SCHEDULE", {}).items():
            if task in sender.conf.beat_schedule or not seconds > 0:
                raise ValueError(f"{name}.SCHEDULE: {task!r} every {seconds!r} s is doubled or not positive")
            sender.conf.beat_schedule[task] = {"task": task, "schedule": float(seconds)}
