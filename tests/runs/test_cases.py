"""Small journals made from public reports: what must be shown of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from runs.summary import Summary
from tests.adapters import dbos_exports, temporal_captures
from tests.runs.journal import codes, fold_import, imported, read_files, step

FIXTURES = Path(__file__).parent.parent / "fixtures" / "lines"


def of_lines(name: str) -> dict[str, Summary]:
    return read_files("lines", {name: (FIXTURES / name).read_bytes()})


def dbos() -> dict[str, Summary]:
    folder = dbos_exports.HERE / "case-09"
    return read_files("dbos", {p.name: p.read_bytes() for p in sorted(folder.glob("*.json"))})


def made(*names: str) -> Summary:
    (summary,) = read_files("temporal", {n: temporal_captures.data(f"made/{n}") for n in names}).values()
    return summary


def test_approved_one_payment_and_started_another() -> None:
    (summary,) = of_lines("approval_mismatch.jsonl").values()
    found = {f.code: f for f in summary.findings}
    assert found["approval_mismatch"].detail["differences"] == [
        {"path": "/args/iban", "approved": "XX00SYNTHETIC0001", "ran": "XX00SYNTHETIC0002"}
    ]
    assert found["ran_without_approval"].detail["decided_by"] == "user-17"
    assert summary.approvals[0].state == "approved"  # the yes is not used up
    assert found["repeated_model_call"].entries == (1, 4)


def test_a_prompt_moved_and_another_model_answered_inside_the_run() -> None:
    runs = of_lines("versions_changed.jsonl")
    (first, second) = (runs["r-17"], runs["r-17b"])
    changed = next(f for f in first.findings if f.code == "changed_inside_run")
    assert (changed.detail["component"], changed.detail["name"], changed.entries) == ("prompt", "refund-policy", (1, 3))
    assert next(f for f in first.findings if f.code == "silent_fallback").entries == (4,)
    assert (first.parked_on, str(first.wake_at)) == ("timer", "2026-08-20 08:00:00+00:00")
    assert "versions_missing" in codes(second)
    assert second.version_set == {}


def test_odd_payloads_are_named_and_stop_nothing() -> None:
    (summary,) = of_lines("odd_payloads.jsonl").values()
    assert len(summary.steps) == 15
    assert {"approval_ambiguous", "non_standard_json", "too_deep"} <= codes(summary)
    assert next(f for f in summary.findings if f.code == "approval_ambiguous").entries == (10,)


@pytest.mark.parametrize(
    ("name", "verdicts", "findings"),
    [
        ("00-good.jsonl", ["done"] * 5, set()),
        ("21-out-of-order-and-twice.jsonl", ["done"] * 5, set()),
        ("22-same-seq-two-contents.jsonl", ["done", "done", "unknown", "done", "done"], {"conflicting_entry"}),
        ("23-hole.jsonl", ["done", "done", "unknown", "unknown", "done"], {"missing_entry"}),
        ("06-torn-middle.jsonl", ["done", "done", "unknown", "done", "done"], {"missing_entry"}),
        ("08-torn-then-glued.jsonl", ["done", "unknown", "done", "done", "done"], {"missing_entry"}),
        ("09-nul-block.jsonl", ["done"] * 5, set()),
    ],
)
def test_torn_and_odd_files(name: str, verdicts: list[str], findings: set[str]) -> None:
    (summary,) = of_lines(f"torn/{name}").values()
    assert [str(r.judged.verdict) for r in summary.steps] == verdicts
    assert findings <= codes(summary)
    assert (summary.status, summary.complete) == ("unknown", False)
    assert any(g.verdict == "unknown" for g in summary.gaps)


def test_no_prefix_of_a_file_shows_a_finished_run() -> None:
    lines = (FIXTURES / "torn/00-good.jsonl").read_bytes().split(b"\n")
    for n in range(1, len(lines)):
        summary = fold_import(imported(lines[:n]))
        assert (summary.status, summary.complete, bool(summary.gaps)) == ("unknown", False, True)


def test_a_parked_receive_is_no_gap_and_no_damage_and_its_message_is_not_used() -> None:
    parked = dbos()["wf-parked-2"]
    assert (step(parked, 3).judged.verdict, list(parked.gaps), parked.status) == ("waiting", [], "parked")
    assert {"stranded", "approval_not_used"} <= codes(parked)
    assert "missing_entry" not in codes(parked)
    unused = next(f for f in parked.findings if f.code == "approval_not_used")
    assert (unused.detail["given_at"], unused.detail["too_late_after"]) == (
        "2026-08-03T08:15:50Z",
        "2026-08-08T17:20:03.5Z",
    )


def test_a_step_number_without_a_row_may_run_twice_and_a_loop_is_named() -> None:
    gather = dbos()["wf-gather-1"]
    assert (step(gather, 2).judged.verdict, step(gather, 2).step.name) == ("may_run_twice", None)
    assert gather.status == "stuck"
    assert "replay_loop" in codes(gather)


def test_a_fork_and_its_source_are_linked() -> None:
    runs = dbos()
    for run, other in (("wf-fork-5", "wf-orig-4"), ("wf-orig-4", "wf-fork-5")):
        found = next(f for f in runs[run].findings if f.code == "possible_double_effect")
        assert found.detail["other_run"] == other
        assert [s["name"] for s in found.detail["steps"]] == ["send_refund"]


def test_closed_values_are_named_and_their_steps_done() -> None:
    folder = dbos_exports.HERE / "case-10"
    names = ("workflow_status.json", "operation_outputs.json")
    (summary,) = read_files("dbos", {n: (folder / n).read_bytes() for n in names}).values()
    assert [str(step(summary, n).judged.verdict) for n in range(1, 5)] == ["done"] * 4
    assert [(g.step, g.name, g.verdict) for g in summary.gaps] == [(5, None, "may_run_twice")]
    assert "opaque_payload" in codes(summary)


def test_a_scheduled_step_may_run_twice_and_a_describe_says_how_often_it_may_have_been_sent() -> None:
    alone, described = made("pending.json"), made("pending.json", "pending-describe.json")
    assert step(alone, 1).judged.verdict == "done"
    assert (step(alone, 2).judged.verdict, step(alone, 2).judged.confidence) == ("may_run_twice", "possible")
    assert "does not write the start of a running step" in step(alone, 2).judged.reason
    assert step(described, 2).judged.confidence == "certain"
    for words in ("Attempt 3 is running", "read timeout", "up to 3 times"):
        assert words in step(described, 2).judged.reason


def test_a_timeout_and_an_equal_call_are_linked() -> None:
    summary = made("timed-out-then-again.json")
    doubles = [f for f in summary.findings if f.code == "possible_double_effect"]
    assert [(f.detail["earlier"]["step"], f.detail["step"]["step"]) for f in doubles] == [(1, 2)]
    assert step(summary, 1).judged.verdict == "failed_may_have_run"


def test_a_second_try_that_left_no_event_of_its_own_is_a_possible_double() -> None:
    summary = made("done-on-second-try.json")
    assert (step(summary, 1).judged.verdict, step(summary, 1).judged.effects) == ("done", "at_least_one")
    assert "possible_double_effect" in codes(summary)


def test_code_that_left_the_journal_is_never_plainly_running() -> None:
    summary = made("diverged-recorded.json", "diverged-describe.json")
    assert summary.status == "stuck"
    assert {"nondeterministic_replay", "stuck_task"} <= codes(summary)
    child = next(r for r in summary.steps if r.step.kind == "child")
    assert child.judged.verdict == "may_run_twice"


def test_what_a_rewind_took_away_may_happen_again() -> None:
    """An export before the rewind and one after it: the send is recorded only in the first."""
    names = [f"k-rewind.{when}.dump.sql" for when in ("before", "rewound")]
    made = read_files("dbos", {name: dbos_exports.bytes_of(name) for name in names})["refund-k"]
    send = step(made, 4)
    assert (send.step.name, send.judged.verdict, send.judged.effects) == (
        "send_refund",
        "may_run_twice",
        "at_least_one",
    )
    assert next(f for f in made.findings if f.code == "history_rewritten").entries == (4, 5)
