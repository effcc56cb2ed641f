"""What an export says about a Durable Task run as a whole: the content of its `runtime.state` note.

A history lists everything that was scheduled, so what it does not list was not scheduled when it was taken. A wait for an external
event leaves no record: it is named only where the history shows that nothing else is open, or the application says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from drainboard import wire

from journals.adapters.durabletask.events import Snapshot
from journals.adapters.durabletask.lines import History
from journals.adapters.durabletask.steps import Step
from journals.adapters.durabletask.values import OVER, STATUSES, encodable, newest, stamp, status_word, stored
from journals.adapters.values import compact, text

_NOT_IN_HTTP = ("version", "tags", "parent", "numbers of events", "instance ids of children")
MAY_RETRY = "may_be_retried"
WITHOUT_RESULTS = "results were not exported (showHistoryOutput=false)"


def state_of(history: History | None, snapshot: Snapshot, told: Snapshot) -> dict[str, Any]:
    """The `out` of the note. `told`: the newest state of the instance in the import, often the snapshot's own."""
    state = told.state or {}
    word = _word(snapshot, told)
    status = STATUSES.get(word, "unknown")
    torn = snapshot.torn or snapshot.lost
    live = status not in OVER
    pending = _pending(history, live) if history else []
    waiting = _waiting(history, told, word) if history and live else _scheduled(told) if live else []
    if status == "running" and waiting and all(p["state"] == MAY_RETRY for p in pending):
        status = "parked"
    if torn and status in OVER:
        status = "unknown"
    custom = _custom(told)
    made: dict[str, Any] = {
        "runtime_status": word or None,
        "status": status,
        "complete": not live and not torn and snapshot.ended is not None,
        "as_of": newest([snapshot.as_of, told.updated]),
        "tries_recorded": False,
        "doubles": _doubles(history) if history else [],
        "build": _version(snapshot, told),
        "name": text(state, "name"),
        "custom_status": None if custom is wire.MISSING else encodable(custom),
    }
    if history is not None:
        if not torn:
            made |= {"pending": pending, "waiting": waiting}
        made |= {
            "last_step": max((s.number for s in history.steps.steps), default=0),
            "held": _held(history),
            **_gaps_of_form(history),
        }
    elif not live:
        made["history"] = "not exported"
    if history is None and waiting:
        made["waiting"] = waiting
    return made


def _word(snapshot: Snapshot, told: Snapshot) -> str:
    """The status in capitals: what the history ends with, else what the state says."""
    ended = snapshot.ended
    if ended is None:
        return told.word or snapshot.word
    if ended.type == "ContinueAsNew":
        return "CONTINUED_AS_NEW"
    return status_word(ended.fields.get("orchestration_status", ended.fields.get("runtime_status"))) or told.word


def _version(snapshot: Snapshot, told: Snapshot) -> str | None:
    started = next((e for e in snapshot.events or [] if e.type == "ExecutionStarted"), None)
    return (text(started.fields, "version") if started else None) or text(told.state or {}, "version")


def _custom(told: Snapshot) -> Any:
    state = told.state or {}
    given = state.get("custom_status", state.get("custom_status_text", state.get("serialized_custom_status")))
    return stored(given)[0]


def _held(history: History) -> dict[str, Any]:
    snapshot = history.snapshot
    made: dict[str, Any] = {"form": snapshot.form, "whole": not (snapshot.torn or snapshot.lost)}
    if snapshot.numbered:
        made["form"] = "history"
        if not history.rewound:  # a rewind moves what is left of the history to other positions
            return {**made, "seqs": compact(history.seqs)}
    return {**made, "ids": [m.id for m in history.lines if not m.id.startswith("status:")]}


def _gaps_of_form(history: History) -> dict[str, Any]:
    """What the form of the export leaves out, by name."""
    if history.snapshot.numbered:
        return {"turns": history.steps.turn}
    made: dict[str, Any] = {"not_in_this_form": list(_NOT_IN_HTTP), "results_exported": not history.without_output}
    if history.without_output:
        made["missing_outputs"] = [{"step": s.number, "name": s.event.name} for s in history.without_output]
        made["replay_refused"] = WITHOUT_RESULTS
    return made


def _pending(history: History, live: bool) -> list[dict[str, Any]]:
    """Tasks without an answer, of runs that are over too; and failed ones that a retry policy will, or may, try again."""
    made = []
    retried = _retried(history.steps.steps) if live else {}
    for step in history.steps.steps:
        if step.what == "task" and not step.answered:
            made.append(_place(step))
        elif step.order in retried:
            failed = step.error or {}
            told = {k: encodable(failed[k]) for k in ("type", "message") if k in failed}
            made.append({**_place(step), "state": retried[step.order], "last_failure": told})
    return made


def _retried(steps: Sequence[Step]) -> dict[int, str | None]:
    """The failed tasks (by `order`) behind which a timer was set in the turn of their failure and has not fired, with their state.

    A retry policy sets such a timer, and so may the application. It is one of a policy for sure when the task was tried again
    before and no other one failed in that turn for which the timer may have been set.
    """
    timers: dict[int, list[int]] = {}
    failed: dict[int, list[Step]] = {}
    for step in steps:
        if step.what == "timer" and not step.answered:
            timers.setdefault(step.turn, []).append(step.order)
        elif step.what == "task" and step.answered and not step.ok:
            failed.setdefault(step.ended_turn, []).append(step)
    made: dict[int, str | None] = {}
    for turn, orders in timers.items():
        tasks = [s for s in failed.get(turn, ()) if max(orders) > s.order]
        enough = len(orders) >= len(tasks)
        made |= {s.order: None if s.attempt > 1 and enough else MAY_RETRY for s in tasks}
    return made


def _place(step: Step) -> dict[str, Any]:
    return {
        "branch": "",
        "step": step.number,
        "name": step.event.name,
        "attempt": step.attempt,
        "state": None,  # scheduled: whether it was begun is not recorded
        "last_failure": None,
        "last_started_at": None,
    }


def _waiting(history: History, told: Snapshot, word: str) -> list[dict[str, Any]]:
    """What a run that is not over waits for: timers, children, messages."""
    steps = history.steps.steps
    open_ones = [s for s in steps if not s.answered]
    last = max((s.progress for s in steps), default=0)
    timers = [s for s in open_ones if s.what == "timer"]
    fresh = [s for s in timers if s.progress == last]
    left = [s for s in timers if s.progress != last]  # the run went on behind it: perhaps it waits for it no more
    children = [s for s in open_ones if s.what == "child"]
    busy = any(s.what == "task" for s in open_ones)
    made = [_wait(s, "timer") for s in fresh]
    made += [_wait(s, f"child:{text(s.event.fields, 'instance_id') or s.event.name or ''}") for s in children]
    if not busy and word == "RUNNING":
        name = _said(told)
        if name and not children:
            first = made.pop(0) if fresh else {"branch": "", "step": None, "until": None, "since": told.updated}
            made.insert(0, {**first, "what": f"signal:{name}"})
        elif not made and _idle(history):
            until = min((s.event.until for s in left if s.event.until), default=None)
            since = history.snapshot.as_of
            made.append({"branch": "", "step": None, "what": "signal:?", "until": until, "since": since})
    return made + [_wait(s, "timer") for s in left]


def _wait(step: Step, what: str) -> dict[str, Any]:
    return {"branch": "", "step": step.number, "what": what, "until": step.event.until, "since": step.event.at}


def _said(told: Snapshot) -> str:
    """The message that the application's custom status says it waits for."""
    custom = _custom(told)
    for name in ("waiting_for", "waitingFor"):
        if isinstance(custom, Mapping) and isinstance(custom.get(name), str):
            return str(custom[name])
    return ""


def _idle(history: History) -> bool:
    """Whether the last turn ended and left nothing open, so that only a message can move the run. Turns are not in the HTTP form."""
    events = history.snapshot.events or []
    last = events[-1].type if events else ""
    return (
        last == "OrchestratorCompleted"
        and history.open_calls <= 0
        and history.snapshot.ended is None
        and not history.snapshot.torn
    )


def _scheduled(told: Snapshot) -> list[dict[str, Any]]:
    """The time at which an instance that has not begun will begin."""
    state = told.state or {}
    at = stamp(state.get("scheduled_start_timestamp") or state.get("scheduled_start_time"))
    return (
        [{"branch": "", "step": None, "what": "timer", "until": at, "since": told.updated}]
        if at and told.word == "PENDING"
        else []
    )


def _doubles(history: History) -> list[dict[str, Any]]:
    """Steps that were scheduled since the run was rewound: a rewind takes the records of what failed before out of the history."""
    if not history.rewound:
        return []
    return [
        {
            "branch": "",
            "step": s.number,
            "name": s.event.name,
            "kind": s.shown.get("kind"),
            "effect": s.shown.get("effect"),
            "why": "resumed",
            "other": None,
        }
        for s in history.steps.steps[history.rewound[0] :]
        if s.what == "task"
    ]
