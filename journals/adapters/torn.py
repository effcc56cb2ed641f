"""Finds whole records in damaged text: glued lines, records torn by a crash, records spread over lines.

A record is only taken where it cannot be a part of another one: an object that stands as a value inside a torn record is
left in the loss. Better a named loss than an entry that nobody wrote.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from drainboard import wire

from journals.adapters.heads import head_of

__all__ = ["Balance", "Piece", "Search", "one_line", "pieces", "run_of"]

_TEXT: Final = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_STRING: Final = re.compile(_TEXT, re.DOTALL)
_TOKEN: Final = re.compile(_TEXT + rb'|[^"\s]', re.DOTALL)
_IN_STRING: Final = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
_MARK: Final = re.compile(_TEXT + rb'|[\[\]{}"]', re.DOTALL)
_START: Final = re.compile(
    rb'\{[ \t\r]*"(?:run|id|seq|at|kind|agent|build|environment|name|step|branch|call)"[ \t\r]*:'
)
_RUN: Final = re.compile(rb'[\s,]*\{\s*"run"\s*:\s*(' + _TEXT + rb")", re.DOTALL)

_BLANK: Final = re.compile(rb"\s*")

LONGEST: Final = 4 << 20  # bytes of a line that is searched for records
TRIES: Final = 16  # false starts looked at in one line; each may cost a look at the rest of it
DEEPEST: Final = 500_000  # levels; no record is that deep
_decoder = json.JSONDecoder(strict=False)


class Balance:
    """Follows the brackets of one JSON value through stretches of bytes that arrive one after the other."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False

    def feed(self, data: bytes, at: int = 0) -> int:
        """Where in `data` the value ends (one past its last bracket), or -1 while it is open."""
        if self._in_string:
            rest = _IN_STRING.match(data, at)
            at = rest.end() if rest else at
            if data[at : at + 1] != b'"':
                return -1
            self._in_string = False
            at += 1
        for token in _MARK.finditer(data, at):
            mark = token.group()
            if mark in (b"{", b"["):
                self._depth += 1
                if self._depth > DEEPEST:
                    return -1
            elif mark in (b"}", b"]"):
                self._depth -= 1
                if self._depth <= 0:
                    return token.end()
            elif mark == b'"':  # a string that does not end here
                self._in_string = True
                break
        return -1


def one_line(data: bytes) -> bytes:
    """A record that spans lines as one line: line feeds inside strings are escaped, others become spaces."""
    made, at = [], 0
    for text in _STRING.finditer(data):
        made += [data[at : text.start()].replace(b"\n", b" "), text.group().replace(b"\n", b"\\n")]
        at = text.end()
    return b"".join([*made, data[at:].replace(b"\n", b" ")])


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a damaged line, by offset; a record, or what is lost."""

    start: int
    end: int
    record: bool


@dataclass(slots=True)
class Search:
    """How many bytes false starts may still cost in this file. Each line that is read adds to it, so that a file of nothing
    but false starts costs a few times its size, and a damaged line among whole ones is searched to its end."""

    left: int = 16 << 20

    def read(self, size: int) -> None:
        self.left += 2 * size


def pieces(data: bytes, search: Search) -> Iterator[Piece]:
    """The records of a damaged line and what lies between them, in order; blanks between them are left out.

    When nothing is left to search with, the line is one loss.
    """
    lost = at = failed = 0
    text = data.decode("latin-1") if len(data) <= LONGEST else ""  # one character for each byte, so offsets stay
    while text and failed < TRIES and search.left > 0 and (start := _START.search(data, at)):
        at = start.start()
        end = -1 if _is_value(data, lost, at) else _record_end(data, text, at)
        if end < 0:
            search.left -= at - lost + len(data) - at
            at += 1
            failed += 1
            continue
        if data[lost:at].strip():
            yield Piece(lost, at, False)
        yield Piece(at, end, True)
        lost = at = end
    if data[lost:].strip():
        yield Piece(lost, len(data), False)


def _is_value(data: bytes, begin: int, at: int) -> bool:
    """The object at `at` stands where a value of the torn text before it is expected."""
    last = b""
    for token in _TOKEN.finditer(data, begin):
        if token.start() >= at:
            break
        if token.end() > at:
            return False  # the text before broke off inside a string
        last = token.group()
    return last in (b":", b",", b"[")


def _record_end(data: bytes, text: str, start: int) -> int:
    """Where the entry that starts here ends, or -1: no entry, or followed by what only follows a value inside another one."""
    try:
        _, end = _decoder.raw_decode(text, start)
        head_of(data[start:end])
    except (ValueError, RecursionError):
        return -1
    after = _BLANK.match(data, end)
    return -1 if after and data[after.end() : after.end() + 1] in (b",", b"}", b"]", b":") else end


def run_of(fragment: bytes) -> str | None:
    """The run that a torn record names, when `run` is its first field and whole."""
    found = _RUN.match(fragment)
    if found is None:
        return None
    try:
        value, odd = wire.decode(found.group(1))
    except wire.MalformedLine:
        return None
    return value if isinstance(value, str) and not odd else None
