"""What came of an import, in the shape of `docs/import-report.schema.json`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypedDict

from django.db import connection

from journals import ingest, store
from journals.imports_models import Import, ImportFile, ImportRun
from journals.imports_writing import conflicts_of

__all__ = ["FileReport", "Report", "RunReport", "exit_code", "report", "runs_of"]

BATCH: Final = 1_000


class RunReport(TypedDict):
    """What a file brought to one run, and how the run stands now."""

    run: str
    source: str
    key: str
    status: str
    new_entries: int
    existing_entries: int
    conflicts: list[int]
    standing_conflicts: list[int]
    complete: bool
    reason: str


class FileReport(TypedDict):
    path: str
    format: str
    state: str
    reason: str
    lines: int
    entries_read: int
    unread_lines: int
    notes: list[str]
    unread: list[dict[str, Any]]
    runs: list[RunReport]


class Report(TypedDict):
    id: int
    state: str
    failure: str  # why it was given up
    files: list[FileReport]


def report(imported: Import) -> Report:
    """The whole report, every run of every file in it; of an import that goes on, what is known so far."""
    return {
        "id": imported.pk,
        "state": imported.state,
        "failure": imported.error,
        "files": [_file(row) for row in imported.files.order_by("n")],
    }


def _file(row: ImportFile) -> FileReport:
    return {
        "path": store.decode_text(row.path),
        "format": row.format,
        "state": row.state or "queued",
        "reason": row.reason,
        "lines": row.lines,
        "entries_read": row.entries_read,
        "unread_lines": row.unread_count,
        "notes": list(row.notes),
        "unread": list(row.unread),
        "runs": [run for runs in _batches(row) for run in runs],
    }


def _batches(row: ImportFile) -> Iterator[list[RunReport]]:
    after = 0
    while rows := list(ImportRun.objects.filter(file=row, pk__gt=after).order_by("pk")[:BATCH]):
        yield runs_of(rows)
        after = rows[-1].pk


def runs_of(rows: Sequence[ImportRun]) -> list[RunReport]:
    """The rows as reported, in their order, with the status that each run has now."""
    ids = [r.head_id for r in rows]
    heads = _heads(ids)
    states: Mapping[int, tuple[str, bool]] = ingest.status_of(ids) if ingest.status_of else {}
    damaged, standing = _damaged(ids), conflicts_of(ids)
    made: list[RunReport] = []
    for row in rows:
        key, run, source = heads[row.head_id]
        status, complete = states.get(row.head_id, ("unknown", False))
        reason = damaged.get(row.head_id, "")
        made.append(
            RunReport(
                run=store.decode_text(run),
                source=source,
                key=key,
                status=status,
                new_entries=row.new,
                existing_entries=row.existing,
                conflicts=list(row.conflicts),
                standing_conflicts=sorted(standing.get(row.head_id, set()) - set(row.conflicts)),
                complete=complete and not reason,
                reason=reason,
            )
        )
    return made


def _heads(ids: Sequence[int]) -> dict[int, tuple[str, str, str]]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT h.id, h.key, h.run, s.name FROM journals_head h JOIN journals_source s ON s.id = h.source_id WHERE h.id = ANY(%s)",
            [list(ids)],
        )
        return {head_id: (key, run, source) for head_id, key, run, source in cursor.fetchall()}


def _damaged(ids: Sequence[int]) -> dict[int, str]:
    """Why a run is not whole, for those of which a damaged file is all there is."""
    rows = ImportRun.objects.filter(head_id__in=ids, healed=False).exclude(partial=[]).order_by("pk")
    return {row.head_id: "; ".join(loss["reason"] for loss in row.partial) for row in rows}


def exit_code(made: Report) -> int:
    """0 all files complete, 1 some partial, 2 some refused or the import failed."""
    states = {file["state"] for file in made["files"]}
    if made["state"] == "failed" or states - {"complete", "partial"}:
        return 2
    return 1 if "partial" in states else 0
