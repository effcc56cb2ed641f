"""Reading entries: whole, as skeletons, as an export, and checking the chain. Re-exported by `journals.store`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from django.db import connection
from drainboard import wire

from journals import chain, payloads
from journals.binary import array, know_arrays
from journals.cursors import plain_cursor
from journals.text import decode_text

BATCH = 500  # entries fetched at once
SMALL = 2_048  # bytes up to which a skeleton holds a value itself


@dataclass(frozen=True)
class StoredEntry:
    """One entry of a run. `raw` is the exact line, or in a skeleton the line with large values as `{"$cut": …}`."""

    head_id: int
    pos: int
    seq: int | None
    recorded_at: datetime
    epoch: int
    actor: str
    token_id: int | None
    origin: str  # worker, server, import
    kind: str
    entry_id: str
    digest: bytes
    hash: bytes
    record: str
    import_id: int | None
    size: int  # bytes of the exact line
    branch: str
    step: int | None
    attempt: int
    raw: bytes

    @property
    def number(self) -> int:
        """How pages and JSON name the entry: the source's position, else ours."""
        return self.seq if self.seq is not None else self.pos

    @cached_property
    def entry(self) -> wire.Entry:
        """The parsed line. Bytes that are not UTF-8 are shown with marks and named in `oddities`."""
        try:
            return wire.parse(self.raw)
        except wire.MalformedLine:
            marked = self.raw.decode("utf-8", "backslashreplace").encode()
            return wire.from_fields({**wire.decode(marked)[0]}, oddities=("not_utf8", *wire.decode(marked)[1]))


_SELECT = (
    "SELECT head_id, pos, seq, recorded_at, epoch, actor, token_id, origin, kind, entry_id, digest, hash, record, import_id, size, branch, step, attempt, line, slots"
    " FROM journals_entry "
)


def read(head_id: int, *, after: int = 0, limit: int | None = None) -> Iterator[StoredEntry]:
    """Entries after a position, by position, each with its exact line."""
    for rows in _batches(head_id, after, limit):
        bodies, lists = _fetch(rows, up_to=None)
        for row in rows:
            yield _stored(row, payloads.join(row[18], row[19], bodies.__getitem__, lists.__getitem__))


def skeleton(head_id: int, *, after: int = 0, limit: int | None = None) -> Iterator[StoredEntry]:
    """Like `read`, with values over 2,048 bytes and lists left as `{"$cut": {"digest", "size"}}`."""
    for rows in _batches(head_id, after, limit):
        bodies, _ = _fetch(rows, up_to=SMALL)
        for row in rows:
            yield _stored(row, _cut(row[18], row[19], bodies))


def skeletons(head_ids: Sequence[int], *, until: Sequence[int]) -> Iterator[StoredEntry]:
    """`skeleton` of several short runs, each up to its position of `until`, in one statement; by run and position."""
    rows = _rows(_SEVERAL.format("<="), [list(head_ids), list(until)])
    bodies, _ = _fetch(rows, up_to=SMALL)
    for row in rows:
        yield _stored(row, _cut(row[18], row[19], bodies))


def entries_at(head_id: int, positions: Sequence[int]) -> list[StoredEntry]:
    """The entries at these positions, by position, each with its exact line."""
    return _whole(_rows(_SELECT + "WHERE head_id = %s AND pos = ANY(%s) ORDER BY pos", [head_id, list(positions)]))


def entries_of(places: Sequence[tuple[int, int]]) -> list[StoredEntry]:
    """The entries at these (run, position), by run and position, each with its exact line."""
    return _whole(_rows(_SEVERAL.format("="), [[head_id for head_id, _ in places], [pos for _, pos in places]]))


def _whole(rows: list[tuple[Any, ...]]) -> list[StoredEntry]:
    bodies, lists = _fetch(rows, up_to=None)
    return [_stored(row, payloads.join(row[18], row[19], bodies.__getitem__, lists.__getitem__)) for row in rows]


# OFFSET 0 keeps this a walk along the primary key for each run: with statistics that are behind, as after any large import,
# PostgreSQL would choose a plan that reads whole partitions.
_SEVERAL = (
    f"SELECT e.* FROM unnest(%s::bigint[], %s::bigint[]) AS t(id, pos) CROSS JOIN LATERAL ({_SELECT}"  # noqa: S608 - our own text
    "WHERE head_id = t.id AND pos {} t.pos OFFSET 0) e ORDER BY e.head_id, e.pos"
)
_NAMES = tuple(f.name for f in fields(StoredEntry))


def positions_of(head_id: int, numbers: Sequence[int]) -> list[int]:
    """Our positions, ascending, of the entries that people know by these numbers (`seq`, else `pos`)."""
    # No index on seq: the primary key narrows this to one run, whose 50,000 rows are read in about 20 ms.
    sql = "SELECT pos FROM journals_entry WHERE head_id = %s AND coalesce(seq, pos) = ANY(%s) ORDER BY pos"
    with connection.cursor() as cursor:
        cursor.execute(sql, [head_id, list(numbers)])
        return [row[0] for row in cursor.fetchall()]


def repeated(head_id: int, numbers: Sequence[int]) -> set[int]:
    """Those of these numbers that more than one entry of the run has: a source may number by super-steps."""
    sql = "SELECT coalesce(seq, pos) FROM journals_entry WHERE head_id = %s AND coalesce(seq, pos) = ANY(%s) GROUP BY 1 HAVING count(*) > 1"
    with connection.cursor() as cursor:
        cursor.execute(sql, [head_id, list(numbers)])
        return {row[0] for row in cursor.fetchall()}


def _batches(head_id: int, after: int, limit: int | None) -> Iterator[list[tuple[Any, ...]]]:
    left = limit
    while left is None or left > 0:
        take = BATCH if left is None else min(BATCH, left)
        rows = _rows(_SELECT + "WHERE head_id = %s AND pos > %s ORDER BY pos LIMIT %s", [head_id, after, take])
        if rows:
            yield rows
        if len(rows) < take:
            return
        after = rows[-1][1]
        left = None if left is None else left - len(rows)


def _rows(statement: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
    with plain_cursor() as cursor:
        know_arrays(cursor)
        cursor.execute(statement, params, binary=True)
        return cursor.fetchall()


def _stored(row: tuple[Any, ...], raw: bytes) -> StoredEntry:
    made = StoredEntry.__new__(StoredEntry)  # frozen: its own way sets the fields one by one, which a long run feels
    made.__dict__.update(zip(_NAMES, row, strict=False))
    made.__dict__.update(entry_id=decode_text(row[9]), branch=decode_text(row[15]), raw=raw)
    return made


def _cut(line: bytes, slots: Sequence[payloads.Slot] | None, bodies: dict[bytes, bytes]) -> bytes:
    if not slots:
        return line
    parts, at = [], 0
    for slot in slots:
        digest = bytes.fromhex(slot[2])
        parts += [
            line[at : slot[0]],
            bodies[digest] if slot[1] == "b" and digest in bodies else payloads.cut_mark(slot),
        ]
        at = slot[0] + 1
    return b"".join([*parts, line[at:]])


def _fetch(rows: list[tuple[Any, ...]], *, up_to: int | None) -> tuple[dict[bytes, bytes], dict[bytes, list[bytes]]]:
    """Bodies by digest and item digests by list end, for these rows; with `up_to` only bodies of at most that size and no lists."""
    bodies, ends = payloads.wanted(r[19] for r in rows)
    if up_to is not None:
        bodies = {bytes.fromhex(s[2]) for r in rows for s in r[19] or () if s[1] == "b" and s[3] <= up_to}
        ends = set()
    lists = _lists(ends)
    bodies |= {item for items in lists.values() for item in items}
    if not bodies:
        return {}, lists
    found = _rows("SELECT digest, body FROM journals_payload WHERE digest = ANY(%s)", [array(list(bodies))])
    return {digest: payloads.unpack(body) for digest, body in found}, lists


_ANCESTORS = """WITH RECURSIVE up AS (SELECT digest, parent, item FROM journals_node WHERE digest = ANY(%s)
    UNION SELECT n.digest, n.parent, n.item FROM journals_node n JOIN up ON n.digest = up.parent) SELECT digest, parent, item FROM up"""


def _lists(ends: set[bytes]) -> dict[bytes, list[bytes]]:
    if not ends:
        return {}
    nodes = {digest: (parent, item) for digest, parent, item in _rows(_ANCESTORS, [array(list(ends))])}
    made = {}
    for end in ends:
        items: list[bytes] = []
        at: bytes | None = end
        while at is not None:
            at, item = nodes[at]
            items.append(item)
        made[end] = items[::-1]
    return made


def stamp(at: datetime) -> str:
    """RFC 3339 with microseconds, in UTC."""
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


_OBJECT = re.compile(rb"\{\s*")


def exported(entry: StoredEntry, *, native: bool) -> bytes:
    """One line as it is exported: a native line with `seq` and `recorded_at` in front, a foreign one as it came.

    Our own entries about a foreign run carry `recorded_at` and no `seq`.
    """
    if not native and entry.origin == "import":
        return entry.raw
    front = f'"seq":{entry.pos},' if native else ""
    begun = _OBJECT.match(entry.raw)
    if begun is None:
        raise ValueError(f"entry {entry.pos} is not a JSON object")
    return f'{{{front}"recorded_at":"{stamp(entry.recorded_at)}",'.encode() + entry.raw[begun.end() :]


def export(head_id: int, *, native: bool, after: int = 0, limit: int | None = None) -> Iterator[bytes]:
    """The run's lines without newlines, by position."""
    for entry in read(head_id, after=after, limit=limit):
        yield exported(entry, native=native)


@dataclass(frozen=True, slots=True)
class Verified:
    """Whether a run's chain holds: positions dense, every link right, the head equal to the last link.

    Detects every edit short of a full rewrite of the run's entries and head.
    """

    ok: bool
    entries: int
    bad_pos: int | None = None
    reason: str = ""


def verify(head_id: int) -> Verified:
    """Recomputes the run's chain from the stored bytes."""
    link, pos = b"", 0
    for entry in read(head_id):
        pos += 1
        if entry.pos != pos:
            return Verified(False, pos - 1, pos, f"position {pos} is missing")
        link = chain.link(
            link, pos=entry.pos, recorded_at=entry.recorded_at, epoch=entry.epoch, actor=entry.actor,
            token_id=entry.token_id, origin=entry.origin, raw=entry.raw,
        )  # fmt: skip
        if link != entry.hash:
            return Verified(False, pos - 1, pos, f"entry {pos} is not what was recorded")
    with connection.cursor() as cursor:
        cursor.execute("SELECT pos, hash FROM journals_head WHERE id = %s", [head_id])
        head_pos, head_hash = cursor.fetchone()
    if head_pos != pos:
        return Verified(False, pos, pos + 1, f"the head stands at {head_pos}, the last entry at {pos}")
    if bytes(head_hash) != link:
        return Verified(False, pos, pos, "the head's link is not that of the last entry")
    return Verified(True, pos)
