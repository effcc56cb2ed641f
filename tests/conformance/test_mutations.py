"""Damaged captures, by seed: nothing is raised, everything is counted, and what only lost something says nothing surer.

`make fuzz` does the same with many more of them.
"""

from __future__ import annotations

import re

import pytest

from journals.adapters import ADAPTERS
from tests.conformance.captures import captures, files_of
from tests.conformance.mutations import mutants
from tests.conformance.reading import read
from tests.fuzz.cases import cases

PER_ADAPTER = 60


@pytest.mark.parametrize("adapter", list(ADAPTERS))
def test_damage_is_borne(adapter: str) -> None:
    bad = {f"{case.name}: {case.what}": case.faults() for case in cases(adapter, "make test", PER_ADAPTER)}
    assert {name: faults for name, faults in bad.items() if faults} == {}


@pytest.mark.parametrize("adapter", list(ADAPTERS))
def test_the_same_seed_makes_the_same_files(adapter: str) -> None:
    capture = min((c for c in captures() if c.adapter == adapter and c.size), key=lambda c: c.size)
    assert list(mutants(capture.files, 1, 5)) == list(mutants(capture.files, 1, 5))
    assert list(mutants(capture.files, 1, 5)) != list(mutants(capture.files, 2, 5))


def test_a_fault_is_seen() -> None:
    """The suite itself: an adapter that miscounts is named."""
    capture = next(c for c in captures() if c.adapter == "aws")
    made = read("aws", files_of(capture.files))
    short = type(made)(made.adapter, made.files, made.items[1:])
    assert any("counted" in fault for fault in short.faults())


EDGES = (
    "9999-12-31T23:59:59-02:00", "0001-01-01T00:00:00+02:00", "2026-08-05T07:00:00+40:00", "2026-02-30T00:00:00Z", "2026-08-05T24:61:61Z",
)  # fmt: skip
TIME = re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[0-9.]*(?:Z|[+-]\d\d:?\d\d)?")


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("adapter", list(ADAPTERS))
def test_impossible_times_are_borne(adapter: str, edge: str) -> None:
    """Each time of a file is one that no calendar has, or that leaves the calendar when it is turned into UTC."""
    found = [c for c in captures() if c.adapter == adapter and c.size < 15_000 and TIME.search(c.files[0][1])]
    for capture in found[:: max(1, len(found) // 4)]:
        made = tuple((path, TIME.sub(edge.encode(), data)) for path, data in capture.files)
        assert read(adapter, files_of(made)).faults() == [], capture
