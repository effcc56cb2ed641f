"""Head rows of runs: finding, locking, changing the gate. Re-exported by `journals.store`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from psycopg import sql
from psycopg.rows import dict_row

from journals import errors
from journals.cursors import plain_cursor
from journals.text import decode_text, encode_text


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


_HEAD = """SELECT h.id, h.key, h.source_id, s.name AS source, s.runtime, h.run, h.agent, h.environment, h.native, h.created_at, h.pos,
    h.entries, h.bytes, h.epoch, h.lease_until, h.worker, h.open_build, h.open_replaces, h.build, h.pinned_build, h.stop_name,
    h.stop_message, h.hold_reason, h.ended, h.parked_on, h.wake_at, h.dirty, clock_timestamp() AS now
    FROM journals_head h JOIN journals_source s ON s.id = h.source_id """


def _heads(where: str, params: Sequence[Any]) -> list[HeadRow]:
    with plain_cursor(dict_row) as cursor:
        cursor.execute(_HEAD + where, params)
        return [_head_row(**columns) for columns in cursor]


def _head_row(**columns: Any) -> HeadRow:
    return HeadRow(**{**columns, **{name: decode_text(columns[name]) for name in ("run", "agent", "environment")}})


def head(head_id: int) -> HeadRow:
    """The head row as it stands; raises `UnknownRun`."""
    return _one(_heads("WHERE h.id = %s", [head_id]), f"no run has the number {head_id}")


def heads(head_ids: Sequence[int]) -> list[HeadRow]:
    """The head rows with these numbers, in their order; those that do not exist are left out."""
    return _heads("WHERE h.id = ANY(%s) ORDER BY h.id", [list(head_ids)])


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
        raise errors.AmbiguousRun(
            f"run {run!r} is in {len(found)} sources ({names}); name one", sources=sorted(h.source for h in found)
        )
    return _one(found, f"no run has the id {run!r}" + (f" in source {source!r}" if source else ""))


def first_seen(head_ids: Sequence[int]) -> dict[int, datetime]:
    """When these runs came here: started, or first imported; by the database's clock."""
    with plain_cursor() as cursor:
        cursor.execute("SELECT id, created_at FROM journals_head WHERE id = ANY(%s)", [list(head_ids)])
        return dict(cursor.fetchall())


def find_executions(name: str, *, chained: Mapping[str, str], source: str | None = None) -> list[HeadRow]:
    """Runs that are executions of this name, in runtimes whose run ids are `<name><separator><execution>`; at most 50, oldest first.

    `chained` gives the separator by runtime.
    """
    found: list[HeadRow] = []
    for runtime, separator in chained.items():
        where, params = "WHERE s.runtime = %s AND starts_with(h.run, %s)", [runtime, encode_text(name + separator)]
        if source is not None:
            where, params = where + " AND s.name = %s", [*params, source]
        found += _heads(where + " ORDER BY h.id LIMIT 50", params)
    return found


def _one(found: list[HeadRow], message: str) -> HeadRow:
    if not found:
        raise errors.UnknownRun(message)
    return found[0]


_CHANGEABLE = frozenset(
    [
        "epoch",
        "lease_until",
        "worker",
        "open_build",
        "open_replaces",
        "build",
        "pinned_build",
        "stop_name",
        "stop_message",
        "hold_reason",
        "ended",
        "parked_on",
        "wake_at",
    ]
)


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
        cursor.execute(
            sql.SQL("UPDATE journals_head SET dirty = true, {} WHERE id = %s").format(sql.SQL(", ").join(parts)),
            [*params, head_id],
        )


def renew(head_id: int, *, lease_s: float) -> None:
    """Extends the lease of a locked head, by the database's clock; nothing that a page shows changes."""
    with plain_cursor() as cursor:
        cursor.execute(
            "UPDATE journals_head SET lease_until = clock_timestamp() + %s WHERE id = %s",
            [timedelta(seconds=lease_s), head_id],
        )
