"""How much of a limit a run uses, and when it would reach it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from runs.facts import HeadFacts, Limit
from runs.limits import duration
from runs.summary import Summary
from tests.runs.good import DONE, model, result, started, state
from tests.runs.journal import START, codes, fold_import, fold_native, imported, native, numbered


def use(summary: Summary, what: str) -> dict[str, Any]:
    return next(u.as_json() for u in summary.limits if u.limit.what == what)


def of(*limits: Limit) -> HeadFacts:
    return HeadFacts(limits=limits)


def spaced(count: int, *, seconds: float, pause_after: int = 0, pause_s: float = 0) -> list[dict[str, Any]]:
    """Model answers that many seconds apart, with one longer pause."""
    made = []
    for n in range(1, count + 1):
        at = START + timedelta(seconds=seconds * n + (pause_s if pause_after and n > pause_after else 0))
        made.append({"seq": n, **model(n), "at": at.isoformat()})
    return made


def test_a_run_in_flight_is_told_when_it_would_reach_the_limit() -> None:
    made = fold_import(imported(spaced(121, seconds=30)), head=of(Limit(what="entries", limit=481)))
    found = use(made, "entries")
    assert (found["used"], found["near"], round(found["per_hour"])) == (121, False, 121)
    assert found["hours_left"] == pytest.approx((481 - 121) / 121, abs=0.01)
    assert found["basis"] == "121 entries in 1 h of activity; waits longer than 10 min are left out"


def test_a_wait_slows_no_pace_down() -> None:
    busy = use(fold_import(imported(spaced(121, seconds=30)), head=of(Limit(what="entries", limit=481))), "entries")
    waited = spaced(121, seconds=30, pause_after=60, pause_s=86_400)
    slept = use(fold_import(imported(waited), head=of(Limit(what="entries", limit=481))), "entries")
    assert slept["per_hour"] == pytest.approx(busy["per_hour"], rel=0.02)


@pytest.mark.parametrize("count", [3, 9])
def test_a_young_run_has_no_forecast(count: int) -> None:
    found = use(fold_import(imported(spaced(count, seconds=30)), head=of(Limit(what="entries", limit=100))), "entries")
    assert (found["hours_left"], found["basis"]) == (None, "the run is too young for a forecast")


def test_a_run_that_is_over_has_no_forecast_and_no_alarm() -> None:
    lines = [*spaced(20, seconds=30), {"seq": 21, **DONE}]
    made = fold_import(imported(lines), head=of(Limit(what="entries", limit=22)))
    assert (use(made, "entries")["used"], use(made, "entries")["hours_left"]) == (21, None)
    assert "near_limit" not in codes(made)


def test_what_an_import_says_of_the_run_is_no_part_of_its_journal() -> None:
    lines = [*numbered(started(1), result(1)), state(status="running", complete=False), state(status="running")]
    found = use(fold_import(imported(lines), head=of(Limit(what="entries", limit=100))), "entries")
    assert found["used"] == 2


def test_what_the_source_counts_itself_outranks_our_count() -> None:
    lines = [
        *numbered(started(1), result(1)),
        state(status="running", complete=False, used={"bytes": 81, "entries": -1}),
    ]
    made = fold_import(imported(lines), head=of(Limit(what="bytes", limit=100), Limit(what="entries", limit=100)))
    assert (use(made, "bytes")["used"], use(made, "entries")["used"]) == (81, 2)
    (found,) = [f for f in made.findings if f.code == "near_limit"]
    assert found.message.startswith("81 of 100 bytes are used (81%)")


def test_one_result_that_is_nearly_too_large_is_named() -> None:
    lines = numbered(started(1), result(1, out="x" * 900), started(2), result(2, out="y"))
    limits = of(Limit(what="result_bytes", limit=1_100), Limit(what="message_bytes", limit=1_000_000))
    made = fold_import(imported(lines), head=limits)
    (found,) = [f for f in made.findings if f.code == "near_limit"]
    assert (found.entries, found.detail["what"]) == ((2,), "result_bytes")
    assert (use(made, "result_bytes")["entry"], use(made, "message_bytes")["near"]) == (2, False)


def test_steps_and_operations_are_counted_and_words_of_a_runtime_are_shown_only() -> None:
    limits = of(Limit(what="operations", limit=2), Limit(what="steps", limit=3), Limit(what="signals", limit=10_000))
    made = fold_import(imported(numbered(started(1), result(1), started(2))), head=limits)
    assert (use(made, "operations")["used"], use(made, "steps")["used"], use(made, "signals")["used"]) == (2, 2, None)
    assert [f.detail["what"] for f in made.findings if f.code == "near_limit"] == ["operations"]


def test_a_native_run_counts_every_entry_by_our_clock() -> None:
    made = fold_native(native(*[model(n) for n in range(1, 101)]), limits=(Limit(what="entries", limit=110),))
    assert use(made, "entries")["used"] == 100
    assert use(made, "entries")["per_hour"] == pytest.approx(100 / (99 / 3600), abs=0.01)
    assert "near_limit" in codes(made)


@pytest.mark.parametrize(
    ("hours", "words"), [(0, "1 min"), (0.2, "12 min"), (3.2, "3 h"), (47.4, "47 h"), (119, "5 days"), (1e7, "416,667 days")]
)  # fmt: skip
def test_a_forecast_is_one_figure(hours: float, words: str) -> None:
    assert duration(hours) == words
