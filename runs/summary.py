"""One run's journal, folded: steps with verdicts, gaps, findings, status, versions, approvals, decisions. Pure.

`fold` takes the entries, what the source's records can prove, the head row's facts and `now`. It asks nobody else, so the
same journal gives the same summary, and a projection is nothing but its answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from journals.adapters.base import Evidence
from runs import acted, consent, damage, decisions, doubles, drift, elsewhere, health, limits, spans, standing, versions
from runs.consent import began_at, happened_at
from runs.facts import HeadFacts, Seen, SourceFacts, as_of_now, is_state_note, source_facts
from runs.findings import Finding, found, ordered
from runs.gaps import Gap, gaps, worst
from runs.states import ENDED, Confidence, RunStatus, Severity, StepStatus, Verdict
from runs.steps import Journal, Step, group
from runs.verdicts import Ground, Judged, verdicts

__all__ = ["StepRow", "Summary", "fold"]


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
    limits: Sequence[limits.Use]
    approvals: Sequence[consent.Approval]
    decisions: Sequence[Mapping[str, Any]]
    versions: Mapping[str, Any]  # every value recorded, as show_run gives them
    version_set: Mapping[str, Any]  # the last value of each component; empty when none was recorded
    recheck_at: datetime | None  # when time alone may change this answer
    results_exported: bool = True  # whether the form of the export holds results at all


def fold(entries: Iterable[Seen], *, evidence: Evidence, native: bool, now: datetime, head: HeadFacts) -> Summary:
    """The summary of one run. `entries` come by `pos`; `evidence` is that of the run's source."""
    # A runtime that records a step at its end numbers steps, not entries: its holes are steps under way.
    journal = group(entries, native=native, dense=evidence.write != "never", length=head.pos)
    facts = None if native else as_of_now(source_facts(journal.entries), now)
    status = standing.native_status(head) if native else standing.imported_status(journal, facts)
    facts = facts if native else spans.filled(facts, journal.entries, status)
    ground = _ground(journal, facts, status, evidence=evidence, native=native, head=head, now=now)
    judged = verdicts(journal, ground)
    open_gaps = gaps(journal, judged, ground)
    parking = standing.parking(journal, judged, facts, head, native=native, in_flight=ground.in_flight, now=now)
    recorded = versions.record(journal.entries)
    approvals = consent.collect(journal, now=now, foreign=not native)
    approvals = (
        approvals if native else elsewhere.with_open(approvals, facts, journal.entries, in_flight=ground.in_flight)
    )
    times = standing.times(journal, native=native, status=status)
    own = [s for s in journal.entries if native or not is_state_note(s)]
    used = limits.uses(journal, head.limits, facts, in_flight=ground.in_flight)
    wakes = _Wake(parking.wake_at, times.last, now)
    observed = _observe(journal, judged, ground, open_gaps, recorded, approvals, head, wakes)
    observed += limits.findings(used) if ground.in_flight else []
    return Summary(
        status=status,
        runtime_status=facts.runtime_status if facts else "",
        complete=_complete(journal, facts, head, status, native=native),
        in_flight=ground.in_flight,
        build=standing.build_of(journal, facts, head),
        pinned_to=standing.pinned_to(journal, facts, head, native=native),
        parked_on=parking.on,
        parked_since=parking.since,
        wake_at=parking.wake_at,
        parent=next((s.entry.parent for s in journal.entries if s.entry.parent), "") or standing.told(facts, "parent"),
        started_at=times.started,
        ended_at=times.ended,
        last_at=times.last,
        entries=len(own),
        bytes=sum(s.size for s in own),
        steps=_rows(journal, judged),
        current=_current(journal, judged),
        gaps=open_gaps,
        worst_gap=worst(open_gaps),
        findings=ordered(observed),
        limits=used,
        approvals=approvals,
        decisions=decisions.listed(journal.entries),
        versions=recorded.listed(),
        version_set=recorded.body(),
        recheck_at=_recheck(approvals, head, parking.wake_at, ground, now),
        results_exported=facts is None or facts.out.get("results_exported") is not False,
    )


@dataclass(frozen=True, slots=True)
class _Wake:
    """Times that findings look at."""

    wake_at: datetime | None
    last_at: datetime | None
    now: datetime


def _observe(
    journal: Journal,
    judged: Sequence[Judged],
    ground: Ground,
    open_gaps: Sequence[Gap],
    recorded: versions.Recorded,
    approvals: Sequence[consent.Approval],
    head: HeadFacts,
    at: _Wake,
) -> list[Finding]:
    """Every finding, in no order. Actions come before approvals: they mark what was used."""
    return [
        *acted.findings(journal, approvals),
        *elsewhere.findings(approvals),
        *consent.findings(journal, approvals, in_flight=ground.in_flight, now=at.now),
        *doubles.findings(journal, judged, ground),
        *drift.findings(journal, recorded, head=head, in_flight=ground.in_flight, wake_at=at.wake_at, now=at.now),
        *damage.findings(journal, ground, native=ground.native),
        *health.findings(journal, ground, head=head, since=at.last_at, now=at.now),
        *_gap_findings(open_gaps, alive=ground.alive),
    ]


# -- where it stands -----------------------------------------------------------------------------------------------


def _complete(journal: Journal, facts: SourceFacts | None, head: HeadFacts, status: RunStatus, *, native: bool) -> bool:
    if native:
        return head.ended != "" and not journal.holes
    if facts is not None and (facts.partial or facts.complete is not None or facts.status is not None):
        return facts.complete is True and not facts.partial and not journal.holes
    return status in ENDED and not journal.holes and not spans.absent(journal.entries)


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
        now=now,
        alive=native and head.lease_until is not None and head.lease_until > now,
        opened=native and not head.parked_on and bool(head.worker) and not head.ended,
        diverged=bool(health.diverged(journal.entries)) or health.says_diverged(stuck),
        recovered=not native and not evidence.attempts and (facts.recoveries if facts else 0) > 1,
    )


# -- columns --------------------------------------------------------------------------------------------------------


def _rows(journal: Journal, judged: Sequence[Judged]) -> list[StepRow]:
    return [
        StepRow(
            step=step,
            judged=j,
            status=_step_status(step, j),
            versions=next((s.entry.versions for s in reversed(step.entries) if s.entry.versions), None),
            first_at=began_at(step.entries[0]) if step.entries else None,
            last_at=happened_at(step.entries[-1]) if step.entries else None,
        )
        for step, j in zip(journal.steps, judged, strict=True)
    ]


def _step_status(step: Step, judged: Judged) -> StepStatus:
    if step.missing or step.conflict or step.gone:
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
    sure = any(
        g.verdict == Verdict.MAY_RUN_TWICE and g.confidence == Confidence.CERTAIN and (g.repeat or not g.key)
        for g in serious
    )
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
