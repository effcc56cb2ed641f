"""What the overview reads: what needs a person now, and what is in flight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection
from django.db.models import Q

from runs import seams
from runs.forms import Filters
from runs.models import Run
from runs.queries import GAP_OPEN, NEAR_LIMIT, ROW, Capped, Listed, capped_counts, last_errors, nobody_resumes

SHOWN: Final = 6  # runs per group on the overview; the count beside it is whole


@dataclass(frozen=True, slots=True)
class Group:
    """Runs that need a person for one reason."""

    name: str
    title: str
    mean: str
    says: str  # what it means and what to do, in one sentence
    count: Capped
    rows: Sequence[Listed]
    url: str


def attention(environment: str, now: datetime) -> list[Group]:
    """What needs a person now, most urgent first; groups without runs are left out."""
    base = Run.objects.filter(environment=environment) if environment else Run.objects.all()
    at = Filters(environment=environment)
    since = now - timedelta(hours=24)
    wanted = [
        (
            "gap",
            "Gap open",
            "attention",
            "A step was begun and has no result: if the run recovers, it may run again.",
            GAP_OPEN & ~Q(status__in=["held"]),
            at.url(view="gap"),
        ),
        (
            "held",
            "Held",
            "attention",
            "No worker may take them until a person releases, moves or stops them.",
            Q(status="held"),
            at.url(status="held"),
        ),
        (
            "nobody",
            "Nobody can resume",
            "attention",
            "No live worker has their build: start one, or move them to another build.",
            nobody_resumes(),
            at.url(view="nobody"),
        ),
        (
            "stuck",
            "Stuck",
            "broken",
            "Their runtime fails at the same place again and again.",
            Q(status="stuck"),
            at.url(status="stuck"),
        ),
        (
            "approval",
            "Waiting for an approval",
            "waiting",
            "They go on when somebody decides.",
            Q(in_flight=True, parked_on__startswith="approval:"),
            at.url(view="parked"),
        ),
        (
            "near_limit",
            "Near a limit",
            "attention",
            "At 80 % or more of what their runtime allows; they end by themselves when they reach it.",
            NEAR_LIMIT & Q(in_flight=True),
            at.url(view="near_limit"),
        ),
        (
            "failed",
            "Failed in the last 24 hours",
            "broken",
            "They ended with an error that nobody caught.",
            Q(status="failed", ended_at__gte=since),
            at.url(status="failed"),
        ),
    ]
    sizes = capped_counts({name: base.filter(q) for name, *_, q, _ in wanted})
    found = {
        name: list(base.filter(q).order_by("-head_id").only(*ROW[:-1])[:SHOWN])
        for name, *_, q, _ in wanted
        if sizes[name]
    }
    errors = last_errors([run for rows in found.values() for run in rows])
    return [
        Group(
            name,
            title,
            mean,
            says,
            sizes[name],
            [Listed(r, "", "", errors.get(r.head_id, "")) for r in found[name]],
            url,
        )
        for name, title, mean, says, q, url in wanted
        if name in found
    ]


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
