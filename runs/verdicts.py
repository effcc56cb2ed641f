"""One verdict per step: what happens to it when its run goes on, and what the journal proves about the outside. Pure.

The rule that outranks all others: never falsely calm. `done`, `waiting` and `not_started` need a record that says so;
taking an entry or a field away may not lead to one of them, nor to a smaller count of effects.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from drainboard.wire import KINDS, MISSING

from journals.adapters.base import Evidence
from runs.facts import Again, Pending, Seen, SourceFacts, Waiting, moment
from runs.failures import unanswered_error
from runs.states import CALM, Confidence, Effects, Verdict
from runs.steps import Journal, Step

__all__ = ["Ground", "Judged", "judge", "last_of_branch", "listed", "told_pending", "verdicts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What the verdicts of one run rest on, besides its entries."""

    evidence: Evidence
    native: bool
    in_flight: bool  # the run is not over, or nobody knows
    ended: bool  # an end is recorded or told
    completed: bool = False  # it ended with a result, or goes on in a successor
    end_known: bool  # the record says where the journal ends: our own store, or an export that says so
    torn: str = ""  # why the end of the file is missing
    facts: SourceFacts | None = None
    now: datetime | None = None
    alive: bool = False  # a worker holds a live lease (native)
    opened: bool = False  # a worker has it, or had it and did not give it back (native)
    diverged: bool = False  # the code has left the journal
    recovered: bool = False  # steps may have been executed again without a record of it

    def passed(self, until: str | None) -> bool:
        """Whether this time has come since an export was made; our own store would have the entry that follows."""
        due = None if self.native else moment(until)
        return due is not None and self.now is not None and due <= self.now

    @property
    def tries_known(self) -> bool:
        """Whether a second execution would have left a record."""
        told = self.facts.tries_recorded if self.facts else None
        return (self.evidence.attempts if told is None else told) and not self.recovered


@dataclass(frozen=True, slots=True)
class Judged:
    verdict: Verdict
    confidence: Confidence
    effects: Effects
    reason: str  # one or two sentences


def verdicts(journal: Journal, ground: Ground) -> list[Judged]:
    """One verdict per step, in the order of `journal.steps`."""
    pending, waiting = _told(ground.facts)
    again = {(a.branch, a.step): a for a in ground.facts.again} if ground.facts else {}
    ends = last_of_branch(journal.steps)
    made = []
    for step in journal.steps:
        at = (step.branch, step.number)
        is_last = ends[step.branch] is step
        judged = judge(step, journal, ground, pending=pending.get(at), waiting=waiting.get(at), is_last=is_last)
        made.append(_repeated(judged, again[at]) if at in again and judged.verdict == Verdict.DONE else judged)
    return made


def _repeated(judged: Judged, again: Again) -> Judged:
    """The verdict on a recorded step that its source would execute again, because it goes on from a place before it."""
    where = f"{again.origin} " if again.origin else ""
    why = {
        "older_checkpoint": f"the runtime would go on from the older checkpoint {where}and run it again",
        "checkpoint_not_saved": f"what came out of it was never saved: the run goes on from checkpoint {where}and runs it again",
    }.get(again.why, "the runtime would run it again")
    reason = f"{judged.reason.partition(';')[0].rstrip('.')}, but {why}."
    return Judged(Verdict.MAY_RUN_TWICE, Confidence.POSSIBLE, judged.effects, reason)


def judge(
    step: Step, journal: Journal, ground: Ground, *, pending: Pending | None, waiting: Waiting | None, is_last: bool
) -> Judged:
    """The verdict on one step. `is_last`: no later step of its branch is recorded."""
    verdict, confidence, reason = _verdict(step, journal, ground, pending, waiting, is_last)
    if step.gone and verdict in CALM and not (verdict == Verdict.WAITING and waiting is not None):
        verdict, confidence, reason = _gone(step, ground)
    return Judged(verdict, confidence, _effects(step, verdict, journal, ground), reason)


def _told(
    facts: SourceFacts | None,
) -> tuple[dict[tuple[str, int | None], Pending], dict[tuple[str, int | None], Waiting]]:
    if facts is None:
        return {}, {}
    return {(p.branch, p.step): p for p in facts.pending}, {(w.branch, w.step): w for w in facts.waiting}


def listed(numbers: Iterable[int]) -> str:
    """`3, 5 and 9`; long lists end in a count."""
    found = [str(n) for n in numbers]
    if len(found) > 6:
        return f"{', '.join(found[:5])} and {len(found) - 5} more"
    return " and ".join([", ".join(found[:-1]), found[-1]]) if len(found) > 1 else "".join(found)


def last_of_branch(steps: Sequence[Step]) -> dict[str, Step]:
    """The step with the highest number of each branch."""
    ends: dict[str, Step] = {}
    for step in steps:
        if step.branch not in ends or step.number >= ends[step.branch].number:
            ends[step.branch] = step
    return ends


Found = tuple[Verdict, Confidence, str]


def _verdict(
    step: Step, journal: Journal, ground: Ground, pending: Pending | None, waiting: Waiting | None, is_last: bool
) -> Found:
    if step.conflict or step.ambiguous or (step.mixed and not ground.native):
        return _conflicting(step)
    if step.resolution is not None and not step.attempts:
        return _resolved(step.resolution)
    answered = bool(step.results) and not (step.kind == "approval" and step.open)
    if answered and not (step.gone and waiting is not None and ground.in_flight):
        return Verdict.DONE, Confidence.CERTAIN, _done(step, ground)
    if waiting is not None and ground.in_flight:
        return _told_waiting(waiting, ground)
    if step.missing:
        return _absent(step, ground, pending)
    if step.kind in ("timer", "approval", "parallel", "child") and (step.kind != "child" or not step.errors):
        return _paused(step, journal, ground, pending, is_last)
    if step.open is None and step.errors:
        return _failed(step, pending)
    return _in_flight(step, journal, ground, pending)


def _done(step: Step, ground: Ground) -> str:
    tries = " Tries inside a step are not recorded by this runtime." if step.write and not ground.tries_known else ""
    return f"A result is recorded (entry {step.results[0].number}); it will be reused.{tries}"


def _gone(step: Step, ground: Ground) -> Found:
    numbers = listed(sorted({s.number for s in step.entries}))
    follows = "the run may do it again" if ground.in_flight else "whether the run did it again is not known"
    return (
        Verdict.MAY_RUN_TWICE, Confidence.POSSIBLE,
        f"Only an earlier export has its record (entry {numbers}); a later one lacks it, so {follows}.",
    )  # fmt: skip


def _conflicting(step: Step) -> Found:
    numbers = listed(sorted({s.number for s in step.entries}))
    if step.ambiguous:
        return (
            Verdict.UNKNOWN,
            Confidence.UNKNOWN,
            f"Its answer may belong to another start of the same name (entry {numbers}).",
        )
    if step.mixed and not step.conflict:
        return Verdict.UNKNOWN, Confidence.UNKNOWN, f"Entries of different steps stand at its number (entry {numbers})."
    if step.errors:
        return (
            Verdict.FAILED_MAY_HAVE_RUN, Confidence.UNKNOWN,
            f"Two records of one outcome disagree (entry {numbers}), one of them a failure: it may have run.",
        )  # fmt: skip
    return (
        Verdict.UNKNOWN,
        Confidence.UNKNOWN,
        f"Two records of one entry disagree (entry {numbers}); choose one first.",
    )


def _resolved(resolution: Seen) -> Found:
    entry = resolution.entry
    who = f"{entry.by or 'somebody'} (entry {resolution.number})"
    if entry.outcome == "happened":
        return Verdict.DONE, Confidence.CERTAIN, f"It happened, says {who}; that answer will be reused."
    if entry.outcome == "stop":
        return Verdict.MAY_RUN_TWICE, Confidence.CERTAIN, f"Not resolved: {who} stopped the run instead."
    return Verdict.NOT_STARTED, Confidence.CERTAIN, f"It did not happen, says {who}; it will run."


def _told_waiting(waiting: Waiting, ground: Ground) -> Found:
    if ground.facts is not None and waiting in ground.facts.passed:
        return Verdict.WAITING, Confidence.POSSIBLE, f"{_waits_for(waiting)} {_STALE}"
    return Verdict.WAITING, Confidence.CERTAIN, _waits_for(waiting)


_STALE = "That time has come since; what followed is not in the export."


def _waits_for(waiting: Waiting) -> str:
    until = f", until {waiting.until}" if waiting.until else ""
    since = f" since {waiting.since}" if waiting.since else ""
    return f"Waits for {_what(waiting.what)}{since}{until}."


def _what(what: str) -> str:
    """`signal:approval` as words."""
    if what == "signal:?":
        return "a message whose name is not recorded"
    kind, _, name = what.partition(":")
    article = {
        "signal": "the signal",
        "timer": "a timer",
        "child": "the child run",
        "approval": "the approval",
        "gap": "a word on the gap at",
    }
    return f"{article.get(kind, kind or 'something')}{f' {name}' if name else ''}"


_ENDS_ONLY = "There is no record of it, and this runtime records a step only when it ends: it may be under way."
_NO_STARTS = "This runtime does not write the start of a running step, so it may have run."


def _absent(step: Step, ground: Ground, pending: Pending | None) -> Found:
    if pending is not None:
        return told_pending(pending, ground)
    if ground.facts is not None and step.branch == "" and step.number < ground.facts.begins:
        return (
            Verdict.UNKNOWN,
            Confidence.UNKNOWN,
            f"What came before step {ground.facts.begins} is not in the export; the run went on behind it.",
        )
    if ground.evidence.write == "never" and step.numbered:
        return Verdict.MAY_RUN_TWICE, Confidence.POSSIBLE, _ENDS_ONLY
    return Verdict.UNKNOWN, Confidence.UNKNOWN, f"Not known: {step.missing}."


def told_pending(pending: Pending, ground: Ground, *, write: bool = True) -> Found:
    """The verdict on a step that the source calls unfinished, with what it says about the attempts."""
    state = pending.state.lower()
    if state in ("", "no_record") and not pending.last_failure:
        reason = _ENDS_ONLY if ground.evidence.write == "never" else _NO_STARTS
        return Verdict.MAY_RUN_TWICE, Confidence.POSSIBLE, reason
    running = any(word in state for word in ("started", "running", "cancel_requested", "pause_requested"))
    tried = pending.attempt or 1
    calls = state.replace("_", " ") or "unfinished"
    parts = [f"Attempt {tried} is running" if running else f"The runtime calls it {calls} (attempt {tried})"]
    if pending.last_failure:
        parts.append(f"the last failed attempt ended with {pending.last_failure}")
    sent = tried if running else tried - 1
    if sent >= 1:
        parts.append(
            f"it may already have been {'sent' if write else 'asked'} up to {sent} time{'s' if sent > 1 else ''}"
        )
    certain = running and ground.evidence.write != "never"
    return Verdict.MAY_RUN_TWICE, Confidence.CERTAIN if certain else Confidence.POSSIBLE, "; ".join(parts) + "."


def _stray_errors(journal: Journal) -> list[int]:
    """Entries of the source's own kinds that tell an error and name no step: each may be the end of any."""
    return [
        s.number
        for s in journal.entries
        if s.entry.error is not MISSING and s.entry.step is None and s.entry.name is None and s.entry.kind not in KINDS
    ]


def _paused(step: Step, journal: Journal, ground: Ground, pending: Pending | None, is_last: bool) -> Found:
    """A timer, approval, child or parallel without an answer."""
    if not is_last and step.kind in ("timer", "parallel"):
        return Verdict.DONE, Confidence.CERTAIN, "The branch went on behind it."
    if ground.ended and not ground.in_flight and step.kind != "child":
        return Verdict.DONE, Confidence.CERTAIN, "The run is over; nothing waits for it."
    if journal.damaged_after(step.last_order) or ground.torn:
        return Verdict.UNKNOWN, Confidence.UNKNOWN, "Its end may stand in the part of the journal that is missing."
    settled = ground.evidence.write == "never" or ground.completed
    if step.kind == "child" and not settled and (pending is not None or ground.diverged or ground.ended):
        return (
            Verdict.MAY_RUN_TWICE,
            Confidence.POSSIBLE,
            "The child was started and has no result; it may be started again under another id.",
        )
    if step.kind == "child" and (stray := _stray_errors(journal)):
        return Verdict.UNKNOWN, Confidence.UNKNOWN, f"An error that names no step is recorded (entry {listed(stray)})."
    if step.kind == "child" and settled:
        return Verdict.DONE, Confidence.CERTAIN, "The child was started; its own run tells the rest."
    if not is_last and step.kind == "approval":
        return Verdict.UNKNOWN, Confidence.UNKNOWN, "No decision is recorded, and yet the branch went on."
    sure = ground.native or (ground.end_known and step.kind == "timer")
    until = next((s.entry.until for s in step.entries if s.entry.until), None)
    what = f"child:{step.name or step.call or ''}" if step.kind == "child" else step.kind
    if step.kind == "timer" and ground.passed(until):
        return Verdict.WAITING, Confidence.POSSIBLE, f"Waits for a timer, until {until}. {_STALE}"
    if step.kind == "timer" and until is None and not ground.native:
        return (
            Verdict.WAITING,
            Confidence.POSSIBLE,
            "Waits for a timer; until when is not in the export, so it may be over.",
        )
    return (
        Verdict.WAITING, Confidence.CERTAIN if sure else Confidence.POSSIBLE,
        f"Waits for {_what(what)}{f', until {until}' if until else ''}.",
    )  # fmt: skip


def _failed(step: Step, pending: Pending | None) -> Found:
    if pending is not None and not pending.doubtful:
        return (
            Verdict.MAY_RUN_TWICE, Confidence.CERTAIN,
            f"It failed {len(step.errors)} time{'s' if len(step.errors) > 1 else ''} (entry {listed(s.number for s in step.errors)}) and the runtime will try it again.",
        )  # fmt: skip
    last = step.errors[-1]
    what = "no answer (timeout, cancel or lost connection)" if unanswered_error(last.entry.error) else "an error"
    return (
        Verdict.FAILED_MAY_HAVE_RUN, Confidence.CERTAIN,
        f"It ended with {what} (entry {last.number}), which is no proof that the effect did not happen."
        + (" The runtime may try it again." if pending is not None else ""),
    )  # fmt: skip


def _in_flight(step: Step, journal: Journal, ground: Ground, pending: Pending | None) -> Found:
    """A start without an answer."""
    start = step.attempts[-1].started if step.attempts else None
    at = f" (entry {start.number})" if start else ""
    if journal.damaged_after(step.last_order) or ground.torn:
        return (
            Verdict.UNKNOWN,
            Confidence.UNKNOWN,
            f"Its start is recorded{at}; a result may stand in the part that is missing.",
        )
    evidence = ground.evidence.write if step.write else ground.evidence.read
    if pending is not None and (pending.state or pending.last_failure):
        verdict, confidence, reason = told_pending(pending, ground, write=step.write)
        # A start that is recorded before the effect is certain, whatever the runtime does about it now.
        return verdict, Confidence.CERTAIN if start and evidence == "before_effect" else confidence, reason
    if not ground.native and evidence != "before_effect" and (step.write or ground.evidence.write != "before_effect"):
        return (
            Verdict.MAY_RUN_TWICE, Confidence.POSSIBLE,
            f"It is recorded as due{at} and has no result. {_NO_STARTS}",
        )  # fmt: skip
    extra = f" It was begun {step.count} times." if step.count > 1 else ""
    late = f" A late answer is kept (entry {listed(s.number for s in step.late)})." if step.late else ""
    return Verdict.MAY_RUN_TWICE, Confidence.CERTAIN, f"Its start is recorded{at}, a result is not.{extra}{late}"


def _effects(step: Step, verdict: Verdict, journal: Journal, ground: Ground) -> Effects:
    if step.missing:
        return Effects.NONE if verdict == Verdict.WAITING else Effects.UNKNOWN
    if not step.write:
        return Effects.NONE
    if verdict == Verdict.DONE and step.resolution is None and _ran_once(step, journal, ground):
        return Effects.ONE
    late = any(s.entry.error is MISSING for s in step.late)  # a late failure proves no effect
    if step.results or late or verdict == Verdict.DONE:
        return Effects.AT_LEAST_ONE
    return Effects.NONE if verdict == Verdict.NOT_STARTED else Effects.UNKNOWN


def _ran_once(step: Step, journal: Journal, ground: Ground) -> bool:
    """Whether a second execution would stand in the journal and does not."""
    if (
        not ground.tries_known
        or not ground.end_known  # another owner's repeat may stand behind the last entry
        or journal.holes
        or ground.torn
        or step.conflict
        or step.rewritten
        or step.late
        or step.failures
    ):
        return False
    if step.count != 1 or len(step.results) != 1 or step.errors or step.mixed or step.ambiguous:
        return False
    attempt = step.attempts[0]
    if attempt.started is None or attempt.answer is None or attempt.started.epoch != attempt.answer.epoch:
        return False
    return ground.native or all(s.seq is not None for s in step.entries)
