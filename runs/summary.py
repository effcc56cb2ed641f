"""One run's journal, folded: steps with verdicts, gaps, findings, status, versions, approvals, decisions. Pure.

`fold` takes the entries, what the source's records can prove, the head row's facts and `now`. It asks nobody else, so the
same journal gives the same summary, and a projection is nothing but its answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from journals.adapters.base import Evidence
from runs import acted, consent, damage, decisions, doubles, drift, health, versions
from runs.consent import happened_at
from runs.facts import HeadFacts, Seen, SourceFacts, moment, source_facts
from runs.findings import Finding, found, ordered
from runs.gaps import Gap, gaps, worst
from runs.states import ENDED, Confidence, RunStatus, Severity, StepStatus, Verdict
from runs.steps import ROLES, Journal, Step, group
from runs.verdicts import Ground, Judged, verdicts

__all__ = ["StepRow", "Summary", "fold"]

TERMINAL: Final = {f"run.{s}": s for s in ("completed", "failed", "stopped", "cancelled", "continued")}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """A step with its verdict."""

    step: Step
    judged: Judged
    status: StepStatus
    versions: Mapping[str, Any] | None
    first_at: datetime | None
    last_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    status: RunStatus
    runtime_status: str
    complete: bool
    in_flight: bool
    build: str
    pinned_to: str
    parked_on: str
    parked_since: datetime | None
    wake_at: datetime | None
    parent: str
    started_at: datetime | None
    ended_at: datetime | None
    last_at: datetime | None
    entries: int
    bytes: int
    steps: Sequence[StepRow]
    current: Step | None  # the step in the gap or waiting, else the last one
    gaps: Sequence[Gap]
    worst_gap: Gap | None
    findings: Sequence[Finding]
    approvals: Sequence[consent.Approval]
    decisions: Sequence[Mapping[str, Any]]
    versions: Mapping[str, Any]  # every value recorded, as show_run gives them
    version_set: Mapping[str, Any]  # the last value of each component; empty when none was recorded
    recheck_at: datetime | None  # when time alone may change this answer


def fold(entries: Iterable[Seen], *, evidence: Evidence, native: bool, now: datetime, head: HeadFacts) -> Summary:
    """The summary of one run. `entries` come by `pos`; `evidence` is that of the run's source."""
    # A runtime that records a step at its end numbers steps, not entries: its holes are steps under way.
    journal = group(entries, native=native, dense=evidence.write != "never", length=head.pos)
    facts = None if native else source_facts(journal.entries)
    status = _native_status(head) if native else _imported_status(journal, facts)
    ground = _ground(journal, facts, status, evidence=evidence, native=native, head=head, now=now)
    judged = verdicts(journal, ground)
    open_gaps = gaps(journal, judged, ground)
    parking = _parking(journal, judged, facts, head, native=native, in_flight=ground.in_flight)
    recorded = versions.record(journal.entries)
    approvals = consent.collect(journal, now=now)
    times = _times(journal, native=native, status=status)
    size = sum(s.size for s in journal.entries)
    observed = [
        *acted.findings(journal, approvals),
        *consent.findings(journal, approvals, in_flight=ground.in_flight, now=now),
        *doubles.findings(journal, judged, ground),
        *drift.findings(journal, recorded, head=head, in_flight=ground.in_flight, wake_at=parking.wake_at, now=now),
        *damage.findings(journal, ground, native=native),
        *health.findings(journal, ground, head=head, size_bytes=size, since=times.last, now=now),
        *_gap_findings(open_gaps, alive=ground.alive),
    ]
    return Summary(
        status=status,
        runtime_status=facts.runtime_status if facts else "",
        complete=_complete(journal, facts, head, status, native=native),
        in_flight=ground.in_flight,
        build=_build(journal, facts, head),
        pinned_to=_pinned(journal, facts, head, native=native),
        parked_on=parking.on,
        parked_since=parking.since,
        wake_at=parking.wake_at,
        parent=next((s.entry.parent for s in journal.entries if s.entry.parent), "") or _told(facts, "parent"),
        started_at=times.started,
        ended_at=times.ended,
        last_at=times.last,
        entries=len(journal.entries),
        bytes=size,
        steps=_rows(journal, judged),
        current=_current(journal, judged),
        gaps=open_gaps,
        worst_gap=worst(open_gaps),
        findings=ordered(observed),
        approvals=approvals,
        decisions=decisions.listed(journal.entries),
        versions=recorded.listed(),
        version_set=recorded.body(),
        recheck_at=_recheck(approvals, head, parking.wake_at, ground, now),
    )


# -- status ---------------------------------------------------------------------------------------------------------


def _imported_status(journal: Journal, facts: SourceFacts | None) -> RunStatus:
    """What the source says, else the end that is recorded. A file that is torn or says nothing leaves it unknown."""
    told = (facts.status if facts else None) or ""
    if told in RunStatus._value2member_map_:
        return RunStatus(told)
    if told or (facts is not None and facts.partial):
        return RunStatus.UNKNOWN
    end = _end(journal)
    return RunStatus(TERMINAL[end.entry.kind]) if end is not None else RunStatus.UNKNOWN


def _native_status(head: HeadFacts) -> RunStatus:
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


def _complete(journal: Journal, facts: SourceFacts | None, head: HeadFacts, status: RunStatus, *, native: bool) -> bool:
    if native:
        return head.ended != "" and not journal.holes
    if facts is not None and (facts.partial or facts.complete is not None or facts.status is not None):
        return facts.complete is True and not facts.partial and not journal.holes
    return status in ENDED and not journal.holes


def _ground(
    journal: Journal,
    facts: SourceFacts | None,
    status: RunStatus,
    *,
    evidence: Evidence,
    native: bool,
    head: HeadFacts,
    now: datetime,
) -> Ground:
    in_flight = status not in ENDED
    stuck = (facts.stuck if facts else None) or {}
    told = facts is not None and facts.status not in (None, "unknown") and not facts.partial and facts.says_what_is_open
    return Ground(
        evidence=evidence,
        native=native,
        in_flight=in_flight,
        ended=not in_flight,
        completed=status in (RunStatus.COMPLETED, RunStatus.CONTINUED),
        end_known=native or not in_flight or told,
        torn=facts.torn if facts else "",
        facts=facts,
        alive=native and head.lease_until is not None and head.lease_until > now,
        opened=native and not head.parked_on and bool(head.worker) and not head.ended,
        diverged=bool(health.diverged(journal.entries)) or health.says_diverged(stuck),
        recovered=not native and not evidence.attempts and (facts.recoveries if facts else 0) > 1,
    )


# -- columns --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Parking:
    on: str = ""
    since: datetime | None = None
    wake_at: datetime | None = None


def _parking(
    journal: Journal,
    judged: Sequence[Judged],
    facts: SourceFacts | None,
    head: HeadFacts,
    *,
    native: bool,
    in_flight: bool,
) -> _Parking:
    if not in_flight:
        return _Parking()
    if native:
        parked = next((s for s in reversed(journal.entries) if s.entry.kind == "run.parked"), None)
        return _Parking(
            head.parked_on,
            parked.recorded_at if parked and head.parked_on else None,
            head.wake_at if head.parked_on == "timer" else None,
        )
    if facts is not None and facts.waiting:
        first = facts.waiting[0]
        until = next((u for w in facts.waiting if (u := moment(w.until))), None)
        return _Parking(first.what, moment(first.since), until)
    for step, j in zip(reversed(journal.steps), reversed(judged), strict=True):
        if j.verdict == Verdict.WAITING and step.kind != "parallel":
            started = step.entries[-1]
            name = started.entry.approval or started.entry.call or started.entry.child or step.name or ""
            return _Parking(
                step.kind if step.kind == "timer" else f"{step.kind}:{name}",
                happened_at(started),
                moment(started.entry.until),
            )
    parked = journal.entries[-1] if journal.entries else None
    if parked is not None and parked.entry.kind == "run.parked":
        return _Parking(parked.entry.reason or "", happened_at(parked), moment(parked.entry.until))
    return _Parking()


@dataclass(frozen=True, slots=True)
class _Times:
    started: datetime | None
    ended: datetime | None
    last: datetime | None


def _times(journal: Journal, *, native: bool, status: RunStatus) -> _Times:
    """Native runs by the database's clock, imported ones by the sender's."""
    entries = journal.entries
    if not entries:
        return _Times(None, None, None)
    started = next((s for s in entries if s.entry.kind == "run.started"), entries[0])
    end = next((s for s in reversed(entries) if s.entry.kind in TERMINAL), None) if status in ENDED else None
    if native:
        return _Times(started.recorded_at, end.recorded_at if end else None, entries[-1].recorded_at)
    # Parallel steps end out of order, but not by more than this many entries.
    ends = [s for s in entries[-200:] if s.origin == "import" and s.entry.kind != "timer.fired"]
    known = [at for s in ends if (at := moment(s.entry.at))]
    return _Times(happened_at(started), happened_at(end) if end else None, max(known, default=entries[-1].recorded_at))


def _build(journal: Journal, facts: SourceFacts | None, head: HeadFacts) -> str:
    told = head.open_build or head.build or (facts.build if facts else "")
    if told:
        return told
    return (
        next(
            (s.entry.build for s in reversed(journal.entries) if s.entry.build and s.entry.kind.startswith("run.")), ""
        )
        or ""
    )


def _pinned(journal: Journal, facts: SourceFacts | None, head: HeadFacts, *, native: bool) -> str:
    """The build that the run is pinned to. A file's own `deploy.pinned` is a claim and pins nothing here."""
    if native:
        return head.pinned_build
    for seen in reversed(journal.entries):
        if seen.origin == "server" and seen.entry.kind in ("deploy.pinned", "deploy.unpinned", "deploy.continued"):
            return (seen.entry.build or "") if seen.entry.kind == "deploy.pinned" else ""
    return _told(facts, "pinned_to")


def _told(facts: SourceFacts | None, name: str) -> str:
    found_text = facts.out.get(name) if facts else None
    return found_text if isinstance(found_text, str) else ""


def _rows(journal: Journal, judged: Sequence[Judged]) -> list[StepRow]:
    return [
        StepRow(
            step=step,
            judged=j,
            status=_step_status(step, j),
            versions=next((s.entry.versions for s in reversed(step.entries) if s.entry.versions), None),
            first_at=happened_at(step.entries[0]) if step.entries else None,
            last_at=happened_at(step.entries[-1]) if step.entries else None,
        )
        for step, j in zip(journal.steps, judged, strict=True)
    ]


def _step_status(step: Step, judged: Judged) -> StepStatus:
    if step.missing or step.conflict:
        return StepStatus.UNKNOWN
    if step.resolution is not None and not step.attempts:
        return StepStatus.RESULT if judged.verdict == Verdict.DONE else StepStatus.UNKNOWN
    if step.results and not (step.kind == "approval" and step.open):
        return StepStatus.RESULT
    if step.open is not None:
        return StepStatus.STARTED
    return StepStatus.ERROR if step.errors else StepStatus.UNKNOWN


def _current(journal: Journal, judged: Sequence[Judged]) -> Step | None:
    """The newest step that is not done, else the last one."""
    for step, j in zip(reversed(journal.steps), reversed(judged), strict=True):
        if (
            j.verdict in (Verdict.MAY_RUN_TWICE, Verdict.WAITING, Verdict.NOT_STARTED, Verdict.UNKNOWN)
            and step.kind != "parallel"
        ):
            return step
    return journal.steps[-1] if journal.steps else None


def _gap_findings(open_gaps: Sequence[Gap], *, alive: bool) -> list[Finding]:
    """One `gap_open` for all steps that may run twice; a worker that is alive makes it a step in flight, not yet an alarm.

    That more may stand behind the end of an export is shown as a gap, and is no finding by itself.
    """
    serious = [
        g
        for g in open_gaps
        if (g.effect == "write" or g.confidence == Confidence.CERTAIN)
        and (g.verdict != Verdict.UNKNOWN or g.entries or g.kind)
    ]
    if not serious:
        return []
    names = ", ".join(
        f"{g.name or 'a step without a name'}{f' ({g.branch}:{g.step})' if g.branch else f' (step {g.step})' if g.step else ''}"
        for g in serious[:5]
    )
    sure = any(g.verdict == Verdict.MAY_RUN_TWICE and g.confidence == Confidence.CERTAIN and not g.key for g in serious)
    severity = Severity.INFO if alive else Severity.ERROR if sure else Severity.WARNING
    more = f" and {len(serious) - 5} more" if len(serious) > 5 else ""
    return [
        found(
            "gap_open",
            f"In the gap: {names}{more}. {serious[0].reason}",
            [n for g in serious for n in g.entries],
            severity=severity,
            steps=[
                {
                    "branch": g.branch,
                    "step": g.step,
                    "name": g.name,
                    "verdict": str(g.verdict),
                    "confidence": str(g.confidence),
                }
                for g in serious
            ],
        )
    ]


def _recheck(
    approvals: Sequence[consent.Approval], head: HeadFacts, wake_at: datetime | None, ground: Ground, now: datetime
) -> datetime | None:
    if not ground.in_flight:
        return None
    moments = [consent.next_check(approvals, now=now), head.lease_until, wake_at]
    if ground.native and not ground.alive and not head.parked_on:
        since = head.lease_until or head.created_at
        moments.append(since + health.STRANDED_AFTER if since else None)
    return min((m for m in moments if m is not None and m > now), default=None)
