"""Events of activities, timers, children, operations and markers, as the lines of steps."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

from drainboard import wire

from journals.adapters.names import effect_of
from journals.adapters.temporal import names, versions
from journals.adapters.temporal.failures import error_of, timeout_error
from journals.adapters.temporal.history import Event, History, Step
from journals.adapters.temporal.values import dict_of, is_encrypted, number_of, text_of

Draft = dict[str, Any]
"""A line's fields before its run, id, seq and time are put in front; `id_suffix` marks a second line of one event."""


def activity_scheduled(run: History, event: Event) -> list[Draft]:
    """The command with its input. It says that the runtime will start the step, not that the step has begun."""
    name = text_of(dict_of(event.rest.get("activityType")).get("name")) or "activity"
    given = names.input_of(event.take("input"))
    kind = names.kind_of(name, given)
    own = versions.of_model_input(given, event.summary) if kind == "model" else {}
    run.offered.update(dict_of(own.get("tools")) if isinstance(dict_of(given).get("tools"), list) else {})
    step = _new(run, event, kind, name, text_of(event.rest.get("activityId")))
    step.effect = effect_of(name)
    _ask(step, given, run)
    step.versions = {**run.step_versions(kind, name), **own}
    return [
        {
            **step.line("started"),
            "versions": _stated(run, step),
            "in": given,
            "runtime_key": f"{run.workflow_id}/{step.call}",
        }
    ]


def activity_started(run: History, event: Event) -> list[Draft]:
    """Written when the activity closes, for its last attempt only. An earlier failure becomes the error of the attempt before."""
    step = run.steps.get(event.ref("scheduledEventId"))
    attempt = number_of(event.rest.get("attempt")) or 1
    failure = event.take("lastFailure")
    if step is None:
        return [{"attempt": attempt, **({"error": error_of(failure)} if failure else {})}]
    build = versions.build_of(event.rest)
    lines: list[Draft] = []
    if failure:
        step.attempt = max(1, attempt - 1)
        lines.append(
            {**step.line("error"), "error": error_of(failure), "outcome": "retried", "id_suffix": ":last_failure"}
        )
    step.attempt, step.begun = attempt, True
    if build:
        step.versions["app"] = build
    fields = {k: v for k, v in step.line("started").items() if k not in ("kind", "key", "request", "effect")}
    return [*lines, {**fields, "versions": versions.stated(app=build)}]


def closed(run: History, event: Event, *, points_at: str = "scheduledEventId") -> list[Draft]:
    """The end of a step: its result, or its error with the state of its retries."""
    step = run.steps.get(event.ref(points_at))
    error = end_error(event)
    out = end_value(event)
    if step is None:
        return [{"error": error} if error else {"out": out}]
    step.closed = True
    line: Draft = {**step.line("error" if error else "result"), "versions": _stated(run, step)}
    if step.child:
        line["child"] = step.child
    if error:
        return [{**line, "error": error}]
    if step.kind == "model":
        line["versions"] = versions.stated(**{**line["versions"], **versions.of_model_output(out)})
        line["model_reported"] = versions.reported_model(out)
        if isinstance(dict_of(out).get("usage"), dict):
            line["usage"] = out["usage"]
    return [{**line, "out": out}]


def child_initiated(run: History, event: Event) -> list[Draft]:
    name = text_of(dict_of(event.rest.get("workflowType")).get("name")) or "child"
    given = names.input_of(event.take("input"))
    child = text_of(event.rest.get("workflowId"))
    step = _new(run, event, "child", name, child)
    step.child = child or None
    _ask(step, given, run)
    step.versions = {}
    return [{**step.line("started"), "versions": _stated(run, step), "in": given, "child": step.child}]


def child_started(run: History, event: Event) -> list[Draft]:
    """The child runs from here on: its run id is known."""
    step = run.steps.get(event.ref("initiatedEventId"))
    found = dict_of(event.rest.get("workflowExecution"))
    child = f"{text_of(found.get('workflowId'))}/{text_of(found.get('runId'))}"
    if step is None:
        return [{"child": child}]
    step.child, step.begun = child, True
    return [{"name": step.name, "step": step.step, "branch": step.branch, "call": step.call, "child": child}]


def child_closed(run: History, event: Event) -> list[Draft]:
    return closed(run, event, points_at="initiatedEventId")


def operation_scheduled(run: History, event: Event) -> list[Draft]:
    """A Nexus operation: a call of another service, so a tool."""
    parts = [text_of(event.rest.get(k)) for k in ("endpoint", "service", "operation")]
    given = event.take("input", wire.MISSING)
    step = _new(
        run, event, "tool", "/".join(p for p in parts if p) or "operation", text_of(event.rest.get("requestId"))
    )
    step.effect = effect_of(step.name)
    _ask(step, given, run)
    step.versions = {}
    return [{**step.line("started"), "versions": _stated(run, step), "in": given}]


def operation_started(run: History, event: Event) -> list[Draft]:
    step = run.steps.get(event.ref("scheduledEventId"))
    if step is None:
        return [{}]
    step.begun = True
    return [{"name": step.name, "step": step.step, "branch": step.branch, "call": step.call}]


def timer_started(run: History, event: Event) -> list[Draft]:
    step = _new(run, event, "timer", event.summary or "timer", text_of(event.rest.get("timerId")))
    step.until = later(event.at, event.rest.get("startToFireTimeout"))
    line = step.line("started")
    return [{**{k: line[k] for k in ("kind", "name", "step", "branch", "call")}, "until": step.until}]


def timer_ended(run: History, event: Event) -> list[Draft]:
    """Fired, or cancelled by the run itself (`outcome` says so): either way nothing waits for it any more."""
    step = run.steps.get(event.ref("startedEventId"))
    line: Draft = {"kind": "timer.fired", "call": text_of(event.rest.get("timerId"))}
    if event.type == "TimerCanceled":
        line["outcome"] = "cancelled"
    if step is None:
        return [line]
    step.closed = True
    return [{**line, "name": step.name, "step": step.step, "branch": step.branch}]


def marker(run: History, event: Event) -> list[Draft]:
    """Local activities, patches and recorded values; other markers stay events."""
    name = text_of(event.rest.get("markerName"))
    details = dict_of(event.rest.get("details"))
    if name in ("core_local_activity", "LocalActivity"):
        return _local_activity(run, event, details)
    if name in ("core_patch", "Version"):
        return [_patch(details)]
    if name in ("SideEffect", "MutableSideEffect"):
        branch, number = run.place(event.number)
        return [
            {
                "kind": "value.result",
                "name": name,
                "step": number,
                "branch": branch,
                "out": _first(details.get("data"), details),
            }
        ]
    return [{"name": name}]


def later(at: str | None, duration: Any) -> str | None:
    """RFC 3339 time `duration` (`"3600s"`) after `at`, to the microsecond; None when either is unreadable."""
    text = text_of(duration)
    try:
        begin = datetime.fromisoformat(text_of(at))
        end = begin + timedelta(seconds=float(text[:-1])) if text.endswith("s") else None
        return end.isoformat().replace("+00:00", "Z") if end else None
    except (ValueError, OverflowError):
        return None


STEPS: Final[dict[str, Callable[[History, Event], list[Draft]]]] = {
    "ActivityTaskScheduled": activity_scheduled,
    "ActivityTaskStarted": activity_started,
    "ActivityTaskCompleted": closed,
    "ActivityTaskFailed": closed,
    "ActivityTaskTimedOut": closed,
    "ActivityTaskCanceled": closed,
    "StartChildWorkflowExecutionInitiated": child_initiated,
    "StartChildWorkflowExecutionFailed": child_closed,
    "ChildWorkflowExecutionStarted": child_started,
    "ChildWorkflowExecutionCompleted": child_closed,
    "ChildWorkflowExecutionFailed": child_closed,
    "ChildWorkflowExecutionCanceled": child_closed,
    "ChildWorkflowExecutionTimedOut": child_closed,
    "ChildWorkflowExecutionTerminated": child_closed,
    "NexusOperationScheduled": operation_scheduled,
    "NexusOperationStarted": operation_started,
    "NexusOperationCompleted": closed,
    "NexusOperationFailed": closed,
    "NexusOperationTimedOut": closed,
    "NexusOperationCanceled": closed,
    "TimerStarted": timer_started,
    "TimerFired": timer_ended,
    "TimerCanceled": timer_ended,
    "MarkerRecorded": marker,
}


def _new(run: History, event: Event, kind: str, name: str, call: str) -> Step:
    branch, number = run.place(event.number, event.ref("workflowTaskCompletedEventId"))
    step = Step(event=event.number, kind=kind, branch=branch, step=number, name=name, call=call, at=event.at)
    run.steps[event.number] = step
    return step


def _ask(step: Step, given: Any, run: History) -> None:
    """Key and fingerprint of what is asked. What a codec encrypted has no fingerprint: equal requests differ in it."""
    step.key = names.key_of(given)
    if given is not wire.MISSING and not is_encrypted(given):
        step.request = wire.request_fingerprint(kind=step.kind, name=step.name, in_=given, key=step.key)


def _stated(run: History, step: Step) -> dict[str, Any]:
    return versions.stated(**{"app": run.build, "sdk": run.sdk, **step.versions})


def _first(values: Any, default: Any = None) -> Any:
    return values[0] if isinstance(values, list) and len(values) == 1 else default if values is None else values


def end_value(event: Event) -> Any:
    found = event.take("result", wire.MISSING)
    return _first(found) if isinstance(found, list) and found else (wire.MISSING if found == [] else found)


def end_error(event: Event) -> dict[str, Any] | None:
    """What an event that ends something says went wrong; None when it ends well."""
    failure = event.take("failure")
    if isinstance(failure, dict):
        error = error_of(failure)
        retry = text_of(event.rest.get("retryState"))
        return {**error, "retry_state": retry} if retry else error
    if event.type.endswith("TimedOut"):
        return timeout_error(event.rest.get("timeoutType"))
    if event.type.endswith(("Canceled", "Terminated", "Failed")):
        kind = next(w for w in ("Canceled", "Terminated", "Failed") if event.type.endswith(w))
        message = text_of(event.rest.get("cause")) or f"{kind.lower()}, no reason recorded"
        return {"type": kind, "message": message, "retryable": False}
    return None


def _local_activity(run: History, event: Event, details: dict[str, Any]) -> list[Draft]:
    """Recorded once, at its end; its input, its start and earlier tries are not recorded at all.

    It runs inside a turn of the runtime. When the turn before was lost, nothing says whether it had run in that one.
    """
    data = dict_of(_first(details.get("data")))
    failure = event.take("failure")
    name = text_of(data.get("activity_type") or data.get("ActivityType")) or "local activity"
    kind = names.kind_of(name, None)
    branch, number = run.place(event.number)
    step = Step(
        event=event.number,
        kind=kind,
        branch=branch,
        step=number,
        name=name,
        at=event.at,
        closed=True,
        call=text_of(data.get("activity_id") or data.get("ActivityID")),
    )
    step.attempt = number_of(data.get("attempt") or data.get("Attempt")) or 1
    step.effect = effect_of(name)
    line: Draft = {**step.line("error" if failure else "result"), "versions": _stated(run, step), "local": True}
    end = {**line, "error": error_of(failure)} if failure else {**line, "out": _first(details.get("result"), None)}
    if not run.lost_turn:
        return [end]
    message = f"the turn before this one ended without an answer (event {run.lost_turn}); the local activity may have run in it"
    lost = {"type": "LostTurnTimeout", "message": message, "retryable": True}
    return [{**step.line("error"), "error": lost, "outcome": "retried", "local": True, "id_suffix": ":lost_turn"}, end]


def _patch(details: dict[str, Any]) -> Draft:
    data = dict_of(_first(details.get("patch-data")))
    name = text_of(data.get("id")) or text_of(_first(details.get("change-id")))
    version = _first(details.get("version"))
    out = {"deprecated": bool(data.get("deprecated"))} if data else {"version": version}
    return {"kind": "version.marker", "name": name or "patch", "out": out}
