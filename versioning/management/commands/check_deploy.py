"""What a build would do to the runs in flight. Exit 0: nothing mismatched or unknown; 1: something is; 2: it cannot be told."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from journals.errors import Refused
from runs import projection
from runs.safe import escaped, shown
from versioning import assessing, buildfile, queries, registering, ruling
from versioning.assessing import Assessed
from versioning.models import Build


class Command(BaseCommand):
    help = "Say which runs in flight a build touches. The build is a registered label or a build file."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--agent", required=True)
        parser.add_argument("--build", required=True, help="a registered label, or the path of a build file")
        parser.add_argument("--env", default="", help="only runs of this environment; default: all")
        parser.add_argument("--json", action="store_true", help="print the object of docs/check-deploy.schema.json")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            projection.catch_up()
            began = time.monotonic()
            assessed, label = _assess(options["agent"], options["build"], options["env"])
            made = queries.check(assessed, build=label, elapsed_ms=0)
            made["elapsed_ms"] = round((time.monotonic() - began) * 1000, 1)
        except (Refused, buildfile.BadBuildFile) as e:
            raise CommandError(shown(str(e)), returncode=2) from None
        known = queries.environments()
        if options["env"] and options["env"] not in known:
            said = f"no run is in flight in environment {options['env']!r}{registering.nearest(options['env'], known)}"
            self.stderr.write(shown(said))
        if options["json"]:
            self.stdout.write(escaped(json.dumps(made, ensure_ascii=False)))
        else:
            self.stdout.write("\n".join(map(shown, _lines(assessed, label))))
        if not queries.safe(assessed):
            sys.exit(1)


def _assess(agent: str, build: str, environment: str) -> tuple[Assessed, str]:
    """The assessment, and the build's label. A registered label goes before a file of the same name."""
    now = timezone.now()
    found = Build.objects.filter(agent=agent, label=build).first()
    if found is not None:
        return assessing.assess_build(found, environment=environment, now=now), found.label
    path = Path(build)
    if not path.is_file():
        registering.find(agent=agent, label=build)
    described = buildfile.read(path.read_bytes())
    if described.agent != agent:
        raise buildfile.BadBuildFile(f"{path} describes agent {described.agent!r}, not {agent!r}")
    return assessing.assess_file(described, environment=environment, now=now), described.label


def _lines(assessed: Assessed, label: str) -> list[str]:
    counts = ", ".join(f"{n} {verdict}" for verdict, n in assessed.verdicts().items() if n)
    where = f" in {assessed.environment}" if assessed.environment else ""
    said = [f"{assessed.agent} → build {label}{where}: {assessed.runs} runs in flight ({counts or 'none'})"]
    for group in assessed.groups:
        said.append(f"  {group.verdict:<10} {group.count:>6}  {_what(group)}")
        said.append(f"{'':21}{group.in_step} in a step, {group.parked} parked, {group.stranded} with no live worker")
    if assessed.not_started:
        said.append(f"  not opened {assessed.not_started:>6}  they take whatever build opens them")
    return said


def _what(group: assessing.Group) -> str:
    if group.verdict == "same":
        return "nothing differs"
    return ruling.in_words(group.differences)
