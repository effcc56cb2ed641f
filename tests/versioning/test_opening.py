"""Who gets which run: opening and claiming obey leases, stops, holds, pins, hotfixes, decisions and policies."""

from __future__ import annotations

import pytest

from tests.versioning.fleet import AGENT, V40, V41, Fleet, build
from versioning import actions
from versioning.models import AgentPolicy, Build, WorkerSeen

pytestmark = pytest.mark.django_db


def code(answer):
    return answer.json()["error"]["code"]


def set_policy(on_mismatch, *, code_changes_compatible=False):
    AgentPolicy.objects.create(agent=AGENT, on_mismatch=on_mismatch, code_changes_compatible=code_changes_compatible)


def pin(fleet, key, label):
    actions.pin_run(fleet.head(key).id, build=label, reason="finish there", by="alice", actor="person:alice")


def test_opening_gives_the_next_epoch_a_lease_and_the_journal(fleet):
    key = fleet.start("r-1")
    opened = fleet.open(key).json()
    assert (opened["run"], opened["epoch"], opened["pos"], opened["next"]) == ("r-1", 1, 2, None)
    assert opened["in"] == {"n": "r-1"}
    assert [e["kind"] for e in opened["entries"]] == ["run.started", "run.resumed"]
    assert fleet.last(key, "run.resumed") | {"build": "40", "epoch": 1, "worker": "w-1"} == fleet.last(
        key, "run.resumed"
    )
    head = fleet.head(key)
    assert (head.build, head.open_build, head.worker, head.leased) == ("40", "40", "w-1", True)
    fleet.lapse(key)
    assert fleet.open(key).json()["epoch"] == 2


def test_a_long_journal_is_given_in_parts(fleet, monkeypatch):
    monkeypatch.setattr("versioning.api.PAGE", 2)
    key = fleet.start("r-1")
    fleet.work(fleet.open(key).json())
    fleet.lapse(key)
    opened = fleet.open(key).json()
    assert (len(opened["entries"]), opened["next"]) == (2, 2)


def test_a_live_lease_keeps_others_out(fleet):
    key = fleet.start("r-1")
    fleet.open(key)
    answer = fleet.open(key, worker="w-2")
    assert (answer.status_code, code(answer), answer.json()["error"]["retry"]) == (409, "LeaseHeld", True)
    assert fleet.claim(worker="w-2") == []


def test_a_run_that_is_over_cannot_be_opened(fleet):
    key = fleet.start("r-1")
    fleet.post(fleet.open(key).json(), {"kind": "run.completed", "out": 1})
    assert code(fleet.open(key)) == "RunEnded"


def test_opening_registers_the_build_and_notes_the_worker(fleet):
    fleet.open(fleet.start("r-1"))
    made = Build.objects.get(agent=AGENT, label="40")
    assert made.first_seen_from == "worker"
    assert made.body["prompts"] == {"policy": {"version": "12"}}
    assert WorkerSeen.objects.get().worker == "w-1"


def test_a_worker_that_brings_other_contents_under_a_label_is_refused(fleet):
    key = fleet.start("r-1")
    build("40", V40)
    answer = fleet.open(key, "40", V41)
    assert (answer.status_code, code(answer)) == (409, "BuildConflict")
    assert "prompts.policy differs in version" in answer.json()["error"]["message"]
    assert fleet.kinds(key) == ["run.started"]


def test_a_token_of_another_agent_sees_no_run(fleet, token):
    key = fleet.start("r-1")
    other = Fleet(token("worker", agent="other"))
    assert code(other.open(key)) == "UnknownRun"


def test_claiming_gives_new_woken_and_lapsed_runs_once(fleet):
    new, sleeping, lapsed = fleet.start("new"), fleet.parked("sleeping"), fleet.start("lapsed")
    fleet.open(lapsed)
    fleet.lapse(lapsed)
    assert {r["key"] for r in fleet.claim()} == {new, lapsed}
    fleet.wake(sleeping)
    assert [r["key"] for r in fleet.claim()] == [sleeping]
    assert fleet.claim() == []


def test_claiming_takes_no_more_than_was_asked(fleet):
    keys = [fleet.start(f"r-{n}") for n in range(5)]
    assert [r["key"] for r in fleet.claim(limit=2)] == keys[:2]
    assert [r["key"] for r in fleet.claim(limit=9)] == keys[2:]


def test_a_pinned_run_refuses_another_builds_worker_and_waits_for_its_own(fleet):
    key = fleet.parked("r-1")
    pin(fleet, key, "40")
    fleet.wake(key)
    answer = fleet.open(key, "41", V41)
    assert (answer.status_code, code(answer)) == (409, "PinnedToBuild")
    assert fleet.claim("41", V41) == []
    assert [r["key"] for r in fleet.claim("40", V40)] == [key]


def test_a_hotfix_takes_the_pinned_runs_of_the_build_that_it_replaces(fleet):
    key = fleet.parked("r-1")
    pin(fleet, key, "40")
    fleet.wake(key)
    fixed = {**V40, "app": "app-40.1"}
    build("40.1", fixed, replaces="40")
    build("40.2", {**fixed, "app": "app-40.2"}, replaces="40.1")
    [opened] = fleet.claim("40.2", {**fixed, "app": "app-40.2"})
    assert opened["key"] == key
    moved = fleet.last(key, "deploy.continued")
    assert (moved["build"], moved["reason"]) == ("40.2", "build 40.2 replaces 40")
    fleet.work(opened, {**fixed, "app": "app-40.2"}, step=3)  # the pin does not refuse the hotfix's entries
    assert fleet.head(key).pinned_build == "40"


def test_a_worker_of_the_same_versions_goes_on_without_a_decision(fleet):
    key = fleet.parked("r-1")
    fleet.wake(key)
    [opened] = fleet.claim("41", V40)
    assert opened["key"] == key
    assert "deploy.continued" not in fleet.kinds(key)


def test_compatible_code_goes_on_with_an_entry_that_says_so(fleet):
    set_policy("ask", code_changes_compatible=True)
    key = fleet.parked("r-1")
    fleet.wake(key)
    [opened] = fleet.claim("41", {**V40, "app": "app-41"})
    assert fleet.last(key, "deploy.continued")["by"] == "policy"
    assert opened["continued"] == [{"build": "41", "pos": opened["pos"] - 1}]


def test_ask_holds_a_run_that_a_mismatched_worker_opens(fleet):
    key = fleet.parked("r-1")
    answer = fleet.open(key, "41", V41)
    assert (answer.status_code, code(answer)) == (409, "RunHeld")
    held = fleet.last(key, "run.held")
    assert held["reason"] == "undecided"
    assert held["detail"]["differences"] == [
        {"component": "prompt", "name": "policy", "recorded": "12", "new": "13", "class": "changed"}
    ]
    assert fleet.run(key).status == "held"
    assert code(fleet.open(key, "40", V40)) == "RunHeld"


def test_a_claim_leaves_an_undecided_run_to_its_own_build_while_that_is_alive(fleet):
    key = fleet.parked("r-1")
    fleet.wake(key)
    assert fleet.claim("41", V41) == []
    assert "run.held" not in fleet.kinds(key)
    assert [r["key"] for r in fleet.claim("40", V40)] == [key]


def test_a_claim_holds_an_undecided_run_when_nobody_else_can_take_it(fleet):
    key = fleet.parked("r-1")
    fleet.wake(key)
    fleet.forget_workers()
    assert fleet.claim("41", V41) == []
    assert fleet.last(key, "run.held")["reason"] == "undecided"


def test_finish_on_old_pins_the_run(fleet):
    set_policy("finish_on_old")
    key = fleet.parked("r-1")
    fleet.wake(key)
    assert fleet.claim("41", V41) == []
    assert fleet.last(key, "deploy.pinned") | {"build": "40", "by": "policy"} == fleet.last(key, "deploy.pinned")
    assert [r["key"] for r in fleet.claim("40", V40)] == [key]


def test_the_stop_policy_stops_with_the_name_of_the_difference(fleet):
    set_policy("stop")
    key = fleet.parked("r-1")
    fleet.wake(key)
    assert code(fleet.open(key, "41", V41)) == "RunStopped"
    asked = fleet.last(key, "stop.requested")
    assert (asked["reason"], asked["by"]) == ("PromptChanged", "policy")
    assert asked["recorded"]["prompt"] == {"policy": "12"}
    assert asked["current"]["prompt"] == {"policy": "13"}
    assert fleet.run(key).status == "stopped"


def test_a_run_without_versions_is_not_given_to_a_build_that_states_some(fleet):
    key = fleet.start("r-1")
    opened = fleet.open(key, "0", None).json()
    fleet.post(opened, {"kind": "model.result", "name": "decide", "step": 1, "in": [], "out": "x"})
    fleet.park(opened)
    assert code(fleet.open(key, "41", V41)) == "RunHeld"
    assert "cannot be compared" in fleet.last(key, "run.held")["detail"]["message"]


def test_undecided_runs_do_not_stand_in_front_of_runs_that_may_be_given(fleet, monkeypatch):
    monkeypatch.setattr("versioning.opening.ROUND", 2)
    waiting = [fleet.parked(f"old-{n}") for n in range(4)]
    fleet.wake(*waiting)
    new = fleet.start("new")
    assert [r["key"] for r in fleet.claim("41", V41, limit=1)] == [new]


def test_a_moved_run_goes_to_its_new_build_only(fleet):
    key = fleet.parked("r-1")
    build("41", V41)
    actions.move_run(fleet.head(key).id, build="41", reason="41 was tried", by="alice", actor="person:alice")
    fleet.wake(key)
    assert fleet.claim("40", V40) == []
    [opened] = fleet.claim("41", V41)
    assert [c["build"] for c in opened["continued"]] == ["41"]
    assert fleet.kinds(key).count("deploy.continued") == 1
