"""How much of its runtime's documented limits a run uses, and when it would reach them at its present pace. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from runs.consent import happened_at
from runs.facts import STATE_NOTE, Limit, Seen, SourceFacts
from runs.findings import Finding, found
from runs.steps import Journal

__all__ = ["NEAR", "Pace", "Use", "findings", "uses"]

NEAR: Final = 0.8  # of a limit
IDLE: Final = timedelta(minutes=10)  # a longer time between two entries is waiting, no work
YOUNG_S: Final = 60.0  # of activity, below which a pace says nothing
YOUNG_ENTRIES: Final = 10
GROWING: Final = frozenset(("entries", "bytes", "steps", "operations"))
SINGLE: Final = frozenset(("result_bytes", "message_bytes"))


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a run fills its journal while it is active."""

    active_s: float
    entries: int

    @property
    def known(self) -> bool:
        return self.active_s >= YOUNG_S and self.entries >= YOUNG_ENTRIES


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One limit and what a run uses of it."""

    limit: Limit
    used: int | None  # None: nothing here measures it
    entry: int | None = None  # the entry that is so large, for the size of one value
    per_hour: float | None = None  # of active time
    hours: float | None = (
        None  # of active time until the limit is reached at this pace; None: not growing, or not known
    )
    basis: str = ""  # what the forecast rests on, or why there is none

    @property
    def share(self) -> float:
        return (self.used or 0) / self.limit.limit

    @property
    def near(self) -> bool:
        return self.used is not None and self.share >= NEAR

    def as_json(self) -> dict[str, Any]:
        limit = self.limit
        return {
            "what": limit.what, "unit": limit.unit or None, "limit": limit.limit, "warns_at": limit.warn, "source": limit.source or None,
            "as_of": limit.as_of or None, "used": self.used, "share": None if self.used is None else round(self.share, 4),
            "near": self.near, "entry": self.entry, "per_hour": None if self.per_hour is None else round(self.per_hour, 2),
            "hours_left": None if self.hours is None else round(self.hours, 2), "basis": self.basis or None,
        }  # fmt: skip


def uses(journal: Journal, limits: Sequence[Limit], facts: SourceFacts | None, *, in_flight: bool) -> list[Use]:
    """One per limit, in their order."""
    if not limits:
        return []
    entries = [s for s in journal.entries if not _about_the_run(s)]
    told = facts.out.get("used") if facts else None
    used = _used(journal, entries, told if isinstance(told, Mapping) else {})
    pace = _pace(entries) if in_flight else None
    return [_use(limit, used, pace) for limit in limits]


def findings(found_uses: Sequence[Use]) -> Iterator[Finding]:
    """`near_limit`, one per limit that is used to `NEAR` or more."""
    for use in found_uses:
        if use.near and use.used is not None:
            limit = use.limit
            what = (
                _one_value(use) if use.entry is not None else f"{use.used:,} of {limit.limit:,} {limit.what} are used"
            )
            yield found(
                "near_limit",
                f"{what} ({use.share:.0%})" + (f"; the limit is about {duration(use.hours)} of activity away." if use.hours is not None else "."),
                [use.entry] if use.entry is not None else (),
                what=limit.what,
                used=use.used,
                limit=limit.limit,
                source=limit.source,
                as_of=limit.as_of,
            )  # fmt: skip


def _one_value(use: Use) -> str:
    return f"Entry {use.entry} has {use.used:,} of at most {use.limit.limit:,} bytes"


def duration(hours: float) -> str:
    """`3 h`, `12 min`, `5 days`: one figure, as exact as a forecast deserves."""
    if hours < 1:
        return f"{max(round(hours * 60), 1)} min"
    if hours < 48:
        return f"{round(hours)} h"
    return f"{round(hours / 24):,} days"


def _about_the_run(seen: Seen) -> bool:
    """Entries that are no part of the source's journal: what an import says about the run, and decisions made here."""
    return (seen.entry.kind == "note" and seen.entry.name == STATE_NOTE) or (
        seen.origin == "server" and seen.import_id is None and seen.seq is None
    )


def _used(journal: Journal, entries: Sequence[Seen], told: Mapping[str, Any]) -> dict[str, tuple[int, int | None]]:
    """What is used, and the entry that uses it where it is one value. What the source counts itself outranks our count."""
    numbers = {s.seq for s in entries if s.seq is not None}
    steps = sum(1 for s in journal.steps if s.entries)
    largest = max(entries, key=lambda s: s.size, default=None)
    answers = [s for step in journal.steps for s in (*step.results, *step.errors)]
    answer = max(answers, key=lambda s: s.size, default=None)
    made: dict[str, tuple[int, int | None]] = {
        "entries": (len(numbers) + sum(1 for s in entries if s.seq is None), None),
        "bytes": (sum(s.size for s in entries), None),
        "steps": (steps, None),
        "operations": (steps, None),
        "result_bytes": (answer.size, answer.number) if answer else (0, None),
        "message_bytes": (largest.size, largest.number) if largest else (0, None),
    }
    for what, value in told.items():
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            made[what] = (value, None)
    return made


def _pace(entries: Sequence[Seen]) -> Pace:
    """The time that a run was active: between its entries, without stretches longer than `IDLE` and without steps back."""
    active = 0.0
    before: datetime | None = None
    for seen in entries:
        at = happened_at(seen)
        if at is None:
            continue
        if before is not None and timedelta(0) < at - before <= IDLE:
            active += (at - before).total_seconds()
        before = at
    return Pace(active, len(entries))


def _use(limit: Limit, used: Mapping[str, tuple[int, int | None]], pace: Pace | None) -> Use:
    if limit.what not in used:
        return Use(limit=limit, used=None, basis="nothing in the journal measures it")
    amount, entry = used[limit.what]
    if pace is None or limit.what not in GROWING:
        return Use(limit=limit, used=amount, entry=entry)
    if not pace.known:
        return Use(limit=limit, used=amount, basis="the run is too young for a forecast")
    per_hour = amount / (pace.active_s / 3600)
    return Use(
        limit=limit,
        used=amount,
        per_hour=per_hour,
        hours=max(limit.limit - amount, 0) / per_hour if per_hour else None,
        basis=f"{pace.entries:,} entries in {duration(pace.active_s / 3600)} of activity; waits longer than 10 min are left out",
    )
