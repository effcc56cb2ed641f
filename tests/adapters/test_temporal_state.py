"""Where a run stands: what the history says, what only a describe, a list or a query beside it knows, and which of them counts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from journals.adapters.base import InputFile, Note, Refused
from tests.adapters.temporal_captures import data, history, items, made, payload, read, state, states

ACTIVITY = {
    "type": "ActivityTaskScheduled",
    "activityId": "1",
    "activityType": {"name": "send_refund"},
    "input": payload({"a": 1}),
}
TURN = (
    {"type": "WorkflowTaskScheduled"},
    {"type": "WorkflowTaskStarted"},
    {"type": "WorkflowTaskCompleted", "workerVersion": {"buildId": "b1"}},
)


def test_a_describe_makes_a_running_step_certain() -> None:
    told = state("b-crash.inflight.show.json", "b-crash.inflight.describe.json")
    assert told["status"] == "running"
    pending = told["pending"][0]
    assert (pending["step"], pending["name"], pending["state"], pending["attempt"], pending["entry"]) == (
        4,
        "send_refund",
        "STARTED",
        1,
        24,
    )
    assert pending["key"] == "refund-b-crash:call_2"
    assert pending["last_started_at"] == "2026-11-29T12:23:17.674561424Z"


def test_a_history_alone_does_not_say_that_a_scheduled_step_runs() -> None:
    told = state("b-crash.inflight.show.json")
    assert (told["status"], told["pending"], told["complete"]) == ("unknown", [], False)
    assert told["seen"] == {"status": "running", "waiting": []}
    begun = states(made(*TURN, ACTIVITY, {"type": "ActivityTaskStarted", "scheduledEventId": "5", "attempt": 1}))[0]
    assert [(p["state"], p["step"]) for p in begun["pending"]] == [("STARTED", 1)]


def test_a_describe_tells_a_step_that_waits_for_its_next_attempt() -> None:
    pending = state("e-retry.between.show.json", "e-retry.between.describe.json")["pending"][0]
    assert (pending["state"], pending["attempt"], pending["max_attempts"]) == ("SCHEDULED", 2, 5)
    assert (pending["last_failure"]["type"], pending["last_failure"]["message"]) == (
        "ProviderUnavailable",
        "payment provider 503",
    )


def test_a_describe_tells_a_heartbeat_and_a_pause_of_one_step() -> None:
    assert state("i-heartbeat.inflight.show.json", "i-heartbeat.inflight.describe.json")["pending"][0]["heartbeat"] == [
        {"progress": 0}
    ]
    assert (
        state("i-activity-paused.show.json", "i-activity-paused.describe.json")["pending"][0]["state"]
        == "PAUSE_REQUESTED"
    )


def test_a_run_without_anything_to_do_is_parked() -> None:
    told = state("c-signal.parked.show.json", "c-signal.parked.describe.json")
    assert told["status"] == "parked"
    timer = ("timer", 4, "2026-11-30T12:23:45.999412Z")
    assert [(w["what"], w["step"], w["until"]) for w in told["waiting"]] == [timer]


def test_the_end_of_a_file_is_not_the_end_of_a_run() -> None:
    whole = json.loads(data("c-signal.approved.show.json"))
    for length in range(1, len(whole["events"])):
        cut = json.dumps({"events": whole["events"][:length]}).encode()
        told = states(items([InputFile.of("cut.json", cut)]))[0]
        assert (told["status"], told["waiting"], told["complete"]) == ("unknown", [], False)
        assert told["seen"]["status"] in ("running", "parked")
    parked = state("c-signal.parked.show.json")["seen"]
    assert (parked["status"], [w["what"] for w in parked["waiting"]]) == ("parked", ["timer"])


def test_a_query_beside_it_names_the_signals_it_waits_for() -> None:
    told = state("c-signal.parked.show.json", "c-signal.parked.describe.json", "c-signal.parked.metadata.json")
    assert [w["what"] for w in told["waiting"]] == ["timer", "signal:approve", "signal:submit_decision"]
    assert told["details"] == "Waiting for a human to approve a refund of 4999 cents on order A-1005"


def test_a_query_counts_for_no_run_when_several_could_be_meant() -> None:
    files = [InputFile.of(f"{n}.json", data(f"{n}.show.json")) for n in ("c-signal.parked", "f-pinned.parked-on-v1")]
    found = items([*files, InputFile.of("meta.json", data("c-signal.parked.metadata.json"))])
    assert [i.path for i in found if isinstance(i, Refused)] == ["meta.json"]
    assert not any(s["details"] for s in states(found))


def test_a_run_that_waits_for_nothing_it_names_waits_for_a_signal() -> None:
    assert [w["what"] for w in states(made(*TURN))[0]["seen"]["waiting"]] == ["signal:?"]


@pytest.mark.parametrize(
    "last", [{"type": "WorkflowExecutionSignaled", "signalName": "go"}, {"type": "WorkflowTaskScheduled"}, ACTIVITY]
)
def test_a_run_that_has_something_to_take_up_is_not_parked(last: dict[str, Any]) -> None:
    assert states(made(*TURN, last))[0]["seen"]["status"] == "running"


def test_waits_for_children() -> None:
    child = {"type": "StartChildWorkflowExecutionInitiated", "workflowId": "c-1", "workflowType": {"name": "Child"}}
    seen = states(made(*TURN, child))[0]["seen"]
    assert (seen["status"], seen["waiting"][0]["what"]) == ("parked", "child:c-1")


def test_a_run_whose_code_does_not_fit_is_stuck_and_says_since_when() -> None:
    alone = state("made/diverged-recorded.json")
    assert alone["status"] == "stuck"
    assert (alone["stuck"]["cause"], alone["stuck"]["build"], alone["stuck"]["event"]) == (
        "NonDeterministicError",
        "agent-1.5.0",
        20,
    )
    assert alone["stuck"]["attempt"] is None  # tries after the first are not in the export
    assert alone["build"] == "agent-1.4.0"
    both = state("made/diverged-recorded.json", "made/diverged-describe.json")
    assert (both["stuck"]["attempt"], both["stuck"]["trying_since"]) == (37, "2026-08-03T10:00:06.800Z")
    assert both["runtime_status"] == "WORKFLOW_EXECUTION_STATUS_RUNNING"


def test_the_sketch_of_the_running_task_is_a_fact_and_no_entry() -> None:
    found = read("f-nondet.stuck.sdk.json")
    assert states(found)[0]["stuck"]["attempt"] == 2
    assert "32, 33" in next(i.text for i in found if isinstance(i, Note))


def test_a_run_that_got_over_its_failures_is_not_stuck() -> None:
    assert state("f-nondet.rolledback.show.json")["stuck"] is None
    failed = {
        "type": "WorkflowTaskFailed",
        "cause": "WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR",
        "failure": {"message": "m"},
    }
    assert states(made(*TURN[:2], failed, *TURN))[0]["stuck"] is None
    assert (
        states(made(*TURN[:2], {**failed, "cause": "WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND"}))[0]["stuck"] is None
    )
    assert states(made(*TURN[:2], failed))[0]["status"] == "stuck"


def test_a_paused_run_is_held() -> None:
    told = state("i-paused.show.json", "i-paused.describe.json")
    assert (told["status"], told["paused"]["reason"], told["paused"]["by"]) == (
        "held",
        "operator stop",
        "temporal-cli:root@vm",
    )


def test_names_the_build_and_what_the_run_is_pinned_to() -> None:
    told = state("f-pinned.parked-on-v1.show.json", "f-pinned.parked-on-v1.describe.json")
    assert (told["build"], told["pinned_to"], told["deployment"]) == ("1.0.0+prompt3", "1.0.0+prompt3", "refund-agent")
    assert state("f-override.done.show.json")["pinned_to"] == "2.0.0+prompt4"
    assert state("f-buildonly.show.json")["pinned_to"] is None


def test_a_describe_of_before_the_history_does_not_count() -> None:
    told = state("b-crash.recovered.show.json", "b-crash.inflight.describe.json")
    assert (told["status"], told["pending"], told["complete"]) == ("completed", [], True)


def test_each_history_takes_the_describe_of_its_own_length() -> None:
    found = states(read(*[f"b-crash.{m}.{f}.json" for m in ("recovered", "inflight") for f in ("show", "describe")]))
    assert [(s["status"], len(s["pending"])) for s in found] == [("running", 1), ("completed", 0)]


def test_a_describe_that_is_ahead_says_how_far() -> None:
    told = state("c-signal.parked.show.json", "c-signal.approved.describe.json")
    assert (told["status"], told["complete"]) == ("completed", False)
    assert told["events"] == {"last": 25, "stated": 44, "whole": True}
    assert told["partial"] == "the history has 44 events, this export 25"


def test_a_list_beside_a_history_gives_its_status() -> None:
    told = state("f-nondet.stuck.show.json", "f-nondet.list.json")
    assert told["runtime_status"] == "WORKFLOW_EXECUTION_STATUS_RUNNING"
    found = read("h-child.show.json", "h-list.json")
    notes = " ".join(i.text for i in found if isinstance(i, Note))
    assert "5 of 6 runs in it have no history here" in notes


def test_a_list_tells_of_a_run_whose_tasks_keep_failing() -> None:
    row = json.loads(data("f-nondet.list.json"))[0]
    problems = {
        "metadata": {"encoding": "json/plain"},
        "data": ["category=WorkflowTaskFailed", "cause=WorkflowTaskFailedCauseNonDeterministicError"],
    }
    row["searchAttributes"]["indexedFields"]["TemporalReportedProblems"] = problems
    found = items(
        [InputFile.of("h.json", data("f-nondet.crashed.show.json")), InputFile.of("l.json", json.dumps([row]).encode())]
    )
    assert states(found)[0]["stuck"]["cause"] == "NonDeterministicError"


def test_a_describe_alone_says_where_the_run_stands() -> None:
    told = state("made/pending-describe.json")
    pending = told["pending"][0]
    assert (told["status"], pending["name"], pending["state"], pending["attempt"], pending["step"]) == (
        "running",
        "send_invoice",
        "STARTED",
        3,
        None,
    )
    assert (told["complete"], told["events"]["last"]) == (False, 0)
    assert told["partial"] == "only a describe of the run is here, not its history"


@pytest.mark.parametrize(("status", "expected"), [
    ("WORKFLOW_EXECUTION_STATUS_TERMINATED", "stopped"), ("WORKFLOW_EXECUTION_STATUS_TIMED_OUT", "failed"), ("Canceled", "cancelled"),
    ("WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW", "continued"), ("WORKFLOW_EXECUTION_STATUS_SLEEPY", "unknown"),
])  # fmt: skip
def test_reads_every_status_and_ones_of_tomorrow(status: str, expected: str) -> None:
    body = json.loads(data("c-signal.parked.describe.json"))
    body["workflowExecutionInfo"]["status"] = status
    told = states(items([InputFile.of("d.json", json.dumps(body).encode())]))[0]
    assert (told["status"], told["runtime_status"]) == (expected, status)


def test_a_turn_that_is_open_may_hide_a_local_activity() -> None:
    told = state("b-local.inflight.show.json", "b-local.inflight.describe.json")
    assert told["workflow_task"]["state"] == "started"
    pending = told["pending"][0]
    assert (pending["step"], pending["name"], pending["state"]) == (
        4,
        None,
        "unrecorded: a local activity may be in a turn that did not end",
    )
    assert state("b-crash.inflight.show.json")["workflow_task"] is None


def test_a_turn_that_was_lost_or_cut_off_may_hide_a_local_activity() -> None:
    begun = [{"type": "WorkflowTaskScheduled", "attempt": 1}, {"type": "WorkflowTaskStarted", "scheduledEventId": "2"}]
    cut = history(*begun, {"type": "WorkflowExecutionTerminated", "reason": "operator"})
    lost = history(*begun, {"type": "WorkflowTaskTimedOut", "timeoutType": "TIMEOUT_TYPE_START_TO_CLOSE"}, begun[0])
    described = {
        "workflowExecutionInfo": {
            "execution": {"workflowId": "wf-1", "runId": "0f3c1f2e-0000-4000-8000-0000000000aa"},
            "status": "WORKFLOW_EXECUTION_STATUS_RUNNING",
            "historyLength": "5",
        },
        "pendingWorkflowTask": {"state": "PENDING_WORKFLOW_TASK_STATE_SCHEDULED", "attempt": 1},
    }
    files = [InputFile.of("h.json", lost), InputFile.of("d.json", json.dumps(described).encode())]
    timed_out = {"type": "WorkflowTaskTimedOut", "timeoutType": "TIMEOUT_TYPE_START_TO_CLOSE"}
    turn = [*begun, {"type": "WorkflowTaskCompleted"}]
    left = history(*begun, timed_out, *turn, {"type": "WorkflowExecutionCanceled", "workflowTaskCompletedEventId": "7"})
    for read_from in ([InputFile.of("h.json", cut)], [InputFile.of("h.json", left)], files):
        (pending,) = states(items(read_from))[-1]["pending"]
        assert (pending["step"], pending["name"]) == (1, None)
    ended_in_its_turn = history(
        *begun,
        {"type": "WorkflowTaskCompleted"},
        {"type": "WorkflowExecutionCompleted", "workflowTaskCompletedEventId": "4"},
    )
    assert states(items([InputFile.of("h.json", ended_in_its_turn)]))[-1]["pending"] == []


def test_the_same_facts_give_the_same_note_and_other_facts_another() -> None:
    once, again, other = (
        next(i for i in read(*names) if b'"runtime.state"' in getattr(i, "raw", b""))
        for names in (
            ("b-crash.inflight.show.json",),
            ("b-crash.inflight.sdk.json",),
            ("b-crash.inflight.show.json", "b-crash.inflight.describe.json"),
        )
    )
    assert once.raw == again.raw
    assert json.loads(once.raw)["id"] != json.loads(other.raw)["id"]
    assert json.loads(once.raw)["seq"] == 24
