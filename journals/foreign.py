"""Entries of imported files. They get positions and a chain like all others; native runs are never touched.

The same entry again is nothing new. The same id with other content is kept beside the first and counted as a conflict.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import transaction
from drainboard import wire
from psycopg.types.json import Jsonb

from journals import chain, errors, payloads, signals
from journals.bodies import keep_payloads
from journals.cursors import plain_cursor
from journals.sources import new_key, source_id
from journals.text import encode_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """One entry of a file. `raw` is its exact line; `digest` decides what counts as the same content (default: the bytes)."""

    run: str
    id: str
    raw: bytes
    kind: str
    seq: int | None = None
    branch: str = ""
    step: int | None = None
    attempt: int = 1
    record: str = ""
    digest: bytes | None = None
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
) -> dict[str, IngestResult]:
    """Appends what is new of these entries, in the order given, in one transaction; answers by run id.

    Runs are made as needed, with `agent` and `environment` or what the entries say. Raises `NotAllowed` for a native source
    or one of another runtime.
    """
    if source_name.startswith("native:"):
        raise errors.NotAllowed("imports never write to a native source", source=source_name)
    with transaction.atomic():
        source = source_id(source_name, runtime=runtime)
        runs = _lock_runs(source, items, agent, environment)
        for item in items:
            runs[item.run].items.append(item)
        with plain_cursor() as cursor:
            cursor.execute("SELECT clock_timestamp()")
            (now,) = cursor.fetchone()  # type: ignore[misc]
        rows = [row for run in runs.values() for row in _rows(run, now, actor, import_id)]
        _write(rows, runs.values())
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


def _rows(run: _Run, now: datetime, actor: str, import_id: int | None) -> list[tuple[Any, ...]]:
    """The rows to add for one run; fills in its result, position and link."""
    stored = _stored(run)
    made = []
    for item in run.items:
        digest = item.digest or payloads.sha256(item.raw)
        known = stored.setdefault(item.id, set())
        if digest in known:
            run.result.existing += 1
            continue
        run.pos += 1
        if known:
            run.result.conflicts.append(item.seq if item.seq is not None else run.pos)
        known.add(digest)
        run.link = chain.link(
            run.link, pos=run.pos, recorded_at=now, epoch=0, actor=actor, token_id=None, origin="import", raw=item.raw
        )
        run.bytes += len(item.raw)
        cut = payloads.split(item.raw)
        made.append((run.result.head_id, run.pos, now, actor, item, digest, run.link, cut, import_id))
    run.result.new = len(made)
    return made


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


_COPY = (
    "COPY journals_entry (head_id, pos, recorded_at, epoch, actor, origin, entry_id, seq, kind, branch, step, attempt, digest, hash,"
    " size, line, slots, record, import_id) FROM STDIN"
)
_SEQ_LIMIT = 2**63 - 1


def _write(rows: Sequence[tuple[Any, ...]], runs: Iterable[_Run]) -> None:
    for start in range(0, len(rows), 1_000):
        keep_payloads([r[7] for r in rows[start : start + 1_000]])
    with plain_cursor() as cursor:
        if rows:
            with cursor.copy(_COPY) as copy:
                for head_id, pos, now, actor, item, digest, link, cut, import_id in rows:
                    copy.write_row((
                        head_id, pos, now, 0, actor, "import", encode_text(item.id), _bounded(item.seq), encode_text(item.kind),
                        encode_text(item.branch), _bounded(item.step, 2**31 - 1), _bounded(item.attempt, 2**31 - 1) or 1, digest, link, len(item.raw), cut.line,
                        Jsonb(cut.slots) if cut.slots else None, encode_text(item.record), import_id,
                    ))  # fmt: skip
        changed = [r for r in runs if r.result.new]
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
