"""`manage.py verify_journals [RUN…] [--source S] [--json]`: recomputes the chain of every journal, or of some."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from drainboard import wire

from journals import store
from runs.management.commands.show_run import find_run
from runs.projection import all_heads
from runs.safe import shown


class Command(BaseCommand):
    """Exit 0 when every chain holds, 1 otherwise. Finds every edit short of a full rewrite of a run's entries and head."""

    help = "Checks that stored journals are what was recorded."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("runs", nargs="*", help="ids or keys; without any, every run")
        parser.add_argument("--source", help="the source of the runs named")
        parser.add_argument("--json", action="store_true", help="one JSON object")

    def handle(self, *_: Any, **options: Any) -> None:
        checked = entries = 0
        bad: list[dict[str, Any]] = []
        for head_id in _heads(options["runs"], options["source"]):
            found = store.verify(head_id)
            checked += 1
            entries += found.entries
            if not found.ok:
                head = store.head(head_id)
                bad.append(
                    {
                        "run": head.run,
                        "source": head.source,
                        "key": head.key,
                        "pos": found.bad_pos,
                        "reason": found.reason,
                    }
                )
        if options["json"]:
            self.stdout.write(
                wire.encode({"ok": not bad, "runs": checked, "entries": entries, "bad": bad}).decode("utf-8")
            )
        else:
            for b in bad:
                self.stdout.write(
                    shown(f"run {b['run']} in {b['source']} (key {b['key']}): {b['reason']}, at position {b['pos']}")
                )
            self.stdout.write(
                f"{checked:,} runs, {entries:,} entries checked: {len(bad)} do not hold."
                if bad
                else f"{checked:,} runs, {entries:,} entries: every chain holds."
            )
        if bad:
            sys.exit(1)


def _heads(runs: list[str], source: str | None) -> Iterator[int]:
    if runs:
        yield from (find_run(run, source).id for run in runs)
        return
    for batch in all_heads(1_000):
        yield from batch
