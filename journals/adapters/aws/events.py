"""One event of a durable execution as one journal line: what its type means, and the rest of it under `aws`.

A line holds what its own event and those before it say, so that a longer export repeats the lines of a shorter one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from drainboard import wire

from journals.adapters.aws.history import History, Op
from journals.adapters.aws.values import Shown, failure_of, later, payload_of, plain, utc
from journals.adapters.names import versions_at
from journals.adapters.values import integer, text

Draft = dict[str, Any]
Details = Mapping[str, Any]

_TYPE: Final = re.compile(r"(Execution|Context|Step|Wait|Callback|ChainedInvoke|Invocation)([A-Z][A-Za-z]*)")
_MODEL_PLACES: Final = {"prompt": ("/prompt_version",), "tools": ("/tool_schema",)}
_RUN_PLACES: Final = {
    "prompt": ("/in/prompt_version",),
    "tools": ("/in/tool_schema",),
    "model": ("/in/model",),
}
"""Where versions are looked for: in the result of a model step, and in the input of the execution."""


def line_of(run: History, event: Mapping[str, Any], facts: Details) -> tuple[bytes, tuple[str, ...]]:
    """The line of one event and its oddities. `facts`: agent, build, environment and versions, for the first event."""
    kind, number = text(event, "EventType") or "", integer(event, "EventId")
    run.see(event)
    details = event.get(f"{kind}Details")
    details = details if isinstance(details, Mapping) else {}
    found = _TYPE.fullmatch(kind)
    reader = _READERS.get(found[1]) if found else None
    draft, shown = reader(run, event, details, found[2]) if reader and found else ({}, Shown())
    at = utc(event.get("EventTimestamp"))
    front: Draft = {
        "run": run.run,
        "id": event.get("_id") or str(number),
        "seq": number,
        "at": at,
        "kind": f"aws.{kind}",
    }
    if kind == "ExecutionStarted":
        draft = _first(draft, facts, run)
    draft["aws"] = _rest(event, details, kind, at, shown)
    line = {
        k: v for k, v in {**front, **draft}.items() if v is not wire.MISSING and (v is not None or k in ("in", "out"))
    }
    if not line.get("branch"):
        line.pop("branch", None)
    try:
        return wire.dump(line), shown.oddities
    except (wire.Ambiguous, RecursionError):  # NaN in a field that is no payload
        return wire.dump(_standard(line, 3)), (*shown.oddities, "non_standard_json")


def _standard(value: Any, levels: int) -> Any:
    """The value with what standard JSON cannot say as text."""
    if isinstance(value, Mapping) and levels:
        return {k: _standard(v, levels - 1) for k, v in value.items()}
    try:
        wire.encode(value)
    except (wire.Ambiguous, RecursionError):
        return json.dumps(value)
    return value


def _first(draft: Draft, facts: Details, run: History) -> Draft:
    given = draft.get("in", wire.MISSING)
    found = versions_at({"in": None if given is wire.MISSING else given}, _RUN_PLACES)
    versions = {**facts.get("versions", {}), **found}
    return {**draft, **{k: facts.get(k) for k in ("agent", "build", "environment")}, "versions": versions or None}


def _rest(event: Details, details: Details, kind: str, at: str | None, shown: Shown) -> Draft:
    """What the event says beside the payload, so that nothing of it is lost."""
    made: Draft = {"type": kind}
    left = ("EventType", "EventId", f"{kind}Details", "_id", *(("EventTimestamp",) if at else ()))
    made |= {k: plain(v) for k, v in sorted(event.items()) if k not in left}
    taken = ("Input", "Result", "Error", "Reason")
    rest = {k: plain(v) for k, v in sorted(details.items()) if k not in taken or not isinstance(v, Mapping)}
    if rest:
        made["details"] = rest
    if shown.raw is not None:
        made["payload"] = shown.raw
    return made


# -- the execution and its invocations ------------------------------------------------------------------------------


def _execution(run: History, event: Details, details: Details, what: str) -> tuple[Draft, Shown]:
    error = failure_of(details.get("Error"))
    if what == "Started":
        shown = payload_of(details.get("Input"))
        return {"kind": "run.started", "execution": text(event, "Name"), "in": shown.value}, shown
    if what in ("Paused", "Resumed"):
        shown = payload_of(details.get("Reason"))
        reason = shown.value if isinstance(shown.value, str) else None
        run.held = {"reason": reason, "since": utc(event.get("EventTimestamp"))} if what == "Paused" else None
        return {"kind": "run.held" if what == "Paused" else "run.released", "reason": reason}, shown
    if what == "Succeeded":
        run.ended = "completed"
        shown = payload_of(details.get("Result"))
        return {"kind": "run.completed", "out": shown.value}, shown
    if what == "Stopped":
        run.ended = "stopped"
        return {"kind": "run.stopped", "error": error, "reason": (error or {}).get("message")}, Shown()
    if what in ("Failed", "TimedOut"):
        run.ended = "failed"
        timeout = {"type": "ExecutionTimedOut", "message": "the time limit of the execution was reached"}
        return {"kind": "run.failed", "error": error or (timeout if what == "TimedOut" else None)}, Shown()
    return {}, Shown()


def _invocation(run: History, event: Details, details: Details, what: str) -> tuple[Draft, Shown]:
    """One invocation of the function is over. An error says that it was cut: what it had begun may run again."""
    error = failure_of(details.get("Error"))
    if what == "Completed":
        run.invoked(error is not None)
    return {"error": error}, Shown()


# -- operations -----------------------------------------------------------------------------------------------------


def _placed(op: Op) -> Draft:
    return {"name": op.name or None, "step": op.step, "branch": op.branch, "call": op.id}


def _end(run: History, op: Op, event: Details) -> None:
    op.open, op.ended_at = False, utc(event.get("EventTimestamp"))


def _step(run: History, event: Details, details: Details, what: str) -> tuple[Draft, Shown]:
    op = run.op(event, "Step")
    line: Draft = {**_placed(op), "effect": op.effect}
    retry = details.get("RetryDetails")
    current = integer(retry, "CurrentAttempt") if isinstance(retry, Mapping) else None
    if what == "Started":
        op.attempt = current or op.failed + 1
        op.open, op.at, op.failure, op.retry_s = True, utc(event.get("EventTimestamp")), None, None
        run.began(op)
        role = {} if op.kind == "value" else {"kind": f"{op.kind}.started"}
        return {**line, **role, "attempt": op.attempt}, Shown()
    run.answered(op)
    _end(run, op, event)
    attempt = current if current and current > 0 else max(op.attempt, op.failed + 1 if op.failure else 1)
    if what == "Succeeded":
        shown = payload_of(details.get("Result"))
        return {
            **line,
            "kind": f"{op.kind}.result",
            "attempt": attempt,
            "out": shown.value,
            **_said(run, op, shown),
        }, shown
    if what != "Failed":
        return line, Shown()
    error = failure_of(details.get("Error")) or {"message": ""}
    delay = integer(retry, "NextAttemptDelaySeconds") if isinstance(retry, Mapping) else None
    op.failed, op.failure, op.retry_s = max(op.failed, attempt), error, delay if delay and delay > 0 else None
    kind = f"{op.kind if op.kind != 'value' else 'tool'}.error"
    return {**line, "kind": kind, "attempt": attempt, "error": {**error, "retryable": op.retry_s is not None}}, Shown()


def _said(run: History, op: Op, shown: Shown) -> Draft:
    """What a model's answer says about itself."""
    if op.kind != "model" or not isinstance(shown.value, Mapping):
        return {}
    usage = shown.value.get("usage")
    return {
        "versions": versions_at(shown.value, _MODEL_PLACES) or None,
        "model_reported": text(shown.value, "model"),
        "usage": usage if isinstance(usage, Mapping) else None,
    }


def _wait(run: History, event: Details, details: Details, what: str) -> tuple[Draft, Shown]:
    op = run.op(event, "Wait")
    if what == "Started":
        op.at = utc(event.get("EventTimestamp"))
        op.until = utc(details.get("ScheduledEndTimestamp")) or later(op.at, details.get("Duration"))
        return {**_placed(op), "kind": "timer.started", "until": op.until}, Shown()
    _end(run, op, event)
    line: Draft = {**_placed(op), "kind": "timer.fired"}
    return {
        **line,
        "outcome": "cancelled",
        "error": failure_of(details.get("Error")),
    } if what == "Cancelled" else line, Shown()


def _context(run: History, event: Details, details: Details, what: str) -> tuple[Draft, Shown]:
    """A context opens branches: Parallel and Map one for each child context, a child context one of its own."""
    op = run.op(event, "Context")
    parent = run.ops.get(op.parent or "")
    is_branch = parent is not None and parent.sub_type in ("Parallel", "Map")
    if what == "Started":
        op.at = utc(event.get("EventTimestamp"))
        if op.sub_type == "WaitForCallback":
            return _placed(op), Shown()
        place = {"name": op.name or None, "branch": op.inner, "call": op.id} if is_branch else _placed(op)
        return {**place, **({} if is_branch else {"kind": "parallel.started"})}, Shown()
    _end(run, op, event)
    shown = payload_of(details.get("Result"))
    place = {**_placed(op), "branch": op.inner, "step": None} if is_branch else _placed(op)
    taken = _taken(run, op) if what == "Succeeded" else {}
    return {**place, **taken, "out": shown.value, "error": failure_of(details.get("Error"))}, shown


def _taken(run: History, op: Op) -> Draft:
    """A wait for an approval that has ended well: the code has the answer."""
    asked = [run.ops[c] for c in run.children.get(op.id, ()) if run.ops[c].type == "Callback"]
    if op.sub_type != "WaitForCallback" or not asked or asked[0].kind != "approval":
        return {}
    call = asked[0].callback or asked[0].id
    return {"kind": "approval.delivered", "approval": call, "call": call}


def _invoke(run: History, event: Details, details: Details, what: str) -> tuple[Draft, Shown]:
    """Another function that the execution calls and waits for; with an ARN of its own it is a durable run."""
    op = run.op(event, "ChainedInvoke")
    if what == "Started":
        op.at = utc(event.get("EventTimestamp"))
        op.child = text(details, "DurableExecutionArn")
        shown = payload_of(details.get("Input"))
        named = {**_placed(op), "name": op.name or text(details, "FunctionName")}
        return {**named, "kind": "child.started", "in": shown.value, "child": op.child}, shown
    _end(run, op, event)
    if what == "Succeeded":
        shown = payload_of(details.get("Result"))
        return {**_placed(op), "kind": "child.result", "out": shown.value, "child": op.child}, shown
    error = failure_of(details.get("Error")) or {"type": f"ChainedInvoke{what}", "message": "no reason recorded"}
    return {**_placed(op), "kind": "child.error", "error": error, "child": op.child}, Shown()


def _callback(run: History, event: Details, details: Details, what: str) -> tuple[Draft, Shown]:
    op = run.op(event, "Callback")
    if what == "Started":
        op.at, op.callback = utc(event.get("EventTimestamp")), text(details, "CallbackId")
        op.until = later(op.at, details.get("Timeout"))
        line: Draft = {**_placed(op), "call": op.callback or op.id}
        if op.kind == "approval":
            line |= {"kind": "approval.requested", "approval": op.callback or op.id, "expires_at": op.until}
        return {**line, "until": op.until}, Shown()
    _end(run, op, event)
    call = op.callback or op.id
    shown, error = payload_of(details.get("Result")), failure_of(details.get("Error"))
    line = {**_placed(op), "call": call, "out": shown.value, "error": error}
    if op.kind == "signal":
        return {**line, "kind": "signal.received", "outcome": None if what == "Succeeded" else what.lower()}, shown
    if what == "TimedOut":
        return {**line, "kind": "approval.expired", "approval": call}, shown
    return {**line, "kind": "approval.decided", "approval": call, **_decided(shown.value, error, what)}, shown


_YES: Final = ("approve", "approved", "accept", "accepted", "yes", "allow")
_NO: Final = ("reject", "rejected", "deny", "denied", "decline", "declined", "no")


def _decided(value: Any, error: Mapping[str, Any] | None, what: str) -> Draft:
    """What the outside answered, as a claim: a failure is a no; a result says so by `approved` or a word, else it stays open."""
    if what == "Failed":
        return {"decision": "reject", "reason": (error or {}).get("message"), "outcome": "failed"}
    told = value if isinstance(value, Mapping) else {"decision": value}
    word = next((told[k] for k in ("approved", "decision", "status", "outcome") if k in told), None)
    known = str(word).lower() if isinstance(word, (str, bool)) else ""
    decision = "approve" if known in (*_YES, "true") else "reject" if known in (*_NO, "false") else None
    by = next(
        (told[k] for k in ("by", "approver", "decided_by", "user", "reviewer") if isinstance(told.get(k), str)), None
    )
    reason = next((told[k] for k in ("reason", "comment", "note") if isinstance(told.get(k), str)), None)
    return {"decision": decision, "by": by, "reason": reason}


_READERS: Final[dict[str, Callable[[History, Details, Details, str], tuple[Draft, Shown]]]] = {
    "Execution": _execution,
    "Invocation": _invocation,
    "Step": _step,
    "Wait": _wait,
    "Context": _context,
    "ChainedInvoke": _invoke,
    "Callback": _callback,
}
