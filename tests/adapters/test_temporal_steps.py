"""What each event means: steps with their attempts and keys, branches, children, timers, signals, versions, the run's end."""

from __future__ import annotations

import json
from typing import Any

import pytest
from drainboard import wire
from drainboard.versions import tool_digest

from journals.adapters.temporal import names
from tests.adapters.temporal_captures import data, lines, made, payload, read, state, states


def by_id(*fixtures: str) -> dict[str, dict[str, Any]]:
    return {e["id"]: e for e in lines(read(*fixtures))}


def of_kind(entries: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    return [e for e in entries if e["kind"] in kinds]


def activity(name: str, *, given: Any = None, **attributes: Any) -> dict[str, Any]:
    return {
        "type": "ActivityTaskScheduled",
        "activityId": "1",
        "activityType": {"name": name},
        "input": payload(given),
        **attributes,
    }


def test_tells_the_run_with_its_agent_parent_and_versions() -> None:
    first = by_id("h-child.show.json")["1"]
    assert (first["kind"], first["agent"]) == ("run.started", "RefundAgent")
    assert first["run"] == "refund-h-parent/refund-0-1/01a22743-cc3c-7847-b3a3-d0e0de465a5a"
    assert first["parent"] == "refund-h-parent/01a22743-cc1c-764d-b199-48ce0ce11235"
    assert first["in"]["order_id"] == "A-1020-c1"
    top = by_id("a-normal.show.json")["1"]
    assert top["versions"] == {
        "prompt": "refund-prompt@3",
        "model": "fake-model-2026-01",
        "tools": {"tools": "tools@5"},
    }
    assert (top["workflow_id"], top["run_id"]) == ("refund-a-normal", "01a22742-769f-7acc-8eeb-0fc9e2db464f")


def test_tells_a_step_with_its_key_its_build_and_its_own_schema() -> None:
    step = by_id("b-crash.inflight.show.json")["24"]
    assert (step["kind"], step["name"], step["step"], step["call"]) == ("tool.started", "send_refund", 4, "4")
    assert (step["key"], step["runtime_key"]) == ("refund-b-crash:call_2", "refund-b-crash/4")
    schema = {"order_id": "string", "amount_cents": "integer", "currency": "string"}
    assert step["versions"]["tools"] == {"send_refund": tool_digest(schema=schema)}
    assert step["versions"]["app"] == "85154b68e71abbb712672f3a85152229"
    assert step["versions"]["sdk"] == "temporal-python 1.35.0"
    assert step["temporal"]["retryPolicy"]["maximumAttempts"] == 5


def test_tells_the_failure_before_the_last_attempt_as_an_error_of_that_attempt() -> None:
    entries = lines(read("b-crash.recovered.show.json"))
    step = [e for e in entries if e.get("step") == 4]
    assert [(e["id"], e["kind"], e.get("attempt", 1)) for e in step] == [
        ("24", "tool.started", 1), ("25:last_failure", "tool.error", 1), ("25", "temporal.ActivityTaskStarted", 2), ("26", "tool.result", 2),
    ]  # fmt: skip
    assert (step[1]["error"]["type"], step[1]["outcome"]) == ("StartToCloseTimeout", "retried")
    assert {e["key"] for e in step if "key" in e} == {"refund-b-crash:call_2"}
    retried = by_id("e-retry.done.show.json")["25:last_failure"]
    assert (retried["attempt"], retried["error"]["type"], retried["error"]["retryable"]) == (
        2,
        "ProviderUnavailable",
        True,
    )
    assert retried["error"]["details"] == [{"provider": "fakepay", "status": 503}]


@pytest.mark.parametrize(("fixture", "event", "type_", "retryable"), [
    ("b-once.recovered.show.json", "26", "StartToCloseTimeout", True), ("e-failed.show.json", "26", "RefundDeclined", False),
    ("i-cancelled.show.json", "12", "Canceled", False), ("i-timedout.show.json", "26", "RunTimeout", False),
    ("h-childfail.show.json", "10", "ActivityFailure", False),
])  # fmt: skip
def test_tells_how_a_step_or_run_went_wrong(fixture: str, event: str, type_: str, retryable: bool) -> None:
    error = by_id(fixture)[event]["error"]
    assert (error["type"], error["retryable"]) == (type_, retryable)


def test_puts_the_root_cause_beside_the_outer_failure() -> None:
    failed = of_kind(lines(read("e-failed.show.json")), "run.failed")[0]["error"]
    assert failed["root"] == {"type": "RefundDeclined", "message": "card network declined the refund"}
    assert failed["cause"]["details"] == [{"code": "declined"}]


def test_gives_commands_of_one_turn_branches_of_their_own() -> None:
    entries = lines(read("d-parallel.show.json"))
    opened = of_kind(entries, "parallel.started")[0]
    assert (opened["id"], opened["step"], opened["branches"]) == ("12:parallel", 2, 3)
    places = {e["name"]: (e.get("branch", ""), e["step"]) for e in of_kind(entries, "tool.started")}
    assert places == {
        "lookup_order": ("2.1", 1),
        "check_fraud": ("2.2", 1),
        "check_inventory": ("2.3", 1),
        "send_refund": ("", 4),
    }
    results = {e["name"]: e["branch"] for e in of_kind(entries, "tool.result") if "branch" in e}
    assert results == {"lookup_order": "2.1", "check_fraud": "2.2", "check_inventory": "2.3"}


def test_says_that_a_local_activity_may_have_run_in_a_lost_turn() -> None:
    entries = by_id("b-local.recovered.show.json")
    assert (entries["27"]["kind"], entries["27"]["local"], entries["27"].get("attempt", 1)) == ("tool.result", True, 1)
    lost = entries["27:lost_turn"]
    assert (lost["kind"], lost["error"]["type"], lost["step"]) == (
        "tool.error",
        "LostTurnTimeout",
        entries["27"]["step"],
    )
    assert entries["23"]["kind"] == "temporal.WorkflowTaskTimedOut"


def test_a_local_activity_of_an_undisturbed_turn_is_told_once() -> None:
    details = {
        "data": payload({"activity_id": "1", "activity_type": "send_refund", "attempt": 2}),
        "result": payload("ok"),
    }
    found = lines(made({"type": "MarkerRecorded", "markerName": "core_local_activity", "details": details}))
    assert [(e["kind"], e.get("attempt"), e.get("out")) for e in found[1:]] == [("tool.result", 2, "ok")]


def test_tells_children_with_the_runs_they_became() -> None:
    entries = of_kind(
        lines(read("h-parent.run1.show.json")),
        "child.started",
        "child.result",
        "temporal.ChildWorkflowExecutionStarted",
    )
    first = [e for e in entries if e["step"] == 1]
    assert [e["kind"] for e in first] == ["child.started", "temporal.ChildWorkflowExecutionStarted", "child.result"]
    assert first[0]["child"] == "refund-h-parent/refund-0-1"
    assert first[1]["child"] == first[2]["child"] != first[0]["child"]
    assert first[1]["child"].startswith("refund-h-parent/refund-0-1/")


def test_links_a_run_to_the_one_that_it_continued_as() -> None:
    ended = of_kind(lines(read("h-parent.run1.show.json")), "run.continued")[0]
    begun = lines(read("h-parent.run2.show.json"))[0]
    assert ended["child"] == begun["run"]
    assert begun["continued_from"] == ended["run"]
    assert ended["out"] == begun["in"]


def test_tells_timers_with_their_end_and_that_one_was_cancelled() -> None:
    entries = of_kind(lines(read("c-signal.approved.show.json")), "timer.started", "timer.fired")
    assert (entries[0]["name"], entries[0]["until"]) == ("approval deadline", "2026-11-30T12:23:45.999412Z")
    assert (entries[1]["outcome"], entries[1]["step"]) == ("cancelled", entries[0]["step"])
    fired = of_kind(lines(read("h-timers.show.json")), "timer.fired")
    assert ["outcome" in e for e in fired] == [False, False]


def test_tells_signals_and_updates_with_who_sent_them() -> None:
    signal = of_kind(lines(read("c-signal.approved.show.json")), "signal.received")[0]
    assert (signal["name"], signal["by"]) == ("approve", "temporal-cli:root@vm")
    assert signal["out"] == {"approved": True, "by": "alice@example.com", "note": "ok < 50 EUR"}
    assert "step" not in signal
    update = of_kind(
        lines(read("c-update.approved.show.json")), "signal.received", "temporal.WorkflowExecutionUpdateCompleted"
    )
    assert [(e["name"], e["call"]) for e in update] == [("submit_decision", "decision-1")] * 2
    assert update[1]["out"] == {"accepted": True, "at_message": 4}
    sent = of_kind(lines(read("h-parent.run1.show.json")), "temporal.SignalExternalWorkflowExecutionInitiated")[0]
    assert (sent["name"], sent["child"]) == ("approve", "refund-h-parent/refund-0-2")


@pytest.mark.parametrize(("fixture", "kinds"), [
    ("i-terminated.show.json", [("run.stopped", "operator: wrong prompt version")]),
    ("i-cancelled-parked.show.json", [("temporal.WorkflowExecutionCancelRequested", None), ("run.cancelled", None)]),
    ("i-unpaused.show.json", [("run.held", "operator stop"), ("run.released", None), ("run.completed", None)]),
    ("f-override.done.show.json", [("deploy.pinned", None), ("run.completed", None)]),
])  # fmt: skip
def test_tells_what_operators_did(fixture: str, kinds: list[tuple[str, str | None]]) -> None:
    wanted = (
        "run.stopped",
        "run.cancelled",
        "run.held",
        "run.released",
        "run.completed",
        "deploy.pinned",
        "temporal.WorkflowExecutionCancelRequested",
    )
    assert [(e["kind"], e.get("reason")) for e in of_kind(lines(read(fixture)), *wanted)] == kinds


def test_a_pin_names_its_build_and_its_lifting_names_none() -> None:
    assert of_kind(lines(read("f-override.done.show.json")), "deploy.pinned")[0]["build"] == "2.0.0+prompt4"
    lifted = lines(made({"type": "WorkflowExecutionOptionsUpdated", "unsetVersioningOverride": True}))
    assert lifted[1]["kind"] == "deploy.unpinned"
    other = lines(made({"type": "WorkflowExecutionOptionsUpdated", "attachedRequestId": "x"}))
    assert other[1]["kind"] == "temporal.WorkflowExecutionOptionsUpdated"


def test_tells_patches_and_recorded_values() -> None:
    patch = of_kind(lines(read("f-patched.show.json")), "version.marker")[0]
    assert (patch["name"], patch["out"]) == ("fraud-check", {"deprecated": False})
    go = lines(made(
        {"type": "MarkerRecorded", "markerName": "Version", "details": {"change-id": payload("split"), "version": payload(2)}},
        {"type": "MarkerRecorded", "markerName": "SideEffect", "details": {"data": payload("a1b2")}},
        {"type": "MarkerRecorded", "markerName": "own", "details": {"x": payload(1)}},
    ))  # fmt: skip
    assert [(e["kind"], e["name"]) for e in go[1:]] == [
        ("version.marker", "split"),
        ("value.result", "SideEffect"),
        ("temporal.MarkerRecorded", "own"),
    ]
    assert (go[1]["out"], go[2]["out"], go[2]["step"]) == ({"version": 2}, "a1b2", 1)


def test_calls_of_other_services_are_tools() -> None:
    found = lines(made(
        {"type": "NexusOperationScheduled", "endpoint": "pay", "service": "Refunds", "operation": "send", "input": {"metadata": {"encoding": "json/plain"}, "data": {"key": "k1"}}},
        {"type": "NexusOperationStarted", "scheduledEventId": "2"},
        {"type": "NexusOperationCompleted", "scheduledEventId": "2", "result": {"metadata": {"encoding": "json/plain"}, "data": "rf"}},
    ))  # fmt: skip
    assert [(e["kind"], e["name"], e["step"]) for e in found[1:]] == [
        (k, "pay/Refunds/send", 1) for k in ("tool.started", "temporal.NexusOperationStarted", "tool.result")
    ]
    assert (found[1]["key"], found[3]["out"]) == ("k1", "rf")


def test_a_prompt_looked_up_inside_the_activity_shows_in_its_answer() -> None:
    answers = of_kind(lines(read("f-promptdrift.recovered.show.json")), "model.result")
    assert [e["versions"]["prompt"] for e in answers] == ["refund-prompt@3", "refund-prompt@3", "refund-prompt@4"]
    asked = of_kind(lines(read("f-promptdrift.recovered.show.json")), "model.started")
    assert "prompt" not in asked[0]["versions"]  # the run asked for "live", which names no version


def test_hashes_the_instructions_and_schemas_of_a_model_call() -> None:
    entries = lines(read("k-openai-agents.show.json"))
    call = of_kind(entries, "model.started")[0]
    text = "You are a refund agent. [prompt_version=refund-prompt@3]"
    assert call["versions"]["prompt"] == {"refund-agent": wire.digest_bytes(text.encode())}
    assert call["versions"]["model"] == "gpt-5-fake"
    tool = next(t for t in call["in"]["tools"] if t["name"] == "send_refund")
    digest = tool_digest(schema=tool["params_json_schema"], description="Send a refund.")
    assert call["versions"]["tools"]["send_refund"] == digest
    step = next(e for e in entries if e["kind"] == "tool.started" and e["name"] == "send_refund")
    assert step["versions"]["tools"] == {"send_refund": digest}
    assert step["in"] == {"args": ["A-1001", 4999, "EUR"], "kwargs": {}}


def test_takes_the_deployment_version_for_the_build() -> None:
    entries = lines(read("f-new-on-v2.show.json"))
    assert {e["versions"]["app"] for e in entries if "app" in e.get("versions", {})} == {"2.0.0+prompt4"}


def test_a_reset_names_what_it_copied() -> None:
    entries = lines(read("i-reset.newrun.show.json"))
    copied = [e["seq"] for e in entries if "copied_from" in e]
    assert copied == list(range(1, 11))
    assert {e["copied_from"] for e in entries if "copied_from" in e} == {
        state("i-reset.newrun.show.json")["forked_from"]
    }
    assert entries[0]["run"] == "refund-a-normal/c867268a-22b7-4c10-83d7-545a0d16be0b"
    failed = of_kind(entries, "temporal.WorkflowTaskFailed")[0]
    assert failed["error"]["type"] == "ResetWorkflow"


@pytest.mark.parametrize(("name", "given", "kind"), [
    ("invoke_model_activity", None, "model"), ("call_model", None, "model"), ("CallLLM", None, "model"), ("chatCompletion", {}, "model"),
    ("plan", {"messages": []}, "model"), ("decide", {"model": "m"}, "model"), ("plan_payment", {"amount": 3}, "tool"), ("draft_invoice", {"customer": "c"}, "tool"),
    ("send_refund", {"messages": []}, "tool"), ("remodel_house", None, "tool"),
])  # fmt: skip
def test_takes_for_a_model_only_what_is_surely_one(name: str, given: Any, kind: str) -> None:
    assert names.kind_of(name, given) == kind


def test_an_end_whose_beginning_is_missing_is_kept_under_its_event() -> None:
    found = lines(
        made(
            {"type": "ActivityTaskCompleted", "scheduledEventId": "99", "result": payload("x")},
            {"type": "ActivityTaskTimedOut", "scheduledEventId": "98"},
        )
    )
    assert [(e["kind"], e.get("out"), "error" in e) for e in found[1:]] == [
        ("temporal.ActivityTaskCompleted", "x", False),
        ("temporal.ActivityTaskTimedOut", None, True),
    ]


def test_every_refund_that_was_sent_twice_shows_in_the_lines() -> None:
    sent: dict[tuple[str, str], int] = {}
    for text in data("side-effects-ledger.jsonl").splitlines():
        effect = json.loads(text)
        sent[effect["wf"], effect["key"]] = sent.get((effect["wf"], effect["key"]), 0) + 1
    twice = {"b-crash.recovered": True, "b-local.recovered": True, "f-nondet.rolledback": True, "f-promptdrift.recovered": True, "b-once.recovered": False,
             "a-normal": False, "d-parallel": False, "c-signal.approved": False, "h-timers": False}  # fmt: skip
    for scenario, doubled in twice.items():
        entries = lines(read(f"{scenario}.show.json"))
        steps = [e for e in entries if e.get("name") == "send_refund" and e["kind"].startswith("tool.")]
        lost = [e for e in steps if e["kind"] == "tool.error" and "timeout" in e["error"]["type"].lower()]
        assert bool(lost and any(e["kind"] == "tool.result" for e in steps)) is doubled, scenario
        key = (entries[0]["workflow_id"], f"{entries[0]['workflow_id']}:call_2")
        assert (sent[key] > 1) is doubled or scenario == "a-normal", scenario  # its run was made anew for the reset


def test_states_of_an_unknown_kind_do_not_stop_the_rest() -> None:
    found = made(
        {"type": "WorkflowTaskFailed", "cause": 77, "failure": "text"},
        {"type": "TimerFired"},
        {"type": "WorkflowExecutionCompleted"},
    )
    assert states(found)[0]["status"] == "completed"
