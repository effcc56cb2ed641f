"""An agent in four builds that differ in their prompt, for workers that are processes of their own."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import drainboard

GATE = Path(os.environ.get("AGENTS_GATE", "/nowhere"))


def think(messages: list[Any]) -> dict[str, Any]:
    return {"words": len(messages)}


def send(order: dict[str, Any], key: str) -> str:
    """The write. An order that is `slow` takes until the gate's file is there, so that its step is in flight for a while."""
    if order.get("slow"):
        (GATE.parent / f"in-{order['n']}").touch()
        while not GATE.exists():
            time.sleep(0.02)
    with (GATE.parent / "sent").open("a") as ledger:
        ledger.write(f"{key}\n")
    return f"sent {order['n']}"


def _build(label: str) -> drainboard.Agent:
    versions = {"app": "app-1", "prompt": f"policy@{label}", "model": "m-5", "tools": {"send": "sha256:a1"}}

    @drainboard.agent("fleet", versions=versions)
    def fleet(run: drainboard.Run, task: Any) -> Any:
        run.model("decide", think, [f"policy {label}", task])
        run.tool("send", send, task, key=run.key())
        said = run.signal("go")
        run.model("close", think, [f"policy {label}", said])
        return run.tool("send", send, {"n": f"{task['n']}-end"}, key=run.key())

    return fleet


build_38, build_39, build_40, build_41 = (_build(label) for label in ("38", "39", "40", "41"))
