"""Durable Task: a task is recorded when it is due; that a dead worker's task was given out again leaves nothing."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from tests.verdicts.world import Step, World


class DurableTask(World):
    runtime = "durabletask"
    branch_steps = 1  # numbers are given in the order of calls

    def setup(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.numbers: dict[tuple[str, int], int] = {}
        self.due: dict[int, int] = {}  # step -> try that is scheduled
        self.turning = False
        self.status = "RUNNING"

    def add(self, kind: str, **fields: Any) -> None:
        self.events.append({"event_id": -1, "event_type": f"{kind}Event", "timestamp": self.now.isoformat(), **fields})

    def turn(self) -> None:
        """The orchestrator is called because something came."""
        if not self.turning:
            self.add("OrchestratorStarted")
            self.turning = True

    def turned(self) -> None:
        if self.turning:
            self.add("OrchestratorCompleted")
            self.turning = False

    def number(self, kind: str, step: int) -> int:
        return self.numbers.setdefault((kind, step), len(self.numbers) + 1)

    def started(self) -> None:
        self.turn()
        self.add(
            "ExecutionStarted",
            name="refund_agent",
            input='{"order": 1}',
            version="1.0.0",
            tags=None,
            parent_instance=None,
        )

    def recovered(self) -> None:
        """Whatever was due is given out again; nothing is written."""

    def start(self, step: Step, n: int, life: int) -> bool:
        if step.id in self.due:
            return True
        self.turn()
        if ("timer", -step.id - 1000 * n) in self.numbers:
            self.add("TimerFired", timer_id=self.number("timer", -step.id - 1000 * n))
        given = {"order": step.id, **({"idempotency_key": f"k{step.id}"} if step.key else {})}
        self.due[step.id] = n
        self.add("TaskScheduled", name=step.name, input=json.dumps(given), tags=None, version=None)
        self.events[-1]["event_id"] = self.number("task", step.id)
        self.turned()
        return True

    def answer(self, step: Step, n: int, outcome: str, life: int, *, again: bool) -> bool:
        if self.ended or step.id not in self.due:
            return False  # another worker's answer was taken before
        if life != self.life and (again or outcome != "ok"):
            return (
                False  # a late answer of the old worker is taken if it is the first one; its retries are not made here
            )
        del self.due[step.id]
        self.turn()
        common = {"task_scheduled_id": self.number("task", step.id)}
        if outcome == "ok":
            self.add("TaskCompleted", result='{"n": 1}', **common)
        else:
            word = {"error": "CardDeclined", "silent": "ReadTimeout"}[outcome]
            self.add(
                "TaskFailed",
                failure_details={"error_type": word, "message": word, "stack_trace": None, "inner_failure": None},
                **common,
            )
        if again:
            self.add("TimerCreated", fire_at=(self.now + timedelta(seconds=2)).isoformat())
            self.events[-1]["event_id"] = self.number("timer", -step.id - 1000 * (n + 1))
            self.turned()
        return True

    def settled(self, step: Step, life: int) -> bool:
        return step.id in self.answers

    def waits(self, step: Step, life: int) -> None:
        if step.kind == "timer" and ("timer", step.id) not in self.numbers:
            self.turn()
            self.add("TimerCreated", fire_at=(self.now + timedelta(seconds=step.seconds)).isoformat())
            self.events[-1]["event_id"] = self.number("timer", step.id)
        self.turned()

    def woke(self, step: Step, life: int) -> None:
        self.turn()
        if step.kind == "timer":
            self.add("TimerFired", timer_id=self.number("timer", step.id))
        else:
            self.add("EventRaised", name="Approval", input='{"approved": true}')

    def child_started(self, step: Step, life: int) -> bool:
        if ("child", step.id) not in self.numbers:
            self.turn()
            self.add("SubOrchestrationInstanceCreated", name=step.name, instance_id=f"c{step.id}", input="{}")
            self.events[-1]["event_id"] = self.number("child", step.id)
            self.turned()
        return True

    def child_ended(self, step: Step, life: int) -> None:
        self.turn()
        self.add("SubOrchestrationInstanceCompleted", task_scheduled_id=self.number("child", step.id), result='"ok"')

    def finished(self, status: str, life: int) -> None:
        good = status == "completed"
        self.status = "COMPLETED" if good else "FAILED"
        failed = None if good else {"error_type": "E", "message": "no", "stack_trace": None, "inner_failure": None}
        self.turn()
        self.turned()
        self.add(
            "ExecutionCompleted",
            orchestration_status=1 if good else 3,
            result='"ok"' if good else None,
            failure_details=failed,
        )

    def cancel(self) -> bool:
        self.status, self.ended = "TERMINATED", "stopped"
        self.turn()
        self.add("ExecutionTerminated", input='"operator"', recurse=False)
        self.turned()
        self.add("ExecutionCompleted", orchestration_status=5, result='"operator"', failure_details=None)
        return True

    def export(self) -> dict[str, bytes]:
        metadata = {
            "instance_id": "i", "name": "refund_agent", "runtime_status": self.status, "created_at": self.events[0]["timestamp"],
            "last_updated_at": self.events[-1]["timestamp"], "failure_details": None, "serialized_custom_status": None,
            "serialized_input": '{"order": 1}', "serialized_output": None,
        }  # fmt: skip
        return {
            "i.json": json.dumps(
                {"schema_version": "1.0", "instance_id": "i", "metadata": metadata, "events": self.events}
            ).encode()
        }
