"""`python -m examples.procurement start` begins a purchase and parks on its approval; `… work` goes on with what may go on."""

from __future__ import annotations

import argparse
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import drainboard
from drainboard.agent import default_environment

from examples.processes import BASE, ask, outcomes_of, service, told, worker

DATA = BASE / ".drainboard" / "examples"


def main(argv: list[str] | None = None) -> int:
    given = _parser().parse_args(argv)

    def story() -> tuple[int, dict[str, Any]]:
        with drainboard.from_environment(url=given.url, token=given.token) as client:
            return work(client, given, given.key or _start(client, given))

    return told(story)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m examples.procurement", description="An order that waits for a yes."
    )
    parser.add_argument("what", choices=["start", "work"])
    parser.add_argument("--key", help="work: the run's key, as `start` printed it")
    parser.add_argument("--build", choices=["1", "2"], default="1")
    parser.add_argument("--item", default="chair", choices=["chair", "desk"])
    parser.add_argument("--quantity", type=int, default=20)
    parser.add_argument("--data", type=Path, default=DATA, help="where the supplier keeps its ledger")
    parser.add_argument("--url", help="default: DRAINBOARD_URL")
    parser.add_argument("--token", help="default: DRAINBOARD_TOKEN")
    parser.add_argument("--environment", default=default_environment())
    return parser


def _start(client: drainboard.Client, given: argparse.Namespace) -> str:
    if given.what == "work":
        raise ValueError("work needs --key: the run's key, as start printed it")
    wish = {"item": given.item, "quantity": given.quantity}
    run = f"procurement-{given.item}-{uuid.uuid4().hex[:8]}"
    return client.start("procurement", wish, run_id=run, environment=given.environment).key


def work(client: drainboard.Client, given: argparse.Namespace, key: str) -> tuple[int, dict[str, Any]]:
    """A worker of this build goes on with whatever may go on; how this run then stands, what was ordered, and why nothing was.

    The code is 1 when the run is pinned to another build.
    """
    before = client.show(key)
    if before["agent"] != "procurement":
        raise ValueError(f"run {before['run']} is one of agent {before['agent']}, not of procurement")
    given.data.mkdir(parents=True, exist_ok=True)
    with service(given.data / "orders.jsonl") as port:
        variables = {
            "DRAINBOARD_URL": client.http.url,
            "DRAINBOARD_TOKEN": client.http.token,
            "PROCUREMENT_SUPPLIER_PORT": str(port),
        }
        where = before.get("environment") or given.environment
        arguments = ["--build", given.build, "--environment", where, "--poll", "0.2", "--until-idle"]
        process = worker(f"examples.procurement.agent:build_{given.build}", *arguments, variables=variables)
        outcomes_of(process)
        orders = ask(port, "/ledger")["entries"]
    shown = client.show(key)
    made = {
        "run": shown["run"],
        "key": key,
        "status": shown["status"],
        "parked_on": shown.get("parked_on"),
        "orders": [e["order"] for e in orders],
    }
    why = _why_nothing(before, shown, given.build)
    if why:
        made["nothing_done"] = why
    return int(why.startswith("pinned")), made


def _why_nothing(before: Mapping[str, Any], shown: Mapping[str, Any], build: str) -> str:
    """Why this worker did nothing on the run; empty when it did something."""
    if shown["entries"] != before["entries"] and shown["status"] != "held":
        return ""
    pinned = shown.get("pinned_to")
    if pinned and pinned != build:
        return f"pinned to build {pinned}: a worker of build {build} is refused; run this with --build {pinned}"
    if before.get("ended_at"):
        return f"the run is over: {shown['status']}"
    if shown["status"] == "held":
        return "held: somebody has to pin, continue or stop it on the deploy page first"
    if any(
        a.get("id") == (shown.get("parked_on") or "").partition(":")[2] and a.get("state") == "requested"
        for a in shown["approvals"]
    ):
        return "it waits for its approval: decide on it on the page /approvals/"
    if shown.get("build") and shown["build"] != build:
        return f"it is on build {shown['build']}, and nobody has decided that build {build} may take it"
    return f"it is {shown['status']}, and no worker of build {build} may take it now"


if __name__ == "__main__":
    sys.exit(main())
