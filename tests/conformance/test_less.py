"""Exports with one record or one field taken away: nothing becomes more certain."""

from __future__ import annotations

import pytest

from tests.conformance.captures import Capture, captures, files_of
from tests.conformance.mutations import less_of_json
from tests.conformance.reading import calmer, read

EXCEPTIONS = {
    (
        "langgraph",
        "case-13.history.json",
    ): "which checkpoint is the newest is told by the checkpoint that is taken away",
}
"""Captures in which the doubt itself is told by one record alone."""

SMALL = 25_000  # bytes of a capture
AT_MOST = 6  # removals in one file


def chosen() -> list[Capture]:
    """Two thirds of the adapters have few captures: of those that have many, some."""
    made: list[Capture] = []
    for adapter in dict.fromkeys(c.adapter for c in captures()):
        found = [
            c for c in captures() if c.adapter == adapter and c.size < SMALL and (adapter, c.name) not in EXCEPTIONS
        ]
        made += found[:: max(1, len(found) // 8)]
    return made


@pytest.mark.parametrize("capture", chosen(), ids=str)
def test_without_a_record_or_a_field(capture: Capture) -> None:
    before = read(capture.adapter, capture.inputs())
    for at, (path, data) in enumerate(capture.files):
        for what, rest in less_of_json(data, AT_MOST):
            after = read(capture.adapter, files_of((*capture.files[:at], (path, rest), *capture.files[at + 1 :])))
            assert after.faults() == [], f"{path} without {what}"
            assert calmer(before, after) == [], f"{path} without {what}"


FOUND = [
    # adapter, capture, the field without which a failure was no failure, a wait was certain, or a run was over
    ("restate", "e_retries_exhausted_failed.json", "raw"),
    ("restate", "mismatch/sys_invocation.json", "journal_size"),
    ("dbos", "captures/e-failed.done.tables.json", "error"),
    ("dbos", "captures/c-approval.parked.tables.json", "output"),
    ("dbos", "captures/f-version.drained*", "record 0"),
    ("dbos", "case-09*", "workflow_uuid"),
    ("aws", "e_retries.json", "ErrorType"),
    ("durabletask", "case-07/instance-with-output.json", "EventType"),
    ("otel", "pa_c_approval.jsonl", "record 3"),
]


@pytest.mark.parametrize(("adapter", "name", "field"), FOUND)
def test_a_field_that_tells_of_trouble_is_missed(adapter: str, name: str, field: str) -> None:
    (capture,) = (c for c in captures() if (c.adapter, c.name) == (adapter, name))
    before, tried = read(adapter, capture.inputs()), 0
    for at, (path, data) in enumerate(capture.files):
        for what, rest in less_of_json(data):
            if what == field:
                tried += 1
                after = read(adapter, files_of((*capture.files[:at], (path, rest), *capture.files[at + 1 :])))
                assert after.faults() == []
                assert calmer(before, after) == []
    assert tried
