"""The gap card: the steps of a run that may run again or are not known, and what may stand behind the record. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runs.failures import unanswered_error
from runs.rekeyed import otherwise, repeat_words
from runs.states import Confidence, Effects, Verdict
from runs.steps import Journal, Step
from runs.verdicts import Ground, Judged, last_of_branch, told_pending, verdicts

__all__ = ["Gap", "Ground", "Judged", "gaps", "in_the_gap", "verdicts", "worst"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """One line of the gap card."""

    branch: str
    step: int | None
    kind: str | None
    name: str | None
    verdict: Verdict
    confidence: Confidence
    key: str | None
    reason: str
    entries: tuple[int, ...]
    effect: str  # read or write
    effects: Effects
    repeat: str = ""  # what a repeat would send, where it is known to differ from what was sent

    def as_json(self) -> dict[str, Any]:
        return {
            "branch": self.branch, "step": self.step, "kind": self.kind, "name": self.name, "verdict": str(self.verdict),
            "confidence": str(self.confidence), "key": self.key, "reason": self.reason, "entries": list(self.entries),
            "effect": self.effect, "effects": str(self.effects), "repeat": self.repeat or None,
        }  # fmt: skip


def gaps(journal: Journal, judged: Sequence[Judged], ground: Ground) -> list[Gap]:
    """The lines of the gap card: what may run again or is not known, by branch; then what may stand behind the record."""
    ends = last_of_branch(journal.steps)
    told = otherwise(journal.entries)
    found = [
        _gap(step, j, repeat_words(step, told))
        for step, j in zip(journal.steps, judged, strict=True)
        if in_the_gap(step, j, is_last=ends[step.branch] is step, ground=ground)
    ]
    unrecorded = _pending_without_entries(journal, ground)
    lost = list(_missing(journal))
    # Where the record does not say that it ends here, an open step may have its result behind it, and others may follow.
    ends_here = ground.end_known or bool(ground.torn)
    main_open = any(g.branch == "" for g in unrecorded) or (ends_here and _last_is_open(ends.get(""), journal, judged))
    tail = None if main_open else _tail(journal, ground)
    return [*found, *unrecorded, *lost, *([tail] if tail else [])]


_WITHOUT_EFFECT = frozenset(("timer", "approval", "parallel", "signal", "value"))


def in_the_gap(step: Step, judged: Judged, *, is_last: bool, ground: Ground) -> bool:
    """Whether a step belongs on the gap card. A failure that was answered is only there while the run may still act on it."""
    if step.kind in _WITHOUT_EFFECT:
        return False
    if judged.verdict in (Verdict.MAY_RUN_TWICE, Verdict.UNKNOWN):
        return True
    if judged.verdict != Verdict.FAILED_MAY_HAVE_RUN or not step.write:
        return False
    pending = ground.facts.pending if ground.facts else ()
    told = any((p.branch, p.step) == (step.branch, step.number) for p in pending)
    # What is missing may hold the next try.
    may_be_tried_again = ground.in_flight and (is_last or told or bool(ground.torn))
    return step.conflict or unanswered_error(step.errors[-1].entry.error) or may_be_tried_again


def _gap(step: Step, judged: Judged, repeat: str) -> Gap:
    return Gap(
        branch=step.branch,
        step=step.number,
        kind=step.kind or None,
        name=step.name,
        verdict=judged.verdict,
        confidence=judged.confidence,
        key=next(reversed(step.keys), None),
        reason=f"{judged.reason} {repeat}".rstrip(),
        repeat=repeat,
        entries=tuple(s.number for s in step.entries),
        effect="write" if step.write or not step.kind else "read",
        effects=judged.effects,
    )


def _missing(journal: Journal) -> Iterator[Gap]:
    """Holes that no placeholder step stands for: whatever the missing entries said, they may have begun something."""
    for hole in journal.holes:
        if not hole.shown:
            one = hole.missing == 1
            span = f"entry {hole.first} is" if one else f"entries {hole.first} to {hole.last} are"
            yield Gap(
                branch="", step=None, kind=None, name=None, verdict=Verdict.UNKNOWN, confidence=Confidence.UNKNOWN, key=None,
                reason=f"Not known: {span} missing.", entries=(), effect="write", effects=Effects.UNKNOWN,
            )  # fmt: skip


def _pending_without_entries(journal: Journal, ground: Ground) -> list[Gap]:
    """Steps that the source calls unfinished and has no entry of."""
    if ground.facts is None:
        return []
    known = {(s.branch, s.number) for s in journal.steps}
    made = []
    for p in ground.facts.pending:
        if (p.branch, p.step) in known:
            continue
        verdict, confidence, reason = told_pending(p, ground, write=p.effect != "read")
        made.append(
            Gap(
                branch=p.branch,
                step=p.step,
                kind=p.kind,
                name=p.name,
                verdict=verdict,
                confidence=confidence,
                key=None,
                reason=reason,
                entries=(),
                effect="read" if p.effect == "read" else "write",
                effects=Effects.NONE if p.effect == "read" else Effects.UNKNOWN,
            )
        )
    return made


def _last_is_open(last: Step | None, journal: Journal, judged: Sequence[Judged]) -> bool:
    """Whether the main line's last step is itself in the gap or waits: then nothing of the main line stands behind it."""
    if last is None:
        return False
    of_last = next(j for step, j in zip(journal.steps, judged, strict=True) if step is last)
    if of_last.verdict == Verdict.WAITING:
        return of_last.confidence == Confidence.CERTAIN
    return of_last.verdict in (Verdict.MAY_RUN_TWICE, Verdict.UNKNOWN) and last.kind not in _WITHOUT_EFFECT


def _tail(journal: Journal, ground: Ground) -> Gap | None:
    """What may stand behind the last entry of the main line; None when the record proves that nothing does."""
    number = max((s.number for s in journal.steps if s.branch == ""), default=0) + 1
    stated = ground.facts.out.get("last_step") if ground.facts else None
    short = isinstance(stated, int) and stated >= number
    if not short and _nothing_behind(journal, ground):
        return None
    if short:
        verdict, confidence, effect, effects = Verdict.UNKNOWN, Confidence.UNKNOWN, "write", Effects.UNKNOWN
        reason = f"The source says that {stated} steps are recorded; step {number} and what follows are not here."
    elif ground.native:
        verdict, confidence, effect, effects = Verdict.MAY_RUN_TWICE, Confidence.POSSIBLE, "read", Effects.NONE
        reason = (
            "Its worker is gone. A write would have left its start, and none is here; a read may have been under way."
        )
    elif ground.torn:
        verdict, confidence, effect, effects = Verdict.UNKNOWN, Confidence.UNKNOWN, "write", Effects.UNKNOWN
        reason = f"The journal may be incomplete behind its last entry: {ground.torn}."
    elif ground.evidence.write == "never":
        verdict, confidence, effect, effects = Verdict.MAY_RUN_TWICE, Confidence.POSSIBLE, "write", Effects.UNKNOWN
        reason = "This runtime records a step only when it ends: the next one may have been under way, its name is not known."
    elif due := _due(journal, ground):
        verdict, confidence, effect, effects = Verdict.UNKNOWN, Confidence.UNKNOWN, "write", Effects.UNKNOWN
        reason = f"What the run waited for was due at {due}; what followed is not in the export."
    else:
        verdict, confidence, effect, effects = Verdict.UNKNOWN, Confidence.UNKNOWN, "write", Effects.UNKNOWN
        reason = "The export ends here and does not say that the run does; later steps may exist."
    return Gap(
        branch="", step=number, kind=None, name=None, verdict=verdict, confidence=confidence, key=None, reason=reason,
        entries=(), effect=effect, effects=effects,
    )  # fmt: skip


def _nothing_behind(journal: Journal, ground: Ground) -> bool:
    """Whether the record proves that no step of the main line stands behind the last one that is recorded."""
    if ground.native:
        return not ground.in_flight or ground.alive or not ground.opened
    told = ground.facts is not None and ground.facts.says_what_is_open
    if not ground.in_flight:  # a step that was under way at the end leaves no record where only ends are recorded
        return ground.completed or ground.evidence.write != "never" or told
    if ground.torn:
        return False
    if ground.facts is not None and ground.facts.waiting and not ground.facts.passed:
        return True
    return not _due(journal, ground) and ground.evidence.write != "never" and ground.end_known


def _due(journal: Journal, ground: Ground) -> str:
    """When something came that the run was waiting for and that the export does not tell; empty when nothing did."""
    told = next((w.until or "a time that is not told" for w in ground.facts.passed), "") if ground.facts else ""
    last = last_of_branch(journal.steps).get("")
    if told or last is None or last.kind != "timer" or last.results:
        return told
    until = next((s.entry.until for s in last.entries if s.entry.until), None)
    return until if until and ground.passed(until) else ""


_WORST: Mapping[tuple[Verdict, Confidence], int] = {
    (Verdict.MAY_RUN_TWICE, Confidence.CERTAIN): 4,
    (Verdict.FAILED_MAY_HAVE_RUN, Confidence.CERTAIN): 3,
    (Verdict.FAILED_MAY_HAVE_RUN, Confidence.UNKNOWN): 3,
    (Verdict.MAY_RUN_TWICE, Confidence.POSSIBLE): 2,
    (Verdict.UNKNOWN, Confidence.UNKNOWN): 1,
}


def worst(found: Sequence[Gap]) -> Gap | None:
    """The gap that a list of runs shows: writes before reads, then by how sure the danger is; None without one of a write."""
    writes = [g for g in found if g.effect == "write" or g.confidence == Confidence.CERTAIN]
    return max(writes, key=lambda g: (g.effect == "write", _WORST.get((g.verdict, g.confidence), 0)), default=None)
