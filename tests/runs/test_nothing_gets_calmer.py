"""Taking an entry or a field away never makes a verdict more certain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from drainboard import wire
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from journals.adapters.base import Evidence
from runs.states import CALM, ENDED, Confidence, Effects, Verdict
from runs.summary import Summary
from tests.runs.good import journals
from tests.runs.journal import LINES, fold_import, fold_native, imported, native

ON_CLOSE = Evidence(write="on_close", read="on_close", attempts=False, says_end=False)
NEVER = Evidence(write="never", read="never", attempts=False, says_end=False)
_CONFIDENCE = {Confidence.UNKNOWN: 0, Confidence.POSSIBLE: 1, Confidence.CERTAIN: 2}
_SURE = {Effects.NONE, Effects.ONE}


def by_entry(summary: Summary) -> dict[int, Any]:
    """Verdict by the position of each entry that belongs to a step."""
    return {s.pos: row.judged for row in summary.steps for s in row.step.entries}


def calmer(before: Summary, after: Summary, kept: dict[int, int]) -> list[str]:
    """What became more certain. `kept`: position after -> position before."""
    found = []
    old, new = by_entry(before), by_entry(after)
    for pos, judged in new.items():
        was = old.get(kept[pos])
        if was is None:
            continue
        if judged.verdict in CALM and was.verdict not in CALM:
            found.append(f"entry {kept[pos]}: {was.verdict} became {judged.verdict}")
        if judged.verdict == was.verdict and _CONFIDENCE[judged.confidence] > _CONFIDENCE[was.confidence]:
            found.append(f"entry {kept[pos]}: {judged.verdict} became {judged.confidence}")
        if judged.effects in _SURE and was.effects not in _SURE:
            found.append(f"entry {kept[pos]}: effects {was.effects} became {judged.effects}")
    if before.gaps and not after.gaps:
        found.append("the gap card became empty")
    if after.complete and not before.complete:
        found.append("became complete")
    if after.status in ENDED and before.status not in ENDED:
        found.append(f"status {before.status} became {after.status}")
    return found


def without_one_entry(lines: list[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]], list[int]]]:
    for i in range(len(lines)):
        yield f"entry {i + 1}", lines[:i] + lines[i + 1 :], [n for n in range(len(lines)) if n != i]


def without_one_field(lines: list[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]], list[int]]]:
    whole = list(range(len(lines)))
    for i, line in enumerate(lines):
        for name in line:
            if name != "kind":
                yield (
                    f"`{name}` of entry {i + 1}",
                    [*lines[:i], {k: v for k, v in line.items() if k != name}, *lines[i + 1 :]],
                    whole,
                )
        if isinstance(line.get("out"), dict):
            for name in line["out"]:
                out = {k: v for k, v in line["out"].items() if k != name}
                yield f"`out.{name}` of entry {i + 1}", [*lines[:i], {**line, "out": out}, *lines[i + 1 :]], whole


CASES = [(name, evidence) for name, _ in journals() for evidence in ("lines", "on_close", "never")]


@pytest.mark.parametrize(("name", "evidence"), CASES)
def test_of_an_imported_journal(name: str, evidence: str) -> None:
    lines = dict(journals())[name]
    of = {"lines": LINES, "on_close": ON_CLOSE, "never": NEVER}[evidence]
    before = fold_import(imported(lines), evidence=of)
    for what, less, indexes in [*without_one_entry(lines), *without_one_field(lines)]:
        after = fold_import(imported(less), evidence=of)
        kept = {n + 1: i + 1 for n, i in enumerate(indexes)}
        assert calmer(before, after, kept) == [], f"{name} without {what}"


@pytest.mark.parametrize("name", [n for n, _ in journals() if not n.startswith(("told", "without"))])
def test_of_our_own_journal(name: str) -> None:
    lines = [{k: v for k, v in line.items() if k not in ("seq", "at")} for line in dict(journals())[name]]
    ended = next(
        (
            line["kind"].partition(".")[2]
            for line in lines
            if line["kind"] in ("run.completed", "run.failed", "run.cancelled")
        ),
        "",
    )
    facts = {"ended": ended, "worker": "" if ended else "w1"}
    whole = native(*lines)
    before = fold_native(whole, **facts)
    for i in range(len(lines)):
        after = fold_native(whole[:i] + whole[i + 1 :], pos=len(whole), **facts)
        assert calmer(before, after, {e.pos: e.pos for e in whole}) == [], f"{name} without entry {i + 1}"


_KINDS = [
    "tool.started",
    "tool.result",
    "tool.error",
    "model.result",
    "model.started",
    "timer.started",
    "timer.fired",
    "child.started",
    "child.result",
]


def line() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"kind": st.sampled_from(_KINDS)},
        optional={
            "step": st.integers(1, 4),
            "name": st.sampled_from(["pay", "look"]),
            "call": st.sampled_from(["c1", "c2"]),
            "attempt": st.integers(1, 3),
            "key": st.sampled_from(["k1", "k2"]),
            "branch": st.sampled_from(["1.1", "1.2"]),
            "in": st.integers(0, 1),
            "error": st.fixed_dictionaries({"type": st.sampled_from(["Timeout", "Declined"])}),
        },
    )


@settings(max_examples=500, deadline=None)
@given(st.lists(line(), min_size=1, max_size=9), st.booleans(), st.data())
def test_of_any_journal_when_an_entry_goes(lines: list[dict[str, Any]], ends: bool, data: st.DataObject) -> None:
    lines = [*lines, {"kind": "run.completed"}] if ends else lines
    given_lines = [{"seq": n, **one} for n, one in enumerate(lines, 1)]
    gone = data.draw(st.integers(0, len(lines) - 1))
    less = given_lines[:gone] + given_lines[gone + 1 :]
    before, after = fold_import(imported(given_lines)), fold_import(imported(less))
    # Entries that contradict each other cast a doubt that goes with either of them.
    assume(not any(r.step.mixed or r.step.ambiguous for r in before.steps))
    kept = {n + 1: i + 1 for n, i in enumerate(i for i in range(len(lines)) if i != gone)}
    assert calmer(before, after, kept) == []


@settings(max_examples=200, deadline=None)
@given(st.lists(line(), min_size=0, max_size=9))
def test_any_journal_folds_and_its_open_writes_are_in_the_gap(lines: list[dict[str, Any]]) -> None:
    summary = fold_import(imported([{"seq": n, **one} for n, one in enumerate(lines, 1)]))
    shown = {(g.branch, g.step) for g in summary.gaps}
    for row in summary.steps:
        if row.judged.verdict == Verdict.MAY_RUN_TWICE:
            assert (row.step.branch, row.step.number) in shown
    for gap in summary.gaps:
        wire.encode(gap.as_json())
    for finding in summary.findings:
        wire.encode(finding.as_json())
