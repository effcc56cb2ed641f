"""Walks JSON bytes value by value, so that a torn or partly damaged file still gives what is whole in it. Pure.

A `Value` is a span of the file. Its members or elements are found by their brackets, without decoding what is inside; `load`
decodes one. Offsets are bytes from the start of the unpacked file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from drainboard import wire

from journals.adapters.base import Unread, shown

BOM = b"\xef\xbb\xbf"
_SPACE = re.compile(rb"[ \t\r\n]*")
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_SCALAR = re.compile(rb"[^,\]}\s\"\[{:]+")
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|"|[\[\]{}]', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Value:
    """A JSON value in a file. `torn`: the file ends inside it, so only its first members or elements are whole."""

    data: bytes
    start: int
    end: int
    pointer: str = ""  # JSON pointer within its document (RFC 6901)
    torn: bool = False

    @property
    def form(self) -> str:
        """`{`, `[`, `"`, or a scalar's first character; empty for a stretch that is no JSON value."""
        return self.data[self.start : self.start + 1].decode("latin-1")

    @property
    def raw(self) -> bytes:
        return self.data[self.start : self.end]

    @property
    def line(self) -> int:
        """The line, from 1, on which it begins."""
        return self.data.count(b"\n", 0, self.start) + 1

    def load(self) -> tuple[Any, tuple[str, ...]]:
        """The decoded value and its oddities; parts deeper than can be unfolded as text. Raises `wire.MalformedLine`."""
        return loose(self.raw)

    def members(self) -> Iterator[tuple[str, Value]]:
        """The members of an object in order; the last one may be torn. Ends without a word where the text is damaged."""
        if self.form != "{":
            return
        at = _space(self.data, self.start + 1)
        while at < self.end and self.data[at : at + 1] != b"}":
            name = _STRING.match(self.data, at, self.end)
            colon = _space(self.data, name.end()) if name else at
            if name is None or self.data[colon : colon + 1] != b":":
                return
            key = _text(name.group())
            value = _inner(self.data, _space(self.data, colon + 1), self.end, f"{self.pointer}/{_escaped(key)}")
            if value is None:
                return
            yield key, value
            if value.torn:
                return
            at = _after(self.data, value.end)

    def elements(self, at: int = 0, n: int = 0) -> Iterator[Value]:
        """The elements of an array in order; the last one may be torn. Ends without a word where the text is damaged.
        `at` and `n`: begin with the element at this byte, and call it this number."""
        if self.form != "[":
            return
        at = _space(self.data, at or self.start + 1)
        while at < self.end and self.data[at : at + 1] != b"]":
            value = _inner(self.data, at, self.end, f"{self.pointer}/{n}")
            if value is None:
                return
            yield value
            if value.torn:
                return
            at, n = _after(self.data, value.end), n + 1

    def get(self, key: str) -> Value | None:
        """The first member of this name, whole or torn."""
        return next((value for name, value in self.members() if name == key), None)

    def unread(self, path: str, reason: str) -> Unread:
        """This stretch as one that became no entry."""
        return Unread(
            path, self.line, self.start, reason, shown(self.data[self.start : self.start + 400].split(b"\n", 1)[0])
        )


def documents(data: bytes) -> Iterator[Value]:
    """Every top-level value of a file, in order. A line that is no JSON is a value of form "" (or of its odd first character)
    and `torn` false; a value that the file ends in is torn. After a broken object the next line is tried."""
    at = _space(data, len(BOM) if data.startswith(BOM) else 0)
    while at < len(data):
        value = _value(data, at, len(data), "")
        if value is None or (
            value.torn and (line := data.find(b"\n{", at + 1)) >= 0 and value_end(data, line + 1) >= 0
        ):
            newline = data.find(b"\n", at)
            value = Value(data, at, len(data) if newline < 0 else newline)
        yield value
        at = _space(data, max(value.end, at + 1))


def is_whole(value: Value) -> bool:
    """Whether its text is one JSON value as far as its brackets tell."""
    return not value.torn and value_end(value.data, value.start) == value.end


def walk(value: Value, wanted: Callable[[Value], bool], *, levels: int = 6) -> Iterator[Value]:
    """The outermost values inside `value` (itself included) that are `wanted`, in order, at most `levels` below it."""
    if wanted(value):
        yield value
    elif levels:
        inner = (member for _, member in value.members()) if value.form == "{" else value.elements()
        for one in inner:
            if one.form in ("{", "["):
                yield from walk(one, wanted, levels=levels - 1)


def value_end(data: bytes, at: int, limit: int | None = None) -> int:
    """Where the JSON value that begins at `at` ends; -1 when the text runs out or is no value."""
    stop = len(data) if limit is None else limit
    first = data[at : at + 1]
    if first not in (b"[", b"{"):
        found = (_STRING if first == b'"' else _SCALAR).match(data, at, stop)
        return found.end() if found else -1
    depth = 0
    for token in _TOKEN.finditer(data, at, stop):
        text = token.group()
        if text == b'"':
            return -1
        if len(text) == 1:
            depth += 1 if text in b"[{" else -1
            if depth == 0:
                return token.end()
    return -1


def loose(raw: bytes, levels: int = 3) -> tuple[Any, tuple[str, ...]]:
    """The JSON value of `raw`, its deepest parts as text when it is too deep to unfold, and its oddities.

    Raises `wire.MalformedLine` for what is no JSON.
    """
    value, odd = wire.decode(raw)
    if odd != ("too_deep",):
        return value, odd
    spans = wire.spans_of(raw) if levels else None
    if spans is None:
        return raw.decode("utf-8", "replace"), odd
    return {key: loose(raw[a:b], levels - 1)[0] for key, (a, b) in spans.items()}, odd


def _value(data: bytes, at: int, limit: int, pointer: str) -> Value | None:
    """The value that begins at `at`, torn when it does not end before `limit`; None when there is none."""
    if at >= limit:
        return None
    end = value_end(data, at, limit)
    if end >= 0:
        return Value(data, at, end, pointer)
    return Value(data, at, limit, pointer, True) if data[at : at + 1] in (b"{", b"[", b'"') else None


def _inner(data: bytes, at: int, limit: int, pointer: str) -> Value | None:
    """A value inside another one. What stands behind a number or word shows that it is whole, so one that ends with the text may be cut."""
    made = _value(data, at, limit, pointer)
    cut = made is not None and made.end == limit and made.form not in ("{", "[", '"')
    return replace(made, torn=True) if made is not None and cut else made


def _space(data: bytes, at: int) -> int:
    found = _SPACE.match(data, at)
    return found.end() if found else at


def _after(data: bytes, at: int) -> int:
    at = _space(data, at)
    return _space(data, at + 1) if data[at : at + 1] == b"," else at


def _text(quoted: bytes) -> str:
    try:
        value, _ = wire.decode(quoted)
    except wire.MalformedLine:
        value = None
    return value if isinstance(value, str) else quoted[1:-1].decode("utf-8", "replace")


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
