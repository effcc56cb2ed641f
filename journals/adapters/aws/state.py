"""The `runtime.state` of a durable execution: where it stands, what is open, what waits, what may have run twice."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from drainboard import wire

from journals.adapters.aws.history import GROUPS, History, Op, moment_key
from journals.adapters.aws.runs import Described
from journals.adapters.aws.values import later, utc
from journals.adapters.values import text

STATUSES: Final = {
    "RUNNING": "running",
    "PAUSING": "running",
    "PAUSED": "held",
    "SUCCEEDED": "completed",
    "FAILED": "failed",
    "TIMED_OUT": "failed",
    "STOPPED": "stopped",
}
"""DELETING and words of tomorrow are `unknown`."""

_OVER: Final = frozenset(("completed", "failed", "stopped"))
LOOP_FROM: Final = 5  # invocations in a row that left nothing
_WAITS: Final = ("Wait", "Callback", "ChainedInvoke")


def state_of(
    run: History, described: Described | None, held: Mapping[str, Any], missing: str, *, damaged: bool
) -> dict[str, Any]:
    """The `out` of the note.

    `missing`: why the export lacks records, empty when it lacks none that anybody knows of. `damaged`: because a file is
    damaged, so that nobody knows what else it said.
    """
    word = described.status if described else ""
    status = STATUSES.get(word, "unknown")
    short = _short(run, described, status, held)
    if run.ended:
        status = run.ended
    partial = missing or short
    open_ops = [] if status in _OVER else run.open_ops()
    waiting = [w for op in open_ops if (w := _waiting(op))]
    pending = [] if status in _OVER else [*_pending(run)]
    if run.cut:
        pending += _unrecorded(run, known=False)
    if status == "running" and word == "RUNNING" and not short:
        pending += _unrecorded(run, known=bool(pending or waiting))
        status = "parked" if waiting and not pending else status
    loop = _loop(run, waiting) if status == "running" else None
    if damaged and status in _OVER:
        status = "unknown"
    function, qualifier = described.function if described else ("", "")
    made: dict[str, Any] = {
        "runtime_status": word or None,
        "status": "stuck" if loop else status,
        "complete": bool(run.ended) and held["whole"] is True and not damaged,
        "as_of": as_of(run, described),
        "loop": loop,
        "stuck": {"cause": "replay_loop", "message": f"{loop['recoveries']} invocations without a new event"}
        if loop
        else None,
        "stranded": None,
        "forked_from": None,
        "build": qualifier or None,
        "function": function or None,
        "execution": text(described.fields, "DurableExecutionName") if described else None,
        "tries_recorded": False,
        "doubles": _doubles(run),
        "invocations": run.invocations,
        "used": {"operations": len(run.ops)},
        "last_step": max((op.step or 0 for op in run.ops.values() if not op.branch), default=0),
        "paused": _paused(run, described),
        "deadline": utc(described.fields.get("ExpectedExecutionTimeoutTimestamp")) if described else None,
        "held": held,
    }
    if not missing and status != "unknown" and held["form"] != "description":
        made |= {"pending": pending, "waiting": waiting}
    if partial:
        made["partial"] = partial
    return made


def state_line(run: str, out: Mapping[str, Any]) -> bytes:
    """The note as a line. Its id is made of its content, so the same state told again is the same entry."""
    body = {k: out[k] for k in sorted(out)}
    try:
        said = wire.digest(body)[7:23]
    except wire.Ambiguous:
        said = hashlib.sha256(repr(body).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    line = {
        "run": run,
        "id": f"state:{said}",
        "at": out.get("as_of"),
        "kind": "note",
        "name": "runtime.state",
        "out": body,
    }
    return wire.dump({k: v for k, v in line.items() if v is not None})


def as_of(run: History, described: Described | None) -> str | None:
    """The newest time that the export itself tells."""
    fields = described.fields if described else {}
    pause = fields.get("PauseDetails")
    told = [run.latest, utc(fields.get("EndTimestamp")), utc(fields.get("StartTimestamp"))]
    told.append(utc(pause.get("PauseRequestTimestamp")) if isinstance(pause, Mapping) else None)
    return max((t for t in told if t), key=moment_key, default=None)


def _short(run: History, described: Described | None, status: str, held: Mapping[str, Any]) -> str:
    """Why the records are fewer than what the description knows of."""
    if described is None or held["form"] == "description":
        return "only the execution's status is here, not its history" if described else ""
    if status in _OVER and not run.ended and held["form"] != "operations":
        return f"the execution is {described.status}, and this history does not hold its end"
    return ""


def _waiting(op: Op) -> dict[str, Any] | None:
    """What an open wait, callback or chained invoke waits for."""
    if op.type not in _WAITS:
        return None
    named = {
        "Wait": "timer",
        "Callback": f"{op.kind}:{op.callback if op.kind == 'approval' else op.name or op.callback or '?'}",
    }
    what = named.get(op.type) or f"child:{op.child or op.name or op.id}"
    return {"branch": op.branch, "step": op.step, "what": what, "name": op.name, "until": op.until, "since": op.at}


def _pending(run: History) -> Iterator[dict[str, Any]]:
    """Steps that have begun and not ended, and failed ones that will be tried again."""
    for op in run.ops.values():
        if op.type != "Step" or not (op.open or op.retry_s):
            continue
        yield {
            **_place(op.branch, op.step),
            "name": op.name,
            "kind": op.kind,
            "call": op.id,
            "attempt": op.attempt if op.open else op.failed + 1,
            "state": "STARTED" if op.open else "PENDING",
            "last_failure": {k: v for k in ("type", "message") if isinstance(v := (op.failure or {}).get(k), str)}
            or None,
            "last_started_at": op.at,
            "next_attempt_at": None if op.open else later(op.ended_at, op.retry_s),
        }


def _place(branch: str, step: int | None) -> dict[str, Any]:
    return {
        "branch": branch,
        "step": step,
        "name": None,
        "attempt": None,
        "state": "no_record",
        "last_failure": None,
        "last_started_at": None,
    }


def _unrecorded(run: History, *, known: bool) -> Iterator[dict[str, Any]]:
    """Steps that may be under way, or were when the run was ended from outside, without a record: the SDK does not wait for the
    record of a start.

    Between invocations nothing runs. While one may be running, each line that is not held up by an open operation may be in its next step.
    """
    between = run.last_type == "InvocationCompleted" and not run.last_error
    if between and known:
        return
    last: dict[str, Op] = {}
    for op in run.ops.values():
        if op.step is not None and op.step >= (last[op.branch].step or 0 if op.branch in last else 0):
            last[op.branch] = op
    inner = [
        op.inner for op in run.open_ops() if op.type == "Context" and op.sub_type not in (*GROUPS, "WaitForCallback")
    ]
    for branch in dict.fromkeys(["", *inner]):
        newest = last.get(branch)
        if newest is None or not _holds_up(run, newest):
            yield _place(branch, (newest.step or 0) + 1 if newest else 1)


def _holds_up(run: History, op: Op) -> bool:
    """Whether the code behind an operation cannot have gone on. A callback by itself is only waited for later on."""
    parent = run.ops.get(op.parent or "")
    loose = op.type == "Callback" and (parent is None or parent.sub_type != "WaitForCallback")
    return (op.open and not loose) or op.retry_s is not None


def _doubles(run: History) -> list[dict[str, Any]]:
    """Steps that an invocation was cut in, or that began in one invocation and ended in another: their code ran again."""
    seen = {(op.branch, op.step, op.name): (op, why) for op, why in run.again}
    return [
        {"branch": b, "step": s, "name": n, "kind": op.kind, "effect": op.effect, "why": why, "other": None}
        for (b, s, n), (op, why) in seen.items()
    ]


def _loop(run: History, waiting: Sequence[object]) -> dict[str, Any] | None:
    if waiting or run.idle_invocations < LOOP_FROM or any(op.retry_s for op in run.ops.values()):
        return None
    return {"recoveries": run.idle_invocations, "since": run.latest}


def _paused(run: History, described: Described | None) -> dict[str, Any] | None:
    details = described.fields.get("PauseDetails") if described else None
    if isinstance(details, Mapping):
        return {"reason": text(details, "Reason"), "since": utc(details.get("PauseRequestTimestamp"))}
    return run.held
