"""Many at once: deciders, background tasks and workers meet on the same runs, and each thing happens once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection

from journals import store
from tests.versioning.fleet import AGENT, V40, V41, Fleet, build
from versioning import deploying
from versioning.deploying import StaleAssessment, Wish
from versioning.models import Applied, Decision

pytestmark = pytest.mark.django_db(transaction=True)


def at_once(calls: list[Callable[[], Any]]) -> list[Any]:
    """What each call gave or raised, all started together, each on its own connection."""

    def one(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Exception as e:  # noqa: BLE001 - the outcome is what the tests look at
            return e
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(one, call) for call in calls]]


def open_deploy():
    build("41", V41)
    return deploying.open_deploy(agent=AGENT, environment="prod", label="41", by="alice", now=datetime.now(UTC))


def wish(deploy, action="pin"):
    [group] = deploying.refresh(deploy, now=datetime.now(UTC)).groups
    return Wish(action=action, reason="because", group=group.key, name="PromptChanged", message="changed")


def test_of_many_deciders_one_wins_and_the_others_are_told_who(fleet):
    fleet.parked("r-1")
    deploy = open_deploy()
    asked, version = wish(deploy), deploy.version
    calls = [
        lambda name=name: deploying.decide(
            deploying.find(deploy.key), asked, version=version, by=name, now=datetime.now(UTC)
        )
        for name in ("alice", "bob", "dora", "erin", "finn", "gwen")
    ]
    outcomes = at_once(calls)
    [winner] = [o for o in outcomes if isinstance(o, Decision)]
    losers = [o for o in outcomes if isinstance(o, StaleAssessment)]
    assert len(losers) == 5
    assert all(f"{winner.by} decided to pin" in loser.detail["changes"][0] for loser in losers)


def test_a_decision_that_was_cut_off_goes_on_and_stands_once_in_each_journal(fleet, monkeypatch):
    keys = [fleet.parked(f"r-{n}") for n in range(9)]
    deploy = open_deploy()
    made = deploying.decide(deploy, wish(deploy), version=deploy.version, by="alice", now=datetime.now(UTC))
    monkeypatch.setattr("versioning.deploying.BATCH", 2)
    assert deploying.reach(made, limit=4) == 4
    at_once(
        [lambda: deploying.reach(Decision.objects.select_related("deploy__build").get(pk=made.pk)) for _ in range(3)]
    )
    assert Applied.objects.filter(decision=made).count() == 9
    assert [fleet.kinds(key).count("deploy.pinned") for key in keys] == [1] * 9
    assert Decision.objects.get(pk=made.pk).finished_at is not None


def test_each_run_is_claimed_by_one_worker(fleet):
    keys = [fleet.start(f"r-{n}") for n in range(24)]
    fleets = [Fleet(fleet.secret) for _ in range(6)]
    claimed = at_once([lambda f=f, n=n: f.claim(worker=f"w-{n}", limit=24) for n, f in enumerate(fleets)])
    counts = Counter(opened["key"] for answer in claimed for opened in answer)
    assert counts == dict.fromkeys(keys, 1)
    assert all(store.find(key=key).epoch == 1 for key in keys)


def test_a_stop_and_a_claim_leave_no_stopped_run_with_a_worker(fleet):
    keys = [fleet.parked(f"r-{n}") for n in range(8)]
    deploy = open_deploy()
    made = deploying.decide(deploy, wish(deploy, "stop"), version=deploy.version, by="alice", now=datetime.now(UTC))
    fleet.wake(*keys)
    decision = Decision.objects.select_related("deploy__build").get(pk=made.pk)
    claims = [lambda n=n: Fleet(fleet.secret).claim("40", V40, worker=f"w-{n}") for n in range(3)]
    outcomes = at_once([lambda: deploying.reach(decision), *claims])
    assert outcomes[1:] == [[], [], []]
    for key in keys:
        assert fleet.run(key).status == "stopped"
        assert fleet.kinds(key).count("run.stopped") == 1
