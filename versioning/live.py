"""Which builds a live worker can run. A worker is live while it asks for work or holds a lease."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from django.db import connection

from journals import store
from versioning.models import LIVE_FOR_S, Build, WorkerSeen

# Leases are renewed in the head alone; which runs can have one, the projection knows: those that run. A run opened a moment
# ago, which is not folded yet, is covered by its worker having asked for it.
_LEASED: Final = """SELECT DISTINCT h.agent, h.open_build FROM runs_run r JOIN journals_head h ON h.id = r.head_id
    WHERE r.status IN ('running', 'stopping') AND r.in_flight AND r.native AND h.lease_until > %(now)s
    AND (%(agent)s = '' OR r.agent = %(agent)s) AND (%(environment)s = '' OR r.environment = %(environment)s)"""


def builds(*, agent: str, environment: str, now: datetime) -> set[str]:
    """Labels that a live worker can run: one that asked for work within 60 s or holds a lease, and what those builds replace."""
    return by_agent(now=now, agent=agent, environment=environment).get(agent, set())


def by_agent(*, now: datetime, agent: str = "", environment: str = "") -> dict[str, set[str]]:
    """Agent -> labels that a live worker can run; an empty agent or environment means all."""
    where = {name: value for name, value in (("agent", agent), ("environment", environment)) if value}
    seen = WorkerSeen.objects.filter(seen_at__gt=now - timedelta(seconds=LIVE_FOR_S), **where)
    found: dict[str, set[str]] = {}
    for name, label in seen.values_list("agent", "build"):
        found.setdefault(name, set()).add(label)
    with connection.cursor() as cursor:
        encoded = store.encode_text(agent), store.encode_text(environment)
        cursor.execute(_LEASED, {"agent": encoded[0], "environment": encoded[1], "now": now})
        for name, label in cursor.fetchall():
            found.setdefault(store.decode_text(name), set()).add(label)
    replaces = {
        (name, label): replaced
        for name, label, replaced in Build.objects.exclude(replaces="").values_list("agent", "label", "replaces")
    }
    for name, labels in found.items():
        todo = list(labels)
        while todo:
            replaced = replaces.get((name, todo.pop()), "")
            if replaced and replaced not in labels:
                labels.add(replaced)
                todo.append(replaced)
    return found
