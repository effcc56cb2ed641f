"""AWS Lambda durable functions: a step's start is sent without waiting for it; a second execution after a crash leaves nothing."""

from __future__ import annotations

import json
from typing import Any

from tests.adapters.test_aws_events import place
from tests.verdicts.world import Shown, Step, Unit, World

ARN = "arn:aws:lambda:us-east-1:123456789012:function:refund:7/durable-execution/order-9/0a1b2c3d"


class Aws(World):
    runtime = "aws"

    def setup(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.seen: set[tuple[str, int]] = set()
        self.unsent: dict[int, dict[str, Any]] = {}  # starts that the service has not got yet
        self.open: dict[int, int] = {}  # step -> try whose start is recorded
        self.most_once = self.dice.random() < 0.3
        self.status = "RUNNING"
        self.invoked = False
        self.path: dict[int, tuple[int, ...]] = {}
        self.paths(self.plan, ())

    def paths(self, steps: list[Step], above: tuple[int, ...]) -> None:
        for step in steps:
            self.path[step.id] = (*above, step.number)
            for n, branch in enumerate(step.branches, 1):
                self.paths(branch, (*above, step.number, n))

    def add(
        self,
        kind: str,
        path: tuple[int, ...] | None = None,
        name: str | None = None,
        sub: str | None = None,
        **details: Any,
    ) -> None:
        event: dict[str, Any] = {
            "EventType": kind,
            "EventId": len(self.events) + 1,
            "EventTimestamp": round(self.now.timestamp(), 3),
        }
        if path is not None:
            event |= {"Id": place(*path), "Name": name}
            event |= {"ParentId": place(*path[:-1])} if len(path) > 1 else {}
        event |= {"SubType": sub} if sub else {}
        self.events.append({**event, f"{kind}Details": details})
        self.invoked = kind != "InvocationCompleted"

    def once(
        self, kind: str, step: Step, path: tuple[int, ...], name: str, sub: str | None = None, **details: Any
    ) -> None:
        if (kind, *path) not in self.seen:
            self.seen.add((kind, *path))
            self.add(kind, path, name, sub, **details)

    def started(self) -> None:
        self.add("ExecutionStarted", Input={"Payload": '{"order": 9}', "Truncated": False})
        self.events[-1] |= {"Id": "0a1b2c3d", "Name": "order-9"}

    def sub(self, step: Step) -> str:
        return {"model": "model", "tool": "tool"}.get(step.kind, "Step")

    def unit_of(self, shown: Shown) -> Unit | None:
        return next((u for u in self.units.values() if place(*self.path[u.step.id]) == shown.call), None)

    def shown_name(self, name: str | None) -> str | None:
        return None if name and name.endswith(" submitter") else name

    def start(self, step: Step, n: int, life: int) -> bool:
        if step.id in self.open:
            return True  # recorded by an execution that died; nothing more is written
        if self.most_once or self.dice.random() < 0.6:
            self.flush(step, n)
            return True
        self.unsent[step.id] = {"n": n}
        return False

    def flush(self, step: Step, n: int) -> None:
        self.unsent.pop(step.id, None)
        self.open[step.id] = n
        self.add("StepStarted", self.path[step.id], step.name, self.sub(step))

    def answer(self, step: Step, n: int, outcome: str, life: int, *, again: bool) -> bool:
        if life != self.life or self.ended:
            return False
        if step.id not in self.open:
            self.flush(step, n)
        del self.open[step.id]
        if outcome == "ok":
            result = {"Payload": '{"t":"m","v":{"n":{"t":"n","v":1}}}', "Truncated": False}
            self.add("StepSucceeded", self.path[step.id], step.name, self.sub(step), Result=result)
        else:
            self.failed(step, n, {"error": "CardDeclined", "silent": "ReadTimeout"}[outcome], again=again)
        return True

    def failed(self, step: Step, n: int, word: str, *, again: bool) -> None:
        retry = {"CurrentAttempt": n, **({"NextAttemptDelaySeconds": 2} if again else {})}
        error = {"Payload": {"ErrorType": word, "ErrorMessage": word}, "Truncated": False}
        self.add("StepFailed", self.path[step.id], step.name, self.sub(step), Error=error, RetryDetails=retry)
        if again and self.dice.random() < 0.5:
            self.add("InvocationCompleted")

    def crashed(self) -> None:
        self.unsent.clear()

    def recovered(self) -> None:
        if self.invoked and self.dice.random() < 0.5:
            cut = {
                "Error": {
                    "Payload": {"ErrorType": "Runtime.ExitError", "ErrorMessage": "signal: killed"},
                    "Truncated": False,
                }
            }
            self.add("InvocationCompleted", **(cut if self.dice.random() < 0.8 else {}))
        if not self.most_once:
            return
        for step_id, n in list(self.open.items()):
            step = self.units[step_id].step
            again = n <= step.retries
            del self.open[step_id]
            self.failed(step, n, "StepInterruptedError", again=again)
            if not again:
                self.answers[step_id] = "error"
                self.units[step_id].durable = True

    def forked(self, step: Step, life: int) -> None:
        at = self.path[step.id]
        self.once("ContextStarted", step, at, "fan out", "Parallel")
        for n in range(1, len(step.branches) + 1):
            self.once("ContextStarted", step, (*at, n), f"parallel-branch-{n - 1}", "ParallelBranch")

    def joined(self, step: Step, life: int) -> None:
        at = self.path[step.id]
        for n in range(1, len(step.branches) + 1):
            self.once(
                "ContextSucceeded",
                step,
                (*at, n),
                f"parallel-branch-{n - 1}",
                "ParallelBranch",
                Result={"Payload": "1"},
            )
        self.once("ContextSucceeded", step, at, "fan out", "Parallel", Result={"Payload": "1"})

    def waits(self, step: Step, life: int) -> None:
        at = self.path[step.id]
        if step.kind == "timer":
            end = round(self.now.timestamp() + step.seconds, 3)
            self.once("WaitStarted", step, at, "cool off", "Wait", Duration=step.seconds, ScheduledEndTimestamp=end)
        else:
            self.once("ContextStarted", step, at, "human approval", "WaitForCallback")
            self.once(
                "CallbackStarted",
                step,
                (*at, 1),
                "human approval create callback id",
                "Callback",
                CallbackId=f"cb{step.id}",
            )
            self.once("StepStarted", step, (*at, 2), "human approval submitter", "Step")
            self.once("StepSucceeded", step, (*at, 2), "human approval submitter", "Step", Result={"Payload": "null"})
        if not step.branch and self.dice.random() < 0.8:
            self.add("InvocationCompleted")

    def woke(self, step: Step, life: int) -> None:
        at = self.path[step.id]
        if step.kind == "timer":
            self.add("WaitSucceeded", at, "cool off", "Wait", Duration=step.seconds)
        else:
            result = {"Payload": '{"approved": true}', "Truncated": False}
            self.add("CallbackSucceeded", (*at, 1), "human approval create callback id", "Callback", Result=result)
            self.add("ContextSucceeded", at, "human approval", "WaitForCallback", Result=result)

    def child_started(self, step: Step, life: int) -> bool:
        child = f"{ARN.partition('/')[0]}/durable-execution/c{step.id}/00"
        self.once(
            "ChainedInvokeStarted",
            step,
            self.path[step.id],
            step.name,
            "ChainedInvoke",
            FunctionName="ship",
            DurableExecutionArn=child,
        )
        return True

    def child_ended(self, step: Step, life: int) -> None:
        self.add("ChainedInvokeSucceeded", self.path[step.id], step.name, "ChainedInvoke", Result={"Payload": '"ok"'})

    def finished(self, status: str, life: int) -> None:
        self.add("InvocationCompleted")
        good = status == "completed"
        self.status = "SUCCEEDED" if good else "FAILED"
        error = {"Error": {"Payload": {"ErrorType": "E", "ErrorMessage": "no"}, "Truncated": False}}
        self.add(
            "ExecutionSucceeded" if good else "ExecutionFailed", **({"Result": {"Payload": '"ok"'}} if good else error)
        )

    def cancel(self) -> bool:
        self.add(
            "ExecutionStopped",
            Error={"Payload": {"ErrorType": "Stopped", "ErrorMessage": "operator"}, "Truncated": False},
        )
        self.status, self.ended = "STOPPED", "stopped"
        return True

    def export(self) -> dict[str, bytes]:
        described = {
            "DurableExecutionArn": ARN, "DurableExecutionName": "order-9", "FunctionArn": ARN.partition("/")[0], "Version": "7", "Status": self.status,
            "StartTimestamp": self.events[0]["EventTimestamp"],
        }  # fmt: skip
        if self.ended:
            described["EndTimestamp"] = self.events[-1]["EventTimestamp"]
        return {"run.json": json.dumps(described).encode() + b"\n" + json.dumps({"Events": self.events}).encode()}
