"""What is told of real LangGraph threads, and of small inputs made after public bug reports."""

from __future__ import annotations

import json
from typing import Any

import pytest

from journals.adapters import langgraph
from journals.adapters.base import InputFile, Line, Note, Partial, Refused, Unread
from tests.runs.journal import codes, read_files

from .langgraph_exports import NAMES, data, read, read_capture


def told(*names: str) -> Any:
    """The summary of the one run in these captures."""
    (summary,) = read_files("langgraph", {name: data(name) for name in names}).values()
    return summary


def steps(summary: Any) -> list[tuple[str, int, str | None, str, str, str]]:
    return [
        (r.step.branch, r.step.number, r.step.name, r.step.kind, str(r.judged.verdict), str(r.judged.effects))
        for r in summary.steps
    ]


def gaps(summary: Any) -> list[tuple[str, int | None, str | None, str]]:
    return [(g.branch, g.step, g.name, str(g.verdict)) for g in summary.gaps]


@pytest.mark.parametrize("name", NAMES)
def test_every_capture_is_known_read_and_counted(name: str) -> None:
    assert langgraph.sniff([InputFile.of(name, data(name))]) >= 0.5
    made = read_capture(name)
    assert made.balanced()
    assert [line.raw for line in made.lines] == [line.raw for line in read_capture(name).lines]
    assert all(state.get("tries_recorded") is False for state in made.states)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("b-crash-sync.recovered.dump.sql", "b-crash-sync.recovered.tables.json"),
        ("b-sqlite.recovered.sqlite", "b-sqlite.recovered.tables.json"),
        ("b-crash-sync.inflight.dump.sql", "b-crash-sync.inflight.history.json"),
        ("d-parallel.done.tables.json", "d-parallel.done.history.json"),
        ("e-failed.done.dump.sql", "e-failed.done.history.json"),
    ],
)
def test_all_forms_of_a_thread_give_the_same_lines(one: str, other: str) -> None:
    assert {e["id"]: e for e in read_capture(one).entries} == {e["id"]: e for e in read_capture(other).entries}


@pytest.mark.parametrize("scenario", ["b-crash-sync.recovered", "c-approval.approved", "f-code.recovered-on-v2"])
def test_a_history_beside_the_tables_contradicts_nothing(scenario: str) -> None:
    tables = {e["id"]: e for e in read_capture(f"{scenario}.tables.json").entries}
    history = {e["id"]: e for e in read_capture(f"{scenario}.history.json").entries}
    assert {i: tables[i] for i in tables.keys() & history.keys()} == {
        i: history[i] for i in tables.keys() & history.keys()
    }
    assert {i.partition(":")[0] for i in history.keys() - tables.keys()} <= {"answered"}


@pytest.mark.parametrize("form", ["dump.sql", "history.json"])
def test_the_node_in_flight_at_a_crash_is_named(form: str) -> None:
    summary = told(f"b-crash-sync.inflight.{form}")
    assert (str(summary.status), gaps(summary)) == ("running", [("", 4, "send_refund", "may_run_twice")])


def test_killed_and_cancelled_cannot_be_told_apart() -> None:
    assert gaps(told("i-cancelled.cancelled.dump.sql")) == [("", 4, "send_refund", "may_run_twice")]


def test_what_an_asynchronous_crash_left_behind_its_last_checkpoint_is_in_the_gap() -> None:
    summary = told("b-crash-async-immediate.inflight.dump.sql")
    lost = [(branch, step, name) for branch, step, name, _ in gaps(summary) if branch.startswith("lost-")]
    assert [(step, name) for _, step, name in lost] == [(1, "model"), (2, "send_refund")]
    assert ("", 3, "model", "may_run_twice") in gaps(summary)


@pytest.mark.parametrize(
    ("name", "doubled"),
    [
        ("b-crash-sync.recovered.dump.sql", {"send_refund"}),
        ("b-crash-async-immediate.recovered.dump.sql", {"lookup_order", "send_refund"}),
        ("b-sqlite.recovered.sqlite", {"send_refund"}),
        ("f-code.recovered-on-v2.tables.json", {"send_refund"}),
        ("f-code.recovered-on-v2.history.json", {"send_refund"}),
    ],
)
def test_a_refund_that_went_out_twice_is_named(name: str, doubled: set[str]) -> None:
    summary = told(name)
    assert {d["name"] for d in read_capture(name).state["doubles"] if d["kind"] == "tool"} == doubled
    assert "possible_double_effect" in codes(summary)
    assert all(effects not in ("one", "none") for _, _, step, _, _, effects in steps(summary) if step == "send_refund")


@pytest.mark.parametrize("name", [n for n in NAMES if ".done" in n or "recovered" in n or "approved" in n])
def test_no_write_is_ever_said_to_have_happened_just_once(name: str) -> None:
    for summary in read_files("langgraph", {name: data(name)}).values():
        assert "one" not in {effects for *_, effects in steps(summary)}


def test_a_thread_that_asks_is_parked_and_nothing_is_in_the_gap() -> None:
    summary = told("c-approval.parked.tables.json")
    assert (str(summary.status), summary.gaps) == ("parked", [])
    assert steps(summary)[-1] == ("4.ask", 1, "send_refund", "approval", "waiting", "none")
    assert summary.parked_on == f"approval:{summary.approvals[0].id}"
    assert summary.approvals[0].artifact["interrupt"]["args"]["amount_cents"] == 4999


def test_an_approval_is_asked_decided_and_used() -> None:
    summary = told("c-approval.approved.tables.json")
    (approval,) = summary.approvals
    assert (str(approval.state), approval.decision.entry.by) == ("used", "alice@example.com")
    assert not {"ran_without_approval", "approval_not_used", "possible_double_effect"} & codes(summary)


def test_a_history_does_not_tell_the_answer_and_says_so() -> None:
    summary = told("c-approval.approved.history.json")
    assert summary.approvals[0].decision.entry.reason == "the answer is not in this export"
    assert not {"ran_without_approval", "approval_mismatch"} & codes(summary)


def test_an_answer_that_one_export_does_not_tell_is_no_other_answer() -> None:
    summary = told("c-approval.approved.tables.json", "c-approval.approved.history.json")
    assert "approval_ambiguous" not in codes(summary)
    assert (summary.approvals[0].decision.entry.by, str(summary.approvals[0].state)) == ("alice@example.com", "used")


def test_nodes_of_one_super_step_and_sends_are_branches() -> None:
    assert [s[:3] for s in steps(told("d-parallel.done.tables.json"))] == [
        ("", 1, "model"), ("", 2, None), ("2.1", 1, "check_fraud"), ("2.2", 1, "check_inventory"), ("2.3", 1, "lookup_order"),
        ("", 3, "join"), ("", 4, None), ("4.1", 1, "worker"), ("4.2", 1, "worker"), ("4.3", 1, "worker"),
    ]  # fmt: skip


def test_a_failed_node_may_have_run() -> None:
    summary = told("e-failed.done.dump.sql")
    assert (str(summary.status), steps(summary)[-1][4:]) == ("failed", ("failed_may_have_run", "unknown"))
    error = read_capture("e-failed.done.dump.sql").place("", 4)["error"]
    assert error == {"type": "RefundDeclined", "message": "RefundDeclined('card network declined the refund')"}


def test_a_subgraph_is_a_branch_of_the_step_that_runs_it() -> None:
    parked, approved = told("h-subgraph-parked.parked.tables.json"), told("h-subgraph-parked.approved.tables.json")
    assert (str(parked.status), parked.gaps, len(parked.approvals)) == ("parked", [], 1)
    assert steps(parked)[-1][:5] == ("1.sub.4.ask", 1, "send_refund", "approval", "waiting")
    assert ("1.sub", 4, "send_refund", "tool", "done", "at_least_one") in steps(approved)
    assert ("", 1, "refund_agent", "child", "done", "at_least_one") in steps(approved)


def test_a_second_invocation_is_part_of_the_thread() -> None:
    summary = told("h-multiturn.two-invocations.tables.json")
    assert (str(summary.status), summary.gaps) == ("completed", [])
    assert [s[2] for s in steps(summary) if s[0] == ""] == [
        "model", "lookup_order", "model", "send_refund", "model", "__start__",
        "model", "lookup_order", "model", "send_refund", "model",
    ]  # fmt: skip
    assert summary.versions["prompt"] == {"refund-prompt": ["3", "4"]}


def test_a_step_finished_by_new_code_ran_under_the_new_versions() -> None:
    made = read_capture("f-code.recovered-on-v2.tables.json")
    assert [made.place("", n)["versions"]["prompt"] for n in (3, 4, 5)] == [
        "refund-prompt@3",
        "refund-prompt@4",
        "refund-prompt@4",
    ]
    (resumed,) = [e for e in made.entries if e["kind"] == "run.resumed"]
    assert (resumed["build"], made.state["build"]) == ("v2", "v2")


def test_a_model_and_a_tool_say_what_they_are() -> None:
    made = read_capture("b-crash-sync.recovered.dump.sql")
    model, tool = made.place("", 3), made.place("", 4)
    assert (model["kind"], model["model_reported"], model["usage"]["total_tokens"]) == (
        "model.result",
        "fake-model-2026-01",
        103,
    )
    assert (tool["kind"], tool["call"], tool["in"]["amount_cents"]) == ("tool.result", "call_2", 4999)


def test_an_old_release_is_read_without_task_paths() -> None:
    summary = told("old.langgraph-0.6.11_cp-2.0.25.c-approval.approved.sqlite")
    assert [s[2] for s in steps(summary)] == ["model", "lookup_order", "model", "send_refund", "send_refund", "model"]
    assert str(summary.approvals[0].state) == "used"


def test_the_server_tells_its_status_and_agent() -> None:
    made = read_capture("server.a-normal.json")
    assert (made.state["runtime_status"], made.state["status"], made.state["complete"]) == ("idle", "completed", True)
    assert made.entries[0]["agent"] == "refund_agent"
    assert made.state["server_runs"][0]["status"] == "success"


def test_a_list_of_threads_tells_where_they_stand_and_no_step() -> None:
    made = read_capture("server.threads-search.json")
    assert [s["status"] for s in made.states] == ["cancelled", "failed", "completed", "completed"]
    assert not made.entries
    assert not any(s["complete"] for s in made.states)


def test_a_list_of_threads_serves_the_histories_beside_it() -> None:
    made = read_capture("server.threads-search.json", "server.a-normal.json")
    (both,) = [s for s in made.states if s.get("checkpoint")]
    assert (both["runtime_status"], both["complete"], len(made.states)) == ("idle", True, 4)


def test_a_schema_is_refused() -> None:
    (refused,) = read_capture("schema.checkpoint-postgres-3.2.0.sql").of(Refused)
    assert refused.reason == "a dump of the schema only: it holds no rows"


def test_order_is_by_parent_when_the_clock_goes_back() -> None:
    made, summary = read_capture("case-13.history.json"), told("case-13.history.json")
    assert [e["out"]["note"] for e in made.entries if e["kind"] == "tool.result"] == [
        "refund approved",
        "refund sent",
        "mail sent",
    ]
    assert made.state["checkpoint"].endswith("d4")
    assert made.state["resumes_from"]["checkpoint"].endswith("b2")
    assert gaps(summary) == [("", n, "agent", "may_run_twice") for n in (2, 3, 11)]
    assert "older checkpoint 1f1930fe-c183-6d00-8001-0000000000b2" in summary.gaps[0].reason
    (clock,) = [f for f in summary.findings if f.code == "clock_step_back"]
    assert clock.detail["seconds"] == 3.5


def test_every_call_of_one_question_is_an_approval_of_its_own() -> None:
    summary = told("case-14.thread.json")
    assert [
        (a.request.entry.call, a.request.entry.name, a.request.entry.extra["allowed_decisions"])
        for a in summary.approvals
    ] == [
        ("delete-1", "delete_file", ["approve", "reject"]),
        ("send-1", "send_email", ["approve", "edit", "reject"]),
    ]
    assert str(summary.status) == "parked"
    assert [g.reason for g in summary.gaps] == [
        "Not known: entries 1 to 3 are missing."
    ]  # one state is not the whole thread


def test_constructors_are_shown_and_broken_extensions_stay_closed() -> None:
    made = read_capture("case-10.blobs.json")
    by_name = {e["name"]: e["out"] for e in made.entries}
    assert by_name["channel cfg"]["id"] == ["pathlib", "Path"]
    assert by_name["channel messages"]["opaque"] == "msgpack, not readable"
    assert made.state["complete"] is False


@pytest.mark.parametrize(
    "name",
    [
        "b-crash-sync.recovered.dump.sql",
        "c-approval.approved.tables.json",
        "server.a-normal.json",
        "b-sqlite.recovered.sqlite",
    ],
)
def test_a_torn_file_keeps_what_is_whole_and_is_never_over(name: str) -> None:
    whole = data(name)
    for cut in range(200, len(whole), len(whole) // 12):
        made = read({name: whole[:cut]})
        assert made.balanced()
        if made.states:
            assert made.of(Partial)
            assert not any(s["complete"] or s["status"] == "completed" for s in made.states)


def test_snapshots_of_two_moments_in_one_file_are_one_run() -> None:
    moments = {m: json.loads(data(f"c-approval.{m}.tables.json")) for m in ("parked", "approved")}
    made = read({"both.json": json.dumps(moments).encode()})
    assert [s["status"] for s in made.states] == ["parked", "completed"]
    ids = [e["id"] for e in made.entries]
    assert len(ids) == len(set(ids))
    assert made.balanced()


def test_a_later_export_changes_no_line_of_an_earlier_one() -> None:
    for scenario in ("c-approval.{}.tables.json", "h-subgraph-parked.{}.tables.json"):
        first, then = (read_capture(scenario.format(m)) for m in ("parked", "approved"))
        later = {e["id"]: e for e in then.entries}
        assert all(later[e["id"]] == e for e in first.entries)
    first, then = (read_capture(f"b-crash-async-immediate.{m}.dump.sql") for m in ("inflight", "recovered"))
    later = {e["id"]: e for e in then.entries}
    assert all(later[e["id"]] == e for e in first.entries)


@pytest.mark.parametrize("kind", [Line, Unread, Note])
def test_items_name_their_file(kind: type) -> None:
    assert all(item.path == "server.a-normal.json" for item in read_capture("server.a-normal.json").of(kind))
