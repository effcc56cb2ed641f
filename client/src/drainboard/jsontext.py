"""JSON text, read and written without losing anything: numbers keep their text, spans of values are found without recursion.

Standard library only. `drainboard.wire` gives all public names on.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final


class _Missing:
    """Stands for a field that the line does not have (`null` is a value, absence is not)."""

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False


MISSING: Final = _Missing()


MAX_DEPTH: Final = 128  # levels that a reader unfolds; deeper lines are kept as text
MAX_FIELDS: Final = 10_000  # of the line's own object, when it is wider than MAX_KEYS
MAX_KEYS: Final = 200_000  # keys of all objects of one line together; wider lines are kept as text


class MalformedLine(ValueError):
    """The bytes are not one JSON object with a `run` and a `kind`; the message names what is wrong and where."""


class Ambiguous(ValueError):
    """The value has more than one reading (duplicate key, NaN, unsafe integer, lone surrogate), so it has no digest."""


class Number(float):
    """A JSON number whose text is not what Python would print: the value is approximate, `.text` is exact."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> Number:
        made = super().__new__(cls, text)
        made.text = text
        return made

    def __repr__(self) -> str:
        return self.text


def number_text(text: str) -> float:
    """Reads one JSON number with a fraction or exponent; returns a `Number` where a float would change its text."""
    value = float(text)
    return value if repr(value) == text and math.isfinite(value) else Number(text)


class _Reader:
    """Collects what is odd while `json` decodes one line."""

    def __init__(self) -> None:
        self.odd: dict[str, None] = {}

    def pairs(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) != len(pairs):
            seen: set[str] = set()
            for key, _ in pairs:
                if key in seen:
                    self.odd[f"duplicate_key:{key}"] = None
                seen.add(key)
        return made

    def constant(self, text: str) -> Number:
        self.odd["non_standard_json"] = None
        return Number(text)


def depth_of(raw: bytes, *, stop_at: int = 1 << 30) -> int:
    """The deepest nesting of arrays and objects in JSON text, counted without recursion; stops early at `stop_at`."""
    depth = deepest = 0
    for token in _BRACKETS.finditer(raw):
        c = token.group()
        if c in b"[{":
            depth += 1
            deepest = max(deepest, depth)
            if deepest >= stop_at:
                return deepest
        elif c in b"]}":
            depth -= 1
    return deepest


_TEXT_BYTES = rb'"[^"\\]*(?:\\.[^"\\]*)*"'  # unrolled: a loop over single characters costs memory for each of them
_BRACKETS = re.compile(_TEXT_BYTES + rb"|[\[\]{}]", re.DOTALL)
_KEY = re.compile(rb'"[ \t\r\n]*:')
_INT_LIMIT = 4_000  # digits; beyond it int() is slow and refused by Python


def _integer(text: str) -> int | Number:
    return int(text) if len(text) <= _INT_LIMIT else Number(text)


def decode(raw: bytes) -> tuple[Any, tuple[str, ...]]:
    """The JSON value of `raw` and its oddities.

    Bytes that are not UTF-8 become lone surrogates (U+DC80 to U+DCFF, one each) and the oddity `not_utf8`; control characters
    that stand bare in a string are kept (`non_standard_json`), except NUL. Text deeper than `MAX_DEPTH` or with more than
    `MAX_KEYS` keys is not unfolded: `(MISSING, ("too_deep",))`. Raises `MalformedLine` for what is not JSON.
    """
    if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH and depth_of(raw, stop_at=MAX_DEPTH + 1) > MAX_DEPTH:
        return MISSING, ("too_deep",)
    if raw.count(b":") > MAX_KEYS and sum(1 for _ in _KEY.finditer(raw)) > MAX_KEYS:
        return MISSING, ("too_deep",)
    reader = _Reader()
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("utf-8", "surrogateescape")
        reader.odd["not_utf8"] = None
    try:
        value = _loads(text, reader, strict=True)
    except json.JSONDecodeError as e:
        if not e.msg.startswith("Invalid control character") or b"\0" in raw:
            raise MalformedLine(f"not JSON at character {e.pos}: {e.msg}") from None
        reader.odd["non_standard_json"] = None
        value = _loads_loosely(text, reader)
    return value, tuple(reader.odd)


def _loads(text: str, reader: _Reader, *, strict: bool) -> Any:
    return json.loads(
        text,
        strict=strict,
        object_pairs_hook=reader.pairs,
        parse_constant=reader.constant,
        parse_float=number_text,
        parse_int=_integer,
    )


def _loads_loosely(text: str, reader: _Reader) -> Any:
    try:
        return _loads(text, reader, strict=False)
    except json.JSONDecodeError as e:
        raise MalformedLine(f"not JSON at character {e.pos}: {e.msg}") from None


def shallow(raw: bytes) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The top-level fields of an object that is too deep or wide to unfold, and its oddities; such values become their text."""
    if not raw.rstrip(b" \t\r\n").endswith(b"}"):  # torn: spares the walk to where it breaks off
        raise MalformedLine("too deep or wide, and the object has no end")
    made: dict[str, Any] = {}
    odd = {"too_deep": None}
    for n, (key, start, end) in enumerate(_members(raw)):
        if n >= MAX_FIELDS:
            raise MalformedLine(f"more than {MAX_FIELDS} fields in one line, the limit")
        if key in made:
            odd[f"duplicate_key:{key}"] = None
        value, inner = decode(raw[start:end])
        made[key] = raw[start:end].decode("utf-8", "surrogateescape") if inner == ("too_deep",) else value
    return made, tuple(odd)


_STRING = re.compile(_TEXT_BYTES, re.DOTALL)
_SPACE = re.compile(rb"[ \t\r\n]*")
_SCALAR = re.compile(rb"[^,\]}\s]+")


def _value_end(raw: bytes, at: int) -> int:
    """Where the JSON value that begins at `at` ends; -1 when the text runs out."""
    first = raw[at : at + 1]
    if first == b'"':
        m = _STRING.match(raw, at)
        return m.end() if m else -1
    if first not in (b"[", b"{"):
        m = _SCALAR.match(raw, at)
        return m.end() if m else -1
    depth = 0
    for token in _BRACKETS.finditer(raw, at):
        c = token.group()
        depth += (c in b"[{") - (c in b"]}") if len(c) == 1 else 0
        if depth == 0:
            return token.end()
    return -1


def items_of(raw: bytes) -> list[tuple[int, int]] | None:
    """Byte spans of the elements of a JSON array's text, in order; None when it is not an array."""
    at = _SPACE.match(raw).end()  # type: ignore[union-attr]
    if raw[at : at + 1] != b"[":
        return None
    spans: list[tuple[int, int]] = []
    at = _SPACE.match(raw, at + 1).end()  # type: ignore[union-attr]
    while raw[at : at + 1] != b"]":
        end = _value_end(raw, at)
        if end < 0:
            return None
        spans.append((at, end))
        at = _SPACE.match(raw, end).end()  # type: ignore[union-attr]
        if raw[at : at + 1] == b",":
            at = _SPACE.match(raw, at + 1).end()  # type: ignore[union-attr]
        elif raw[at : at + 1] != b"]":
            return None
    return spans


_MEMBER = re.compile(rb"[ \t\r\n]*(" + _TEXT_BYTES + rb")[ \t\r\n]*:[ \t\r\n]*", re.DOTALL)
_AFTER = re.compile(rb"[ \t\r\n]*([,}])")


def spans_of(raw: bytes) -> dict[str, tuple[int, int]] | None:
    """Byte spans of the top-level values of a JSON object's text, by key.

    None when it is not just an object, when a key repeats, or when more than `MAX_FIELDS` fields make it wider than `MAX_KEYS`.
    """
    most = MAX_FIELDS if raw.count(b":") > MAX_KEYS else len(raw)
    spans: dict[str, tuple[int, int]] = {}
    try:
        for key, start, end in _members(raw):
            if key in spans or len(spans) >= most:
                return None
            spans[key] = (start, end)
    except MalformedLine:
        return None
    return spans


def _members(raw: bytes) -> Iterator[tuple[str, int, int]]:
    """Key, start and end of each top-level value; raises `MalformedLine` where the text is not just one object."""
    at = _SPACE.match(raw).end()  # type: ignore[union-attr]
    if raw[at : at + 1] != b"{":
        raise MalformedLine("the line holds no JSON object")
    at = _SPACE.match(raw, at + 1).end()  # type: ignore[union-attr]
    while raw[at : at + 1] != b"}":
        member = _MEMBER.match(raw, at)
        key = _key(member.group(1)) if member else None
        end = _value_end(raw, member.end()) if member else -1
        after = _AFTER.match(raw, end) if end >= 0 else None
        if member is None or key is None or after is None:
            raise MalformedLine(f"too deep or wide, and not JSON at byte {at}")
        yield key, member.end(), end
        at = after.end() if after.group(1) == b"," else after.end() - 1
    rest = _SPACE.match(raw, at + 1)
    if rest is not None and rest.end() != len(raw):  # what follows an object would be lost
        raise MalformedLine(f"text after the object, at byte {rest.end()}")


def _key(text: bytes) -> str | None:
    """The string that this JSON text of a key stands for; the way without escapes is the usual one and needs no decoder."""
    if b"\\" not in text:
        return text[1:-1].decode("utf-8", "surrogateescape")
    try:
        key = _LOOSE.decode(text.decode("utf-8", "surrogateescape"))
    except json.JSONDecodeError:
        return None
    return key if isinstance(key, str) else None


_LOOSE: Final = json.JSONDecoder(strict=False)
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_ASCII_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def encode(value: Any) -> bytes:
    """Compact UTF-8 JSON of `value`, exact for `Number`; raises `Ambiguous` for NaN and infinities."""
    encoder = _ENCODER
    try:
        text = _exact(value, encoder) if _holds_number(value) else encoder.encode(value)
        try:
            return text.encode("utf-8")
        except UnicodeEncodeError:
            encoder = _ASCII_ENCODER
            return (_exact(value, encoder) if _holds_number(value) else encoder.encode(value)).encode("ascii")
    except ValueError as e:
        raise Ambiguous(f"{e}; journal lines hold standard JSON only") from None


def _holds_number(value: Any) -> bool:
    """The C encoder prints a float subclass as a float, which would lose a `Number`'s text."""
    # `Mapping` is asked last: that costs ten times what the others cost, and nearly all values are of these.
    if isinstance(value, str):
        return False
    if isinstance(value, dict):
        return any(map(_holds_number, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(_holds_number, value))
    if value is None or isinstance(value, (int, float)):
        return isinstance(value, Number)
    return isinstance(value, Mapping) and any(map(_holds_number, value.values()))


def _exact(value: Any, encoder: json.JSONEncoder) -> str:
    if isinstance(value, Number):
        if not math.isfinite(value) and not re.fullmatch(r"-?[0-9][0-9.eE+-]*", value.text):
            raise ValueError(f"{value.text} is not JSON")
        return value.text
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{encoder.encode(str(k))}:{_exact(v, encoder)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(_exact(v, encoder) for v in value) + "]"
    return encoder.encode(value)
