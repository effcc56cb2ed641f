"""Instances of Cloudflare Workflows as they really ran: what an operator is told of them."""

from __future__ import annotations

from collections import Counter

import pytest

from journals.adapters import cloudflare
from journals.adapters.base import InputFile, Note, Refused
from runs.states import Confidence, Effects, Verdict
from tests.runs.journal import codes, read_files, step

from .cloudflare_exports import ANSWER, CAPTURES, LOG, check_counts, data, entries, part, raws, read, state

FORMS = [ANSWER, LOG]


@pytest.mark.parametrize("name", CAPTURES)
def test_every_record_of_a_capture_is_accounted_for(name: str) -> None:
    items = read({name: data(name)})
    check_counts(items)
    assert entries(items)
    assert read({name: data(name)}) == items
    assert cloudflare.sniff([InputFile.of(name, data(name))]) >= 0.5


@pytest.mark.parametrize(
    ("capture", "moment"),
    [
        ("killed", "hanging_after_side_effect_before_kill"),
        ("killed", "after_recovery"),
        ("approval", "parked"),
        ("approval", "after"),
        ("approval", "wait_timed_out"),
        ("retries", "during_backoff"),
        ("retries", "retries_exhausted_errored"),
        ("renamed", "after_restart_with_changed_code (CODE=v2, step renamed)"),
        ("stopped_paused_restarted", "terminated"),
        ("stopped_paused_restarted", "after_restart"),
        ("rollback", "parallel"),
    ],
)
def test_answer_and_log_give_the_same_entries(capture: str, moment: str) -> None:
    """Of one instance at one moment the log has all lines of the answer, byte for byte, and notes of its own."""
    answer = raws(read({"i.json": part(capture, moment)}))
    log = raws(read({"i.json": part(capture, moment, LOG)}))
    assert answer <= log
    assert all(b'"kind":"note"' in raw for raw in log - answer)


def test_no_import_of_both_forms_contradicts_itself() -> None:
    for name in CAPTURES:
        found = Counter((e["run"], e["id"]) for e in entries(read({name: data(name)})))
        assert max(found.values()) == 1, name


@pytest.mark.parametrize("form", FORMS)
def test_a_kill_inside_a_write_leaves_an_open_attempt(form: str) -> None:
    raw = part("killed", "hanging_after_side_effect_before_kill", form)
    (run,) = read_files("cloudflare", {"i.json": raw}).values()
    refund = step(run, 4)
    assert (refund.step.name, refund.judged.verdict, refund.judged.confidence, refund.judged.effects) == (
        "send_refund", Verdict.MAY_RUN_TWICE, Confidence.CERTAIN, Effects.UNKNOWN,
    )  # fmt: skip
    assert [g.step for g in run.gaps] == [4]


@pytest.mark.parametrize("form", FORMS)
def test_the_second_refund_is_told(form: str) -> None:
    """The ledger of this capture has two refunds."""
    (run,) = read_files("cloudflare", {"i.json": part("killed", "after_recovery", form)}).values()
    assert step(run, 4).judged.effects == Effects.AT_LEAST_ONE
    (double,) = [f for f in run.findings if f.code == "possible_double_effect"]
    assert (double.detail["attempts"], double.detail["unanswered"]) == (2, [1])


def test_no_write_is_ever_said_to_have_happened_once() -> None:
    """A restart deletes what ran before it, so that no record proves a single execution."""
    for name in CAPTURES:
        for run in read_files("cloudflare", {name: data(name)}).values():
            assert all(row.judged.effects != Effects.ONE for row in run.steps), name


def test_a_restart_is_a_second_life_of_the_same_steps() -> None:
    run = read_files("cloudflare", {"x.json": data("stopped_paused_restarted.json")})["agent-restart-89410"]
    assert {"history_rewritten", "possible_double_effect"} <= codes(run)
    assert "conflicting_entry" not in codes(run)
    assert len(step(run, 4).step.results) == 2
    whole = read_files("cloudflare", {"x.json": data("rollback.json")})["agent-full-restart-89468"]
    assert {"history_rewritten", "possible_double_effect"} <= codes(whole)


def test_the_log_alone_shows_a_restart_from_a_step_by_its_hole() -> None:
    items = read({"i.json": part("stopped_paused_restarted", "after_restart", LOG)})
    said = state(items)
    assert said["restarted"] == {"at": "2026-11-29T21:57:10.208Z"}
    assert [(d["step"], d["name"], d["why"]) for d in said["doubles"] if d["kind"] == "tool"] == [
        (4, "send_refund", "resumed")
    ]
    assert said["held"]["whole"] is True


@pytest.mark.parametrize("form", FORMS)
def test_a_wait_for_a_decision_is_an_approval(form: str) -> None:
    items = read({"i.json": part("approval", "parked", form)})
    said = state(items)
    event = "refund-approval" if form == LOG else None
    assert (said["runtime_status"], said["status"], said["pending"]) == ("running", "parked", [])
    (waiting,) = said["waiting"]
    assert (waiting["step"], waiting["what"], waiting["event_type"]) == (4, "approval:wait for human approval-1", event)
    (decided,) = [
        e for e in entries(read({"i.json": part("approval", "after", form)})) if e["kind"] == "approval.decided"
    ]
    assert (decided["decision"], decided["by"], decided["approval"]) == (
        "approve",
        "maria",
        "wait for human approval-1",
    )
    late = [
        e["kind"] for e in entries(read({"i.json": part("approval", "wait_timed_out", form)})) if e.get("step") == 4
    ]
    assert late == ["approval.requested", "approval.expired", *(["note"] if form == LOG else [])] or set(late) == {
        "approval.requested", "approval.expired", "note",
    }  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_between_two_attempts_a_step_backs_off(form: str) -> None:
    (pending,) = state(read({"i.json": part("retries", "during_backoff", form)}))["pending"]
    assert (pending["state"], pending["attempt"], pending["retries_limit"]) == ("backing_off", 3, 5)
    assert pending["last_failure"] == {"type": "Error", "message": "payment gateway 503 (attempt 2)"}
    assert pending["retry_at"] == ("2026-11-29T12:35:48.449Z" if form == LOG else None)


def test_times_of_sleeps_stand_in_the_log_only() -> None:
    moment = "before_change (CODE=v1)"
    assert state(read({"i.json": part("renamed", moment)}))["waiting"][0]["until"] is None
    (waiting,) = state(read({"i.json": part("renamed", moment, LOG)}))["waiting"]
    assert (waiting["what"], waiting["until"]) == ("timer", "2026-11-29T12:39:40.138Z")


def test_a_pause_stops_the_clock_of_a_sleep() -> None:
    said = state(read({"i.json": part("stopped_paused_restarted", "paused", LOG)}))
    assert (said["status"], said["runtime_status"]) == ("held", "paused")
    assert [(w["what"], w["until"]) for w in said["waiting"]] == [("timer:wait for settlement", None)]


def test_a_renamed_step_shows_as_another_step_and_as_two_prompts() -> None:
    (run,) = read_files("cloudflare", {"x.json": data("renamed.json")}).values()
    assert [row.step.name for row in run.steps] == ["model call 0", "wait for settlement", "llm turn 0", "lookup_order"]
    assert "changed_inside_run" in codes(run)


def test_parallel_waits_are_all_named() -> None:
    said = state(read({"i.json": part("rollback", "parallel", LOG)}))
    assert [(w["step"], w["what"]) for w in said["waiting"]] == [(1, "timer"), (3, "signal:paid")]
    assert (said["pending"], said["status"]) == ([], "parked")


def test_rollbacks_are_steps_of_a_branch() -> None:
    run = read_files("cloudflare", {"x.json": data("rollback.json")})["rollback-89468"]
    assert [(r.step.number, r.step.name) for r in run.steps if r.step.branch == "rollback"] == [
        (1, "send_refund"),
        (2, "reserve"),
    ]


def test_the_clouds_form_has_builds_events_and_texts() -> None:
    items = read({"cloud.json": data("cloud_form.json")})
    runs = read_files("cloudflare", {"cloud.json": data("cloud_form.json")})
    assert Counter(str(run.status) for run in runs.values()) == Counter(
        {"completed": 1, "stopped": 1, "failed": 1, "running": 1, "parked": 1}
    )
    builds = {e.get("build") for e in entries(items) if e["kind"] == "run.started"}
    assert builds == {"b6b4c5c1-1111-4a4a-9c9c-000000000007"}
    assert {e["model_reported"] for e in entries(items) if e["kind"] == "model.result"} == {"fake-model-2026-01"}
    assert any("do not tell their instance" in i.text for i in items if isinstance(i, Note))
    assert state(items, "approval-55739")["build"] == "b6b4c5c1-1111-4a4a-9c9c-000000000007"


def test_a_binding_and_a_printed_table_say_what_to_export_instead() -> None:
    for raw in (
        b'{"status": "running", "output": null}',
        b"Workflow Name:         refund-workflow\nInstance Id:           agent-1\n",
        b'{"success": false, "errors": [{"code": 10001, "message": "no such instance"}], "messages": [], "result": null}',
    ):
        (refused,) = read({"x.json": raw})
        assert isinstance(refused, Refused)
        assert "--json" in refused.reason or "no such instance" in refused.reason
