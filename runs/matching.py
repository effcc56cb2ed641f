"""Which start an answer without a step number belongs to. Pure.

Only certain pairs are made: the same kind, name and `call`; or, where no entry of that kind and name has a `call` and nothing
is missing, the same name in order. An answer that fits nothing stands alone, and its start stays open: better one alarm too
many than a start that somebody else's answer closed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from runs.facts import Seen

if TYPE_CHECKING:
    from runs.steps import Step

__all__ = ["Matching"]

Identity = tuple[str, str, str | None, str | None]  # branch, kind, call, name


class Matching:
    """The steps without numbers of one run, as they appear."""

    def __init__(self, entries: Sequence[Seen], *, damaged: bool) -> None:
        self._damaged = damaged
        self._with_call = {
            (s.entry.kind.partition(".")[0], s.entry.name)
            for s in entries
            if s.entry.call is not None and s.entry.step is None
        }
        self._open: dict[Identity, deque[Step]] = {}
        self._newest: dict[Identity, Step] = {}
        self._doubtful: dict[Identity, list[Step]] = {}

    def add(self, seen: Seen, kind: str, role: str, step: Step) -> None:
        """A step that this entry begins."""
        identity = _identity(seen, kind)
        self._newest[identity] = step
        if role == "start":
            self._open.setdefault(identity, deque()).append(step)

    def find(self, seen: Seen, kind: str, role: str) -> Step | None:
        """The step that this entry certainly goes on with; None when it begins one of its own."""
        identity = _identity(seen, kind)
        if kind in ("value", "parallel") or (identity[2] is None and not self._by_name(kind, seen.entry.name)):
            return None
        newest = self._newest.get(identity)
        if seen.entry.attempt > 1 and newest is not None and newest.tries < seen.entry.attempt:
            return newest
        return self._answered(identity) if role != "start" else None

    def settle(self) -> None:
        """Marks the steps whose answers may belong to another start of the same name that is still open."""
        for identity, answered in self._doubtful.items():
            if any(step.open is not None for step in self._open[identity]):
                for step in answered:
                    step.ambiguous = True

    def _by_name(self, kind: str, name: str | None) -> bool:
        return name is not None and not self._damaged and (kind, name) not in self._with_call

    def _answered(self, identity: Identity) -> Step | None:
        waiting = self._open.get(identity)
        while waiting and waiting[0].open is None:
            waiting.popleft()
        if not waiting:
            return None
        if len(waiting) > 1 and identity[2] is None:
            self._doubtful.setdefault(identity, []).append(waiting[0])
        return waiting[0]


def _identity(seen: Seen, kind: str) -> Identity:
    entry = seen.entry
    call = entry.call if entry.call is not None or kind != "child" else entry.child
    return entry.branch, kind, call, entry.name
