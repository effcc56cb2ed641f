"""OTLP protobuf: one `ExportTraceServiceRequest`, or many with their lengths before them. Pure.

The outer levels are walked by their tags, so that a torn or damaged file still gives the spans that are whole; spans,
resources and scopes are decoded by OpenTelemetry's own messages.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Message

from journals.adapters.base import Unread
from journals.adapters.otel.span import Event, Source, Span, hex_id

__all__ = ["Torn", "frames", "looks_like", "read_proto"]

_KINDS: Final = ("", "internal", "server", "client", "producer", "consumer")
_DEEPEST: Final = 100


@dataclass(frozen=True, slots=True)
class Torn:
    """The file ends at `at` inside a record (`tail`), or has damage there."""

    at: int
    tail: bool


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a message by its place in the file; `end` is beyond `limit` when the text runs out inside it."""

    number: int
    wire: int
    start: int
    end: int


def fields(data: bytes, start: int, end: int) -> Iterator[Field | Torn]:
    """The fields of a message that stands at `start` to `end`; ends at the first that is damaged, with a `Torn`."""
    at = start
    while at < end:
        begin = at
        tag, at = _varint(data, at, end)
        wire, number = tag & 7, tag >> 3
        if tag < 0 or number == 0 or wire not in (0, 1, 2, 5):
            yield Torn(begin, tag < 0 and end == len(data))
            return
        if wire == 0:
            value, stop = _varint(data, at, end)
            size = stop - at if value >= 0 else len(data) + 1
        elif wire == 2:
            size, at = _varint(data, at, end)
        else:
            size = 8 if wire == 1 else 4
        if size < 0 or at + size > end:
            yield Field(number, wire, at, at + size) if size >= 0 and wire == 2 else Torn(begin, end == len(data))
            return
        yield Field(number, wire, at, at + size)
        at += size


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """A varint and where it ends; -1 when it does not end in ten bytes or before `end`."""
    value = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
    return -1, at


def frames(data: bytes) -> list[tuple[int, int]]:
    """Where the requests of a file stand: the whole file, or records with a length of four bytes (big-endian, as the
    collector's file exporter writes) or a varint before each. The last one may end beyond the file."""
    if _is_request(data, 0, len(data)):
        return [(0, len(data))]
    for length in (_fixed, _delimited):
        made, at = [], 0
        while at < len(data):
            size, start = length(data, at)
            if size < 0 or not _is_request(data, start, start + size):
                break
            made.append((start, start + size))
            at = start + size
        if made and (at >= len(data) or len(made) > 1):
            return made if at >= len(data) else [*made, (at, len(data))]
    return [(0, len(data))]


def _fixed(data: bytes, at: int) -> tuple[int, int]:
    return (int.from_bytes(data[at : at + 4], "big"), at + 4) if at + 4 <= len(data) else (0, len(data))


def _delimited(data: bytes, at: int) -> tuple[int, int]:
    return _varint(data, at, len(data))


def _is_request(data: bytes, start: int, end: int) -> bool:
    """Whether a stretch begins as a request does: `resource_spans` (field 1) and in it nothing but fields 1, 2 and 3.
    An empty request is one."""
    if start >= end:
        return start == end
    first = next(fields(data, start, max(end, start)), None)
    if not isinstance(first, Field) or (first.number, first.wire) != (1, 2):
        return False
    inner = list(_few(data, first.start, min(first.end, len(data))))
    return bool(inner) and all(isinstance(f, Field) and f.wire == 2 and f.number in (1, 2, 3) for f in inner)


def _few(data: bytes, start: int, end: int) -> Iterator[Field | Torn]:
    for n, found in enumerate(fields(data, start, end)):
        if n == 3:
            return
        yield found


def looks_like(head: bytes) -> bool:
    """Whether the beginning of a file is OTLP protobuf that holds a span with a trace id of 16 bytes."""
    for start, end in frames(head)[:1]:
        for rs in fields(head, start, min(end, len(head))):
            for ss in _inside(head, rs, 1, 2):
                for span in _inside(head, ss, 2, 2):
                    first = next(_inside(head, span, 2, 1), None)
                    if first is not None:
                        return first.end - first.start == 16
    return False


def _inside(data: bytes, outer: Field | Torn, number: int, inner: int) -> Iterator[Field]:
    """The fields `inner` of `outer` when that is a message in field `number`."""
    if isinstance(outer, Field) and outer.number == number and outer.wire == 2:
        for found in fields(data, outer.start, min(outer.end, len(data))):
            if isinstance(found, Field) and found.number == inner and found.wire == 2:
                yield found


def read_proto(data: bytes, path: str) -> Iterator[Span | Unread | Torn]:
    """Every span of a file, what of it is no span, and where it is torn or damaged."""
    for n, (start, end) in enumerate(frames(data)):
        if end > len(data) and start >= len(data):
            yield Torn(start, True)
            return
        yield from _request(data, start, end, path, f"request={n + 1}")


def _request(data: bytes, start: int, end: int, path: str, record: str) -> Iterator[Span | Unread | Torn]:
    for found in fields(data, start, min(end, len(data))):
        if isinstance(found, Torn):
            yield found
        elif found.number == 1 and found.wire == 2:
            yield from _resource_spans(data, found, path, record)
    if end > len(data):
        yield Torn(len(data), True)


def _resource_spans(data: bytes, outer: Field, path: str, record: str) -> Iterator[Span | Unread | Torn]:
    inner = list(fields(data, outer.start, min(outer.end, len(data))))
    resource: dict[str, Any] = {}
    for found in inner:
        if isinstance(found, Field) and found.number == 1 and found.end <= len(data):
            try:
                resource = _attributes(Resource.FromString(data[found.start : found.end]).attributes)
            except DecodeError:
                yield Torn(found.start, False)
    for found in inner:
        if isinstance(found, Torn):
            yield found
        elif found.number == 2 or found.number == 1000:  # 1000: instrumentation_library_spans, until 2022
            yield from _scope_spans(data, found, resource, path, record)
    if outer.end > len(data):
        yield Torn(outer.start, True)


def _scope_spans(
    data: bytes, outer: Field, resource: dict[str, Any], path: str, record: str
) -> Iterator[Span | Unread | Torn]:
    inner = list(fields(data, outer.start, min(outer.end, len(data))))
    scope = ""
    for found in inner:
        if isinstance(found, Field) and found.number == 1 and found.wire == 2:
            try:
                told = InstrumentationScope.FromString(data[found.start : min(found.end, len(data))])
                scope = f"{told.name} {told.version}".strip()
            except DecodeError:
                yield Torn(found.start, found.end > len(data))
    source = Source(resource, scope)
    for found in inner:
        if isinstance(found, Torn):
            yield found
        elif found.number == 2 and found.wire == 2:
            if found.end > len(data):
                yield Torn(found.start, True)
                continue
            try:
                message = Message.FromString(data[found.start : found.end])
            except DecodeError:
                yield Unread(path, 1, found.start, "not a span", f"{found.end - found.start} bytes")
                continue
            yield _span(message, path, f"{record}/byte={found.start}", source)


def _span(given: Message, path: str, record: str, source: Source) -> Span:
    counts = {
        "attributes": given.dropped_attributes_count,
        "events": given.dropped_events_count,
        "links": given.dropped_links_count,
    }
    return Span(
        path=path,
        record=record,
        source=source,
        trace=hex_id(given.trace_id, 16),
        id=hex_id(given.span_id, 8),
        parent=hex_id(given.parent_span_id, 8),
        name=given.name,
        kind=_KINDS[given.kind] if 0 <= given.kind < len(_KINDS) else "",
        start=given.start_time_unix_nano or None,
        end=given.end_time_unix_nano or None,
        attributes=_attributes(given.attributes),
        failed=given.status.code == 2,
        status=given.status.message,
        events=[Event(e.name, e.time_unix_nano or None, _attributes(e.attributes)) for e in given.events],
        links=[_link(link) for link in given.links],
        dropped={what: count for what, count in counts.items() if count},
    )


def _link(given: Message.Link) -> dict[str, Any]:
    made = {"trace": hex_id(given.trace_id, 16), "span": hex_id(given.span_id, 8)}
    told = _attributes(given.attributes)
    return {**made, "attributes": told} if told else made


def _attributes(given: Any, depth: int = 0) -> dict[str, Any]:
    made: dict[str, Any] = {}
    item: KeyValue
    for item in given:
        key, n = item.key, 1
        while (name := key if n == 1 else f"{key}#{n}") in made:
            n += 1
        made[name] = _value(item.value, depth)
    return made


def _value(given: AnyValue, depth: int) -> Any:
    form = given.WhichOneof("value")
    if form is None:
        return None
    value = getattr(given, form)
    if form == "bytes_value":
        return {"base64": base64.b64encode(value).decode("ascii")}
    if form == "array_value":
        return [_value(v, depth + 1) for v in value.values] if depth < _DEEPEST else str(value)
    if form == "kvlist_value":
        return _attributes(value.values, depth + 1) if depth < _DEEPEST else str(value)
    return value
