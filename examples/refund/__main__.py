"""Kills a worker inside the refund and lets another one finish: `python -m examples.refund --key stable|planted --mode hold|warn`.

No pause decides when to kill: the payment provider says when it has accepted the refund, and keeps its answer back.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

import drainboard
from drainboard.agent import default_environment

from examples.processes import ask, outcome_of, service, told, worker

TASK = "The vase of order 8812 came broken. Please refund it."
AGENTS = {"stable": "examples.refund.agent:refund", "planted": "examples.refund.agent:planted"}


def main(argv: list[str] | None = None) -> int:
    given = _parser().parse_args(argv)

    def story() -> tuple[int, dict[str, Any]]:
        with drainboard.from_environment(url=given.url, token=given.token) as client:
            return 0, tell_the_story(client, given, token=client.http.token)

    return told(story)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m examples.refund", description="A crash in the middle of a refund.")
    parser.add_argument(
        "--key", choices=sorted(AGENTS), default="stable", help="run.key(), or a key that changes on replay"
    )
    parser.add_argument(
        "--mode", choices=["hold", "warn"], default="hold", help="what a replay does that leaves the record"
    )
    parser.add_argument("--url", help="default: DRAINBOARD_URL")
    parser.add_argument("--token", help="default: DRAINBOARD_TOKEN")
    parser.add_argument("--run", default=None, help="run id; default: a new one")
    parser.add_argument("--environment", default=default_environment())
    parser.add_argument(
        "--lease", type=float, default=2, help="seconds; the second worker waits so long for the first one's run"
    )
    return parser


def tell_the_story(client: drainboard.Client, given: argparse.Namespace, *, token: str) -> dict[str, Any]:
    """Two workers, one run: what was called and paid, and how the run stands."""
    run = given.run or f"refund-8812-{uuid.uuid4().hex[:8]}"
    started = client.start("refund", TASK, run_id=run, environment=given.environment)
    with tempfile.TemporaryDirectory() as folder:
        calls = Path(folder) / "model-calls"
        calls.touch()
        with service(Path(folder) / "ledger.jsonl", "--hold-first") as port:
            variables = {
                "DRAINBOARD_URL": client.http.url,
                "DRAINBOARD_TOKEN": token,
                "REFUND_MODEL_CALLS": str(calls),
                "REFUND_PROVIDER_PORT": str(port),
            }
            arguments = ["--build", "1", "--environment", given.environment, "--agent-mode", given.mode]
            arguments += ["--lease", str(given.lease), "--poll", "0.2", "--run", started.key]
            _die_inside_the_refund(worker(AGENTS[given.key], *arguments, variables=variables), port)
            outcome = outcome_of(worker(AGENTS[given.key], *arguments, variables=variables))
            ledger = ask(port, "/ledger")
        counted = len(calls.read_text(encoding="utf-8").splitlines())
    return {
        "run": run,
        "key": started.key,
        "model_calls": counted,
        "provider_refunds": len(ledger["entries"]),
        "provider_requests": ledger["requests"],
        "status": client.show(started.key)["status"],
        "worker": outcome["status"],
        "reason": outcome["reason"],
    }


def _die_inside_the_refund(process: subprocess.Popen[str], port: int) -> None:
    """Ends the first worker, the hard way, when the provider has accepted the refund and not yet answered."""
    try:
        ask(port, "/accepted")
        if process.poll() is not None:
            raise RuntimeError(f"the first worker ended by itself with code {process.returncode}")
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()


if __name__ == "__main__":
    sys.exit(main())
