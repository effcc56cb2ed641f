"""What the pages and the API of builds and deploys read. No request, no writes, no clock of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import connection
from django.db.models import Count, Min, Q
from django.db.models.functions import Coalesce

from journals import store
from runs.approvals.models import Approval
from runs.models import Run
from versioning import drain, live
from versioning.assessing import Assessed, Group
from versioning.models import AgentPolicy, Build, Decision, Deploy, Part

PAGE: Final = 50  # rows of a list page
SHOWN: Final = 200  # stragglers listed on the page; the counts beside them are whole


def opened() -> Q:
    """Runs that are foreign or that a worker has opened: a native run that nobody opened takes whatever build comes."""
    return ~Q(native=True, worker="", steps=0, versions_set=None)


def in_flight(*, agent: str, environment: str) -> Any:
    """This agent's runs in flight, opened or not; an empty environment means all."""
    found = Run.objects.filter(in_flight=True, agent=store.encode_text(agent))
    return found.filter(environment=store.encode_text(environment)) if environment else found


def draining(
    *, agent: str, environment: str, arrived: Iterable[str], now: datetime, shown: int = SHOWN
) -> drain.Progress:
    """Runs in flight that are on none of the builds where they are wanted; the oldest with the reason why."""
    alive = live.builds(agent=agent, environment=environment, now=now)
    left = in_flight(agent=agent, environment=environment).filter(opened()).exclude(build__in=list(arrived))
    stranded = Q(findings__contains=["stranded"]) | Q(native=True, pinned_to="") & ~Q(build__in=alive)
    stranded |= Q(native=True) & ~Q(pinned_to="") & ~Q(pinned_to__in=alive)
    sums = left.aggregate(
        left=Count("pk"),
        oldest=Min(Coalesce("started_at", "last_at")),
        stranded=Count("pk", filter=stranded),
        held=Count("pk", filter=Q(status="held") | Q(parked_on__startswith="gap:")),
    )
    rows = list(left.select_related("head").only(*_HOLDER).order_by("started_at", "pk")[:shown]) if shown else []
    said = _approvals(rows)
    holders = [_holder(row, alive, approval=said.get((row.pk, row.parked_on), "")) for row in rows]
    needed = {
        (h.pinned_to or h.build, row.environment)
        for h, row in zip(holders, rows, strict=True)
        if h.stranded and h.native
    }
    commands = [(label, live.start_command(build=label, environment=place)) for label, place in sorted(needed) if label]
    return drain.Progress(**sums, stragglers=tuple(drain.reason(h, now=now) for h in holders), commands=commands)


def _approvals(rows: Sequence[Run]) -> dict[tuple[int, str], str]:
    """(run, what it is parked on) -> how that approval stands."""
    parked = [row.pk for row in rows if row.native and row.parked_on.startswith("approval:")]
    if not parked:
        return {}
    found = Approval.objects.filter(head_id__in=parked).order_by("pk").values_list("head_id", "name", "state")
    return {(head_id, f"approval:{name}"): state for head_id, name, state in found}


_HOLDER: Final = (
    "key", "run", "build", "status", "native", "complete", "started_at", "last_at", "parked_on", "parked_since", "wake_at",
    "lease_until", "worker", "gap", "current_step", "current_branch", "current_name", "findings", "pinned_to", "environment",
    "head__wake_at",
)  # fmt: skip


def _holder(row: Run, alive: set[str], *, approval: str) -> drain.Holder:
    where = f"{row.current_branch}:{row.current_step}" if row.current_branch else row.current_step
    return drain.Holder(
        key=row.key,
        run=row.run,
        build=row.build,
        status=row.status,
        native=row.native,
        complete=row.complete,
        since=row.started_at or row.last_at,
        parked_on=row.parked_on,
        parked_since=row.parked_since,
        wake_at=row.head.wake_at if row.native else row.wake_at,
        lease_until=row.lease_until,
        worker=row.worker,
        gap=row.gap,
        step=f"step {where} {row.current_name}".strip() if row.current_step else "",
        stranded="stranded" in row.findings or (row.native and (row.pinned_to or row.build) not in alive),
        pinned_to=row.pinned_to,
        approval=approval,
    )


# -- check ----------------------------------------------------------------------------------------------------------


def check(assessed: Assessed, *, build: str, elapsed_ms: float) -> dict[str, Any]:
    """The object of `check_deploy --json`."""
    return {
        "agent": assessed.agent,
        "build": build,
        "environment": assessed.environment or None,
        "runs": assessed.runs,
        "not_started": assessed.not_started,
        "verdicts": assessed.verdicts(),
        "groups": [g.as_json([key for _, key in assessed.runs_of(g.pairs)]) for g in assessed.groups],
        "assessed_at": assessed.assessed_at.isoformat(),
        "elapsed_ms": round(elapsed_ms, 1),
    }


def safe(assessed: Assessed) -> bool:
    """Nothing mismatched and nothing unknown."""
    found = assessed.verdicts()
    return found["mismatch"] == 0 and found["unknown"] == 0


# -- builds ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BuildRow:
    """A build with what holds it."""

    build: Build
    in_flight: int
    live: bool  # a worker of it asked for work within a minute, or holds a lease
    deploys: Sequence[Deploy]


@dataclass(frozen=True, slots=True)
class CatalogueRow:
    """One version of a prompt, model or tool."""

    component: str
    name: str
    version: str
    digest: str
    builds: Sequence[str]
    in_flight: int  # runs in flight that recorded it last
    retires_on: Any
    first_at: datetime | None  # when a build first named it; None: no build does


_FLIGHT_BY_BUILD: Final = (
    """SELECT agent, build, count(*) FROM runs_run WHERE in_flight AND agent = ANY(%s) GROUP BY 1, 2"""
)
_FLIGHT_BY_VERSION: Final = """SELECT c.component, c.name, c.version, sum(n)::bigint FROM (
        SELECT versions_set_id, count(*) AS n FROM runs_run WHERE in_flight AND agent = %s GROUP BY 1
    ) r JOIN runs_versionset s ON s.id = r.versions_set_id, LATERAL (
        SELECT 'prompt' AS component, key AS name, value AS version FROM jsonb_each_text(coalesce(s.body -> 'prompt', '{}'))
        UNION ALL SELECT 'model', key, value FROM jsonb_each_text(coalesce(s.body -> 'model', '{}'))
        UNION ALL SELECT 'tool', key, value FROM jsonb_each_text(coalesce(s.body -> 'tools', '{}'))
    ) c GROUP BY 1, 2, 3"""
_CATALOGUE: Final = """SELECT p.component, p.name, p.version, max(p.digest), array_agg(b.label ORDER BY b.id), min(p.retires_on),
        min(b.created_at)
    FROM versioning_part p JOIN versioning_build b ON b.id = p.build_id
    WHERE b.agent = %s AND p.version <> '' GROUP BY 1, 2, 3 ORDER BY 1, 2, min(b.id), 3"""


def agents() -> list[str]:
    """Agents that have builds, policies or runs in flight, by name."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT agent FROM versioning_build UNION SELECT agent FROM versioning_agentpolicy"
            " UNION SELECT agent FROM runs_run WHERE in_flight ORDER BY 1"
        )
        return [agent for (agent,) in cursor.fetchall()]


def build_rows(*, agent: str = "", before: int | None = None, now: datetime) -> tuple[list[BuildRow], int | None]:
    """A page of builds, newest first, and the cursor of the next page."""
    found = Build.objects.defer("body").order_by("-id")
    if agent:
        found = found.filter(agent=agent)
    if before is not None:
        found = found.filter(pk__lt=before)
    page = list(found[: PAGE + 1])
    rows = page[:PAGE]
    names = sorted({b.agent for b in rows})
    with connection.cursor() as cursor:
        cursor.execute(_FLIGHT_BY_BUILD, [names])
        flight = {(a, label): n for a, label, n in cursor.fetchall()}
    alive = live.by_agent(now=now)
    deploys: dict[int, list[Deploy]] = {}
    for deploy in Deploy.objects.filter(build__in=[b.pk for b in rows]).order_by("-id"):
        deploys.setdefault(deploy.build_id, []).append(deploy)
    made = [
        BuildRow(b, flight.get((b.agent, b.label), 0), b.label in alive.get(b.agent, ()), deploys.get(b.pk, []))
        for b in rows
    ]
    return made, rows[-1].pk if len(page) > PAGE else None


def catalogue(agent: str) -> list[CatalogueRow]:
    """Every prompt, model and tool version that a build of this agent names or a run in flight recorded, by name and age."""
    with connection.cursor() as cursor:
        cursor.execute(_FLIGHT_BY_VERSION, [agent])
        flight = {(c, name, version): n for c, name, version, n in cursor.fetchall()}
        cursor.execute(_CATALOGUE, [agent])
        rows = [
            CatalogueRow(c, name, version, digest, labels, flight.pop((c, name, version), 0), day, at)
            for c, name, version, digest, labels, day, at in cursor.fetchall()
        ]
    known = {(r.component, r.name, r.version) for r in rows}
    unregistered = [
        CatalogueRow(c, name, version, "", (), n, None, None)
        for (c, name, version), n in sorted(flight.items())
        if (c, name, version) not in known
    ]
    return rows + unregistered


# -- deploys --------------------------------------------------------------------------------------------------------


def groups_with_decisions(assessed: Assessed, decisions: Iterable[Decision]) -> list[tuple[Group, Decision | None]]:
    """Each group with the decision that stands for it."""
    standing = {d.group: d for d in decisions if d.superseded_at is None and d.group}
    return [(group, standing.get(group.key)) for group in assessed.groups]


def deploy_rows(
    *, agent: str = "", environment: str = "", before: int | None = None
) -> tuple[list[Deploy], int | None]:
    """A page of deploys, newest first, and the cursor of the next page."""
    found = Deploy.objects.select_related("build").defer("build__body").order_by("-id")
    if agent:
        found = found.filter(agent=agent)
    if environment:
        found = found.filter(environment=environment)
    if before is not None:
        found = found.filter(pk__lt=before)
    page = list(found[: PAGE + 1])
    return page[:PAGE], page[PAGE - 1].pk if len(page) > PAGE else None


def current_builds() -> Mapping[tuple[str, str], str]:
    """(agent, environment) -> label that new runs go to: the target of the newest deploy that was rolled out."""
    rolled = Deploy.objects.filter(state__in=["rolling_out", "draining", "drained"]).select_related("build")
    return {(d.agent, d.environment): d.build.label for d in rolled.defer("build__body").order_by("id")}


def undecided(assessed: Assessed, decisions: Iterable[Decision]) -> int:
    """Runs in groups that need a decision and have none."""
    return sum(
        group.count
        for group, decision in groups_with_decisions(assessed, decisions)
        if decision is None and group.verdict in ("mismatch", "unknown")
    )


def newest_builds() -> list[tuple[str, str]]:
    """(agent, label) of the newest builds, for choosing: at most 200, by agent, newest first."""
    rows = Build.objects.order_by("-id").values_list("agent", "label")[:200]
    return sorted(rows, key=lambda row: row[0])


def environments() -> list[str]:
    """Names of environments that have runs or deploys."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT DISTINCT environment FROM runs_run WHERE in_flight AND environment <> ''"
            " UNION SELECT environment FROM versioning_deploy ORDER BY 1"
        )
        return [name for (name,) in cursor.fetchall()]


@dataclass(frozen=True, slots=True)
class AgentRow:
    """An agent with its policy and what runs."""

    agent: str
    policy: AgentPolicy | None
    builds: int
    in_flight: int
    newest: str  # label of the newest build
    live: Sequence[str]  # builds with a live worker


def agent_rows(*, now: datetime) -> list[AgentRow]:
    """Every agent that has builds, a policy or runs in flight, by name."""
    policies = {p.agent: p for p in AgentPolicy.objects.all()}
    labels: dict[str, list[str]] = {}
    for agent, label in Build.objects.order_by("-id").values_list("agent", "label"):
        labels.setdefault(agent, []).append(label)
    flight = dict(Run.objects.filter(in_flight=True).values_list("agent").annotate(n=Count("pk")).order_by())
    alive = live.by_agent(now=now)
    return [
        AgentRow(
            agent=agent,
            policy=policies.get(agent),
            builds=len(labels.get(agent, ())),
            in_flight=flight.get(store.encode_text(agent), 0),
            newest=labels.get(agent, [""])[0],
            live=sorted(alive.get(agent, ())),
        )
        for agent in agents()
    ]


def registered(agent: str, labels: Iterable[str]) -> set[str]:
    """Those of the labels that name a build of the agent."""
    return set(Build.objects.filter(agent=agent, label__in=set(labels)).values_list("label", flat=True))


def retirements() -> dict[str, str]:
    """Model id -> the day on which it retires, the earliest that a build names."""
    found = Part.objects.exclude(retires_on=None).values_list("version").annotate(day=Min("retires_on")).order_by()
    return {model: day.isoformat() for model, day in found}
