"""Reads tables of a SQLite file from a private copy, opened read-only. The user's file is never opened by SQLite.

The schema of a foreign database is not trusted: only real tables of wanted names are read, by plain SELECT, under a step budget.
"""

from __future__ import annotations

import shutil
import sqlite3
import struct
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from journals.adapters.base import DOUBT, InputFile, Note, Refused
from journals.adapters.tables import Place, Sink

MAGIC = b"SQLite format 3\x00"
_INDEX_VERSION = 3_007_000  # of every index of a write-ahead log
_STEP_BUDGET = 50_000  # progress calls of 10,000 virtual machine steps: far above any real file, below a run-away query


class _Text(bytes):
    """A cell that SQLite calls text; other bytes are a blob."""


@dataclass(frozen=True, slots=True)
class Beside:
    """What SQLite keeps beside a database in WAL mode: its write-ahead log, and the index of that log."""

    wal: InputFile | None = None
    shm: InputFile | None = None


def besides(files: Sequence[InputFile]) -> Callable[[str], Beside]:
    """What of these files belongs to the database of a path."""
    by_path = {file.path: file for file in files}
    return lambda path: Beside(by_path.get(f"{path}-wal"), by_path.get(f"{path}-shm"))


def read_sqlite(file: InputFile, beside: Beside, sink: Sink) -> None:
    """Gives `sink` the rows of one database file; the rows of the write-ahead log lying beside it count too.

    Cells are None, int, float, str (text) or bytes (blob). A row with text that is not UTF-8 is named as unread.
    """
    try:
        with _opened(file, beside.wal, sink) as connection:
            for table in _tables(connection, sink):
                _read_table(connection, table, sink)
    except (sqlite3.Error, UnicodeDecodeError) as e:
        sink.tear(f"SQLite cannot read it further: {e}")
    if beside.wal is None and file.head(20)[18:19] == b"\x02":
        _without_log(file, beside.shm, sink)
    if file.cut or _short(file):
        sink.tear(file.cut or "the file is shorter than its header says")
    if not sink.found and not sink.torn:
        sink.problems.append(Refused(file.path, f"no table of {sink.title} in it"))


def _without_log(file: InputFile, shm: InputFile | None, sink: Sink) -> None:
    """Says what is missing of a database in WAL mode whose log is not here.

    The database itself does not tell: SQLite removes the log when the last program closes it, and its rows are then in the
    database. The index does, if it is here: it counts the pages of the log (mxFrame, byte 16) and those of them that the database
    has (nBackfill, byte 96); sqlite.org/walformat.html. It is removed with the log, so beside a closed database there is none.
    """
    index = shm.head(136) if shm is not None else b""
    for order in ("<", ">"):
        if len(index) == 136 and struct.unpack_from(f"{order}I", index, 0)[0] == _INDEX_VERSION:
            (frames,), (copied,) = (
                struct.unpack_from(f"{order}I", index, 16),
                struct.unpack_from(f"{order}I", index, 96),
            )
            if frames > copied:
                sink.tear(f"its -wal file is not here, and {frames - copied} pages of the last rows are only in that")
            return
    sink.problems.append(Note(file.path, f"in WAL mode, and its -wal file is not here: {DOUBT}"))


def _short(file: InputFile) -> bool:
    """Whether pages that the header counts are not in the file. The count is only good when its version is that of the last change."""
    head = file.head(100)
    page = int.from_bytes(head[16:18], "big")
    counted = int.from_bytes(head[28:32], "big") if head[24:28] == head[92:96] else 0
    return len(head) == 100 and 0 <= file.size < (65_536 if page == 1 else page) * counted


def mentions(file: InputFile, name: bytes) -> bool:
    """Whether the bytes of a name stand anywhere in the file; a SQLite schema may lie on any page."""
    tail = b""
    with file.open() as stream:
        while chunk := stream.read(1 << 20):
            if name in tail + chunk:
                return True
            tail = chunk[-len(name) :]
    return False


@contextmanager
def _opened(file: InputFile, wal: InputFile | None, sink: Sink) -> Iterator[sqlite3.Connection]:
    with tempfile.TemporaryDirectory(prefix="drainboard-sqlite-") as folder:
        path = Path(folder) / "copy.sqlite"
        _copy(file, path)
        if wal is not None:
            _copy(wal, path.with_name("copy.sqlite-wal"))
        mode = "mode=ro" if wal is not None else "mode=ro&immutable=1"
        with closing(sqlite3.connect(f"{path.as_uri()}?{mode}", uri=True)) as connection:
            connection.text_factory = _Text
            connection.execute("PRAGMA trusted_schema=OFF")
            connection.execute("PRAGMA query_only=ON")
            left = iter(range(_STEP_BUDGET))
            connection.set_progress_handler(lambda: int(next(left, None) is None), 10_000)
            yield connection


def _copy(file: InputFile, path: Path) -> None:
    with file.open() as source, path.open("wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)


def _tables(connection: sqlite3.Connection, sink: Sink) -> list[str]:
    """Wanted tables in the file, by name; views and virtual tables of these names are left alone."""
    made, others = [], 0
    for name, sql in connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY name"):
        table = name.decode("utf-8", "replace")
        if not sink.wants(table):
            others += not table.startswith("sqlite_")
        elif (sql or b"").lstrip().upper().startswith(b"CREATE VIRTUAL"):
            sink.problems.append(Note(sink.path, f"table {table} is virtual and is not read"))
        else:
            made.append(table)
    if others:
        sink.problems.append(Note(sink.path, f"{others} tables are not {sink.title}'s"))
    return made


def _read_table(connection: sqlite3.Connection, table: str, sink: Sink) -> None:
    quoted = table.replace('"', '""')
    cursor = connection.execute(f'SELECT * FROM "{quoted}"')  # noqa: S608 - a quoted name; only names that the adapter wants
    columns = [column[0] for column in cursor.description]
    sink.has(table, columns)
    for number, cells in enumerate(cursor, 1):
        place = Place(number, 0, b"")
        try:
            fields = {name: _cell(value) for name, value in zip(columns, cells, strict=True)}
        except UnicodeDecodeError as e:
            sink.skip(f"{table} row {number}: text that is not UTF-8 ({e.reason})", place)
            continue
        sink.add(table, fields, place)


def _cell(value: Any) -> Any:
    return value.decode("utf-8") if isinstance(value, _Text) else cast(object, value)
