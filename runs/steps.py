"""Entries to steps: which start belongs to which answer, how often a step was tried, what is missing in between. Pure.

A step is found by branch and step number; for lines without a step number see `runs.matching`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from runs.facts import Seen
from runs.failures import failure_words
from runs.held import Rewritten, rewritten
from runs.matching import Matching

__all__ = ["Attempt", "Hole", "Journal", "Step", "group", "in_order"]

ROLES: Final[dict[str, tuple[str, str]]] = {
    **{f"{c}.started": (c, "start") for c in ("model", "tool", "child", "timer", "parallel")},
    **{f"{c}.result": (c, "result") for c in ("model", "tool", "child", "value")},
    **{f"{c}.error": (c, "error") for c in ("model", "tool", "child")},
    "timer.fired": ("timer", "result"),
    "signal.received": ("signal", "result"),
    "approval.requested": ("approval", "start"),
    **{f"approval.{x}": ("approval", "result") for x in ("decided", "sent_back", "expired", "withdrawn")},
    **{f"approval.{x}": ("approval", "more") for x in ("delivered", "used")},
    "late.result": ("", "late"),
    "gap.resolved": ("", "resolved"),
}
"""Kind of entry -> (kind of step, what the entry says about it). Kinds that are not here make no step."""

_RISK: Final = ("", "value", "signal", "timer", "parallel", "approval", "model", "child", "tool")
"""When two kinds stand at one step number, the later of these decides what a repeat may cost."""

PLACEHOLDERS: Final = (
    100  # steps shown for one hole, one per missing entry; a longer hole is one step that says how long it is
)


@dataclass(slots=True)
class Attempt:
    """One execution of a step, as far as it is recorded."""

    number: int
    epoch: int
    started: Seen | None = None
    answer: Seen | None = None
    ok: bool = False  # the answer is a result


@dataclass(slots=True)
class Hole:
    """Numbers that the source gave to entries which are not here."""

    first: int
    last: int
    at: int  # index, in reading order, of the entry after the hole
    shown: bool = False  # placeholder steps stand for it

    @property
    def missing(self) -> int:
        return self.last - self.first + 1


@dataclass(slots=True)
class Step:
    branch: str
    kind: str  # model, tool, child, value, timer, signal, approval, parallel; empty when not known
    name: str | None
    order: int  # index of its first entry in reading order
    last_order: int = 0  # and of its last one
    number: int = 0  # from 1, within its branch
    call: str | None = None
    write: bool = False
    attempts: list[Attempt] = field(default_factory=list)
    entries: list[Seen] = field(default_factory=list)
    results: list[Seen] = field(default_factory=list)
    errors: list[Seen] = field(default_factory=list)
    late: list[Seen] = field(default_factory=list)
    resolution: Seen | None = None
    names: set[tuple[str, str | None]] = field(default_factory=set)
    keys: dict[str, list[int]] = field(default_factory=dict)  # key -> entry numbers
    tries: int = 0  # highest attempt number recorded
    failures: dict[int, str] = field(default_factory=dict)  # attempt -> its failure, told by a later entry
    conflict: bool = False  # one of its entries has two contents
    mixed: bool = False  # entries of two kinds or names stand at its number
    ambiguous: bool = False  # its answer may belong to another start
    gone: bool = False  # what answers it stands only in an older export of the source; a later one lacks it
    rewritten: bool = False  # some of its entries do
    missing: str = ""  # why it is a placeholder, empty for a step with entries
    numbered: bool = True  # the journal gave the number

    @property
    def count(self) -> int:
        """How many times it was begun, as far as the journal tells."""
        return max(self.tries, len(self.attempts))

    @property
    def open(self) -> Attempt | None:
        """The newest attempt if it has no answer."""
        return self.attempts[-1] if self.attempts and self.attempts[-1].answer is None else None


@dataclass(slots=True)
class Journal:
    """A run's entries in reading order, and its steps by first appearance."""

    entries: list[Seen]
    steps: list[Step]
    holes: list[Hole]
    conflicts: dict[str, list[Seen]]  # entry id -> entries that share it
    rewritten: Rewritten = field(default_factory=Rewritten)

    def damaged_after(self, order: int) -> bool:
        """Whether entries are missing after this place in reading order."""
        return bool(self.holes) and self.holes[-1].at > order


def in_order(entries: Iterable[Seen]) -> list[Seen]:
    """Reading order: by the source's position, then by its `order`, then ours; an entry without either stays behind what came
    before it."""
    keyed = []
    last = (0, 0)
    sorted_already = True
    for seen in entries:
        order = seen.entry.extra.get("order") if seen.seq is None and seen.origin == "import" else None
        placed = (last[0], order) if isinstance(order, int) else last
        at = (seen.seq, 0) if seen.seq is not None else placed
        if at < last:
            sorted_already = False
        last = at
        keyed.append((at, seen.pos, seen))
    if not sorted_already:
        keyed.sort(key=lambda k: k[:2])
    return [k[2] for k in keyed]


def group(entries: Iterable[Seen], *, native: bool, dense: bool = True, length: int = 0) -> Journal:
    """The steps of a run.

    `dense`: the source numbers its entries; otherwise it numbers steps, and a hole that is a step without entries is no loss.
    `length`: how many entries the head says there are, 0: not told.
    """
    ordered = in_order(entries)
    holes = _holes(ordered, native=native, length=length)
    journal = Journal(ordered, [], holes, {} if native else _conflicts(ordered))
    if not native:
        journal.rewritten = rewritten(ordered)
    _Grouping(journal, native=native).run()
    _mark_gone(journal)
    if not dense:
        absent = {s.number for s in journal.steps if s.missing and s.numbered and s.branch == ""}
        journal.holes = [
            h for h in holes if h.missing > len(absent) or not absent.issuperset(range(h.first, h.last + 1))
        ]
    return journal


def _mark_gone(journal: Journal) -> None:
    gone = journal.rewritten.gone
    for step in journal.steps if gone else ():
        step.rewritten = any(s.pos in gone for s in step.entries)
        answers = [*step.results, *step.errors]
        step.gone = step.rewritten and all(s.pos in gone for s in answers)


def _holes(ordered: Sequence[Seen], *, native: bool, length: int) -> list[Hole]:
    holes = []
    expected = 1
    for i, seen in enumerate(ordered):
        number = seen.pos if native else seen.seq
        if number is None:
            continue
        if number > expected:
            holes.append(Hole(expected, number - 1, i))
        expected = max(expected, number + 1)
    if native and length >= expected:
        holes.append(Hole(expected, length, len(ordered)))
    return holes


def _conflicts(ordered: Sequence[Seen]) -> dict[str, list[Seen]]:
    first: dict[str, Seen] = {}
    shared: dict[str, list[Seen]] = {}
    for seen in ordered:
        if seen.origin == "import" and first.setdefault(seen.entry_id, seen) is not seen and not _is_note(seen):
            shared.setdefault(seen.entry_id, [first[seen.entry_id]]).append(seen)
    return shared


def _is_note(seen: Seen) -> bool:
    return seen.entry.kind == "note"


class _Grouping:
    """One pass over the entries of a run."""

    def __init__(self, journal: Journal, *, native: bool) -> None:
        self.journal, self.native = journal, native
        self.by_place: dict[tuple[str, int], Step] = {}
        self.matching = Matching(journal.entries, damaged=bool(journal.holes))
        self.by_entry: dict[str, Step] = {}
        self.by_approval: dict[str, Step] = {}

    def run(self) -> None:
        journal = self.journal
        for order, seen in enumerate(journal.entries):
            role = ROLES.get(seen.entry.kind)
            if role is None:
                continue
            if role[0] == "approval" and seen.origin == "server" and not self.native:
                role = ("approval", "more")  # recorded here: its runtime waits on until somebody tells it
            step = self._step(seen, role[0], role[1], order)
            if step is not None:
                step.last_order = order
                _add(step, seen, role[1])
        self.matching.settle()
        if not all(s.numbered for s in journal.steps):
            for hole in journal.holes:
                self._missing_entries(hole)
        journal.steps.sort(key=_place)
        _number(journal.steps)
        self._missing_steps()
        journal.steps.sort(key=_place)
        for found in journal.conflicts.values():
            for seen in found:
                if step := self.by_entry.get(seen.entry_id):
                    step.conflict = True

    def _step(self, seen: Seen, kind: str, role: str, order: int) -> Step | None:
        """The step that the entry belongs to, made when it is the first; None for an entry that belongs to no step."""
        entry = seen.entry
        found: Step | None = None
        if seen.entry_id in self.journal.conflicts and seen.entry_id in self.by_entry:
            found = self.by_entry[seen.entry_id]
        elif kind == "approval":
            found = self._approval(seen, role, order)
        elif entry.step is not None:
            found = self.by_place.get((entry.branch, entry.step))
            if found is None and role not in ("late", "resolved"):
                found = self._make(seen, kind, order)
        elif role not in ("late", "resolved") and kind != "signal":
            found = self.matching.find(seen, kind, role)
            if found is None:
                found = self._make(seen, kind, order)
                self.matching.add(seen, kind, role, found)
        if found is not None and self.journal.conflicts:
            self.by_entry.setdefault(seen.entry_id, found)
        return found

    def _approval(self, seen: Seen, role: str, order: int) -> Step | None:
        entry = seen.entry
        name = entry.approval or entry.call or (seen.entry_id if role == "start" else "")
        found = self.by_approval.get(name)
        if found is None and role == "start":
            place = self.by_place.get((entry.branch, entry.step)) if entry.step is not None else None
            found = place or self._make(seen, "approval", order)
            self.by_approval[name] = found
        return found

    def _make(self, seen: Seen, kind: str, order: int) -> Step:
        entry = seen.entry
        step = Step(branch=entry.branch, kind=kind, name=entry.name, order=order, call=entry.call)
        self.journal.steps.append(step)
        if entry.step is not None:
            step.number = entry.step
            self.by_place[entry.branch, entry.step] = step
        else:
            step.numbered = False
        return step

    def _missing_steps(self) -> None:
        """Placeholders for numbers that are left out of a branch."""
        last: dict[str, int] = {}
        opened = {place for s in self.journal.steps if (place := opener_of(s.branch)) is not None}
        marks = (s.entry for s in self.journal.entries if s.entry.kind == "version.marker")
        opened.update((e.branch, e.step) for e in marks if e.step is not None)
        for step in sorted(self.journal.steps, key=lambda s: (s.branch, s.number)):
            number = last.get(step.branch, 0)
            if step.number - number > 1:
                self._stand_in(step, number + 1, step.number - 1, opened)
            last[step.branch] = step.number

    def _stand_in(self, after: Step, first: int, last: int, opened: set[tuple[str, int]]) -> None:
        """Placeholders for a stretch of numbers, those excepted that opened branches of their own or mark a version."""
        why = f"step {first} has no entry" if first == last else f"steps {first} to {last} have no entries"
        for number in range(first, last + 1) if last - first < PLACEHOLDERS else (first,):
            if (after.branch, number) in opened:
                continue
            step = Step(
                branch=after.branch,
                kind="",
                name=None,
                order=after.order,
                last_order=after.order,
                number=number,
                missing=why,
            )
            self.journal.steps.append(step)

    def _missing_entries(self, hole: Hole) -> None:
        hole.shown = True
        one = hole.missing == 1
        why = f"entry {hole.first} is missing" if one else f"entries {hole.first} to {hole.last} are missing"
        for _ in range(hole.missing if hole.missing <= PLACEHOLDERS else 1):
            self.journal.steps.append(
                Step(branch="", kind="", name=None, order=hole.at, last_order=hole.at, missing=why, numbered=False)
            )


def _place(step: Step) -> tuple[int, bool, int]:
    """Where a step stands among all: by its first entry; what is missing comes before the entry behind the hole."""
    return step.order, not step.missing, step.number if step.missing else 0


def opener_of(branch: str) -> tuple[str, int] | None:
    """Branch and number of the step that opened a branch: `3.1` is of step 3 of the main line, `3.1.2.1` of step 2 of `3.1`."""
    parts = branch.split(".")
    if len(parts) < 2 or not parts[-2].isdecimal():
        return None
    return ".".join(parts[:-2]), int(parts[-2][:9])


def _number(steps: Sequence[Step]) -> None:
    """Gives numbers to steps that the journal did not number, leaving those that it gave."""
    taken: dict[str, set[int]] = {}
    for step in steps:
        if step.numbered:
            taken.setdefault(step.branch, set()).add(step.number)
    at: dict[str, int] = {}
    for step in steps:
        if step.numbered:
            at[step.branch] = max(at.get(step.branch, 0), step.number)
            continue
        number = at.get(step.branch, 0) + 1
        while number in taken.get(step.branch, ()):
            number += 1
        step.number = at[step.branch] = number


def _add(step: Step, seen: Seen, role: str) -> None:
    entry = seen.entry
    step.entries.append(seen)
    if role in ("late", "resolved"):
        if role == "late":
            step.late.append(seen)
        else:
            step.resolution = seen
            step.attempts, step.results, step.errors = [], [], []
        return
    if role == "more":
        return
    kind = ROLES[entry.kind][0]
    step.names.add((kind, entry.name))
    if kind != step.kind:
        step.mixed = True
        step.kind = max(step.kind, kind, key=_RISK.index)
    elif entry.name is not None and step.name is not None and entry.name != step.name:
        step.mixed = True
    if step.name is None:
        step.name = entry.name
    step.write = step.write or _is_write(seen, step.kind)
    step.tries = max(step.tries, entry.attempt)
    if entry.key is not None:
        step.keys.setdefault(entry.key, []).append(seen.number)
    if entry.extra and (failure := entry.extra.get("last_failure")):
        step.failures[max(1, entry.attempt - 1)] = failure_words(failure)
    if role == "start":
        step.attempts.append(Attempt(entry.attempt, seen.epoch, started=seen))
    else:
        _answer(step, seen, ok=role == "result")


def _is_write(seen: Seen, kind: str) -> bool:
    if kind == "child":
        return True  # a child run acts outside; starting it twice repeats what it does
    return kind in ("tool", "model") and seen.entry.effect_or_default == "write"


def _answer(step: Step, seen: Seen, *, ok: bool) -> None:
    (step.results if ok else step.errors).append(seen)
    attempt = _attempt_for(step.attempts, seen)
    if attempt is None:
        attempt = Attempt(seen.entry.attempt, seen.epoch)
        step.attempts.append(attempt)
    attempt.answer, attempt.ok = seen, ok
    attempt.number = max(attempt.number, seen.entry.attempt)


def _attempt_for(attempts: Sequence[Attempt], seen: Seen) -> Attempt | None:
    """The attempt without an answer that this answers: same number and epoch, else same number, else the newest."""
    waiting = [a for a in attempts if a.answer is None]
    same = [a for a in waiting if a.number == seen.entry.attempt]
    closest = [a for a in same if a.epoch == seen.epoch] or same or waiting
    return closest[-1] if closest else None
