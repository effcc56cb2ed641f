"""What an import says about runs as a whole once a group of files is read: damaged files, entries received twice, and what
a whole file puts right again. Told by `runtime.state` notes in the runs, so that a fold of the journal sees them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from django.db import connection, transaction

from journals import store
from journals.adapters.base import Partial, shown
from journals.imports_models import Import, ImportFile, ImportRun
from journals.imports_writing import FileSoFar, beat, state_note

__all__ = ["close"]

BATCH: Final = 500
HOLES_UP_TO: Final = 200_000  # entries of a file in which holes are looked for; the run page shows them in any case
_NOTHING_TOLD: Final[Mapping[str, Any]] = {"runtime_status": None, "status": None, "complete": None}


@dataclass(slots=True)
class _Losses:
    """What a file's damage means for its runs."""

    every: list[Partial] = field(default_factory=list)
    named: dict[int, list[Partial]] = field(default_factory=dict)  # by head


def close(imported: Import, files: Sequence[FileSoFar], *, source: str, runtime: str) -> None:
    """Marks damaged and healed runs, then writes each file's state. Repeating it changes nothing."""
    losses = {file.row.pk: _losses(imported, file) for file in files}
    doubles = {file.row.pk: file.doubles for file in files if file.doubles}
    healed = _healed(files, exactly=runtime == "lines")
    for heads in _heads(files, losses, doubles, healed):
        with transaction.atomic():
            beat(imported)
            notes = _tell(imported, heads, losses, doubles, healed)
            if notes:
                store.ingest(
                    source_name=source,
                    runtime=runtime,
                    import_id=imported.pk,
                    actor=f"import:{imported.pk}",
                    items=notes,
                    announce=False,
                )
    for file in files:
        _finish(file, runtime)


def _losses(imported: Import, file: FileSoFar) -> _Losses:
    made = _Losses()
    for partial in file.partials:
        heads = _known(imported, partial.runs) if partial.runs else []
        if not heads:  # nobody can say which run the lost text was of
            made.every.append(partial)
        for head_id in heads:
            made.named.setdefault(head_id, []).append(partial)
    return made


def _known(imported: Import, runs: Sequence[str]) -> list[int]:
    """Heads of these run ids that the import brought something to."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT DISTINCT h.id FROM journals_head h JOIN journals_import_run r ON r.head_id = h.id JOIN journals_import_file f ON f.id = r.file_id"
            " WHERE f.import_id = %s AND h.run = ANY(%s) ORDER BY h.id",
            [imported.pk, [store.encode_text(run) for run in runs]],
        )
        return [head_id for (head_id,) in cursor.fetchall()]


_CANDIDATES: Final = """SELECT DISTINCT mine.file_id, mine.head_id, h.run, mine.new + mine.existing FROM journals_import_run old
    JOIN journals_import_run mine ON mine.head_id = old.head_id AND mine.file_id = ANY(%s) JOIN journals_head h ON h.id = mine.head_id
    WHERE old.partial <> '[]'::jsonb AND NOT old.healed AND old.file_id <> ALL(%s)"""
_STORED: Final = """SELECT head_id, count(*) FROM journals_entry WHERE head_id = ANY(%s) AND origin = 'import'
    AND NOT (kind = 'note' AND entry_id LIKE 'state:%%') GROUP BY head_id"""


def _healed(files: Sequence[FileSoFar], *, exactly: bool) -> set[int]:
    """Heads that an older file left damaged and of which one undamaged file of this import holds every entry that there is."""
    whole = {file.row.pk: file for file in files if not file.partials and not file.unread_count}
    with connection.cursor() as cursor:
        cursor.execute(_CANDIDATES, [list(whole), [file.row.pk for file in files]])
        found = cursor.fetchall()
        cursor.execute(_STORED, [[head_id for _, head_id, _, _ in found]])
        stored: dict[int, int] = dict(cursor.fetchall())
    made = set()
    for file_id, head_id, run, received in found:
        copies = whole[file_id].doubles.get(store.decode_text(run), {})
        seen = received - sum(times - 1 for times in copies.values())
        if seen == stored.get(head_id) if exactly else seen >= stored.get(head_id, 0):
            made.add(head_id)
    return made


def _heads(
    files: Sequence[FileSoFar],
    losses: Mapping[int, _Losses],
    doubles: Mapping[int, Mapping[str, Any]],
    healed: set[int],
) -> list[list[int]]:
    """The heads that there is something to say about, in batches."""
    wanted = set(healed)
    for file in files:
        rows = ImportRun.objects.filter(file=file.row)
        found = losses[file.row.pk]
        wanted |= set(found.named)
        if found.every:
            wanted |= set(rows.values_list("head_id", flat=True))
        elif doubles.get(file.row.pk):
            wanted |= set(_of_file(file.row, doubles[file.row.pk]))
    ordered = sorted(wanted)
    return [ordered[i : i + BATCH] for i in range(0, len(ordered), BATCH)]


def _of_file(row: ImportFile, runs: Mapping[str, Any]) -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT h.id FROM journals_head h JOIN journals_import_run r ON r.head_id = h.id WHERE r.file_id = %s AND h.run = ANY(%s)",
            [row.pk, [store.encode_text(run) for run in runs]],
        )
        return [head_id for (head_id,) in cursor.fetchall()]


def _tell(
    imported: Import,
    heads: Sequence[int],
    losses: Mapping[int, _Losses],
    doubles: Mapping[int, Mapping[str, Mapping[int, int]]],
    healed: set[int],
) -> list[store.Foreign]:
    """The notes for these heads; keeps what is missing beside what each file brought."""
    names = _names(heads)
    missing: dict[int, list[Partial]] = {}
    copies: dict[int, set[int]] = {}
    for row in ImportRun.objects.filter(file__imported=imported, head_id__in=heads, file_id__in=losses).order_by("pk"):
        found = losses[row.file_id]
        mine = [*found.every, *found.named.get(row.head_id, ())]
        if mine:
            row.partial = [{"code": p.code, "reason": shown(p.reason, 300)} for p in mine]
            row.save(update_fields=["partial"])
            missing.setdefault(row.head_id, []).extend(mine)
        copies.setdefault(row.head_id, set()).update(doubles.get(row.file_id, {}).get(names[row.head_id], ()))
    ImportRun.objects.filter(head_id__in=healed & set(heads), healed=False).exclude(partial=[]).update(healed=True)
    told = _last_told(heads)
    notes = []
    for head_id in heads:
        was = told.get(head_id, _NOTHING_TOLD)
        out = _merged(was, missing.get(head_id, []), copies.get(head_id, set()), healed=head_id in healed)
        if out != was:
            notes.append(state_note(names[head_id], out, record=f"import={imported.pk}"))
    return notes


def _merged(was: Mapping[str, Any], missing: Sequence[Partial], copies: set[int], *, healed: bool) -> dict[str, Any]:
    out = dict(was)
    if (missing or healed) and "partial" in out:
        out = {k: v for k, v in out.items() if k not in ("partial", "losses", "complete_told")}
        out["complete"] = was.get("complete_told")
    if missing:
        out["complete_told"], out["complete"] = out.get("complete"), False
        out["partial"] = "; ".join(dict.fromkeys(shown(p.reason, 300) for p in missing))
        out["losses"] = [{"code": p.code, "reason": shown(p.reason, 300)} for p in missing]
    elif healed and "partial" in was:
        out["made_whole"] = True
    if copies:
        out["duplicates"] = sorted({*copies, *(n for n in out.get("duplicates", ()) if isinstance(n, int))})
    return out


def _names(heads: Sequence[int]) -> dict[int, str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT id, run FROM journals_head WHERE id = ANY(%s)", [list(heads)])
        return {head_id: store.decode_text(run) for head_id, run in cursor.fetchall()}


def _last_told(heads: Sequence[int]) -> dict[int, Mapping[str, Any]]:
    """The newest `runtime.state` of each head that has one."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT DISTINCT ON (head_id) head_id, pos FROM journals_entry WHERE head_id = ANY(%s) AND origin = 'import' AND kind = 'note'"
            " AND entry_id LIKE 'state:%%' ORDER BY head_id, pos DESC",
            [list(heads)],
        )
        found = cursor.fetchall()
    made: dict[int, Mapping[str, Any]] = {}
    for head_id, pos in found:
        for entry in store.entries_at(head_id, [pos]):
            if isinstance(entry.entry.out, dict):
                made[head_id] = entry.entry.out
    return made


# -- the file's own row ---------------------------------------------------------------------------------------------


def _finish(file: FileSoFar, runtime: str) -> None:
    row = file.row
    row.unread_count = file.unread_count
    row.lines = file.counted if file.counted is not None else file.entries + file.unread_count
    row.entries_read = max(row.lines - file.unread_count, 0)
    row.state, row.reason = _outcome(file)
    row.unread = list(file.unread)
    if (more := file.unread_count - len(file.unread)) > 0:
        last = file.unread[-1]
        row.unread.append(
            {"line": last["line"] + 1, "byte": last["byte"], "reason": f"{more} more were not read", "start": ""}
        )
    row.notes = [
        shown(text, 500)
        for text in [*file.notes, *_copies(file), *_conflicts(row), *(_holes(row) if runtime == "lines" else ())]
    ]
    row.save(update_fields=["unread_count", "lines", "entries_read", "state", "reason", "unread", "notes"])


def _outcome(file: FileSoFar) -> tuple[str, str]:
    if file.refused and not file.entries:
        return "refused", shown(file.refused, 500)
    if not file.seen:
        return "refused", "the reader took nothing from this file"
    if not file.entries and file.unread_count and not any(p.code == "torn_tail" for p in file.partials):
        return "refused", "no line of the file is a journal entry"
    reasons = [file.refused, *(p.reason for p in file.partials)]
    if file.unread_count and not file.partials:
        reasons.append(f"{file.unread_count} not read")
    found = "; ".join(dict.fromkeys(r for r in reasons if r))
    return ("partial", shown(found, 500)) if found else ("complete", "")


def _copies(file: FileSoFar) -> list[str]:
    told = [(run, number, times) for run, numbers in file.doubles.items() for number, times in sorted(numbers.items())]
    made = [f"run {shown(run)}: entry {number} received {times} times" for run, number, times in told[:20]]
    return [*made, f"{len(told) - 20} more entries received more than once"] if len(told) > 20 else made


def _conflicts(row: ImportFile) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT h.run, r.conflicts, count(*) OVER () FROM journals_import_run r JOIN journals_head h ON h.id = r.head_id"
            " WHERE r.file_id = %s AND r.conflicts <> '[]'::jsonb ORDER BY r.id LIMIT 20",
            [row.pk],
        )
        found = cursor.fetchall()
    made = []
    for run, conflicts, _ in found:
        numbers = json.loads(conflicts) if isinstance(conflicts, str) else conflicts
        listed = ", ".join(map(str, numbers[:10])) + (f" and {len(numbers) - 10} more" if len(numbers) > 10 else "")
        made.append(f"run {shown(store.decode_text(run))}: other content than before at {listed}; both are kept")
    return (
        [*made, f"{found[0][2] - 20} more runs with other content than before"] if found and found[0][2] > 20 else made
    )


# Ids are given as values, never as a subquery: with statistics that are behind, as after any large import, PostgreSQL would
# choose a plan that reads the whole table for each run.
_WITH_HOLES: Final = """SELECT head_id FROM journals_entry WHERE head_id = ANY(%s) AND seq IS NOT NULL
    GROUP BY head_id HAVING max(seq) > count(DISTINCT seq) ORDER BY head_id LIMIT 21"""
_HOLES: Final = """SELECT h.run, e.seq + 1, e.next - 1 FROM (
    SELECT head_id, seq, lead(seq) OVER (PARTITION BY head_id ORDER BY seq) AS next FROM journals_entry WHERE head_id = ANY(%s) AND seq IS NOT NULL
    UNION ALL SELECT head_id, 0, min(seq) FROM journals_entry WHERE head_id = ANY(%s) AND seq IS NOT NULL GROUP BY head_id
    ) e JOIN journals_head h ON h.id = e.head_id WHERE e.next > e.seq + 1 ORDER BY e.head_id, e.seq LIMIT 21"""


def _holes(row: ImportFile) -> list[str]:
    if row.entries_read > HOLES_UP_TO:
        return []
    heads = list(ImportRun.objects.filter(file=row).values_list("head_id", flat=True))
    with connection.cursor() as cursor:
        cursor.execute(_WITH_HOLES, [heads])
        torn = [head_id for (head_id,) in cursor.fetchall()]
        cursor.execute(_HOLES, [torn, torn])
        found = cursor.fetchall()
    made = [
        f"run {shown(store.decode_text(run))}: {f'entry {a} has' if a == b else f'entries {a} to {b} have'} not been received"
        for run, a, b in found[:20]
    ]
    return [*made, "more entries have not been received"] if len(found) > 20 else made
