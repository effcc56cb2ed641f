"""`manage.py populate`: fills a new installation with runs that really ran, so that every page shows something true.

It speaks to the running server like any team would: tokens, the API, the examples' own commands.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from drainboard.client import Client

from journals import access
from runs.approvals import policies

EXAMPLES = Path(settings.BASE_DIR) / "examples"
TOKEN_NAME = "populate"  # noqa: S105 - a name
REFUNDS = (
    ("refund-8812-key", "stable", "hold"),
    ("refund-8812-warn", "planted", "warn"),
    ("refund-8812-hold", "planted", "hold"),
)
ORDERS = (("chair", 20), ("desk", 4), ("chair", 6))


class Command(BaseCommand):
    help = "Fill the running server with the example runs. Runs that are there stay as they are."

    def add_arguments(self, parser: CommandParser) -> None:
        default = f"http://127.0.0.1:{os.environ.get('PORT', '8765')}"
        parser.add_argument("--url", default=os.environ.get("DRAINBOARD_URL") or default)

    def handle(self, *args: Any, url: str, **options: Any) -> None:
        secrets = {}
        try:
            for scope in ("worker", "ci"):
                secrets[scope] = access.create_token(TOKEN_NAME, scope=scope, created_by="populate", days=1)[1]
            with Client(url, secrets["worker"]) as worker, Client(url, secrets["ci"]) as pipeline:
                self._refunds(worker, pipeline, secrets["worker"])
                self._captures(pipeline)
                self._orders(worker, pipeline, secrets["worker"])
        finally:
            access.revoke_named(TOKEN_NAME)

    def _refunds(self, client: Client, pipeline: Client, token: str) -> None:
        """A worker killed inside a refund: with a stable key, and with a planted random one in both modes."""
        _register(pipeline, "refund", "build.json")
        there = {r["run"] for r in pipeline.http.call("GET", "/runs?agent=refund")["runs"]}
        for run, key, mode in (r for r in REFUNDS if r[0] not in there):
            told = _example(
                "refund",
                "--run",
                run,
                "--key",
                key,
                "--mode",
                mode,
                "--environment",
                "demo",
                client=client,
                token=token,
            )
            self.stdout.write(f"  {run}: {told['status']}, {told['provider_refunds']} refund(s) at the provider")

    def _captures(self, client: Client) -> None:
        for name, source in (
            ("temporal-refund-recovered.json", "temporal-example"),
            ("dbos-refund-recovered.json", "dbos-example"),
        ):
            path = f"/imports?filename={name}&source={source}&agent=refund&environment=demo&wait=30"
            told = client.http.send(
                "POST", path, (EXAMPLES / "captures" / name).read_bytes(), {"Content-Type": "application/json"}
            ).json()
            runs = sum(len(f["runs"]) for f in told["files"])
            self.stdout.write(f"  {name}: {runs} run(s)")

    def _orders(self, client: Client, pipeline: Client, token: str) -> None:
        """Purchases that park on their approvals, and a build with another prompt that is about to come."""
        if policies.current("procurement", "place_order") is None:
            policies.save(agent="procurement", tool="place_order", actor="populate", expires_s=7 * 86_400)
        for build in ("build-1.json", "build-2.json"):
            _register(pipeline, "procurement", build)
        for item, quantity in ORDERS:
            arguments = (
                "start",
                "--item",
                item,
                "--quantity",
                str(quantity),
                "--environment",
                "demo",
                "--data",
                str(Path(settings.DRAINBOARD_DATA) / "examples"),
            )
            told = _example("procurement", *arguments, client=client, token=token)
            self.stdout.write(f"  {told['run']}: {told['status']}")
        if pipeline.http.call("GET", "/deploys")["deploys"]:
            return
        made = pipeline.http.call("POST", "/deploys", {"agent": "procurement", "environment": "demo", "build": "2"})
        self.stdout.write(f"  deploy of procurement build 2: {made['runs']} run(s) in flight to decide about")


def _register(client: Client, agent: str, name: str) -> None:
    client.register_build(json.loads((EXAMPLES / agent / name).read_text(encoding="utf-8")))


def _example(name: str, *arguments: str, client: Client, token: str) -> Mapping[str, Any]:
    """Runs `python -m examples.<name>` and answers what it printed. Raises `CommandError` with its last words."""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-m", f"examples.{name}", *arguments], cwd=settings.BASE_DIR, capture_output=True, text=True, check=False, timeout=180,
        env={**os.environ, "DRAINBOARD_URL": client.http.url, "DRAINBOARD_TOKEN": token},
    )  # fmt: skip
    if done.returncode != 0:
        raise CommandError(f"example {name} ended with {done.returncode}: {done.stderr.strip()[-800:]}")
    answer: Mapping[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer
