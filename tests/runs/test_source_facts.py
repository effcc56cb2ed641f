"""Of several things that a source said about a run, the newest counts, whenever it was imported."""

from __future__ import annotations

from typing import Any

import pytest

from journals.adapters.base import Evidence
from tests.runs.journal import codes, fold_import, imported, step


def note(status: str, as_of: Any) -> dict[str, Any]:
    out = {"status": status, "complete": status == "completed", "as_of": as_of}
    return {"id": f"state:{status}", "kind": "note", "name": "runtime.state", "out": out}


STARTED = {"id": "0", "seq": 1, "kind": "run.started", "at": "2026-09-01T08:00:00Z"}


@pytest.mark.parametrize(
    ("first", "then", "status"),
    [
        (note("parked", "2026-09-01T08:00:00Z"), note("completed", "2026-09-01T09:00:00Z"), "completed"),
        (note("completed", "2026-09-01T09:00:00Z"), note("parked", "2026-09-01T08:00:00Z"), "completed"),
        (note("completed", "2026-09-01T09:00:00Z"), note("parked", None), "parked"),
        (note("parked", None), note("completed", "2026-09-01T09:00:00Z"), "parked"),
        (note("completed", "2026-09-01T09:00:00Z"), note("running", "2026-09-01T09:00:00Z"), "running"),
        (note("completed", "2026-09-01T09:00:00Z"), note("running", "2026-09-01T10:00:00+00:00"), "running"),
    ],
)
def test_the_newest_word_of_a_source_counts(first: Any, then: Any, status: str) -> None:
    assert fold_import(imported([STARTED, first, then])).status == status


def exported(held: Any, as_of: str | None, **more: Any) -> dict[str, Any]:
    out = {"status": "running", "as_of": as_of, "pending": [], "waiting": [], "held": held, **more}
    return {"id": f"state:{as_of}:{held}", "kind": "note", "name": "runtime.state", "out": out}


def rows(seqs: Any, *, form: str = "tables", whole: Any = True) -> dict[str, Any]:
    return {"form": form, "whole": whole, "seqs": seqs}


PAID = [
    {"id": "1", "seq": 1, "step": 1, "kind": "tool.started", "name": "look", "effect": "read"},
    {"id": "2", "seq": 2, "step": 1, "kind": "tool.result", "name": "look", "effect": "read"},
    {"id": "3", "seq": 3, "step": 2, "kind": "tool.started", "name": "pay"},
    {"id": "4", "seq": 4, "step": 2, "kind": "tool.result", "name": "pay"},
]
EIGHT, NINE, TEN = "2026-09-01T08:00:00Z", "2026-09-01T09:00:00Z", "2026-09-01T10:00:00Z"


def test_what_a_later_whole_export_lacks_was_taken_away_and_may_happen_again() -> None:
    made = fold_import(imported([*PAID, exported(rows("1-4"), EIGHT), exported(rows("1-2"), NINE)]))
    (found,) = [f for f in made.findings if f.code == "history_rewritten"]
    assert (found.entries, found.detail["missing"]) == ((3, 4), [3, 4])
    look, pay = step(made, 1), step(made, 2)
    assert (look.judged.verdict, look.status) == ("done", "result")
    assert (pay.judged.verdict, pay.judged.confidence, pay.judged.effects, pay.status) == (
        "may_run_twice",
        "possible",
        "at_least_one",
        "unknown",
    )
    assert [(g.step, g.name) for g in made.gaps] == [(2, "pay")]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        (rows("1-4"), rows("1-4")),
        (rows("1-2"), rows("1-4")),
        (rows("1-4"), rows("1-2", whole=False)),
        (rows("1-4", whole=False), rows("1-2")),
        (rows("1-4"), rows("1-2", form="cli")),
        (rows("1-4"), rows("1-2,x")),
        (rows("1-4"), rows([1, 2])),
        (rows("1-4"), "1-2"),
        (rows("1-4"), None),
        ({"form": "ids", "whole": True, "ids": ["1", "2", "3", "4"]}, {"form": "ids", "whole": True, "ids": ["4", "3", "2", "1"]}),
    ],
)  # fmt: skip
def test_nothing_is_rewritten_where_exports_cannot_be_compared_or_lack_nothing(older: Any, newer: Any) -> None:
    made = fold_import(imported([*PAID, exported(older, EIGHT), exported(newer, NINE)]))
    assert "history_rewritten" not in codes(made)
    assert step(made, 2).judged.verdict == "done"


def test_an_older_export_imported_later_takes_nothing_away() -> None:
    made = fold_import(imported([*PAID, exported(rows("1-4"), NINE), exported(rows("1-2"), EIGHT)]))
    assert "history_rewritten" not in codes(made)
    assert step(made, 2).judged.verdict == "done"


def test_entry_ids_serve_where_a_source_has_no_lasting_numbers() -> None:
    older = {"form": "ids", "whole": True, "ids": ["1", "2", "3", "4"]}
    newer = {"form": "ids", "whole": True, "ids": ["1", "2", 7]}
    lines = [{k: v for k, v in line.items() if k != "seq"} for line in PAID]
    made = fold_import(imported([*lines, exported(older, EIGHT), exported(newer, NINE)]))
    assert next(f for f in made.findings if f.code == "history_rewritten").entries == (3, 4)
    assert step(made, 2).judged.verdict == "may_run_twice"


def test_a_record_that_a_still_later_export_has_again_is_named_and_its_step_is_done() -> None:
    notes = [exported(rows("1-4"), EIGHT), exported(rows("1-2"), NINE), exported(rows("1-4"), TEN)]
    made = fold_import(imported([*PAID, *notes]))
    assert next(f for f in made.findings if f.code == "history_rewritten").entries == (3, 4)
    assert step(made, 2).judged.verdict == "done"


def test_a_step_that_waits_again_after_a_rewind_waits() -> None:
    got = {"id": "5", "seq": 3, "step": 2, "kind": "signal.received", "name": "yes"}
    again = [{"branch": "", "step": 2, "what": "signal:yes", "until": None, "since": None}]
    made = fold_import(
        imported([*PAID[:2], got, exported(rows("1-3"), EIGHT), exported(rows("1-2"), NINE, waiting=again)])
    )
    assert (step(made, 2).judged.verdict, "history_rewritten" in codes(made)) == ("waiting", True)


NEVER = Evidence(write="never", read="never", attempts=False, says_end=False)


@pytest.mark.parametrize(
    ("until", "confidence", "gaps"),
    [("2026-09-01T12:00:01Z", "certain", []), ("2026-09-01T12:00:00Z", "possible", [2]), (None, "possible", [2])],
)
def test_what_follows_a_timer_that_is_over_by_now_is_not_known(until: Any, confidence: str, gaps: list[int]) -> None:
    timer = {"id": "1", "seq": 1, "step": 1, "kind": "timer.started", "name": "sleep", "until": until}
    waits = [{"branch": "", "step": 1, "what": "timer", "until": until, "since": None}]
    timer = {k: v for k, v in timer.items() if v is not None}
    made = fold_import(imported([timer, exported(rows("1"), EIGHT, status="parked", waiting=waits)]), evidence=NEVER)
    assert (step(made, 1).judged.verdict, step(made, 1).judged.confidence) == ("waiting", confidence)
    assert (made.status, [g.step for g in made.gaps]) == ("parked", gaps)
