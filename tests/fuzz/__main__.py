"""`python -m tests.fuzz`: every adapter over damaged captures, and captures that end at every byte. Exit code 1 on any fault.

SEED    any text; the same text makes the same files (by default a new one, which is printed)
N       damaged captures of each adapter, 5,000 by default
SERVED  of each adapter, how many others go through the import, the pages and the JSON API, 20 by default
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType

from journals.adapters import ADAPTERS
from tests.conformance.captures import captures
from tests.conformance.reading import read
from tests.conformance.test_prefixes import SMALL, check
from tests.fuzz.cases import cases

BASE = Path(__file__).resolve().parents[2]
CHUNK = 250  # cases of one job
TOO_LONG = 60  # seconds for one case
SHOWN = 5  # faults of one kind that are printed


@dataclass
class Tally:
    """What came of the cases of one adapter. A fault is kept by its kind, with where it was."""

    adapter: str
    cases: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    faults: list[tuple[str, str]] = field(default_factory=list)  # kind, what and where
    seconds: float = 0.0

    def add(self, kind: str, text: str) -> None:
        self.kinds[kind] += 1
        self.faults.append((kind, text))

    def join(self, other: Tally) -> None:
        self.cases += other.cases
        self.kinds += other.kinds
        self.faults += other.faults
        self.seconds += other.seconds


class TooLong(Exception):
    """One case took longer than any may."""


def main() -> int:
    """0 when nothing was found."""
    seed = os.environ.get("SEED") or f"{random.SystemRandom().getrandbits(48):012x}"
    n = int(os.environ.get("N", "5000"))
    say(f"SEED={seed} N={n}: {n:,} damaged captures of each adapter, and one file of each that ends at every byte")
    tallies = {name: Tally(name) for name in ADAPTERS}
    with ProcessPoolExecutor(min(os.cpu_count() or 1, 4)) as pool:
        for tally in pool.map(work, jobs(seed, n)):
            tallies[tally.adapter].join(tally)
    say(
        f"{'adapter':12} {'cases':>7} {'raised':>7} {'too long':>9} {'bad counts':>11} {'calmer':>7} {'other':>6} {'s':>7}"
    )
    for tally in tallies.values():
        other = sum(tally.kinds.values()) - sum(tally.kinds[k] for k in ("raised", "too long", "counts", "calmer"))
        say(
            f"{tally.adapter:12} {tally.cases:7,} {tally.kinds['raised']:7} {tally.kinds['too long']:9} "
            f"{tally.kinds['counts']:11} {tally.kinds['calmer']:7} {other:6} {tally.seconds:7.1f}"
        )
    for tally in tallies.values():
        for kind in tally.kinds:
            of_kind = [text for other, text in tally.faults if other == kind]
            say(*(f"{kind}: {text}" for text in of_kind[:SHOWN]))
            say(*([f"  … and {len(of_kind) - SHOWN} more"] if len(of_kind) > SHOWN else []))
    bad = any(tally.faults for tally in tallies.values())
    return 1 if served(seed) != 0 or bad else 0


def served(seed: str) -> int:
    """The exit code of those that go through the real import and the pages, with a PostgreSQL of their own."""
    count = os.environ.get("SERVED", "20")
    if count == "0":
        return 0
    say(f"{count} of each adapter through the import, the pages and the JSON API: an answer 500 or a bad count fails")
    what = ["tests/conformance/test_imports.py", "-k", "damaged", "-q", "-s", "-p", "no:randomly"]
    line = [sys.executable, str(BASE / "tests" / "run.py"), *what]
    return subprocess.run(line, cwd=BASE, env={**os.environ, "SEED": seed, "SERVED": count}, check=False).returncode


def jobs(seed: str, n: int) -> Iterator[tuple[str, str, int, int]]:
    for first in range(0, n, CHUNK):
        for name in ADAPTERS:
            yield name, seed, first, min(CHUNK, n - first)
    for name in SMALL:
        yield name, "", 0, 0


def work(job: tuple[str, str, int, int]) -> Tally:
    """One job: a stretch of the cases of an adapter, or all lengths of its file."""
    adapter, seed, first, n = job
    made, started = Tally(adapter), time.perf_counter()
    signal.signal(signal.SIGALRM, _alarm)
    for name, faults in _damaged(adapter, seed, first, n) if n else _ends_early(adapter):
        made.cases += 1
        for fault in faults:
            made.add(kind_of(fault), f"{name}: {fault}")
    made.seconds = time.perf_counter() - started
    return made


def _damaged(adapter: str, seed: str, first: int, n: int) -> Iterator[tuple[str, list[str]]]:
    for case in cases(adapter, seed, n, first):
        yield f"{case.name} ({case.what})", guarded(case.faults)


def _ends_early(adapter: str) -> Iterator[tuple[str, list[str]]]:
    (capture,) = (c for c in captures() if (c.adapter, c.name) == (adapter, SMALL[adapter]))
    ((path, data),) = capture.files
    whole = read(adapter, capture.inputs())
    for cut in range(len(data.rstrip())):
        yield f"{capture}, first {cut} bytes", guarded(partial(check, adapter, path, data, cut, whole))


def guarded(check_one: Callable[[], list[str]]) -> list[str]:
    """The faults of one case; what it raises, or that it does not end, is one of them."""
    signal.alarm(TOO_LONG)
    try:
        return check_one()
    except TooLong:
        return [f"took more than {TOO_LONG} s, at {_where(sys.exc_info()[2])}"]
    except Exception as e:  # noqa: BLE001  (whatever it is, it is what we look for)
        return [f"raised {type(e).__name__}: {str(e)[:200]}, at {_where(e.__traceback__)}"]
    finally:
        signal.alarm(0)


def _alarm(*_: object) -> None:
    raise TooLong


def _where(trace: TracebackType | None) -> str:
    frames = traceback.extract_tb(trace)[-3:]
    return " < ".join(f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in reversed(frames))


def kind_of(fault: str) -> str:
    """The column in which a fault is counted."""
    if fault.startswith("raised "):
        return "raised"
    if fault.startswith("took more "):
        return "too long"
    if "counted" in fault:
        return "counts"
    if " became " in fault or "in the gap any more" in fault:
        return "calmer"
    return "other"


def say(*lines: str) -> None:
    for line in lines:
        print(line, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
