"""Finds what a file holds of Durable Task: histories, states of instances, rows of tables, at any depth of any wrapper.

A history is a list of events. In the HTTP answer of Durable Functions the events have no ids, in all other forms they have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from drainboard import wire

from journals.adapters.base import InputFile, Unread
from journals.adapters.durabletask.shapes import form_of, is_start, shape_of
from journals.adapters.durabletask.values import snake
from journals.adapters.jsonscan import Value, documents, value_end

LEVELS: Final = 8  # of wrappers around an answer

_EVENT: Final = re.compile(
    rb'\{\s*"(?:event_id|event_type|eventId|EventType|EventId|TaskHub|PartitionKey|InstanceID|timestamp|Timestamp)"\s*:'
)
_BETWEEN: Final = re.compile(rb"[ \t\r\n,]*")
_TYPED: Final = re.compile(rb'"(?:event_type|[eE]ventType)"\s*:')


@dataclass(slots=True)
class Record:
    """One record of a file, its names in snake case."""

    fields: dict[str, Any]
    pointer: str
    odd: tuple[str, ...] = ()


@dataclass(slots=True)
class Answer:
    """One thing that a runtime answered: a history, a state, or both."""

    path: str
    form: str  # export, grpc, http, sql, table, status
    pointer: str
    state: dict[str, Any] | None = None  # of the instance, names in snake case
    events: list[Record] | None = None  # None: it lists no events
    instance: str = ""
    torn: bool = False
    lost: bool = False  # something in its middle was not read
    closed: int = 0  # where its list of events ends, once that was seen


@dataclass(slots=True)
class Found:
    """What one file holds."""

    path: str
    answers: list[Answer] = field(default_factory=list)
    payloads: dict[str, dict[str, Any]] = field(default_factory=dict)  # PayloadID -> row, of the SQL provider
    unread: list[Unread] = field(default_factory=list)
    others: list[str] = field(default_factory=list)  # pointers of members that are no answers
    reasons: list[str] = field(default_factory=list)  # why parts are no journal
    torn: str = ""
    lost: str = ""
    bytes: int = 0
    wasted: int = 0  # bytes looked at for records that turned out to be damaged
    rows: int = 0  # rows of tables

    @property
    def size(self) -> int:
        """How much was found so far, or met and not read."""
        return len(self.answers) + self.rows + len(self.unread)


def find(file: InputFile) -> Found:
    """Everything in the file, in its order."""
    data = file.read()
    found = Found(file.path, torn=file.cut, bytes=len(data))
    count = 0
    for count, document in enumerate(documents(data), 1):
        _document(found, document, count)
    if not count:
        found.reasons.append("the file is empty")
    return found


def _document(found: Found, value: Value, number: int) -> None:
    if value.form not in ("{", "["):
        if number == 1:
            found.reasons.append("this is not JSON")
        _stray(found, value)
        return
    if not value.torn and value_end(value.data, value.start) != value.end:
        _lose(found, value, "damaged: not JSON")
        return
    _walk(found, value, LEVELS, f"doc={number}" if number > 1 or value.end < len(value.data.rstrip()) else "")


def _stray(found: Found, value: Value) -> None:
    """A stretch that is no JSON. Behind a history whose brackets close too early, the rest of its events stands in one."""
    last = found.answers[-1] if found.answers else None
    first = _EVENT.search(value.data, value.start, value.end) if last is not None and last.events else None
    if last is None or first is None:
        _lose(found, value, "not JSON")
        return
    _lose(found, Value(value.data, value.start, first.start()), "damaged: not JSON up to the next record")
    last.lost = True
    last.events = [*(last.events or []), *_records(found, Value(value.data, first.start() - 1, value.end), last, "")]


def _walk(found: Found, value: Value, levels: int, prefix: str) -> None:
    shape, pointer = shape_of(value), prefix + value.pointer
    if shape == "event":
        record = _record(found, value, prefix)
        if record is not None:
            _stream(found, record, top=value.pointer == "").append(record)
    elif shape == "row":
        row = _record(found, value, prefix)
        if row is not None:
            _row(found, row)
    elif shape:
        _answer(found, value, shape, pointer, prefix)
    elif not levels:
        found.others.append(pointer or "/")
    elif value.form == "[":
        _list(found, value, levels, prefix)
    else:
        _wrapper(found, value, levels, prefix)


def _wrapper(found: Found, value: Value, levels: int, prefix: str) -> None:
    """An object around answers. Members whose names begin with an underscore are remarks about the file."""
    before, n, others = found.size, 0, len(found.others)
    for name, member in value.members():
        n += 1
        if member.form in ("{", "["):
            _walk(found, member, levels - 1, prefix)
        elif not name.startswith("_"):
            found.others.append(f"{prefix}{member.pointer}")
    if value.torn:
        found.torn = found.torn or "the file ends inside this value"
        if found.size == before:
            _lose(found, value, "the file ends inside this value")
    elif not n or (found.size == before and levels < LEVELS):
        found.others[others:] = [prefix + value.pointer or "/"]


def _list(found: Found, value: Value, levels: int, prefix: str) -> None:
    """A list of events is one history; of anything else each element is looked at."""
    first = next(value.elements(), None)
    if first is None or first.form not in ("{", "["):
        if value.torn:
            found.torn = found.torn or "the file ends inside this list"
            _lose(found, value, "the file ends inside this list")
        else:
            found.others.append(f"{prefix}{value.pointer}" or "/")
        return
    if first.form == "{" and shape_of(first) == "event":
        answer = Answer(found.path, "", prefix + value.pointer, events=[])
        _events(found, answer, value, prefix)
        if answer.events or answer.lost:
            answer.form = form_of(answer.events[0].fields) if answer.events else "export"
            _join(found, answer)
        return
    if shape_of(first) == "row":
        for record in _records(found, value, None, prefix):
            _row(found, record)
        return
    before, others = found.size, len(found.others)
    for element in _elements(found, value):
        _walk(found, element, levels - 1, prefix)
    if found.size == before:
        found.others[others:] = [prefix + value.pointer or "/"]


def _join(found: Found, answer: Answer) -> None:
    """A list without the first event goes on where the list before it ended: a history that came in chunks."""
    if not any(is_start(e.fields) for e in answer.events or []):
        for earlier in reversed(found.answers):
            if earlier.form == answer.form and earlier.events is not None and not earlier.state:
                earlier.events += answer.events or []
                earlier.torn |= answer.torn
                earlier.lost |= answer.lost
                return
    found.answers.append(answer)


def _stream(found: Found, record: Record, *, top: bool) -> list[Record]:
    """The history that an event standing alone belongs to: that of the header line or event before it, unless both begin one."""
    form = form_of(record.fields)
    last = found.answers[-1] if found.answers else None
    open_one = last.events if top and last is not None and last.form in (form, "") else None
    if (
        last is not None
        and open_one is not None
        and not (is_start(record.fields) and any(is_start(e.fields) for e in open_one[:2]))
    ):
        last.form = form
        return open_one
    made: list[Record] = []
    found.answers.append(Answer(found.path, form, record.pointer, events=made))
    return made


def _answer(found: Found, value: Value, shape: str, pointer: str, prefix: str) -> None:
    answer = Answer(found.path, "status", pointer, torn=value.torn)
    members: dict[str, Any] = {}
    for name, member in _members(value, answer):
        if name in ("events", "historyEvents") and member.form == "[":
            answer.events = []
            _events(found, answer, member, prefix)
        elif not member.torn and (got := _load(found, member, answer)) is not wire.MISSING:
            members[name] = got
    if answer.torn:
        found.torn = found.torn or "the file ends inside this answer"
    inner = {"state": "orchestrationState", "export": "metadata", "header": "metadata"}.get(shape)
    told = members.get(inner) if inner else members
    answer.state = snake(told) if isinstance(told, dict) else None
    if shape == "http":
        answer.form = "http" if answer.events is not None else "status"
    elif shape in ("export", "header"):
        answer.instance = str(members.get("instance_id") or "")
        answer.events = answer.events or []
        answer.form = form_of(answer.events[0].fields) if answer.events else ""
        if not answer.instance and answer.state is None:
            _join(found, answer)
            return
    elif answer.state is not None and shape != "metadata":
        answer.state.setdefault("orchestration_status", 0)  # the protocol leaves out RUNNING, which is 0
    if answer.state is None and answer.events is None:
        found.reasons.append("an instance that does not exist")
    else:
        found.answers.append(answer)


def _events(found: Found, answer: Answer, value: Value, prefix: str) -> None:
    answer.events = [*(answer.events or []), *_records(found, value, answer, prefix)]


def _record(found: Found, value: Value, prefix: str) -> Record | None:
    got = _loaded(value)
    if got is None:
        _lose(found, value, "the file ends inside this record" if value.torn else "damaged: this record is not JSON")
        return None
    return Record(snake(got[0]), prefix + value.pointer, got[1])


def _load(found: Found, value: Value, answer: Answer) -> Any:
    try:
        return value.load()[0]
    except wire.MalformedLine:
        found.unread.append(value.unread(found.path, "damaged: this member is not JSON"))
        found.lost = found.lost or "a member of an answer was not read"
        answer.lost = True
        return wire.MISSING


def _row(found: Found, record: Record) -> None:
    fields = record.fields
    found.rows += 1
    if "payload_id" in fields and "event_type" not in fields and "text" in fields:
        found.payloads[str(fields["payload_id"]).lower()] = fields
        return
    form = "table" if "partition_key" in fields else "sql"
    history = "event_type" in fields
    answer = Answer(
        found.path, form, record.pointer, events=[record] if history else None, state=None if history else fields
    )
    instance = fields.get("partition_key") if form == "table" else fields.get("instance_id")
    answer.instance = instance if isinstance(instance, str) else ""
    if form == "table" and fields.get("row_key") == "sentinel":
        found.others.append(record.pointer)
    else:
        found.answers.append(answer)


def _elements(found: Found, value: Value) -> Iterator[Value]:
    """The elements of a list that is no history, as far as its brackets match."""
    end = value.start + 1
    for element in value.elements():
        yield element
        end = element.end
    gap = _BETWEEN.match(value.data, end, value.end)
    if not value.torn and gap and value.data[gap.end() : gap.end() + 1] != b"]":
        _lose(found, Value(value.data, gap.end(), value.end, value.pointer), "damaged: not JSON")


def _records(found: Found, value: Value, answer: Answer | None, prefix: str) -> Iterator[Record]:
    """The records of a list. Behind a damaged one, or inside one that swallowed others, the next is looked for."""
    data, at, n = value.data, value.start + 1, -1
    typed = answer is not None and _TYPED.search(data, value.start, value.end)
    while True:
        gap = _BETWEEN.match(data, at, value.end)
        at, n = gap.end() if gap else at, n + 1
        if data[at : at + 1] == b"]" and at < value.end:
            if answer is not None:
                answer.closed = at + 1
            return
        end = value_end(data, at, value.end) if at < value.end else -1
        got = _loaded(Value(data, at, end)) if end >= 0 else None
        if got is not None:
            fields = snake(got[0])
            if answer is not None and typed and fields.get("event_type") in (None, ""):
                _lose(found, Value(data, at, end), "an event without its type")
                answer.lost = True
            else:
                yield Record(fields, f"{prefix}{value.pointer}/{n}", got[1])
            at = end
            continue
        again = _EVENT.search(data, at + 1, value.end) if at < value.end and _worth(found, value.end - at) else None
        stop = min(p for p in (again.start() if again else value.end, end if end >= 0 else value.end))
        torn = stop == value.end and value.torn
        _lose(
            found,
            Value(data, at, stop, "", torn),
            "the file ends inside this record" if torn else "damaged: this record is not JSON",
        )
        if stop == value.end and end < 0:
            found.torn = found.torn or ("the file ends inside this list" if value.torn else "")
            return
        if answer is not None:
            answer.lost = True
        at = stop


def _loaded(value: Value) -> tuple[dict[str, Any], tuple[str, ...]] | None:
    """An object and its oddities; None for what is none."""
    try:
        got, odd = value.load()
    except wire.MalformedLine:
        return None
    return (got, tuple(o for o in odd if ":" not in o)) if isinstance(got, dict) else None


class _Tail(Value):
    """The members of an object behind a list that had to be repaired: begins at the comma before them."""

    __slots__ = ()

    @property
    def form(self) -> str:
        return "{"


def _members(value: Value, answer: Answer) -> Iterator[tuple[str, Value]]:
    """The members of an answer; behind a damaged list of events too, if the end of that list was found."""
    yield from value.members()
    gap = _BETWEEN.match(value.data, answer.closed, value.end) if value.torn and answer.closed else None
    if gap and b"," in gap.group():
        answer.torn = value_end(value.data, value.start) < 0 and not value.data[: value.end].rstrip().endswith(b"}")
        start = value.data.index(b",", answer.closed)
        yield from _Tail(value.data, start, value.end, value.pointer, True).members()


def _worth(found: Found, size: int) -> bool:
    """Whether to look behind a damaged record once more; bounded, because openings without ends cost a look at all the rest."""
    found.wasted += size
    return found.wasted <= 8 * found.bytes + 1_000_000


def _lose(found: Found, value: Value, reason: str) -> None:
    if value.data[value.start : value.end].strip(b" \t\r\n,"):
        found.unread.append(value.unread(found.path, reason))
        if value.torn:
            found.torn = found.torn or reason
        else:
            found.lost = found.lost or reason
