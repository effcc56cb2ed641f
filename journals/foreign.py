"""Entries of imported files. They get positions and a chain like all others; native runs are never touched.

The same entry again is nothing new. The same id with other content is kept beside the first and counted as a conflict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from struct import Struct
from typing import Final

import msgspec
from django.db import transaction
from drainboard import wire

from journals import binary, chain, errors, payloads, signals
from journals.bodies import keep_payloads
from journals.cursors import plain_cursor
from journals.sources import new_key, source_id
from journals.text import encode_text


class Foreign(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a file. `raw` is its exact line, and decides what counts as the same content."""

    run: str
    id: str
    raw: bytes
    kind: str
    seq: int | None = None
    branch: str = ""
    step: int | None = None
    attempt: int = 1
    record: str = ""
    agent: str = ""  # from run.started, used when the run is new
    environment: str = ""


@dataclass(slots=True)
class IngestResult:
    """What one call did to one run."""

    run: str
    key: str
    head_id: int
    new: int = 0
    existing: int = 0
    conflicts: list[int] = field(default_factory=list)  # numbers (seq, else pos) at which a second content stands


@dataclass(slots=True)
class _Run:
    result: IngestResult
    pos: int
    link: bytes
    items: list[Foreign] = field(default_factory=list)
    bytes: int = 0


def ingest(
    *,
    source_name: str,
    runtime: str,
    import_id: int | None,
    actor: str,
    items: Sequence[Foreign],
    agent: str = "",
    environment: str = "",
    stored: payloads.Known | None = None,
    announce: bool = True,
) -> dict[str, IngestResult]:
    """Appends what is new of these entries, in the order given, in one transaction; answers by run id.

    Runs are made as needed, with `agent` and `environment` or what the entries say. `stored` spares sending payloads again that
    an earlier call with it has committed. Without `announce` the caller says it when it is done; the heads are marked in any
    case. Raises `NotAllowed` for a native source or one of another runtime.
    """
    if source_name.startswith("native:"):
        raise errors.NotAllowed("imports never write to a native source", source=source_name)
    with transaction.atomic():
        source = source_id(source_name, runtime=runtime)
        runs = _lock_runs(source, items, agent, environment)
        for item in items:
            runs[item.run].items.append(item)
        splits: list[payloads.Split] = []
        with plain_cursor() as cursor:
            cursor.execute("SELECT clock_timestamp()")
            (now,) = cursor.fetchone()  # type: ignore[misc]
            known = {run: _stored(r) for run, r in runs.items()}
            with cursor.copy(_COPY) as copy:
                copy.write(binary.START)
                for block in _blocks(runs.values(), known, now, actor, import_id, splits):
                    copy.write(block)
                copy.write(binary.END)
        keep_payloads(splits, stored=stored)
        _move_heads([r for r in runs.values() if r.result.new])
        if announce:
            signals.announce([r.result.head_id for r in runs.values()])
    return {run: r.result for run, r in runs.items()}


def _lock_runs(source: int, items: Iterable[Foreign], agent: str, environment: str) -> dict[str, _Run]:
    """The head rows of all runs named, made when new, locked in one order so that two imports never wait for each other."""
    firsts: dict[str, tuple[str, str]] = {}
    for item in items:
        was = firsts.get(item.run, ("", ""))
        firsts[item.run] = (was[0] or item.agent, was[1] or item.environment)
    by_stored = {encode_text(run): run for run in firsts}
    wanted = sorted(by_stored)
    with plain_cursor() as cursor:
        cursor.execute(
            "INSERT INTO journals_head (key, source_id, run, agent, environment) SELECT k, %s, r, a, e FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[])"
            " AS t(k, r, a, e) ON CONFLICT (source_id, run) DO NOTHING",
            [
                source,
                [new_key() for _ in wanted],
                wanted,
                [encode_text(agent or firsts[by_stored[r]][0] or "unnamed") for r in wanted],
                [encode_text(environment or firsts[by_stored[r]][1]) for r in wanted],
            ],
        )
        cursor.execute(
            "SELECT id, key, run, pos, hash FROM journals_head WHERE source_id = %s AND run = ANY(%s) ORDER BY id FOR UPDATE",
            [source, wanted],
        )
        return {
            by_stored[run]: _Run(IngestResult(by_stored[run], key, head_id), pos, bytes(link))
            for head_id, key, run, pos, link in cursor.fetchall()
        }


def _stored(run: _Run) -> dict[str, set[bytes]]:
    """Digests by entry id of what the run has of the ids at hand."""
    if not run.pos:
        return {}
    by_stored = {encode_text(i.id): i.id for i in run.items}
    made: dict[str, set[bytes]] = {}
    with plain_cursor() as cursor:
        cursor.execute(
            "SELECT entry_id, digest FROM journals_entry WHERE head_id = %s AND entry_id = ANY(%s)",
            [run.result.head_id, list(by_stored)],
        )
        for stored, digest in cursor.fetchall():
            made.setdefault(by_stored[stored], set()).add(bytes(digest))
    return made


_COPY: Final = (
    "COPY journals_entry (head_id, pos, recorded_at, epoch, attempt, size, digest, hash, actor, origin, import_id, seq, step,"
    " entry_id, kind, branch, record, line, slots) FROM STDIN (FORMAT binary)"
)
_FRONT: Final = Struct(">h iq iq iq ii ii ii i32s i32s").pack  # 19 columns; up to `hash`
_BLOCK: Final = 64 << 10  # bytes given to the server at once; it works on them while we make the next
_SEQ_LIMIT: Final = 2**63 - 1
_INT_LIMIT: Final = 2**31 - 1


def _blocks(
    runs: Iterable[_Run],
    known: dict[str, dict[str, set[bytes]]],
    now: datetime,
    actor: str,
    import_id: int | None,
    splits: list[payloads.Split],
) -> Iterator[bytes]:
    """The rows to add, as COPY takes them; fills in each run's result, position and link, and what was cut out of the lines."""
    link = chain.linking(recorded_at=now, epoch=0, actor=actor, token_id=None, origin="import")
    at, parts, size = binary.stamp(now), list[bytes](), 0
    same = binary.field(actor.encode()) + binary.field(b"import") + binary.int8(import_id)
    words: dict[str, bytes] = {}  # of kinds and branches
    for run in runs:
        stored, head_id = known[run.result.run], run.result.head_id
        for item in run.items:
            raw, digest = item.raw, payloads.sha256(item.raw)
            if not _is_new(run, item, digest, stored):
                continue
            run.link = link(run.link, run.pos, digest)
            cut = payloads.split(raw)
            if cut.slots:
                splits.append(cut)
            for word in (item.kind, item.branch):
                if word not in words:
                    words[word] = _text(word)
            parts += (
                _FRONT(19, 8, head_id, 8, run.pos, 8, at, 4, 0, 4, _bounded(item.attempt, _INT_LIMIT) or 1, 4, len(raw), 32, digest, 32, run.link),
                same, binary.int8(_bounded(item.seq)), binary.int4(_bounded(item.step, _INT_LIMIT)), _text(item.id),
                words[item.kind], words[item.branch], _text(item.record), binary.field(cut.line), _slots(cut),
            )  # fmt: skip
            size += len(raw)
            if size >= _BLOCK:
                yield b"".join(parts)
                parts, size = [], 0
    yield b"".join(parts)


def _is_new(run: _Run, item: Foreign, digest: bytes, stored: dict[str, set[bytes]]) -> bool:
    """Counts the entry; moves the run's position when it has to be added."""
    contents = stored.get(item.id)
    if contents is None:
        stored[item.id] = {digest}
    elif digest in contents:
        run.result.existing += 1
        return False
    else:
        contents.add(digest)
        run.result.conflicts.append(item.seq if item.seq is not None else run.pos + 1)
    run.pos += 1
    run.result.new += 1
    run.bytes += len(item.raw)
    return True


def _text(value: str) -> bytes:
    return binary.field(encode_text(value).encode())


def _slots(cut: payloads.Split) -> bytes:
    return binary.field(b"\x01" + msgspec.json.encode(cut.slots)) if cut.slots else binary.NULL  # jsonb, version 1


def _move_heads(changed: Sequence[_Run]) -> None:
    with plain_cursor() as cursor:
        cursor.execute(
            "UPDATE journals_head h SET pos = t.pos, hash = t.hash, entries = entries + t.n, bytes = bytes + t.size, dirty = true"
            " FROM unnest(%s::bigint[], %s::bigint[], %s::bytea[], %s::bigint[], %s::bigint[]) AS t(id, pos, hash, n, size) WHERE h.id = t.id",
            [
                [r.result.head_id for r in changed],
                [r.pos for r in changed],
                [r.link for r in changed],
                [r.result.new for r in changed],
                [r.bytes for r in changed],
            ],
        )


def _bounded(value: int | None, limit: int = _SEQ_LIMIT) -> int | None:
    """A number that fits its column; one beyond it stays in the line only."""
    return value if value is not None and 0 < value <= limit else None


def foreign(raw: bytes, *, record: str = "", id: str | None = None, entry: wire.Entry | None = None) -> Foreign:
    """A `Foreign` for one journal line; `id` falls back to the line's own, then to `seq:<n>`."""
    e = entry or wire.parse(raw)
    return Foreign(
        run=e.run, id=id or e.id or f"seq:{e.seq}", raw=raw, kind=e.kind, seq=e.seq, branch=e.branch, step=e.step, attempt=e.attempt,
        record=record, agent=(e.agent or "") if e.kind == "run.started" else "", environment=(e.environment or "") if e.kind == "run.started" else "",
    )  # fmt: skip
