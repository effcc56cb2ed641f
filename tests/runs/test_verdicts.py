"""The table of verdicts: what each state of a step is worth, for our own store and for imports."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from journals.adapters.base import Evidence
from tests.runs.good import ASKED, DONE, SAID, START, bare, failed, model, result, started, state
from tests.runs.journal import NOW, codes, fold_import, fold_native, imported, native, numbered, step

ON_CLOSE = Evidence(write="on_close", read="on_close", attempts=False, says_end=False)
NEVER = Evidence(write="never", read="never", attempts=False, says_end=False)
TIMER = {"kind": "timer.started", "name": "wait", "step": 1, "until": "2027-01-01T00:00:00Z"}
FIRED = {"kind": "timer.fired", "name": "wait", "step": 1}
CHILD = {"kind": "child.started", "name": "sub", "step": 1, "child": "r~1"}
READ = {"effect": "read"}

NATIVE = [
    ("a result", [started(1), result(1)], ("done", "certain", "one")),
    ("a start", [started(1)], ("may_run_twice", "certain", "unknown")),
    ("an error", [started(1), failed(1)], ("failed_may_have_run", "certain", "unknown")),
    ("a retry that got a result", [started(1), failed(1), started(1, attempt=2), result(1, attempt=2)], ("done", "certain", "at_least_one")),
    ("a retry in flight", [started(1), failed(1), started(1, attempt=2)], ("may_run_twice", "certain", "unknown")),
    ("begun again by the next worker", [started(1), {**started(1), "epoch": 2}, {**result(1), "epoch": 2}], ("done", "certain", "at_least_one")),
    ("a late result", [started(1), {"kind": "late.result", "step": 1, "origin": "server"}], ("may_run_twice", "certain", "at_least_one")),
    ("a late failure", [started(1), {"kind": "late.result", "step": 1, "origin": "server", "error": {"type": "CardDeclined"}}], ("may_run_twice", "certain", "unknown")),
    ("a read with a start", [{**started(1), **READ}], ("may_run_twice", "certain", "none")),
    ("a read with a result", [{**result(1), **READ}], ("done", "certain", "none")),
    ("a model's result", [model(1)], ("done", "certain", "none")),
    ("a recorded value", [{"kind": "value.result", "step": 1, "out": 1}], ("done", "certain", "none")),
    ("a timer", [TIMER], ("waiting", "certain", "none")),
    ("a timer that fired", [TIMER, FIRED], ("done", "certain", "none")),
    ("a timer behind which the run went on", [TIMER, model(2)], ("done", "certain", "none")),
    ("an approval asked", [{**ASKED, "step": 1}], ("waiting", "certain", "none")),
    ("an approval decided", [{**ASKED, "step": 1}, {**SAID, "origin": "server"}], ("done", "certain", "none")),
    (
        "an approval asked again after a withdrawal",
        [{**ASKED, "step": 1}, {"kind": "approval.withdrawn", "approval": "a1", "origin": "server"}, {**ASKED, "step": 1, "approval": "a2", "attempt": 2}],
        ("waiting", "certain", "none"),
    ),
    ("a child", [CHILD], ("waiting", "certain", "unknown")),
    ("a child's result", [CHILD, {"kind": "child.result", "name": "sub", "step": 1}], ("done", "certain", "one")),
    ("happened, says a person", [started(1), {"kind": "gap.resolved", "step": 1, "outcome": "happened", "by": "alice", "out": {}, "origin": "server"}], ("done", "certain", "at_least_one")),
    ("did not happen, says a person", [started(1), {"kind": "gap.resolved", "step": 1, "outcome": "did_not_happen", "by": "alice", "origin": "server"}], ("not_started", "certain", "none")),
    (
        "run after a person's word",
        [started(1), {"kind": "gap.resolved", "step": 1, "outcome": "did_not_happen", "by": "alice", "origin": "server"}, {**started(1), "epoch": 2}, {**result(1), "epoch": 2}],
        ("done", "certain", "at_least_one"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("what", "lines", "expected"), NATIVE, ids=[n[0] for n in NATIVE])
def test_of_our_own_step(what: str, lines: list[dict[str, Any]], expected: tuple[str, str, str]) -> None:
    found = step(fold_native(native(*lines), worker="w1"), 1).judged
    assert (found.verdict, found.confidence, found.effects) == expected


IMPORTED = [
    ("a start", NEVER, [started(1)], ("may_run_twice", "possible", "unknown")),
    ("a scheduled step", ON_CLOSE, [started(1)], ("may_run_twice", "possible", "unknown")),
    ("a start written before the effect", None, [started(1)], ("may_run_twice", "certain", "unknown")),
    ("a result where attempts leave no trace", NEVER, [result(1)], ("done", "certain", "at_least_one")),
    ("a result without a start", None, [result(1)], ("done", "certain", "at_least_one")),
    ("start and result, and nothing says that the file ends here", None, [started(1), result(1)], ("done", "certain", "at_least_one")),
    ("start and result of a run that is over", None, [started(1), result(1), DONE], ("done", "certain", "one")),
    ("start and result, and the source lists what is open", None, [started(1), result(1), state(status="running", pending=[], waiting=[])], ("done", "certain", "one")),
    ("start and result where only the last attempt is kept", ON_CLOSE, [started(1), result(1)], ("done", "certain", "at_least_one")),
    ("a timeout", ON_CLOSE, [started(1), failed(1, "StartToCloseTimeout")], ("failed_may_have_run", "certain", "unknown")),
    ("a refusal that will not be tried again", ON_CLOSE, [started(1), failed(1, "ApplicationFailure")], ("failed_may_have_run", "certain", "unknown")),
    ("a timer at the end of a file", None, [TIMER], ("waiting", "possible", "none")),
    ("an approval at the end of a file", None, [{**ASKED, "step": 1}], ("waiting", "possible", "none")),
    ("a child at the end of a file", None, [CHILD], ("waiting", "possible", "unknown")),
    ("an open child of a run that failed", None, [CHILD, {"kind": "run.failed"}], ("may_run_twice", "possible", "unknown")),
    ("a child of a runtime that records its start at its end", NEVER, [CHILD], ("done", "certain", "at_least_one")),
    ("an approval nobody decided, and the run went on", None, [{**ASKED, "step": 1}, model(2)], ("unknown", "unknown", "none")),
]  # fmt: skip


@pytest.mark.parametrize(("what", "evidence", "lines", "expected"), IMPORTED, ids=[f"{n[0]}" for n in IMPORTED])
def test_of_an_imported_step(
    what: str, evidence: Evidence | None, lines: list[dict[str, Any]], expected: tuple[str, str, str]
) -> None:
    entries = imported(numbered(*lines))
    found = step(fold_import(entries, evidence=evidence) if evidence else fold_import(entries), 1).judged
    assert (found.verdict, found.confidence, found.effects) == expected


def test_a_hole_behind_a_start_leaves_it_unknown() -> None:
    lines = numbered(START, started(1), result(1), DONE)
    summary = fold_import(imported([lines[0], lines[1], lines[3]]))
    assert step(summary, 1).judged.verdict == "unknown"
    assert "missing_entry" in codes(summary)


def test_a_hole_in_a_file_without_step_numbers_is_steps_of_which_nothing_is_known() -> None:
    lines = numbered(*({"kind": "tool.result", "name": f"t{n}", "call": f"c{n}"} for n in range(1, 6)))
    summary = fold_import(imported([lines[0], lines[1], lines[4]]))
    assert [(r.step.number, r.step.name, r.judged.verdict) for r in summary.steps] == [
        (1, "t1", "done"), (2, "t2", "done"), (3, None, "unknown"), (4, None, "unknown"), (5, "t5", "done"),
    ]  # fmt: skip
    assert [f.entries for f in summary.findings if f.code == "missing_entry"] == [(3, 4)]


def test_a_hole_of_many_entries_is_one_step_that_says_how_many() -> None:
    summary = fold_import(
        imported(
            [
                {"seq": 1, "kind": "tool.result", "name": "a", "call": "c"},
                {"seq": 5_000, "kind": "tool.result", "name": "b", "call": "d"},
            ]
        )
    )
    assert [r.step.missing for r in summary.steps if r.step.missing] == ["entries 2 to 4999 are missing"]


def test_a_step_number_without_an_entry_may_be_under_way_where_steps_are_recorded_at_their_end() -> None:
    lines = [{"seq": n, **result(n)} for n in (1, 3)]
    never = fold_import(imported(lines), evidence=NEVER)
    assert (step(never, 2).judged.verdict, step(never, 2).judged.confidence) == ("may_run_twice", "possible")
    assert "missing_entry" not in codes(never)
    assert step(fold_import(imported(lines)), 2).judged.verdict == "unknown"


def test_a_number_that_opened_branches_is_no_hole() -> None:
    summary = fold_import(imported(numbered(model(1), result(1, branch="2.1"), result(1, branch="2.2"), model(3))))
    assert [(r.step.branch, r.step.number) for r in summary.steps] == [("", 1), ("2.1", 1), ("2.2", 1), ("", 3)]


@pytest.mark.parametrize(
    "more",
    [
        {},
        {
            "complete": False,
            "partial": "the file ends before its record does",
            "losses": [{"code": "torn_tail", "reason": "cut"}],
        },
    ],
)
def test_behind_a_file_that_does_not_state_its_end_nothing_is_known(more: dict[str, Any]) -> None:
    lines = [*numbered(START, model(1)), *([{**state(**more), "seq": 3}] if more else [])]
    summary = fold_import(imported(lines))
    assert (summary.status, summary.complete) == ("unknown", False)
    assert [(g.step, g.verdict) for g in summary.gaps] == [(2, "unknown")]
    assert ("torn_tail" in codes(summary)) == bool(more)


@pytest.mark.parametrize("first", [{**started(1), **READ}, started(1)], ids=["a read", "a write"])
def test_behind_an_open_step_of_such_a_file_later_steps_may_exist(first: dict[str, Any]) -> None:
    lines = numbered(START, first)
    summary = fold_import(imported(lines))
    assert [(g.step, g.verdict, g.effect) for g in summary.gaps][1:] == [(2, "unknown", "write")]
    told = {**state(status="running", complete=False), "seq": 3}
    assert [g.step for g in fold_import(imported([*lines, told])).gaps] == [1]


def test_a_torn_file_never_shows_a_finished_run() -> None:
    torn = {"complete": False, "partial": "cut", "losses": [{"code": "torn_tail", "reason": "cut"}]}
    summary = fold_import(imported([*numbered(START, DONE), {**state(**torn), "seq": 3}]))
    assert (summary.status, summary.complete, summary.in_flight) == ("unknown", False, True)


def test_an_end_that_is_recorded_is_the_end() -> None:
    summary = fold_import(imported(numbered(START, model(1), DONE)))
    assert (summary.status, summary.complete, summary.in_flight, list(summary.gaps)) == ("completed", True, False, [])


def test_a_source_that_lists_what_is_open_leaves_nothing_behind_its_last_entry() -> None:
    told = {**state(status="running", complete=False), "seq": 3}
    assert list(fold_import(imported([*numbered(START, model(1)), told])).gaps) == []


def test_what_the_source_calls_pending_may_run_twice_and_says_how_often_it_may_have_been_sent() -> None:
    pending = {
        "branch": "",
        "step": 1,
        "name": "pay",
        "state": "STARTED",
        "attempt": 3,
        "last_failure": {"type": "TimeoutError", "message": "read timeout"},
    }
    told = {**state(status="running", complete=False, pending=[pending]), "seq": 3}
    found = step(fold_import(imported([*numbered(START, started(1)), told]), evidence=ON_CLOSE), 1).judged
    assert (found.verdict, found.confidence) == ("may_run_twice", "certain")
    assert "Attempt 3 is running" in found.reason
    assert "TimeoutError: read timeout" in found.reason
    assert "up to 3 times" in found.reason


def test_a_start_recorded_before_its_effect_is_certain_whatever_the_source_calls_it() -> None:
    pending = {"branch": "", "step": 1, "name": "pay", "state": "backing_off", "attempt": 3, "last_failure": "lost"}
    told = {**state(status="running", complete=False, pending=[pending]), "seq": 3}
    lines = imported([*numbered(START, started(1)), told])
    assert step(fold_import(lines), 1).judged.confidence == "certain"
    found = step(fold_import(lines, evidence=ON_CLOSE), 1).judged
    assert (found.confidence, "up to 2 times" in found.reason) == ("possible", True)


def test_a_pending_step_without_an_entry_is_in_the_gap_by_its_name() -> None:
    told = {
        **state(
            status="running", complete=False, pending=[{"branch": "", "step": 2, "name": "pay", "state": "SCHEDULED"}]
        ),
        "seq": 3,
    }
    gap = fold_import(imported([*numbered(START, model(1)), told]), evidence=ON_CLOSE).gaps[0]
    assert (gap.step, gap.name, gap.verdict, gap.confidence) == (2, "pay", "may_run_twice", "possible")


def test_a_step_that_the_source_calls_waiting_is_not_in_the_gap() -> None:
    lines = [{"seq": n, **result(n)} for n in (1, 3)]
    told = {
        **state(status="parked", complete=False, waiting=[{"branch": "", "step": 2, "what": "signal:go"}]),
        "seq": 4,
    }
    summary = fold_import(imported([*lines, told]), evidence=NEVER)
    assert (step(summary, 2).judged.verdict, list(summary.gaps), summary.parked_on) == ("waiting", [], "signal:go")


# -- our own runs ---------------------------------------------------------------------------------------------------


def test_a_read_may_have_been_under_way_when_the_worker_died_and_a_write_cannot() -> None:
    gaps = fold_native(native(START, model(1)), worker="w1", lease_until=NOW - timedelta(seconds=1)).gaps
    assert [(g.step, g.verdict, g.confidence, g.effect) for g in gaps] == [(2, "may_run_twice", "possible", "read")]


@pytest.mark.parametrize(
    "head",
    [
        {"worker": "w1", "lease_until": NOW + timedelta(seconds=20)},
        {"worker": ""},
        {"worker": "", "parked_on": "timer"},
    ],
)
def test_nothing_is_in_the_gap_of_a_run_that_is_alive_or_given_back(head: dict[str, Any]) -> None:
    summary = fold_native(native(START, model(1)), **head)
    assert list(summary.gaps) == []
    assert summary.worst_gap is None


def test_a_write_in_flight_is_an_alarm_only_when_its_worker_is_gone() -> None:
    lines = native(START, bare(started(1), "key"))
    alive = fold_native(lines, worker="w1", lease_until=NOW + timedelta(seconds=20))
    dead = fold_native(lines, worker="w1", lease_until=NOW - timedelta(seconds=20))
    assert [f.severity for s in (alive, dead) for f in s.findings if f.code == "gap_open"] == ["info", "error"]


def test_a_missing_position_of_our_own_journal_is_seen() -> None:
    lines = native(START, started(1), result(1))
    summary = fold_native([lines[0], lines[2]], pos=3, worker="w1")
    assert "missing_entry" in codes(summary)
    assert step(summary, 1).judged.effects == "at_least_one"
    assert any(g.verdict == "unknown" for g in summary.gaps)


def test_a_missing_end_of_our_own_journal_is_seen() -> None:
    summary = fold_native(native(START, started(1)), pos=3, worker="w1")
    assert step(summary, 1).judged.verdict == "unknown"
    assert [f.entries for f in summary.findings if f.code == "missing_entry"] == [(3,)]


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ({}, "running"),
        ({"parked_on": "timer"}, "parked"),
        ({"hold_reason": "NonDeterministicReplay", "parked_on": ""}, "held"),
        ({"stop_name": "PromptChanged", "hold_reason": "x"}, "stopping"),
        *(({"ended": s, "stop_name": "x"}, s) for s in ("completed", "failed", "stopped", "cancelled", "continued")),
    ],
)
def test_the_status_of_our_own_run_is_that_of_its_head(head: dict[str, Any], expected: str) -> None:
    assert fold_native(native(START), **head).status == expected


# -- exactly one ----------------------------------------------------------------------------------------------------


def test_one_effect_needs_a_journal_without_holes() -> None:
    lines = numbered(START, model(1), started(2), result(2), DONE)
    assert step(fold_import(imported(lines)), 2).judged.effects == "one"
    assert step(fold_import(imported([lines[0], *lines[2:]])), 2).judged.effects == "at_least_one"


def test_one_effect_needs_numbers_that_would_show_a_hole() -> None:
    assert step(fold_import(imported([started(1), result(1)])), 1).judged.effects == "at_least_one"


def test_one_effect_needs_an_answer_of_the_session_that_began_it() -> None:
    summary = fold_native(native(started(1), {**result(1), "epoch": 2}), worker="w1")
    assert step(summary, 1).judged.effects == "at_least_one"


# -- ends -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [{"kind": "run.resumed", "build": "41"}, started(2)])
def test_an_end_behind_which_the_run_went_on_is_none(more: dict[str, Any]) -> None:
    summary = fold_import(imported(numbered(START, model(1), DONE, more)))
    assert (summary.status, summary.complete, summary.in_flight) == ("unknown", False, True)


def test_a_run_that_is_over_by_the_sources_word_is_complete_only_when_the_export_has_its_end() -> None:
    cut = fold_import(imported([*numbered(START, model(1)), {**state(status="completed", complete=False), "seq": 3}]))
    whole = fold_import(imported([*numbered(START, model(1)), {**state(status="completed", complete=True), "seq": 3}]))
    assert [(s.status, s.complete) for s in (cut, whole)] == [("completed", False), ("completed", True)]


def test_a_run_with_a_hole_is_not_complete() -> None:
    lines = numbered(START, model(1), DONE)
    assert fold_import(imported([lines[0], lines[2]])).complete is False
    assert fold_native(native(START, DONE)[1:], pos=2, ended="completed").complete is False


def test_the_end_of_a_torn_file_is_named_in_its_gap() -> None:
    told = state(
        complete=False, partial="line 3 breaks off", losses=[{"code": "torn_tail", "reason": "line 3 breaks off"}]
    )
    gap = fold_import(imported([*numbered(START, model(1)), {**told, "seq": 3}])).gaps[0]
    assert "line 3 breaks off" in gap.reason


def test_a_failed_write_may_be_tried_again_in_what_a_torn_file_lacks() -> None:
    retry = {"kind": "timer.started", "name": "back-off", "step": 2, "until": "2026-09-01T09:00:00Z"}
    lines = numbered(started(1), failed(1), retry)
    torn = {
        "kind": "note",
        "name": "runtime.state",
        "out": {"status": "running", "complete": False, "partial": "torn", "pending": [], "waiting": []},
    }
    folded = fold_import(imported([*lines, torn]))
    assert [(g.step, g.verdict) for g in folded.gaps if g.entries and g.step == 1] == [(1, "failed_may_have_run")]


def test_a_child_is_not_settled_beside_an_error_that_names_no_step() -> None:
    over = [START, CHILD, {"kind": "run.completed"}]
    stray = {"kind": "temporal.ChildWorkflowExecutionFailed", "error": {"type": "E", "message": "m"}}
    assert step(fold_import(imported(numbered(*over))), 1).judged.verdict == "done"
    assert step(fold_import(imported(numbered(*over[:2], stray, over[2]))), 1).judged.verdict == "unknown"
