"""Cloudflare Workflows: every attempt is recorded before it runs; one that died stays open, and the next one is appended."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from tests.verdicts.world import Shown, Step, Unit, World


def stamp(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%S.") + f"{when.microsecond // 1000:03}Z"


class Cloudflare(World):
    runtime = "cloudflare"
    kinds = ("model", "tool", "timer", "approval", "parallel")
    branch_steps = 1  # the counter of a name is given in the order of calls
    zombie_possible = False  # one thread an instance
    leaves_out = "a restart of the instance, which deletes its record"

    def setup(self) -> None:
        self.steps: list[dict[str, Any]] = []
        self.by_id: dict[int, dict[str, Any]] = {}
        self.names: dict[int, str] = {}
        self.counts: dict[str, int] = {}
        self.name(self.plan)
        self.top: dict[str, Any] = {}
        self.cloud = self.dice.random() < 0.5  # the local engine says running while it waits

    def name(self, steps: list[Step]) -> None:
        for step in steps:
            for branch in step.branches:
                self.name(branch)
            plain = {"timer": "cool off", "approval": "wait for human approval"}.get(step.kind, step.name)
            if step.kind != "parallel":
                self.counts[plain] = self.counts.get(plain, 0) + 1
                self.names[step.id] = f"{plain}-{self.counts[plain]}"

    def unit_of(self, shown: Shown) -> Unit | None:
        return next((u for u in self.units.values() if self.names[u.step.id] == shown.call), None)

    def started(self) -> None:
        at = stamp(self.now)
        self.top = {
            "status": "running",
            "params": {"order": 1},
            "queued": at,
            "start": at,
            "end": None,
            "output": None,
            "error": None,
        }

    def record(self, step: Step, **fields: Any) -> dict[str, Any]:
        if step.id not in self.by_id:
            made = {"name": self.names[step.id], "start": stamp(self.now), "end": None, **fields}
            self.by_id[step.id] = made
            self.steps.append(made)
        return self.by_id[step.id]

    def start(self, step: Step, n: int, life: int) -> bool:
        config = {"retries": {"limit": 5, "backoff": "constant", "delay": 1000}, "timeout": "10 minutes"}
        row = self.record(step, success=None, type="step", config=config, attempts=[])
        row["attempts"].append({"start": stamp(self.now), "end": None, "success": None, "error": None})
        return True

    def answer(self, step: Step, n: int, outcome: str, life: int, *, again: bool) -> bool:
        if life != self.life or self.ended:
            return False
        row = self.by_id[step.id]
        good = outcome == "ok"
        error = None if good else {"name": {"error": "CardDeclined", "silent": "ReadTimeout"}[outcome], "message": "no"}
        row["attempts"][-1] |= {"end": stamp(self.now), "success": good, "error": error}
        if not again:
            row |= {"end": stamp(self.now), "success": good}
            if good:
                row["output"] = {"n": step.id}
        return True

    def waits(self, step: Step, life: int) -> None:
        kind = {"timer": "sleep", "approval": "waitForEvent"}[step.kind]
        self.record(step, finished=False, type=kind, error=None)

    def woke(self, step: Step, life: int) -> None:
        row = self.by_id[step.id]
        row |= {"end": stamp(self.now), "finished": True}
        if step.kind == "approval":
            row["output"] = {
                "type": "approval",
                "payload": {"approved": True, "by": "bob"},
                "timestamp": stamp(self.now),
            }

    def finished(self, status: str, life: int) -> None:
        good = status == "completed"
        self.top |= {"status": "complete" if good else "errored", "end": stamp(self.now)}
        self.top |= {"output": "ok"} if good else {"error": {"name": "E", "message": "no"}}

    def cancel(self) -> bool:
        self.top |= {"status": "terminated", "end": stamp(self.now)}
        self.ended = "stopped"
        return True

    def export(self) -> dict[str, bytes]:
        top = dict(self.top)
        if (
            self.cloud
            and self.parked
            and not self.ended
            and not any(s["type"] == "step" and s["end"] is None for s in self.steps)
        ):
            top["status"] = "waiting"
        answer = {
            "success": True,
            "errors": [],
            "messages": [],
            "result": {**top, "steps": self.steps, "step_count": len(self.steps)},
        }
        return {"refund@i-1.json": json.dumps(answer).encode()}
