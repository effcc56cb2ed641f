"""Reads the rows of a `pg_dump` file: the COPY blocks of a plain SQL dump. No statement is ever run.

A dump made with --inserts or --schema-only holds no COPY block and is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

from journals.adapters.base import InputFile, Note, Refused
from journals.adapters.tables import Place, Sink

_COPY = re.compile(rb'COPY (?:(?:"[^"]+"|[\w$]+)\.)?(?:"([^"]+)"|([\w$]+)) \((.*)\) FROM stdin;\s*$')
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.)|$)", re.DOTALL)
_PLAIN = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def read_dump(file: InputFile, sink: Sink) -> None:
    """Gives `sink` the rows of one dump (cells are str or None); tables of other programs in it are counted and named."""
    reader = _Blocks(sink)
    with file.open() as stream:
        for number, byte, line in _lines(stream):
            reader.feed(number, byte, line)
    reader.close()
    if file.cut:
        sink.tear(file.cut)
    for table, rows in sorted(reader.foreign.items()):
        sink.problems.append(Note(file.path, f"table {table} ({rows} rows) is not one of {sink.title}'s"))
    if not sink.found and not sink.unread:
        sink.problems.append(Refused(file.path, reader.why_empty()))


def _lines(stream: BinaryIO) -> Iterator[tuple[int, int, bytes]]:
    byte = 0
    for number, line in enumerate(stream, 1):
        yield number, byte, line
        byte += len(line)


class _Blocks:
    """Follows the COPY blocks of a dump line by line."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.table = ""  # of the open block
        self.columns: list[str] = []
        self.known = False
        self.foreign: dict[str, int] = {}
        self.inserts = self.creates = self.begun = self.ended = False

    def feed(self, number: int, byte: int, line: bytes) -> None:
        if not self.table:
            self._outside(line)
        elif line.rstrip(b"\r\n") == b"\\.":
            self.table = ""
        elif not line.endswith(b"\n"):
            self.sink.skip(f"{self.table} row without its end", Place(number, byte, line[:400]))
        elif self.known:
            self._row(number, byte, line)
        else:
            self.foreign[self.table] += 1

    def _outside(self, line: bytes) -> None:
        m = _COPY.match(line)
        if m is None:
            self.begun |= line.startswith(b"-- PostgreSQL database dump\n")
            self.ended |= line.startswith(b"-- PostgreSQL database dump complete")
            self.inserts |= line.startswith(b"INSERT INTO ")
            self.creates |= line.startswith(b"CREATE TABLE ")
            return
        self.table = (m.group(1) or m.group(2)).decode("utf-8", "replace")
        self.columns = [name.strip(' "') for name in m.group(3).decode("utf-8", "replace").split(",")]
        self.known = self.sink.wants(self.table)
        if self.known:
            self.sink.has(self.table, self.columns)
        else:
            self.foreign.setdefault(self.table, 0)

    def _row(self, number: int, byte: int, line: bytes) -> None:
        place = Place(number, byte, line[:400])
        body = line[:-2] if line.endswith(b"\r\n") else line[:-1]
        try:
            cells = body.decode("utf-8").split("\t")
        except UnicodeDecodeError as e:
            self.sink.skip(f"{self.table} row: byte {e.start} is not UTF-8", place)
            return
        if len(cells) != len(self.columns):
            self.sink.skip(f"{self.table} row has {len(cells)} columns, not {len(self.columns)}", place)
            return
        self.sink.add(self.table, dict(zip(self.columns, map(cell, cells), strict=True)), place)

    def close(self) -> None:
        if self.table:
            self.sink.tear(f"the dump ends inside table {self.table}")
        elif self.begun and not self.ended and self.sink.named:
            self.sink.tear("the dump has no end: pg_dump's last line is missing")

    def why_empty(self) -> str:
        if self.inserts:
            return "dumped with --inserts: dump it again without that option"
        if self.creates:
            return "a dump of the schema only: it holds no rows"
        return f"no table of {self.sink.title} in it"


def cell(written: str) -> str | None:
    r"""One value of a COPY line: `\N` is NULL, backslash escapes are undone."""
    if written == "\\N":
        return None
    return _ESCAPE.sub(_unescape, written) if "\\" in written else written


def _unescape(m: re.Match[str]) -> str:
    if m.group(1):
        return chr(int(m.group(1), 16))
    if m.group(2):
        return chr(int(m.group(2), 8) & 0xFF)
    return _PLAIN.get(m.group(3) or "", m.group(3) or "")
