"""What a describe or a list of Temporal says about a run, and the one `runtime.state` line that tells it.

A history ends with the last event; whether its open activity is queued, running or backing off, only a describe knows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from drainboard import wire

from journals.adapters.temporal.failures import error_of
from journals.adapters.temporal.history import History, Step
from journals.adapters.temporal.values import Values, camel, dict_of, number_of, text_of

_STATUS: Final = {
    "Completed": "completed",
    "Failed": "failed",
    "TimedOut": "failed",
    "Canceled": "cancelled",
    "Terminated": "stopped",
    "ContinuedAsNew": "continued",
    "Paused": "held",
}
"""The runtime's end states and `Paused`; everything else is looked at more closely."""


_OPEN: Final = frozenset(("running", "parked", "held"))
_HIDDEN: Final = "unrecorded: a local activity may be in a turn that did not end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One describe, or one row of a list (`described` is false: it knows the status and nothing of what is pending)."""

    path: str
    described: bool
    workflow_id: str
    run_id: str
    info: Mapping[str, Any]  # workflowExecutionInfo, decoded
    body: Mapping[str, Any]  # the whole describe, decoded

    @property
    def run(self) -> str:
        return f"{self.workflow_id}/{self.run_id}"

    @property
    def length(self) -> int:
        """Events that the history had at that time; 0 when it does not say."""
        return number_of(self.info.get("historyLength")) or 0

    @property
    def status(self) -> str:
        return text_of(self.info.get("status"))

    def pending(self, key: str) -> list[dict[str, Any]]:
        found = self.body.get(key)
        return [dict_of(p) for p in found] if isinstance(found, list) else []

    @property
    def task(self) -> dict[str, Any]:
        return dict_of(self.body.get("pendingWorkflowTask"))


def facts_of(value: Any, path: str) -> Facts | None:
    """The facts in a decoded describe or list row; None when it is neither."""
    body = dict_of(value)
    described = isinstance(body.get("workflowExecutionInfo"), dict)
    info = dict_of(body["workflowExecutionInfo"] if described else body)
    execution = dict_of(info.get("execution"))
    workflow_id, run_id = text_of(execution.get("workflowId")), text_of(execution.get("runId"))
    if not workflow_id or not run_id or "status" not in info:
        return None
    values = Values()
    return Facts(
        path=path,
        described=described,
        workflow_id=workflow_id,
        run_id=run_id,
        info=values.tree(info),
        body=values.tree(body) if described else {},
    )


def best(found: list[Facts], last: int) -> Facts | None:
    """The facts that belong to a history of `last` events: of the same length, else the first that knows more. None of before."""
    fitting = [f for f in found if not f.length or f.length >= last]
    return min(fitting, key=lambda f: (f.length != last, not f.described, f.length), default=None)


def state_line(
    run: History,
    facts: Facts | None,
    *,
    whole: bool,
    metadata: Mapping[str, Any] | None = None,
    held: Mapping[str, Any] | None = None,
) -> bytes:
    """The `runtime.state` note of a run. `whole`: the file holds every event up to its last one; `held`: which ones it holds."""
    out = _state(run, facts, whole, metadata or {})
    out["held"] = None if held is None else {**held, "whole": held["whole"] and "partial" not in out}
    digest = hashlib.sha256(wire.encode(out)).hexdigest()[:12]
    fields = {
        "run": run.run,
        "id": f"state:{digest}",
        "seq": run.last or None,
        "at": out["as_of"],
        "kind": "note",
        "name": "runtime.state",
        "agent": run.workflow_type or None,
        "out": out,
    }
    return wire.dump({k: v for k, v in fields.items() if v is not None})


def _state(run: History, facts: Facts | None, whole: bool, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The note's `out`. Where the end of the history is only the end of the export, `seen` says what it looks like there."""
    info = facts.info if facts else {}
    pending = list(_pending(run, facts))
    stuck = None if run.ended else _stuck(run, facts)
    status = _status(run, facts, bool(pending), stuck)
    looks = status if status in _OPEN else _looks(run)
    waiting = [] if run.ended else list(_waiting(run, facts, metadata, looks))
    partial = _partial(run, facts)
    versioning = dict_of(info.get("versioningInfo"))
    return {
        "runtime_status": (facts.status if facts and (facts.length >= run.last or not run.ended) else "")
        or run.status
        or None,
        "status": status,
        "complete": bool(run.ended) and whole,
        "as_of": _latest(run, facts),
        "pending": pending,
        "waiting": waiting if status in _OPEN else [],
        "seen": None if run.ended or status in _OPEN else {"status": looks, "waiting": waiting},
        **({"partial": partial} if partial else {}),
        "loop": None,
        "stranded": None,
        "stuck": stuck,
        "forked_from": run.base_run,
        "continued_from": run.continued_from,
        "parent": run.parent or _parent(info),
        "build": run.build or _build(info) or None,
        "pinned_to": run.pinned or _pinned(versioning) or None,
        "deployment": run.deployment or text_of(info.get("workerDeploymentName")) or None,
        "tries_recorded": False,
        "used": {"bytes": size} if (size := number_of(info.get("historySizeBytes"))) else None,
        "paused": run.paused or _pause(facts),
        "cancel_requested": run.cancel_requested
        or bool(dict_of((facts.body if facts else {}).get("workflowExtendedInfo")).get("cancelRequested")),
        "details": text_of(metadata.get("currentDetails")) or None,
        "events": {"last": run.last, "stated": (facts.length if facts else 0) or None, "whole": whole},
        "workflow_task": _task(run, facts),
    }


def _status(run: History, facts: Facts | None, pending: bool, stuck: Any) -> str:
    if run.ended:
        return run.ended
    word = camel(facts.status, "WORKFLOW_EXECUTION_STATUS_") if facts else ""
    if word in _STATUS:
        return _STATUS[word]
    if word not in ("", "Running"):
        return "unknown"  # a status of tomorrow
    if stuck:
        return "stuck"
    if facts and facts.described:
        return "running" if facts.task or pending else "parked"
    return "unknown"  # the file ends; the run may have gone on long ago


def _looks(run: History) -> str:
    """What the last event makes one think of a run that is not over."""
    if run.paused:
        return "held"
    busy = run.task.state or run.task.woken or any(s.kind in ("tool", "model") for s in run.open_steps())
    return "running" if busy or not run.last else "parked"


def _partial(run: History, facts: Facts | None) -> str:
    """Why the entries are fewer than the runtime has; empty when they are not, or nobody says."""
    if facts is None or not facts.described or facts.length <= run.last:
        return ""
    if not run.last:
        return "only a describe of the run is here, not its history"
    return f"the history has {facts.length} events, this export {run.last}"


def _pending(run: History, facts: Facts | None) -> Iterator[dict[str, Any]]:
    """Steps that the runtime calls unfinished. A history alone calls only those so whose start it records: scheduled is not begun."""
    if run.ended:
        if run.cut_turn:
            yield _hidden(run, run.cut_turn)
        return
    open_steps = [s for s in run.open_steps() if s.kind in ("tool", "model")]
    if facts is None or not facts.described:
        yield from (_item(s, state="STARTED", attempt=s.attempt) for s in open_steps if s.begun)
        return
    by_call = {s.call: s for s in open_steps}
    for found in facts.pending("pendingActivities"):
        yield _activity(found, by_call.get(text_of(found.get("activityId"))))
    for found in facts.pending("pendingNexusOperations"):
        operation = run.steps.get(number_of(found.get("scheduledEventId")) or 0)
        yield _item(
            operation,
            state=camel(found.get("state"), "PENDING_NEXUS_OPERATION_STATE_").upper() or None,
            attempt=number_of(found.get("attempt")) or 1,
            name=text_of(found.get("operation")),
        )
    turn = _task(run, facts)
    if turn and (turn["state"] == "started" or run.lost_now) and run.last and not _stuck(run, facts):
        yield _hidden(run, turn["attempt"])


def _hidden(run: History, attempt: int) -> dict[str, Any]:
    """A local activity that may have run in a turn that is open or was lost: there is no record of it before the turn ends."""
    return {**_item(None, state=_HIDDEN, attempt=attempt), "branch": "", "step": run.next_step}


def _activity(found: dict[str, Any], step: Step | None) -> dict[str, Any]:
    state = text_of(found.get("state"))
    made = _item(
        step,
        state=state.removeprefix("PENDING_ACTIVITY_STATE_").upper() or None,
        attempt=number_of(found.get("attempt")) or 1,
        name=text_of(dict_of(found.get("activityType")).get("name")),
        call=text_of(found.get("activityId")),
    )
    failure = found.get("lastFailure")
    made["last_failure"] = error_of(failure) if isinstance(failure, dict) else None
    made["last_started_at"] = text_of(found.get("lastStartedTime")) or None
    made["next_attempt_at"] = text_of(found.get("nextAttemptScheduleTime")) or None
    made["max_attempts"] = number_of(found.get("maximumAttempts"))
    made["worker"] = text_of(found.get("lastWorkerIdentity")) or None
    if found.get("heartbeatDetails") is not None:
        made["heartbeat"] = found["heartbeatDetails"]
    return made


def _item(step: Step | None, *, state: str | None, attempt: int, name: str = "", call: str = "") -> dict[str, Any]:
    return {
        "branch": step.branch if step else None,
        "step": step.step if step else None,
        "name": step.name if step else name or None,
        "kind": step.kind if step else None,
        "call": step.call if step else call,
        "entry": step.event if step else None,
        "key": step.key if step else None,
        "attempt": attempt,
        "state": state,
        "last_failure": None,
        "last_started_at": None,
    }


def _waiting(run: History, facts: Facts | None, metadata: Mapping[str, Any], status: str) -> Iterator[dict[str, Any]]:
    for step in run.open_steps():
        if step.kind == "timer":
            yield {
                "branch": step.branch,
                "step": step.step,
                "what": "timer",
                "until": step.until,
                "since": step.at,
                "name": step.name,
            }
        elif step.kind == "child":
            yield {
                "branch": step.branch,
                "step": step.step,
                "what": f"child:{step.child or step.call}",
                "until": None,
                "since": step.at,
            }
    known = {s.child for s in run.steps.values()}
    for found in facts.pending("pendingChildren") if facts else []:
        child = f"{text_of(found.get('workflowId'))}/{text_of(found.get('runId'))}"
        if child not in known:
            yield {"branch": None, "step": None, "what": f"child:{child}", "until": None, "since": None}
    definition = dict_of(metadata.get("definition"))
    for listed in ("signalDefinitions", "updateDefinitions") if status == "parked" else ():
        names = definition.get(listed)
        for found in names if isinstance(names, list) else []:
            name = text_of(dict_of(found).get("name"))
            if name and not name.startswith("__"):
                yield {"branch": "", "step": None, "what": f"signal:{name}", "until": None, "since": run.last_at}
    if status == "parked" and not run.open_steps() and not definition:
        yield {"branch": "", "step": None, "what": "signal:?", "until": None, "since": run.last_at}


def _stuck(run: History, facts: Facts | None) -> dict[str, Any] | None:
    """The workflow task that fails again and again. Later tries are not in the history; a describe counts them."""
    problem = run.task.problem
    task = facts.task if facts and facts.described else {}
    attempt = number_of(task.get("attempt")) or (run.task.attempt if not facts else 1)
    if facts and facts.described and not task:
        return None
    reported = _reported(facts)
    if problem is None and attempt < 2 and not reported:
        return None
    made = dict(
        problem
        or {
            "cause": reported.get("cause", "WorkflowTaskRetried"),
            "message": "",
            "build": None,
            "since": None,
            "event": None,
        }
    )
    made["attempt"] = attempt if task or attempt > 1 else None  # None: tries after the first are not in this export
    made["trying_since"] = text_of(task.get("originalScheduledTime")) or made["since"]
    return made


def _reported(facts: Facts | None) -> dict[str, str]:
    """The search attribute that the server sets on a run whose tasks keep failing."""
    found = dict_of(dict_of((facts.info if facts else {}).get("searchAttributes")).get("indexedFields")).get(
        "TemporalReportedProblems"
    )
    pairs = [text_of(p).partition("=") for p in (found if isinstance(found, list) else [])]
    return {name: value.removeprefix("WorkflowTaskFailedCause") for name, _, value in pairs}


def _task(run: History, facts: Facts | None) -> dict[str, Any] | None:
    """The runtime's turn that is open now. A local activity inside it leaves no record until the turn ends."""
    task = facts.task if facts and facts.described else {}
    if task:
        state = text_of(task.get("state")).removeprefix("PENDING_WORKFLOW_TASK_STATE_").lower()
        return {
            "state": state,
            "attempt": number_of(task.get("attempt")) or 1,
            "since": text_of(task.get("startedTime") or task.get("scheduledTime")) or None,
        }
    if run.ended or not run.task.state or (facts and facts.described):
        return None
    return {"state": run.task.state, "attempt": run.task.attempt, "since": run.task.since}


def _latest(run: History, facts: Facts | None) -> str | None:
    times = [run.last_at]
    for found in facts.pending("pendingActivities") if facts else []:
        times += [text_of(found.get(k)) for k in ("lastStartedTime", "lastAttemptCompleteTime")]
    if facts:
        times += [text_of(facts.task.get("startedTime")), text_of(facts.info.get("closeTime"))]
        times += [] if run.last_at else [text_of(facts.info.get("startTime"))]
    return max((t for t in times if t), key=_moment, default=None)


def _moment(text: str) -> tuple[bool, float, str]:
    try:
        return True, datetime.fromisoformat(text).timestamp(), text
    except (ValueError, OverflowError):
        return False, 0.0, text


def _parent(info: Mapping[str, Any]) -> str | None:
    found = dict_of(info.get("parentExecution"))
    return "/".join(p for p in (text_of(found.get("workflowId")), text_of(found.get("runId"))) if p) or None


def _build(info: Mapping[str, Any]) -> str:
    deployed = dict_of(dict_of(info.get("versioningInfo")).get("deploymentVersion")).get("buildId")
    return text_of(deployed) or text_of(dict_of(info.get("mostRecentWorkerVersionStamp")).get("buildId"))


def _pinned(versioning: Mapping[str, Any]) -> str:
    override = dict_of(dict_of(dict_of(versioning.get("versioningOverride")).get("pinned")).get("version"))
    if text_of(override.get("buildId")):
        return text_of(override.get("buildId"))
    pinned = camel(versioning.get("behavior"), "VERSIONING_BEHAVIOR_") == "Pinned"
    return text_of(dict_of(versioning.get("deploymentVersion")).get("buildId")) if pinned else ""


def _pause(facts: Facts | None) -> dict[str, Any] | None:
    found = dict_of(dict_of((facts.body if facts else {}).get("workflowExtendedInfo")).get("pauseInfo"))
    if not found:
        return None
    return {
        "by": text_of(found.get("identity")) or None,
        "reason": text_of(found.get("reason")) or None,
        "since": text_of(found.get("pausedTime")) or None,
    }
