"""Data for the pages about sources and imports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from django.db import connection

from journals import store
from journals.adapters import ADAPTERS, NATIVE
from journals.adapters.base import DOUBT, AdapterInfo
from journals.imports_models import BATCHES, Import, ImportRun
from journals.imports_report import RunReport, runs_of
from journals.limits import limits_of

__all__ = [
    "ImportRow",
    "SourcePage",
    "SourceRow",
    "doubts_of",
    "has_batches",
    "import_rows",
    "info_of",
    "progress",
    "runs_page",
    "source_page",
    "source_rows",
]

PAGE: Final = 50
RUNS: Final = 100
CAP: Final = 10_000  # counts beyond it are shown as "10,000+"


@dataclass(frozen=True, slots=True)
class LimitText:
    """A documented limit of a run: `51,200 events`, and who says so."""

    text: str
    told_by: str


@dataclass(frozen=True, slots=True)
class SourceRow:
    id: int
    name: str
    runtime: str
    title: str
    native: bool
    created_at: datetime
    runs: int  # at most CAP + 1
    evidence: str
    limits: Sequence[LimitText] = ()
    in_flight: int = 0  # at most CAP + 1

    @property
    def runs_text(self) -> str:
        return _capped(self.runs)

    @property
    def in_flight_text(self) -> str:
        return _capped(self.in_flight)


@dataclass(frozen=True, slots=True)
class SourcePage:
    """A page of sources, and the addresses of its neighbours ('' at an end)."""

    rows: Sequence[SourceRow]
    like: str  # what their names hold
    total: int
    newer_url: str
    older_url: str
    note: str


@dataclass(frozen=True, slots=True)
class ImportRow:
    id: int
    state: str  # of the import while it goes on, else complete, partial, or refused when every file was
    name: str  # of its first file
    files: int
    formats: str
    source: str
    entries: int
    unread: int
    actor: str
    created_at: datetime
    error: str


def _capped(number: int) -> str:
    return f"{CAP:,}+" if number > CAP else f"{number:,}"


in_flight_of: Callable[[Sequence[str], int], Mapping[str, int]] | None = None
"""Set by `runs` when it is installed: runs in flight by the name of their source, each counted to a limit."""


def source_page(*, like: str = "", page: int = 1) -> SourcePage:
    """Sources whose name or runtime holds `like` (upper and lower case are the same): our own first, then the newest."""
    named = "strpos(lower(name), lower(%s)) > 0 OR strpos(lower(runtime), lower(%s)) > 0"
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM journals_source WHERE {named}", [like, like])  # noqa: S608
        total = int(cursor.fetchone()[0])
        pages = max(1, -(-total // PAGE))
        page = min(max(page, 1), pages)
        cursor.execute(
            f"SELECT id FROM journals_source WHERE {named} ORDER BY native DESC, id DESC LIMIT %s OFFSET %s",  # noqa: S608
            [like, like, PAGE, (page - 1) * PAGE],
        )
        ids = [pk for (pk,) in cursor.fetchall()]
    rows = source_rows(ids)
    flying = in_flight_of([r.name for r in rows], CAP) if in_flight_of else {}
    return SourcePage(
        [replace(row, in_flight=flying.get(row.name, 0)) for row in rows],
        like,
        total,
        _page_url(like, page - 1) if page > 1 else "",
        _page_url(like, page + 1) if page < pages else "",
        f"page {page} of {pages}",
    )


def _page_url(like: str, page: int) -> str:
    return f"?{urlencode({k: v for k, v in (('find', like), ('sources', page)) if v})}"


def source_rows(ids: Sequence[int]) -> list[SourceRow]:
    """The sources of these numbers, in their order."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT s.id, s.name, s.runtime, s.native, s.created_at, (SELECT count(*) FROM (SELECT 1 FROM journals_head h WHERE h.source_id = s.id LIMIT %s) few)"
            " FROM journals_source s WHERE s.id = ANY(%s) ORDER BY array_position(%s::bigint[], s.id)",
            [CAP + 1, list(ids), list(ids)],
        )
        return [_source(*row) for row in cursor.fetchall()]


def info_of(runtime: str, *, native: bool) -> AdapterInfo | None:
    """What is known of a source's runtime; None when its reader is not installed."""
    found = NATIVE if native else ADAPTERS[runtime].INFO if runtime in ADAPTERS else None
    return found


def _source(pk: int, name: str, runtime: str, native: bool, created_at: datetime, runs: int) -> SourceRow:
    info = info_of(runtime, native=native)
    return SourceRow(
        pk,
        name,
        runtime,
        info.title if info else runtime,
        native,
        created_at,
        runs,
        info.evidence.note if info else "",
        [_limit(told) for told in limits_of(info)],
    )


def _limit(told: Mapping[str, Any]) -> LimitText:
    number, what, unit = int(told["limit"]), str(told["what"]), str(told.get("unit") or "")
    if unit == "bytes" or what.endswith("bytes"):
        mib, rest = divmod(number, 1024 * 1024)
        amount = f"{number:,} bytes" if number % 1024 else f"{number // 1024:,} KiB" if rest else f"{mib:,} MiB"
    else:
        amount = f"{number:,} {unit or what}"
    plain = {
        "entries": "",
        "bytes": "",
        "steps": "",
        "operations": "",
        "result_bytes": " a result",
        "message_bytes": " a message",
    }
    named = amount + plain.get(what, f" ({what.replace('_', ' ')})")
    return LimitText(named, ", ".join(p for p in (str(told.get("source") or ""), str(told.get("as_of") or "")) if p))


_IMPORTS: Final = """SELECT i.id, i.state, i.source, i.actor, i.created_at, i.error, count(f.id), min(f.path) FILTER (WHERE f.n = 1),
    coalesce(string_agg(DISTINCT nullif(f.format, ''), ', '), ''), coalesce(sum(f.entries_read), 0), coalesce(sum(f.unread_count), 0),
    bool_and(f.state = 'refused'), bool_or(f.state <> 'complete')
    FROM (SELECT * FROM journals_import WHERE id < %s AND {kind} ORDER BY id DESC LIMIT %s) i LEFT JOIN journals_import_file f ON f.import_id = i.id
    GROUP BY i.id, i.state, i.source, i.actor, i.created_at, i.error ORDER BY i.id DESC"""


_BATCH: Final = f"actor LIKE '{BATCHES}%%'"


def import_rows(*, before: int | None, batches: bool = False) -> tuple[list[ImportRow], int | None]:
    """Imports, newest first, and where the next page begins (None at the end): files, or batches of spans."""
    listed = _IMPORTS.format(kind=_BATCH if batches else f"NOT ({_BATCH})")
    with connection.cursor() as cursor:
        cursor.execute(listed, [before or 2**63 - 1, PAGE + 1])
        rows = [_import(row) for row in cursor.fetchall()]
    return rows[:PAGE], rows[PAGE - 1].id if len(rows) > PAGE else None


def _import(row: tuple[Any, ...]) -> ImportRow:
    pk, state, source, actor, created_at, error, files, path, formats, entries, unread, refused, lacking = row
    outcome = "refused" if refused else "partial" if lacking else "complete"
    return ImportRow(
        pk, outcome if state == "done" else state, store.decode_text(path or ""), files, formats, source, int(entries), int(unread), actor,
        created_at, error,
    )  # fmt: skip


def doubts_of(head_id: int) -> tuple[int, list[str]]:
    """The import that brought the last entry of a run (0: none), and what it noted of the run's files that leaves open whether they
    were all."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT import_id FROM journals_entry WHERE head_id = %s AND origin = 'import' ORDER BY pos DESC LIMIT 1",
            [head_id],
        )
        found = cursor.fetchone()
    if found is None or found[0] is None:
        return 0, []
    brought = ImportRun.objects.filter(head_id=head_id, file__imported_id=found[0]).values_list(
        "file__notes", flat=True
    )
    return int(found[0]), list(dict.fromkeys(note for notes in brought for note in notes if DOUBT in note))


def has_batches() -> bool:
    """Whether a batch of spans ever came."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT 1 FROM journals_import WHERE {_BATCH} ORDER BY id DESC LIMIT 1", [])  # noqa: S608
        return cursor.fetchone() is not None


def progress(imported: Import) -> tuple[int, int]:
    """Bytes read and bytes to read, as the files came. The first may pass the second when an adapter reads a file twice."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT coalesce(sum(u.size), 0) FROM journals_import_file f JOIN journals_upload u ON u.id = f.upload_id WHERE f.import_id = %s",
            [imported.pk],
        )
        (total,) = cursor.fetchone()
    return min(imported.bytes_done, int(total)), int(total)


def runs_page(imported: Import, *, after: int) -> tuple[list[tuple[int, RunReport]], int | None]:
    """Runs that the import touched, each with the number of its file, and where the next page begins."""
    rows = list(
        ImportRun.objects.filter(file__imported=imported, pk__gt=after)
        .select_related("file")
        .order_by("pk")[: RUNS + 1]
    )
    told = runs_of(rows[:RUNS])
    return [(row.file.n, run) for row, run in zip(rows, told, strict=False)], rows[RUNS - 1].pk if len(
        rows
    ) > RUNS else None
