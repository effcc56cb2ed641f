"""Text and JSON that PostgreSQL can hold: NUL and lone surrogates are kept by `encode_text`, or shown by a mark. Pure but for that."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from drainboard import wire

from journals.text import decode_text, encode_text

__all__ = ["escaped", "packed", "shown", "shown_id", "unpacked", "versions_text"]

_UNSAFE = re.compile("[\x00\ud800-\udfff]")
_OUTSIDE_ASCII_CONTROL = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff]")  # JSON itself escapes what is below U+0020
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def packed(value: Any) -> Any:
    """JSON for a jsonb column; `unpacked` gives it back. Numbers that a double does not keep become their text."""
    if isinstance(value, str):
        return encode_text(value)
    if isinstance(value, wire.Number):
        return value.text
    if isinstance(value, Mapping):
        return {encode_text(str(k)): packed(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [packed(v) for v in value]
    return None if value is wire.MISSING else value


def versions_text(value: Mapping[str, Any]) -> bytes:
    """`packed` as JSON text, for the small objects that every step has: nearly all are fine as they are, which one encoding tells."""
    try:
        raw = msgspec.json.encode(value)
    except (UnicodeEncodeError, TypeError):
        return msgspec.json.encode(packed(value))
    return msgspec.json.encode(packed(value)) if b"\\u0000" in raw or b'"\\\\x' in raw else raw


def unpacked(value: Any) -> Any:
    """What `packed` was given."""
    if isinstance(value, str):
        return decode_text(value)
    if isinstance(value, dict):
        return {decode_text(k): unpacked(v) for k, v in value.items()}
    if isinstance(value, list):
        return [unpacked(v) for v in value]
    return value


def shown(text: str, limit: int | None = None) -> str:
    """One line of text with control characters and lone surrogates written as `\\x1b`, `\\ud83d`; longer than `limit` it ends in `…`."""
    cut = text if limit is None or len(text) <= limit else text[: limit - 1] + "…"
    return _CONTROL.sub(_mark, cut.replace("\n", " ").replace("\t", " "))


def shown_id(text: str) -> str:
    """A run's id with control characters and lone surrogates written as `\\x1b`; line ends and tabs stay, so that ids stay distinct."""
    return _CONTROL.sub(_mark, text)


def escaped(json: str) -> str:
    """The same JSON for a terminal or a pipe: what a terminal would obey, and lone surrogates, as `\\u009b`."""
    return _OUTSIDE_ASCII_CONTROL.sub(lambda m: f"\\u{ord(m.group()):04x}", json)


def _mark(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
