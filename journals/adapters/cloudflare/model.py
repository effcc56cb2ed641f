"""A Cloudflare Workflows instance as one export shows it, in whatever form: the answer of the API, or the local engine's log."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from drainboard import wire

from journals.adapters.values import text

STATUSES: Final = {
    "queued": "running",
    "running": "running",
    "waiting": "parked",
    "paused": "held",
    "waitingForPause": "running",
    "rollingBack": "running",
    "complete": "completed",
    "errored": "failed",
    "terminated": "stopped",
    "unknown": "unknown",
}
"""Cloudflare's word to ours. Of npm cloudflare 7.3.0; `unknown` is the binding's."""

OVER: Final = frozenset(("complete", "errored", "terminated"))
MAIN: Final = ("step", "sleep", "waitForEvent")
"""Types of entries of `steps` that the instance's code asked for; they are numbered in the order in which they began."""

_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d(?:\.\d{1,9})?)(Z|[+-]\d\d:\d\d)?")


@dataclass(slots=True, kw_only=True)
class Attempt:
    """One execution of a step. `success` None: it has not ended, or its end was never recorded."""

    start: str | None = None
    end: str | None = None
    success: bool | None = None
    error: Any = None


@dataclass(slots=True, kw_only=True)
class Step:
    """One entry of `steps`. `done`: None while it goes on, then whether it succeeded (a sleep or wait: whether it is over)."""

    type: str  # step, rollback, sleep, waitForEvent
    name: str  # with its counter: send_refund-1
    record: str
    number: int = 0
    start: str | None = None
    end: str | None = None
    done: bool | None = None
    output: Any = wire.MISSING
    error: Any = None
    config: Any = None
    attempts: list[Attempt] = field(default_factory=list)
    event: str = ""  # of a waitForEvent in the cloud's form
    more: Mapping[str, Any] = field(default_factory=dict)  # members that have no meaning here
    oddities: tuple[str, ...] = ()

    @property
    def plain(self) -> str:
        """The name that the code gave, without the counter."""
        return re.sub(r"-\d+\Z", "", self.name) or self.name

    @property
    def branch(self) -> str:
        return "rollback" if self.type == "rollback" else ""

    @property
    def open(self) -> Attempt | None:
        """The attempt that has begun and has no end."""
        last = self.attempts[-1] if self.attempts else None
        return last if last is not None and last.success is None else None


@dataclass(slots=True, kw_only=True)
class Extra:
    """Something that only this form records; it becomes a note."""

    id: str
    name: str
    record: str
    at: str | None
    out: Any = None
    step: Step | None = None
    until: str | None = None


@dataclass(slots=True, kw_only=True)
class View:
    """One instance in one export."""

    form: str  # answer, log, item
    path: str
    record: str
    near: str = ""  # the object in which several forms of one moment stand side by side
    run: str = ""
    agent: str = ""
    status: str = ""
    cloud: bool = False  # the cloud's form: outputs are JSON text
    params: Any = wire.MISSING
    queued: str | None = None
    start: str | None = None
    end: str | None = None
    output: Any = wire.MISSING
    error: Any = None
    version: str | None = None
    about: dict[str, Any] = field(
        default_factory=dict
    )  # trigger, schedule, rollback, and members without a meaning here
    steps: list[Step] = field(default_factory=list)
    extras: list[Extra] = field(default_factory=list)
    events: dict[str, str] = field(default_factory=dict)  # step name -> type of the event that it waits for
    until: dict[str, str] = field(default_factory=dict)  # step name -> when its sleep, wait or back-off is over
    listed: bool = True  # it has a list of steps
    reach: int = 0  # how far in the file its records go
    bad_times: int = 0  # times that could not be read
    count: int | None = None  # how many steps the instance has, by its own word
    torn: str = ""  # why the end is missing
    lost: str = ""  # why something in the middle is missing
    rewound: str | None = None  # rows were deleted: the instance was restarted from a step, at this time
    changed: str | None = None  # a list's word for when the instance last changed
    oddities: tuple[str, ...] = ()

    @property
    def main(self) -> list[Step]:
        return [step for step in self.steps if step.type in MAIN]

    @property
    def whole(self) -> bool:
        """Whether every step of the instance, at that time, is here."""
        damaged = self.torn or self.lost or not self.listed
        return self.form != "item" and not damaged and (self.count or 0) <= len(self.main)

    def times(self) -> Iterator[str]:
        """Every time that is recorded as past."""
        found: list[str | None] = [self.queued, self.start, self.end, self.changed]
        found.extend(extra.at for extra in self.extras)
        for step in self.steps:
            found += [step.start, step.end]
            found.extend(t for attempt in step.attempts for t in (attempt.start, attempt.end))
        return (t for t in found if t is not None)


def instant(value: Any) -> str | None:
    """A time as RFC 3339 with the digits that it has; SQLite's `2026-11-29 12:38:59.151` is UTC. None for anything else."""
    found = _TIME.fullmatch(value) if isinstance(value, str) else None
    return f"{found[1]}T{found[2]}{found[3] or 'Z'}" if found else None


def bad_times(fields: Mapping[str, Any], names: tuple[str, ...]) -> int:
    """How many of these members are there and are no time."""
    return sum(fields.get(name) is not None and instant(fields[name]) is None for name in names)


def failure(given: Any) -> Any:
    """An error in the journal's shape: `{type, message}`; what has another shape is kept as it is."""
    if not isinstance(given, Mapping):
        return given
    made: dict[str, Any] = {}
    if name := text(given, "name"):
        made["type"] = name
    if message := text(given, "message"):
        made["message"] = message
    rest = {k: v for k, v in given.items() if k not in ("name", "message", "isUserError")}
    return {**made, **rest} if made or rest else given
