"""Finds the parts of a Temporal export in its bytes: documents, their top-level values and the events of a history.

Nothing here needs the file to be whole: what stands before a tear is found, and after a damaged event the next one.
Offsets are bytes from the start of the unpacked file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
from drainboard import wire

from journals.adapters.base import shown
from journals.adapters.jsonscan import loose, value_end
from journals.adapters.temporal.values import attributes_key, dict_of, number_of, text_of, type_of

_SPACE = re.compile(rb"[ \t\r\n]*")
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_EVENT = re.compile(rb'\{\s*"eventId"\s*:')


@dataclass(frozen=True, slots=True)
class Span:
    """Where a value stands; `pointer` says so within its document (`/events/3`)."""

    start: int
    end: int
    pointer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What must be known of an event before the first line of its run is made."""

    span: Span
    number: int  # eventId; 0 when it has none
    type: str  # camel case, without EVENT_TYPE_
    task: int  # the workflow task that wrote it, for commands
    stored: bool  # it has a taskId: the runtime has written it to the history
    workflow_id: str = ""  # of the first event
    run_id: str = ""  # of the first event, or the new run of a reset
    base_id: str = ""  # the run that a reset copied the events up to here from


@dataclass(frozen=True, slots=True)
class Broken:
    """A stretch that could not be read. `torn`: the file ends inside it."""

    start: int
    end: int
    reason: str
    torn: bool = False


@dataclass(slots=True)
class Document:
    """One top-level JSON value of a file, unfolded as far as a history needs it."""

    start: int
    end: int = 0
    fields: dict[str, Span] = field(default_factory=dict)  # of an object, without the events
    events: list[Head] = field(default_factory=list)
    has_events: bool = False
    items: list[Span] = field(default_factory=list)  # of an array that holds no events
    broken: list[Broken] = field(default_factory=list)
    wasted: int = 0  # bytes looked at for events that turned out to be damaged

    def lose(self, start: int, end: int, reason: str, *, torn: bool = False) -> None:
        """Keeps a stretch that could not be read; behind a tear there is nothing more to say."""
        if not any(b.torn for b in self.broken):
            self.broken.append(Broken(start, end, reason, torn))


def documents(data: bytes) -> Iterator[Document]:
    """Every top-level value of the file, in order. A file of lines gives one document a line."""
    at = _space(data, 3 if data.startswith(b"\xef\xbb\xbf") else 0)
    while at < len(data):
        doc = Document(at)
        _read_document(data, doc, whole=doc.start < 4)
        yield doc
        at = _space(data, max(doc.end, at + 1))


def safe_start(data: bytes, at: int) -> str:
    """At most 80 safe characters of what stands on the line at `at`, for reports."""
    return shown(data[at : at + 400].split(b"\n", 1)[0])


def line_of(data: bytes, at: int) -> int:
    """The line, from 1, on which byte `at` stands."""
    return data.count(b"\n", 0, at) + 1


def _space(data: bytes, at: int) -> int:
    found = _SPACE.match(data, at)
    return found.end() if found else at


def _read_document(data: bytes, doc: Document, *, whole: bool) -> None:
    """Fills `doc`; `whole`: it is the first of the file, so what is no JSON is the whole file and not one bad line."""
    first = data[doc.start : doc.start + 1]
    if first == b"{":
        doc.end = _object(data, doc, doc.start, "")
    elif first == b"[" and _EVENT.match(data, _space(data, doc.start + 1)):
        doc.has_events = True
        doc.end = _events(data, doc, doc.start, "")
    elif first == b"[":
        doc.end = _items(data, doc)
    else:
        newline = -1 if whole else data.find(b"\n", doc.start)
        doc.end = len(data) if newline < 0 else newline + 1
        doc.lose(doc.start, doc.end, "this is not a JSON object or array")


def _object(data: bytes, doc: Document, at: int, prefix: str) -> int:
    """Walks an object's members into `doc`; returns where it ends."""
    at = _space(data, at + 1)
    while data[at : at + 1] != b"}":
        name = _STRING.match(data, at)
        colon = _space(data, name.end()) if name else at
        if name is None or data[colon : colon + 1] != b":":
            return _give_up(data, doc, at, prefix)
        key = name.group()[1:-1].decode("utf-8", "replace")
        start = _space(data, colon + 1)
        end = _member(data, doc, start, key, prefix)
        if end < 0:
            return _give_up(data, doc, start, prefix)
        at = _space(data, end)
        if data[at : at + 1] == b",":
            at = _space(data, at + 1)
    return at + 1


def _member(data: bytes, doc: Document, start: int, key: str, prefix: str) -> int:
    first = data[start : start + 1]
    pointer = f"{prefix}/{key}"
    if key == "events" and first == b"[":
        doc.has_events = True
        return _events(data, doc, start, pointer)
    if key == "history" and not prefix and first == b"{":
        return _object(data, doc, start, pointer)
    end = value_end(data, start)
    if end >= 0:
        doc.fields[key] = Span(start, end, pointer)
    return end


def _give_up(data: bytes, doc: Document, at: int, prefix: str) -> int:
    """The text is damaged outside an event: what is left is looked through for events, and named as unread."""
    found = _EVENT.search(data, at)
    if found is None:
        torn = not data[at:].strip() or value_end(data, doc.start) < 0
        doc.lose(at, len(data), "the file ends inside this value" if torn else "not JSON", torn=torn)
        return len(data)
    doc.lose(at, found.start(), "damaged: not JSON up to the next event")
    doc.has_events = True
    return _elements(data, doc, found.start(), f"{prefix}/events")


def _events(data: bytes, doc: Document, at: int, pointer: str) -> int:
    return _elements(data, doc, _space(data, at + 1), pointer)


def _elements(data: bytes, doc: Document, at: int, pointer: str) -> int:
    """Collects the events from `at` on; returns where their array ends (the end of the data when it is torn)."""
    while True:
        at = _space(data, at)
        if data[at : at + 1] == b",":
            at = _space(data, at + 1)
        if data[at : at + 1] == b"]":
            return at + 1
        if at >= len(data):
            doc.lose(at, at, "the file ends inside its list of events", torn=True)
            return at
        end = value_end(data, at)
        head = _head(data, Span(at, end, f"{pointer}/{len(doc.events) + len(doc.broken)}")) if end >= 0 else None
        if head is not None:
            doc.events.append(head)
            at = end
        else:
            at = _skip_event(data, doc, at, end)


def _event(raw: bytes) -> Any:
    """The event's JSON value, as its head needs it: the quick way where that gives the same, else as `loose`.

    Raises `wire.MalformedLine` for what is no JSON.
    """
    if raw.count(b"{") + raw.count(b"[") <= wire.MAX_DEPTH and raw.count(b":") <= wire.MAX_KEYS:
        try:
            return _quick(raw)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            pass
    return loose(raw)[0]


_quick = msgspec.json.Decoder().decode


def _head(data: bytes, span: Span) -> Head | None:
    try:
        event = _event(data[span.start : span.end])
    except wire.MalformedLine:
        return None
    if not isinstance(event, dict):
        return None
    kind, attributes = type_of(event), dict_of(event.get(attributes_key(event)))
    first = kind == "WorkflowExecutionStarted"
    reset = kind == "WorkflowTaskFailed" and text_of(attributes.get("cause")).replace("_", "").upper().endswith(
        "RESETWORKFLOW"
    )
    run_id = attributes.get("originalExecutionRunId") if first else attributes.get("newRunId") if reset else ""
    return Head(
        span=span,
        number=number_of(event.get("eventId")) or 0,
        type=kind,
        stored="taskId" in event,
        task=number_of(attributes.get("workflowTaskCompletedEventId")) or 0,
        workflow_id=text_of(attributes.get("workflowId")) if first else "",
        run_id=text_of(run_id),
        base_id=text_of(attributes.get("baseRunId")) if reset else "",
    )


def _skip_event(data: bytes, doc: Document, at: int, end: int) -> int:
    """Names the damaged event at `at` and returns where the next one begins."""
    doc.wasted += (len(data) if end < 0 else end) - at
    if doc.wasted > 4 * len(data) + 1_000_000:  # nested openings without ends would make the search quadratic
        doc.lose(at, len(data), "damaged beyond repair: too many events that do not end", torn=True)
        return len(data)
    found = _EVENT.search(data, at + 1)
    if found is not None:
        doc.lose(at, found.start(), "damaged: this event is not JSON")
        return found.start()
    if end >= 0:
        doc.lose(at, end, "damaged: this is not an event")
        return end
    doc.lose(at, len(data), "the file ends inside this event", torn=True)
    return len(data)


def _items(data: bytes, doc: Document) -> int:
    at = _space(data, doc.start + 1)
    while data[at : at + 1] != b"]":
        end = value_end(data, at)
        if end < 0:
            doc.lose(at, len(data), "the file ends inside this list", torn=True)
            return len(data)
        doc.items.append(Span(at, end, f"/{len(doc.items)}"))
        at = _space(data, end)
        if data[at : at + 1] == b",":
            at = _space(data, at + 1)
    return at + 1
