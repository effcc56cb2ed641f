"""Of several things that a source said about a run, the newest counts, whenever it was imported."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runs.journal import fold_import, imported


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
