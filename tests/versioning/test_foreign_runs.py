"""Decisions about runs of other runtimes: recorded, never claimed to be carried out, with the command that does it."""

from __future__ import annotations

import json
import shlex
import subprocess
from datetime import UTC, datetime
from html import unescape

import pytest
from django.test import Client

from journals import store
from journals.adapters import ADAPTERS
from journals.adapters.controls import quoted, values_of
from runs import projection
from tests.versioning.fleet import AGENT, V40, V41, build
from versioning import deploying

HOSTILE = "o'8812; rm -rf $HOME `id`\n--yes"


def imported(run="order-1/0a1b", *, status="running", import_id=1, runtime="temporal", n=0, **told):
    """A run as an adapter gives it: its start, and what the source says about it as a whole."""
    start = {"run": run, "kind": "run.started", "id": "e1", "agent": AGENT, "build": "40", "environment": "prod"}
    model = {"run": run, "kind": "model.result", "id": "e2", "step": 1, "name": "m", "versions": V40, "out": 1}
    state = {
        "run": run, "kind": "note", "id": f"state:{n}", "name": "runtime.state",
        "out": {"status": status, "complete": status != "running", "build": "40", "deployment": "agents", **told},
    }  # fmt: skip
    items = [
        store.Foreign(run=run, id=e["id"], seq=None, kind=e["kind"], raw=json.dumps(e).encode(), record="r")
        for e in (start, model, state)
    ]
    found = store.ingest(
        source_name="tq", runtime=runtime, import_id=None, actor=f"import:{import_id}", agent=AGENT, environment="prod", items=items
    )  # fmt: skip
    projection.catch_up()
    return found[run].key


def text(answer):
    return " ".join(unescape(answer.content.decode()).split())


@pytest.fixture
def alice(people):
    client = Client()
    client.force_login(people["alice"])
    return client


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("name", "data", "line"),
    [
        ("stop", {"name": "StoppedByOperator", "message": "enough"}, "temporal workflow terminate -w order-1 -r 0a1b --reason enough"),
        (
            "pin",
            {"build": "40"},
            ("temporal workflow update-options -w order-1 -r 0a1b --versioning-override-behavior pinned "
            "--versioning-override-deployment-name agents --versioning-override-build-id 40"),
        ),
        (
            "move",
            {"build": "41"},
            ("temporal workflow update-options -w order-1 -r 0a1b --versioning-override-behavior pinned "
            "--versioning-override-deployment-name agents --versioning-override-build-id 41"),
        ),
    ],
)  # fmt: skip
def test_a_form_says_that_nothing_is_carried_out_and_gives_the_command(alice, name, data, line):
    build("41", V41)
    key = imported()
    form = text(alice.get(f"/runs/{key}/{name}/"))
    assert f"Drainboard cannot {name} a run of Temporal; this records the decision only" in form
    assert "temporal workflow" in form
    assert "is refused with PinnedToBuild" not in form
    told = text(alice.post(f"/runs/{key}/{name}/", {**data, "reason": "why"}, follow=True))
    assert "Recorded, and not carried out" in told
    assert line in told
    assert "asked" in told
    assert "not carried out by its runtime" in told


@pytest.mark.django_db
def test_a_move_offers_the_builds_that_were_seen_and_takes_another(alice):
    """A run that its own runtime keeps failing: pinned to one deployment, tried by another, a write without a result."""
    imported("order-2/9", runtime="restate", pinned_to="39")
    mismatch = {
        "cause": "RT0016 journal mismatch",
        "message": "Pinned to dp_OLD1, tried by dp_NEW2",
        "build": "dp_NEW2",
        "tries": 12,
    }
    key = imported("inv_1x", status="stuck", runtime="restate", build="dp_OLD1", tried_by="dp_NEW2", stuck=mismatch)
    write = {"run": "inv_1x", "kind": "tool.started", "id": "e9", "step": 2, "name": "charge card", "effect": "write"}
    store.ingest(
        source_name="tq", runtime="restate", import_id=1, actor="import:1",
        items=[store.Foreign(run="inv_1x", id="e9", seq=None, kind="tool.started", raw=json.dumps(write).encode(), record="r")],
    )  # fmt: skip
    projection.catch_up()
    form = text(alice.get(f"/runs/{key}/move/"))
    assert 'value="dp_OLD1" selected' in form
    for offered in ("dp_NEW2", "40"):
        assert f'<option value="{offered}">' in form
    assert "resume?deployment=dp_NEW2" in form
    assert "BUILD" not in form
    before, _, _ = form.partition('<button class="button" data-kind="primary">')
    warned = before.partition("As the run stands now")[2]
    assert "RT0016 journal mismatch: Pinned to dp_OLD1, tried by dp_NEW2" in warned
    assert "In the gap: charge card" in warned
    told = text(
        alice.post(f"/runs/{key}/move/", {"build": "dp_OLD1", "other_build": "dp_X3", "reason": "r"}, follow=True)
    )
    assert "Move asked on build dp_X3, not carried out" in told
    assert "resume?deployment=dp_X3" in told
    nothing = alice.post(f"/runs/{key}/move/", {"reason": "r"})
    assert (nothing.status_code, "name the build" in text(nothing)) == (422, True)


@pytest.mark.django_db
def test_a_stop_is_shown_as_asked_until_an_import_shows_the_end(alice):
    key = imported()
    alice.post(f"/runs/{key}/stop/", {"name": "StoppedByOperator", "message": "m", "reason": "r"})
    words = "Stop asked, not carried out by its runtime"
    assert words in text(alice.get(f"/runs/{key}/"))
    imported(n=1, as_of="2026-01-01T00:00:00Z")
    assert words in text(alice.get(f"/runs/{key}/"))
    imported(n=2, status="cancelled")
    assert words not in text(alice.get(f"/runs/{key}/"))


@pytest.mark.django_db
def test_a_pin_is_shown_as_asked_until_an_import_shows_it(alice):
    key = imported()
    alice.post(f"/runs/{key}/move/", {"build": build("41", V41).label, "reason": "r"})
    assert "Move asked on build 41, not carried out" in text(alice.get(f"/runs/{key}/"))
    imported(n=1, pinned_to="41")
    assert "not carried out" not in text(alice.get(f"/runs/{key}/"))


@pytest.mark.django_db
def test_a_group_with_foreign_runs_says_so_before_and_after(alice, fleet):
    fleet.parked("r-1")
    imported()
    imported("order-2/77", runtime="temporal")
    build("41", V41)
    deploy = deploying.open_deploy(agent=AGENT, environment="prod", label="41", by="alice", now=datetime.now(UTC))
    [group] = deploy_groups(deploy)
    path = f"/deploys/{deploy.key}/decide/"
    for action in ("pin", "continue", "stop"):
        page = text(alice.get(f"{path}?group={group}&action={action}"))
        assert f"Drainboard cannot {action} runs of Temporal; for 2 of these runs" in page
        assert "For the 1 that Drainboard runs itself" in page
        assert "temporal workflow" in page
    data = {"version": deploy.version, "action": "pin", "group": group, "reason": "because"}
    assert "2 of them are not carried out" in text(alice.post(path, data, follow=True))


def deploy_groups(deploy):
    return [g.key for g in deploying.refresh(deploy, now=datetime.now(UTC)).groups]


@pytest.mark.parametrize("runtime", ["temporal", "dbos"])
def test_every_command_quotes_what_it_is_filled_with(runtime):
    info = ADAPTERS[runtime].INFO
    assert {"stop", "pin", "move"} <= {c.action for c in info.controls}
    values = values_of(f"{HOSTILE}/{HOSTILE}", separator="", build=HOSTILE, reason=HOSTILE)
    for control in info.controls:
        line = control.command(values)
        assert "\n" not in line
        first, *rest = shell_words(line)
        assert first in ("temporal", "dbos", "env")
        filled = [w for w in rest if "rm -rf" in w]
        assert filled
        assert all("o'8812; rm -rf $HOME `id`\n--yes" in w for w in filled)


def shell_words(line):
    """What a shell makes of the line."""
    script = f"printf '%s\\0' {line}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True, text=True)
    return done.stdout.split("\0")[:-1]


@pytest.mark.parametrize(
    "value", ["plain", "", "a b", "it's", "-w", "\u202eabc", "tab\there", "é", "$'x'", "back\\slash\n"]
)
def test_a_quoted_word_is_one_word_and_hides_nothing(value):
    assert shell_words(quoted(value)) == [value]
    assert all(c.isprintable() for c in quoted(value))
    if value.isprintable():
        assert shlex.split(quoted(value)) == [value]


def test_a_run_id_that_looks_like_an_option_is_no_option():
    [stop] = [c for c in ADAPTERS["dbos"].INFO.controls if c.action == "stop"]
    assert stop.command(values_of("--help", separator="")) == "dbos workflow cancel -- --help"
