"""Captured runs and known traps: a crash in the middle of a refund, parked runs, retries, changed code, rewinds, the HTTP form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from journals.adapters import durabletask
from journals.adapters.base import InputFile

from .durabletask_exports import CASE, HERE, Read, capture, places, read, read_capture, read_json


@pytest.fixture(scope="module", params=["with", "without"])
def seven(request: pytest.FixtureRequest) -> Read:
    return read_capture(f"case-07/instance-{request.param}-output.json")


def without_outputs(made: Read) -> bool:
    return made.state(CASE)["results_exported"] is False


def test_a_list_of_commands_is_no_journal() -> None:
    files = [InputFile.of(path.name, path.read_bytes()) for path in sorted((HERE / "case-07").iterdir())]
    assert [r.path for r in read(*files).refused] == ["candidate.jsonl"]


def test_a_failed_run_still_has_its_scheduled_refund_in_flight(seven: Read) -> None:
    state = seven.state(CASE)
    assert (state["runtime_status"], state["status"], state["complete"]) == ("FAILED", "failed", False)
    assert [(p["step"], p["name"]) for p in state["pending"]] == [(4, "send_refund")]
    assert "tool.result" not in [e["kind"] for e in seven.entries(CASE) if e.get("step") == 4]


def test_the_first_difference_is_named_by_position_and_by_the_runtimes_own_number(seven: Read) -> None:
    failed, note = (e for e in seven.entries(CASE) if e["id"].startswith("status:FAILED"))
    assert (failed["kind"], failed["reason"]) == ("run.failed", "NonDeterministicReplay")
    told = note["out"]
    assert (told["step"], told["runtime_number"]) == (2, 2)
    assert (told["recorded"], told["this_build"]) == ({"name": "get_count"}, {"name": "updater"})


def test_a_version_that_the_form_leaves_out_is_unknown(seven: Read) -> None:
    state = seven.state(CASE)
    assert state["build"] is None
    assert "version" in state["not_in_this_form"]
    assert not any("versions" in e or "build" in e for e in seven.entries(CASE))


def test_all_seven_digits_of_a_time_stay(seven: Read) -> None:
    assert [e["at"] for e in seven.entries(CASE)[:3]] == [
        "2026-08-05T07:00:00.1234567Z", "2026-08-05T07:00:00.5000001Z", "2026-08-05T07:00:02.7654321Z",
    ]  # fmt: skip


def test_without_outputs_the_same_steps_stand_and_the_missing_results_are_named() -> None:
    made, less = (read_capture(f"case-07/instance-{w}-output.json") for w in ("with", "without"))
    shape = [[(e["id"], e["kind"], e.get("step"), e.get("at")) for e in m.entries(CASE)[:-1]] for m in (made, less)]
    assert shape[0] == shape[1]
    assert made.state(CASE)["pending"] == less.state(CASE)["pending"]
    assert not without_outputs(made)
    assert "replay_refused" not in made.state(CASE)
    state = less.state(CASE)
    assert state["replay_refused"] == "results were not exported (showHistoryOutput=false)"
    assert [(m["step"], m["name"]) for m in state["missing_outputs"]] == [(1, "classify"), (2, "get_count")]
    assert "out" not in less.entry(CASE, "task:get_count@2026-08-05T07:00:03Z:completed")


@pytest.mark.parametrize("order", [("without", "with"), ("with", "without")])
def test_both_answers_in_one_import_are_one_journal_of_the_fuller_lines(order: tuple[str, str]) -> None:
    paths = [HERE / "case-07" / f"instance-{w}-output.json" for w in order]
    both = read(*(InputFile.of(p.name, p.read_bytes()) for p in paths))
    alone = read_capture("case-07/instance-with-output.json")
    assert {e["id"] for e in both.entries(CASE)} >= {e["id"] for e in alone.entries(CASE)[:-1]}
    assert both.entry(CASE, "task:get_count@2026-08-05T07:00:03Z:completed")["out"] == "3"


def _shot(name: str, member: str) -> dict[str, Any]:
    shot = capture(name)[member]
    return shot.get("history_export", shot)


def test_the_refund_that_hung_when_its_worker_died_is_pending_and_later_has_a_single_answer() -> None:
    dead = read_json(_shot("b-crash.json", "1s_after_SIGKILL_of_worker"))
    assert [(p["step"], p["name"]) for p in dead.state("b-56458")["pending"]] == [(4, "send_refund")]
    assert dead.state("b-56458")["status"] == "running"
    done = read_capture("b-crash.json")
    ledger = [
        e
        for e in capture("b-crash.json")["side_effect_ledger(not a Durable Task export)"]
        if e["kind"] == "send_refund"
    ]
    assert len(ledger) == 2  # what no record of the runtime shows: so nothing here may claim one effect
    assert not durabletask.INFO.evidence.attempts
    assert done.state("b-56458")["tries_recorded"] is False
    assert done.entry("b-56458", "task:4")["key"] == ledger[0]["idempotency_key"]


def test_a_later_export_repeats_the_lines_of_an_earlier_one() -> None:
    for name, early, late in (("b-crash.json", "1s_after_SIGKILL_of_worker", "after_worker_restart"), ("c-parked.json", "parked", "after"), ("d-fanout.json", "mid_flight", "after"), ("e-retries.json", "between_attempts", "retries_then_success")):  # fmt: skip
        before, after = read_json(_shot(name, early)), read_json(_shot(name, late))
        assert before.raw[:-1] == after.raw[: len(before.raw) - 1], name
        wrapped = read_json({"x": capture(name)[early], "y": {"z": capture(name)[late]}})
        assert wrapped.raw == after.raw, name


@pytest.mark.parametrize("name", ["a-completed.json", "k-unset-times.json"])
def test_the_protocols_events_give_the_same_bytes_as_the_sdks_export(name: str) -> None:
    whole = capture(name)
    sdk = read_json(whole["history_export"])
    grpc = read_json([whole["grpc StreamInstanceHistory (protobuf json)"], whole["grpc GetInstance (protobuf json)"]])
    assert sdk.raw == grpc.raw == read_capture(name).raw
    assert len(sdk.lines) == 25


def test_a_run_that_waits_for_a_message_says_what_its_application_said() -> None:
    for made in (
        read_json(capture("c-parked.json")["parked"]),
        read_json(capture("http.json")["parked on external event"]),
    ):
        state = made.state("c-56458")
        assert (state["status"], state["pending"]) == ("parked", [])
        (waits,) = state["waiting"]
        assert (waits["step"], waits["what"], waits["until"][:26]) == (
            4,
            "signal:RefundApproval",
            "2026-11-30T12:47:39.373283",
        )


def test_a_running_history_with_nothing_open_waits_for_a_message_whose_name_is_not_known() -> None:
    parked = _shot("c-parked.json", "parked")
    events = [e for e in parked["events"] if e["event_type"] != "TimerCreatedEvent"]
    quiet = {**parked, "events": events, "metadata": {**parked["metadata"], "serialized_custom_status": None}}
    assert [w["what"] for w in read_json(quiet).state("c-56458")["waiting"]] == ["signal:?"]
    busy = {**quiet, "events": events[:-1]}  # its turn has not ended: it may be about to schedule something
    assert read_json(busy).state("c-56458")["waiting"] == []


def test_a_retry_under_the_same_number_is_another_attempt_of_its_step() -> None:
    made = read_json(_shot("e-retries.json", "between_attempts"))
    starts = [
        (e["id"], e["step"], e.get("attempt", 1)) for e in made.entries("e-ok-56458") if e["kind"] == "tool.started"
    ]
    assert starts == [("task:1", 1, 1), ("task:1#2", 1, 2)]
    state = made.state("e-ok-56458")
    assert [(p["step"], p["attempt"], p["last_failure"]["type"]) for p in state["pending"]] == [
        (1, 2, "builtins.ConnectionError")
    ]
    assert [w["what"] for w in state["waiting"]] == ["timer"]


@pytest.mark.parametrize("run", ["f-nd-56458", "f-strict-56458"])
def test_changed_code_and_a_worker_of_another_version_end_a_run_as_a_replay_that_left_the_journal(run: str) -> None:
    made = read_capture("f-versions.json")
    (failed,) = [e for e in made.entries(run) if e["kind"] == "run.failed"]
    assert failed["reason"] == "NonDeterministicReplay"
    assert (made.entries(run)[1]["build"], made.state(run)["build"]) == ("1.0.0", "1.0.0")


def test_python_tells_the_difference_by_name_and_number() -> None:
    (note,) = [
        e
        for e in read_capture("f-versions.json").entries("f-nd-56458")
        if e["kind"] == "note" and e["name"] != "runtime.state"
    ]
    assert (note["out"]["step"], note["out"]["recorded"]["name"], note["out"]["this_build"]["name"]) == (
        1,
        "call_model",
        "noop",
    )


def test_a_run_whose_version_no_worker_takes_stays_running_with_a_timer_that_is_due() -> None:
    state = read_capture("f-versions.json").state("f-reject-56458")
    assert (state["runtime_status"], state["waiting"][0]["what"]) == ("RUNNING", "timer")
    assert state["waiting"][0]["until"] < state["as_of"]


def test_a_child_and_its_parent_are_two_runs() -> None:
    made = read_capture("h-child.json")
    assert made.entry("h-89323", "child:2")["child"] == "h-89323-pay"
    assert "h-89323-pay" in made.runs
    sleeping = read_json(_shot("h-child.json", "sleeping")).state("h-89323")
    assert [(w["step"], w["what"]) for w in sleeping["waiting"]] == [(1, "timer")]


def test_stops_and_suspensions_are_entries_and_statuses() -> None:
    stopped = read_json(_shot("i-control.json", "terminated"))
    kinds = [e["kind"] for e in stopped.entries("i-term-89323")]
    assert ("stop.requested" in kinds, "run.stopped" in kinds) == (True, True)
    assert stopped.state("i-term-89323")["status"] == "stopped"
    held = read_json(_shot("i-control.json", "suspended")).state("i-susp-89323")
    assert (held["status"], held["waiting"]) == ("held", [])


def test_a_rewind_hides_no_attempt_and_names_what_may_happen_again() -> None:
    made = read_capture("i-control.json")
    run = "i-rew-89323"
    starts = [e["id"] for e in made.entries(run) if e["kind"] == "tool.started"]
    assert starts == ["task:1", "task:1#2", "rewound:task:1"]
    assert len({e["id"] for e in made.entries(run)}) == len(made.entries(run))
    before, after = (e["out"] for e in made.entries(run) if e.get("name") == "runtime.state")
    assert before["held"]["seqs"] == "1-16"
    assert "task:1:failed" not in after["held"]["ids"]
    assert [(d["step"], d["name"], d["why"]) for d in after["doubles"]] == [(1, "flaky", "resumed")]


def test_a_result_too_large_for_the_protocol_leaves_its_step_due() -> None:
    state = read_capture("j-large.json").state("j5000000-56458")
    assert (state["status"], places(state["pending"])) == ("running", [1])


def test_an_http_answer_of_a_finished_step_repeats_the_line_of_its_start() -> None:
    flight = capture("http.json")["in flight (open TaskScheduled = the gap)"]
    *rest, refund = flight["historyEvents"]
    done = {"EventType": "TaskCompleted", "Timestamp": "2026-11-29T12:47:39.3Z", "Result": {"ok": True}, "ScheduledTime": refund["Timestamp"].replace("0Z", "Z"), "FunctionName": "send_refund", "Input": refund["Input"]}  # fmt: skip
    before, after = read_json(flight), read_json({**flight, "historyEvents": [*rest, done]})
    late = {e["id"]: e for e in after.entries("b-56458")}
    for entry in before.entries("b-56458")[:-1]:
        assert {**late[entry["id"]], "at": entry["at"]} == entry
    assert after.state("b-56458")["pending"] == []


def test_every_capture_is_accounted_for_and_gives_the_same_again() -> None:
    for path in sorted(Path(HERE).glob("*.json")):
        made = read_capture(path.name)
        assert made.raw == read_capture(path.name).raw
        assert (made.unread, made.partial, made.refused) == ([], [], [])
        assert made.counted == {path.name: len(made.lines)}
        for run in made.runs:
            entries = made.entries(run)
            assert len({e["id"] for e in entries}) == len(entries), (path.name, run)
            seqs = [e["seq"] for e in entries if "seq" in e]
            assert seqs == sorted(seqs)
            made.state(run)
        assert durabletask.sniff([InputFile.of(path.name, path.read_bytes())]) >= 0.5


def test_journal_lines_about_durable_task_are_not_taken() -> None:
    line = json.dumps({"run": "r", "kind": "note", "out": {"event_type": "TaskScheduledEvent"}}).encode()
    assert durabletask.sniff([InputFile.of("x.jsonl", line)]) == 0.0
