"""Lines without step numbers: starts and answers are paired only where the pair is certain."""

from __future__ import annotations

import time
from typing import Any

from tests.runs.journal import codes, fold_import, imported, numbered


def verdicts(*lines: dict[str, Any]) -> list[tuple[int, str | None, str]]:
    return [(r.step.number, r.step.name, str(r.judged.verdict)) for r in fold_import(imported(numbered(*lines))).steps]


def start(name: str | None = "pay", call: str | None = None, **more: Any) -> dict[str, Any]:
    return {k: v for k, v in {"kind": "tool.started", "name": name, "call": call, **more}.items() if v is not None}


def answer(name: str | None = "pay", call: str | None = None, **more: Any) -> dict[str, Any]:
    return {**start(name, call, **more), "kind": "tool.result"}


def test_pairs_by_call_and_name() -> None:
    assert verdicts(start(call="a"), start(call="b"), answer(call="b")) == [
        (1, "pay", "may_run_twice"),
        (2, "pay", "done"),
    ]


def test_pairs_by_name_in_order_where_nothing_has_a_call() -> None:
    assert verdicts(start(), answer(), start(), answer()) == [(1, "pay", "done"), (2, "pay", "done")]


def test_an_answer_that_may_belong_to_two_starts_closes_neither() -> None:
    assert verdicts(start(), start(), answer()) == [(1, "pay", "unknown"), (2, "pay", "may_run_twice")]


def test_an_answer_without_the_call_of_its_start_stands_alone() -> None:
    assert [v for *_, v in verdicts(start(call="a"), answer())] == ["may_run_twice", "done"]


def test_an_answer_without_a_name_stands_alone() -> None:
    assert [v for *_, v in verdicts(start(), answer(name=None))] == ["may_run_twice", "done"]


def test_nothing_is_paired_by_name_when_entries_are_missing() -> None:
    lines = numbered(start("a", "c"), start(), answer())
    summary = fold_import(imported(lines[1:]))
    assert [str(r.judged.verdict) for r in summary.steps] == ["unknown", "may_run_twice", "done"]


def test_a_second_attempt_of_a_call_is_the_same_step() -> None:
    summary = fold_import(imported(numbered(start(call="a"), start(call="a", attempt=2), answer(call="a", attempt=2))))
    assert [(r.step.count, str(r.judged.verdict)) for r in summary.steps] == [(2, "done")]
    assert "possible_double_effect" in codes(summary)


def test_a_call_id_used_again_begins_a_step_of_its_own() -> None:
    assert [n for n, *_ in verdicts(start(call="a"), answer(call="a"), start(call="a"), answer(call="a"))] == [1, 2]


def test_an_unnumbered_answer_never_closes_a_numbered_start() -> None:
    assert sorted(v for *_, v in verdicts(start(step=1), answer())) == ["done", "may_run_twice"]


def test_numbers_that_the_journal_gave_stay() -> None:
    assert [n for n, *_ in verdicts(answer("a", "x", step=1), answer("b", "y"), answer("c", "z", step=3))] == [1, 2, 3]


def test_forty_thousand_steps_of_one_name_take_no_quadratic_time() -> None:
    lines = [line for _ in range(20_000) for line in (start(), answer())]
    entries = imported({"seq": n, **line} for n, line in enumerate(lines, 1))
    began = time.process_time()
    assert len(fold_import(entries).steps) == 20_000
    assert time.process_time() - began < 20


def test_nothing_is_paired_by_name_where_some_entries_of_the_name_have_a_call() -> None:
    assert [v for *_, v in verdicts(start(), start(call="b"), answer())] == ["may_run_twice", "may_run_twice", "done"]
