"""The forms in which spans come: OTLP JSON, one request a line or one document, and OTLP protobuf. Pure.

JSON is walked value by value, so that a torn or damaged file gives the spans that are whole in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from drainboard import wire

from journals.adapters.base import InputFile, Item, Note, Partial, Refused, Unread, shown
from journals.adapters.jsonscan import Value, documents, is_whole, walk
from journals.adapters.otel.proto import Torn, read_proto
from journals.adapters.otel.span import Source, Span, attributes_of, member, span_of

__all__ = ["Read", "is_json", "read_spans"]

REQUEST: Final = ("resourceSpans", "resource_spans")
_SCOPES: Final = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans", "instrumentation_library_spans")
_SCOPE: Final = ("scope", "instrumentationLibrary", "instrumentation_library")
_OTHERS: Final = {
    "resourceLogs": "logs",
    "resource_logs": "logs",
    "resourceMetrics": "metrics",
    "resource_metrics": "metrics",
    "resourceProfiles": "profiles",
}
_EXPORT: Final = "export traces as OTLP JSON lines (the collector's file exporter) or send them to /v1/traces"


@dataclass(slots=True)
class Read:
    """What a file held besides its spans."""

    unread: list[Unread] = field(default_factory=list)
    torn: str = ""  # why its end is missing
    lost: str = ""  # why something in its middle is missing
    others: Counter[str] = field(default_factory=Counter)  # records that are no spans, by what they are

    def items(self, path: str, spans: int, cut: str) -> Iterator[Item]:
        """The unread stretches, notes, and what they mean for the file."""
        yield from self.unread
        for what, count in sorted(self.others.items()):
            yield Note(path, f"{count} records of {what} are no spans")
        if not spans and not self.unread:
            held = f"it holds {', '.join(sorted(self.others))}; " if self.others else ""
            yield Refused(path, f"no span is in the file: {held}{_EXPORT}")
            return
        for code, reason in (("torn_tail", cut or self.torn), ("missing_entry", self.lost)):
            if reason:
                yield Partial(path, reason, code=code)


def is_json(head: bytes) -> bool:
    return head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")


def read_spans(file: InputFile, told: Read) -> Iterator[Span]:
    """The spans of one file in its order. What else it holds is in `told` when the last one was given."""
    data = file.read()
    if is_json(data[:4_096]):
        line, at = 1, 0
        for document in documents(data):
            line, at = line + data.count(b"\n", at, document.start), document.start
            yield from _document(document, file.path, line, told)
        return
    for found in read_proto(data, file.path):
        if isinstance(found, Span):
            yield found
        elif isinstance(found, Torn):
            if not any(u.byte == found.at for u in told.unread) and not (found.tail and told.torn):
                told.unread.append(
                    Unread(file.path, 1, found.at, "torn" if found.tail else "damaged", f"{len(data) - found.at} bytes")
                )
            if found.tail:
                told.torn = "the file ends inside a record"
            else:
                told.lost = f"the file is damaged at byte {found.at}"
        else:
            told.unread.append(found)


def _document(document: Value, path: str, line: int, told: Read) -> Iterator[Span]:
    whole = is_whole(document) and document.form in ("{", "[")
    if whole and (fields := _plain(document)) is not None:
        yield from _spans(fields, path, line, told)
        return
    requests = list(walk(document, _is_request)) if document.form in ("{", "[") else []
    last = document.start
    for request in requests:
        at = line + document.data.count(b"\n", document.start, request.start)
        for span, end in _request(request, path, f"line={at}", told):
            last = end
            if span is not None:
                yield span
    if whole and not requests:
        _other(document, path, told)
    elif not whole:
        _damaged(document, last, path, told)
    elif document.form == "{" and not _is_request(document):
        told.others["another kind around the requests"] += 1


def _plain(document: Value) -> Mapping[str, Any] | None:
    """A request that is standard JSON and shaped as OTLP says, decoded at once; None for what has to be walked."""
    if document.form != "{" or not _is_request(document):
        return None
    try:
        fields, odd = document.load()
    except wire.MalformedLine:
        return None
    return fields if not odd and isinstance(fields, Mapping) else None


def _spans(fields: Mapping[str, Any], path: str, line: int, told: Read) -> Iterator[Span]:
    for i, resource_spans in enumerate(_listed(fields, REQUEST)):
        resource = resource_spans.get("resource") if isinstance(resource_spans, Mapping) else None
        attributes = attributes_of(member(resource, "attributes")) if isinstance(resource, Mapping) else {}
        for j, scope_spans in enumerate(_listed(resource_spans, _SCOPES)):
            scope = next((scope_spans[n] for n in _SCOPE if n in scope_spans), None) if isinstance(scope_spans, Mapping) else None  # fmt: skip
            source = Source(attributes, _scope(scope) if isinstance(scope, Mapping) else "")
            for k, span in enumerate(_listed(scope_spans, ("spans",))):
                place = f"line={line}/{i}/{j}/{k}"
                if isinstance(span, Mapping):
                    yield span_of(span, path=path, record=place, source=source)
                else:
                    told.unread.append(Unread(path, line, 0, "not a span", shown(f"{place}: {span}")))


def _listed(outer: Any, names: tuple[str, ...]) -> Iterator[Any]:
    for name in names:
        found = outer.get(name) if isinstance(outer, Mapping) else None
        if isinstance(found, list):
            yield from found


def _is_request(value: Value) -> bool:
    return value.form == "{" and any(name in REQUEST for name, _ in value.members())


def _other(document: Value, path: str, told: Read) -> None:
    names = [name for name, _ in document.members()] if document.form == "{" else []
    what = next((_OTHERS[name] for name in names if name in _OTHERS), "")
    if what:
        told.others[what] += 1
    else:
        told.unread.append(document.unread(path, "no `resourceSpans` in it"))


def _damaged(document: Value, last: int, path: str, told: Read) -> None:
    """What of a document that is not whole gave no span, as one stretch."""
    at = max(last, document.start)
    rest = Value(document.data, at, document.end)
    tail = document.end >= len(document.data.rstrip())
    told.unread.append(rest.unread(path, "torn" if tail else "not JSON"))
    if tail:
        told.torn = "the file ends inside a record"
    else:
        told.lost = f"line {document.line} is damaged"


def _request(request: Value, path: str, record: str, told: Read) -> Iterator[tuple[Span | None, int]]:
    """The spans of a request, each with the byte behind it; None for what is unread."""
    for i, resource_spans in enumerate(_elements(request, REQUEST)):
        resource = _loaded(resource_spans, ("resource",))
        attributes = attributes_of(member(resource, "attributes"))
        for j, scope_spans in enumerate(_elements(resource_spans, _SCOPES)):
            source = Source(attributes, _scope(_loaded(scope_spans, _SCOPE)))
            for k, value in enumerate(_elements(scope_spans, ("spans",))):
                if value.torn:
                    continue  # told as the torn stretch of its document
                place = f"{record}/{i}/{j}/{k}"
                yield _span(value, path, place, source, told), value.end


def _span(value: Value, path: str, record: str, source: Source, told: Read) -> Span | None:
    try:
        fields, odd = value.load()
    except wire.MalformedLine as e:
        told.unread.append(value.unread(path, f"not JSON: {shown(str(e))}"))
        return None
    if not isinstance(fields, Mapping):
        told.unread.append(value.unread(path, "not a span"))
        return None
    if "too_deep" in odd:
        fields = {**fields, **_by_attribute(value)}
    made = span_of(fields, path=path, record=record, source=source)
    if odd:
        made.unknown = {**made.unknown, "oddities": list(odd)}
    return made


def _by_attribute(span: Value) -> dict[str, Any]:
    """The attributes of a span or resource that is too deep to unfold, one by one, so that the others are told."""
    made = []
    for item in _elements(span, ("attributes",)):
        try:
            made.append(item.load()[0])
        except wire.MalformedLine:
            return {}
    return {"attributes": made}


def _elements(outer: Value, names: tuple[str, ...]) -> Iterator[Value]:
    for name, value in outer.members():
        if name in names:
            yield from value.elements()


def _loaded(outer: Value, names: tuple[str, ...]) -> Mapping[str, Any]:
    for name, value in outer.members():
        if name in names and not value.torn:
            try:
                found, odd = value.load()
            except wire.MalformedLine:
                return {}
            found = found if isinstance(found, Mapping) else {}
            return {**found, **_by_attribute(value)} if "too_deep" in odd else found
    return {}


def _scope(fields: Mapping[str, Any]) -> str:
    return " ".join(str(v) for v in (fields.get("name"), fields.get("version")) if v)
