"""Keeps `runs.models` in step with the journals: fold a run, catch up on what is behind, rebuild everything.

A fold reads the run's whole skeleton and writes only rows that differ, in one transaction. It never holds the head's lock,
so a worker's appends do not wait for it; what is appended meanwhile leaves the head `dirty`, and the next catch-up folds again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from django.db import InterfaceError, OperationalError, connection, transaction
from psycopg.types.json import Jsonb

from journals import store
from journals.adapters import ADAPTERS, NATIVE
from journals.adapters.base import AdapterInfo, Evidence
from journals.cursors import plain_cursor
from journals.limits import limits_of
from runs import rows, versions
from runs.entries import Closed, load, without_collection
from runs.facts import HeadFacts, Limit
from runs.mapping import NOTHING, SourceMapping, read_text
from runs.models import Run, VersionSet
from runs.safe import packed, unpacked
from runs.summary import Summary
from runs.summary import fold as fold_entries

__all__ = ["RETIREMENTS", "all_heads", "catch_up", "fold", "rebuild", "summarise"]

logger = logging.getLogger(__name__)

RETIREMENTS: list[Callable[[], Mapping[str, str]]] = []
"""Model id -> when it retires (RFC 3339), from whoever knows builds; filled when that app starts."""

UNKNOWN_RUNTIME: Final = Evidence(write="never", read="never", attempts=False, says_end=False)
"""For a source whose adapter is not installed: believe nothing."""

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
    failed = 0
    for n, head_id in enumerate(wanted):
        if until is not None and time.monotonic() > until:
            return len(wanted) - n + failed
        try:
            fold(head_id, retirements=known)
        except (OperationalError, InterfaceError):
            raise  # the database is not there; no run is to blame
        except Exception:
            if not (asked is None if go_on is None else go_on):
                raise
            failed += 1
            logger.exception("the journal of run %s cannot be folded; its rows are those of before", head_id)
    return failed


def rebuild(*, batch: int = 500) -> int:
    """Folds every run again, whether behind or not; returns how many there are. Runs without a journal are removed."""
    known = _retirements()
    done = 0
    for ids in all_heads(batch):
        for head_id in ids:
            fold(head_id, retirements=known, fresh=True)
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
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK + head_id])
        version = _seen_version(head_id)
        head = store.head(head_id)
        old = Run.objects.select_related("versions_set").filter(pk=head_id).first()
        known = None if fresh or old is None else unpacked(old.summary.get("closed"))
        with without_collection(head.entries):
            made, closed = summarise(
                head, closed=known, retirements=_retirements() if retirements is None else retirements
            )
            run = _write(head, made, closed, old, fresh=fresh)
        with connection.cursor() as cursor:
            # Only if nobody touched the head since it was read: a later change must leave it dirty.
            cursor.execute(
                "UPDATE journals_head SET dirty = false WHERE id = %s AND dirty AND pos = %s AND xmin::text = %s",
                [head_id, head.pos, version],
            )
    return run


def _seen_version(head_id: int) -> str:
    """Which version of the head's row we read: the transaction that wrote it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT xmin::text FROM journals_head WHERE id = %s", [head_id])
        found = cursor.fetchone()
    return found[0] if found else ""


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
        retirements=retirements or {},
    )
    entries, found = load(head, closed=closed, mapping=_mapping(head) if mapping is None else mapping)
    evidence = info.evidence if info else UNKNOWN_RUNTIME
    return fold_entries(entries, evidence=evidence, native=head.native, now=now or head.now, head=facts), found


# -- reading --------------------------------------------------------------------------------------------------------


def _behind(head_ids: list[int] | None) -> list[int]:
    behind = "SELECT id FROM journals_head WHERE dirty{0} UNION SELECT head_id FROM runs_run WHERE recheck_at <= clock_timestamp(){1} ORDER BY 1"
    with connection.cursor() as cursor:
        if head_ids is None:
            cursor.execute(behind.format("", ""))
        else:
            cursor.execute(behind.format(" AND id = ANY(%s)", " AND head_id = ANY(%s)"), [head_ids, head_ids])
        return [i for (i,) in cursor.fetchall()]


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


def _mapping(head: store.HeadRow) -> SourceMapping:
    text = store.UNMAPPED if head.native else store.source(source_id=head.source_id).mapping
    return NOTHING if text == store.UNMAPPED else read_text(text)


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


# -- writing --------------------------------------------------------------------------------------------------------


def _write(head: store.HeadRow, made: Summary, closed: Closed, old: Run | None, *, fresh: bool) -> Run:
    columns = rows.run_columns(made, head=head, closed=closed, fallback_at=head.created_at)
    columns["versions_set_id"] = _version_set(made.version_set, old)
    _write_steps(head.id, rows.step_rows(made), fresh=fresh)
    if old is None:
        return Run.objects.create(head_id=head.id, **columns)
    changed = [name for name, value in columns.items() if getattr(old, name) != value]
    for name in changed:
        setattr(old, name, columns[name])
    if changed:
        old.save(update_fields=changed)
    return old


def _version_set(body: Mapping[str, Any], old: Run | None) -> int | None:
    """The row of this set, made when it is new; None when the run recorded no versions."""
    if not body:
        return None
    digest = versions.digest_of(body)
    if old is not None and old.versions_set is not None and old.versions_set.digest == digest:
        return old.versions_set.pk
    found, _ = VersionSet.objects.get_or_create(digest=digest, defaults={"body": packed(body)})
    return found.pk


_COPY: Final = f"COPY runs_step (run_id, {', '.join(rows.STEP_COLUMNS)}, digest) FROM STDIN"
_VERSIONS_AT: Final = rows.STEP_COLUMNS.index("versions")


def _write_steps(head_id: int, new: Sequence[tuple[Any, ...]], *, fresh: bool) -> None:
    """Replaces the rows that differ, adds the new ones, removes those behind the last one; `fresh` replaces all."""
    digests = [rows.digest_of(row) for row in new]
    with plain_cursor() as cursor:
        cursor.execute("SELECT ord, digest FROM runs_step WHERE run_id = %s", [head_id])
        old = dict(cursor.fetchall())
        changed = [(row, d) for row, d in zip(new, digests, strict=True) if fresh or old.get(row[0]) != d]
        gone = [row[0] for row, _ in changed if row[0] in old] + [n for n in old if n > len(new)]
        if gone:
            cursor.execute("DELETE FROM runs_step WHERE run_id = %s AND ord = ANY(%s)", [head_id, gone])
        if changed:
            with cursor.copy(_COPY) as copy:
                for row, d in changed:
                    versions_json = None if row[_VERSIONS_AT] is None else Jsonb(row[_VERSIONS_AT])
                    copy.write_row((head_id, *row[:_VERSIONS_AT], versions_json, *row[_VERSIONS_AT + 1 :], d))
