"""What the run pages read. No request, no writes, no clock of its own."""

from __future__ import annotations


def environments() -> list[str]:
    """Names of the environments that have runs, in order."""
    return []
