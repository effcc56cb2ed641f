"""Events of the run as a whole: its start and end, the runtime's own tasks, signals, updates and operators' actions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from drainboard import wire

from journals.adapters.temporal import names, versions
from journals.adapters.temporal.failures import error_of, timeout_error
from journals.adapters.temporal.history import Event, History, Task
from journals.adapters.temporal.steps import Draft, end_error, end_value
from journals.adapters.temporal.values import camel, dict_of, number_of, text_of

_HARMLESS: Final = frozenset(
    ["ResetWorkflow", "ResetStickyTaskQueue", "UnhandledCommand", "ForceCloseCommand", "FailoverCloseCommand"]
)
"""Causes of a failed workflow task that the runtime gets over by itself, or that are no fault of the code."""


def started(run: History, event: Event) -> list[Draft]:
    """The run with its input, agent (the workflow's type), parent, and the versions in its memo and search attributes."""
    given = names.input_of(event.take("input"))
    run.workflow_type = text_of(dict_of(event.rest.get("workflowType")).get("name"))
    run.parent = _run_id(event.rest.get("parentWorkflowExecution"))
    before = text_of(event.rest.get("continuedExecutionRunId"))
    run.continued_from = f"{run.workflow_id}/{before}" if before else None
    run.started_at = event.at
    memo = dict_of(dict_of(event.rest.get("memo")).get("fields"))
    found = versions.of_attributes(memo, _search(event), given if given is not wire.MISSING else None)
    run.versions.update(found)
    return [
        {
            "kind": "run.started",
            "agent": run.workflow_type or None,
            "name": run.workflow_type or None,
            "versions": versions.stated(**found),
            "in": given,
            "parent": run.parent,
            "workflow_id": run.workflow_id,
            "run_id": run.run_id,
            "continued_from": run.continued_from,
        }
    ]


def search_attributes(run: History, event: Event) -> list[Draft]:
    """A change of search attributes: versions that the code wrote on its way, or a state of its own."""
    found = versions.of_attributes(None, _search(event), None)
    run.versions.update(found)
    return [{"versions": versions.stated(**found)}]


def ended(run: History, event: Event) -> list[Draft]:
    word = {"Completed": "completed", "Canceled": "cancelled", "Terminated": "stopped"}.get(
        event.type[len("WorkflowExecution") :], "failed"
    )
    if event.rest.get("workflowTaskCompletedEventId") is None:  # the server ended it, whatever a worker was doing
        run.cut_turn = run.task.attempt if run.task.state == "started" or run.lost_now else 0
    elif word == "cancelled" and run.lost_turn:  # what ran in the lost turn was not run again
        run.cut_turn = 1
    run.ended, run.task, run.status = word, Task(), event.type[len("WorkflowExecution") :]
    line: Draft = {"kind": f"run.{word}", "versions": _build(run)}
    if word == "completed":
        return [{**line, "out": end_value(event)}]
    if word == "stopped":
        return [
            {**line, "reason": text_of(event.take("reason")) or None, "by": text_of(event.rest.get("identity")) or None}
        ]
    if event.type == "WorkflowExecutionTimedOut":
        return [
            {
                **line,
                "error": {"type": "RunTimeout", "message": "the time limit of the run was reached", "retryable": False},
            }
        ]
    return [{**line, "error": end_error(event)}] if word == "failed" else [line]


def continued(run: History, event: Event) -> list[Draft]:
    """The end of this run; `child` is its successor, `out` the successor's input."""
    run.ended, run.task, run.status = "continued", Task(), "ContinuedAsNew"
    follower = text_of(event.rest.get("newExecutionRunId"))
    out = names.input_of(event.take("input"))
    line: Draft = {"kind": "run.continued", "out": out, "versions": _build(run)}
    if event.rest.get("failure"):
        line["error"] = error_of(event.take("failure"))
    return [{**line, "child": f"{run.workflow_id}/{follower}" if follower else None}]


def task_scheduled(run: History, event: Event) -> list[Draft]:
    run.task = Task("scheduled", event.at, number_of(event.rest.get("attempt")) or 1, problem=run.task.problem)
    return [{"attempt": run.task.attempt}]


def task_started(run: History, event: Event) -> list[Draft]:
    run.task = Task("started", event.at, run.task.attempt, problem=run.task.problem)
    return [{}]


def task_completed(run: History, event: Event) -> list[Draft]:
    """The runtime's turn is over: everything up to here was replayed and accepted by this build."""
    run.build = versions.build_of(event.rest) or run.build
    run.sdk = versions.sdk_of(event.rest) or run.sdk
    run.deployment = text_of(event.rest.get("workerDeploymentName")) or run.deployment
    pinned = camel(event.rest.get("versioningBehavior"), "VERSIONING_BEHAVIOR_") == "Pinned"
    run.pinned = run.build if pinned else run.pinned
    run.task, run.lost_turn, run.lost_now = Task(), run.lost_now, 0
    return [{"build": run.build or None, "versions": versions.stated(app=run.build, sdk=run.sdk)}]


def task_failed(run: History, event: Event) -> list[Draft]:
    """A turn that the code could not make. Only the first of a streak is recorded; the runtime tries on for ever."""
    cause = camel(event.rest.get("cause"), "WORKFLOW_TASK_FAILED_CAUSE_")
    failure = event.take("failure")
    error = {
        **(error_of(failure) if failure else {"message": ""}),
        "type": cause or "WorkflowTaskFailed",
        "retryable": True,
    }
    build = versions.build_of(event.rest)
    problem = None
    if cause == "ResetWorkflow":
        run.base_run = f"{run.workflow_id}/{text_of(event.rest.get('baseRunId'))}"
    else:
        run.lost_now = event.number
    if cause not in _HARMLESS:
        problem = {
            "cause": error["type"],
            "message": error["message"],
            "build": build or None,
            "since": event.at,
            "event": event.number,
        }
    run.task = Task("", event.at, problem=problem or run.task.problem)
    return [{"error": error, "build": build or None}]


def task_timed_out(run: History, event: Event) -> list[Draft]:
    """A worker went away. Not taking a task from its own queue in time is the ordinary way to notice that."""
    if run.task.state == "started":
        run.lost_now = event.number
    run.task = Task("", event.at, problem=run.task.problem)
    return [{"error": timeout_error(event.rest.get("timeoutType"))}]


def signaled(run: History, event: Event) -> list[Draft]:
    sender = _run_id(event.rest.get("externalWorkflowExecution"))
    out = names.input_of(event.take("input"))
    by = text_of(event.rest.get("identity")) or None
    return [
        {
            "kind": "signal.received",
            "name": text_of(event.rest.get("signalName")) or None,
            "out": out,
            "by": sender or by,
        }
    ]


def update_accepted(run: History, event: Event) -> list[Draft]:
    """An update is a signal with an answer. One that its validator rejected leaves no event at all."""
    request = dict_of(event.rest.get("acceptedRequest"))
    asked = dict_of(request.get("input"))
    meta = dict_of(request.get("meta"))
    call = text_of(meta.get("updateId") or event.rest.get("protocolInstanceId"))
    name = text_of(asked.get("name"))
    run.updates[call] = name
    out = names.input_of(asked.pop("args", None))
    return [
        {
            "kind": "signal.received",
            "name": name or None,
            "call": call or None,
            "out": out,
            "by": text_of(meta.get("identity")) or None,
        }
    ]


def update_completed(run: History, event: Event) -> list[Draft]:
    call = text_of(dict_of(event.rest.get("meta")).get("updateId"))
    outcome = dict_of(event.take("outcome"))
    line: Draft = {"name": run.updates.get(call) or None, "call": call or None}
    if "failure" in outcome:
        return [{**line, "error": error_of(outcome["failure"])}]
    return [{**line, "out": names.input_of(outcome.get("success"))}]


def paused(run: History, event: Event) -> list[Draft]:
    run.paused = {
        "by": text_of(event.rest.get("identity")) or None,
        "reason": text_of(event.take("reason")) or None,
        "since": event.at,
    }
    return [{"kind": "run.held", "reason": run.paused["reason"], "by": run.paused["by"]}]


def unpaused(run: History, event: Event) -> list[Draft]:
    run.paused = None
    return [
        {
            "kind": "run.released",
            "by": text_of(event.rest.get("identity")) or None,
            "reason": text_of(event.take("reason")) or None,
        }
    ]


def cancel_requested(run: History, event: Event) -> list[Draft]:
    """Somebody asked; whether the run obeys, the run decides."""
    run.cancel_requested = True
    sender = _run_id(event.rest.get("externalWorkflowExecution"))
    reason = text_of(event.rest.get("cause") or event.rest.get("reason"))
    return [{"reason": reason or None, "by": sender or text_of(event.rest.get("identity")) or None}]


def options_updated(run: History, event: Event) -> list[Draft]:
    """Somebody pinned the run to a build, or lifted that. It stands in the file; nobody decided it here."""
    override = dict_of(event.rest.get("versioningOverride"))
    pinned = dict_of(dict_of(override.get("pinned")).get("version"))
    build = text_of(pinned.get("buildId")) or text_of(override.get("pinnedVersion")).rpartition(".")[2]
    by = text_of(event.rest.get("identity")) or None
    if build:
        run.pinned = build
        return [{"kind": "deploy.pinned", "build": build, "by": by}]
    if event.rest.get("unsetVersioningOverride") or override:
        run.pinned = ""
        return [{"kind": "deploy.unpinned", "by": by}]
    return [{"by": by}]


def external(run: History, event: Event) -> list[Draft]:
    """Something sent to another run: a signal or a request to cancel."""
    return [
        {
            "name": text_of(event.rest.get("signalName")) or None,
            "out": names.input_of(event.take("input")),
            "child": _run_id(event.rest.get("workflowExecution")),
        }
    ]


RUNS: Final[dict[str, Callable[[History, Event], list[Draft]]]] = {
    "WorkflowExecutionStarted": started,
    "WorkflowExecutionCompleted": ended,
    "WorkflowExecutionFailed": ended,
    "WorkflowExecutionTimedOut": ended,
    "WorkflowExecutionCanceled": ended,
    "WorkflowExecutionTerminated": ended,
    "WorkflowExecutionContinuedAsNew": continued,
    "WorkflowTaskScheduled": task_scheduled,
    "WorkflowTaskStarted": task_started,
    "WorkflowTaskCompleted": task_completed,
    "WorkflowTaskFailed": task_failed,
    "WorkflowTaskTimedOut": task_timed_out,
    "WorkflowExecutionSignaled": signaled,
    "WorkflowExecutionUpdateAccepted": update_accepted,
    "WorkflowExecutionUpdateCompleted": update_completed,
    "WorkflowExecutionPaused": paused,
    "WorkflowExecutionUnpaused": unpaused,
    "WorkflowExecutionCancelRequested": cancel_requested,
    "WorkflowExecutionOptionsUpdated": options_updated,
    "UpsertWorkflowSearchAttributes": search_attributes,
    "SignalExternalWorkflowExecutionInitiated": external,
    "RequestCancelExternalWorkflowExecutionInitiated": external,
}


def _search(event: Event) -> dict[str, Any]:
    return dict_of(dict_of(event.rest.get("searchAttributes")).get("indexedFields"))


def _build(run: History) -> dict[str, Any]:
    return versions.stated(app=run.build, sdk=run.sdk)


def _run_id(execution: Any) -> str | None:
    """`workflowId/runId` of an execution; the workflow id alone where no run is named (the one that is running then)."""
    found = dict_of(execution)
    parts = [text_of(found.get("workflowId")), text_of(found.get("runId"))]
    return "/".join(p for p in parts if p) or None
