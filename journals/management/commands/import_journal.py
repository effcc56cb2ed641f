"""`manage.py import_journal PATH…`: imports files and folders, and reports on each."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from journals import errors, ingest
from journals.adapters.base import shown
from journals.files import gather
from journals.imports_report import FileReport, exit_code, report


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
        if code := exit_code(told):
            sys.exit(code)

    def _tell(self, file: FileReport) -> None:
        counts = f"{file['entries_read']} of {file['lines']} read" if file["state"] != "refused" else "nothing taken"
        self.stdout.write(f"{file['state']:9} {shown(file['path'], 200)}  {file['format']}  {counts}")
        if file["reason"]:
            self.stdout.write(f"          {shown(file['reason'], 500)}")
        for note in file["notes"]:
            self.stdout.write(f"          note: {shown(note, 500)}")
        for lost in file["unread"]:
            self.stdout.write(
                f"          line {lost['line']}, byte {lost['byte']}: {shown(lost['reason'], 200)}: {shown(lost['start'])}"
            )
        for run in file["runs"]:
            conflicts = f", conflicts at {', '.join(map(str, run['conflicts']))}" if run["conflicts"] else ""
            if run["standing_conflicts"]:
                conflicts += f", conflicts since before at {', '.join(map(str, run['standing_conflicts']))}"
            self.stdout.write(
                f"          run {shown(run['run'])}  {run['key']}  {run['status']}: {run['new_entries']} new,"
                f" {run['existing_entries']} known{conflicts}"
            )
