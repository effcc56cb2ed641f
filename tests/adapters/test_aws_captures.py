"""Captured executions: what an operator is told, beside what really happened."""

from __future__ import annotations

import pytest

from journals.adapters import ADAPTERS, aws
from journals.adapters.base import InputFile, Partial, Refused, Unread

from .aws_captures import HERE, Read, capture, read, read_capture

NAMES = ("a_succeeded", "b_sigkill_in_send_refund", "c_parked_callback", "e_retries", "f_code_changed_in_flight")
LOST = "8ae37a94-74c7-45d3-8d97-e25e76a310aa/2560243dc5d7ff17"  # killed in send_refund, which happened twice
AT_MOST_ONCE = "a6c27d08-3e31-44e2-a76b-3b11fa8dcba8/24d80f04674f7d30"  # killed there too, with a retry: twice as well
APPROVED = "a944432f-98c0-4a16-a9db-80ecca381d80/281a71e28a867e39"
DECLINED = "05f1a887-f1cb-4865-92d2-5a38eac67810/6023cd6d47299526"


@pytest.mark.parametrize("name", NAMES)
def test_every_capture_is_read_whole_and_the_same_twice(name: str) -> None:
    first = read_capture(name)
    assert [i for i in first.items if isinstance(i, (Refused, Unread, Partial))] == []
    assert [line.raw for line in first.lines] == [line.raw for line in read_capture(name).lines]


@pytest.mark.parametrize("name", NAMES)
def test_only_this_adapter_knows_the_captures(name: str) -> None:
    file = InputFile.of(f"{name}.json", capture(name))
    assert aws.sniff([file]) > 0.9
    assert [n for n, adapter in ADAPTERS.items() if n != "aws" and adapter.sniff([file]) >= 0.5] == []


def test_a_description_of_the_api_is_no_export() -> None:
    file = InputFile.of("documented_api.json", (HERE / "documented_api.json").read_bytes())
    assert aws.sniff([file]) == 0
    (refused,) = read(file).of(Refused)
    assert "holds no answer of the API" in refused.reason


def test_an_agents_loop_is_steps_in_order() -> None:
    made = read_capture("a_succeeded")
    (run,) = made.runs
    assert [s[1:] for s in made.steps(run) if s[0].endswith(".result")] == [
        ("", 1, "model call 0"),
        ("", 2, "lookup_order"),
        ("", 3, "model call 1"),
        ("", 4, "send_refund"),
        ("", 5, "model call 2"),
    ]
    start, sent, asked = made.entry("1", run), made.entry("9", run), made.entry("3", run)
    assert (start["agent"], start["build"], start["at"]) == ("refund-agent", "$LATEST", "2026-11-29T12:47:29.686Z")
    assert "versions" not in start  # $LATEST is whatever is deployed
    assert sent["out"] == {"refund_id": "re_k-A-100", "amount": 42.5}
    assert (asked["kind"], asked["versions"], asked["model_reported"]) == (
        "model.result",
        {"prompt": "refund-agent@7"},
        "fake-model-2026-01",
    )
    state = made.state(run)
    assert (state["status"], state["complete"], state["held"]) == (
        "completed",
        True,
        {"form": "history", "whole": True, "seqs": "1-13"},
    )


def test_a_step_in_flight_is_named_and_a_lost_execution_is_never_called_one() -> None:
    made = read_capture("b_sigkill_in_send_refund")
    before, after = made.states(LOST)
    (pending,) = before["pending"]
    assert (before["status"], pending["step"], pending["name"], pending["state"]) == (
        "running",
        4,
        "send_refund",
        "STARTED",
    )
    assert (after["status"], after["tries_recorded"]) == ("completed", False)
    assert not aws.INFO.evidence.attempts
    assert aws.INFO.evidence.write == "on_close"


def test_an_interrupted_attempt_and_its_retry_are_two_attempts() -> None:
    made = read_capture("b_sigkill_in_send_refund")
    tried = [(e["kind"], e["attempt"]) for e in made.entries(AT_MOST_ONCE) if e.get("name") == "send_refund"]
    assert tried == [("tool.started", 1), ("tool.error", 1), ("tool.started", 2), ("tool.result", 2)]
    assert made.entry("9", AT_MOST_ONCE)["error"]["type"].endswith("StepInterruptedError")


def test_a_callback_is_an_approval_with_its_id() -> None:
    made = read_capture("c_parked_callback")
    parked, done = made.states(APPROVED)
    (waiting,) = parked["waiting"]
    asked, decided = made.entry("9", APPROVED), made.entry("13", APPROVED)
    assert (parked["status"], waiting["step"], waiting["what"]) == ("parked", 4, f"approval:{asked['approval']}")
    assert (asked["kind"], asked["name"], asked["step"]) == ("approval.requested", "human approval", 4)
    assert (decided["decision"], decided["by"], decided["approval"]) == ("approve", "maria", asked["approval"])
    assert made.entry("14", APPROVED)["kind"] == "approval.delivered"
    assert ("tool.result", "4.1", 1, "human approval submitter") in made.steps(APPROVED)
    assert done["status"] == "completed"
    no = made.entry("13", DECLINED)
    assert (no["decision"], no["reason"], made.state(DECLINED)["status"]) == (
        "reject",
        "not allowed by policy",
        "failed",
    )


def test_a_retry_that_waits_is_pending_with_its_last_failure() -> None:
    made = read_capture("e_retries")
    run = made.runs[0]
    (pending,) = made.states(run)[0]["pending"]
    assert (pending["state"], pending["attempt"], pending["next_attempt_at"]) == (
        "PENDING",
        2,
        "2026-11-29T12:47:54.725142Z",
    )
    assert pending["last_failure"] == {"type": "ConnectionError", "message": "payment gateway 503 (attempt 1)"}
    assert made.entry("9", run)["attempt"] == 3


def test_changed_code_ends_the_run_with_its_error() -> None:
    made = read_capture("f_code_changed_in_flight")
    (run,) = made.runs
    parked, failed = made.states(run)
    assert parked["waiting"][0]["until"] == "2026-11-29T12:48:11.404Z"
    assert failed["status"] == "failed"
    assert "NonDeterministic" in made.entry("8", run)["error"]["type"]


def test_what_is_no_answer_is_named_once_and_repeats_are_counted() -> None:
    made: Read = read_capture("b_sigkill_in_send_refund")
    assert "/at_least_once (default)/final" in made.notes
    assert "32 records stand more than once" in made.notes
