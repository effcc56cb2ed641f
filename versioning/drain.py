"""What still holds an old build, and why it is still there. Pure: facts and `now` in, words out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

Why = Literal[
    "held", "gap", "not_understood", "stranded", "step_in_flight", "running", "stopping", "timer", "approval", "signal",
    "child", "due", "foreign",
]  # fmt: skip

CANNOT_END: Final = frozenset(("held", "gap", "not_understood", "stranded"))
"""Reasons that do not pass by themselves: somebody has to do something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A run that is not over (or not known to be) and stands on a build that is to be drained."""

    key: str
    run: str
    build: str  # the build that it is on; empty: not known
    status: str
    native: bool
    complete: bool
    since: datetime  # when it started, else its last entry
    parked_on: str = ""
    parked_since: datetime | None = None
    wake_at: datetime | None = None
    lease_until: datetime | None = None
    worker: str = ""
    gap: str = ""  # worst verdict of a step in the gap
    step: str = ""  # the step that it is at, in words
    stranded: bool = False  # no live worker can take it
    pinned_to: str = ""
    approval: str = ""  # how the approval that it is parked on stands: requested, approved, rejected, …


@dataclass(frozen=True, slots=True)
class Straggler:
    """A holder with the reason why it is still here."""

    holder: Holder
    why: Why
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a drain is. A run that is not understood counts as left; not started ones do not, they take what opens them."""

    left: int
    oldest: datetime | None
    stranded: int  # of those left: no live worker can take them
    held: int  # of those left: a person has to act
    stragglers: tuple[Straggler, ...] = ()  # the oldest, not necessarily all
    commands: Sequence[
        tuple[str, str]
    ] = ()  # (build, the line that starts a worker of it) for the stranded ones among them

    @property
    def drained(self) -> bool:
        """Nothing unfinished or not understood is left."""
        return self.left == 0

    @property
    def cannot_drain(self) -> bool:
        """Something is left that does not pass by itself."""
        return self.stranded > 0 or self.held > 0


def reason(holder: Holder, *, now: datetime) -> Straggler:
    """Why this run still holds its build; what a person has to end comes before what passes by itself."""
    why, text = _reason(holder, now)
    return Straggler(holder, why, text)


def _reason(h: Holder, now: datetime) -> tuple[Why, str]:
    leased = h.lease_until is not None and h.lease_until > now
    if h.status == "held":
        return "held", "held: a person has to release, move or stop it"
    if h.parked_on.startswith("gap:"):
        return "gap", "parked on a step that may have happened: somebody has to resolve it"
    if h.status == "unknown":
        return "not_understood", "its journal does not say whether it is over, so it counts as holding"
    if h.status == "stuck":
        return "stranded", "its runtime fails at the same place again and again"
    if h.stranded and not leased:
        return "stranded", _stranded(h, now)
    if h.status == "stopping":
        return "stopping", "a stop was asked for; it takes effect between two steps"
    if leased:
        return _working(h)
    if not h.native:
        return "foreign", f"runs in its own runtime: {h.status}"
    return _waiting(h, now)


def _stranded(h: Holder, now: datetime) -> str:
    build = h.pinned_to or h.build or "unknown"
    facts = [f"pinned to build {h.pinned_to}"] if h.pinned_to else []
    if h.parked_on and not _woken(h, now):
        facts.append(_waiting(h, now)[1])
    elif h.parked_on:
        facts.append(f"{_woken_by(h)} and waits for a worker")
    facts.append(f"no worker of build {build} is live: start one, move it or stop it")
    return "; ".join(facts)


def _woken(h: Holder, now: datetime) -> bool:
    return (h.wake_at is not None and h.wake_at <= now) or h.approval not in ("", "requested")


def _woken_by(h: Holder) -> str:
    """What the run waited for has come."""
    if h.approval:
        return h.approval.replace("_", " ")
    what, _, name = h.parked_on.partition(":")
    return {"signal": f"signal {name} has come", "timer": "its timer is due"}.get(what, "what it waited for has come")


def _working(h: Holder) -> tuple[Why, str]:
    if h.gap == "may_run_twice":
        return "step_in_flight", f"{h.step or 'a step'} is in flight on worker {h.worker}"
    return "running", f"running on worker {h.worker}"


def _waiting(h: Holder, now: datetime) -> tuple[Why, str]:
    what, _, name = h.parked_on.partition(":")
    pinned = f"pinned to build {h.pinned_to}; " if h.pinned_to else ""
    if _woken(h, now):
        came = f"{_woken_by(h)}; " if h.parked_on else ""
        return "due", f"{pinned}{came}the next worker of build {h.pinned_to or h.build or 'unknown'} takes it"
    why, text = _parked(h, what, name)
    return why, f"{pinned}{text}"


def _parked(h: Holder, what: str, name: str) -> tuple[Why, str]:
    if what == "timer" or (what and h.wake_at is not None):
        return "timer", f"waits for its timer until {_stamp(h.wake_at)}"
    if what == "approval":
        return "approval", f"waits for an approval since {_stamp(h.parked_since)}"
    if what == "signal":
        return "signal", f"waits for signal {name} since {_stamp(h.parked_since)}"
    if what == "child":
        return "child", f"waits for child run {name}"
    return "due", "its lease has run out; the next worker of its build takes it"


def _stamp(at: datetime | None) -> str:
    return at.strftime("%Y-%m-%d %H:%M UTC") if at else "an unknown time"
