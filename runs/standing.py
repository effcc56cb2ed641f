"""Where a run stands: its status, what it waits for, its times, its build. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from runs import spans
from runs.consent import happened_at
from runs.facts import HeadFacts, Seen, SourceFacts, moment
from runs.states import ENDED, RunStatus, Verdict
from runs.steps import ROLES, Journal
from runs.verdicts import Judged

__all__ = ["Parking", "Times", "build_of", "imported_status", "native_status", "parking", "pinned_to", "times", "told"]

TERMINAL: Final = {f"run.{s}": s for s in ("completed", "failed", "stopped", "cancelled", "continued")}


def imported_status(journal: Journal, facts: SourceFacts | None) -> RunStatus:
    """What the source says, else the end that is recorded. A file that is torn or says nothing leaves it unknown."""
    word = (facts.status if facts else None) or ""
    if word in RunStatus._value2member_map_:
        return RunStatus(word)
    if word or (facts is not None and facts.partial):
        return RunStatus.UNKNOWN
    end = _end(journal)
    if end is None:
        return RunStatus.UNKNOWN
    kind = spans.settled(journal.entries, end).entry.kind
    if kind != "run.parked" and end.entry.extra.get("encloses") is True and spans.absent(journal.entries):
        return RunStatus.UNKNOWN  # a record that has not come may say that the run is parked
    return RunStatus.PARKED if kind == "run.parked" else RunStatus(TERMINAL[kind])


def native_status(head: HeadFacts) -> RunStatus:
    """The head row's word: the server changes it together with the entry."""
    if head.ended:
        return RunStatus(head.ended)
    if head.stop_name:
        return RunStatus.STOPPING
    if head.hold_reason:
        return RunStatus.HELD
    return RunStatus.PARKED if head.parked_on else RunStatus.RUNNING


def _end(journal: Journal) -> Seen | None:
    """The entry that ends the run, unless work was recorded behind it."""
    for seen in reversed(journal.entries):
        kind = seen.entry.kind
        if kind in TERMINAL:
            return seen
        if kind == "run.resumed" or ROLES.get(kind, ("", ""))[1] in ("start", "result", "error"):
            return None
    return None


@dataclass(frozen=True, slots=True)
class Parking:
    """What a run waits for, as `runs.models.Run.parked_on` says it."""

    on: str = ""
    since: datetime | None = None
    wake_at: datetime | None = None


def parking(
    journal: Journal,
    judged: Sequence[Judged],
    facts: SourceFacts | None,
    head: HeadFacts,
    *,
    native: bool,
    in_flight: bool,
    now: datetime,
) -> Parking:
    """What the run waits for, since when, and when it is due or came; empty when it does not wait or nothing says so."""
    if not in_flight:
        return Parking()
    if native:
        parked = next((s for s in reversed(journal.entries) if s.entry.kind == "run.parked"), None)
        return Parking(
            head.parked_on,
            parked.recorded_at if parked and head.parked_on else None,
            head.wake_at if head.parked_on and _is_due_or_timed(head, now) else None,
        )
    if facts is not None and facts.waiting:
        first = facts.waiting[0]
        until = next((u for w in facts.waiting if (u := moment(w.until))), None)
        return Parking(first.what, moment(first.since), until)
    for step, j in zip(reversed(journal.steps), reversed(judged), strict=True):
        if j.verdict == Verdict.WAITING and step.kind != "parallel" and step.entries:
            started = step.entries[-1]
            name = started.entry.approval or started.entry.call or started.entry.child or step.name or ""
            return Parking(
                step.kind if step.kind == "timer" else f"{step.kind}:{name}",
                happened_at(started),
                moment(started.entry.until),
            )
    parked = journal.entries[-1] if journal.entries else None
    if parked is not None and parked.entry.kind == "run.parked":
        return Parking(parked.entry.reason or "", happened_at(parked), moment(parked.entry.until))
    return Parking()


def _is_due_or_timed(head: HeadFacts, now: datetime) -> bool:
    """A decision or a message that came makes a run due at once; before that only a timer has a time of its own."""
    return head.parked_on == "timer" or (head.wake_at is not None and head.wake_at <= now)


@dataclass(frozen=True, slots=True)
class Times:
    """When the run began, ended, and had its last entry."""

    started: datetime | None
    ended: datetime | None
    last: datetime | None


def times(journal: Journal, *, native: bool, status: RunStatus) -> Times:
    """Native runs by the database's clock, imported ones by the sender's."""
    entries = journal.entries
    if not entries:
        return Times(None, None, None)
    started = next((s for s in entries if s.entry.kind == "run.started"), entries[0])
    end = next((s for s in reversed(entries) if s.entry.kind in TERMINAL), None) if status in ENDED else None
    if native:
        return Times(started.recorded_at, end.recorded_at if end else None, entries[-1].recorded_at)
    # Parallel steps end out of order, but not by more than this many entries.
    ends = [s for s in entries[-200:] if s.origin == "import" and s.entry.kind != "timer.fired"]
    known = [at for s in ends if (at := moment(s.entry.at))]
    return Times(happened_at(started), happened_at(end) if end else None, max(known, default=entries[-1].recorded_at))


def build_of(journal: Journal, facts: SourceFacts | None, head: HeadFacts) -> str:
    """The build that has the run or had it last; empty when nothing says it."""
    known = head.open_build or head.build or (facts.build if facts else "")
    builds = (s.entry.build for s in reversed(journal.entries) if s.entry.build and s.entry.kind.startswith("run."))
    return known or next(builds, None) or ""


def pinned_to(journal: Journal, facts: SourceFacts | None, head: HeadFacts, *, native: bool) -> str:
    """The build that the run is pinned to. A file's own `deploy.pinned` is a claim and pins nothing here."""
    if native:
        return head.pinned_build
    for seen in reversed(journal.entries):
        if seen.origin == "server" and seen.entry.kind in ("deploy.pinned", "deploy.unpinned", "deploy.continued"):
            return (seen.entry.build or "") if seen.entry.kind == "deploy.pinned" else ""
    return told(facts, "pinned_to")


def told(facts: SourceFacts | None, name: str) -> str:
    found_text = facts.out.get(name) if facts else None
    return found_text if isinstance(found_text, str) else ""
