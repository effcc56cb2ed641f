"""What a recorded failure says: its words, and whether the other side may have acted all the same. Pure."""

from __future__ import annotations

from typing import Any, Final

from drainboard.wire import MISSING

__all__ = ["failure_words", "unanswered_error"]

_NO_ANSWER: Final = (
    "timeout", "timed out", "timed_out", "cancel", "interrupt", "connection", "disconnect", "lost", "reset by peer", "unavailable",
    "terminated", "killed", "heartbeat", "abort", "broken pipe", "deadline",
)  # fmt: skip
"""Words of failures in which the other side gave no answer, so that the effect may have happened."""


def unanswered_error(failure: Any) -> bool:
    """Whether a recorded failure leaves open that the other side acted: a timeout, a cancel, a lost connection, or nothing
    that says what kind of failure it was."""
    if isinstance(failure, dict) and ("opaque" in failure or "$payload" in failure or not failure.get("type")):
        return True
    text = failure if isinstance(failure, str) else failure_words(failure)
    return not text.strip() or any(word in text.lower() for word in _NO_ANSWER)


def failure_words(failure: Any) -> str:
    """`type: message` of a recorded failure, or its text; empty for anything else."""
    if failure is MISSING or not isinstance(failure, dict):
        return failure if isinstance(failure, str) else ""
    parts = [failure.get("type"), failure.get("message")]
    return ": ".join(str(p) for p in parts if p)
