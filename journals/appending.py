"""A worker's append: the hot path. Re-exported by `journals.store`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from django.db import connection
from drainboard import wire
from psycopg.types.json import Jsonb

from journals import errors, payloads
from journals.bodies import columns
from journals.cursors import plain_cursor
from journals.text import encode_text

MAX_LINE = 4 << 20  # bytes of one native line
_KNOWN = payloads.Known()


@dataclass(frozen=True, slots=True)
class Appended:
    positions: list[int]  # of the given lines, in order; known ones keep their old position
    pos: int  # the run's last position now


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
    params = [
        *who,
        Jsonb(batch.metas),
        [s.line for s in batch.splits],
        [_slots(s) for s in batch.splits],
        [payloads.sha256(raw) for raw in batch.lines],
        batch.versions,
        *columns([s for s, _ in made]),
        [p for _, need in made for p in need],
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
_MANY = 1 << 31  # what a step's column holds
_NOT_BY_APPEND = frozenset(("run.started", "run.released", "run.resumed"))  # the server's own, made by other calls


def _meta(raw: bytes, *, granted: bool) -> tuple[dict[str, Any], bytes | None]:
    if len(raw) > MAX_LINE:
        raise errors.TooLarge(
            f"a line has {len(raw):,} bytes; the limit is {MAX_LINE:,}", size=len(raw), limit=MAX_LINE
        )
    if not raw.startswith(b"{") or b"\n" in raw:
        raise errors.MalformedEntry("a line must be one JSON object that begins with `{` and holds no newline")
    try:
        if not raw.isascii():
            raw.decode("utf-8")  # msgspec does not look into values that it skips
        line = _DECODE.decode(raw)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as e:
        raise errors.MalformedEntry(f"not a journal line: {e}") from None
    except RecursionError:
        raise errors.MalformedEntry(
            "not a journal line: nested too deep to be read; send a deep value as text"
        ) from None
    if line.seq is not None or line.recorded_at is not None:
        raise errors.MalformedEntry("`seq` and `recorded_at` are given by the server; a worker does not send them")
    if (
        line.kind not in wire.WORKER_KINDS
        or line.kind in _NOT_BY_APPEND
        or (line.kind == "approval.requested" and not granted)
    ):
        raise errors.KindNotAllowed(f"a worker's token may not append {line.kind} entries here", kind=line.kind)
    if not 1 <= line.attempt < _MANY or not 1 <= (line.step or 1) < _MANY or line.step == 0:
        raise errors.MalformedEntry("`step` and `attempt` count from 1, to 2147483647")
    versions = payloads.sha256(bytes(line.versions)) if bytes(line.versions) else None
    return {
        "id": encode_text(line.id),
        "kind": line.kind,
        "branch": encode_text(line.branch),
        "step": line.step,
        "attempt": line.attempt,
        "effect": wire.effect_of(line.kind, line.effect),
        "name": encode_text(line.name or ""),
        "size": len(raw),
        "reason": encode_text(line.reason) if line.reason is not None else None,
        "until": _until(line),
    }, versions


def _until(line: _Line) -> str | None:
    """When a parked run wakes; what other kinds say there is theirs."""
    if line.kind != "run.parked" or line.until is None:
        return None
    try:
        at = datetime.fromisoformat(line.until)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise errors.MalformedEntry(f"`until` must be an RFC 3339 time with a zone, not {line.until[:60]!r}")
    return at.isoformat()


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
