"""Every capture of a real Restate server gives the runs that it is."""

from __future__ import annotations

from typing import Any

import pytest

from journals.adapters import restate
from journals.adapters.base import Counted, InputFile, Line, Refused, Unread
from tests.adapters.restate_captures import FOLDER, capture, lines, read, rows, snapshot, state, steps
from tests.runs.journal import codes, read_files, step

# capture, snapshot (or the whole file), status, pending (step, state), waiting (step, what), doubles
OUTCOMES = [
    ("a_completed_virtual_object", "", "completed", [], [], []),
    ("b_sigkill_in_send_refund", "1_hanging_after_side_effect_before_kill", "running", [(4, "running")], [], []),
    ("b_sigkill_in_send_refund", "2_150ms_after_SIGKILL", "running", [(4, "backing_off")], [], []),
    ("b_sigkill_in_send_refund", "4_after_recovery", "completed", [], [], []),
    ("c_parked_awakeable", "parked", "parked", [], [(1, "approval:sign_1cRix_EBfwgSE_QV1DmPraMFO0zvaZuHxAAAAEQ")], []),
    ("c_parked_awakeable", "after", "completed", [], [], []),
    ("c_awakeable_rejected", "after", "failed", [], [], []),
    ("c_parked_signal_with_timeout", "parked", "parked", [], [(None, "signal:approval"), (4, "timer")], []),
    ("d_fanout_3_parallel_tools", "mid_flight_150ms", "running", [(1, "running"), (3, "running")], [], []),
    ("d_fanout_3_parallel_tools", "after", "completed", [], [], []),
    ("e_retries_then_success", "during_backoff", "running", [(1, "backing_off")], [], []),
    ("e_retries_then_success", "after", "completed", [], [], []),
    ("e_retries_exhausted_failed", "", "failed", [], [], []),
    ("f_same_endpoint_changed_code_journal_mismatch", "before_change", "running", [], [(2, "timer")], []),
    ("f_same_endpoint_changed_code_journal_mismatch", "mismatch", "stuck", [], [], []),
    ("f_same_endpoint_changed_code_journal_mismatch", "paused", "stuck", [], [], []),
    ("f_same_endpoint_changed_code_journal_mismatch", "after_original_code_is_back", "completed", [], [], []),
    ("f_delete_deployment_force", "after its timer fired", "stuck", [], [], []),
    ("f_delete_deployment_force", "end", "completed", [], [], []),
    ("h_timer_child_calls", "sleeping", "parked", [], [(1, "timer")], []),
    ("i_cancelled_killed_paused", "cancelled", "cancelled", [], [], []),
    ("i_cancelled_killed_paused", "killed", "stopped", [], [], []),
    ("i_cancelled_killed_paused", "paused", "held", [], [(2, "timer")], []),
    ("i_cancelled_killed_paused", "after_resume", "running", [], [(2, "timer")], []),
    ("restate_pydantic_auto_fanout", "", "completed", [], [], []),
    ("restate_openai_agents", "", "completed", [], [], []),
]  # fmt: skip
NAMES = sorted({name for name, *_ in OUTCOMES})


def one(name: str, key: str = "") -> bytes:
    """One export of a capture, as a file of its own."""
    return rows([snapshot(name, key)])


@pytest.mark.parametrize(("name", "key", "status", "pending", "waiting", "doubles"), OUTCOMES)
def test_an_export_says_where_its_run_stands(
    name: str, key: str, status: str, pending: list[Any], waiting: list[Any], doubles: list[Any]
) -> None:
    told = state(read(one(name, key)), run=snapshot(name, key)["invocation_id"])
    assert told["status"] == status
    assert [(p["step"], p["state"]) for p in told["pending"]] == pending
    assert [(w["step"], w["what"]) for w in told["waiting"]] == waiting
    assert [(d["step"], d["why"]) for d in told["doubles"]] == doubles
    assert told["complete"] is (status in ("completed", "failed", "cancelled", "stopped"))
    last = told["entries"] - 1
    assert told["held"] == {"form": "sys_journal", "whole": True, "seqs": f"1-{last}" if last > 1 else "1"}


@pytest.mark.parametrize("name", NAMES)
def test_every_line_and_every_loss_is_counted_and_reading_again_gives_the_same(name: str) -> None:
    items = read(capture(name))
    assert read(capture(name)) == items
    counted = [i.lines for i in items if isinstance(i, Counted)]
    assert counted == [sum(isinstance(i, (Line, Unread)) for i in items)]
    assert lines(items)[-1]["name"] == "runtime.state"


@pytest.mark.parametrize("name", NAMES)
def test_every_file_is_known_by_its_head(name: str) -> None:
    assert restate.sniff([InputFile.of("x", capture(name))]) >= 0.9


def test_the_snapshots_of_one_file_are_one_run_and_an_entry_is_given_once() -> None:
    items = read(capture("b_sigkill_in_send_refund"))
    ids = [made["id"] for made in lines(items)]
    assert len(ids) == len(set(ids))
    assert [made["out"]["status"] for made in lines(items) if made.get("name") == "runtime.state"] == [
        "running", "running", "running", "completed",
    ]  # fmt: skip


def test_an_earlier_export_gives_the_same_lines_for_what_it_has() -> None:
    early = steps(read(one("c_parked_awakeable", "parked")))
    late = steps(read(one("c_parked_awakeable", "after")))
    assert len(early) == 10
    assert [made for made in early if made not in late] == []


def test_the_crash_that_repeated_a_refund_is_told_and_no_write_is_proven_to_have_run_once() -> None:
    (made,) = read_files("restate", {"b.json": capture("b_sigkill_in_send_refund")}).values()
    assert "possible_double_effect" in codes(made)
    assert step(made, 4).step.count == 2
    assert {row.judged.effects for row in made.steps if row.step.write} == {"at_least_one"}


def test_the_step_in_flight_at_the_crash_may_run_twice_for_certain() -> None:
    (made,) = read_files("restate", {"b.json": one("b_sigkill_in_send_refund", "3_2s_after_SIGKILL")}).values()
    assert (made.worst_gap and made.worst_gap.name, made.worst_gap and made.worst_gap.confidence) == (
        "send_refund",
        "certain",
    )
    assert "Connection refused" in step(made, 4).judged.reason


def test_an_awakeable_is_an_approval_under_the_id_that_answers_it() -> None:
    items = read(capture("c_parked_awakeable"))
    asked, decided = [m for m in lines(items) if m["kind"].startswith("approval.")]
    ident = snapshot("c_parked_awakeable", "approval_call")["request"].split("/")[-2]
    assert asked["approval"] == decided["approval"] == ident
    assert asked["reject"] == f"curl -X POST http://localhost:8080/restate/awakeables/{ident}/reject --data REASON"
    assert (decided["decision"], decided["by"]) == ("approve", "maria")
    parked = state(read(one("c_parked_awakeable", "parked")))
    assert parked["awakeable"] == ident
    assert f"/restate/awakeables/{ident}/resolve" in parked["waiting"][0]["resolve"]
    (made,) = read_files("restate", {"c.json": capture("c_parked_awakeable")}).values()
    assert "approval_not_used" not in codes(made)


def test_a_rejected_awakeable_is_a_no_with_its_reason() -> None:
    (decided,) = [m for m in lines(read(capture("c_awakeable_rejected"))) if m["kind"] == "approval.decided"]
    assert (decided["decision"], decided["reason"]) == ("reject", "not allowed by policy")


def test_failed_tries_are_told_by_the_step_that_failed() -> None:
    items = read(capture("e_retries_then_success"))
    assert [(m["kind"], m.get("attempt")) for m in lines(items) if m.get("step") == 1] == [
        ("tool.started", None), ("tool.error", None), ("tool.error", 2), ("tool.result", None),
    ]  # fmt: skip
    (made,) = read_files("restate", {"e.json": capture("e_retries_then_success")}).values()
    assert step(made, 1).step.count == 3


def test_calls_name_their_children_and_children_their_parent() -> None:
    items = read(capture("h_timer_child_calls"))
    parent = snapshot("h_timer_child_calls", "after")["invocation_id"]
    children = {m["child"]: m.get("outcome", "answered") for m in lines(items) if m["kind"] == "child.result"}
    own = {m["run"]: m.get("parent") for m in lines(items) if m["kind"] == "run.started"}
    assert sorted(children.values()) == ["answered", "sent", "sent"]
    assert {own[child] for child in children} == {parent}


def test_a_moved_run_has_both_builds() -> None:
    items = read(capture("f_delete_deployment_force"))
    builds = [(m["build"], m["versions"]["app"]) for m in lines(items) if m["kind"] == "run.started"]
    assert builds == [("dp_10P5Rol3tROCaalNb8DV7cl", "bbbb222"), ("dp_173Z4FM8cdq0gV8AfdcHJfz", "aaaa111")]
    (made,) = read_files("restate", {"f.json": capture("f_delete_deployment_force")}).values()
    assert "version_moved" in codes(made)
    assert "clock_step_back" not in codes(made)


def test_a_run_whose_deployment_is_gone_is_stranded() -> None:
    told = state(read(one("f_delete_deployment_force", "after its timer fired")))
    assert told["stranded"]["build"] == "dp_10P5Rol3tROCaalNb8DV7cl"
    assert told["stuck"]["cause"] == "RT0011 deployment not registered any more"


def test_metadata_of_a_deployment_that_was_registered_anew_later_is_not_the_runs() -> None:
    export = snapshot("b_sigkill_in_send_refund", "4_after_recovery")
    for found in (export["GET /deployments/{id}"], *export["sys_deployment"]):
        found["created_at"] = "2026-11-30T00:00:00.000Z"
    items = read(rows([export]))
    (started,) = [m for m in lines(items) if m["kind"] == "run.started"]
    assert "versions" not in started
    assert state(items)["deployment_facts"]["registered_anew_since_the_run_began"] is True


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("restate_openai_agents", {"call LLM": "model", "lookup_order": "tool", "send_refund": "tool"}),
        (
            "restate_pydantic_auto_fanout",
            {"Model call": "model", "Calling lookup_order": "tool", "Calling send_refund": "tool"},
        ),
    ],
)
def test_steps_of_agent_libraries_have_their_kind_by_name(name: str, kinds: dict[str, str]) -> None:
    started = [m for m in lines(read(capture(name))) if m["kind"] in ("model.started", "tool.started")]
    assert {m["name"]: m["kind"].split(".")[0] for m in started} == kinds


def test_files_that_hold_no_rows_are_refused_with_what_to_export() -> None:
    (refused,) = read(b'{"rows": [{"table_name": "sys_invocation", "column_name": "id"}]}')
    assert isinstance(refused, Refused)
    assert "export sys_invocation and sys_journal" in refused.reason
    assert isinstance(read(b"")[0], Refused)
    (refused,) = read(b'{"deployments": [{"id": "dp_1", "uri": "http://x", "services": []}]}')
    assert isinstance(refused, Refused)


def test_every_fixture_is_read() -> None:
    assert {p.stem for p in FOLDER.glob("*.json")} == set(NAMES)


def test_a_run_that_its_runtime_paused_after_the_last_try_is_stuck() -> None:
    export = snapshot("e_retries_then_success", "during_backoff")
    export["sys_invocation"][0] |= {"status": "paused", "retry_count": 70}
    told = state(read(rows([export])))
    assert (told["status"], told["stuck"]["tries"]) == ("stuck", 70)
    assert told["stuck"]["message"].startswith("[500 Internal] ConnectionError")
    export["sys_invocation"][0] |= {"status": "backing-off", "retry_count": 4}
    assert state(read(rows([export])))["status"] == "running"
