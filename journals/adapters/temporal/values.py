"""Temporal's payloads as JSON values, the same for every form in which an export writes them.

One payload is written as `{"metadata": {"encoding": <base64>}, "data": <base64>}`, as the same with plain text and a plain
value (the human-readable download), or as the bare value (the HTTP API's shorthand). Each value is looked at by itself.
Values come out with sorted keys and numbers as RFC 8785 writes them, so that the forms give equal lines. Bytes that are no
JSON stay what they are: `{"$payload": {"encoding", "bytes", "sha256", "base64"}}`. Nothing is decrypted, guessed or revived.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import math
import re
from collections.abc import Mapping
from operator import itemgetter
from typing import Any, Final

from drainboard import wire

_MIME: Final = re.compile(r"[a-z]+/[A-Za-z0-9.+_-]+\Z")
_PAYLOAD_KEYS: Final = frozenset(("metadata", "data", "externalPayloads"))
_HOLDERS: Final = frozenset(
    [
        "input",
        "result",
        "details",
        "lastHeartbeatDetails",
        "lastCompletionResult",
        "fields",
        "indexedFields",
        "summary",
        "args",
        "success",
        "encodedAttributes",
        "heartbeatDetails",
    ]
)
"""Attributes whose children are payloads; elsewhere only what looks like a payload is read as one."""


class Values:
    """Decodes the values of one event and collects what is odd about them."""

    def __init__(self) -> None:
        self.odd: dict[str, None] = {}
        self.shorthand = False  # a list of bare values was met, as only the HTTP API's shorthand writes it

    def tree(self, value: Any) -> Any:
        """An event's attributes with every payload in them decoded."""
        if isinstance(value, list):
            return [self.tree(v) for v in value]
        if not isinstance(value, dict):
            return self.plain(value)
        if _encoding(value):
            return self.payload(value)
        return {key: self._leaves(v) if key in _HOLDERS else self.tree(v) for key, v in _sorted(value)}

    def payload(self, value: Any) -> Any:
        """One payload in any of its forms."""
        found = _encoding(value)
        if not found:
            return self.plain(value)
        encoding, packed = found
        data = value.get("data")
        if encoding == "binary/null":
            return None
        if not encoding.startswith("json/"):
            return self._opaque(encoding, value, packed)
        if packed and isinstance(data, str):
            return self._json(encoding, value, data)
        return self._named(self.plain(data), value, packed)

    def plain(self, value: Any) -> Any:
        """A JSON value with sorted keys and plain numbers."""
        if isinstance(value, dict):
            return {key: self.plain(v) for key, v in _sorted(value)}
        if isinstance(value, list):
            return [self.plain(v) for v in value]
        return self._number(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value

    def _leaves(self, value: Any) -> Any:
        if isinstance(value, list):
            self.shorthand = self.shorthand or any(not _encoding(v) for v in value)
            return [self.payload(v) for v in value]
        if isinstance(value, dict) and not _encoding(value):
            if set(value) == {"payloads"} and isinstance(value["payloads"], list):
                return [self.payload(v) for v in value["payloads"]]
            return {key: self._leaf(v) for key, v in _sorted(value)}
        return self.payload(value)

    def _leaf(self, value: Any) -> Any:
        """A named payload (memo, search attribute), a named list of them (marker details) or a holder of such."""
        if isinstance(value, dict) and not _encoding(value):
            inner = set(value) == {"payloads"} or set(value) & _HOLDERS
            return self._leaves(value) if inner else self.plain(value) if not _holds(value) else self.tree(value)
        return [self.payload(v) for v in value] if isinstance(value, list) else self.payload(value)

    def _json(self, encoding: str, value: dict[str, Any], data: str) -> Any:
        raw = _unpack(data)
        if raw is None:
            return self._opaque(encoding, value, packed=True)
        try:
            found, odd = wire.decode(raw)
        except wire.MalformedLine:
            return self._opaque(encoding, value, packed=True)
        self.odd.update(dict.fromkeys(odd))
        if odd == ("too_deep",):
            return {"$payload": {"encoding": encoding, "bytes": len(raw), "text": raw.decode("utf-8", "replace")}}
        return self._named(self.plain(found), value, packed=True)

    def _named(self, found: Any, value: dict[str, Any], packed: bool) -> Any:
        """A protobuf message in JSON keeps its type's name, as the shorthand writes it."""
        name = _metadata(value, packed).get("messageType")
        return dict(_sorted({**found, "_protoMessageType": name})) if name and isinstance(found, dict) else found

    def _opaque(self, encoding: str, value: dict[str, Any], packed: bool) -> Any:
        self.odd["encrypted_payload" if "encrypted" in encoding else "opaque_payload"] = None
        data = value.get("data")
        made: dict[str, Any] = {"encoding": encoding}
        made.update((k, v) for k, v in sorted(_metadata(value, packed).items()) if k != "encoding")
        raw = _unpack(data) if isinstance(data, str) else None
        if raw is None:
            return {"$payload": {**made, "data": self.plain(data)}}
        return {"$payload": {**made, "bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest(), "base64": data}}

    def _number(self, value: int | float) -> Any:
        if isinstance(value, int):
            return value
        if isinstance(value, wire.Number) and (not math.isfinite(value) or _inexact(value)):
            if value.text in ("NaN", "Infinity", "-Infinity"):
                self.odd["non_standard_json"] = None
            return {"$number": value.text}
        return int(value) if value.is_integer() and abs(value) < 2**53 else float(value)


def is_encrypted(value: Any) -> bool:
    """Whether the value, or one of the arguments in it, is a payload that a codec encrypted."""
    if isinstance(value, list):
        return any(is_encrypted(v) for v in value)
    found = dict_of(value)
    if "$payload" in found:
        return "encrypted" in text_of(dict_of(found["$payload"]).get("encoding"))
    return set(found) == {"args", "kwargs"} and is_encrypted(found["args"])


def camel(text: Any, prefix: str = "") -> str:
    """`EVENT_TYPE_TIMER_FIRED` as `TimerFired`; names without the prefix stay as they are. "" for what is no text."""
    if not isinstance(text, str):
        return ""
    if prefix and text.startswith(prefix):
        text = text[len(prefix) :]
    elif not text.isupper():
        return text
    return "".join(part.capitalize() for part in text.split("_"))


def attributes_key(event: Mapping[str, Any]) -> str:
    """The field of an event that holds its attributes; "" when there is none."""
    return next((k for k in event if k.endswith("EventAttributes") and isinstance(event[k], dict)), "")


def type_of(event: Mapping[str, Any]) -> str:
    """An event's type in camel case: as stated in either spelling, else from the name of its attributes."""
    stated = camel(event.get("eventType"), "EVENT_TYPE_")
    key = attributes_key(event).removesuffix("EventAttributes")
    return stated or (key[:1].upper() + key[1:]) or "Event"


def text_of(value: Any) -> str:
    """The value if it is text, else ""."""
    return value if isinstance(value, str) else ""


def dict_of(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def number_of(value: Any) -> int | None:
    """An int64, which protobuf writes as text; None for anything else."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None


def _holds(value: dict[str, Any]) -> bool:
    return any(_encoding(v) for v in value.values())


def _sorted(value: dict[str, Any]) -> list[tuple[str, Any]]:
    if all(map(str.isascii, value)):
        return sorted(value.items(), key=itemgetter(0))
    return sorted(value.items(), key=lambda kv: kv[0].encode("utf-16-be", "surrogatepass"))


def _inexact(value: wire.Number) -> bool:
    try:
        wire.canonical(value)
    except wire.Ambiguous:
        return True
    return False


def _encoding(value: Any) -> tuple[str, bool] | None:
    """The payload's encoding and whether its texts are base64; None when the value is no payload."""
    if not isinstance(value, dict) or not set(value) <= _PAYLOAD_KEYS:
        return None
    text = dict_of(value.get("metadata")).get("encoding")
    if not isinstance(text, str):
        return None
    raw = _unpack(text)
    packed = raw.decode("latin-1") if raw else ""
    if _MIME.match(packed):
        return packed, True
    return (text, False) if _MIME.match(text) else None


def _metadata(value: dict[str, Any], packed: bool) -> dict[str, str]:
    made = {}
    for key, text in dict_of(value.get("metadata")).items():
        raw = _unpack(text) if packed and isinstance(text, str) else None
        made[key] = raw.decode("utf-8", "replace") if raw is not None else text_of(text)
    return made


def _unpack(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
