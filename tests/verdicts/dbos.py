"""DBOS: one row per step, written when it has ended; tries inside a step, and steps under way, leave nothing."""

from __future__ import annotations

import json
from typing import Any

from tests.verdicts.world import Shown, Step, Unit, World


class Dbos(World):
    runtime = "dbos"
    branch_kinds = ("model", "tool", "child")
    leaves_out = "a step beside a sleep or a receive of the same run: the rows are those of a run that only waits"
    branch_steps = 1  # gathered calls take their numbers before any of them runs

    def setup(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.numbers: dict[int, int] = {}
        self.count = 0
        self.number(self.plan)
        self.status: dict[str, Any] = {}
        self.messages: list[dict[str, Any]] = []
        self.begun_ms: dict[int, int] = {}
        self.most = self.dice.choice((3, 100))

    def number(self, steps: list[Step]) -> None:
        for step in steps:
            if step.kind == "parallel":
                for branch in step.branches:
                    self.number(branch)
                continue
            self.numbers[step.id] = self.count + 1
            self.count += 2 if step.kind in ("approval", "child") else 1

    @property
    def ms(self) -> int:
        return int(self.now.timestamp() * 1000)

    def row(
        self, number: int, name: str, *, started: int | None = None, done: int | None = None, **fields: Any
    ) -> None:
        if any(r["function_id"] == number for r in self.rows):
            return
        made = {
            "workflow_uuid": "w", "function_id": number, "function_name": name, "output": None, "error": None, "child_workflow_id": None,
            "started_at_epoch_ms": self.ms if started is None else started, "completed_at_epoch_ms": self.ms if done is None else done,
            "serialization": "portable_json", "application_name": "a", "retention_timestamp": self.ms,
        }  # fmt: skip
        self.rows.append({**made, **fields})

    def unit_of(self, shown: Shown) -> Unit | None:
        return next((u for u in self.units.values() if self.numbers[u.step.id] == shown.number), None)

    def shown_name(self, name: str | None) -> str | None:
        return None if name == "DBOS.getResult" else name

    def started(self) -> None:
        self.status = {
            "workflow_uuid": "w", "status": "PENDING", "name": "refund_agent", "executor_id": "local", "created_at": self.ms, "updated_at": self.ms,
            "application_version": "1", "recovery_attempts": 1, "queue_name": None, "started_at_epoch_ms": None, "owner_xid": "x1",
            "forked_from": None, "was_forked_from": False, "completed_at": None, "serialization": "portable_json", "attributes": None,
            "workflow_deadline_epoch_ms": None, "delay_until_epoch_ms": None, "parent_workflow_id": None, "inputs": None, "output": None, "error": None,
        }  # fmt: skip

    def recovered(self) -> None:
        self.status["recovery_attempts"] += 1
        if self.status["recovery_attempts"] > self.most + 1:
            self.status.update(
                status="MAX_RECOVERY_ATTEMPTS_EXCEEDED", updated_at=self.ms, owner_xid=None, queue_name=None
            )
            self.given_up = True
            return
        self.status.update(
            queue_name="_dbos_internal_queue",
            started_at_epoch_ms=self.ms,
            updated_at=self.ms,
            owner_xid=f"x{self.life + 1}",
        )

    def start(self, step: Step, n: int, life: int) -> bool:
        if (step.id, life) not in self.begun_ms:
            self.begun_ms[step.id, life] = self.ms
        return False

    def answer(self, step: Step, n: int, outcome: str, life: int, *, again: bool) -> bool:
        if life != self.life or self.ended or again or self.given_up:
            return False  # another execution owns the run, or it is tried again: no row
        started = self.begun_ms[step.id, life]
        if outcome == "ok":
            self.row(self.numbers[step.id], step.name, started=started, output=json.dumps({"n": step.id}))
        else:
            name = (
                "DBOSMaxStepRetriesExceeded"
                if step.retries
                else {"error": "CardDeclined", "silent": "ReadTimeout"}[outcome]
            )
            self.row(
                self.numbers[step.id], step.name, started=started, error=json.dumps({"name": name, "message": "no"})
            )
        return True

    def waits(self, step: Step, life: int) -> None:
        number = self.numbers[step.id]
        if step.kind == "timer":
            wake = self.ms + step.seconds * 1000
            self.row(number, "DBOS.sleep", done=wake, output=json.dumps(wake / 1000))
        else:
            self.row(number + 1, "DBOS.sleep", output=json.dumps(self.ms / 1000 + 86_400))

    def woke(self, step: Step, life: int) -> None:
        number = self.numbers[step.id]
        if step.kind == "approval":
            self.messages.append(
                {
                    "message_uuid": f"d{step.id}::w", "destination_uuid": "w", "topic": "approval", "message": json.dumps({"approved": True}),
                    "created_at_epoch_ms": self.ms - 1, "serialization": "portable_json", "consumed": True, "consumed_by_function_id": number,
                }
            )  # fmt: skip
            self.row(number, "DBOS.recv", output=json.dumps({"approved": True}))

    def child_started(self, step: Step, life: int) -> bool:
        self.row(self.numbers[step.id], step.name, child_workflow_id=f"w-{self.numbers[step.id]}", serialization=None)
        return True

    def child_ended(self, step: Step, life: int) -> None:
        self.row(
            self.numbers[step.id] + 1,
            "DBOS.getResult",
            child_workflow_id=f"w-{self.numbers[step.id]}",
            output=json.dumps("ok"),
        )

    def finished(self, status: str, life: int) -> None:
        self.status.update(
            status="SUCCESS" if status == "completed" else "ERROR",
            updated_at=self.ms,
            completed_at=self.ms,
            owner_xid=None,
        )

    def cancel(self) -> bool:
        self.status.update(
            status="CANCELLED",
            updated_at=self.ms,
            completed_at=self.ms,
            owner_xid=None,
            queue_name=None,
            started_at_epoch_ms=None,
        )
        self.ended = "cancelled"
        return True

    def export(self) -> dict[str, bytes]:
        output = []
        if self.status["status"] in ("SUCCESS", "ERROR"):
            good = self.status["status"] == "SUCCESS"
            output.append(
                {
                    "workflow_uuid": "w",
                    "output": '"ok"' if good else None,
                    "error": None if good else '{"name": "E", "message": "no"}',
                }
            )
        tables = {
            "workflow_status": [self.status],
            "workflow_input": [{"workflow_uuid": "w", "inputs": json.dumps({"positionalArgs": [1], "namedArgs": {}})}],
            "workflow_output": output,
            "operation_outputs": self.rows,
            "notifications": self.messages,
        }
        return {"tables.json": json.dumps(tables).encode()}
