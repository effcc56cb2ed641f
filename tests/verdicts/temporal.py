"""Temporal: an activity's start is written only when it ends; local activities leave a marker when their turn ends."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tests.verdicts.world import Step, World

PLAIN = base64.b64encode(b"json/plain").decode()
TIMEOUT = {
    "message": "activity StartToClose timeout",
    "source": "Server",
    "timeoutFailureInfo": {"timeoutType": "TIMEOUT_TYPE_START_TO_CLOSE"},
}


def refused(again: bool) -> dict[str, Any]:
    return {
        "message": "declined",
        "source": "PythonSDK",
        "applicationFailureInfo": {"type": "CardDeclined", **({} if again else {"nonRetryable": True})},
    }


def payloads(value: Any) -> dict[str, Any]:
    data = base64.b64encode(json.dumps(value).encode()).decode()
    return {"payloads": [{"metadata": {"encoding": PLAIN}, "data": data}]}


def stamp(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%S.%f") + "000Z"


class Temporal(World):
    runtime = "temporal"

    def setup(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.turn = ""  # "", scheduled, started
        self.turn_attempt = 1
        self.scheduled: dict[int, int] = {}  # step -> event of its open activity
        self.attempt: dict[int, dict[str, Any]] = {}  # step -> what describe says of it
        self.last_failure: dict[int, Any] = {}
        self.local = self.dice.random() < 0.3
        self.done_locally: list[tuple[Step, int]] = []
        self.limited = self.dice.random() < 0.5
        self.opened: dict[tuple[str, int], int] = {}

    def event(self, kind: str, **attributes: Any) -> int:
        number = len(self.events) + 1
        words = "".join(w.capitalize() for w in kind.split("_"))
        name = words[0].lower() + words[1:] + "EventAttributes"
        self.events.append(
            {
                "eventId": str(number), "eventTime": stamp(self.now), "eventType": f"EVENT_TYPE_{kind}",
                "taskId": str(1000 + number), name: attributes,
            }
        )  # fmt: skip
        return number

    def wake(self) -> None:
        """A turn is due."""
        if not self.turn:
            self.event("WORKFLOW_TASK_SCHEDULED", taskQueue={"name": "q"}, startToCloseTimeout="10s", attempt=1)
            self.turn = "scheduled"

    def begin_turn(self) -> None:
        self.wake()
        if self.turn == "scheduled":
            self.turn_since = stamp(self.now)
            self.event("WORKFLOW_TASK_STARTED", scheduledEventId=str(len(self.events)), identity="w")
            self.turn = "started"

    def end_turn(self) -> int:
        """Completes the turn, with the markers of what ran inside it."""
        self.begin_turn()
        number = self.event("WORKFLOW_TASK_COMPLETED", scheduledEventId="2", startedEventId="3", identity="w")
        self.turn = ""
        for step, n in self.done_locally:
            data = {"seq": step.id, "attempt": n, "activity_id": str(step.id), "activity_type": step.name}
            details = {"data": payloads(data), "result": payloads({"n": step.id})}
            self.event(
                "MARKER_RECORDED",
                markerName="core_local_activity",
                details=details,
                workflowTaskCompletedEventId=str(number),
            )
            unit = self.unit(step)
            unit.durable = True
            self.answers[step.id] = "ok"
            self.note(step)
        self.done_locally = []
        return number

    def started(self) -> None:
        self.event(
            "WORKFLOW_EXECUTION_STARTED",
            workflowId="wf", workflowType={"name": "RefundAgent"}, taskQueue={"name": "q"}, input=payloads({"order": 1}),
            originalExecutionRunId="0f3c1f2e-0000-4000-8000-0000000000aa", firstExecutionRunId="0f3c1f2e-0000-4000-8000-0000000000aa",
        )  # fmt: skip
        self.wake()

    def is_local(self, step: Step) -> bool:
        return (
            self.local
            and step.kind in ("tool", "model")
            and step.id % 2 == 0
            and not step.branch
            and step.outcomes == ("ok",)
        )

    def start(self, step: Step, n: int, life: int) -> bool:
        if self.is_local(step):
            self.begin_turn()
            return False
        state = self.attempt.get(step.id)
        if step.id not in self.scheduled:
            turn = self.end_turn()
            given = {"order": 1, **({"idempotency_key": f"k{step.id}"} if step.key else {})}
            self.scheduled[step.id] = self.event(
                "ACTIVITY_TASK_SCHEDULED",
                activityId=str(step.id), activityType={"name": step.name}, input=payloads(given), startToCloseTimeout="6s",
                workflowTaskCompletedEventId=str(turn),
                retryPolicy={"initialInterval": "1s", **({"maximumAttempts": self.most(step)} if self.limited else {})},
            )  # fmt: skip
        self.attempt[step.id] = {**(state or {}), "state": "STARTED", "attempt": n, "lastStartedTime": stamp(self.now)}
        return True

    def most(self, step: Step) -> int:
        return step.retries + 1

    def answer(self, step: Step, n: int, outcome: str, life: int, *, again: bool) -> bool:
        if self.is_local(step):
            if life == self.life and not self.ended:
                self.done_locally.append((step, 1))
            return False
        state = self.attempt.get(step.id)
        if self.ended or state is None or state["attempt"] != n or state["state"] != "STARTED":
            return False  # the server has given this try up
        failure = {"error": refused(again), "silent": TIMEOUT}.get(outcome)
        if failure and again:
            self.attempt[step.id] = {"state": "SCHEDULED", "attempt": n + 1, "lastFailure": failure}
            self.last_failure[step.id] = failure
            return True
        self.close(step, n, failure)
        return True

    def close(self, step: Step, n: int, failure: Mapping[str, Any] | None) -> None:
        scheduled = self.scheduled.pop(step.id)
        self.attempt.pop(step.id)
        before = self.last_failure.get(step.id)
        last = {"lastFailure": before} if before else {}
        started = self.event("ACTIVITY_TASK_STARTED", scheduledEventId=str(scheduled), identity="w", attempt=n, **last)
        both = {"scheduledEventId": str(scheduled), "startedEventId": str(started)}
        if failure is None:
            self.event("ACTIVITY_TASK_COMPLETED", result=payloads({"n": step.id}), **both)
        elif failure is TIMEOUT:
            self.event(
                "ACTIVITY_TASK_TIMED_OUT", failure=failure, retryState="RETRY_STATE_MAXIMUM_ATTEMPTS_REACHED", **both
            )
        else:
            self.event("ACTIVITY_TASK_FAILED", failure=failure, retryState="RETRY_STATE_NON_RETRYABLE_FAILURE", **both)
        self.wake()

    def crashed(self) -> None:
        self.done_locally = []

    def recovered(self) -> None:
        """The server gives up what the dead worker had: activities by their time limit, a turn by its own."""
        if self.turn == "started":
            self.event(
                "WORKFLOW_TASK_TIMED_OUT",
                scheduledEventId="2",
                startedEventId="3",
                timeoutType="TIMEOUT_TYPE_START_TO_CLOSE",
            )
            self.turn = ""
            self.wake()
        for step_id, state in list(self.attempt.items()):
            if state["state"] != "STARTED":
                continue
            unit = self.units[step_id]
            if self.limited and state["attempt"] >= self.most(unit.step):
                self.close(unit.step, state["attempt"], TIMEOUT)
                self.answers[step_id] = "error"
                unit.durable = True
            else:
                self.attempt[step_id] = {"state": "SCHEDULED", "attempt": state["attempt"] + 1, "lastFailure": TIMEOUT}
                self.last_failure[step_id] = TIMEOUT

    def waits(self, step: Step, life: int) -> None:
        if step.kind == "approval":
            if self.turn:
                self.end_turn()
        elif ("timer", step.id) not in self.opened:
            turn = self.end_turn()
            self.opened["timer", step.id] = self.event(
                "TIMER_STARTED",
                timerId=str(step.id),
                startToFireTimeout=f"{step.seconds}s",
                workflowTaskCompletedEventId=str(turn),
            )

    def woke(self, step: Step, life: int) -> None:
        if step.kind == "approval":
            self.event(
                "WORKFLOW_EXECUTION_SIGNALED", signalName="approve", input=payloads({"approved": True}), identity="cli"
            )
        else:
            started = self.opened["timer", step.id]
            self.event("TIMER_FIRED", timerId=str(step.id), startedEventId=str(started))
        self.wake()

    def child_started(self, step: Step, life: int) -> bool:
        if ("child", step.id) not in self.opened:
            turn = self.end_turn()
            common = {"workflowId": f"wf/{step.id}", "workflowType": {"name": step.name}}
            number = self.event(
                "START_CHILD_WORKFLOW_EXECUTION_INITIATED", **common, workflowTaskCompletedEventId=str(turn)
            )
            self.opened["child", step.id] = number
            self.event("CHILD_WORKFLOW_EXECUTION_STARTED", initiatedEventId=str(number), **self.child(step))
        return True

    def child(self, step: Step) -> dict[str, Any]:
        return {
            "workflowExecution": {
                "workflowId": f"wf/{step.id}",
                "runId": f"0f3c1f2e-0000-4000-8000-0000000001{step.id:02}",
            },
            "workflowType": {"name": step.name},
        }

    def child_ended(self, step: Step, life: int) -> None:
        number = self.opened["child", step.id]
        self.event(
            "CHILD_WORKFLOW_EXECUTION_COMPLETED",
            initiatedEventId=str(number),
            startedEventId=str(number + 1),
            result=payloads(1),
            **self.child(step),
        )
        self.wake()

    def finished(self, status: str, life: int) -> None:
        turn = self.end_turn()
        if status == "completed":
            self.event("WORKFLOW_EXECUTION_COMPLETED", result=payloads("ok"), workflowTaskCompletedEventId=str(turn))
        else:
            failure = {"message": "Activity task failed", "cause": refused(again=False)}
            self.event("WORKFLOW_EXECUTION_FAILED", failure=failure, workflowTaskCompletedEventId=str(turn))

    def cancel(self) -> bool:
        if self.turn == "started" or self.dice.random() < 0.5:  # what runs in a turn ends before a cancel is heard
            self.event("WORKFLOW_EXECUTION_TERMINATED", reason="operator", identity="cli")
            self.ended = "stopped"
        else:
            self.event("WORKFLOW_EXECUTION_CANCEL_REQUESTED", identity="cli")
            turn = self.end_turn()
            self.event("WORKFLOW_EXECUTION_CANCELED", workflowTaskCompletedEventId=str(turn))
            self.ended = "cancelled"
        self.attempt = {}
        return True

    def export(self) -> dict[str, bytes]:
        files = {"wf.show.json": json.dumps({"events": self.events}).encode()}
        if self.dice.random() < 0.6:
            files["wf.describe.json"] = json.dumps(self.describe()).encode()
        return files

    def describe(self) -> dict[str, Any]:
        words = {"": "RUNNING", "stopped": "TERMINATED", "cancelled": "CANCELED"}
        info = {
            "execution": {"workflowId": "wf", "runId": "0f3c1f2e-0000-4000-8000-0000000000aa"},
            "type": {"name": "RefundAgent"},
            "startTime": self.events[0]["eventTime"],
            "status": f"WORKFLOW_EXECUTION_STATUS_{words.get(self.ended, self.ended.upper())}",
            "historyLength": str(len(self.events)),
        }
        made: dict[str, Any] = {"executionConfig": {"taskQueue": {"name": "q"}}, "workflowExecutionInfo": info}
        activities = []
        for step_id, state in self.attempt.items():
            said = {**state, "state": f"PENDING_ACTIVITY_STATE_{state['state']}"}
            activities.append(
                {"activityId": str(step_id), "activityType": {"name": self.units[step_id].step.name}, **said}
            )
        if activities:
            made["pendingActivities"] = activities
        if self.turn and not self.ended:
            task = {
                "state": f"PENDING_WORKFLOW_TASK_STATE_{self.turn.upper()}",
                "attempt": 1,
                "scheduledTime": stamp(self.now),
            }
            made["pendingWorkflowTask"] = {**task, "startedTime": self.turn_since} if self.turn == "started" else task
        return made
