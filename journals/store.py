"""The only door to entries: append, record, ingest, read. It speaks `drainboard.wire` and raises `journals.errors.Refused`.

Three writers, one journal:

- `append`: a worker's lines, under its epoch and the run's gate (the SQL function `journal_append`; one call, one commit);
- `record`: the server's own entries (a person's decision, an open), inside the caller's transaction, head locked;
- `ingest`: entries of an imported file; never into a native run.

Every entry gets the next `pos` of its run under the lock of the head row, and the next link of the run's chain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any

import msgspec
from django.db import connection, transaction
from drainboard import wire
from psycopg import sql
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from journals import errors, payloads, signals
from journals.bodies import keep_payloads
from journals.cursors import plain_cursor
from journals.foreign import Foreign, IngestResult, ingest
from journals.reading import StoredEntry, Verified, entries_at, export, read, skeleton, verify
from journals.sources import native_source, new_key, source_id
from journals.text import decode_text, encode_text

__all__ = [
    "Appended", "Foreign", "HeadRow", "IngestResult", "StoredEntry", "Verified", "append", "create", "decode_text", "encode_text", "entries_at", "export",
    "find", "head", "ingest", "lock", "native_source", "read", "record", "skeleton", "source_id", "verify",
]

MAX_LINE = 4 << 20  # bytes of one native line
_KNOWN = payloads.Known()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadRow:
    """The columns of a run's head row; `journals.models.Head` says what each means."""

    id: int
    key: str
    source_id: int
    source: str
    runtime: str
    run: str  # decoded: the run id, byte for byte
    agent: str
    environment: str
    native: bool
    created_at: datetime
    pos: int
    entries: int
    bytes: int
    epoch: int
    lease_until: datetime | None
    worker: str
    open_build: str
    open_replaces: str
    build: str
    pinned_build: str
    stop_name: str
    stop_message: str
    hold_reason: str
    ended: str
    parked_on: str
    wake_at: datetime | None
    dirty: bool
    now: datetime  # the database's clock when the row was read

    @property
    def leased(self) -> bool:
        """A worker holds a live lease."""
        return self.lease_until is not None and self.lease_until > self.now

    @property
    def open(self) -> bool:
        return self.ended == ""


@dataclass(frozen=True, slots=True)
class Appended:
    positions: list[int]  # of the given lines, in order; known ones keep their old position
    pos: int  # the run's last position now


# -- heads ----------------------------------------------------------------------------------------------------------

_HEAD = """SELECT h.id, h.key, h.source_id, s.name AS source, s.runtime, h.run, h.agent, h.environment, h.native, h.created_at, h.pos,
    h.entries, h.bytes, h.epoch, h.lease_until, h.worker, h.open_build, h.open_replaces, h.build, h.pinned_build, h.stop_name,
    h.stop_message, h.hold_reason, h.ended, h.parked_on, h.wake_at, h.dirty, clock_timestamp() AS now
    FROM journals_head h JOIN journals_source s ON s.id = h.source_id """


def _heads(where: str, params: Sequence[Any]) -> list[HeadRow]:
    with plain_cursor(class_row(_head_row)) as cursor:
        cursor.execute(_HEAD + where, params)  # type: ignore[arg-type]
        return cursor.fetchall()


def _head_row(**columns: Any) -> HeadRow:
    return HeadRow(**{**columns, **{name: decode_text(columns[name]) for name in ("run", "agent", "environment")}})


def head(head_id: int) -> HeadRow:
    """The head row as it stands; raises `UnknownRun`."""
    return _one(_heads("WHERE h.id = %s", [head_id]), f"no run has the number {head_id}")


def lock(head_id: int) -> HeadRow:
    """The head row, locked until the transaction ends; raises `UnknownRun`, and `RuntimeError` outside a transaction."""
    if not connection.in_atomic_block:
        raise RuntimeError("store.lock needs transaction.atomic")
    return _one(_heads("WHERE h.id = %s FOR UPDATE OF h", [head_id]), f"no run has the number {head_id}")


def find(*, key: str | None = None, run: str | None = None, source: str | None = None) -> HeadRow:
    """The run with this key, or this run id (in this source). Raises `UnknownRun`, `AmbiguousRun`."""
    if key is not None:
        return _one(_heads("WHERE h.key = %s", [key]), f"no run has the key {key!r}")
    if run is None:
        raise ValueError("find needs a key or a run id")
    where, params = "WHERE h.run = %s", [encode_text(run)]
    if source is not None:
        where, params = where + " AND s.name = %s", [*params, source]
    found = _heads(where + " ORDER BY h.id LIMIT 50", params)
    if len(found) > 1:
        names = ", ".join(sorted(h.source for h in found))
        raise errors.AmbiguousRun(f"run {run!r} is in {len(found)} sources ({names}); name one", sources=sorted(h.source for h in found))
    return _one(found, f"no run has the id {run!r}" + (f" in source {source!r}" if source else ""))


def _one(found: list[HeadRow], message: str) -> HeadRow:
    if not found:
        raise errors.UnknownRun(message)
    return found[0]


def create(*, run: str, agent: str, environment: str, line: bytes, actor: str, token_id: int | None = None) -> tuple[HeadRow, bool]:
    """Starts a native run: its head row and its `run.started` entry, in one transaction. `(head, created)`.

    The same run id again answers the run that is there. Raises `EntryConflict` when that was started with another agent or input.
    """
    with transaction.atomic():
        source = source_id(native_source(environment), runtime="native", native=True)
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO journals_head (key, source_id, run, agent, environment, native) VALUES (%s, %s, %s, %s, %s, true)"
                " ON CONFLICT (source_id, run) DO NOTHING RETURNING id",
                [new_key(), source, encode_text(run), encode_text(agent), encode_text(environment)],
            )
            made = cursor.fetchone()
        found = lock(made[0]) if made else find(run=run, source=native_source(environment))
        if made:
            _insert(found, [Made("s.0", "run.started", line)], actor=actor, origin="server", token_id=token_id)
            return head(found.id), True
    first = next(read(found.id, limit=1))
    if found.agent != agent or _input(first.raw) != _input(line):
        raise errors.EntryConflict(f"run {run!r} was started before, with another agent or input", key=found.key, agent=found.agent)
    return found, False


def _input(line: bytes) -> bytes | None:
    spans = wire.spans_of(line)
    return line[slice(*spans["in"])] if spans and "in" in spans else None


# -- a worker's append ----------------------------------------------------------------------------------------------

_APPEND = (
    "SELECT code, positions, pos, detail FROM journal_append(%s, %s, %s, %s, %s, %s, %s::bytea[], %s::text[], %s::bytea[], %s::bytea[],"
    " %s::bytea[], %s::bigint[], %s::bytea[], %s::bytea[], %s::bytea[], %s::bytea[], %s::bytea[])"
)


def append(
    key: str, lines: Sequence[bytes], *, token_hash: bytes, epoch: int, granted: bool = False, seen: int | None = None
) -> Appended:
    """A worker's lines, in order, all or none; one statement, committed when it answers (unless the caller holds a transaction).

    A line whose id is stored with the same bytes answers its old position, before anything else is looked at.
    Raises NotAuthenticated, NotAllowed, UnknownRun, MalformedEntry, KindNotAllowed, TooLarge, EntryConflict, RunEnded, LeaseLost, RunStopped,
    RunHeld, PinnedToBuild, ApprovalRequired. `seen` (for run.parked): the last position the worker knew.
    """
    if not lines:
        raise errors.MalformedRequest("the body holds no journal line")
    metas = [_meta(raw, granted=granted) for raw in lines]
    batch = _Batch(lines, [m for m, _ in metas], [v for _, v in metas], [payloads.split(raw) for raw in lines])
    who = (token_hash, key, epoch, granted, seen if seen is not None else 1 << 60)
    answer = _call(who, batch)
    if answer[0] == "PayloadMissing":  # this process believed that a list was stored
        _KNOWN.clear()
        answer = _call(who, batch)
    code, positions, pos, detail = answer
    if code != "ok":
        told = msgspec.json.decode(detail) if detail else {}
        raise errors.BY_CODE[code](_sentence(code, key, told), **told)
    if not connection.in_atomic_block:
        _KNOWN.add(n[0] for s in batch.splits for n in s.nodes)
    return Appended(positions, pos)


@dataclass(frozen=True, slots=True)
class _Batch:
    lines: Sequence[bytes]
    metas: list[dict[str, Any]]
    versions: list[bytes | None]
    splits: list[payloads.Split]


def _call(who: tuple[Any, ...], batch: _Batch) -> Any:
    made = [_KNOWN.trim(s) for s in batch.splits]
    bodies = {d: b for s, _ in made for d, b in s.bodies.items()}
    nodes = {n[0]: n for s, _ in made for n in s.nodes}
    params = [
        *who, Jsonb(batch.metas), [s.line for s in batch.splits], [_slots(s) for s in batch.splits],
        [payloads.sha256(raw) for raw in batch.lines], batch.versions,
        list(bodies), [len(b) for b in bodies.values()], [payloads.pack(b) for b in bodies.values()],
        list(nodes), [n[1] for n in nodes.values()], [n[2] for n in nodes.values()], [p for _, need in made for p in need],
    ]
    with plain_cursor() as cursor:
        cursor.execute(_APPEND, params, prepare=True)
        return cursor.fetchone()


def _slots(made: payloads.Split) -> str | None:
    return msgspec.json.encode(made.slots).decode() if made.slots else None


class _Line(msgspec.Struct):
    """What the append function looks at; everything else of a line stays bytes."""

    run: str
    kind: str
    id: str
    name: str | None = None
    step: int | None = None
    branch: str = ""
    attempt: int = 1
    effect: str | None = None
    reason: str | None = None
    until: str | None = None
    seq: int | None = None
    recorded_at: Any = None
    versions: msgspec.Raw = msgspec.Raw(b"")


_DECODE = msgspec.json.Decoder(_Line)
_NOT_BY_APPEND = frozenset(("run.started", "run.released", "run.resumed"))  # the server's own, made by other calls


def _meta(raw: bytes, *, granted: bool) -> tuple[dict[str, Any], bytes | None]:
    if len(raw) > MAX_LINE:
        raise errors.TooLarge(f"a line has {len(raw):,} bytes; the limit is {MAX_LINE:,}", size=len(raw), limit=MAX_LINE)
    if not raw.startswith(b"{") or b"\n" in raw:
        raise errors.MalformedEntry("a line must be one JSON object that begins with `{` and holds no newline")
    try:
        line = _DECODE.decode(raw)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as e:
        raise errors.MalformedEntry(f"not a journal line: {e}") from None
    if line.seq is not None or line.recorded_at is not None:
        raise errors.MalformedEntry("`seq` and `recorded_at` are given by the server; a worker does not send them")
    if line.kind not in wire.WORKER_KINDS or line.kind in _NOT_BY_APPEND or (line.kind == "approval.requested" and not granted):
        raise errors.KindNotAllowed(f"a worker's token may not append {line.kind} entries here", kind=line.kind)
    if line.attempt < 1 or (line.step is not None and line.step < 1):
        raise errors.MalformedEntry("`step` and `attempt` count from 1")
    versions = payloads.sha256(bytes(line.versions)) if bytes(line.versions) else None
    return {
        "id": encode_text(line.id), "kind": line.kind, "branch": encode_text(line.branch), "step": line.step, "attempt": line.attempt,
        "effect": wire.effect_of(line.kind, line.effect), "name": encode_text(line.name or ""), "size": len(raw),
        "reason": encode_text(line.reason) if line.reason is not None else None, "until": line.until,
    }, versions


_SENTENCES = {
    "NotAuthenticated": "the token is unknown, expired or revoked",
    "NotAllowed": "this token or run takes no appends",
    "UnknownRun": "no run has the key {key!r}",
    "EntryConflict": "entry {id} is stored at position {stored} with other content",
    "RunEnded": "the run is over ({ended}); it takes no more entries",
    "LeaseLost": "the run was opened again since (epoch {epoch}); this worker no longer owns it",
    "RunStopped": "the run was stopped: {name}: {message}",
    "RunHeld": "the run is held: {reason}",
    "PinnedToBuild": "the run is pinned to build {pinned_to}; this worker runs build {build}",
    "ApprovalRequired": "tool {tool!r} is under an approval policy and this step has no valid approval",
}


def _sentence(code: str, key: str, detail: Mapping[str, Any]) -> str:
    return _SENTENCES[code].format_map({"key": key, **detail})


# -- the server's own entries ---------------------------------------------------------------------------------------

_CHANGEABLE = frozenset(
    "epoch lease_until worker open_build open_replaces build pinned_build stop_name stop_message hold_reason ended parked_on wake_at".split()
)


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


def record(head_id: int, entry: Mapping[str, Any], *, actor: str, changes: Mapping[str, Any] | None = None, token_id: int | None = None) -> int:
    """Appends the server's own entry and changes head columns, in the caller's transaction; returns the position.

    `run`, `id` and `at` are added when absent. On a foreign run the entry carries no `seq`. Changes must name columns of the gate.
    """
    found = lock(head_id)
    pos = found.pos + 1
    line = {"run": found.run, "id": f"s.{pos}", "at": found.now.isoformat().replace("+00:00", "Z"), **entry}
    made = Made(
        line["id"], line["kind"], wire.dump(line), branch=line.get("branch", ""), step=line.get("step"), attempt=line.get("attempt", 1)
    )
    _insert(found, [made], actor=actor, origin="server", token_id=token_id)
    if changes:
        change(head_id, **changes)
    return pos


def change(head_id: int, **columns: Any) -> None:
    """Sets columns of the gate on a head row that the caller has locked. A `timedelta` means from now on, by the database's clock."""
    wrong = set(columns) - _CHANGEABLE
    if wrong:
        raise ValueError(f"not columns of the gate: {sorted(wrong)}")
    parts, params = [], []
    for name, value in columns.items():
        relative = isinstance(value, timedelta)
        parts.append(sql.SQL("{} = clock_timestamp() + %s" if relative else "{} = %s").format(sql.Identifier(name)))
        params.append(value)
    with plain_cursor() as cursor:
        cursor.execute(sql.SQL("UPDATE journals_head SET dirty = true, {} WHERE id = %s").format(sql.SQL(", ").join(parts)), [*params, head_id])


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
                    found.id, pos, found.now, found.epoch, actor, token_id, origin, encode_text(made.id), pos if found.native else made.seq, made.kind,
                    encode_text(made.branch), made.step, made.attempt, made.digest or raw,
                    link, pos, found.now, found.epoch, actor, token_id, origin, raw,
                    made.versions, len(made.raw), cut.line, Jsonb(cut.slots) if cut.slots else None, made.record, None,
                ],
            )
            (link,) = cursor.fetchone()  # type: ignore[misc]
        cursor.execute(
            "UPDATE journals_head SET pos = %s, hash = %s, entries = entries + %s, bytes = bytes + %s, dirty = true WHERE id = %s",
            [pos, link, len(lines), sum(len(m.raw) for m in lines), found.id],
        )
    signals.announce([found.id])


HEAD_COLUMNS = tuple(f.name for f in fields(HeadRow))
