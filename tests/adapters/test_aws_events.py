"""What each event becomes: branches, waits, callbacks, chained invokes, retries, values, and what may have run twice."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from journals.adapters import aws

from .aws_captures import ARN, BEGUN, Read, dump, events, execution, history, read


def told(*given: tuple[Any, ...], status: str = "RUNNING", **options: Any) -> Read:
    """The run whose history has these events behind its start."""
    return read(("run.json", dump(execution(status), history(events(*given)))), **options)


def place(*path: int) -> str:
    """The Python SDK's id of an operation at this position: `place(2, 1)` is the first child of the second."""
    made = ""
    for n in path:
        made = hashlib.blake2b((f"{made}-{n}" if made else str(n)).encode()).hexdigest()[:64]
    return made


def child(kind: str, sub: str, path: tuple[int, ...], name: str, details: Any = None) -> tuple[Any, ...]:
    parent = {"ParentId": place(*path[:-1])} if len(path) > 1 else {}
    return kind, place(*path), name, details or {}, {"SubType": sub, **parent}


FANOUT = (
    child("ContextStarted", "Parallel", (1,), "check carriers"),
    child("ContextStarted", "ParallelBranch", (1, 2), "parallel-branch-1"),
    child("StepStarted", "tool", (1, 2, 1), "check_carrier"),
    child("ContextStarted", "ParallelBranch", (1, 1), "parallel-branch-0"),
    child("StepStarted", "tool", (1, 1, 1), "check_carrier"),
    child("StepSucceeded", "tool", (1, 2, 1), "check_carrier", {"Result": {"Payload": "1"}}),
)


def test_parallel_branches_are_numbered_by_their_place_not_by_who_came_first() -> None:
    made = told(*FANOUT)
    assert made.steps() == [
        ("parallel.started", "", 1, "check carriers"),
        ("tool.started", "1.2", 1, "check_carrier"),
        ("tool.started", "1.1", 1, "check_carrier"),
        ("tool.result", "1.2", 1, "check_carrier"),
    ]
    state = made.state()
    assert [(p["branch"], p["step"], p["state"]) for p in state["pending"]] == [
        ("1.1", 1, "STARTED"),
        ("1.2", 2, "no_record"),
    ]


def test_ids_of_another_sdk_are_numbered_as_they_appear() -> None:
    made = told(("StepStarted", "q7", "a"), ("StepSucceeded", "q7", "a"), ("StepStarted", "q9", "b"))
    assert [s[1:] for s in made.steps()] == [("", 1, "a"), ("", 1, "a"), ("", 2, "b")]


def test_a_step_that_left_no_event_keeps_its_number_free() -> None:
    made = told(child("StepStarted", "Step", (1,), "a"), child("StepStarted", "Step", (3,), "c"))
    assert [s[2] for s in made.steps()] == [1, 3]


def test_a_run_that_was_ended_from_outside_may_have_had_a_step_without_a_record() -> None:
    done = (("StepStarted", place(1), "a"), ("StepSucceeded", place(1), "a"))
    for end in ("ExecutionStopped", "ExecutionTimedOut"):
        (pending,) = told(*done, (end,)).state()["pending"]
        assert (pending["step"], pending["state"]) == (2, "no_record")
        assert told(*done, ("InvocationCompleted",), (end,)).state()["pending"] == []
    assert told(*done, ("ExecutionSucceeded",)).state()["pending"] == []


def test_a_step_that_held_the_line_up_in_a_cut_invocation_clears_those_behind_it() -> None:
    cut = {"Error": {"Payload": {"ErrorType": "Runtime.ExitError"}, "Truncated": False}}
    model = {"SubType": "model"}
    made = told(
        ("StepStarted", place(1), "call_model", {}, model),
        ("InvocationCompleted", None, None, cut),
        ("StepSucceeded", place(1), "call_model", {}, model),
        ("StepStarted", place(2), "send_refund"),
    )
    assert [d["name"] for d in made.state()["doubles"] if d["kind"] == "tool"] == []


def test_a_child_context_is_a_branch_and_a_chained_invoke_a_child_run() -> None:
    made = told(
        child("ContextStarted", "RunInChildContext", (1,), "pay"),
        child("StepStarted", "Step", (1, 1), "gateway"),
        child("StepSucceeded", "Step", (1, 1), "gateway"),
        child("ContextSucceeded", "RunInChildContext", (1,), "pay", {"Result": {"Payload": '{"ok":1}'}}),
        child(
            "ChainedInvokeStarted",
            "ChainedInvoke",
            (2,),
            "invoke payments",
            {
                "FunctionName": "payments",
                "ExecutedVersion": "3",
                "DurableExecutionArn": "arn:x/y",
                "Input": {"Payload": '{"o":2}'},
            },
        ),
    )
    assert ("tool.result", "1.1", 1, "gateway") in made.steps()
    context, invoked = made.entry("5"), made.entry("6")
    assert (context["kind"], context["out"]) == ("aws.ContextSucceeded", {"ok": 1})
    assert (invoked["kind"], invoked["child"], invoked["in"], invoked["step"]) == (
        "child.started",
        "arn:x/y",
        {"o": 2},
        2,
    )
    assert invoked["aws"]["details"]["ExecutedVersion"] == "3"
    assert made.state()["waiting"] == [
        {
            "branch": "",
            "step": 2,
            "what": "child:arn:x/y",
            "name": "invoke payments",
            "until": None,
            "since": invoked["at"],
        }
    ]


def test_a_wait_says_until_when_and_a_cancelled_one_is_over() -> None:
    planned = {"Duration": 60, "ScheduledEndTimestamp": BEGUN + 62.25}
    made = told(("WaitStarted", "a", "cool off", planned), ("InvocationCompleted",))
    assert made.state()["waiting"][0]["until"] == made.entry("2")["until"] == "2027-01-15T08:01:02.25Z"
    assert (made.state()["status"], made.state()["pending"]) == ("parked", [])
    assert told(("WaitStarted", "a", "w", {"Duration": 60})).entry("2")["until"] == "2027-01-15T08:01:02Z"
    over = told(
        ("WaitStarted", "a", "w", planned), ("WaitCancelled", "a", "w", {"Error": {"Payload": {"ErrorType": "X"}}})
    )
    assert (over.entry("3")["kind"], over.entry("3")["outcome"], over.entry("3")["error"]) == (
        "timer.fired",
        "cancelled",
        {"type": "X"},
    )


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("wait for payment", ["aws.CallbackStarted", "signal.received"]),
        ("manager approval", ["approval.requested", "approval.expired"]),
    ],
)
def test_a_callback_is_a_message_or_an_approval_by_its_name(name: str, kinds: list[str]) -> None:
    made = told(
        ("CallbackStarted", "a", name, {"CallbackId": "cb", "Timeout": 3600}),
        ("CallbackTimedOut", "a", name, {"Error": {"Payload": {"ErrorMessage": "late"}}}),
    )
    assert [e["kind"] for e in made.entries() if e["kind"] != "run.started"][:-1] == kinds
    assert made.entry("2")["until"] == "2027-01-15T09:00:02Z"
    assert made.entry("2")["call"] == "cb"


@pytest.mark.parametrize(
    ("answer", "decision"),
    [
        ('{"approved":true,"by":"bob"}', "approve"),
        ('{"approved":false}', "reject"),
        ('"denied"', "reject"),
        ('{"x":1}', None),
        ("{", None),
    ],
)
def test_an_answer_decides_only_when_it_says_so(answer: str, decision: str | None) -> None:
    made = told(
        ("CallbackStarted", "a", "approval", {"CallbackId": "cb"}),
        ("CallbackSucceeded", "a", "approval", {"Result": {"Payload": answer}}),
    )
    assert (made.entry("3")["kind"], made.entry("3").get("decision")) == ("approval.decided", decision)


def test_a_write_that_spans_two_invocations_ran_in_both() -> None:
    cut = ("InvocationCompleted", None, None, {"Error": {"Payload": {"ErrorType": "Sandbox.Timedout"}}})
    made = told(("StepStarted", "a", "charge"), cut, ("StepSucceeded", "a", "charge"), ("StepStarted", "b", "mail"))
    assert [(d["step"], d["name"], d["why"]) for d in made.state()["doubles"]] == [(1, "charge", "recovered")]
    assert made.entry("3")["error"] == {"type": "Sandbox.Timedout"}
    unseen = told(
        ("StepStarted", "m", "model call"), ("StepSucceeded", "m", "model call"), cut, ("StepStarted", "b", "mail")
    )
    assert [d["name"] for d in unseen.state()["doubles"]] == ["mail"]  # its first start may not have been recorded
    calm = told(
        ("StepStarted", "a", "charge"),
        ("StepSucceeded", "a", "charge"),
        ("InvocationCompleted",),
        ("StepStarted", "b", "mail"),
    )
    assert calm.state()["doubles"] == []


def test_a_running_execution_may_be_in_a_step_that_has_no_record_yet() -> None:
    made = told(("StepStarted", "a", "charge"), ("StepSucceeded", "a", "charge"))
    assert [(p["step"], p["state"]) for p in made.state()["pending"]] == [(2, "no_record")]
    assert made.state()["status"] == "running"
    loose = told(("CallbackStarted", "a", "webhook", {"CallbackId": "cb"}))
    assert [(p["step"], p["state"]) for p in loose.state()["pending"]] == [(2, "no_record")]
    held_up = told(("CallbackStarted", "a", "webhook", {"CallbackId": "cb"}), ("InvocationCompleted",))
    assert (held_up.state()["pending"], held_up.state()["status"]) == ([], "parked")


def test_an_invocation_that_ends_in_the_middle_of_a_branch_was_cut_off_without_an_error_too() -> None:
    forked = (
        child("ContextStarted", "Parallel", (1,), "fan out"),
        child("ContextStarted", "ParallelBranch", (1, 1), "parallel-branch-0"),
        child("ContextStarted", "ParallelBranch", (1, 2), "parallel-branch-1"),
        child("StepStarted", "tool", (1, 1, 1), "send_refund"),
    )
    for end in ((), (("InvocationCompleted",),)):
        assert [(p["branch"], p["step"], p["state"]) for p in told(*forked, *end).state()["pending"]] == [
            ("1.1", 1, "STARTED"),
            ("1.2", 1, "no_record"),
        ]
    later = told(*forked, ("InvocationCompleted",), child("StepStarted", "tool", (1, 2, 1), "book_flight"))
    assert [d["name"] for d in later.state()["doubles"]] == ["book_flight"]
    waits = [child("WaitStarted", "Wait", (1, n, 1), "cool off") for n in (1, 2)]
    asleep = told(*forked[:3], waits[0], ("InvocationCompleted",)).state()["pending"]
    assert [(p["branch"], p["step"]) for p in asleep] == [("1.2", 1)]  # a branch that goes to sleep waits for something
    assert told(*forked[:3], *waits, ("InvocationCompleted",)).state()["pending"] == []


def test_invocations_that_leave_nothing_are_a_loop() -> None:
    made = told(("StepStarted", "a", "x"), *[("InvocationCompleted",)] * 5)
    assert (made.state()["status"], made.state()["loop"]["recoveries"]) == ("stuck", 5)
    assert told(("StepStarted", "a", "x"), *[("InvocationCompleted",)] * 4).state()["loop"] is None


@pytest.mark.parametrize(
    ("end", "word", "kind", "status"),
    [
        ("ExecutionStopped", "STOPPED", "run.stopped", "stopped"),
        ("ExecutionTimedOut", "TIMED_OUT", "run.failed", "failed"),
        ("ExecutionFailed", "FAILED", "run.failed", "failed"),
        ("ExecutionSucceeded", "SUCCEEDED", "run.completed", "completed"),
        ("ExecutionPaused", "PAUSED", "run.held", "held"),
        ("ExecutionResumed", "RUNNING", "run.released", "running"),
        ("ExecutionDeleting", "DELETING", "aws.ExecutionDeleting", "unknown"),
    ],
)
def test_ends_pauses_and_words_of_tomorrow(end: str, word: str, kind: str, status: str) -> None:
    made = told((end, "0a1b2c3d", "order-9"), status=word)
    assert (made.entry("2")["kind"], made.state()["status"], made.state()["runtime_status"]) == (kind, status, word)
    assert made.state()["complete"] is (status in ("stopped", "failed", "completed"))


def test_an_end_that_the_history_lacks_is_told_and_not_made_up() -> None:
    state = told(("StepStarted", "a", "charge"), status="SUCCEEDED").state()
    assert (state["status"], state["complete"]) == ("completed", False)
    assert "does not hold its end" in state["partial"]


VALUES: list[tuple[str, Any, bool]] = [
    ('{"t":"m","v":{"a":{"t":"f","v":42.50},"n":{"t":"n","v":null},"l":{"t":"l","v":[{"t":"i","v":1},{"t":"b","v":true}]}}}', '{"a":42.50,"n":null,"l":[1,true]}', False),
    ('{"t":"m","v":{"i":{"t":"i","v":123456789012345678901234567890}}}', '{"i":123456789012345678901234567890}', False),
    ('{"t":"m","v":{"d":{"t":"d","v":"12.50"}}}', '{"d":"12.50"}', True),
    ('{"t":"B","v":"AP8="}', '{"bytes":"AP8="}', True),
    ('{"t":"t","v":[{"t":"s","v":"x"}]}', '["x"]', True),
    ('{"t":"m","v":{"x":{"t":"zz","v":1}}}', '{"x":{"t":"zz","v":1}}', False),
    ('{"t":"s","v":"a user\'s own"}', '{"t":"s","v":"a user\'s own"}', False),
    ('{"t":"m","v":{"x":1}}', '{"t":"m","v":{"x":1}}', False),
    ('{"t":"i","v":true}', '{"t":"i","v":true}', False),
    ("0.10", "0.10", False),
    ("plain text", '"plain text"', False),
    ('{"a":1,"a":2}', '"{\\"a\\":1,\\"a\\":2}"', False),
]  # fmt: skip


@pytest.mark.parametrize(("payload", "shown", "kept"), VALUES)
def test_type_tags_are_taken_off_and_nothing_is_lost(payload: str, shown: str, kept: bool) -> None:
    made = told(("StepSucceeded", "a", "x", {"Result": {"Payload": payload, "Truncated": False}}))
    line = next(raw for raw in made.raws if b'"id":"2"' in raw)
    assert f'"out":{shown},'.encode() in line
    assert made.entry("2")["aws"].get("payload") == (payload if kept else None)


def test_a_cut_payload_says_so() -> None:
    made = told(("StepSucceeded", "a", "x", {"Result": {"Payload": '{"doc":"aaa', "Truncated": True}}))
    assert made.entry("2")["out"] == {"truncated": True, "payload": '{"doc":"aaa'}


def test_the_options_of_an_import_are_honoured() -> None:
    made = read(("r.json", dump(execution(), history(events()))), agent="refunds", environment="prod")
    start = made.entry("1")
    assert (start["agent"], start["environment"], start["build"]) == ("refunds", "prod", "7")


def test_the_function_and_its_version_are_in_the_arn_too() -> None:
    facts = {"DurableExecutionArn": ARN, "Status": "RUNNING"}
    start = read(("r.json", dump(facts, history(events())))).entry("1")
    assert (start["agent"], start["build"], start["versions"]) == ("refund", "7", {"app": "7"})


def test_limits_and_commands_are_stated() -> None:
    assert {limit["what"]: limit["limit"] for limit in aws.INFO.limits} == {
        "operations": 3_000,
        "bytes": 104_857_600,
        "result_bytes": 262_144,
    }
    assert all(limit["source"] and limit["as_of"] for limit in aws.INFO.limits)
    assert told(*FANOUT).state()["used"] == {"operations": 5}
    (stop,) = [c for c in aws.INFO.controls if c.action == "stop"]
    assert stop.command({"run": ARN}) == f"aws lambda stop-durable-execution --durable-execution-arn {ARN}"
    assert json.dumps(aws.INFO.how_to_export).count("--durable-execution-arn") == 2
