"""`manage.py show_run RUN [--source S] [--json]`: one run by its id or key."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from drainboard import wire

from journals import errors, store
from journals.adapters import ADAPTERS
from journals.store import HeadRow
from runs.safe import escaped, shown
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
            self.stdout.write(escaped(wire.encode(made).decode("utf-8")))
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
        return _only_execution(run, source, e)


def _only_execution(name: str, source: str | None, unknown: errors.UnknownRun) -> HeadRow:
    """The one execution of a name, where a runtime's run ids hold both; several are a `CommandError` that lists them."""
    chained = {runtime: a.INFO.chain_separator for runtime, a in ADAPTERS.items() if a.INFO.chain_separator}
    found = store.find_executions(name, chained=chained, source=source)
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(shown(h.run) for h in found)
        raise CommandError(
            f"AmbiguousRun: {shown(name)!r} has {len(found)} executions: {ids}. Name one of them."
        ) from None
    raise CommandError(f"{unknown.code}: {shown(unknown.message)}") from None
