"""The pages of deploys, builds, agents and of actions on runs: who sees them, what they say, and what their forms do."""

from __future__ import annotations

from datetime import UTC, datetime
from html import unescape

import pytest
from django.test import Client
from django.urls import reverse

from tests.versioning.fleet import AGENT, V41, build
from versioning import deploying
from versioning.models import AgentPolicy, Build, Decision, Deploy

pytestmark = pytest.mark.django_db


def signed_in(people, name):
    client = Client()
    client.force_login(people[name])
    return client


@pytest.fixture
def alice(people):
    return signed_in(people, "alice")


@pytest.fixture
def vera(people):
    return signed_in(people, "vera")


@pytest.fixture
def deploy(fleet):
    """Two sleeping runs on build 40 and a deploy of 41."""
    fleet.keys = [fleet.parked("r-1"), fleet.parked("r-2")]
    build("41", V41)
    return deploying.open_deploy(agent=AGENT, environment="prod", label="41", by="alice", now=datetime.now(UTC))


def group_key(deploy):
    return deploying.refresh(deploy, now=datetime.now(UTC)).groups[0].key


def text(answer):
    return " ".join(answer.content.decode().split())


def form(deploy, action, **more):
    return {"version": deploy.version, "action": action, "group": group_key(deploy), "reason": "because", **more}


def test_a_deploy_page_shows_groups_with_flags_and_what_happens_undecided(alice, deploy):
    shown = text(alice.get(f"/deploys/{deploy.key}/"))
    for words in (
        "policy",
        "<code>12</code>",
        "<code>13</code>",
        "2 parked",
        "held when a worker of another build wakes them",
        "Pin and drain",
    ):
        assert words in shown


def test_a_viewer_sees_the_deploy_and_cannot_decide(vera, deploy):
    shown = text(vera.get(f"/deploys/{deploy.key}/"))
    assert "2 parked" in shown
    assert "Pin and drain" not in shown
    assert vera.post(f"/deploys/{deploy.key}/decide/", form(deploy, "pin")).status_code == 403
    assert vera.get(f"/deploys/{deploy.key}/decide/?group={group_key(deploy)}&action=pin").status_code == 403
    for name in ("roll-out", "roll-back"):
        assert vera.post(f"/deploys/{deploy.key}/{name}/", {"version": deploy.version}).status_code == 403
    assert Decision.objects.count() == 0


def test_nobody_sees_anything_without_signing_in(client, deploy):
    for path in ("/deploys/", f"/deploys/{deploy.key}/", "/builds/", "/agents/"):
        assert client.get(path).status_code == 302


def test_the_deploy_refreshes_itself_only_when_something_changed(alice, deploy, fleet):
    page = alice.get(f"/deploys/{deploy.key}/")
    tag = page.context["view"].tag
    poll = {"headers": {"HX-Request": "true", "HX-Target": "deploy-state"}}
    assert alice.get(f"/deploys/{deploy.key}/?v={tag}", **poll).status_code == 204
    fleet.parked("r-3")
    fragment = alice.get(f"/deploys/{deploy.key}/?v={tag}", **poll)
    assert fragment.status_code == 200
    assert fragment.content.lstrip().startswith(b'<div id="deploy-state"')


def test_a_decision_is_asked_for_and_made(alice, deploy, fleet):
    asked = text(alice.get(f"/deploys/{deploy.key}/decide/?group={group_key(deploy)}&action=pin"))
    assert "Pin 2 runs to the build they are on" in asked
    answer = alice.post(f"/deploys/{deploy.key}/decide/", form(deploy, "pin"), follow=True)
    assert "It stands in 2 journals" in text(answer)
    assert [fleet.head(key).pinned_build for key in fleet.keys] == ["40", "40"]
    assert fleet.last(fleet.keys[0], "deploy.pinned")["by"] == "alice"


def test_a_decision_needs_a_reason(alice, deploy):
    answer = alice.post(f"/deploys/{deploy.key}/decide/", form(deploy, "pin", reason=""))
    assert answer.status_code == 422
    assert Decision.objects.count() == 0


def test_a_stop_comes_with_the_name_that_fits_and_needs_a_message(alice, deploy, fleet):
    asked = alice.get(f"/deploys/{deploy.key}/decide/?group={group_key(deploy)}&action=stop")
    assert asked.context["form"].initial["name"] == "PromptChanged"
    assert "prompt policy 12 → 13" in text(asked)
    assert alice.post(f"/deploys/{deploy.key}/decide/", form(deploy, "stop", name="PromptChanged")).status_code == 422
    alice.post(f"/deploys/{deploy.key}/decide/", form(deploy, "stop", name="PromptChanged", message="Changed."))
    assert fleet.run(fleet.keys[0]).status == "stopped"


def test_a_stale_page_is_refused_with_what_changed_and_can_be_sent_again(alice, deploy, people):
    old = form(deploy, "stop", name="PromptChanged", message="Changed.")
    dora = signed_in(people, "dora")
    dora.post(f"/deploys/{deploy.key}/decide/", form(deploy, "pin"))
    answer = alice.post(f"/deploys/{deploy.key}/decide/", old)
    assert answer.status_code == 409
    assert "dora decided to pin 2 runs" in text(answer)
    assert Decision.objects.count() == 1
    again = {**old, "version": answer.context["form"].initial["version"]}
    assert alice.post(f"/deploys/{deploy.key}/decide/", again).status_code == 302


def test_one_run_of_a_group_gets_its_own_decision(alice, deploy, fleet):
    listed = text(alice.get(f"/deploys/{deploy.key}/groups/{group_key(deploy)}/"))
    assert "r-1" in listed
    one = fleet.keys[0]
    asked = alice.get(f"/deploys/{deploy.key}/decide/?run={one}&action=continue")
    assert "Continue 1 run on build 41" in text(asked)
    data = {"version": deploy.version, "action": "continue", "run": one, "reason": "tried it"}
    assert alice.post(f"/deploys/{deploy.key}/decide/", data).status_code == 302
    assert fleet.last(one, "deploy.continued")["build"] == "41"
    assert "deploy.continued" not in fleet.kinds(fleet.keys[1])


def test_rolling_out_shows_what_is_left_and_why(alice, deploy):
    alice.post(f"/deploys/{deploy.key}/decide/", form(deploy, "pin"))
    deploy = deploying.find(deploy.key)
    shown = text(
        alice.post(f"/deploys/{deploy.key}/roll-out/", {"version": deploy.version, "reason": "r"}, follow=True)
    )
    assert "waits for signal go since" in shown
    assert deploying.find(deploy.key).state == "draining"
    refused = text(alice.post(f"/deploys/{deploy.key}/roll-back/", {"version": 1, "reason": "r"}, follow=True))
    assert "is not as you saw it" in refused


def test_a_deploy_is_opened_from_the_list(alice, fleet):
    fleet.parked("r-1")
    build("41", V41)
    answer = alice.post("/deploys/new/", {"agent": AGENT, "build": "41", "environment": "prod"})
    made = Deploy.objects.get()
    assert answer.headers["Location"] == reverse("versioning:deploy", args=[made.key])
    assert "procure → build 41" in text(alice.get("/deploys/"))
    assert "has no build" in text(
        alice.post("/deploys/new/", {"agent": AGENT, "build": "99", "environment": "prod"}, follow=True)
    )


def test_builds_show_what_holds_them_and_what_they_would_touch(vera, deploy, fleet):
    listed = text(vera.get(f"/builds/?agent={AGENT}"))
    assert "Every version of procure" in listed
    one = Build.objects.get(label="41")
    assert "policy changed" in text(vera.get(f"/builds/{one.pk}/"))
    other = Build.objects.create(
        agent=AGENT,
        label="42",
        body={**one.body, "prompts": {"policy": {"version": "14"}}},
        digest="sha256:0",
        first_seen_from="ci",
        created_by="t",
    )
    compared = text(vera.get(f"/builds/{other.pk}/?against=41"))
    assert "prompt policy: changed" in compared
    assert vera.get("/builds/999999/").status_code == 404


def test_a_build_page_shows_the_words_of_a_prompt_that_changed(vera):
    for label, words in (("1", "Be kind.\nNever refund twice."), ("2", "Be kind.\nNever refund more than once.")):
        from versioning import buildfile, registering

        file = {"agent": "a", "label": label, "prompts": {"p": {"version": label, "text": words}}}
        registering.register(buildfile.describe(file), seen_from="ci", by="t")
    shown = text(vera.get(f"/builds/{Build.objects.get(label='2').pk}/?against=1"))
    assert "<del>twice</del>" in shown
    assert "more than once" in shown


def test_an_agents_policy_is_set_by_an_operator_only(alice, vera, fleet):
    fleet.parked("r-1")
    data = {"agent": AGENT, "on_mismatch": "finish_on_old", "code_changes_compatible": "on"}
    assert vera.post("/agents/policy/", data).status_code == 403
    alice.post("/agents/policy/", data)
    policy = AgentPolicy.objects.get(agent=AGENT)
    assert (policy.on_mismatch, policy.code_changes_compatible, policy.changed_by) == ("finish_on_old", True, "alice")
    assert "procure" in text(vera.get("/agents/"))


def test_the_panel_of_a_run_offers_what_can_be_done(alice, vera, deploy, fleet):
    key = fleet.keys[0]
    fragment = alice.get(f"/runs/{key}/panel/", headers={"HX-Request": "true"})
    assert fragment.content.lstrip().startswith(b'<div id="run-panel"')
    for words in ("Pin…", "Move…", "Stop…", "build 41: mismatch"):
        assert words in text(fragment)
    assert "Stop…" not in text(vera.get(f"/runs/{key}/panel/", headers={"HX-Request": "true"}))
    whole = text(alice.get(f"/runs/{key}/panel/?against=40"))
    assert "Nothing differs" in whole
    assert alice.get("/runs/rnope/panel/").status_code == 404


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("pin", {"build": "40"}, "deploy.pinned"),
        ("move", {"build": "41"}, "deploy.continued"),
        ("stop", {"name": "StoppedByOperator", "message": "enough"}, "run.stopped"),
    ],
)
def test_an_operator_acts_on_one_run_with_a_reason(alice, vera, deploy, fleet, name, data, kind):
    key = fleet.keys[0]
    path = f"/runs/{key}/{name}/"
    assert vera.post(path, {**data, "reason": "r"}).status_code == 403
    assert alice.get(path).status_code == 200
    assert alice.post(path, data).status_code == 422
    assert alice.post(path, {**data, "reason": "r"}).status_code == 302
    assert kind in fleet.kinds(key)


def test_pins_are_taken_off_and_holds_released(alice, deploy, fleet):
    one, two = fleet.keys
    alice.post(f"/runs/{one}/pin/", {"build": "40", "reason": "r"})
    assert "Unpin…" in text(alice.get(f"/runs/{one}/panel/", headers={"HX-Request": "true"}))
    alice.post(f"/runs/{one}/unpin/", {"reason": "r"})
    assert fleet.head(one).pinned_build == ""
    assert "is not pinned" in text(alice.post(f"/runs/{one}/unpin/", {"reason": "r"}))
    fleet.open(two, "41", V41)
    assert fleet.run(two).status == "held"
    alice.post(f"/runs/{two}/release/", {"reason": "r"})
    assert fleet.run(two).status == "parked"
    assert "is not held" in text(alice.post(f"/runs/{two}/release/", {"reason": "r"}))


def test_a_run_cannot_be_pinned_to_a_build_that_nobody_knows(alice, deploy, fleet):
    answer = alice.post(f"/runs/{fleet.keys[0]}/pin/", {"build": "77", "reason": "r"})
    assert answer.status_code == 422
    assert "has no build" in text(answer)


def gap_run(fleet):
    opened = fleet.open(fleet.start("gap")).json()
    fleet.work(opened)
    fleet.begin_write(opened)
    return opened


def test_a_gap_is_resolved_with_its_result_when_nobody_has_the_run(alice, vera, fleet):
    opened = gap_run(fleet)
    path = f"/runs/{opened['key']}/gaps/-/3/"
    data = {"outcome": "happened", "result": '{"id": 77}', "evidence": "the bank shows it"}
    assert vera.get(path).status_code == 403
    busy = alice.post(path, data)
    assert busy.status_code == 422
    assert "is resolved when nobody works on it" in text(busy)
    fleet.lapse(opened["key"])
    assert "may run twice" in text(alice.get(path))
    assert alice.post(path, {**data, "result": ""}).status_code == 422
    assert "not JSON" in text(alice.post(path, {**data, "result": "{oops"}))
    assert alice.post(path, data).status_code == 302
    found = fleet.last(opened["key"], "gap.resolved")
    assert (found["step"], found["outcome"], found["out"], found["by"], found["reason"]) == (
        3,
        "happened",
        {"id": 77},
        "alice",
        "the bank shows it",
    )
    assert fleet.head(opened["key"]).epoch == opened["epoch"] + 1
    late = fleet.post(opened, {"kind": "model.result", "name": "decide", "step": 4, "in": [], "out": 1})
    assert late.json()["error"]["code"] == "LeaseLost"
    assert alice.get(path).status_code == 404


def test_a_gap_that_did_not_happen_runs_again(alice, fleet):
    opened = gap_run(fleet)
    fleet.lapse(opened["key"])
    alice.post(f"/runs/{opened['key']}/gaps/-/3/", {"outcome": "did_not_happen", "evidence": "nothing there"})
    assert fleet.last(opened["key"], "gap.resolved")["outcome"] == "did_not_happen"
    assert [r["key"] for r in fleet.claim()] == [opened["key"]]


def test_a_gap_that_cannot_be_found_out_stops_the_run(alice, fleet):
    opened = gap_run(fleet)
    fleet.lapse(opened["key"])
    alice.post(f"/runs/{opened['key']}/gaps/-/3/", {"outcome": "stop", "evidence": "the bank does not answer"})
    assert fleet.last(opened["key"], "run.stopped")["reason"] == "UnresolvedGap"
    assert fleet.run(opened["key"]).status == "stopped"


def test_a_parked_gap_wakes_when_it_is_resolved(alice, fleet):
    opened = gap_run(fleet)
    fleet.park(opened, "gap::3")
    assert fleet.claim() == []
    alice.post(f"/runs/{opened['key']}/gaps/-/3/", {"outcome": "happened", "result": "1", "evidence": "seen"})
    assert [r["key"] for r in fleet.claim()] == [opened["key"]]


def test_the_run_list_and_overview_learn_of_deploys(alice, deploy):
    deploying.roll_out(deploy, version=deploy.version, now=datetime.now(UTC))
    overview = text(alice.get("/"))
    assert "2 runs wait for a decision" in overview
    assert "prompt policy 12 → 13" in text(alice.get("/runs/"))
    assert "r-1" in text(alice.get("/runs/?view=old_build"))


def test_lists_cost_the_same_whatever_is_in_them(vera, deploy, fleet, django_assert_max_num_queries):
    for n in range(4):
        fleet.parked(f"more-{n}")
    with django_assert_max_num_queries(30):
        vera.get(f"/builds/?agent={AGENT}")
    with django_assert_max_num_queries(30):
        vera.get("/agents/")


def test_new_runs_are_sent_only_after_a_page_that_names_the_undecided(alice, deploy):
    page = text(alice.get(f"/deploys/{deploy.key}/"))
    assert "Send new runs to build 41…" in page
    path = f"/deploys/{deploy.key}/roll-out/"
    asked = text(alice.get(path))
    assert "2 runs in flight wait for a decision" in asked
    assert "2: held when a worker of another build wakes them" in asked
    assert alice.post(path, {"version": deploy.version}).status_code == 422
    assert deploying.find(deploy.key).state == "decide"
    shown = text(alice.post(path, {"version": deploy.version, "reason": "new prompt is tested"}, follow=True))
    assert '<li data-state="open">decide: 2 open</li>' in shown
    assert "2 undecided" in shown
    assert "send new runs to build 41" in shown
    assert "new prompt is tested" in shown
    assert "2 runs undecided then" in shown
    alice.post(f"/deploys/{deploy.key}/decide/", {**form(deploy, "pin"), "version": deploying.find(deploy.key).version})
    assert '<li data-state="done">decide</li>' in text(alice.get(f"/deploys/{deploy.key}/"))


def test_a_deploy_is_rolled_back_with_a_reason_that_stands_under_decisions(alice, deploy):
    path = f"/deploys/{deploy.key}/roll-back/"
    assert "New runs may go to any build again" in text(alice.get(path))
    assert alice.post(path, {"version": deploy.version}).status_code == 422
    assert "too early" in text(alice.post(path, {"version": deploy.version, "reason": "too early"}, follow=True))
    assert deploying.find(deploy.key).state == "rolled_back"


def test_a_pin_without_a_live_worker_says_so_before_after_and_while_draining(alice, deploy, fleet):
    fleet.forget_workers()
    words = "will not finish until a worker of build 40 runs"
    command = "python -m drainboard worker MODULE:AGENT --build 40 --environment prod"
    asked = text(alice.get(f"/deploys/{deploy.key}/decide/?group={group_key(deploy)}&action=pin"))
    done = text(alice.post(f"/deploys/{deploy.key}/decide/", form(deploy, "pin"), follow=True))
    fleet.wake(fleet.keys[0])
    deploying.roll_out(deploying.find(deploy.key), version=deploying.find(deploy.key).version, now=datetime.now(UTC))
    drained = text(alice.get(f"/deploys/{deploy.key}/"))
    for page in (asked, done, drained):
        assert words in page
        assert command in page
    assert "They finish" not in asked
    assert "pinned to build 40; signal go has come and waits for a worker; no worker of build 40 is live" in drained
    assert "pinned to build 40; waits for signal go since" in drained


def test_a_finished_run_offers_nothing_to_decide(alice, fleet):
    key = fleet.parked("r-1")
    assert "Pin, continue or stop…" in text(alice.get(f"/runs/{key}/"))
    alice.post(f"/runs/{key}/stop/", {"name": "StoppedByOperator", "message": "enough", "reason": "r"})
    assert "Pin, continue or stop…" not in text(alice.get(f"/runs/{key}/"))


def test_the_deploy_form_offers_what_exists(alice, fleet):
    fleet.environment = "demo"
    fleet.parked("r-1")
    build("41", V41)
    page = text(alice.get("/deploys/"))
    assert f'<option value="{AGENT}">{AGENT}</option>' in page
    assert f'<optgroup label="{AGENT}"><option value="41">41</option>' in page
    assert 'name="environment" list="environments" value="demo"' in page


def test_an_unknown_agent_is_named_with_the_one_that_was_meant(alice, deploy):
    asked = {"agent": "procur", "build": "41", "environment": "prod"}
    said = unescape(text(alice.post("/deploys/new/", asked, follow=True)))
    assert "no agent 'procur'; did you mean 'procure'?" in said


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("pin", {"build": "40"}, "Pinned to build 40. A worker of build 40 may take it."),
        ("move", {"build": "41"}, "No worker of build 41 is live: it waits until one runs. Start one with: python -m drainboard"),
        ("stop", {"name": "StoppedByOperator"}, "Stopped with StoppedByOperator. Nobody worked on it, so it ended at once"),
    ],
)  # fmt: skip
def test_the_message_after_an_action_says_what_follows(alice, deploy, fleet, name, data, said):
    shown = text(alice.post(f"/runs/{fleet.keys[0]}/{name}/", {**data, "reason": "r"}, follow=True))
    assert said in shown


def test_the_message_after_a_release_says_who_may_take_the_run(alice, deploy, fleet):
    fleet.open(fleet.keys[0], "41", V41)
    said = text(alice.post(f"/runs/{fleet.keys[0]}/release/", {"reason": "r"}, follow=True))
    assert "Released. A worker of build 40 may take it." in said


def test_builds_without_texts_say_what_changed_and_what_is_missing(vera, deploy):
    other = build("42", {**V41, "prompt": {"policy": "14"}})
    said = text(vera.get(f"/builds/{other.pk}/?against=41"))
    assert "The version changed from 13 to 14. The text was not registered for either build" in said
    assert "prompts.policy.text" in said


def test_a_build_without_a_worker_is_called_the_same_everywhere(vera, deploy, fleet):
    fleet.forget_workers()
    for path in (f"/builds/?agent={AGENT}", "/agents/", f"/deploys/{deploy.key}/", "/deploys/"):
        page = text(vera.get(path))
        assert "no live worker" in page
        assert "nobody can resume" not in page
        assert ">nobody<" not in page
