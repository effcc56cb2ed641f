"""Finds answers of Lambda's durable execution API in a file, wherever they stand: alone, one after the other, wrapped, in arrays."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from drainboard import wire

from journals.adapters.base import InputFile, Unread
from journals.adapters.jsonscan import Value, documents, is_whole, value_end

EXECUTION, HISTORY, LISTED, OPERATIONS = "execution", "history", "list", "operations"
LEVELS: Final = 6  # how deep in wrappers an answer is looked for
TRIES: Final = 200  # places behind a damage at which an event may begin
_EVENT: Final = re.compile(rb'\{\s*"(?:EventType|EventId|EventTimestamp|SubType|Id|Name)"\s*:')
_NEXT: Final = re.compile(rb"[\s,]*")


@dataclass(frozen=True, slots=True)
class Record:
    """One event, operation or described execution: its fields and where it stands."""

    fields: Mapping[str, Any]
    pointer: str  # `/parked/GetDurableExecutionHistory/Events/3`
    oddities: tuple[str, ...] = ()


@dataclass(slots=True)
class Answer:
    """One answer of the API. `place` names what it stands in, so that answers side by side are known to be of one execution."""

    kind: str
    path: str
    value: Value
    place: tuple[int, str]
    order: int
    prefix: str = ""  # in front of record pointers, when the file has several documents
    records: list[Record] = field(default_factory=list)
    more: bool = False  # a marker says that another page follows
    damaged: str = ""  # why records in it are missing
    torn: bool = False  # its end is missing


@dataclass(slots=True)
class Scanned:
    """What one file holds."""

    file: InputFile
    answers: list[Answer] = field(default_factory=list)
    others: list[str] = field(default_factory=list)  # pointers of what is no answer
    unread: list[Unread] = field(default_factory=list)
    torn: str = ""  # why the file ends early, outside of any answer's records
    broken: str = ""  # why something between its answers was not read
    prefix: str = ""  # of the document that is read now

    @property
    def path(self) -> str:
        return self.file.path


def scan(file: InputFile) -> Scanned:
    """The answers of a file in the order in which they stand."""
    data = file.read()
    made = Scanned(file, torn=file.cut)
    found = list(documents(data))
    junk: list[Value] = []
    for n, value in enumerate(found):
        made.prefix = f"doc={n + 1}" if len(found) > 1 else ""
        if value.form in ("{", "[") and (value.torn or is_whole(value)):
            _walk(value, (n if len(found) > 1 else 0, ""), LEVELS, made, top=True)
        else:
            junk.append(value)
    if made.answers and junk:
        _rescue(data, junk[0].start, made)
    elif junk:
        made.others += [f"line {value.line}" for value in junk[:50]]
    return made


def _walk(value: Value, place: tuple[int, str], levels: int, made: Scanned, *, top: bool = False) -> None:
    """Takes an answer, or looks for answers inside. `place` is what the value stands in."""
    kinds = _kinds(value)
    if kinds:
        for kind in kinds:
            _take(kind, value, (-1, "") if top else place, made)
        return
    if value.form not in ("{", "[") or not levels:
        _aside(value, place, made)
        return
    here, found, others = (place[0], value.pointer), len(made.answers) + len(made.unread), len(made.others)
    inner = [member for _, member in value.members()] if value.form == "{" else list(value.elements())
    for one in inner:
        _walk(one, here, levels - 1, made)
    if value.pointer and found == len(made.answers) + len(made.unread) and not value.torn:
        made.others[others:] = [made.prefix + value.pointer]  # nothing inside: one name for all of it
    if not value.torn and not _ended(value, inner[-1] if inner else None):
        made.broken = made.broken or "a damaged stretch between its answers"
        _rescue(value.data, inner[-1].end if inner else value.start + 1, made, value.end)
    elif value.torn and not (inner and inner[-1].torn):
        made.torn = made.torn or "the file ends before its JSON does"


def _aside(value: Value, place: tuple[int, str], made: Scanned) -> None:
    if value.torn:
        made.torn = made.torn or "the file ends inside a value"
        made.unread.append(value.unread(made.path, "the end of this value is missing"))
    else:
        made.others.append(made.prefix + value.pointer or "the file")


def _kinds(value: Value) -> list[str]:
    """Which answers a value is; a describe and its history may have been merged into one object."""
    if value.form == "[":
        first = next(value.elements(), None)
        return [HISTORY] if first is not None and _is_event(first) else []
    if value.form != "{":
        return []
    members = dict(value.members())
    made = []
    if _texts(members, "DurableExecutionArn", "Status"):
        made.append(EXECUTION)
    for name, kind in (("Events", HISTORY), ("DurableExecutions", LISTED), ("Operations", OPERATIONS)):
        if name in members and members[name].form == "[" and _fits(kind, members[name]):
            made.append(kind)
    return made


def _texts(members: Mapping[str, Value], *names: str) -> bool:
    """Whether these members are there as text. In a description of the API they are types."""
    return all(name in members and members[name].form == '"' for name in names)


def _fits(kind: str, array: Value) -> bool:
    """Whether the first element is what this answer lists; an empty list fits."""
    first = next(array.elements(), None)
    if first is None:
        return True
    if kind == HISTORY:
        return _is_event(first)
    members = dict(first.members())
    return (
        _texts(members, "DurableExecutionArn", "Status")
        if kind == LISTED
        else _texts(members, "Id", "Type") or first.torn
    )


def _is_event(value: Value) -> bool:
    """An event has a type and a number; a torn one, or one that lacks either, is known by the other and its time."""
    members = dict(value.members())
    told = [
        _texts(members, "EventType"),
        "EventId" in members and members["EventId"].form.isdigit(),
        "EventTimestamp" in members,
    ]
    return sum(told) >= 2 or (value.torn and any(told))


def _take(kind: str, value: Value, place: tuple[int, str], made: Scanned) -> None:
    answer = Answer(kind, made.path, value, place, len(made.answers), made.prefix)
    if kind == EXECUTION:
        if value.torn and value.get("Events") is None:
            made.torn = made.torn or "the file ends inside the description of an execution"
            made.unread.append(value.unread(made.path, "the description of an execution ends early"))
            return
        if record := _record(value, made, skip=("Events", "Operations")):
            answer.records.append(record)
            made.answers.append(answer)
        return
    array = (
        value
        if value.form == "["
        else value.get({HISTORY: "Events", LISTED: "DurableExecutions"}.get(kind, "Operations"))
    )
    made.answers.append(answer)
    if array is not None:
        _list(array, answer, made)
    last = None
    for name, last in value.members():
        if name in ("NextMarker", "NextToken") and last.raw not in (b"null", b'""'):
            answer.more = True
    if value.form == "{" and not value.torn and not _ended(value, last):
        answer.damaged = answer.damaged or "a damaged stretch inside this answer"
        _resume(value.data, last.end if last else value.start + 1, value.end, answer, made)
    if kind == LISTED and answer.torn:  # what a list says of each execution it says of them all
        made.torn = made.torn or "the file ends inside a list of executions"
    if value.torn and not answer.torn:  # the list is whole, but what says whether a page follows is missing
        answer.torn = answer.more = True
        answer.damaged = answer.damaged or "the file ends before this answer does"


def _list(array: Value, answer: Answer, made: Scanned) -> None:
    """The records of an array; behind a damaged one reading goes on at the next event."""
    last: Value | None = None
    for element in array.elements():
        last = element
        if element.torn:
            answer.torn, answer.damaged = True, "the file ends inside this answer"
            made.unread.append(element.unread(made.path, "the end of this record is missing"))
        else:
            _add(element, answer, made)
    if array.torn:
        answer.torn, answer.damaged = True, "the file ends inside this answer"
    elif not _ended(array, last):
        answer.damaged = "records in the middle of it were not read"
        _resume(array.data, last.end if last else array.start + 1, array.end, answer, made)


def _add(element: Value, answer: Answer, made: Scanned) -> None:
    record = _record(element, made)
    if record is None:
        answer.damaged = answer.damaged or "a record that is no JSON object was not read"
    else:
        answer.records.append(record)


def _ended(container: Value, last: Value | None) -> bool:
    """Whether nothing but its bracket follows the last element."""
    at = last.end if last is not None else container.start + 1
    found = _NEXT.match(container.data, at)
    return container.data[found.end() if found else at : container.end] in (b"]", b"}")


def _resume(data: bytes, at: int, stop: int, answer: Answer, made: Scanned) -> None:
    """Events behind a damage, and what lies before each as unread."""
    lost = at
    for start, end in _events(data, at, stop):
        if data[lost:start].strip(b" \t\r\n,"):
            made.unread.append(Value(data, lost, start).unread(made.path, "damaged: no event could be read here"))
        _add(Value(data, start, end, f"@{start}"), answer, made)
        lost = end
    if data[lost:stop].strip(b" \t\r\n,]}"):
        made.unread.append(Value(data, lost, stop).unread(made.path, "damaged: no event could be read here"))


def _events(data: bytes, at: int, stop: int) -> Iterator[tuple[int, int]]:
    """Spans that look like whole events; gives up after `TRIES` places that were none."""
    failed = 0
    while failed < TRIES and (found := _EVENT.search(data, at, stop)):
        end = value_end(data, found.start(), stop)
        if end >= 0 and _is_event(Value(data, found.start(), end)) and _loads(data[found.start() : end]):
            yield found.start(), end
            at = end
        else:
            failed, at = failed + 1, found.start() + 1


def _loads(raw: bytes) -> bool:
    try:
        return isinstance(wire.decode(raw)[0], dict)
    except (wire.MalformedLine, RecursionError):
        return False


def _rescue(data: bytes, at: int, made: Scanned, stop: int | None = None) -> None:
    """Events in a stretch that is no JSON any more, given to the history before it."""
    end = len(data) if stop is None else stop
    made.broken = made.broken or "a damaged stretch of the file"
    answer = next((a for a in reversed(made.answers) if a.kind == HISTORY), None)
    if answer is None:
        made.unread.append(Value(data, at, end).unread(made.path, "damaged: nothing could be read here"))
        return
    answer.damaged = answer.damaged or "records behind a damage may be missing"
    _resume(data, at, end, answer, made)


def _record(value: Value, made: Scanned, skip: tuple[str, ...] = ()) -> Record | None:
    """The fields of an object; None, and named as unread, for what is none."""
    try:
        if skip:
            fields = {k: m.load()[0] for k, m in value.members() if k not in skip and not m.torn}
            odd: tuple[str, ...] = ()
        else:
            fields, odd = value.load()
    except (wire.MalformedLine, RecursionError) as e:
        made.unread.append(value.unread(made.path, f"no JSON: {e}"))
        return None
    if not isinstance(fields, dict):
        made.unread.append(value.unread(made.path, "no JSON object"))
        return None
    return Record(fields, value.pointer, odd)
