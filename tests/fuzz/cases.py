"""The cases of a fuzz run over one adapter, each by its number: the same seed and number give the same files again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from tests.conformance.captures import Capture, captures, files_of
from tests.conformance.mutations import Files, mutants
from tests.conformance.reading import Reading, calmer, read
from tests.conformance.test_less import EXCEPTIONS

__all__ = ["Case", "cases"]

LARGEST = 15_000  # bytes of a capture; larger ones hold the same again and take longer


@dataclass(frozen=True, slots=True)
class Case:
    """One damaged copy of a capture."""

    capture: Capture
    number: int
    files: Files
    what: str
    only_less: bool

    @property
    def name(self) -> str:
        return f"{self.capture} #{self.number}"

    def read(self) -> Reading:
        return read(self.capture.adapter, files_of(self.files))

    def faults(self) -> list[str]:
        """What does not hold of it. Raises what the adapter or the rules raise."""
        made = self.read()
        return [*made.faults(), *self.calmer(made)]

    def calmer(self, made: Reading) -> list[str]:
        """What became more certain although something was only taken away."""
        if not self.only_less or (self.capture.adapter, self.capture.name) in EXCEPTIONS:
            return []
        return calmer(whole(self.capture), made)


@cache
def whole(capture: Capture) -> Reading:
    return read(capture.adapter, capture.inputs())


@cache
def _chosen(adapter: str) -> tuple[Capture, ...]:
    return tuple(c for c in captures() if c.adapter == adapter and 0 < c.size <= LARGEST)


def cases(adapter: str, seed: object, n: int, first: int = 0) -> Iterator[Case]:
    """Cases `first` to `first + n - 1`, over all captures of the adapter in turn."""
    found = _chosen(adapter)
    for number in range(first, first + n):
        capture = found[number % len(found)]
        (one,) = mutants(capture.files, f"{seed}:{adapter}:{number}", 1)
        yield Case(capture, number, one.files, one.what, one.only_less)
