"""`manage.py import_journal PATH…`: imports files and folders, and reports on each."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError

from journals import errors, ingest
from journals.adapters.base import shown
from journals.files import gather
from journals.imports_report import FileReport, Report, exit_code, report

UNREAD: Final = 20  # unread lines of a file that are printed


class Command(BaseCommand):
    """Exit code 0: every file complete; 1: something partial; 2: something refused."""

    help = "Imports exported journals; a folder or several files that belong together are one import."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("paths", nargs="+", metavar="PATH", help="a file or a folder")
        parser.add_argument("--format", default="auto", choices=ingest.FORMATS)
        parser.add_argument("--source", default="", help="where the runs come from; by default the name of the format")
        parser.add_argument("--agent", default="", help="the agent of runs that do not name one")
        parser.add_argument("--environment", default="")
        parser.add_argument("--json", action="store_true", help="print the report as JSON")

    def handle(self, *, paths: list[str], **options: Any) -> None:
        given = {name: options[name] for name in ("format", "source", "agent", "environment")}
        try:
            made = ingest.submit(list(gather(paths)), actor="command", **given)
        except errors.Refused as e:
            raise CommandError(e.message, returncode=2) from None
        ingest.run(made.pk)
        made.refresh_from_db()
        told = report(made)
        if options["json"]:
            # Escaped down to ASCII: nothing of a journal's content can act on the terminal.
            self.stdout.write(json.dumps(told, ensure_ascii=True, indent=2).replace("\x7f", "\\u007f"))
        else:
            for file in told["files"]:
                self._tell(file)
            self._sum_up(told)
        if code := exit_code(told):
            sys.exit(code)

    def _sum_up(self, told: Report) -> None:
        """The last lines: why an import was given up, each file that is not complete with its reason again, and the counts."""
        files = told["files"]
        if told["failure"]:
            self.stdout.write(f"given up: {shown(told['failure'], 500)}")
        lacking = [f for f in files if f["state"] != "complete"]
        for file in lacking if any(f["unread"] or f["runs"] for f in files) else ():
            self.stdout.write(f"{file['state']:9} {shown(file['path'], 200)}: {shown(file['reason'], 500)}")
        states = [f"{n} {s}" for s in ("complete", "partial", "refused") if (n := sum(f["state"] == s for f in files))]
        entries, unread = sum(f["entries_read"] for f in files), sum(f["unread_lines"] for f in files)
        self.stdout.write(
            f"import {told['id']}: {', '.join(states) or 'no file'}; {entries:,} read, {unread:,} not read"
        )

    def _tell(self, file: FileReport) -> None:
        counts = f"{file['entries_read']} of {file['lines']} read" if file["state"] != "refused" else "nothing taken"
        self.stdout.write(f"{file['state']:9} {shown(file['path'], 200)}  {file['format']}  {counts}")
        if file["reason"]:
            self.stdout.write(f"          {shown(file['reason'], 500)}")
        for note in file["notes"]:
            self.stdout.write(f"          note: {shown(note, 500)}")
        for lost in file["unread"][:UNREAD]:
            self.stdout.write(
                f"          line {lost['line']}, byte {lost['byte']}: {shown(lost['reason'], 200)}: {shown(lost['start'])}"
            )
        if (more := file["unread_lines"] - UNREAD) > 0:
            self.stdout.write(f"          and {more:,} more not read; --json has {_listed(file)}")
        for run in file["runs"]:
            conflicts = f", conflicts at {', '.join(map(str, run['conflicts']))}" if run["conflicts"] else ""
            if run["standing_conflicts"]:
                conflicts += f", conflicts since before at {', '.join(map(str, run['standing_conflicts']))}"
            self.stdout.write(
                f"          run {shown(run['run'])}  {run['key']}  {run['status']}: {run['new_entries']} new with notes,"
                f" {run['existing_entries']} known{conflicts}"
            )


def _listed(file: FileReport) -> str:
    kept = len(file["unread"])
    return "all" if kept >= file["unread_lines"] else f"the first {kept - 1:,}"
