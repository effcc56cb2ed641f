"""`manage.py rebuild_runs`: makes every run's row again out of its journal."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from drainboard import wire

from runs import projection


class Command(BaseCommand):
    """The journal is the truth and the rows of runs are made of it; this makes them all again."""

    help = "Folds every run's journal again and rewrites the rows that differ."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON object")

    def handle(self, *_: Any, **options: Any) -> None:
        done = projection.rebuild()
        self.stdout.write(
            wire.encode({"runs": done}).decode() if options["json"] else f"{done:,} runs rebuilt from their journals."
        )
