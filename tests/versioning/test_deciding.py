"""Decisions about a deploy: what they do to runs of every kind, under whose eyes, and what a stale page gets."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from django.db import IntegrityError, transaction
from drainboard import wire

from journals import store
from tests.versioning.fleet import AGENT, V40, V41, build
from versioning import deploying, tasks
from versioning.deploying import BadDecision, StaleAssessment, Wish
from versioning.models import STOP_NAMES, Applied, Decision, Deploy

pytestmark = pytest.mark.django_db
NOW = datetime.now(UTC)


def code(answer):
    return answer.json()["error"]["code"]


def open_deploy(label="41", versions=V41, **more):
    build(label, versions, **more)
    return deploying.open_deploy(agent=AGENT, environment="prod", label=label, by="alice", now=NOW)


def group_of(deploy, verdict="mismatch"):
    [found] = [g for g in deploying.refresh(deploy, now=NOW).groups if g.verdict == verdict]
    return found


def decide(deploy, action, *, by="alice", version=None, group=None, run=None, reason="because", reach=True, **more):
    if action == "stop":
        more = {"name": "PromptChanged", "message": "The prompt changed.", **more}
    group = None if run else (group or group_of(deploy).key)
    wish = Wish(action=action, reason=reason, group=group or "", run_key=run or "", **more)
    made = deploying.decide(deploy, wish, version=deploy.version if version is None else version, by=by, now=NOW)
    if reach:
        deploying.reach(made)
    return made


def test_an_assessment_compares_each_distinct_set_once(fleet, django_assert_max_num_queries):
    for n in range(6):
        fleet.parked(f"r-{n}")
    fleet.parked("other", "39", {**V40, "prompt": {"policy": "11"}})
    deploy = open_deploy()
    with django_assert_max_num_queries(16):
        assessed = deploying.refresh(deploy, now=NOW)
    assert [(g.verdict, g.count, g.parked) for g in assessed.groups] == [("mismatch", 6, 6), ("mismatch", 1, 1)]
    assert [d.as_json() for d in assessed.groups[0].differences] == [
        {"component": "prompt", "name": "policy", "recorded": "12", "new": "13", "class": "changed"}
    ]
    assert assessed.groups[0].builds == {"40": 6}


def test_groups_are_flagged_by_step_approval_and_nobody(fleet):
    fleet.begin_write(fleet.open(fleet.start("writes")).json())
    fleet.parked("asks", on="approval:a-1")
    fleet.start("not opened")
    deploy = open_deploy()
    assessed = deploying.refresh(deploy, now=NOW)
    assert assessed.not_started == 1
    [group] = assessed.groups
    assert (group.count, group.in_step, group.parked, group.parked_on_approval, group.stranded) == (2, 1, 1, 1, 0)


def test_nobody_can_resume_when_no_worker_of_the_build_is_alive(fleet):
    fleet.parked("r-1")
    fleet.forget_workers()
    deploy = open_deploy()
    assert deploying.refresh(deploy, now=NOW).groups[0].stranded == 1


def test_pin_and_drain_lets_each_run_finish_on_its_build(fleet):
    keys = [fleet.parked(f"r-{n}") for n in range(3)]
    deploy = open_deploy()
    made = decide(deploy, "pin")
    assert Applied.objects.filter(decision=made).count() == 3
    fleet.wake(*keys)
    assert fleet.claim("41", V41) == []
    for key in keys:
        pinned = fleet.last(key, "deploy.pinned")
        assert (pinned["build"], pinned["by"], pinned["reason"], pinned["deploy"]) == (
            "40",
            "alice",
            "because",
            deploy.key,
        )
        assert fleet.run(key).pinned_to == "40"
    assert {r["key"] for r in fleet.claim("40", V40)} == set(keys)


def test_continue_moves_runs_to_the_target_and_nowhere_else(fleet):
    key = fleet.parked("r-1")
    deploy = open_deploy()
    decide(deploy, "continue")
    fleet.wake(key)
    assert fleet.claim("40", V40) == []
    assert code(fleet.open(key, "40", V40)) == "PinnedToBuild"
    [opened] = fleet.claim("41", V41)
    assert opened["key"] == key
    assert fleet.kinds(key).count("deploy.continued") == 1
    fleet.work(opened, V41, step=3)
    assert group_of(deploy, "same").count == 1


def test_continue_is_said_again_when_the_old_build_went_on_after_it(fleet):
    opened = fleet.open(fleet.start("r-1")).json()
    fleet.work(opened)
    deploy = open_deploy()
    decide(deploy, "continue")
    fleet.work(opened, step=3)
    fleet.park(opened)
    fleet.wake(opened["key"])
    [again] = fleet.claim("41", V41)
    entries = [e["kind"] for e in again["entries"]]
    assert entries.count("deploy.continued") == 2
    assert entries.index("tool.result") < len(entries) - 1 - entries[::-1].index("deploy.continued")


def test_stop_ends_sleeping_runs_at_once_and_running_ones_between_steps(fleet):
    sleeping = fleet.parked("sleeping")
    running = fleet.open(fleet.start("running")).json()
    fleet.work(running)
    fleet.begin_write(running)
    lapsed = fleet.open(fleet.start("lapsed")).json()
    fleet.work(lapsed)
    fleet.begin_write(lapsed)
    fleet.lapse(lapsed["key"])
    deploy = open_deploy()
    decide(deploy, "stop")
    assert fleet.run(sleeping).status == "stopped"
    stopped = fleet.last(lapsed["key"], "run.stopped")
    assert [(g["step"], g["verdict"]) for g in stopped["gaps"]] == [(3, "may_run_twice")]
    assert fleet.run(running["key"]).status == "stopping"
    done = fleet.post(running, {"kind": "tool.result", "name": "send", "step": 3, "out": 1})
    assert done.status_code == 200
    refused = fleet.post(running, {"kind": "tool.started", "name": "send", "step": 4, "key": "k", "in": {}})
    assert code(refused) == "RunStopped"
    answer = fleet.api(f"runs/{running['key']}/stopped", {"epoch": running["epoch"]})
    assert answer.status_code == 200
    asked, ended = fleet.last(running["key"], "stop.requested"), fleet.last(running["key"], "run.stopped")
    assert (asked["reason"], asked["message"], asked["by"]) == ("PromptChanged", "The prompt changed.", "alice")
    assert asked["recorded"]["prompt"] == {"policy": "12"}
    assert asked["current"]["build"] == "41"
    assert asked["position"] >= 1
    assert (ended["reason"], ended["gaps"]) == ("PromptChanged", [])


def test_a_stop_whose_worker_died_is_finished_by_the_server(fleet):
    running = fleet.open(fleet.start("running")).json()
    fleet.work(running)
    deploy = open_deploy()
    decide(deploy, "stop")
    assert tasks.finish_stops() == 0
    fleet.lapse(running["key"])
    assert tasks.finish_stops() == 1
    assert fleet.run(running["key"]).status == "stopped"


def test_a_run_that_wakes_before_it_was_reached_falls_under_its_groups_decision(fleet):
    first, second, third = (fleet.parked(f"r-{n}") for n in range(3))
    deploy = open_deploy()
    made = decide(deploy, "pin", reach=False)
    assert Applied.objects.filter(decision=made).count() == 0
    fleet.wake(first, second)
    assert fleet.claim("41", V41) == []
    assert fleet.last(first, "deploy.pinned")["by"] == "alice"
    assert fleet.last(second, "deploy.pinned")["by"] == "alice"
    assert "deploy.pinned" not in fleet.kinds(third)


def test_a_run_that_comes_after_the_decision_falls_under_it(fleet):
    fleet.parked("early")
    deploy = open_deploy()
    decide(deploy, "stop")
    late = fleet.parked("late")
    assert fleet.run(late).status == "parked"
    assert code(fleet.open(late, "41", V41)) == "RunStopped"
    assert fleet.last(late, "stop.requested")["by"] == "alice"


def test_the_background_task_reaches_late_comers(fleet):
    fleet.parked("early")
    deploy = open_deploy()
    decide(deploy, "pin")
    late = fleet.parked("late")
    tasks.reach_all()
    assert fleet.head(late).pinned_build == "40"
    before = fleet.kinds(late)
    tasks.reach_all()
    assert fleet.kinds(late) == before


def asking(fleet, tool):
    """A sleeping run that asks for an approval of a tool."""
    opened = fleet.open(fleet.start("asks")).json()
    fleet.work(opened)
    artifact, schema = {"tool": tool, "args": {"to": "x"}}, V40["tools"][tool]
    place = {"run": opened["run"], "branch": "", "step": 3, "environment": "prod", "policy": 0}
    entry = {
        "id": f"{opened['epoch']}.90", "run": opened["run"], "kind": "approval.requested", "name": "Send it", "step": 3, "approval": "a3",
        "artifact": artifact, "versions": {"tools": {tool: schema}},
        "fingerprint": wire.digest({"artifact": artifact, "tool_schema": schema, **place}),
    }  # fmt: skip
    line = wire.encode(entry)
    made = fleet.api(f"runs/{opened['key']}/approvals", line, epoch=opened["epoch"])
    assert made.status_code == 200, made.content
    fleet.park(opened, f"approval:{made.json()['id']}")
    return opened["key"]


def test_continuing_withdraws_open_approvals_of_tools_that_the_build_changes(fleet):
    key = asking(fleet, "send")
    deploy = open_deploy(versions={**V40, "tools": {"send": "sha256:a2", "look": "sha256:b1"}})
    decide(deploy, "continue")
    assert fleet.last(key, "approval.withdrawn")["reason"] == "build 41 changes the tool"
    [opened] = fleet.claim("41", {**V40, "tools": {"send": "sha256:a2", "look": "sha256:b1"}})
    assert opened["key"] == key  # it wakes, and asks again


def test_continuing_keeps_approvals_of_tools_that_stay(fleet):
    key = asking(fleet, "look")
    deploy = open_deploy(versions={**V40, "tools": {"send": "sha256:a2", "look": "sha256:b1"}})
    decide(deploy, "continue")
    assert "approval.withdrawn" not in fleet.kinds(key)


def test_stopping_withdraws_open_approvals(fleet):
    key = asking(fleet, "send")
    decide(open_deploy(), "stop")
    assert fleet.kinds(key)[-3:] == ["stop.requested", "approval.withdrawn", "run.stopped"]


def test_another_group_stays_undecided(fleet):
    fleet.parked("r-1")
    deploy = open_deploy()
    decide(deploy, "pin")
    other = fleet.parked("r-2", "39", {**V40, "prompt": {"policy": "11"}})
    assert code(fleet.open(other, "41", V41)) == "RunHeld"
    assert deploy.decisions.count() == 1


def test_a_runs_own_decision_goes_before_its_groups(fleet):
    one, two = fleet.parked("one"), fleet.parked("two")
    deploy = open_deploy()
    decide(deploy, "stop", run=one)
    decide(deploy, "pin")
    assert fleet.run(one).status == "stopped"
    assert fleet.head(two).pinned_build == "40"


def test_a_decision_lifts_the_hold_of_runs_that_waited_for_it(fleet):
    key = fleet.parked("r-1")
    deploy = open_deploy()
    assert code(fleet.open(key, "41", V41)) == "RunHeld"
    decide(deploy, "continue")
    assert fleet.kinds(key)[-2:] == ["deploy.continued", "run.released"]
    fleet.wake(key)
    assert [r["key"] for r in fleet.claim("41", V41)] == [key]


def test_a_decision_on_a_stale_page_is_refused_and_says_what_changed(fleet):
    fleet.parked("r-1")
    deploy = open_deploy()
    seen = deploy.version
    decide(deploy, "pin", by="bob")
    with pytest.raises(StaleAssessment) as stale:
        decide(deploy, "stop", version=seen)
    assert stale.value.detail["changes"] == ["bob decided to pin 1 runs (prompt policy 12 → 13)"]
    assert deploy.decisions.count() == 1


def test_a_new_group_makes_the_page_stale(fleet):
    fleet.parked("r-1")
    deploy = open_deploy()
    group = group_of(deploy).key
    seen = deploy.version
    fleet.parked("r-2", "39", {**V40, "prompt": {"policy": "11"}})
    with pytest.raises(StaleAssessment) as stale:
        decide(deploy, "pin", version=seen, group=group)
    assert stale.value.detail["changes"] == ["mismatch: 1 runs (prompt policy 11 → 13) came up"]


def test_more_runs_in_the_same_group_do_not(fleet):
    fleet.parked("r-1")
    deploy = open_deploy()
    seen = deploy.version
    fleet.parked("r-2")
    assert decide(deploy, "pin", version=seen).expected == 2


def test_a_later_decision_takes_the_place_of_an_earlier_one(fleet):
    key = fleet.parked("r-1")
    deploy = open_deploy()
    decide(deploy, "pin")
    decide(deploy, "stop")
    assert deploy.decisions.standing().get().action == "stop"
    assert fleet.run(key).status == "stopped"


def test_a_pinned_run_that_is_continued_later_loses_its_pin(fleet):
    key = fleet.parked("r-1")
    deploy = open_deploy()
    decide(deploy, "pin")
    decide(deploy, "continue")
    assert fleet.head(key).pinned_build == ""
    fleet.wake(key)
    assert [r["key"] for r in fleet.claim("41", V41)] == [key]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"action": "wait"}, "is not a decision"),
        ({"reason": " "}, "needs a reason"),
        ({"name": "Whatever"}, "is not a stop name"),
        ({"message": ""}, "carries a message"),
        ({"run": "r1"}, "about one group or about one run"),
    ],
)
def test_refuses_what_is_no_decision(fleet, change, said):
    fleet.parked("r-1")
    deploy = open_deploy()
    asked = {
        "action": "stop",
        "reason": "r",
        "name": "PromptChanged",
        "message": "m",
        "group": group_of(deploy).key,
        **change,
    }
    wish = Wish(run_key=asked.pop("run", ""), **asked)
    with pytest.raises(BadDecision, match=said):
        deploying.decide(deploy, wish, version=deploy.version, by="alice", now=NOW)


def test_the_database_refuses_two_standing_decisions_and_unknown_stop_names(fleet):
    fleet.parked("r-1")
    deploy = open_deploy()
    fields = {"deploy": deploy, "group": "g", "action": "pin", "reason": "r", "by": "alice"}
    Decision.objects.create(**fields)
    for bad in ({}, {"group": "h", "action": "stop", "name": "Nope"}, {"group": ""}, {"group": "i", "reason": ""}):
        with pytest.raises(IntegrityError), transaction.atomic():
            Decision.objects.create(**{**fields, **bad})
    assert len(STOP_NAMES) == 15


def test_new_runs_go_to_the_target_after_the_roll_out(fleet):
    fleet.open(fleet.start("first"))
    deploy = open_deploy()
    deploying.roll_out(deploy, version=deploy.version, now=datetime.now(UTC))
    new = fleet.start("new")
    assert fleet.claim("40", V40) == []
    assert code(fleet.open(new, "40", V40)) == "PinnedToBuild"
    assert [r["key"] for r in fleet.claim("41", V41)] == [new]


def test_a_build_that_came_after_the_roll_out_is_no_old_one(fleet):
    deploy = open_deploy()
    deploying.roll_out(deploy, version=deploy.version, now=NOW.replace(year=2020))
    new = fleet.start("new")
    assert [r["key"] for r in fleet.claim("42", {**V41, "app": "app-42"})] == [new]


def test_a_rolled_back_deploy_decides_nothing_any_more(fleet):
    key = fleet.parked("r-1")
    deploy = open_deploy()
    decide(deploy, "stop", reach=False)
    deploying.roll_back(deploy, version=deploy.version, now=NOW)
    fleet.wake(key)
    assert [r["key"] for r in fleet.claim("40", V40)] == [key]
    with pytest.raises(BadDecision, match="rolled back"):
        decide(deploying.find(deploy.key), "pin")


def test_a_deploy_drains_and_says_what_is_left(fleet):
    sleeping, running = fleet.parked("sleeping"), fleet.open(fleet.start("running")).json()
    fleet.work(running)
    fleet.begin_write(running)
    deploy = open_deploy()
    decide(deploy, "pin")
    deploying.roll_out(deploy, version=deploy.version, now=NOW)
    deploy = deploying.find(deploy.key)
    now = datetime.now(UTC)
    assert deploying.advance(deploy, now=now).state == "draining"
    left = deploying.draining(deploy, now=now)
    assert (left.left, left.stranded, left.drained) == (2, 0, False)
    assert {s.why for s in left.stragglers} == {"signal", "step_in_flight"}
    fleet.post(
        running, {"kind": "tool.result", "name": "send", "step": 3, "out": 1}, {"kind": "run.completed", "out": 1}
    )
    fleet.wake(sleeping)
    [opened] = fleet.claim("40", V40)
    fleet.post(opened, {"kind": "run.completed", "out": 1})
    fleet.run(sleeping), fleet.run(running["key"])
    assert deploying.advance(deploy, now=now).state == "drained"


def test_a_drain_without_a_live_worker_says_that_it_cannot_end(fleet):
    fleet.parked("r-1")
    deploy = open_deploy()
    decide(deploy, "pin")
    fleet.forget_workers()
    left = deploying.draining(deploy, now=datetime.now(UTC))
    assert left.cannot_drain
    assert [s.why for s in left.stragglers] == ["stranded"]


def test_a_run_that_is_not_understood_keeps_a_deploy_from_being_drained(fleet):
    line = {"run": "i-1", "kind": "run.started", "seq": 1, "agent": AGENT, "build": "40", "environment": "prod"}
    store.ingest(
        source_name="export", runtime="lines", import_id=None, actor="import:1", agent=AGENT, environment="prod",
        items=[store.Foreign(run="i-1", id="seq:1", seq=1, kind="run.started", raw=json.dumps(line).encode(), record="line=1")],
    )  # fmt: skip
    deploy = open_deploy()
    deploying.roll_out(deploy, version=deploy.version, now=NOW)
    deploy = deploying.advance(deploying.find(deploy.key), now=NOW)
    assert deploy.state == "draining"
    assert [s.why for s in deploying.draining(deploy, now=NOW).stragglers] == ["not_understood"]


def test_opening_the_same_deploy_twice_gives_one(fleet):
    first = open_deploy()
    again = deploying.open_deploy(agent=AGENT, environment="prod", label="41", by="bob", now=NOW)
    assert first.pk == again.pk
    assert Deploy.objects.count() == 1
