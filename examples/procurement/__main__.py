"""`python -m examples.procurement start` begins a purchase and parks on its approval; `… work` goes on with what may go on."""

from __future__ import annotations

import argparse
import json
import sys
import uuid
from pathlib import Path
from typing import Any

import drainboard
from drainboard.agent import default_environment

from examples.processes import ask, outcomes_of, service, worker


def main(argv: list[str] | None = None) -> int:
    given = _parser().parse_args(argv)
    with drainboard.from_environment(url=given.url, token=given.token) as client:
        key = given.key or _start(client, given)
        result = work(client, given, key)
    sys.stdout.write(json.dumps(result) + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m examples.procurement", description="An order that waits for a yes."
    )
    parser.add_argument("what", choices=["start", "work"])
    parser.add_argument("--key", help="work: the run's key, as `start` printed it")
    parser.add_argument("--build", choices=["1", "2"], default="1")
    parser.add_argument("--item", default="chair", choices=["chair", "desk"])
    parser.add_argument("--quantity", type=int, default=20)
    parser.add_argument("--data", type=Path, default=Path(".procurement"), help="where the supplier keeps its ledger")
    parser.add_argument("--url", help="default: DRAINBOARD_URL")
    parser.add_argument("--token", help="default: DRAINBOARD_TOKEN")
    parser.add_argument("--environment", default=default_environment())
    return parser


def _start(client: drainboard.Client, given: argparse.Namespace) -> str:
    if given.what == "work":
        raise SystemExit("work needs --key")
    wish = {"item": given.item, "quantity": given.quantity}
    run = f"procurement-{given.item}-{uuid.uuid4().hex[:8]}"
    return client.start("procurement", wish, run_id=run, environment=given.environment).key


def work(client: drainboard.Client, given: argparse.Namespace, key: str) -> dict[str, Any]:
    """A worker of this build goes on with whatever may go on; how this run then stands, and what was ordered."""
    given.data.mkdir(parents=True, exist_ok=True)
    with service(given.data / "orders.jsonl") as port:
        variables = {
            "DRAINBOARD_URL": client.http.url,
            "DRAINBOARD_TOKEN": client.http.token,
            "PROCUREMENT_SUPPLIER_PORT": str(port),
        }
        arguments = ["--build", given.build, "--environment", given.environment, "--poll", "0.2", "--until-idle"]
        process = worker(f"examples.procurement.agent:build_{given.build}", *arguments, variables=variables)
        outcomes_of(process)
        orders = ask(port, "/ledger")["entries"]
    shown = client.show(key)
    return {
        "run": shown["run"],
        "key": key,
        "status": shown["status"],
        "parked_on": shown.get("parked_on"),
        "orders": [e["order"] for e in orders],
    }


if __name__ == "__main__":
    sys.exit(main())
