"""Reads the tables of a DBOS SQLite file from a private copy, opened read-only. The user's file is never opened by SQLite.

The schema of a foreign database is not trusted: only real tables of known names are read, by plain SELECT, under a step budget.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from journals.adapters.base import InputFile, Note, Refused
from journals.adapters.dbos_forms import RUN_TABLES, SIDE_TABLES, Part, Place

MAGIC = b"SQLite format 3\x00"
_STEP_BUDGET = 50_000  # progress calls of 10,000 virtual machine steps: far above any real file, below a run-away query


def read_sqlite(file: InputFile, wal: InputFile | None) -> Part:
    """The rows of one database file; `wal` is the write-ahead log lying beside it, whose rows count too."""
    part = Part(file.path, whole=True)
    try:
        with _opened(file, wal, part) as connection:
            for table in _tables(connection, part):
                _read_table(connection, table, part)
    except (sqlite3.Error, UnicodeDecodeError) as e:
        part.tear(f"SQLite cannot read it further: {e}")
    if file.cut:
        part.tear(file.cut)
    if not any(table in part.tables for table in RUN_TABLES) and not part.torn:
        part.problems.append(Refused(file.path, "no table of DBOS in it"))
    return part


@contextmanager
def _opened(file: InputFile, wal: InputFile | None, part: Part) -> Iterator[sqlite3.Connection]:
    with tempfile.TemporaryDirectory(prefix="drainboard-sqlite-") as folder:
        path = Path(folder) / "copy.sqlite"
        _copy(file, path)
        if wal is not None:
            _copy(wal, path.with_name("copy.sqlite-wal"))
        elif file.head(20)[18:19] == b"\x02":
            part.problems.append(
                Note(file.path, "in WAL mode, and its -wal file is not here: the last rows may be missing")
            )
        mode = "mode=ro" if wal is not None else "mode=ro&immutable=1"
        with closing(sqlite3.connect(f"{path.as_uri()}?{mode}", uri=True)) as connection:
            connection.text_factory = bytes
            connection.execute("PRAGMA trusted_schema=OFF")
            connection.execute("PRAGMA query_only=ON")
            left = iter(range(_STEP_BUDGET))
            connection.set_progress_handler(lambda: int(next(left, None) is None), 10_000)
            yield connection


def _copy(file: InputFile, path: Path) -> None:
    with file.open() as source, path.open("wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)


def _tables(connection: sqlite3.Connection, part: Part) -> list[str]:
    """Known tables in the file, by name; views and virtual tables of these names are left alone."""
    made, others = [], 0
    for name, sql in connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY name"):
        table = name.decode("utf-8", "replace")
        if table not in RUN_TABLES and table not in SIDE_TABLES:
            others += not table.startswith("sqlite_")
        elif (sql or b"").lstrip().upper().startswith(b"CREATE VIRTUAL"):
            part.problems.append(Note(part.path, f"table {table} is virtual and is not read"))
        else:
            made.append(table)
    if others:
        part.problems.append(Note(part.path, f"{others} tables are not DBOS's"))
    return made


def _read_table(connection: sqlite3.Connection, table: str, part: Part) -> None:
    cursor = connection.execute(f'SELECT * FROM "{table}"')  # noqa: S608 - the name is one of our own constants
    columns = [column[0] for column in cursor.description]
    part.has(table, columns)
    for number, cells in enumerate(cursor, 1):
        place = Place(number, 0, b"")
        try:
            fields = {name: _cell(value) for name, value in zip(columns, cells, strict=True)}
        except UnicodeDecodeError as e:
            part.skip(f"{table} row {number}: text that is not UTF-8 ({e.reason})", place)
            continue
        part.add(table, fields, place)


def _cell(value: Any) -> Any:
    return value.decode("utf-8") if isinstance(value, bytes) else value
