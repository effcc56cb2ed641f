"""Damaged captures, by seed: nothing is raised, everything is counted, and what only lost something says nothing surer.

`make fuzz` does the same with many more of them.
"""

from __future__ import annotations

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
