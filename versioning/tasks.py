"""Background work of deploys. The rows are the truth and a message only a nudge; beat sends each again."""

from __future__ import annotations

import logging
from typing import Any

from celery import shared_task
from celery.exceptions import OperationalError
from django.utils import timezone

from journals.errors import Refused
from runs import actions as run_actions
from versioning import deploying
from versioning.models import Decision, Deploy

log = logging.getLogger("drainboard")

SCHEDULE = {
    "versioning.tasks.reach_all": 5.0,
    "versioning.tasks.finish_stops": 5.0,
    "versioning.tasks.advance_all": 15.0,
}


@shared_task
def reach_runs(*, decision_id: int, **_: Any) -> int:
    """Writes one decision into the journals that it covers and has not reached; how many runs it looked at."""
    decision = Decision.objects.select_related("deploy__build").get(pk=decision_id)
    return 0 if decision.superseded_at else deploying.reach(decision)


def nudge(decision: Decision) -> None:
    """Asks the worker to go on with a decision; without a broker the next sweep does."""
    try:
        reach_runs.delay(decision_id=decision.pk)
    except (OperationalError, OSError) as e:
        log.warning("decision %s: no broker (%s); the next sweep goes on with it", decision.pk, e)


@shared_task
def reach_all(**_: Any) -> int:
    """The same for every standing decision of a governing deploy: what a lost message left, and runs that came later."""
    return sum(deploying.reach_standing(deploy) for deploy in deploying.governing_deploys())


@shared_task
def finish_stops(**_: Any) -> int:
    """Ends runs whose stop was asked for and whose worker is gone."""
    done = 0
    for head_id in run_actions.expired_stops():
        try:
            run_actions.finish_stop(head_id, actor="server")
        except Refused:
            continue  # its worker obeyed, or came back, in this moment
        done += 1
    return done


@shared_task
def advance_all(**_: Any) -> int:
    """Moves deploys along: decisions written, runs gone."""
    states = [Deploy.State.ROLLING_OUT, Deploy.State.DRAINING]
    found = list(Deploy.objects.filter(state__in=states).select_related("build"))
    for deploy in found:
        deploying.advance(deploy, now=timezone.now())
    return len(found)
