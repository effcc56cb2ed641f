"""Reads DBOS rows out of JSON: one object of tables, one array of a table, or what the command line and the client print.

A torn file gives the rows that stand whole before the tear.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from drainboard import wire

from journals.adapters.base import InputFile, Note, Refused
from journals.adapters.dbos.forms import (
    CLI_LIST,
    CLI_STEPS,
    RUN_TABLES,
    SIDE_TABLES,
    STATUS,
    STEPS,
    Part,
    from_cli,
    table_named,
    table_of,
)
from journals.adapters.tables import Place

_BOM = b"\xef\xbb\xbf"
Placed = tuple[str, int, bytes, Any]
"""Name of the array that holds the row (empty for a lone array), byte offset, text of the row, value or `wire.MISSING`."""


def read_json(file: InputFile) -> Part:
    """The rows of one JSON file; a file of another kind gives a part whose only problem is `Refused`."""
    part, raw = Part(file.path), file.read()
    lead = len(_BOM) if raw.startswith(_BOM) else 0
    if lead:
        part.problems.append(Note(file.path, "begins with a byte order mark"))
    names = _array_names(raw[lead:])
    if names is None:
        placed, torn = _salvage(raw, lead, part)
    else:
        placed, torn = list(_whole(raw, lead, names)), ""
    _take(part, raw, placed, names or {})
    if not part.tables and not part.unread:
        part.problems.append(Refused(file.path, "no table of DBOS in it" if raw.strip() else "empty file"))
    elif torn or file.cut:
        part.tear(file.cut or torn)
    part.whole = isinstance(names, dict) and STATUS in names and len(names) > 1
    return part


def _array_names(raw: bytes) -> dict[str, tuple[int, int]] | None:
    """Byte spans of the arrays in the file by table name; {"": …} for a lone array or object; None when it is no whole JSON."""
    try:
        lone, spans = wire.items_of(raw), wire.spans_of(raw)
    except ValueError:  # a name with a broken escape
        return None
    if lone is not None:
        return {"": (0, len(raw))} if raw.rstrip().endswith(b"]") else None
    if spans is None or not raw.rstrip().endswith(b"}"):
        return None
    arrays = {name: span for name, span in spans.items() if raw[span[0] : span[0] + 1] == b"["}
    return (
        arrays if arrays and not {"workflow_id", "workflow_uuid", "function_id"} & spans.keys() else {"": (0, len(raw))}
    )


def _whole(raw: bytes, lead: int, names: Mapping[str, tuple[int, int]]) -> Iterator[Placed]:
    for name, (start, end) in names.items():
        body = raw[lead + start : lead + end]
        spans = wire.items_of(body)
        if spans is None:
            spans = [(0, len(body))]  # one object: `workflow get`
        for a, b in spans:
            yield name, lead + start + a, body[a:b], _decoded(body[a:b])


def _decoded(row: bytes) -> Any:
    try:
        return wire.decode(row)[0]
    except wire.MalformedLine:
        return wire.MISSING


def _salvage(raw: bytes, lead: int, part: Part) -> tuple[list[Placed], str]:
    """The whole rows of torn or broken JSON, in order, and why it stopped. The stretch after them is named as unread."""
    placed: list[Placed] = []
    at = _SPACE.match(raw, lead).end()  # type: ignore[union-attr]
    opened, name = raw[at : at + 1], ""
    if opened not in (b"[", b"{"):
        return placed, "not JSON"
    scan = _Scan(raw)
    at += 1
    try:
        if opened == b"[":
            scan.rows("", at, placed)
        else:
            while scan.peek(at) != b"}":
                name, at = scan.name(at)
                inside = scan.peek(at) == b"["
                at = scan.comma(scan.rows(name, scan.skip(at) + 1, placed) if inside else scan.value(at)[1])
    except (ValueError, RecursionError):
        pass
    rest = scan.good
    begun = name if name in RUN_TABLES else table_named(part.path)
    if placed or begun:
        line = raw.count(b"\n", 0, rest) + 1
        part.skip("the file ends or breaks here", Place(line, rest, raw[rest : rest + 400]))
    if begun and not placed:
        part.has(begun, ())
    return placed, "the JSON is torn"


_SPACE = re.compile(rb"[ \t\r\n]*")


class _Scan:
    """Walks JSON bytes value by value; raises ValueError where they break. `good` is the end of the last whole row."""

    def __init__(self, raw: bytes) -> None:
        self.raw, self.good = raw, 0
        self._text = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)

    def skip(self, at: int) -> int:
        return _SPACE.match(self.raw, at).end()  # type: ignore[union-attr]

    def peek(self, at: int) -> bytes:
        at = self.skip(at)
        if at >= len(self.raw):
            raise ValueError("end")
        return self.raw[at : at + 1]

    def name(self, at: int) -> tuple[str, int]:
        m = self._text.match(self.raw, self.skip(at))
        if m is None:
            raise ValueError("no name")
        name, at = json.loads(m.group()), self.skip(m.end())
        if self.raw[at : at + 1] != b":":
            raise ValueError("no colon")
        return name, at + 1

    def comma(self, at: int) -> int:
        return self.skip(at) + 1 if self.peek(at) == b"," else at

    def value(self, at: int) -> tuple[int, int]:
        """Span of the value that begins at `at`, found by its brackets, without decoding it."""
        start = self.skip(at)
        head = self.peek(start)
        if head in (b"{", b"["):
            return start, self._close(start)
        m = (self._text if head == b'"' else _SCALAR).match(self.raw, start)
        if m is None:
            raise ValueError("torn value")
        return start, m.end()

    def _close(self, start: int) -> int:
        depth = 0
        for token in _TOKENS.finditer(self.raw, start):
            c = token.group()
            depth += (c in (b"[", b"{")) - (c in (b"]", b"}"))
            if depth == 0:
                return token.end()
        raise ValueError("torn value")

    def rows(self, name: str, at: int, placed: list[Placed]) -> int:
        while self.peek(at) != b"]":
            start, end = self.value(at)
            placed.append((name, start, self.raw[start:end], _decoded(self.raw[start:end])))
            self.good = end
            at = self.comma(end)
        return self.skip(at) + 1


_SCALAR = re.compile(rb"[^,\]}\s]+")
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


def _take(part: Part, raw: bytes, placed: list[Placed], names: Mapping[str, object]) -> None:
    """Sorts rows into tables: by the name of their array, else by the file's name, else by their columns."""
    for name in names:
        if name in RUN_TABLES or name in SIDE_TABLES:
            part.has(name, ())
    if not placed and "" in names:
        _empty(part)
    where, strange, foreign = _lines(raw), [], Counter[str]()
    tables = [_table(name, part.path, value) for name, _, _, value in placed]
    for (name, byte, row, value), found in zip(placed, tables, strict=True):
        # A row of a table that lost the name of its run looks like one that the command line printed.
        table = _BESIDE[found] if _BESIDE.get(found) in tables else found
        place = Place(where(byte), byte, row[:400])
        if not table and name:
            foreign[name] += 1
        elif not table or not isinstance(value, Mapping):
            strange.append(
                (
                    "not a JSON object that can be read" if value is wire.MISSING else "belongs to no table of DBOS",
                    place,
                )
            )
        elif table in (CLI_LIST, CLI_STEPS):
            part.form = table
            part.add(STATUS if table == CLI_LIST else CLI_STEPS, from_cli(value), place)
        else:
            part.add(table, value, place)
    for reason, place in strange if part.tables else ():
        part.skip(reason, place)
    for name, count in foreign.items():
        part.problems.append(Note(part.path, f"table {name} ({count} rows) is not one of DBOS's"))


def _table(name: str, path: str, value: Any) -> str:
    if name in RUN_TABLES or name in SIDE_TABLES:
        return name
    by_columns = table_of(value) if isinstance(value, Mapping) else ""
    named = table_named(path) if not name else ""
    return named if named and (not by_columns or named == by_columns) else by_columns or named


_BESIDE: Final = {CLI_STEPS: STEPS, CLI_LIST: STATUS}


def _empty(part: Part) -> None:
    """An empty array is an empty table of that name, or a run without steps."""
    table = table_named(part.path)
    if table:
        part.has(table, ())
    elif re.search(r"(?:^|[._-])steps[._-]", posixpath.basename(part.path)):
        part.form = CLI_STEPS
        part.has(CLI_STEPS, ())
    elif re.search(r"(?:^|[._-])list(?:[._-]|$)", posixpath.basename(part.path)):
        part.form = CLI_LIST
        part.has(STATUS, ())


def _lines(raw: bytes) -> Callable[[int], int]:
    """Line number of rising byte offsets, counted once through the file."""
    last, line = 0, 1

    def at(byte: int) -> int:
        nonlocal last, line
        if byte < last:
            return raw.count(b"\n", 0, byte) + 1
        line += raw.count(b"\n", last, byte)
        last = byte
        return line

    return at
