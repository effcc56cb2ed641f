"""Which answers are of one execution, and which of them were given at one moment. A history does not name its execution."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from journals.adapters.aws.scan import EXECUTION, HISTORY, LISTED, OPERATIONS, Answer, Record
from journals.adapters.aws.values import utc
from journals.adapters.base import run_problem
from journals.adapters.values import integer, text

_ARN: Final = re.compile(r"arn:[^:]*:lambda:[^:]*:[^:]*:function:([^:/]+)(?::([^:/]+))?")
_SUFFIX: Final = re.compile(
    r"[._-]*(?:(?:get[._-]?)?(?:durable[._-]?)?execution|history|describe|events|state|operations|page|part|\d{1,4})$",
    re.IGNORECASE,
)

UNNAMED: Final = (
    "a history names no execution: import it together with the answer of `aws lambda get-durable-execution` "
    "(in the same file before it, or beside it as NAME.execution.json and NAME.history.json)"
)


@dataclass(frozen=True, slots=True)
class Described:
    """What one answer says about one execution; a row of a list says less."""

    arn: str
    fields: Mapping[str, Any]
    answer: Answer
    record: Record

    @property
    def listed(self) -> bool:
        return self.answer.kind == LISTED

    @property
    def status(self) -> str:
        return text(self.fields, "Status") or ""

    @property
    def function(self) -> tuple[str, str]:
        """Name and qualifier of the function, out of its ARN or the execution's."""
        for arn in (text(self.fields, "FunctionArn") or "", self.arn):
            if found := _ARN.match(arn):
                return found[1], text(self.fields, "Version") or found[2] or ""
        return "", text(self.fields, "Version") or ""


@dataclass(slots=True)
class Snapshot:
    """What was exported of one execution at one moment: a history in one or more pages, or the state's operations."""

    arn: str
    answers: list[Answer]
    described: Described | None

    @property
    def operations(self) -> bool:
        return self.answers[0].kind == OPERATIONS

    def records(self) -> list[tuple[Answer, Record]]:
        """Every record with its answer, in the order of the event ids; operations as they stand."""
        found = [(a, r) for a in self.answers for r in a.records]
        return found if self.operations else sorted(found, key=lambda f: integer(f[1].fields, "EventId") or 0)

    def numbers(self) -> set[int]:
        return {n for _, r in self.records() if (n := integer(r.fields, "EventId")) is not None}


@dataclass(slots=True)
class Joined:
    """The executions of an import."""

    snapshots: dict[str, list[Snapshot]] = field(default_factory=dict)  # by ARN, oldest first
    described: dict[str, list[Described]] = field(default_factory=dict)  # by ARN, in the order of the files
    unnamed: list[Answer] = field(default_factory=list)
    nameless: list[tuple[Answer, Record]] = field(default_factory=list)  # descriptions without an ARN
    problems: list[tuple[Described, str]] = field(default_factory=list)  # descriptions that cannot be kept


def join(answers: Sequence[Answer]) -> Joined:
    """Puts the answers together by what they say of themselves, then by where they stand."""
    made = Joined()
    for found in _described(answers, made):
        if problem := run_problem(found.arn):
            made.problems.append((found, problem))
        else:
            made.described.setdefault(found.arn, []).append(found)
    for answer, arn, beside in _named(answers, made):
        _group(made.snapshots.setdefault(arn, []), answer, arn, beside)
    for arn, snapshots in made.snapshots.items():
        for snapshot in snapshots:
            snapshot.described = snapshot.described or newest(made.described.get(arn, []))
        snapshots.sort(key=_age)
    return made


def _named(answers: Sequence[Answer], made: Joined) -> list[tuple[Answer, str, Described | None]]:
    """Every history and state with its execution, in the order of the files; those of no known execution are set aside."""
    everything = [d for several in made.described.values() for d in several]
    parts = [a for a in answers if a.kind in (HISTORY, OPERATIONS)]
    own = [(a, *_name(a, everything)) for a in parts]
    sure = [n for n in own if n[1]]
    found = []
    for answer, arn, beside in own:
        arn = arn or _page_of(answer, sure, everything)
        if arn:
            found.append((answer, arn, beside))
        else:
            made.unnamed.append(answer)
    return found


def _described(answers: Sequence[Answer], made: Joined) -> Iterator[Described]:
    for answer in answers:
        for record in answer.records if answer.kind in (EXECUTION, LISTED) else ():
            if arn := text(record.fields, "DurableExecutionArn"):
                yield Described(arn, record.fields, answer, record)
            else:
                made.nameless.append((answer, record))


def _started(answer: Answer) -> Mapping[str, Any]:
    """The event that begins the execution; empty when the answer does not hold it."""
    return next((r.fields for r in answer.records if text(r.fields, "EventType") == "ExecutionStarted"), {})


def _agrees(started: Mapping[str, Any], found: Described) -> int:
    """2: the description names this very execution; 1: its name is this one; 0: nothing speaks against it; -1: another one."""
    if not started:
        return 0
    name, own = text(started, "Name"), text(started, "Id")
    other = text(found.fields, "DurableExecutionName")
    if own and found.arn.rpartition("/")[2] == own:
        return 2
    begun, told = utc(started.get("EventTimestamp")), utc(found.fields.get("StartTimestamp"))
    if name and other:
        return 1 if name == other else -1
    return -1 if begun and told and begun[:19] != told[:19] else 0


def _name(answer: Answer, everything: Sequence[Described]) -> tuple[str, Described | None]:
    """The ARN of a history, and the description that was made with it: the one beside it."""
    started = _started(answer)
    fits = [(d, _agrees(started, d)) for d in everything]
    same_place = [(d, sure) for d, sure in fits if sure >= 0 and not d.listed and _beside(answer, d)]
    before = [d for d, _ in same_place if d.answer.order <= answer.order]
    beside = before[-1] if before else same_place[0][0] if same_place else None
    sure = {d.arn for d, s in fits if s == 2} or {d.arn for d, s in fits if s == 1}
    if beside is not None and (not sure or beside.arn in sure):
        return beside.arn, beside
    if len(sure) == 1:
        return sure.pop(), None
    for known in (lambda d: d.answer.path == answer.path, lambda d: _stem(d.answer.path) == _stem(answer.path)):
        arns = {d.arn for d, s in fits if s >= 0 and known(d)}
        if len(arns) == 1:
            return arns.pop(), None
    return "", None


def _beside(answer: Answer, found: Described) -> bool:
    return found.answer.path == answer.path and found.answer.place == answer.place


def _stem(path: str) -> str:
    """A file's name without what tells the answers of one execution apart."""
    folder, name = posixpath.split(path)
    stem = re.sub(r"(?:\.(?:jsonl?|gz|txt))+$", "", name)
    while (shorter := _SUFFIX.sub("", stem)) and shorter != stem:
        stem = shorter
    return posixpath.join(folder, stem)


def _page_of(
    answer: Answer, named: Sequence[tuple[Answer, str, Described | None]], everything: Sequence[Described]
) -> str:
    """The execution that a page without a beginning is of: the only one of its file, of its name, or of the import."""
    if _started(answer):
        return ""
    for known in (lambda path: path == answer.path, lambda path: _stem(path) == _stem(answer.path), lambda path: True):
        arns = {arn for a, arn, _ in named if known(a.path)} or {d.arn for d in everything if known(d.answer.path)}
        if len(arns) == 1:
            return arns.pop()
    return ""


def _group(snapshots: list[Snapshot], answer: Answer, arn: str, beside: Described | None) -> None:
    """Puts an answer to those of its moment: those with the same description beside them, or the other pages of a history."""
    for snapshot in snapshots:
        if snapshot.operations != (answer.kind == OPERATIONS):
            continue
        paged = answer.more or any(a.more for a in snapshot.answers)
        apart = beside is not None and snapshot.described is not None
        if snapshot.described is beside if apart else paged:
            snapshot.answers.append(answer)
            snapshot.described = snapshot.described or beside
            return
    snapshots.append(Snapshot(arn, [answer], beside))


def _age(snapshot: Snapshot) -> tuple[str, int]:
    times = [
        t for _, r in snapshot.records() if (t := utc(r.fields.get("EventTimestamp") or r.fields.get("EndTimestamp")))
    ]
    return max(times, default=""), max(snapshot.numbers(), default=0)


_OVER: Final = ("SUCCEEDED", "FAILED", "TIMED_OUT", "STOPPED")


def newest(found: Sequence[Described]) -> Described | None:
    """The description to believe: one that says the end, else the last; an answer of its own before a row of a list."""
    order = sorted(enumerate(found), key=lambda f: (f[1].status in _OVER, not f[1].listed, f[0]))
    return order[-1][1] if order else None
