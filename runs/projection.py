"""Keeps `runs.models` in step with the journals: fold a run, catch up on what is behind, rebuild everything.

A fold reads the run's whole skeleton and writes only rows that differ, in one transaction; short runs are folded together. It
never waits for a head's lock, nor do appends wait for it; what is appended meanwhile leaves the head `dirty`, and the next
catch-up folds again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import psycopg
from django.db import InterfaceError, OperationalError, connection, transaction

from journals import store
from journals.adapters import ADAPTERS, NATIVE
from journals.adapters.base import AdapterInfo, Evidence
from journals.cursors import plain_cursor
from journals.errors import UnknownRun
from journals.limits import limits_of
from runs import writing
from runs.entries import Asked, Closed, load, without_collection
from runs.facts import HeadFacts, Limit
from runs.mapping import NOTHING, SourceMapping, read_text
from runs.models import Run
from runs.safe import unpacked
from runs.summary import Summary
from runs.summary import fold as fold_entries

__all__ = ["RETIREMENTS", "all_heads", "catch_up", "fold", "rebuild", "summarise"]

logger = logging.getLogger(__name__)

RETIREMENTS: list[Callable[[], Mapping[str, str]]] = []
"""Model id -> when it retires (RFC 3339), from whoever knows builds; filled when that app starts."""

UNKNOWN_RUNTIME: Final = Evidence(write="never", read="never", attempts=False, says_end=False)
"""For a source whose adapter is not installed: believe nothing."""

BATCH_RUNS: Final = 100  # folded in one transaction
BATCH_ENTRIES: Final = 2_000
_NO_DATABASE: Final = (OperationalError, InterfaceError, psycopg.OperationalError, psycopg.InterfaceError)
_LOCK: Final = 0x72756E73 << 32  # namespace of advisory locks: one fold of a run at a time


def catch_up(head_ids: Iterable[int] | None = None, *, within_s: float | None = None, go_on: bool | None = None) -> int:
    """Folds the runs that are behind (of `head_ids`, or all), oldest first; returns how many still are.

    Behind is what has new entries, a changed head, or an answer that time has changed. `within_s` bounds the work. A journal
    that cannot be folded is logged, counted and tried again next time, and keeps no other run from its rows. Who asks for
    `head_ids` gets its exception, unless he says `go_on`: a decision must not rest on rows of before.
    """
    until = time.monotonic() + within_s if within_s is not None else None
    asked = None if head_ids is None else list(head_ids)
    wanted = _behind(asked)
    known = _retirements() if wanted else {}
    done = failed = 0
    for batch in _batches(wanted):
        if until is not None and time.monotonic() > until:
            return len(wanted) - done + failed
        failed += _catch_up(batch, known, go_on=asked is None if go_on is None else go_on)
        done += len(batch)
    return failed


def _catch_up(head_ids: Sequence[int], known: Mapping[str, str], *, go_on: bool) -> int:
    """Folds a batch, and each run of it by itself if one of them cannot be folded; returns how many cannot."""
    try:
        _fold(head_ids, retirements=known)
    except _NO_DATABASE:
        raise  # the database is not there; no run is to blame
    except Exception:
        if len(head_ids) > 1:
            return sum(_catch_up([head_id], known, go_on=go_on) for head_id in head_ids)
        if not go_on:
            raise
        logger.exception("the journal of run %s cannot be folded; its rows are those of before", head_ids[0])
        return 1
    return 0


def rebuild(*, batch: int = 500) -> int:
    """Folds every run again, whether behind or not; returns how many there are. Runs without a journal are removed."""
    known = _retirements()
    done = 0
    for ids in all_heads(batch):
        for several in _batches(ids):
            _fold(several, retirements=known, fresh=True)
        done += len(ids)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("DELETE FROM runs_step s WHERE NOT EXISTS (SELECT FROM journals_head h WHERE h.id = s.run_id)")
        cursor.execute("DELETE FROM runs_run r WHERE NOT EXISTS (SELECT FROM journals_head h WHERE h.id = r.head_id)")
        cursor.execute(
            "DELETE FROM runs_versionset v WHERE NOT EXISTS (SELECT FROM runs_run r WHERE r.versions_set_id = v.id)"
        )
    return done


def fold(head_id: int, *, retirements: Mapping[str, str] | None = None, fresh: bool = False) -> Run:
    """Folds one run and writes what differs; returns its row. `fresh` trusts nothing of the old row. Raises `UnknownRun`."""
    return _fold([head_id], retirements=retirements, fresh=fresh)[head_id]


def _fold(
    head_ids: Sequence[int], *, retirements: Mapping[str, str] | None = None, fresh: bool = False
) -> dict[int, Run]:
    """Folds these runs in one transaction; returns their rows. Raises `UnknownRun`, and what any of them raises."""
    ids = sorted(head_ids)
    with transaction.atomic():
        with plain_cursor() as cursor:
            cursor.execute(
                "SELECT pg_advisory_xact_lock(k) FROM unnest(%s::bigint[]) AS t(k)", [[_LOCK + i for i in ids]]
            )
        seen = _seen_versions(ids)
        heads = store.heads(ids)
        if len(heads) < len(ids):
            gone = min(set(ids) - {h.id for h in heads})
            raise UnknownRun(f"no run has the number {gone}")
        with without_collection(sum(h.entries for h in heads)):
            made = _fold_heads(heads, retirements, fresh=fresh)
        with plain_cursor() as cursor:
            cursor.execute(_CLEAN, [ids, [h.pos for h in heads], [seen[i] for i in ids]])
    return made


# Only heads that nobody touched since they were read: a later change must leave its run dirty. One that somebody has locked
# stays dirty too; a fold that waited for it would be waited for by whoever folds while he holds a head.
_CLEAN: Final = """UPDATE journals_head h SET dirty = false FROM (
    SELECT h.id FROM journals_head h JOIN unnest(%s::bigint[], %s::bigint[], %s::text[]) AS t(id, pos, version) ON h.id = t.id
    WHERE h.dirty AND h.pos = t.pos AND h.xmin::text = t.version ORDER BY h.id FOR UPDATE OF h SKIP LOCKED) few WHERE h.id = few.id"""


def _seen_versions(head_ids: Sequence[int]) -> dict[int, str]:
    """Which versions of the heads' rows we read: the transactions that wrote them."""
    with plain_cursor() as cursor:
        cursor.execute("SELECT id, xmin::text FROM journals_head WHERE id = ANY(%s)", [list(head_ids)])
        return dict(cursor.fetchall())


def _fold_heads(
    heads: Sequence[store.HeadRow], retirements: Mapping[str, str] | None, *, fresh: bool
) -> dict[int, Run]:
    ids = [h.id for h in heads]
    old = Run.objects.select_related("versions_set").defer("versions_set__body").in_bulk(ids)
    known = _retirements() if retirements is None else retirements
    mappings = _Mappings()
    asked = []
    for head in heads:
        was = None if fresh or head.id not in old else unpacked(old[head.id].summary.get("closed"))
        asked.append(Asked(head, was, mappings.of(head)))
    loaded = load(asked)
    folded = []
    for head in heads:
        entries, closed = loaded.pop(head.id)
        folded.append(writing.Folded(head, _summary(head, entries, known, head.now), closed, old.get(head.id)))
    return writing.write(folded, fresh=fresh)


def summarise(
    head: store.HeadRow,
    *,
    closed: Mapping[str, Any] | None = None,
    retirements: Mapping[str, str] | None = None,
    now: datetime | None = None,
    mapping: SourceMapping | None = None,
) -> tuple[Summary, Closed]:
    """The summary of a run as its journal stands, and what `runs.entries.load` found; writes nothing.

    `now` is the database's clock unless given; `closed` is the answer of an earlier time; `mapping` stands in for the one
    that the run's source has.
    """
    entries, found = load([Asked(head, closed, _Mappings().of(head) if mapping is None else mapping)])[head.id]
    return _summary(head, entries, retirements or {}, now or head.now), found


def _summary(
    head: store.HeadRow, entries: Sequence[store.StoredEntry], retirements: Mapping[str, str], now: datetime
) -> Summary:
    info = _info(head)
    facts = HeadFacts(
        pos=head.pos if head.native else 0,
        epoch=head.epoch,
        lease_until=head.lease_until,
        worker=head.worker,
        open_build=head.open_build,
        build=head.build,
        pinned_build=head.pinned_build,
        stop_name=head.stop_name,
        stop_message=head.stop_message,
        hold_reason=head.hold_reason,
        ended=head.ended,
        parked_on=head.parked_on,
        wake_at=head.wake_at,
        created_at=head.created_at,
        runtime=head.runtime,
        limits=_limits(info),
        retirements=retirements,
    )
    evidence = info.evidence if info else UNKNOWN_RUNTIME
    return fold_entries(entries, evidence=evidence, native=head.native, now=now, head=facts)


# -- reading --------------------------------------------------------------------------------------------------------


def _behind(head_ids: list[int] | None) -> list[int]:
    behind = "SELECT id FROM journals_head WHERE dirty{0} UNION SELECT head_id FROM runs_run WHERE recheck_at <= clock_timestamp(){1} ORDER BY 1"
    with connection.cursor() as cursor:
        if head_ids is None:
            cursor.execute(behind.format("", ""))
        else:
            cursor.execute(behind.format(" AND id = ANY(%s)", " AND head_id = ANY(%s)"), [head_ids, head_ids])
        return [i for (i,) in cursor.fetchall()]


def _batches(head_ids: Sequence[int]) -> Iterator[list[int]]:
    """The runs in order, so many together as one transaction should fold; a long one by itself."""
    batch: list[int] = []
    entries = 0
    for at in range(0, len(head_ids), 1_000):
        part = head_ids[at : at + 1_000]
        with plain_cursor() as cursor:
            cursor.execute("SELECT id, pos FROM journals_head WHERE id = ANY(%s)", [part])
            sizes = dict(cursor.fetchall())
        for head_id in part:
            size = sizes.get(head_id, 0)
            if batch and (len(batch) >= BATCH_RUNS or entries + size > BATCH_ENTRIES):
                yield batch
                batch, entries = [], 0
            batch.append(head_id)
            entries += size
    if batch:
        yield batch


def all_heads(batch: int) -> Iterator[list[int]]:
    """The numbers of every run that has a journal, in order, in batches."""
    last = 0
    while True:
        with connection.cursor() as cursor:
            cursor.execute("SELECT id FROM journals_head WHERE id > %s ORDER BY id LIMIT %s", [last, batch])
            ids = [i for (i,) in cursor.fetchall()]
        if not ids:
            return
        yield ids
        last = ids[-1]


def _retirements() -> dict[str, str]:
    return {model: day for read in RETIREMENTS for model, day in read().items()}


class _Mappings:
    """Mappings of sources, each read once for the runs that are folded together."""

    def __init__(self) -> None:
        self._read: dict[int, SourceMapping] = {}

    def of(self, head: store.HeadRow) -> SourceMapping:
        """The mapping of the run's source."""
        if head.native:
            return NOTHING
        if head.source_id not in self._read:
            text = store.source(source_id=head.source_id).mapping
            self._read[head.source_id] = NOTHING if text == store.UNMAPPED else read_text(text)
        return self._read[head.source_id]


def _info(head: store.HeadRow) -> AdapterInfo | None:
    if head.native:
        return NATIVE
    adapter = ADAPTERS.get(head.runtime)
    return adapter.INFO if adapter is not None else None


def _limits(info: AdapterInfo | None) -> tuple[Limit, ...]:
    return tuple(
        Limit(
            what=str(told.get("what", "")), limit=int(told["limit"]), unit=str(told.get("unit", "")),
            source=str(told.get("source", "")), as_of=str(told.get("as_of", "")),
            warn=told["warn"] if isinstance(told.get("warn"), int) else None,
        )
        for told in limits_of(info)
        if isinstance(told.get("limit"), int) and told["limit"] > 0
    )  # fmt: skip
