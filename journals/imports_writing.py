"""Writes what an adapter reads: entries in batches, and per file what came of it. One object a group of files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from django.db import transaction
from django.db.models.functions import Now
from drainboard import wire
from psycopg.types.json import Jsonb

from journals import payloads, store
from journals.adapters.base import Counted, Item, Line, Note, Partial, Refused, Unread, run_problem
from journals.adapters.heads import head_of
from journals.cursors import plain_cursor
from journals.imports_models import Import, ImportFile, ImportRun, State

__all__ = ["UNREAD_KEPT", "FileSoFar", "Superseded", "TooManyWithoutId", "Writer", "beat", "conflicts_of", "state_note"]

BATCH_LINES: Final = 5_000
BATCH_BYTES: Final = 8 << 20
UNREAD_KEPT: Final = 10_000  # unread lines of a file that are listed one by one; the rest is counted in one more row
WITHOUT_ID: Final = 2_000_000  # lines of one import that have neither `id` nor `seq`; each costs memory until the end
RECENT: Final = 200_000  # entries among which a second copy is noticed and named
ID_LIMIT: Final = 512  # bytes of an entry id; a longer one is kept in the line and filed under its hash


_SEEN_OTHERWISE: Final = frozenset(("opaque_payload", "encrypted_payload", "duplicate_entry"))


class Superseded(Exception):
    """Another worker has claimed the import since; this one must write nothing more."""


class TooManyWithoutId(Exception):
    """More lines without `id` and `seq` than can be told apart; the message says what to do."""


@dataclass(slots=True)
class FileSoFar:
    """What is known of one file while it is read."""

    row: ImportFile
    sha: str  # first 16 hex digits of the upload's hash
    seen: bool = False
    counted: int | None = None
    entries: int = 0
    notes: list[str] = field(default_factory=list)
    unread: list[dict[str, Any]] = field(default_factory=list)
    unread_count: int = 0
    refused: str = ""
    partials: list[Partial] = field(default_factory=list)
    doubles: dict[str, dict[int, int]] = field(default_factory=dict)  # run -> entry number -> times

    def lose(self, *, line: int, byte: int, reason: str, start: str) -> None:
        """Counts a stretch that became no entry."""
        self.unread_count += 1
        if len(self.unread) < UNREAD_KEPT:
            self.unread.append({"line": line, "byte": byte, "reason": reason, "start": start})


class Writer:
    """Takes the items of one adapter's pass and stores them for `imported`, whose claim is `imported.attempts`.

    A pass that is repeated after a crash gives the same lines; the first `skip` of them are stored already and only counted.
    """

    def __init__(
        self, imported: Import, files: Mapping[str, FileSoFar], *, runtime: str, source: str, skip: int, done: int
    ) -> None:
        self._imported, self._files = imported, files
        self._runtime, self._source = runtime, source
        self._skip, self.done = skip, done  # lines of earlier groups are counted in `done`
        self._batch: list[tuple[FileSoFar, store.Foreign]] = []
        self._batch_bytes = 0
        self._copies: dict[int, int] = {}  # hash of a line without id -> copies so far
        self._recent, self._older = set[int](), set[int]()  # hashes of entries, half of RECENT each
        self._stored = payloads.Known()
        self.bytes_read = 0

    def take(self, item: Item) -> None:
        """Files one item. Raises `Superseded`, `TooManyWithoutId`, `journals.errors.Refused`."""
        file = self._files[item.path]
        file.seen = True
        if isinstance(item, Line):
            self._line(file, item)
        elif isinstance(item, Unread):
            file.lose(line=item.line, byte=item.byte, reason=item.reason, start=item.start)
        elif isinstance(item, Note):
            file.notes.append(item.text)
        elif isinstance(item, Refused):
            file.refused = item.reason
        elif isinstance(item, Partial):
            file.partials.append(item)
        elif isinstance(item, Counted):
            file.counted = item.lines

    def _line(self, file: FileSoFar, line: Line) -> None:
        if problem := run_problem(line.run):
            file.lose(line=0, byte=0, reason=problem, start=line.record)
            return
        entry = self._foreign(file, line)
        file.entries += 1
        self.done += 1
        if self.done <= self._skip:
            return
        self._batch.append((file, entry))
        self._batch_bytes += len(line.raw)
        if len(self._batch) >= BATCH_LINES or self._batch_bytes >= BATCH_BYTES:
            self.flush()

    def _foreign(self, file: FileSoFar, line: Line) -> store.Foreign:
        raw = line.raw if self._runtime == "lines" else _with_oddities(line)
        head = head_of(raw)
        made = store.Foreign(
            run=line.run, id=self._id(line, head.id, head.seq), raw=raw, kind=head.kind, seq=head.seq, branch=head.branch or "",
            step=head.step, attempt=head.attempt or 1, record=f"{file.sha}#{line.record}",
            agent=head.agent or "", environment=head.environment or "",
        )  # fmt: skip
        self._notice_copy(file, made)
        return made

    def _id(self, line: Line, own: str | None, seq: int | None) -> str:
        """The entry's id: its own, else its position in the source, else its content and the how-manieth copy of it this is.

        So the same file again gives the same ids, and equal lines of one file stay apart.
        """
        if own is not None:
            data = own.encode("utf-8", "surrogatepass")
            return own if len(data) <= ID_LIMIT else f"sha256:{_sha(data)}"
        if seq is not None:
            text = f"seq:{seq}"
            return text if len(text) <= ID_LIMIT else f"seq:sha256:{_sha(text.encode())}"
        digest = _sha(line.run.encode("utf-8", "surrogatepass") + b"\0" + line.raw)
        known = int(digest[:15], 16)
        copy = self._copies[known] = self._copies.get(known, 0) + 1
        if len(self._copies) > WITHOUT_ID:
            raise TooManyWithoutId(f"more than {WITHOUT_ID:,} lines have neither `id` nor `seq`; give each one of them")
        return f"line:{digest[:32]}:{copy}"

    def _notice_copy(self, file: FileSoFar, made: store.Foreign) -> None:
        known = hash((file.row.pk, made.run, made.id, made.raw))
        if known not in self._recent and known not in self._older:
            self._recent.add(known)
            if len(self._recent) >= RECENT // 2:
                self._recent, self._older = set(), self._recent
        elif len(file.doubles) < UNREAD_KEPT and made.seq is not None:
            times = file.doubles.setdefault(made.run, {})
            times[made.seq] = times.get(made.seq, 1) + 1

    def flush(self) -> None:
        """Stores the batch and how far the import is, in one transaction."""
        batch, self._batch, self._batch_bytes = self._batch, [], 0
        if not batch:
            return
        with transaction.atomic():
            beat(self._imported, lines_done=max(self.done, self._skip), bytes_done=self.bytes_read)
            for file_of, items in _stretches(batch):
                made = store.ingest(
                    source_name=self._source, runtime=self._runtime, import_id=self._imported.pk, actor=f"import:{self._imported.pk}",
                    items=items, agent=self._imported.agent, environment=self._imported.environment, stored=self._stored, announce=False,
                )  # fmt: skip
                _count_runs([(file_of[run].row.pk, made[run]) for run in dict.fromkeys(i.run for i in items)])


def beat(imported: Import, **changes: Any) -> None:
    """Writes the claimant's sign of life and these columns; raises `Superseded` when the claim is lost."""
    mine = Import.objects.filter(pk=imported.pk, attempts=imported.attempts, state=State.RUNNING)
    if mine.update(beat_at=Now(), **changes) != 1:
        raise Superseded(f"import {imported.pk} is worked on by another worker")


def _stretches(
    batch: Sequence[tuple[FileSoFar, store.Foreign]],
) -> Iterator[tuple[dict[str, FileSoFar], list[store.Foreign]]]:
    """The batch in order, cut where the file changes; in one piece when an adapter mixes the lines of its files.

    With each piece the file that each run is counted for: the first one that gave a line of it.
    """
    switches = 1 + sum(a[0] is not b[0] for a, b in pairwise(batch))
    mixed = switches > len({id(file) for file, _ in batch})
    start = 0
    for at in range(1, len(batch) + 1):
        if at == len(batch) or (not mixed and batch[at][0] is not batch[at - 1][0]):
            piece = batch[start:at]
            first = {entry.run: file for file, entry in reversed(piece)}
            yield first, [entry for _, entry in piece]
            start = at


_COUNT: Final = """INSERT INTO journals_import_run (file_id, head_id, new, existing, conflicts, partial, healed)
    SELECT f, h, n, e, c, '[]'::jsonb, false FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::jsonb[]) AS t(f, h, n, e, c)
    ON CONFLICT (file_id, head_id) DO UPDATE SET new = journals_import_run.new + EXCLUDED.new,
    existing = journals_import_run.existing + EXCLUDED.existing, conflicts = journals_import_run.conflicts || EXCLUDED.conflicts"""


def _count_runs(results: Sequence[tuple[int, store.IngestResult]]) -> None:
    with plain_cursor() as cursor:
        cursor.execute(
            _COUNT,
            [
                [f for f, _ in results], [r.head_id for _, r in results], [r.new for _, r in results],
                [r.existing for _, r in results], [Jsonb(r.conflicts) for _, r in results],
            ],
        )  # fmt: skip


def _with_oddities(line: Line) -> bytes:
    """The line of an adapter with what nobody could find out from its bytes: its record was too deep or not standard JSON.

    Closed values carry their own mark, and copies are noticed as such. Findings read the field `oddities`.
    """
    codes = {
        "too_deep" if odd == "too_deep" else "non_standard_json" for odd in line.oddities if odd not in _SEEN_OTHERWISE
    }
    return line.raw[:-1] + b',"oddities":%b}' % wire.encode(sorted(codes)) if codes else line.raw


def conflicts_of(head_ids: Sequence[int]) -> dict[int, set[int]]:
    """Numbers at which imports have brought more than one content, by head; both stay, so these stand."""
    made: dict[int, set[int]] = {}
    rows = ImportRun.objects.filter(head_id__in=head_ids).exclude(conflicts=[])
    for head_id, numbers in rows.values_list("head_id", "conflicts"):
        made.setdefault(head_id, set()).update(numbers)
    return made


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def state_note(run: str, out: Mapping[str, Any], *, record: str) -> store.Foreign:
    """The `runtime.state` note with this content; its id is made of the content, so that the same fact is told once."""
    own = f"state:{_sha(wire.encode(out))[:12]}"
    raw = wire.encode({"run": run, "id": own, "kind": "note", "name": "runtime.state", "out": out})
    return store.Foreign(run=run, id=own, raw=raw, kind="note", record=record)
