"""Findings over entries as different runtimes leave them: without positions, without step numbers, in parallel branches, copied."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from journals.adapters.base import Evidence
from runs.summary import Summary
from tests.runs.good import DONE, failed, model, result, started, state
from tests.runs.journal import codes, fold_import, imported, numbered, step

BEFORE = Evidence(write="before_effect", read="before_effect", attempts=True, says_end=False)
ON_CLOSE = Evidence(write="on_close", read="on_close", attempts=False, says_end=False)
NEVER = Evidence(write="never", read="never", attempts=False, says_end=False)
CLASSES = pytest.mark.parametrize("evidence", [BEFORE, ON_CLOSE, NEVER], ids=["before_effect", "on_close", "never"])


def at(second: int, line: Mapping[str, Any]) -> dict[str, Any]:
    return {**line, "at": f"2026-09-01T08:00:{second:02d}Z"}


def spans(*lines: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Records without positions, named by ids of their own."""
    return [{"id": f"span-{n}", **{k: v for k, v in line.items() if k != "seq"}} for n, line in enumerate(lines, 1)]


def file(*lines: Mapping[str, Any], evidence: Evidence, **more: Any) -> Summary:
    return fold_import(imported(numbered(*lines)), evidence=evidence, **more)


def loose(*lines: Mapping[str, Any], evidence: Evidence) -> Summary:
    return fold_import(imported(spans(*lines)), evidence=evidence)


def told(**out: Any) -> dict[str, Any]:
    return {**state(status="running", complete=False, **out)}


def branch(name: str, line: Mapping[str, Any]) -> dict[str, Any]:
    return {**line, "branch": name}


ORDERED = {"clock": "in_order"}
CASES: list[tuple[str, str, Callable[[Evidence], Summary], dict[str, bool]]] = [
    # name, code, journal, whether it is found by class of evidence
    ("spans in the order in which they came", "clock_step_back",
     lambda e: loose(at(9, model(2)), at(2, model(1)), evidence=e), {"before_effect": False, "on_close": False, "never": False}),
    ("spans that say that they are in order", "clock_step_back",
     lambda e: loose(at(9, model(2)), at(2, model(1)), told(**ORDERED), evidence=e), {"before_effect": False, "on_close": False, "never": False}),
    ("a chain by parents", "clock_step_back",
     lambda e: file(at(9, result(1)), at(5, result(2)), told(**ORDERED), evidence=e), {"before_effect": True, "on_close": True, "never": True}),
    ("one time for a whole batch", "clock_step_back",
     lambda e: file(at(9, started(1)), at(9, result(1)), at(9, started(2)), evidence=e), {"before_effect": False, "on_close": False, "never": False}),
    ("a prefix copied with its times, marked at the lines", "clock_step_back",
     lambda e: file(at(20, {"kind": "run.started", "name": "r"}), {**at(2, started(1)), "copied_from": "r0"}, {**at(3, result(1)), "copied_from": "r0"}, at(21, started(2)), evidence=e),
     {"before_effect": False, "on_close": False, "never": False}),
    ("a prefix copied with its times, told of the run", "clock_step_back",
     lambda e: file(at(20, {"kind": "run.started", "name": "r"}), at(2, started(1)), at(3, result(1)), at(21, started(2)), told(copied={"from": "r0", "steps": [1]}), evidence=e),
     {"before_effect": False, "on_close": False, "never": False}),
    ("time goes back behind a copied prefix", "clock_step_back",
     lambda e: file(at(20, {"kind": "run.started", "name": "r"}), at(2, started(1)), at(30, started(2)), at(21, started(3)), told(copied={"from": "r0", "steps": [1]}), evidence=e),
     {"before_effect": True, "on_close": False, "never": False}),
    ("branches side by side", "clock_step_back",
     lambda e: file(at(9, branch("1.1", started(1))), at(2, branch("1.2", started(1))), evidence=e), {"before_effect": False, "on_close": False, "never": False}),
    ("attempts without positions that came in another order", "attempt_overlap",
     lambda e: loose(at(5, started(1, attempt=2)), at(1, started(1)), at(4, result(1)), evidence=e), {"before_effect": False, "on_close": False, "never": False}),
    ("attempts without positions of which one answered late", "attempt_overlap",
     lambda e: loose(at(1, started(1)), at(8, failed(1, "Timeout")), at(5, started(1, attempt=2)), at(9, result(1, attempt=2)), evidence=e),
     {"before_effect": True, "on_close": True, "never": True}),
    ("one call id in two branches", "duplicate_call_id",
     lambda e: file(branch("1.1", started(1, call="c")), branch("1.2", started(1, call="c")), evidence=e), {"before_effect": True, "on_close": True, "never": True}),
    ("records without positions lack none", "missing_entry",
     lambda e: loose(started(1), result(1), evidence=e), {"before_effect": False, "on_close": False, "never": False}),
    ("two parallel calls whose input is not recorded", "possible_double_effect",
     lambda e: file(branch("1.1", {k: v for k, v in started(1).items() if k != "in"}), branch("1.2", {k: v for k, v in started(1).items() if k != "in"}), evidence=e),
     {"before_effect": False, "on_close": False, "never": False}),
    ("a later call of the branch whose input is not recorded", "possible_double_effect",
     lambda e: file({k: v for k, v in failed(1, "Timeout").items() if k != "in"}, {k: v for k, v in started(2).items() if k != "in"}, evidence=e),
     {"before_effect": True, "on_close": True, "never": True}),
]  # fmt: skip


@CLASSES
@pytest.mark.parametrize(("name", "code", "made", "wanted"), CASES, ids=[f"{c[1]}: {c[0]}" for c in CASES])
def test_found_where_it_is_and_nowhere_else(
    name: str, code: str, made: Callable[[Evidence], Summary], wanted: dict[str, bool], evidence: Evidence
) -> None:
    assert (code in codes(made(evidence))) == wanted[evidence.write], name


@CLASSES
def test_open_starts_of_parallel_branches_are_each_in_the_gap(evidence: Evidence) -> None:
    lines = [
        {"kind": "parallel.started", "step": 1, "name": "all"},
        branch("1.1", started(1)),
        branch("1.2", started(1)),
    ]
    made = file(*lines, told(pending=[], waiting=[]), evidence=evidence)
    assert {(g.branch, g.step) for g in made.gaps} >= {("1.1", 1), ("1.2", 1)}
    assert {g.verdict for g in made.gaps if g.branch} == {"may_run_twice"}


@CLASSES
def test_a_step_without_a_number_is_in_the_gap_as_any_other(evidence: Evidence) -> None:
    lines = [
        {k: v for k, v in line.items() if k != "step"}
        for line in (started(1, call="c1"), result(1, call="c1"), started(2, call="c2"))
    ]
    made = file(*lines, told(pending=[], waiting=[]), evidence=evidence)
    assert [str(r.judged.verdict) for r in made.steps] == ["done", "may_run_twice"]
    assert "gap_open" in codes(made)


@CLASSES
def test_an_approval_that_only_the_source_tells_of_parks_the_run(evidence: Evidence) -> None:
    waits = [{"branch": "", "step": 2, "what": "approval:pay", "until": None, "since": "2026-09-01T08:00:02Z"}]
    made = fold_import(
        imported(numbered(result(1), state(status="parked", complete=False, pending=[], waiting=waits))),
        evidence=evidence,
    )
    assert (made.status, made.parked_on) == ("parked", "approval:pay")
    assert not [g for g in made.gaps if g.step == 2]


@CLASSES
def test_nothing_without_a_position_is_proven_to_have_happened_once(evidence: Evidence) -> None:
    made = loose(started(1), result(1), DONE, evidence=evidence)
    assert step(made, 1).judged.effects == "at_least_one"


def test_numbers_of_odd_values_are_named_once() -> None:
    closed = {"opaque": "pickle", "bytes": 3, "sha256": "aa"}
    lines = [{**model(1), "seq": 1, "id": "a", "out": closed}, {**result(2), "seq": 1, "id": "b", "out": closed}]
    (found,) = [f for f in fold_import(imported(lines)).findings if f.code == "opaque_payload"]
    assert found.message.startswith("Entry 1: ")


@CLASSES
def test_a_number_at_which_a_version_is_marked_is_no_hole(evidence: Evidence) -> None:
    marker = {"kind": "version.marker", "step": 2, "name": "new-prompt"}
    made = file(result(1), marker, result(3), DONE, evidence=evidence)
    assert [r.step.number for r in made.steps] == [1, 3]
    assert made.gaps == []
