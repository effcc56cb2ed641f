"""docs/adapters.md says what the adapters say and do."""

from __future__ import annotations

from tests.conformance.table import PATH, document


def test_the_table_is_up_to_date() -> None:
    assert PATH.read_text("utf-8") == document(), "run `python -m tests.conformance.table`"
