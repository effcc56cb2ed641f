"""What was decided about one run goes before what was decided about its group, whichever came first."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.versioning.fleet import AGENT, V41, Fleet, build
from versioning import applying, deploying
from versioning.deploying import Wish
from versioning.models import Applied, Decision, Deploy

pytestmark = pytest.mark.django_db
NOW = datetime.now(UTC)


def decide(deploy: Deploy, action: str, *, run: str = "") -> Decision:
    group = "" if run else deploying.refresh(deploy, now=NOW).groups[0].key
    wish = Wish(action=action, reason="because", group=group, run_key=run)
    made = deploying.decide(deploy, wish, version=deploy.version, by="alice", now=NOW)
    deploying.reach(made)
    return made


@pytest.mark.parametrize("order", ["run first", "group first"])
def test_a_run_continues_while_its_group_is_pinned(fleet: Fleet, order: str) -> None:
    own, other = fleet.parked("own"), fleet.parked("other")
    build("41", V41)
    deploy = deploying.open_deploy(agent=AGENT, environment="prod", label="41", by="alice", now=NOW)
    if order == "run first":
        decide(deploy, "continue", run=own)
        group = decide(deploy, "pin")
    else:
        group = decide(deploy, "pin")
        decide(deploy, "continue", run=own)
    assert deploying.reach(group) == 0, "there is nothing left to reach"
    fleet.wake(own, other)
    assert [r["key"] for r in fleet.claim("41", V41)] == [own]
    assert [r["key"] for r in fleet.claim()] == [other]
    assert "deploy.pinned" not in fleet.kinds(own) or order == "group first"
    assert Decision.objects.get(pk=group.pk).finished_at is not None


def test_a_late_write_of_the_groups_decision_passes_the_run_by(fleet: Fleet) -> None:
    own = fleet.parked("own")
    build("41", V41)
    deploy = deploying.open_deploy(agent=AGENT, environment="prod", label="41", by="alice", now=NOW)
    group = deploying.refresh(deploy, now=NOW).groups[0].key
    pinned = deploying.decide(
        deploy, Wish(action="pin", reason="because", group=group), version=deploy.version, by="alice", now=NOW
    )
    decide(deploy, "continue", run=own)
    assert applying.apply(pinned, fleet.head(own).id) is False
    assert not Applied.objects.filter(decision=pinned).exists()
    assert fleet.head(own).pinned_build == ""
