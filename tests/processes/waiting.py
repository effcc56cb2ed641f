"""Waiting on a condition, with a deadline and a sentence for the case that it does not come true."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

LOOK_S = 0.02
T = TypeVar("T")


def until(condition: Callable[[], T | None], what: str | Callable[[], str], *, within_s: float = 60) -> T:
    """The condition's first true value. Fails the test with `what` when there is none in time."""
    deadline = time.monotonic() + within_s
    while True:
        if found := condition():
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not in {within_s} s: {what if isinstance(what, str) else what()}")
        time.sleep(LOOK_S)
