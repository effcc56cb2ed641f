"""How long a step took, when its start has no entry of its own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.runs.journal import fold_import, imported, step


def test_a_result_that_says_when_it_began_gives_its_duration() -> None:
    line = {
        "id": "1",
        "seq": 1,
        "kind": "tool.result",
        "name": "look",
        "step": 1,
        "at": "2026-09-01T08:00:02Z",
        "started_at": "2026-09-01T08:00:01Z",
    }
    row = step(fold_import(imported([line])), 1)
    assert row.last_at - row.first_at == timedelta(seconds=1)


def test_a_beginning_after_the_end_is_not_believed() -> None:
    line = {
        "id": "1",
        "seq": 1,
        "kind": "tool.result",
        "name": "look",
        "step": 1,
        "at": "2026-09-01T08:00:02Z",
        "started_at": "2026-09-01T09:00:00Z",
    }
    row = step(fold_import(imported([line])), 1)
    assert row.first_at == row.last_at == datetime(2026, 9, 1, 8, 0, 2, tzinfo=UTC)
