"""Runs in flight counted by what decides their verdict, and listed by it: two statements over the projection.

The grouping is by plain columns, so that PostgreSQL hashes instead of sorting 100,000 rows; what is derived (liveness, pins) is
added up here over the few rows that come back.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import connection

from journals import store
from runs.models import Run

BUCKET: Final = "width_bucket(greatest(wake_at, %(now)s), %(thresholds)s::timestamptz[])"
NO_BUCKET: Final = "0"
OPENED: Final = "NOT (native AND worker = '' AND steps = 0 AND versions_set_id IS NULL)"
_FROM: Final = """FROM runs_run WHERE in_flight AND agent = %(agent)s
    AND (%(environment)s = '' OR environment = %(environment)s)"""


@dataclass(frozen=True, slots=True, order=True)
class Pair:
    """What decides the verdict of a run: what it recorded, the build that it is on, and how many retirements it sleeps through."""

    versions_set: int  # runs_versionset.id; 0: nothing recorded
    base: str  # build label; empty: not known
    native: bool
    retired: int = 0  # of the retirement days in play, how many lie before the moment at which it can go on


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """One agent's runs in flight at one moment."""

    agent: str
    environment: str  # empty: every environment
    now: datetime
    thresholds: Sequence[datetime] = ()  # retirement moments in play, oldest first

    @property
    def bucket(self) -> str:
        """The SQL expression of `Pair.retired`."""
        return BUCKET if self.thresholds else NO_BUCKET

    def params(self) -> dict[str, Any]:
        """The named parameters of the statements."""
        return {
            "agent": store.encode_text(self.agent),
            "environment": store.encode_text(self.environment),
            "now": self.now,
            "thresholds": list(self.thresholds),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Runs in flight of one pair with the same pin."""

    pair: Pair
    count: int
    in_step: int
    parked: int
    parked_on_approval: int
    stranded: int
    held: int
    pinned: int
    oldest: datetime


def counted(where: Where, *, live: Collection[str]) -> tuple[list[Counted], int]:
    """Opened runs in flight by pair and pin, and how many runs no worker has opened yet. `live`: builds with a live worker."""
    sql = f"""SELECT versions_set_id, build, native, {where.bucket} AS retired, pinned_to, count(*),
        count(*) FILTER (WHERE {OPENED}),
        count(*) FILTER (WHERE gap = 'may_run_twice'),
        count(*) FILTER (WHERE status = 'parked'),
        count(*) FILTER (WHERE status = 'parked' AND parked_on LIKE 'approval:%%' AND (wake_at IS NULL OR NOT native)),
        count(*) FILTER (WHERE 'stranded' = ANY(findings)),
        count(*) FILTER (WHERE status = 'held'),
        min(coalesce(started_at, last_at))
        {_FROM} GROUP BY versions_set_id, build, native, retired, pinned_to"""
    with connection.cursor() as cursor:
        cursor.execute(sql, where.params())
        rows = cursor.fetchall()
    made = [_counted(row, live) for row in rows if row[6]]
    made.sort(key=lambda c: c.pair)
    return made, sum(row[5] - row[6] for row in rows)


def _counted(row: Sequence[Any], live: Collection[str]) -> Counted:
    versions_set, build, native, retired, pinned_to, _, opened, in_step, parked, on_approval, stranded, held, oldest = (
        row
    )
    nobody = native and (pinned_to or build) not in live
    return Counted(
        pair=Pair(versions_set or 0, build, native, retired),
        count=opened,
        in_step=in_step,
        parked=parked,
        parked_on_approval=on_approval,
        stranded=opened if nobody else stranded,
        held=held,
        pinned=opened if pinned_to else 0,
        oldest=oldest,
    )


def runs_of(
    where: Where, pairs: Sequence[Pair], *, limit: int, after: int = 0, without: int = 0
) -> list[tuple[int, str]]:
    """(head id, key) of the runs of these pairs, by head id: at most `limit` of those after a head id.

    `without`: a decision about a group; runs whose journal holds it, and runs that were decided on by themselves, are left out.
    """
    sql = f"""SELECT head_id, key {_FROM} AND head_id > %(after)s AND {OPENED}
        AND (coalesce(versions_set_id, 0), build, native, {where.bucket}) IN
            (SELECT * FROM unnest(%(sets)s::bigint[], %(bases)s::text[], %(natives)s::boolean[], %(buckets)s::integer[]))
        AND NOT EXISTS (SELECT 1 FROM versioning_applied a
            WHERE a.head_id = runs_run.head_id AND a.decision_id = %(without)s)
        AND key NOT IN (SELECT own.run_key FROM versioning_decision own JOIN versioning_decision d ON d.deploy_id = own.deploy_id
            WHERE d.id = %(without)s AND own.run_key <> '' AND own.superseded_at IS NULL)
        ORDER BY head_id LIMIT %(limit)s"""  # noqa: S608 - constants only
    params = {
        **where.params(),
        "sets": [p.versions_set for p in pairs],
        "bases": [p.base for p in pairs],
        "natives": [p.native for p in pairs],
        "buckets": [p.retired for p in pairs],
        "after": after,
        "without": without,
        "limit": limit,
    }
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return list(cursor.fetchall())


def pair_of(head_id: int) -> Pair:
    """The pair of one run that is awake now."""
    row = Run.objects.filter(pk=head_id).values_list("versions_set_id", "build", "native").first()
    return Pair(row[0] or 0, row[1], row[2]) if row else Pair(0, "", True)
