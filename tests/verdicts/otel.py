"""Spans of an agent that nothing makes durable: a span is sent when it has ended, in batches, and what a process held is lost with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.verdicts.world import Shown, Step, Unit, World

TRACE = "5b8efff798038103d269b633813fc60c"
ROOT = "00000000000000a0"


class Otel(World):
    runtime = "otel"
    kinds = ("model", "tool", "child", "parallel")
    branch_kinds = ("model", "tool", "child")
    leaves_out = "a rerun: it is another trace, so another run; spans of which none arrived: there is no run then"

    def setup(self) -> None:
        self.sent: list[list[dict[str, Any]]] = []
        self.held: list[tuple[dict[str, Any], Unit]] = []
        self.begun_at: dict[Any, int] = {}
        self.begun_ns = 0
        self.spans = 0
        self.crash_rate = max(self.crash_rate, 0.08)

    @property
    def ns(self) -> int:
        return int(self.now.timestamp() * 1_000_000) * 1000

    def unit_key(self, step: Step) -> Any:
        """Each try is a span of its own."""
        return step.id, self.tries.get(step.id, 0)

    def unit_of(self, shown: Shown) -> Unit | None:
        step, _, n = (shown.call or "c.").removeprefix("c").partition(".")
        return self.units.get((int(step), int(n))) if step and n else None

    def started(self) -> None:
        self.begun_ns = self.ns

    def start(self, step: Step, n: int, life: int) -> bool:
        self.begun_at[step.id] = self.ns
        return False

    def span(
        self, name: str, attributes: Mapping[str, str], begun: int, *, error: str = "", id: str = "", parent: str = ROOT
    ) -> dict[str, Any]:
        self.spans += 1
        made: dict[str, Any] = {
            "traceId": TRACE, "spanId": id or f"{self.spans:016x}", "name": name, "kind": 1, "startTimeUnixNano": str(begun), "endTimeUnixNano": str(self.ns),
            "attributes": [{"key": k, "value": {"stringValue": v}} for k, v in attributes.items()], "status": {},
        }  # fmt: skip
        if parent:
            made["parentSpanId"] = parent
        if error:
            told = [{"key": "exception.type", "value": {"stringValue": error}}]
            made |= {
                "status": {"code": 2, "message": error},
                "events": [{"timeUnixNano": str(self.ns), "name": "exception", "attributes": told}],
            }
        return made

    def answer(self, step: Step, n: int, outcome: str, life: int, *, again: bool) -> bool:
        operation = "chat" if step.kind == "model" else "execute_tool"
        attributes = {"gen_ai.operation.name": operation, "gen_ai.tool.call.id": f"c{step.id}.{n}"}
        attributes |= (
            {"gen_ai.tool.name": step.name} if step.kind == "tool" else {"gen_ai.response.id": f"c{step.id}.{n}"}
        )
        error = {"error": "CardDeclined", "silent": "ReadTimeout"}.get(outcome, "")
        name = step.name if step.kind == "model" else f"execute_tool {step.name}"
        self.hold(self.span(name, attributes, self.begun_at[step.id], error=error), self.unit(step))
        if not again:
            self.answers[step.id] = "ok" if outcome == "ok" else "error"
        return False

    def hold(self, span: dict[str, Any], unit: Unit) -> None:
        self.held.append((span, unit))
        if self.dice.random() < 0.5:
            self.flush()

    def flush(self) -> None:
        if self.held:
            self.sent.append([span for span, _ in self.held])
        for _, unit in self.held:
            unit.durable = True
            self.note(unit.step, unit)
        self.held = []

    def child_started(self, step: Step, life: int) -> bool:
        self.begun_at[step.id] = self.ns
        return False

    def child_ended(self, step: Step, life: int) -> None:
        attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": step.name}
        self.hold(self.span(f"invoke_agent {step.name}", attributes, self.begun_at[step.id]), self.unit(step))

    def crashed(self) -> None:
        self.held = []
        self.given_up = True
        self.zombies.clear()

    def finished(self, status: str, life: int) -> None:
        attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "refund"}
        span = self.span(
            "invoke_agent refund",
            attributes,
            self.begun_ns,
            error="" if status == "completed" else "E",
            id=ROOT,
            parent="",
        )
        self.flush()
        self.sent.append([span])

    def export(self) -> dict[str, bytes]:
        lines = []
        for batch in self.sent:
            resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "refund"}}]}
            lines.append(json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": batch}]}]}))
        return {"traces.jsonl": "".join(f"{line}\n" for line in lines).encode()}
