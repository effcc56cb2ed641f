"""The only door to entries: append, record, ingest, read. It speaks `drainboard.wire` and raises `journals.errors.Refused`.

Three writers, one journal:

- `append`: a worker's lines, under its epoch and the run's gate (the SQL function `journal_append`; one call, one commit);
- `record`: the server's own entries (a person's decision, an open), inside the caller's transaction, head locked;
- `ingest`: entries of an imported file; never into a native run.

Every entry gets the next `pos` of its run under the lock of the head row, and the next link of the run's chain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction
from drainboard import wire
from psycopg.types.json import Jsonb

from journals import errors, payloads, signals
from journals.appending import Appended, append
from journals.bodies import keep_payloads
from journals.cursors import plain_cursor
from journals.foreign import Foreign, IngestResult, ingest
from journals.heads import HeadRow, change, find, find_executions, first_seen, head, heads, lock, renew
from journals.reading import (
    StoredEntry,
    Verified,
    entries_at,
    entries_of,
    export,
    positions_of,
    read,
    repeated,
    skeleton,
    skeletons,
    verify,
)
from journals.sources import (
    UNMAPPED,
    MappingMoved,
    Source,
    UnknownSource,
    change_mapping,
    mapping_changes,
    native_source,
    new_key,
    source,
    source_id,
)
from journals.text import decode_text, encode_text

__all__ = [
    "UNMAPPED", "Appended", "Foreign", "HeadRow", "IngestResult", "MappingMoved", "Source", "StoredEntry", "UnknownSource", "Verified", "append",
    "change", "change_mapping", "create", "decode_text", "encode_text", "entries_at", "entries_of", "export", "find", "find_executions", "first_seen", "head",
    "heads", "ingest", "lock", "mapping_changes", "native_source", "new_key", "position_of", "positions_of", "read", "record", "renew", "repeated", "skeleton", "skeletons", "source",
    "source_id", "verify", "waits_for",
]  # fmt: skip


def create(
    *, run: str, agent: str, environment: str, line: bytes, actor: str, token_id: int | None = None
) -> tuple[HeadRow, bool]:
    """Starts a native run: its head row and its `run.started` entry, in one transaction. `(head, created)`.

    The same run id again answers the run that is there. Raises `EntryConflict` when that was started with another agent or input.
    """
    with transaction.atomic():
        own = source_id(native_source(environment), runtime="native", native=True)
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO journals_head (key, source_id, run, agent, environment, native) VALUES (%s, %s, %s, %s, %s, true)"
                " ON CONFLICT (source_id, run) DO NOTHING RETURNING id",
                [new_key(), own, encode_text(run), encode_text(agent), encode_text(environment)],
            )
            made = cursor.fetchone()
        found = lock(made[0]) if made else find(run=run, source=native_source(environment))
        if made:
            _insert(found, [Made("s.0", "run.started", line)], actor=actor, origin="server", token_id=token_id)
            return head(found.id), True
    first = next(read(found.id, limit=1))
    if found.agent != agent or _input(first.raw) != _input(line):
        raise errors.EntryConflict(
            f"run {run!r} was started before, with another agent or input", key=found.key, agent=found.agent
        )
    return found, False


def _input(line: bytes) -> bytes | None:
    spans = wire.spans_of(line)
    return line[slice(*spans["in"])] if spans and "in" in spans else None


@dataclass(slots=True)
class Made:
    """One line on its way into the journal."""

    id: str
    kind: str
    raw: bytes
    seq: int | None = None
    branch: str = ""
    step: int | None = None
    attempt: int = 1
    versions: bytes | None = None
    digest: bytes | None = None  # of the content; default: of the bytes
    record: str = ""


def record(
    head_id: int,
    entry: Mapping[str, Any],
    *,
    actor: str,
    changes: Mapping[str, Any] | None = None,
    token_id: int | None = None,
) -> int:
    """Appends the server's own entry and changes head columns, in the caller's transaction; returns the position.

    `run`, `id` and `at` are added when absent. On a foreign run the entry carries no `seq`. Changes must name columns of the gate.
    """
    found = lock(head_id)
    pos = found.pos + 1
    line = {"run": found.run, "id": f"s.{pos}", "at": found.now.isoformat().replace("+00:00", "Z"), **entry}
    made = Made(
        line["id"],
        line["kind"],
        wire.dump(line),
        branch=line.get("branch", ""),
        step=line.get("step"),
        attempt=line.get("attempt", 1),
    )
    _insert(found, [made], actor=actor, origin="server", token_id=token_id)
    if changes:
        change(head_id, **changes)
    return pos


def position_of(head_id: int, entry_id: str, *, digest: bytes | None = None) -> int | None:
    """Where the entry with this id (and this content) stands; None when there is none."""
    with plain_cursor() as cursor:
        cursor.execute(
            "SELECT min(pos) FROM journals_entry WHERE head_id = %s AND entry_id = %s AND coalesce(digest = %s, true)",
            [head_id, encode_text(entry_id), digest],
        )
        return cursor.fetchone()[0]  # type: ignore[index, no-any-return]


def waits_for(found: HeadRow, reason: str) -> bool:
    """Whether the run is parked on this reason (`signal:go`), alone or among several (`also` of its `run.parked`)."""
    if found.parked_on in ("", reason):
        return found.parked_on == reason
    with plain_cursor() as cursor:
        cursor.execute(
            "SELECT pos FROM journals_entry WHERE head_id = %s AND kind = 'run.parked' ORDER BY pos DESC LIMIT 1",
            [found.id],
        )
        row = cursor.fetchone()
    also = entries_at(found.id, [row[0]])[0].entry.extra.get("also") if row else None
    return isinstance(also, list) and reason in also


_INSERT = """INSERT INTO journals_entry (head_id, pos, recorded_at, epoch, actor, token_id, origin, entry_id, seq, kind, branch, step, attempt, digest, hash,
    versions, size, line, slots, record, import_id) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s,
    journals_link(%s, %s, %s, %s, %s, %s, %s, %s), %s, %s, %s, %s, %s, %s) RETURNING hash"""


def _insert(found: HeadRow, lines: Sequence[Made], *, actor: str, origin: str, token_id: int | None = None) -> None:
    """Writes lines after the head's last position and moves the head. The head must be locked."""
    splits = [payloads.split(m.raw) for m in lines]
    keep_payloads(splits)
    with plain_cursor() as cursor:
        cursor.execute("SELECT hash FROM journals_head WHERE id = %s", [found.id])
        (link,) = cursor.fetchone()  # type: ignore[misc]
        pos = found.pos
        for made, cut in zip(lines, splits, strict=True):
            pos += 1
            raw = payloads.sha256(made.raw)
            cursor.execute(
                _INSERT,
                [
                    found.id,
                    pos,
                    found.now,
                    found.epoch,
                    actor,
                    token_id,
                    origin,
                    encode_text(made.id),
                    pos if found.native else made.seq,
                    made.kind,
                    encode_text(made.branch),
                    made.step,
                    made.attempt,
                    made.digest or raw,
                    link,
                    pos,
                    found.now,
                    found.epoch,
                    actor,
                    token_id,
                    origin,
                    raw,
                    made.versions,
                    len(made.raw),
                    cut.line,
                    Jsonb(cut.slots) if cut.slots else None,
                    made.record,
                    None,
                ],
            )
            (link,) = cursor.fetchone()  # type: ignore[misc]
        cursor.execute(
            "UPDATE journals_head SET pos = %s, hash = %s, entries = entries + %s, bytes = bytes + %s, dirty = true WHERE id = %s",
            [pos, link, len(lines), sum(len(m.raw) for m in lines), found.id],
        )
    signals.announce([found.id])
