"""Journal lines of one Restate invocation, as one export told it.

A line holds what its own row says and, for a result, the name and kind of the command with the same completion id; so the same
row gives the same line in every later export. `seq` is Restate's own `index`; the entry 0 (the input) is in `run.started`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final

from drainboard import wire

from journals.adapters.base import Line, Options
from journals.adapters.names import pointed
from journals.adapters.restate.entries import AWAKEABLES, CANCEL, Entry
from journals.adapters.restate.events import Failures, invocation_lines
from journals.adapters.restate.line import Fields, call_of, digest, effect, line, record_of, run_kind
from journals.adapters.restate.rows import Row
from journals.adapters.restate.runs import RUNS, Snapshot, answers_of, awakeable_id
from journals.adapters.restate.versions import model_said, state_versions, versions_of
from journals.adapters.values import text, utc

_ABOUT: Final = ("target_service_ty", "target_service_key", "idempotency_key", "invoked_by", "restarted_from")


def lines_of(snapshot: Snapshot, options: Options) -> Iterator[Line]:
    """The lines of one snapshot but its state: start, entries with the events behind them, what stands in the invocation only."""
    started = next((e for e in snapshot.commands if e.type == "Input"), None)
    if snapshot.invocation is not None or started is not None:
        yield _started(snapshot, started, options)
    events = deque(snapshot.events)
    asked: set[int] = set()
    told = Failures(snapshot, options)
    for entry in snapshot.entries:
        while events and events[0].after < entry.index:
            yield from told.lines(events.popleft())
        if entry.type != "Input":
            yield from _entry(snapshot, entry, asked, options)
    for event in events:
        yield from told.lines(event)
    for index in waited_awakeables(snapshot):
        if index not in asked and snapshot.invocation is not None:
            asked.add(index)
            yield _asked(snapshot, index, snapshot.invocation)
    if snapshot.invocation is not None:
        yield from invocation_lines(snapshot, snapshot.invocation)


def waited_awakeables(snapshot: Snapshot) -> list[int]:
    """Indexes of the awakeables that a suspended run waits for."""
    given = snapshot.fields.get("suspended_waiting_for_signals")
    return sorted(n for n in given if isinstance(n, int) and n >= AWAKEABLES) if isinstance(given, list) else []


def awakeable_place(run: str, index: int) -> Fields:
    """Branch, step and approval of an awakeable: it has no entry of its own, so it cannot take a number of the main line."""
    return {"branch": f"awakeable.{index}", "step": 1, "approval": awakeable_id(run, index) or f"awakeable {index}"}


def _started(snapshot: Snapshot, entry: Entry | None, options: Options) -> Line:
    fields = snapshot.fields
    row = entry.row if entry else snapshot.invocation
    if row is None:
        raise ValueError("a run without a row")
    made: Fields = {
        "at": text(fields, "created_at") or (entry.at if entry else None),
        "kind": "run.started",
        "agent": options.agent or snapshot.name,
        "build": text(fields, "pinned_deployment_id"),
        "environment": options.environment,
        "name": text(fields, "target"),
        "versions": versions_of(snapshot, entry.value if entry else None) or None,
        "in": entry.value if entry and not entry.void else wire.MISSING,
        "parent": text(fields, "invoked_by_id"),
        **{name: text(fields, name) for name in _ABOUT},
        "unread": entry.unread if entry else None,
    }
    shown = {k: v for k, v in made.items() if v is not wire.MISSING}
    return line(
        snapshot, row, record_of(row), {"id": f"run:{digest(shown)}", **made}, closed=bool(entry and entry.closed)
    )


def _entry(snapshot: Snapshot, entry: Entry, asked: set[int], options: Options) -> Iterator[Line]:
    made: Fields = {
        "id": str(entry.index),
        "seq": entry.index or None,
        "at": entry.at,
        "kind": "note",
        "name": entry.type,
    }
    if entry.v1:
        yield from _old(snapshot, entry, made, options)
        return
    if entry.notification:
        if entry.type == "Signal" and isinstance(entry.signal, int) and entry.signal >= AWAKEABLES:
            if entry.signal not in asked:
                asked.add(entry.signal)
                yield _asked(snapshot, entry.signal, entry.row)
            made |= _decided(entry) | awakeable_place(snapshot.run, entry.signal)
            made["name"] = f"awakeable {entry.signal}"
        else:
            made |= _notification(snapshot, entry, options)
    else:
        made |= _command(snapshot, entry, options)
    yield _line(snapshot, entry, made)


def _line(snapshot: Snapshot, entry: Entry, made: Fields) -> Line:
    word = text(entry.row.fields, "entry_type")
    return line(
        snapshot,
        entry.row,
        record_of(entry.row),
        {**made, "entry_type": word, "unread": entry.unread},
        closed=entry.closed,
    )


# -- commands --------------------------------------------------------------------------------------------------------


def _command(snapshot: Snapshot, entry: Entry, options: Options) -> Fields:
    step = {"step": snapshot.numbers.get(entry.index), "call": call_of(entry)}
    if entry.type in RUNS:
        kind = run_kind(entry)
        # a recorded value has no start of its own among the kinds; its result is the step
        word = "note" if kind == "value" else f"{kind}.started"
        return {**step, "kind": word, "name": entry.name, "effect": effect(entry)}
    if entry.type == "Sleep":
        return {**step, "kind": "timer.started", "name": entry.name or "sleep", "until": utc(entry.wake_ms)}
    if entry.type in ("Call", "OneWayCall"):
        return {**step, **_child(entry)}
    if entry.type == "GetPromise":
        return {**step, "kind": "approval.requested", "name": entry.key, "approval": entry.key}
    if entry.type == "Output":
        return _output(entry)
    return _own_state(entry)


def _child(entry: Entry) -> Fields:
    key = entry.idempotency_key or None
    later = entry.type == "OneWayCall" and entry.wake_ms
    return {
        "kind": "child.started",
        "name": entry.target,
        "child": entry.child,
        "key": key,
        "in": entry.value,
        "request": None
        if entry.value is wire.MISSING
        else wire.request_fingerprint(kind="child", name=entry.target, in_=entry.value, key=key),
        "until": utc(entry.wake_ms) if later else None,
    }


def _output(entry: Entry) -> Fields:
    if entry.failure is None:
        return {"kind": "run.completed", "name": None, "out": entry.value}
    cancelled = entry.failure.get("code") == 409 and entry.failure.get("message") == "cancelled"
    return {"kind": "run.cancelled" if cancelled else "run.failed", "name": None, "error": _error(entry.failure)}


def _own_state(entry: Entry) -> Fields:
    """A command on Restate's own state: a state, a promise, an awakeable of another run."""
    return {
        "name": " ".join(part for part in (entry.type, entry.key) if part),
        "call": call_of(entry),
        "out": entry.value,
        "error": _error(entry.failure) if entry.failure else None,
        "versions": state_versions(entry.key, entry.value) if entry.type == "SetState" else None,
        "to": entry.extra.get("to"),
    }


# -- notifications ---------------------------------------------------------------------------------------------------


def _notification(snapshot: Snapshot, entry: Entry, options: Options) -> Fields:
    if entry.type == "Signal":
        return _signal(entry)
    command = snapshot.command_of(entry.completion, given=entry.type == "CallInvocationId")
    step: Fields = {"call": None if entry.completion is None else str(entry.completion)}
    if command is not None:
        step = {"step": snapshot.numbers.get(command.index), "call": call_of(command)}
    if entry.type in RUNS:
        return {**step, **_ran(command, entry, options)}
    if entry.type == "Sleep":
        return {**step, "kind": "timer.fired", "name": (command.name if command else "") or "sleep"}
    if entry.type == "CallInvocationId":
        return {**step, **_given(command, entry)}
    if entry.type == "Call":
        ended = _ended("child", entry)
        return {
            **step,
            **ended,
            "name": command.target if command else None,
            "child": command.child if command else None,
        }
    if entry.type == "GetPromise":
        key = command.key if command else ""
        return {**step, **_decided(entry), "name": key, "approval": key}
    return {"call": step.get("call"), "out": entry.value, "error": _error(entry.failure) if entry.failure else None}


def _ended(kind: str, entry: Entry) -> Fields:
    if entry.failure is not None:
        return {"kind": f"{kind}.error", "error": _error(entry.failure)}
    word = {"timer": "timer.fired"}.get(kind, f"{kind}.result")
    return {"kind": word, "out": None if entry.void else entry.value}


def _ran(command: Entry | None, entry: Entry, options: Options) -> Fields:
    kind = run_kind(command) if command else "tool"
    made: Fields = _ended(kind if entry.failure is None or kind in ("model", "tool", "child") else "tool", entry)
    if command is not None:
        made |= {"name": command.name, "effect": effect(command)}
    if kind == "model":
        made |= model_said(entry.value)
    elif kind == "tool":
        made["key"] = _key_in(entry.value)
    return {"name": None, **made}


def _key_in(out: Any) -> str | None:
    """The key that a result names. Inputs of a Run are not recorded, so there is no other place for it."""
    for pointer in ("/idempotency_key", "/idempotencyKey"):
        found = pointed(out, pointer)
        if isinstance(found, str) and found:
            return found
    return None


def _given(command: Entry | None, entry: Entry) -> Fields:
    """The id of a called run. For a one-way call that is all that will ever come: Restate has taken it over."""
    if command is not None and command.type == "OneWayCall":
        return {"kind": "child.result", "name": command.target, "child": entry.child, "outcome": "sent"}
    return {"step": None, "name": "invocation id", "child": entry.child}


def _signal(entry: Entry) -> Fields:
    if entry.signal == CANCEL:
        return {"kind": "stop.requested", "name": None, "reason": "cancelled"}
    name = entry.signal if isinstance(entry.signal, str) else f"signal {entry.signal}"
    error = _error(entry.failure) if entry.failure else None
    return {"kind": "signal.received", "name": name, "out": None if entry.void else entry.value, "error": error}


def _asked(snapshot: Snapshot, index: int, row: Row) -> Line:
    """That a run waits for an awakeable: known from what it is suspended on, or from its answer. When it was made is not."""
    place = awakeable_place(snapshot.run, index)
    made = {"id": f"awakeable:{index}", "kind": "approval.requested", "name": f"awakeable {index}", **place}
    made |= answers_of(snapshot.run, index)
    return line(snapshot, row, f"{record_of(row)}#awakeable", made)


def _decided(entry: Entry) -> Fields:
    """An answer from outside. It is a claim of the file, and a yes or no only where it plainly says so."""
    out = entry.value if entry.failure is None else wire.MISSING
    by = pointed(out, "/by") if isinstance(out, Mapping) else None
    return {
        "kind": "approval.decided",
        "decision": _decision(out) if entry.failure is None else "reject",
        "by": by if isinstance(by, str) else None,
        "reason": entry.failure.get("message") if entry.failure else None,
        "out": None if entry.void else out,
        "error": _error(entry.failure) if entry.failure else None,
    }


def _decision(out: Any) -> str | None:
    if isinstance(out, Mapping):
        out = out.get("approved", out.get("decision"))
    if isinstance(out, bool):
        return "approve" if out else "reject"
    return _WORDS.get(out.strip().lower()) if isinstance(out, str) else None


_WORDS: Final = {
    "yes": "approve", "approve": "approve", "approved": "approve",
    "no": "reject", "reject": "reject", "rejected": "reject", "send_back": "send_back",
}  # fmt: skip


def _error(failure: Mapping[str, Any]) -> Fields:
    code = failure.get("code")
    if "code" not in failure:
        return {"message": failure["message"]}
    return {
        "type": f"TerminalError {code}" if code is not None else "TerminalError",
        "message": failure.get("message") or "",
        "retryable": False,
    }


# -- journal version 1 -----------------------------------------------------------------------------------------------


def _old(snapshot: Snapshot, entry: Entry, made: Fields, options: Options) -> Iterator[Line]:
    """An entry of version 1 has its result in itself. It can be completed later, so the result is a line of its own."""
    result: Fields = {}
    step = snapshot.numbers.get(entry.index)
    if entry.type in RUNS:
        made |= {**_ran(entry, entry, options), "step": step}
    elif entry.type == "Awakeable":
        made |= {
            "kind": "approval.requested",
            "name": f"awakeable {entry.index}",
            "approval": f"awakeable {entry.index}",
        }
        made["step"] = step
        result = _decided(entry)
    else:
        made |= _command(snapshot, entry, options)
        if entry.type == "Sleep":
            result = {"kind": "timer.fired"}
        elif entry.type == "Call":
            result = _ended("child", entry)
        elif entry.type == "GetPromise":
            result = _decided(entry)
    started = {k: v for k, v in made.items() if not (result and k in ("out", "error"))}
    yield _line(snapshot, entry, started)
    if result and entry.done:
        place = {k: made.get(k) for k in ("seq", "step", "call", "name", "child", "approval")}
        yield _line(snapshot, entry, {"id": f"{entry.index}:completed", **place, **result})
