"""What an agent may know of its run without taking a step, and which run this code is part of."""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING

from drainboard import errors, waits
from drainboard.session import Session
from drainboard.steps import Branch

if TYPE_CHECKING:
    from drainboard.run import AsyncRun, Run

__all__ = ["CURRENT", "Facts", "current_run"]

CURRENT: contextvars.ContextVar[Run | AsyncRun] = contextvars.ContextVar("drainboard_run")


def current_run() -> Run | AsyncRun:
    """The run (in a branch: the branch's) that this code is part of. Raises `MisusedRun` outside an agent."""
    try:
        return CURRENT.get()
    except LookupError:
        raise errors.MisusedRun("there is no current run here; this code was not called by an agent") from None


class Facts:
    """What an agent may know of its run, and what both kinds of `run` share."""

    def __init__(self, branch: Branch) -> None:
        self._branch = branch

    @property
    def id(self) -> str:
        """The run id, as given at the start."""
        return self._session.run

    @property
    def agent(self) -> str:
        return self._session.agent

    @property
    def environment(self) -> str:
        return self._session.environment

    @property
    def build(self) -> str:
        """Label of the build that this worker runs."""
        return self._session.build

    @property
    def branch(self) -> str:
        """Path of the branch; empty for the main line."""
        return self._branch.path

    def key(self) -> str:
        """The idempotency key of the step that comes next, `<environment>/<agent>/<run>:<branch>:<step>`; the same on every replay."""
        return self._branch.next_key()

    def version(self, change: str, lowest: int, highest: int) -> int:
        """Which form of a change this run follows, recorded once per change id; takes no step number.

        A run that has later steps recorded gets `lowest`, any other `highest`, so that new code keeps the old path for old runs.
        """
        return waits.version(self._branch, change, lowest, highest)

    @property
    def _session(self) -> Session:
        return self._branch.session
