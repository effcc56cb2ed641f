"""The forms of a Durable Task history: tables of the SQL and storage providers, exports in lines, lists of instances, numbers from 0."""

from __future__ import annotations

import json
from typing import Any

import pytest

from journals.adapters import durabletask
from journals.adapters.base import InputFile
from journals.adapters.durabletask.state import MAY_RETRY
from tests.runs.journal import read_files

from .durabletask_exports import at, capture, core, places, read, read_bytes, read_json, rows_of

FAILURE = {
    "ErrorType": "System.TimeoutException",
    "ErrorMessage": "no answer",
    "StackTrace": "at Pay",
    "IsNonRetriable": True,
}
STARTED = core(
    "ExecutionStarted", 0.1, Name="refund", Version="7", Input='{"order": 1}', Tags={"prompt_version": "p@1"}
)


def turn(seconds: float, *events: dict[str, Any]) -> list[dict[str, Any]]:
    return [core("OrchestratorStarted", seconds), *events, core("OrchestratorCompleted", seconds + 0.9)]


def retried(name: str = "pay", given: str | None = "5") -> list[dict[str, Any]]:
    """A failure, a timer, and the same activity under a new number, as DurableTask.Core retries."""
    return [
        *turn(0, STARTED, core("TaskScheduled", 0.2, EventId=0, Name="pay", Input="5")),
        *turn(
            2,
            core("TaskFailed", 1, TaskScheduledId=0, FailureDetails=FAILURE),
            core("TimerCreated", 2.2, EventId=1, FireAt=at(4)),
        ),
        *turn(
            4,
            core("TimerFired", 4, TimerId=1, FireAt=at(4)),
            core("TaskScheduled", 4.2, EventId=2, Name=name, Input=given),
        ),
    ]


def started(made: Any, run: str = "i/e") -> list[tuple[str, int, int]]:
    return [(e["id"], e["step"], e.get("attempt", 1)) for e in made.entries(run) if e["kind"] == "tool.started"]


def test_a_retry_under_a_new_number_is_an_attempt_of_the_step_that_failed() -> None:
    made = read_json(rows_of(retried()))
    assert started(made) == [("task:0", 1, 1), ("task:2", 1, 2)]
    failed = made.entry("i/e", "task:0:failed")
    assert failed["error"] == {
        "type": "System.TimeoutException",
        "message": "no answer",
        "retryable": False,
        "stack_trace": "at Pay",
    }
    assert made.entry("i/e", "timer:1")["step"] == 2
    assert places(made.state("i/e")["pending"]) == [1]


def test_a_failed_task_with_a_timer_of_its_turn_may_be_tried_again_and_of_two_with_one_timer_either() -> None:
    declined = {**FAILURE, "ErrorType": "CardDeclined", "ErrorMessage": "no"}
    due = [
        core("TaskScheduled", 0.2 + n / 10, EventId=n, Name=name, Input="5") for n, name in ((0, "pay"), (1, "book"))
    ]
    no = [core("TaskFailed", 1 + n / 10, TaskScheduledId=n, FailureDetails=declined) for n in (0, 1)]
    timer = core("TimerCreated", 2.2, EventId=2, FireAt=at(4))
    begun = turn(0, STARTED, *due)
    both = read_json(rows_of([*begun, *turn(2, *no, timer)])).state("i/e")
    assert [(p["name"], p["state"]) for p in both["pending"]] == [("pay", MAY_RETRY), ("book", MAY_RETRY)]
    (summary,) = read_files(
        "durabletask", {"h.json": json.dumps(rows_of([*begun, *turn(2, *no, timer)])).encode()}
    ).values()
    assert [(g.name, str(g.verdict)) for g in summary.gaps if g.name] == [
        ("pay", "failed_may_have_run"),
        ("book", "failed_may_have_run"),
    ]
    later = read_json(rows_of([*begun, *turn(2, *no), *turn(3, core("EventRaised", 3, Name="go"), timer)])).state("i/e")
    assert later["pending"] == []


@pytest.mark.parametrize("other", [{"name": "refund_fee"}, {"given": "6"}])
def test_another_request_after_a_timer_is_a_step_of_its_own(other: dict[str, str]) -> None:
    assert started(read_json(rows_of(retried(**other)))) == [("task:0", 1, 1), ("task:2", 3, 1)]


def test_an_equal_request_in_another_turn_than_the_timers_is_a_step_of_its_own() -> None:
    events = retried()
    last = events.pop(-2)
    made = read_json(rows_of([*events, *turn(6, core("EventRaised", 6, Name="go"), last)]))
    assert started(made) == [("task:0", 1, 1), ("task:2", 3, 1)]


def test_an_http_answer_without_inputs_makes_no_attempt_of_a_step_that_may_be_another() -> None:
    events = [
        {"EventType": "TaskFailed", "Timestamp": at(1), "ScheduledTime": at(0), "FunctionName": "pay", "Reason": "no"},
        {"EventType": "TimerCreated", "Timestamp": at(2), "FireAt": at(3)},
        {"EventType": "TimerFired", "Timestamp": at(3), "FireAt": at(3)},
        {"EventType": "TaskScheduled", "Timestamp": at(4), "Name": "pay"},
    ]
    answer = {"instanceId": "i", "runtimeStatus": "Running", "historyEvents": events}
    assert [(step, attempt) for _, step, attempt in started(read_json(answer), "i")] == [(1, 1), (3, 1)]
    given = [{**e, "Input": "5"} if "FireAt" not in e else e for e in events]
    assert [(step, attempt) for _, step, attempt in started(read_json({**answer, "historyEvents": given}), "i")] == [
        (1, 1),
        (1, 2),
    ]


def test_numbers_from_zero_are_moved_to_one_and_messages_sent_take_no_step() -> None:
    events = turn(0, STARTED, core("TaskScheduled", 0.2, EventId=0, Name="a"), core("EventSent", 0.3, EventId=1, Name="x", Input="1"), core("TaskScheduled", 0.4, EventId=2, Name="b"))  # fmt: skip
    made = read_json(rows_of(events))
    assert [(e["step"], e["event_id"]) for e in made.entries("i/e") if e["kind"] == "tool.started"] == [(1, 0), (2, 2)]
    assert made.entry("i/e", f"EventSent@{at(0.3).rstrip('0Z')}Z")["kind"] == "durabletask.EventSent"


def test_a_protocol_message_without_number_has_the_number_0() -> None:
    events = [
        {"eventId": -1, "timestamp": at(0), "executionStarted": {"name": "r", "orchestrationInstance": {"instanceId": "i", "executionId": "e"}}},
        {"timestamp": at(1), "taskScheduled": {"name": "pay"}},
        {"eventId": -1, "timestamp": at(2), "taskCompleted": {"result": "1"}},
    ]  # fmt: skip
    made = read_json(events)
    assert made.entry("i/e", "task:0:completed")["step"] == 1
    assert made.state("i/e")["status"] == "unknown"  # a stream of events does not say whether the run goes on


def test_rows_of_the_sql_provider_are_a_history() -> None:
    def row(n: int, kind: str, **fields: Any) -> dict[str, Any]:
        base = {
            "TaskHub": "h",
            "InstanceID": "i",
            "ExecutionID": "e",
            "SequenceNumber": n,
            "EventType": kind,
            "TaskID": -1,
        }
        return {**base, "Timestamp": f"2026-01-01T00:00:0{n}.1234567", "Name": None, "RuntimeStatus": None, "VisibleTime": None, "Payload": None, **fields}  # fmt: skip

    history = [
        row(0, "OrchestratorStarted"), row(1, "ExecutionStarted", Name="refund", Payload='{"order": 1}'),
        row(2, "TaskScheduled", TaskID=0, Name="pay", Payload="5"), row(3, "OrchestratorCompleted"), row(4, "OrchestratorStarted"),
        row(5, "TaskFailed", TaskID=0, Payload=json.dumps(FAILURE)), row(6, "TimerCreated", TaskID=1, VisibleTime="2026-01-02T00:00:00"),
    ]  # fmt: skip
    instance = {
        "TaskHub": "h", "InstanceID": "i", "ExecutionID": "e", "Name": "refund", "Version": "9", "RuntimeStatus": "Running",
        "CreatedTime": "2026-01-01T00:00:00", "LastUpdatedTime": "2026-01-01T00:00:08.5", "ParentInstanceID": "mum",
    }  # fmt: skip
    made = read(
        InputFile.of("h.json", json.dumps(list(reversed(history))).encode()),
        InputFile.of("i.json", json.dumps([instance]).encode()),
    )
    begun = made.entry("i/e", "ExecutionStarted")
    assert (begun["build"], begun["parent"], begun["in"], begun["at"]) == (
        "9",
        "mum",
        {"order": 1},
        "2026-01-01T00:00:01.1234567Z",
    )
    assert made.entry("i/e", "task:0:failed")["error"]["type"] == "System.TimeoutException"
    state = made.state("i/e")
    assert (state["status"], state["as_of"]) == ("parked", "2026-01-01T00:00:08.5Z")
    assert [(w["step"], w["until"]) for w in state["waiting"]] == [(2, "2026-01-02T00:00:00Z")]
    assert made.counted == {"h.json": 8, "i.json": 0}
    gap = read_json(history[:2] + history[3:])
    assert [p.code for p in gap.partial] == ["missing_entry"]
    assert "pending" not in gap.state("i/e")


def test_payloads_beside_raw_sql_history_rows_are_joined() -> None:
    payload = "AABBCCDD-0000-0000-0000-000000000001"
    base = {"TaskHub": "h", "InstanceID": "i", "ExecutionID": "e", "Timestamp": "2026-01-01T00:00:01"}
    tables = {
        "History": [
            {
                **base,
                "SequenceNumber": 0,
                "EventType": "TaskScheduled",
                "TaskID": 0,
                "Name": "pay",
                "DataPayloadID": payload.lower(),
            }
        ],
        "Payloads": [{"TaskHub": "h", "InstanceID": "i", "PayloadID": payload, "Text": '{"cents": 5}', "Reason": None}],
    }
    made = read_json(tables)
    assert made.entry("i/e", "task:0")["in"] == {"cents": 5}
    assert any("Payloads" in n.text for n in made.notes)


def test_an_export_in_lines_is_the_export_in_one_document() -> None:
    whole = capture("a-completed.json")["history_export"]
    header = {k: v for k, v in whole.items() if k != "events"} | {"kind": "metadata"}
    lines = "\n".join(json.dumps(part) for part in [header, *whole["events"]])
    assert read_bytes(lines.encode()).raw == read_json(whole).raw
    assert durabletask.sniff([InputFile.of("x.jsonl", lines.encode())]) >= 0.5


def test_histories_in_lines_without_headers_are_told_apart_by_their_first_events() -> None:
    lines = [json.dumps(e) for name in ("a-completed.json", "b-crash.json") for e in _events(name)]
    assert read_bytes("\n".join(lines).encode()).runs == ["a-56458", "b-56458"]


def _events(name: str) -> list[dict[str, Any]]:
    whole = capture(name)
    events: list[dict[str, Any]] = whole.get("history_export", whole.get("after_worker_restart"))["events"]
    return [e for e in events if e["event_type"] != "OrchestratorStartedEvent"]


def test_a_history_in_chunks_is_one_history() -> None:
    events = capture("a-completed.json")["grpc StreamInstanceHistory (protobuf json)"]
    chunks = "\n".join(json.dumps({"events": part}) for part in (events[:9], events[9:]))
    assert read_bytes(chunks.encode()).raw == read_json(events).raw


def test_a_list_of_instances_says_where_each_run_stands_and_no_step() -> None:
    answer = {"name": "refund", "runtimeStatus": "Running", "input": None, "customStatus": None, "output": None, "createdTime": "2026-01-01T00:00:00Z", "lastUpdatedTime": "2026-01-01T00:00:01Z"}  # fmt: skip
    rows = [
        {"instanceId": "a", **answer, "input": {"x": 1}},
        {"instanceId": "b", **answer, "runtimeStatus": "Completed"},
    ]
    made = read_json(rows)
    assert durabletask.sniff([InputFile.of("x.json", json.dumps(rows).encode())]) >= 0.5
    assert [made.state(r)["status"] for r in ("a", "b")] == ["running", "completed"]
    assert not made.state("b")["complete"]
    assert "pending" not in made.state("a")


def test_generations_of_an_instance_that_goes_on_as_new_are_runs_of_their_own() -> None:
    one = rows_of([*turn(0, STARTED), core("ContinueAsNew", 1, Result="2")], execution="e1")
    two = rows_of(turn(2, STARTED), execution="e2")
    made = read_json(one + two)
    assert made.runs == ["i/e1", "i/e2"]
    assert made.state("i/e1")["status"] == "continued"
    http = {"instanceId": "i", "name": "r", "runtimeStatus": "Running", "historyEvents": [{"EventType": "ExecutionStarted", "Timestamp": at(1), "Generation": 3, "FunctionName": "r"}]}  # fmt: skip
    assert read_json(http).runs == ["i/generation-3"]


def test_the_options_of_an_import_are_honoured() -> None:
    made = read_json(rows_of(turn(0, core("ExecutionStarted", 0.1, Name="r"))), agent="A", environment="prod")
    begun = made.entry("i/e", "ExecutionStarted")
    assert (begun["agent"], begun["environment"]) == ("A", "prod")


def test_two_answers_to_one_task_are_both_kept() -> None:
    done = core("TaskCompleted", 2, TaskScheduledId=0, Result="1")
    made = read_json(
        rows_of(
            [*turn(0, STARTED, core("TaskScheduled", 0.2, EventId=0, Name="pay")), done, {**done, "Timestamp": at(3)}]
        )
    )
    assert [e["id"] for e in made.entries("i/e") if e["kind"] == "tool.result"] == [
        "task:0:completed",
        "task:0:completed#2",
    ]


def test_a_large_value_that_is_kept_apart_is_named_and_called_closed() -> None:
    big = core("TaskScheduled", 0.2, EventId=0, Name="pay", InputBlobName="i/message-1.json.gz")
    made = read_json(rows_of(turn(0, STARTED, big)))
    (line,) = [x for x in made.lines if b'"id":"task:0"' in x.raw]
    assert json.loads(line.raw)["in"] == {"blob": "i/message-1.json.gz"}
    assert "opaque_payload" in line.oddities


def test_a_time_that_is_none_stays_absent_and_is_counted() -> None:
    zero = {**core("TaskScheduled", 0.2, EventId=0, Name="pay"), "Timestamp": "1970-01-01T00:00:00Z"}
    made = read_json(rows_of(turn(0, STARTED, zero)))
    assert "at" not in made.entry("i/e", "task:0")
    assert any("1 events without a possible time" in n.text for n in made.notes)
