"""`check_deploy`: the machine-readable answer, its exit code, and the case of a run that sleeps through a deploy."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from pathlib import Path

import jsonschema
import pytest
from django.core.management import CommandError, call_command

from journals import store
from tests.versioning.fleet import AGENT, V40, V41, build
from versioning import assessing, buildfile, registering

pytestmark = pytest.mark.django_db
ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "docs" / "check-deploy.schema.json").read_text())
BUILD_SCHEMA = json.loads((ROOT / "docs" / "build-file.schema.json").read_text())


def check(*arguments):
    """(exit code, the object that was printed)"""
    out, status = io.StringIO(), 0
    try:
        call_command("check_deploy", *arguments, "--json", stdout=out)
    except SystemExit as e:
        status = e.code
    made = json.loads(out.getvalue())
    jsonschema.validate(made, SCHEMA)
    return status, made


def sleeping(run, *lines, agent="unnamed"):
    """Imports a run of journal lines."""
    items = [
        store.Foreign(run=run, id=f"seq:{n}", seq=n, kind=line["kind"], raw=json.dumps({"run": run, "seq": n, **line}).encode(), record=f"line={n}")
        for n, line in enumerate(lines, 1)
    ]  # fmt: skip
    store.ingest(
        source_name="export",
        runtime="lines",
        import_id=None,
        actor="import:1",
        items=items,
        agent=agent,
        environment="prod",
    )


def versions(**more):
    tools = {"refund": "sha256:aaa1", "lookup": "sha256:bbb1"}
    return {
        "app": "agent-20",
        "prompt": "refund-policy@13",
        "model": "provider/model-5-2026-02",
        "tools": tools,
        **more,
    }


def test_says_how_many_runs_a_registered_build_touches(fleet):
    keys = [fleet.parked("r-1"), fleet.parked("r-2")]
    build("41", V41)
    status, made = check("--agent", AGENT, "--build", "41", "--env", "prod")
    assert status == 1
    assert (made["runs"], made["verdicts"]) == (2, {"same": 0, "compatible": 0, "mismatch": 2, "unknown": 0})
    [group] = made["groups"]
    assert (group["runs"], group["count"], group["in_step"], group["parked"], group["stranded"]) == (keys, 2, 0, 2, 0)
    assert group["differences"] == [
        {"component": "prompt", "name": "policy", "recorded": "12", "new": "13", "class": "changed"}
    ]
    assert made["elapsed_ms"] >= 0


def test_exits_0_when_nothing_is_mismatched_or_unknown(fleet):
    fleet.parked("r-1")
    build("40b", V40)
    assert check("--agent", AGENT, "--build", "40b")[0] == 0
    assert check("--agent", AGENT, "--build", "40", "--env", "staging")[1]["runs"] == 0


def test_takes_a_build_file_without_registering_it(fleet, tmp_path):
    fleet.parked("r-1")
    file = {
        "agent": AGENT,
        "label": "42",
        "app": "app-40",
        "prompts": {"policy": "13"},
        "models": {"main": "m-5"},
        "tools": V40["tools"],
    }
    jsonschema.validate(file, BUILD_SCHEMA)
    path = tmp_path / "build.json"
    path.write_text(json.dumps(file))
    status, made = check("--agent", AGENT, "--build", str(path))
    assert (status, made["build"], made["verdicts"]["mismatch"]) == (1, "42", 1)
    with pytest.raises(registering.UnknownBuild):
        registering.find(agent=AGENT, label="42")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--agent", AGENT, "--build", "nope"], "no agent 'procure'"),
        (["--agent", "other", "--build", "FILE"], "describes agent 'procure', not 'other'"),
        (["--agent", AGENT, "--build", "BAD"], "label is missing"),
    ],
)
def test_exits_2_when_the_build_cannot_be_read(tmp_path, arguments, said):
    (tmp_path / "good").write_text(json.dumps({"agent": AGENT, "label": "1"}))
    (tmp_path / "bad").write_text(json.dumps({"agent": AGENT}))
    places = {"FILE": str(tmp_path / "good"), "BAD": str(tmp_path / "bad")}
    with pytest.raises(CommandError, match=said) as failed:
        call_command("check_deploy", *(places.get(a, a) for a in arguments))
    assert failed.value.returncode == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--agent", AGENT, "--build", "nope"], "has no build 'nope'"),
        (["--agent", "procurr", "--build", "40"], "no agent 'procurr'; did you mean 'procure'?"),
        (["--agent", "zzz", "--build", "40"], "no agent 'zzz'; known are 'procure'"),
    ],
)
def test_names_what_was_probably_meant(fleet, arguments, said):
    fleet.parked("r-1")
    with pytest.raises(CommandError) as failed:
        check(*arguments)
    assert said in str(failed.value)


def test_without_json_it_says_the_same_in_words(fleet):
    fleet.parked("r-1")
    fleet.start("new")
    build("41", V41)
    out = io.StringIO()
    with pytest.raises(SystemExit):
        call_command("check_deploy", "--agent", AGENT, "--build", "41", stdout=out)
    assert "1 runs in flight (1 mismatch)" in out.getvalue()
    assert "prompt policy 12 → 13" in out.getvalue()
    assert "not opened      1" in out.getvalue()


def test_a_run_that_sleeps_through_a_retirement_is_a_mismatch_known_before():
    now = datetime(2026, 8, 1, 12, tzinfo=UTC)
    sleeping(
        "r-17",
        {"kind": "run.started", "versions": versions(prompt="refund-policy@12"), "in": {"ticket": 5}},
        {"kind": "model.result", "name": "decide", "call": "m-2", "versions": versions(), "model_reported": "provider/model-4-fallback"},
        {"kind": "tool.result", "name": "lookup", "call": "t-1", "versions": versions(), "in": {"order": "o-1"}, "out": {"ok": True}},
        {"kind": "timer.started", "name": "wait", "versions": versions(), "until": "2026-08-20T08:00:00Z"},
    )  # fmt: skip
    sleeping("r-17b", {"kind": "run.started", "in": {"ticket": 6}})
    old = {
        "agent": "unnamed",
        "label": "20",
        "models": {"main": {"id": "provider/model-5-2026-02", "retires_on": "2026-08-15"}},
    }
    registering.register(buildfile.describe(old), seen_from="ci", by="tests")
    new = buildfile.describe({
        "agent": "unnamed", "label": "21", "app": "agent-21", "prompts": {"refund-policy": "14"}, "models": {"main": {"id": "provider/model-6"}},
        "tools": {"refund": {"sha256": "sha256:aaa2"}, "lookup": {"sha256": "sha256:bbb2"}},
    })  # fmt: skip
    from runs import projection

    projection.catch_up()
    assessed = assessing.assess_file(new, environment="", now=now)
    by_verdict = {g.verdict: g for g in assessed.groups}
    assert assessed.verdicts() == {"same": 0, "compatible": 0, "mismatch": 1, "unknown": 1}
    found = {(d.component, d.name, d.recorded, d.new, d.change) for d in by_verdict["mismatch"].differences}
    assert found == {
        ("app", "", "agent-20", "agent-21", "code_changed"),
        ("prompt", "refund-policy", "13", "14", "changed"),
        ("model", "", "provider/model-5-2026-02", "provider/model-6", "changed"),
        ("model", "", "provider/model-5-2026-02", None, "model_retired"),
        ("tool", "refund", "sha256:aaa1", "sha256:aaa2", "changed"),
        ("tool", "lookup", "sha256:bbb1", "sha256:bbb2", "changed"),
    }
    assert {d.change for d in by_verdict["unknown"].differences} == {"unknown"}


def test_the_same_run_without_the_timer_is_not_retired_yet():
    sleeping("r-1", {"kind": "run.started", "versions": versions(), "in": 1})
    old = {
        "agent": "unnamed",
        "label": "20",
        "models": {"main": {"id": "provider/model-5-2026-02", "retires_on": "2099-08-15"}},
    }
    registering.register(buildfile.describe(old), seen_from="ci", by="tests")
    from runs import projection

    projection.catch_up()
    new = buildfile.describe(
        {"agent": "unnamed", "label": "21", "models": {"main": {"id": "provider/model-5-2026-02"}}}
    )
    changes = {
        d.change
        for g in assessing.assess_file(new, environment="", now=datetime.now(UTC)).groups
        for d in g.differences
    }
    assert "model_retired" not in changes


def test_registers_a_build_file_from_the_command_line(tmp_path, capsys):
    path = tmp_path / "build.json"
    path.write_text(json.dumps({"agent": AGENT, "label": "7", "prompts": {"policy": {"version": "1", "text": "hi"}}}))
    for created in (True, False):
        out = io.StringIO()
        call_command("register_build", str(path), "--json", stdout=out)
        assert json.loads(out.getvalue())["created"] is created
    path.write_text(json.dumps({"agent": AGENT, "label": "7", "prompts": {"policy": {"version": "2"}}}))
    with pytest.raises(CommandError, match="A label is immutable"):
        call_command("register_build", str(path))
