"""What the overview reads: what needs a person now, and what is in flight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from django.db import connection
from django.db.models import Case, Q, QuerySet, When

from runs import seams
from runs.concerns import concerns, left_open
from runs.forms import Filters
from runs.models import Run
from runs.queries import (
    GAP_OPEN,
    NEAR_LIMIT,
    ROW,
    Capped,
    Listed,
    capped_counts,
    doubled,
    doubled_of,
    last_errors,
    nobody_resumes,
)

SHOWN: Final = 6  # runs per group on the overview; the count beside it is whole


@dataclass(frozen=True, slots=True)
class Group:
    """Runs that need a person for one reason."""

    name: str
    title: str
    mean: str
    says: str  # what it means and what to do, in one sentence
    count: Capped  # runs that stand in no group before this one
    whole: Capped  # all of them
    rows: Sequence[Listed]
    url: str


class Reason(NamedTuple):
    """Why runs need a person: its words, its runs, and the list of all of them."""

    name: str
    title: str
    mean: str
    says: str
    condition: Q
    url: str


def reasons(environment: str, now: datetime) -> list[Reason]:
    """Every reason to call a person, most urgent first."""
    at = Filters(environment=environment)
    held, stuck, parked = (
        Q(status="held"),
        Q(status="stuck"),
        Q(status="parked", parked_on__startswith="approval:") & ~Q(native=True, wake_at__isnull=False),
    )
    to_tell = Q(native=False, in_flight=True, summary__contains={"approvals": [{"here": {"told": False}}]})
    asking = Q(native=True) | Q(summary__contains={"approvals": [{"open": True}]}) | ~to_tell
    unproven, failed = Q(in_flight=True, gap="unknown"), Q(status="failed", ended_at__gte=now - timedelta(hours=24))
    return [
        Reason("gap", "Gap open", "attention", "A step was begun and has no result: if the run recovers, it may run again.", GAP_OPEN, at.url(view="gap")),
        Reason("held", "Held", "attention", "Native runs until a person releases, moves or stops them; imported ones until their own runtime lets them go.", held, at.url(status="held")),
        Reason("nobody", "Nobody can resume", "attention", "No live worker has their build: start one, or move them to another build.", nobody_resumes(), at.url(view="nobody")),
        Reason("stuck", "Stuck", "broken", "Their runtime fails at the same place again and again.", stuck, at.url(status="stuck")),
        Reason("double", "May have had two effects", "broken", "An outside effect may have happened twice: compare with the service outside.", doubled(), at.url(view="double")),
        Reason("approval", "Waiting for an approval", "waiting", "They go on when somebody decides.", parked & asking, at.url(view="parked")),
        Reason("to_tell", "Decided here, to be told", "attention", "Drainboard sends nothing: tell their runtime what was decided; the run's page has the command.", parked & to_tell, at.url(view="parked")),
        Reason("near_limit", "Near a limit", "attention", "At 80 % or more of what their runtime allows; what happens at the limit is the runtime's own.", NEAR_LIMIT & Q(in_flight=True), at.url(view="near_limit")),
        Reason("failed", "Failed in the last 24 hours", "broken", "They ended with an error that nobody caught.", failed, at.url(status="failed")),
        Reason("unproven", "Not proven", "plain", "Their journals do not say whether a step ran; a complete export would settle it.", unproven, at.url(gap="unknown")),
    ]  # fmt: skip


def attention(environment: str, now: datetime) -> list[Group]:
    """What needs a person now, most urgent first, each run in its first group only; reasons without runs are left out.

    Inside a group what is certain comes before what is possible, own runs before imported ones, the newest first.
    """
    base = Run.objects.filter(environment=environment) if environment else Run.objects.all()
    wanted = reasons(environment, now)
    own = _exclusive(wanted)
    sizes = capped_counts(
        {r.name: base.filter(own[r.name]) for r in wanted} | {f"all {r.name}": base.filter(r.condition) for r in wanted}
    )
    found = {r.name: _first(base.filter(own[r.name])) for r in wanted if sizes[r.name]}
    shown = [run for rows in found.values() for run in rows]
    errors, twice = last_errors(shown), doubled_of(shown)
    left = [run for run in found.get("failed", []) if left_open(run)]
    about = concerns(found.get("double", []), [*found.get("gap", []), *left])
    return [
        Group(
            *(r.name, r.title, r.mean, r.says, sizes[r.name], sizes[f"all {r.name}"]),
            [
                Listed(run, "", "", errors.get(run.head_id, ""), run.head_id in twice, concern=about.get(run.head_id))
                for run in found[r.name]
            ],
            r.url,
        )
        for r in wanted
        if r.name in found
    ]


def _exclusive(wanted: Sequence[Reason]) -> dict[str, Q]:
    """Each reason's condition without the runs of the reasons before it."""
    made: dict[str, Q] = {}
    before = Q(pk__in=[])
    for reason in wanted:
        made[reason.name] = reason.condition & ~before
        before |= reason.condition
    return made


_SURE: Final = Case(When(gap_confidence="certain", then=0), When(gap_confidence="possible", then=2), default=1)


def _first(found: QuerySet[Run]) -> list[Run]:
    return list(found.order_by(_SURE, "-native", "-last_at", "-head_id").only(*ROW[:-1])[:SHOWN])


def in_flight_by_agent(environment: str) -> list[dict[str, Any]]:
    """Agents with runs in flight: agent, environment, counts by status, oldest start; most runs first, at most 20."""
    sql = """SELECT agent, environment, count(*), count(*) FILTER (WHERE status = 'running'), count(*) FILTER (WHERE status = 'parked'),
        count(*) FILTER (WHERE status NOT IN ('running', 'parked')), min(started_at), count(DISTINCT build)
        FROM runs_run WHERE in_flight AND (%s = '' OR environment = %s) GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2 LIMIT 20"""
    names = ("agent", "environment", "all", "running", "parked", "other", "oldest", "builds")
    with connection.cursor() as cursor:
        cursor.execute(sql, [environment, environment])
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def needs(environment: str) -> list[seams.Need]:
    """What other parts know to need a person: deploys that wait for a decision or drain."""
    return [need for read in seams.NEEDS for need in read(environment)]


def counts(environment: str) -> dict[str, Capped]:
    """In flight, running, parked, and finished by outcome; one statement."""
    base = Run.objects.filter(environment=environment) if environment else Run.objects.all()
    names = ("running", "parked", "held", "stuck", "unknown", "completed", "failed", "stopped", "cancelled")
    return capped_counts(
        {"in_flight": base.filter(in_flight=True), **{name: base.filter(status=name) for name in names}}
    )
