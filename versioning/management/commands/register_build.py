"""Registers a build file, as CI does over the API."""

from __future__ import annotations

import getpass
import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from journals.errors import Refused
from runs.safe import escaped, shown
from versioning import registering
from versioning.api import build_json
from versioning.models import Build


class Command(BaseCommand):
    help = "Register a build file. The same contents again change nothing; other contents under its label are refused."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--json", action="store_true")

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["file"]
        try:
            raw = path.read_bytes()
        except OSError as e:
            raise CommandError(shown(f"{path}: {e.strerror}")) from None
        try:
            described = registering.read_file(raw)
            build, created = registering.register(
                described, seen_from=Build.FirstSeen.CI, by=f"command:{getpass.getuser()}"
            )
        except Refused as e:
            raise CommandError(shown(f"{path}: {e}")) from None
        if options["json"]:
            self.stdout.write(escaped(json.dumps({**build_json(build), "created": created}, ensure_ascii=False)))
            return
        what = "registered" if created else "was registered before"
        self.stdout.write(shown(f"build {build.label} of {build.agent} {what}: {build.digest}"))
