"""Twenty journals without a fault, of every kind of run: what the rules say of them may only get less certain when something is taken away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.runs.journal import numbered

V = {"app": "agent-1", "prompt": "refund-policy@12", "model": "provider/model-5", "sdk": "1"}
T = {"app": "agent-1", "tools": {"pay": "sha256:aaa"}, "sdk": "1"}
START = {"kind": "run.started", "agent": "refund", "build": "40", "in": {"ticket": 5}}
DONE = {"kind": "run.completed", "out": "ok"}
Line = Mapping[str, Any]


def model(step: int, **more: Any) -> Line:
    return {
        "kind": "model.result",
        "name": "decide",
        "step": step,
        "versions": V,
        "in": ["q", step],
        "out": "a",
        **more,
    }


def started(step: int, **more: Any) -> Line:
    return {
        "kind": "tool.started",
        "name": "pay",
        "step": step,
        "call": f"c{step}",
        "key": f"k{step}",
        "versions": T,
        "in": {"n": step},
        **more,
    }


def result(step: int, **more: Any) -> Line:
    return {
        "kind": "tool.result",
        "name": "pay",
        "step": step,
        "call": f"c{step}",
        "key": f"k{step}",
        "versions": T,
        "out": {"ok": 1},
        **more,
    }


def failed(step: int, kind: str = "Declined", **more: Any) -> Line:
    return {
        "kind": "tool.error",
        "name": "pay",
        "step": step,
        "call": f"c{step}",
        "error": {"type": kind, "message": "no"},
        **more,
    }


def bare(line: Line, *names: str) -> Line:
    return {k: v for k, v in line.items() if k not in names}


def state(**out: Any) -> Line:
    whole = {
        "runtime_status": "X",
        "status": None,
        "complete": None,
        "as_of": None,
        "pending": [],
        "waiting": [],
        **out,
    }
    return {"kind": "note", "name": "runtime.state", "id": "state:1", "out": whole}


ASKED = {
    "kind": "approval.requested",
    "step": 2,
    "approval": "a1",
    "artifact": {"tool": "pay", "args": {"n": 3}},
    "fingerprint": "sha256:f",
}
SAID = {"kind": "approval.decided", "approval": "a1", "decision": "approve", "by": "bob", "fingerprint": "sha256:f"}
USED = started(3, approval="a1", fingerprint="sha256:f")

JOURNALS: dict[str, tuple[Line, ...]] = {
    "completed": (START, model(1), started(2), result(2), model(3), DONE),
    "in flight": (START, model(1), started(2), result(2), model(3), started(4)),
    "ends between steps": (START, model(1), started(2), result(2), model(3)),
    "ends with an open write": (START, started(1), DONE),
    "two open branches": (
        START, model(1), {"kind": "parallel.started", "step": 2}, started(1, branch="2.1", call="x"), started(1, branch="2.2", call="y"),
        result(1, branch="2.1", call="x"),
    ),
    "parallel, done": (
        START, {"kind": "parallel.started", "step": 1}, started(1, branch="1.1"), started(1, branch="1.2"), result(1, branch="1.2"),
        result(1, branch="1.1"), model(2), DONE,
    ),
    "retried after an error": (START, started(1), failed(1), started(1, attempt=2), result(1, attempt=2), DONE),
    "retried after a timeout": (START, started(1), failed(1, "Timeout"), started(1, attempt=2), result(1, attempt=2), DONE),
    "retried without an answer": (START, started(1), started(1, attempt=2), result(1, attempt=2), DONE),
    "failed": (START, model(1), started(2), failed(2), {"kind": "run.failed", "error": {"type": "Declined"}}),
    "cancelled in a write": (START, started(1), failed(1, "Cancelled"), {"kind": "run.cancelled"}),
    "waits for a timer": (START, model(1), {"kind": "timer.started", "name": "wait", "step": 2, "until": "2027-01-01T00:00:00Z"}),
    "a timer fired": (
        START, {"kind": "timer.started", "name": "wait", "step": 1}, {"kind": "timer.fired", "name": "wait", "step": 1}, model(2), started(3),
    ),
    "waits for an approval": (START, model(1), ASKED),
    "approved and used": (START, model(1), ASKED, SAID, USED, result(3), DONE),
    "approved and in flight": (START, model(1), ASKED, SAID, USED),
    "a child in flight": (START, {"kind": "child.started", "name": "sub", "step": 1, "child": "r~1"}),
    "a child done": (
        START, {"kind": "child.started", "name": "sub", "step": 1, "child": "r~1"}, {"kind": "child.result", "name": "sub", "step": 1}, DONE,
    ),
    "without step numbers": (
        START, bare(model(1), "step"), bare(started(2), "step"), bare(result(2), "step"), bare(started(3), "step"), DONE,
    ),
    "without steps and calls": (
        START, bare(started(1), "step", "call"), bare(result(1), "step", "call"), bare(started(2), "step", "call"), bare(model(3), "step"),
    ),
    "told running": (START, model(1), started(2), state(status="running", complete=False, as_of="2026-09-01T09:00:00Z")),
    "told pending": (
        START, model(1),
        state(status="running", complete=False, pending=[{"branch": "", "step": 2, "name": "pay", "state": "STARTED", "attempt": 2}]),
    ),
    "told waiting": (
        START, model(1), state(status="parked", complete=False, waiting=[{"branch": "", "step": 2, "what": "signal:go", "until": None}]),
    ),
    "told complete": (START, started(1), result(1), DONE, state(status="completed", complete=True)),
    "told torn": (
        START, model(1), started(2),
        state(complete=False, partial="torn", losses=[{"code": "torn_tail", "reason": "torn"}]),
    ),
}  # fmt: skip


def journals() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Name and lines, numbered from 1."""
    for name, lines in JOURNALS.items():
        yield name, [{k: v for k, v in line.items() if v is not None} for line in numbered(*lines)]
