"""The making of one journal line of a Restate row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drainboard import wire

from journals.adapters.base import Line
from journals.adapters.names import effect_of, kind_of
from journals.adapters.restate.entries import Entry
from journals.adapters.restate.rows import Row
from journals.adapters.restate.runs import Snapshot

Fields = dict[str, Any]


def line(snapshot: Snapshot, row: Row, record: str, fields: Mapping[str, Any], *, closed: bool = False) -> Line:
    """A line of these fields; absent ones are dropped, `out` and `in` may be null."""
    kept = {k: v for k, v in fields.items() if v is not wire.MISSING and (v not in (None, "") or k in ("in", "out"))}
    return Line(
        snapshot.run,
        wire.dump({"run": snapshot.run, **kept}),
        record,
        row.path,
        ("opaque_payload",) if closed else (),
    )


def digest(value: Any) -> str:
    """12 hex digits that stand for a value."""
    return wire.digest_bytes(wire.encode(value))[7:19]


def record_of(row: Row) -> str:
    return row.record or f"{row.table}/{row.order}"


def call_of(entry: Entry) -> str | None:
    number = entry.completion if entry.completion is not None else entry.given
    return None if number is None else str(number)


def run_kind(entry: Entry) -> str:
    """What a `Run` is, by its name."""
    return kind_of(entry.name)


def effect(entry: Entry) -> str | None:
    """`read` or `write` where it is known. The SDKs' clock (`ctx.time()`) is a Run named `timestamp`."""
    told = effect_of(entry.name)
    if told or entry.name != "timestamp":
        return told
    return "read"
