"""`manage.py show_run RUN [--source S] [--json]`: one run by its id or key."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from drainboard import wire

from journals import errors, store
from journals.store import HeadRow
from runs.safe import shown
from runs.show import as_text, show


class Command(BaseCommand):
    """Prints the run as text, or as the object of `docs/show-run.schema.json`."""

    help = "Shows one run: status, gaps, findings, steps, approvals, decisions."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("run", help="the run's id, or its key")
        parser.add_argument("--source", help="the source, where several have a run of this id")
        parser.add_argument("--json", action="store_true", help="one JSON object")

    def handle(self, *_: Any, **options: Any) -> None:
        made = show(find_run(options["run"], options["source"]).id)
        if options["json"]:
            self.stdout.write(wire.encode(made).decode("utf-8"))
        else:
            text = as_text(made)
            encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
            self.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))


def find_run(run: str, source: str | None) -> HeadRow:
    """The run by id, else by key. Several sources with the id, or none, is a `CommandError` that says so."""
    try:
        return store.find(run=run, source=source)
    except errors.AmbiguousRun as e:
        names = ", ".join(shown(s) for s in e.detail["sources"])
        raise CommandError(
            f"{e.code}: run {shown(run)!r} is in several sources: {names}. Name one with --source."
        ) from None
    except errors.UnknownRun as e:
        if source is None:
            with suppress(errors.UnknownRun):
                return store.find(key=run)
        raise CommandError(f"{e.code}: {shown(e.message)}") from None
