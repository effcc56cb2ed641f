"""A span as every form gives it (OTLP JSON in any spelling, OTLP protobuf), and its ids, times and attribute values. Pure."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from journals.adapters.values import integer

__all__ = ["Event", "Source", "Span", "any_value", "attributes_of", "hex_id", "member", "nanos", "span_of"]

_HEX: Final = re.compile(r"[0-9a-fA-F]+")
_SNAKE: Final = re.compile(r"(?<=[a-z0-9])([A-Z])")
_STATUS: Final = {"STATUS_CODE_UNSET": 0, "STATUS_CODE_OK": 1, "STATUS_CODE_ERROR": 2, "UNSET": 0, "OK": 1, "ERROR": 2}
_KINDS: Final = ("unspecified", "internal", "server", "client", "producer", "consumer")


@dataclass(frozen=True, slots=True)
class Source:
    """What sent a span: its resource and its instrumentation scope."""

    resource: Mapping[str, Any]
    scope: str = ""  # `name version`

    def text(self, *names: str) -> str:
        """The first of these resource attributes that is a text; "" when none is."""
        return next((v for n in names if isinstance(v := self.resource.get(n), str) and v), "")


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    at: int | None  # nanoseconds since 1970
    attributes: Mapping[str, Any]


@dataclass(slots=True, kw_only=True)
class Span:
    """One span. Ids are lower-case hex, "" when missing or zero; times are nanoseconds since 1970, None when missing or zero."""

    path: str
    record: str
    source: Source
    trace: str
    id: str
    parent: str
    name: str
    kind: str
    start: int | None
    end: int | None
    attributes: dict[str, Any]
    failed: bool  # status code 2
    status: str  # the status' message
    events: Sequence[Event] = ()
    links: Sequence[Mapping[str, Any]] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)  # attributes, events, links that the sender left out
    unknown: Mapping[str, Any] = field(default_factory=dict)  # members that OTLP does not have, and ids that are none

    def text(self, *names: str) -> str:
        """The first of these attributes that is a non-empty text; "" when none is."""
        return next((v for n in names if isinstance(v := self.attributes.get(n), str) and v), "")

    def number(self, *names: str) -> int | None:
        return next((v for n in names if (v := integer(self.attributes, n)) is not None), None)


def member(fields: Mapping[str, Any], name: str, default: Any = None) -> Any:
    """A member by its camelCase name, or by its snake_case one as Python writes it."""
    if name in fields:
        return fields[name]
    return fields.get(_SNAKE.sub(r"_\1", name).lower(), default)


def span_of(fields: Mapping[str, Any], *, path: str, record: str, source: Source) -> Span:
    """The span of a decoded JSON object."""
    status = member(fields, "status")
    status = status if isinstance(status, Mapping) else {}
    trace, span, parent = (member(fields, f"{n}Id") for n in ("trace", "span", "parentSpan"))
    odd = {k: v for k, v in fields.items() if _SNAKE.sub(r"_\1", k).lower() not in _MEMBERS}
    ids = (("trace_id", trace, 16), ("span_id", span, 8), ("parent_span_id", parent, 8))
    odd |= {n: given for n, given, size in ids if given and not hex_id(given, size) and set(str(given)) != {"0"}}
    name, kind = member(fields, "name"), member(fields, "kind")
    return Span(
        path=path,
        record=record,
        source=source,
        trace=hex_id(trace, 16),
        id=hex_id(span, 8),
        parent=hex_id(parent, 8),
        name=name if isinstance(name, str) else "",
        kind=_kind(kind),
        start=nanos(member(fields, "startTimeUnixNano")),
        end=nanos(member(fields, "endTimeUnixNano")),
        attributes=attributes_of(member(fields, "attributes")),
        failed=_code(member(status, "code")) == 2,
        status=str(member(status, "message") or ""),
        events=[_event(e) for e in _objects(member(fields, "events"))],
        links=[_link(link) for link in _objects(member(fields, "links"))],
        dropped=_dropped(fields),
        unknown=odd,
    )


_MEMBERS: Final = frozenset(
    ("trace_id", "span_id", "parent_span_id", "trace_state", "flags", "name", "kind", "start_time_unix_nano", "end_time_unix_nano",
     "attributes", "dropped_attributes_count", "events", "dropped_events_count", "links", "dropped_links_count", "status")
)  # fmt: skip


def _dropped(fields: Mapping[str, Any]) -> dict[str, int]:
    counts = {what: nanos(member(fields, f"dropped{what.title()}Count")) for what in ("attributes", "events", "links")}
    return {what: count for what, count in counts.items() if count}


def _event(fields: Mapping[str, Any]) -> Event:
    name = member(fields, "name")
    return Event(
        name if isinstance(name, str) else "",
        nanos(member(fields, "timeUnixNano")),
        attributes_of(member(fields, "attributes")),
    )


def _link(fields: Mapping[str, Any]) -> dict[str, Any]:
    made = {"trace": hex_id(member(fields, "traceId"), 16), "span": hex_id(member(fields, "spanId"), 8)}
    told = attributes_of(member(fields, "attributes"))
    return {**made, "attributes": told} if told else made


def _objects(given: Any) -> list[Mapping[str, Any]]:
    return [g for g in given if isinstance(g, Mapping)] if isinstance(given, list) else []


def _code(given: Any) -> int:
    if isinstance(given, str):
        return _STATUS.get(given, int(given) if given.isascii() and given.isdigit() and len(given) < 9 else 0)
    return given if isinstance(given, int) else 0


def _kind(given: Any) -> str:
    if isinstance(given, str):
        return given.removeprefix("SPAN_KIND_").lower()
    return _KINDS[given] if isinstance(given, int) and 0 < given < len(_KINDS) else ""


def hex_id(given: Any, size: int) -> str:
    """An id of `size` bytes as lower-case hex, from hex, base64 or bytes; "" for a zero id and for what is none."""
    data: bytes | None = None
    if isinstance(given, bytes):
        data = given
    elif isinstance(given, str) and len(given) == 2 * size and _HEX.fullmatch(given):
        data = bytes.fromhex(given)
    elif isinstance(given, str):
        try:
            data = base64.b64decode(given + "=" * (-len(given) % 4), validate=True)
        except (binascii.Error, ValueError):
            return ""
    return data.hex() if data is not None and len(data) == size and any(data) else ""


def nanos(given: Any) -> int | None:
    """A count or time as JSON writes an unsigned 64-bit number; None for zero, and for what is none."""
    if isinstance(given, str):
        given = int(given) if given.isascii() and given.isdigit() and len(given) <= 20 else None
    if isinstance(given, float):
        given = int(given) if given.is_integer() else None
    return given if isinstance(given, int) and not isinstance(given, bool) and 0 < given < 2**64 else None


def attributes_of(given: Any) -> dict[str, Any]:
    """Attributes by key, from OTLP's list of `{key, value}` or from a plain object. A key that comes again gets `#2`."""
    if isinstance(given, Mapping):
        return {str(k): v for k, v in given.items()}
    made: dict[str, Any] = {}
    for item in _objects(given):
        key, n = str(item.get("key", "")), 1
        while (name := key if n == 1 else f"{key}#{n}") in made:
            n += 1
        made[name] = any_value(item.get("value"))
    return made


def any_value(given: Any) -> Any:
    """The value of OTLP's `AnyValue`; what is not of its shape stays as it is."""
    if not isinstance(given, Mapping) or len(given) != 1:
        return None if given == {} else given
    ((form, value),) = given.items()
    form = _SNAKE.sub(r"_\1", str(form)).lower()
    if form == "int_value":
        return int(value) if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,19}", value) else value
    if form in ("string_value", "bool_value", "double_value"):
        return value
    if form == "bytes_value":
        return {"base64": value}
    inner = value.get("values") if isinstance(value, Mapping) else None
    if form == "array_value":
        return [any_value(v) for v in inner] if isinstance(inner, list) else inner or []
    if form == "kvlist_value":
        return attributes_of(inner) if isinstance(inner, list) else inner or {}
    return given
