"""Whether the run gets on: lost workers, loops, replays that left the journal. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from runs.facts import HeadFacts, Seen, failure_text
from runs.findings import Finding, found
from runs.rekeyed import difference
from runs.states import Severity
from runs.steps import Journal, Step
from runs.verdicts import Ground, listed

__all__ = ["STRANDED_AFTER", "diverged", "findings", "says_diverged"]

STRANDED_AFTER: Final = timedelta(minutes=10)  # without a worker, for a native run that a worker could take
LOOP: Final = 5  # opens without a new step from which a run counts as looping
_DIVERGED: Final = re.compile(
    r"non.?determini|unexpected.?step|journal.?mismatch|history.?mismatch|versionmismatch", re.IGNORECASE
)
_LIMITS: Final = re.compile(
    r"JournalLimitReached|exceeds.?limit|limit.?exceeded|size.?limit|HistorySize|HistoryCount|TooManyHistory",
    re.IGNORECASE,
)


def findings(
    journal: Journal, ground: Ground, *, head: HeadFacts, since: datetime | None, now: datetime
) -> Iterator[Finding]:
    """`stopped_by_limit`, `stranded`, `stuck_task`, `replay_loop`, `nondeterministic_replay`. `since`: the last entry's time."""
    if ground.in_flight:
        yield from _stranded(ground, head, since, now)
        yield from _stuck(ground)
        yield from _loop(journal.entries, ground)
    yield from _ended_by_limit(journal.entries, ground)
    yield from _diverged_findings(journal, ground)


def _stranded(ground: Ground, head: HeadFacts, since: datetime | None, now: datetime) -> Iterator[Finding]:
    told = ground.facts.stranded if ground.facts else None
    if told is not None:
        build, when = told.get("build"), told.get("since")
        yield found(
            "stranded",
            f"No live worker has its build{f' {build}' if build else ''}{f' since {when}' if when else ''}: nobody will pick this run up.",
            build=build,
            since=when,
        )
        return
    if not ground.native or head.parked_on or head.hold_reason or head.stop_name or ground.alive:
        return
    idle_since = head.lease_until or since or head.created_at
    if idle_since is not None and now - idle_since > STRANDED_AFTER:
        yield found(
            "stranded",
            f"No worker has taken this run since {idle_since.isoformat(timespec='seconds')}"
            + (f"; it waits for one of build {head.pinned_build}." if head.pinned_build else "."),
            build=head.pinned_build or head.open_build,
            since=idle_since.isoformat(),
        )


def _stuck(ground: Ground) -> Iterator[Finding]:
    told = ground.facts.stuck if ground.facts else None
    if told is not None and told.get("cause") != "replay_loop":
        cause, message = str(told.get("cause") or ""), str(told.get("message") or "")
        tries = f"; attempt {told['attempt']} is going on" if isinstance(told.get("attempt"), int) else ""
        yield found(
            "stuck_task",
            f"The runtime fails again and again: {': '.join(p for p in (cause, message) if p) or 'no cause is recorded'}{tries}.",
            [told["event"]] if isinstance(told.get("event"), int) else [],
            **{k: v for k, v in told.items() if isinstance(k, str)},
        )


def _loop(entries: Sequence[Seen], ground: Ground) -> Iterator[Finding]:
    told = ground.facts.recoveries if ground.facts else 0
    if told >= LOOP:
        yield found("replay_loop", f"The run was begun {told} times without a new entry.", executions=told)
    opens: list[int] = []
    for seen in entries:
        if seen.entry.kind == "run.resumed":
            opens.append(seen.number)
        elif seen.origin == "worker" and seen.entry.step is not None:
            opens.clear()
    if ground.native and len(opens) >= LOOP:
        yield found(
            "replay_loop",
            f"The run was opened {len(opens)} times in a row and recorded no step.",
            opens,
            executions=len(opens),
        )


def _ended_by_limit(entries: Sequence[Seen], ground: Ground) -> Iterator[Finding]:
    ends = [s for s in entries if s.entry.kind in ("run.stopped", "run.failed", "stop.requested")]
    for seen in ends:
        text = " ".join(
            (
                seen.entry.reason or "",
                failure_text(seen.entry.error) if isinstance(seen.entry.error, (dict, str)) else "",
            )
        )
        if _LIMITS.search(text):
            yield found(
                "stopped_by_limit",
                f"A limit ended the run (entry {seen.number}): {text.strip()}.",
                [seen.number],
                reason=text.strip(),
            )
            return


def diverged(entries: Sequence[Seen]) -> list[int]:
    """Numbers of entries that say that the code left the journal."""
    return [s.number for s in entries if _says_diverged(s)]


def says_diverged(stuck: Mapping[str, Any]) -> bool:
    """Whether the cause that a source tells of a stuck run is that the code left the journal."""
    return bool(_DIVERGED.search(f"{stuck.get('cause') or ''} {stuck.get('message') or ''}"))


def _says_diverged(seen: Seen) -> bool:
    entry = seen.entry
    if (
        entry.kind in ("run.held", "run.stopped", "stop.requested", "run.failed", "tool.error", "model.error")
        and entry.reason
    ):
        return entry.reason == "NonDeterministicReplay"
    if entry.kind in ("run.failed", "note") and isinstance(entry.error, dict):
        return bool(_DIVERGED.search(failure_text(entry.error)))
    return entry.kind == "note" and entry.name == "nondeterministic_replay"


def _diverged_findings(journal: Journal, ground: Ground) -> Iterator[Finding]:
    numbers = list(dict.fromkeys(diverged(journal.entries)))
    stuck = (ground.facts.stuck if ground.facts else None) or {}
    if says_diverged(stuck) and isinstance(stuck.get("event"), int):
        numbers = [*numbers, stuck["event"]]
    if numbers or says_diverged(stuck):
        detail = next(
            (d for s in reversed(journal.entries) if s.number in numbers and (d := difference(s)) is not None), None
        )
        over = not ground.in_flight and any(s.entry.kind == "run.completed" for s in journal.entries)
        said = detail.get("message") if detail else None
        told = said if isinstance(said, str) else None
        yield found(
            "nondeterministic_replay",
            f"The code does not follow the journal{f' (entry {listed(numbers)})' if numbers else ''}: {told or 'it asked for something else than was recorded'}.",
            numbers,
            severity=Severity.WARNING if over else None,
            difference=detail,
        )
    for step in journal.steps:
        if not step.conflict and len({(k, n) for k, n in step.names if n is not None}) > 1:
            yield _two_names(step)


def _two_names(step: Step) -> Finding:
    names = sorted(f"{kind} {name}" for kind, name in step.names if name is not None)
    return found(
        "nondeterministic_replay",
        f"Step {step.number}{f' of branch {step.branch}' if step.branch else ''} is recorded as {' and as '.join(names)}: two codes ran it.",
        [s.number for s in step.entries],
        names=names,
        branch=step.branch,
        step=step.number,
    )
