"""Reads the journals of DBOS Transact: its system tables as a PostgreSQL dump, a SQLite file or JSON, or what its command line
and client print. `docs/adapters-dbos.md` gives the mapping.

A row of operation_outputs is written when a step has ended and tries inside a step leave no trace, so the evidence is `never`.
Stored values that are pickles, or that carry no mark of their encoding, are shown closed; nothing is ever deserialised.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from journals.adapters.base import (
    AdapterInfo,
    Counted,
    Evidence,
    InputFile,
    Item,
    Line,
    Note,
    Options,
    Partial,
    Refused,
)
from journals.adapters.dbos.controls import CONTROLS
from journals.adapters.dbos.forms import CLI_STEPS, Capture, Part, captures
from journals.adapters.dbos.json_rows import read_json
from journals.adapters.dbos.lines import lines_of
from journals.adapters.dbos.runs import Run, rows_of, runs_of
from journals.adapters.pgdump import read_dump
from journals.adapters.sqlitefile import MAGIC, Beside, besides, mentions, read_sqlite
from journals.adapters.values import integer

INFO = AdapterInfo(
    name="dbos",
    title="DBOS Transact",
    evidence=Evidence(
        write="never",
        read="never",
        attempts=False,
        says_end=False,
        note="DBOS records a step only when it has ended, and one row for all tries: a step in flight has no row and no name.",
    ),
    capabilities=frozenset({"stop", "pin", "resume", "approve"}),
    controls=CONTROLS,
    how_to_export='pg_dump --data-only --schema=dbos "$DBOS_SYSTEM_DATABASE_URL" > dbos.sql',
    files=("dbos.sql",),
    versions_from="application_version, and the attributes prompt_version, model, tool_schema and sdk.",
    together="A dump stands by itself. So does a SQLite file, with the -wal file beside it while the application runs. "
    "Tables as JSON, one a file, belong together.",
)

_SIGNS: tuple[tuple[re.Pattern[bytes], float], ...] = (
    (re.compile(rb'^COPY [\w".$]*\b(?:workflow_status|operation_outputs|dbos_migrations)\b', re.MULTILINE), 0.95),
    (
        re.compile(
            rb"^(?:CREATE TABLE|INSERT INTO) [\w\".$]*\b(?:workflow_status|operation_outputs|dbos_migrations)\b",
            re.MULTILINE,
        ),
        0.9,
    ),
    (re.compile(rb'"(?:workflow_uuid|destination_uuid|workflow_status|operation_outputs)"\s*:'), 0.9),
    (re.compile(rb'"workflow_id"\s*:.*"(?:app_version|recovery_attempts)"\s*:', re.DOTALL), 0.9),
    (re.compile(rb'"function_id"\s*:.*"function_name"\s*:', re.DOTALL), 0.9),
    (re.compile(rb'"executor_id"\s*:.*"application_version"\s*:', re.DOTALL), 0.7),
    (re.compile(rb'"version_name"\s*:.*"version_timestamp"\s*:', re.DOTALL), 0.7),
)
_OURS = re.compile(rb'\s*\{\s*"(?:run|seq|recorded_at|id|at|kind)"\s*:')
_STEPS_FILE = re.compile(r"(?:^|[._-])steps[._-]")


def sniff(files: Sequence[InputFile]) -> float:
    """How sure the adapter is about the file that it knows best; every other file of the import is named in the report."""
    return max((_sniff(file) for file in files), default=0.0)


def _sniff(file: InputFile) -> float:
    head = file.head()
    if head.startswith(MAGIC):
        return 0.95 if mentions(file, b"operation_outputs") else 0.05
    if file.path.endswith("-shm") or (file.path.endswith("-wal") and head[:3] == b"\x37\x7f\x06"):
        return 0.5  # what SQLite keeps beside a database; read with it, or named
    if _OURS.match(head):
        return 0.0
    sure = max((score for sign, score in _SIGNS if sign.search(head)), default=0.0)
    if not sure and head.strip() == b"[]" and _STEPS_FILE.search(posixpath.basename(file.path)):
        return 0.5
    return sure


def read(files: Sequence[InputFile], options: Options) -> Iterator[Item]:
    """The lines of every run in the files. Tables in files of one folder are one export; a dump or database is one by itself."""
    beside = besides(files)
    parts: list[Part] = []
    for file in files:
        if file.path.endswith(("-wal", "-shm")) and file.path[:-4] in {other.path for other in files}:
            yield Note(file.path, "belongs to the SQLite file beside it")
            continue
        parts.append(_part(file, beside(file.path)))
        parts[-1].close()
    made = captures([part for part in parts if part.tables])
    gathered = [(capture, *runs_of(capture)) for capture in made]
    known = {
        (run.id, integer(run.fields, "created_at")) for capture, runs, _ in gathered if not capture.cli for run in runs
    }
    counts: Counter[str] = Counter()
    for capture, runs, notes in gathered:
        yield from notes
        for item in _capture(capture, runs, options, known):
            if isinstance(item, Line):
                counts[item.path] += 1
            yield item
    others = {part.path: _others(capture, runs) for capture, runs, _ in gathered for part in capture.parts}
    for part in parts:
        for problem in part.problems:
            yield replace(problem, runs=others.get(part.path, ())) if isinstance(problem, Partial) else problem
        yield from part.unread
        if part.tables or part.unread:
            yield Counted(part.path, counts[part.path] + len(part.unread))


def _others(capture: Capture, runs: Sequence[Run]) -> tuple[str, ...]:
    """The runs that a damaged file touches beyond those that it names: all of an export of several files."""
    return tuple(run.id for run in runs) if len(capture.parts) > 1 else ()


def _part(file: InputFile, beside: Beside) -> Part:
    head = file.head(4_096)
    if head.startswith(MAGIC):
        read_sqlite(file, beside, part := Part(file.path, whole=True))
        return part
    if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"[", b"{"):
        return read_json(file)
    if re.search(rb"^(?:--|COPY |SET |CREATE |INSERT )", file.head(), re.MULTILINE):
        read_dump(file, part := Part(file.path, whole=True))
        return part
    reason = "empty file" if not head.strip() else "neither a SQL dump, nor a SQLite file, nor JSON"
    return Part(file.path, problems=[Refused(file.path, reason)])


def _capture(
    capture: Capture, runs: Sequence[Run], options: Options, known: set[tuple[str, int | None]]
) -> Iterator[Item]:
    paths = sorted({part.path for part in capture.parts})
    skipped = 0
    for run in runs:
        if capture.cli and _in_tables(run, known):
            skipped += 1
            continue
        yield from lines_of(run, options)
    if skipped:
        yield Note(
            paths[0],
            f"{skipped} runs stand in the tables of this import too; what the command line printed of them is not read",
        )
    yield Note(paths[0], _account(capture, paths))


def _in_tables(run: Run, known: set[tuple[str, int | None]]) -> bool:
    created = integer(run.fields, "created_at")
    return (run.id, created) in known or (run.status is None and run.id in {run_id for run_id, _ in known})


def _account(capture: Capture, paths: Sequence[str]) -> str:
    """What the export holds, table by table, and which tables are no part of any run."""
    rows = [(table, n) for table, n in rows_of(capture) if table != CLI_STEPS]
    told = ", ".join(f"{table} {n}" for table, n in rows if n)
    empty = ", ".join(table for table, n in rows if not n)
    files = f"{len(paths)} files: " if len(paths) > 1 else ""
    return f"{files}rows: {told or 'none'}{f'; empty: {empty}' if empty else ''}"
