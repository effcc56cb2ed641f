"""Restate: a Run's command stands before its action; a second execution of it leaves nothing but, at most, an event."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from tests.verdicts.world import Step, World

INV = "inv_1j8WcnveK8l808ErV2uZpQF2e7vSoKsbOF"
BROKEN = "unexpected error while reading the response body: stream closed because of a broken pipe"


def varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*made, number])


def message(*fields: tuple[int, Any]) -> bytes:
    """Protobuf of these fields: numbers as varints, text and bytes with their length."""
    made = b""
    for number, value in fields:
        if isinstance(value, int):
            made += varint(number << 3) + varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            made += varint(number << 3 | 2) + varint(len(data)) + data
    return made


def value(given: Any) -> bytes:
    return message((1, json.dumps(given)))


def failure(code: int, text: str) -> bytes:
    return message((1, code), (2, text))


def stamp(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%S.") + f"{when.microsecond // 1000:03}Z"


class Restate(World):
    runtime = "restate"
    branch_steps = 1

    def setup(self) -> None:
        self.journal: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.completions: dict[int, int] = {}  # step -> completion id
        self.index_of: dict[int, int] = {}
        self.used = 0
        self.signals: dict[int, int] = {}
        self.row: dict[str, Any] = {}
        self.failures = 0
        self.running: set[int] = set()  # Runs whose action is under way
        self.suspends = self.dice.random() < 0.6
        self.keeps_events = self.dice.random() < 0.7

    def add(self, entry_type: str, raw: bytes, *, name: str = "") -> int:
        index = len(self.journal)
        made = {
            "id": INV,
            "index": index,
            "entry_type": entry_type,
            "raw": raw.hex(),
            "raw_length": len(raw),
            "version": 2,
        }
        if entry_type.startswith("Command"):
            made["name"] = name
        self.journal.append({**made, "appended_at": stamp(self.now)})
        return index

    def event(self, text: str, code: str, step: Step | None = None) -> None:
        told: dict[str, Any] = {
            "ty": "TransientError",
            "error_code": 500,
            "error_message": text,
            "restate_doc_error_code": code,
        }
        if step is not None:
            told |= {
                "related_command_index": self.command_index(step),
                "related_command_name": step.name,
                "related_command_type": "Run",
            }
        body = json.dumps(told)
        if self.events and self.events[-1]["event_json"] == body:
            return  # equal errors in a row are kept once
        self.events.append(
            {
                "id": INV,
                "after_journal_entry_index": len(self.journal) - 1,
                "appended_at": stamp(self.now),
                "event_type": "TransientError",
                "event_json": body,
            }
        )

    def command_index(self, step: Step) -> int:
        at = self.index_of[step.id]
        return sum(1 for r in self.journal[:at] if r["entry_type"].startswith("Command"))

    def next_id(self) -> int:
        self.used += 1
        return self.used

    def started(self) -> None:
        self.row = {
            "id": INV, "target": "RefundAgent/run", "target_service_name": "RefundAgent", "target_handler_name": "run", "target_service_ty": "service",
            "invoked_by": "ingress", "pinned_deployment_id": "dp_1", "created_at": stamp(self.now), "running_at": stamp(self.now),
            "status": "running", "pinned_service_protocol_version": 6,
        }  # fmt: skip
        self.add("Command: Input", message((14, value({"order": 1}))))

    def fence(self, life: int) -> None:
        super().fence(life)
        self.row["status"] = "running"

    def crashed(self) -> None:
        self.running.clear()
        if self.dice.random() < 0.6:  # the handler died; else the server did, which writes nothing
            self.event(BROKEN, "RT0010")
            self.failures += 1
            self.row.update(
                status="backing-off",
                last_failure=f"[500 Internal] {BROKEN}",
                last_failure_error_code="RT0010",
                retry_count=self.failures,
            )

    def recovered(self) -> None:
        self.row["status"] = "running"

    def start(self, step: Step, n: int, life: int) -> bool:
        if step.id not in self.completions:
            self.completions[step.id] = self.next_id()
            self.index_of[step.id] = self.add(
                "Command: Run", message((11, self.completions[step.id]), (12, step.name)), name=step.name
            )
        self.running.add(step.id)
        return True

    def answer(self, step: Step, n: int, outcome: str, life: int, *, again: bool) -> bool:
        if life != self.life or self.ended:
            return False
        self.running.discard(step.id)
        words = {"error": "CardDeclined('no')", "silent": "ReadTimeout('no answer')"}.get(outcome, "")
        if again:
            self.event(words, "RT0000", step)
            self.failures += 1
            self.row.update(status="backing-off", last_failure=f"[500] {words}", retry_count=self.failures)
            return True
        self.failures = 0
        if outcome == "ok":
            self.add("Notification: Run", message((1, self.completions[step.id]), (5, value({"n": step.id}))))
        else:
            self.add("Notification: Run", message((1, self.completions[step.id]), (6, failure(500, words))))
        return True

    def waits(self, step: Step, life: int) -> None:
        if step.kind == "timer":
            if step.id not in self.completions:
                self.completions[step.id] = self.next_id()
                wake = int(self.now.timestamp() * 1000) + step.seconds * 1000
                self.add("Command: Sleep", message((1, wake), (11, self.completions[step.id])))
        else:
            self.signals.setdefault(step.id, 17 + len(self.signals))

    def woke(self, step: Step, life: int) -> None:
        if step.kind == "timer":
            self.add("Notification: Sleep", message((1, self.completions[step.id]), (4, b"")))
        else:
            self.add("Notification: Signal", message((2, self.signals[step.id]), (5, value({"approved": True}))))

    def shown_name(self, name: str | None) -> str | None:
        return name.partition("/")[0] if name else name

    def child_started(self, step: Step, life: int) -> bool:
        if step.id not in self.completions:
            first = self.next_id()
            self.completions[step.id] = self.next_id()
            self.add(
                "Command: Call",
                message((1, step.name), (2, "run"), (3, "{}"), (10, first), (11, self.completions[step.id])),
            )
            self.add("Notification: CallInvocationId", message((1, first), (16, f"inv_1{step.id:037}")))
        return True

    def child_ended(self, step: Step, life: int) -> None:
        self.add("Notification: Call", message((1, self.completions[step.id]), (5, value("ok"))))

    def finished(self, status: str, life: int) -> None:
        good = status == "completed"
        self.add("Command: Output", message((14, value("ok"))) if good else message((15, failure(500, "failed"))))
        self.row.update(
            status="completed", completed_at=stamp(self.now), completion_result="success" if good else "failure"
        )
        if not good:
            self.row["completion_failure"] = "[500] failed"

    def cancel(self) -> bool:
        """Killed, which writes nothing into the journal, or cancelled, which the code learns of when it looks."""
        killed = self.dice.random() < 0.5
        if not killed:
            self.add("Notification: Signal", message((2, 1), (4, b"")))
            self.add("Command: Output", message((15, failure(409, "cancelled"))))
        word = "killed" if killed else "cancelled"
        self.row.update(
            status="completed",
            completed_at=stamp(self.now),
            completion_result="failure",
            completion_failure=f"[409] {word}",
        )
        self.ended = "stopped" if killed else "cancelled"
        return True

    def export(self) -> dict[str, bytes]:
        row = {**self.row, "journal_size": len(self.journal), "modified_at": stamp(self.now)}
        row["journal_commands_size"] = sum(1 for r in self.journal if r["entry_type"].startswith("Command"))
        if self.parked and not self.running and not self.ended and self.suspends and row["status"] == "running":
            row["status"] = "suspended"
            row["suspended_waiting_for_completions"] = [
                self.completions[s] for s in self.parked if s in self.completions
            ]
            row["suspended_waiting_for_signals"] = [1, *(self.signals[s] for s in self.parked if s in self.signals)]
        files = {"sys_invocation.json": [row], "sys_journal.json": self.journal}
        if self.keeps_events:
            files["sys_journal_events.json"] = self.events
        return {name: json.dumps({"rows": rows}).encode() for name, rows in files.items()}
