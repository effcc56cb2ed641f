"""Which builds a live worker can run. A worker is live while it asks for work or holds a lease."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from django.db import connection

from journals import store
from journals.adapters.controls import quoted
from versioning.models import LIVE_FOR_S, Build, WorkerSeen

# Leases are renewed in the head alone; which runs can have one, the projection knows: those that run. A run opened a moment
# ago, which is not folded yet, is covered by its worker having asked for it.
_LEASED: Final = """SELECT DISTINCT h.agent, h.environment, h.open_build FROM runs_run r JOIN journals_head h ON h.id = r.head_id
    WHERE r.status IN ('running', 'stopping') AND r.in_flight AND r.native AND h.lease_until > %(now)s
    AND (%(agent)s = '' OR r.agent = %(agent)s) AND (%(environment)s = '' OR r.environment = %(environment)s)"""


def builds(*, agent: str, environment: str, now: datetime) -> set[str]:
    """Labels that a live worker can run: one that asked for work within 60 s or holds a lease, and what those builds replace.

    An empty environment means all.
    """
    return set().union(*by_place(now=now, agent=agent, environment=environment).values())


def start_command(*, build: str, environment: str) -> str:
    """The line that starts a worker of a build; MODULE:AGENT is where the agent's code is."""
    where = f" --environment {quoted(environment)}" if environment else ""
    return f"python -m drainboard worker MODULE:AGENT --build {quoted(build)}{where}"


def by_agent(*, now: datetime) -> dict[str, set[str]]:
    """Agent -> labels that a live worker can run, in whatever environment."""
    found: dict[str, set[str]] = {}
    for (agent, _), labels in by_place(now=now).items():
        found.setdefault(agent, set()).update(labels)
    return found


def by_place(*, now: datetime, agent: str = "", environment: str = "") -> dict[tuple[str, str], set[str]]:
    """(agent, environment) -> labels that a live worker can run there."""
    where = {name: value for name, value in (("agent", agent), ("environment", environment)) if value}
    seen = WorkerSeen.objects.filter(seen_at__gt=now - timedelta(seconds=LIVE_FOR_S), **where)
    found: dict[tuple[str, str], set[str]] = {}
    for of, place, label in seen.values_list("agent", "environment", "build"):
        found.setdefault((of, place), set()).add(label)
    with connection.cursor() as cursor:
        encoded = {"agent": store.encode_text(agent), "environment": store.encode_text(environment)}
        cursor.execute(_LEASED, {**encoded, "now": now})
        for of, place, label in cursor.fetchall():
            found.setdefault((store.decode_text(of), store.decode_text(place)), set()).add(label)
    _add_replaced(found)
    return found


def _add_replaced(found: dict[tuple[str, str], set[str]]) -> None:
    """A hotfix can run the pinned runs of what it replaces, and of what that replaced."""
    replaces = {
        (agent, label): replaced
        for agent, label, replaced in Build.objects.exclude(replaces="").values_list("agent", "label", "replaces")
    }
    for (agent, _), labels in found.items():
        todo = list(labels)
        while todo:
            replaced = replaces.get((agent, todo.pop()), "")
            if replaced and replaced not in labels:
                labels.add(replaced)
                todo.append(replaced)
