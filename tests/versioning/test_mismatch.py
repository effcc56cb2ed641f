"""What a build does to what a run recorded: by table and by property."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from versioning.mismatch import (
    Contents,
    Difference,
    Policy,
    Versions,
    assess,
    overlay,
    retirement_days,
    stop_name,
    versions_of,
)

NOW = datetime(2026, 8, 1, 9, tzinfo=UTC)
STRICT = Policy()

RECORDED = {
    "app": "agent-20",
    "prompt": {"refund-policy": "12"},
    "model": {"decide": "m-5"},
    "tools": {"refund": "sha256:a1", "lookup": "sha256:b1"},
    "sdk": "0.1.0",
}


def build(**changes):
    return Contents(versions=replace(versions_of(RECORDED), **changes))


def verdict(recorded, contents, **given):
    return assess(recorded, contents, **{"now": NOW, "policy": STRICT, **given}).verdict


def differences(recorded, contents, **given):
    found = assess(recorded, contents, **{"now": NOW, "policy": STRICT, **given}).differences
    return [(d.component, d.name, d.recorded, d.new, d.change) for d in found]


def test_equal_components_are_the_same():
    assert assess(RECORDED, build(), now=NOW, policy=STRICT).verdict == "same"
    assert differences(RECORDED, build()) == []


@pytest.mark.parametrize(
    ("change", "expected", "reached"),
    [
        (
            {"prompts": {"refund-policy": "14"}},
            ("prompt", "refund-policy", "12", "14", "changed"),
            "mismatch",
        ),
        ({"prompts": {}}, ("prompt", "refund-policy", "12", None, "removed"), "mismatch"),
        ({"prompts": None}, ("prompt", "refund-policy", "12", None, "unknown"), "unknown"),
        ({"models": {"decide": "m-6"}}, ("model", "decide", "m-5", "m-6", "changed"), "mismatch"),
        ({"models": {}}, ("model", "decide", "m-5", None, "removed"), "mismatch"),
        (
            {"models": {"decide": "m-5", "judge": "m-6"}},
            ("model", "judge", None, "m-6", "added"),
            "compatible",
        ),
        (
            {"tools": {"refund": "sha256:a2", "lookup": "sha256:b1"}},
            ("tool", "refund", "sha256:a1", "sha256:a2", "changed"),
            "mismatch",
        ),
        ({"tools": {"lookup": "sha256:b1"}}, ("tool", "refund", "sha256:a1", None, "removed"), "mismatch"),
        ({"app": "agent-21"}, ("app", "", "agent-20", "agent-21", "code_changed"), "mismatch"),
        ({"sdk": "0.2.0"}, ("sdk", "", "0.1.0", "0.2.0", "code_changed"), "mismatch"),
        ({"app": None}, ("app", "", "agent-20", None, "unknown"), "unknown"),
    ],
)
def test_names_each_difference_with_its_class(change, expected, reached):
    assert differences(RECORDED, build(**change)) == [expected]
    assert verdict(RECORDED, build(**change)) == reached


def test_does_not_compare_the_sdk_with_a_build_that_leaves_it_out():
    assert verdict(RECORDED, build(sdk=None)) == "same"


def test_calls_changed_code_compatible_only_when_the_policy_says_so():
    assert verdict(RECORDED, build(app="agent-21"), policy=Policy(code_changes_compatible=True)) == "compatible"
    moved = build(app="agent-21", prompts={"refund-policy": "13"})
    assert verdict(RECORDED, moved, policy=Policy(code_changes_compatible=True)) == "mismatch"


@pytest.mark.parametrize("missing", ["app", "prompt", "model", "tools", "sdk"])
def test_a_component_that_the_run_did_not_record_is_unknown(missing):
    recorded = {name: value for name, value in RECORDED.items() if name != missing}
    assert verdict(recorded, build()) == "unknown"


def test_a_run_without_versions_is_unknown_even_against_an_empty_build():
    assert verdict({}, build()) == "unknown"
    assert verdict(None, Contents(versions=Versions())) == "unknown"


def test_a_mismatch_is_named_beside_what_is_unknown():
    recorded = {"prompt": "refund-policy@12", "tools": RECORDED["tools"]}
    found = assess(recorded, build(prompts={"refund-policy": "13"}), now=NOW, policy=STRICT)
    assert found.verdict == "mismatch"
    assert {d.change for d in found.differences} == {"changed", "unknown"}


@pytest.mark.parametrize(
    ("recorded", "models", "expected"),
    [
        ("m-5", {"decide": "m-5", "judge": "m-7"}, []),
        ("m-5", {"decide": "m-6"}, [("model", "", "m-5", "m-6", "changed")]),
        ("m-5", {"decide": "m-6", "judge": "m-7"}, [("model", "", "m-5", "m-6, m-7", "changed")]),
        ("m-5", {"": "m-5"}, []),
        ({"decide": "m-5"}, {"": "m-5"}, []),
        ({"decide": "m-5"}, {"": "m-6"}, [("model", "decide", "m-5", "m-6", "changed")]),
        ("m-5", {}, [("model", "", "m-5", None, "removed")]),
    ],
)
def test_a_bare_model_id_matches_any_role(recorded, models, expected):
    assert differences({**RECORDED, "model": recorded}, build(models=models)) == expected


@pytest.mark.parametrize(
    ("written", "name", "version"),
    [
        ("refund-policy@12", "refund-policy", "12"),
        ("team@refund@3", "team@refund", "3"),
        ("bare", "bare", "bare"),
        ("@7", "@7", "@7"),
    ],
)
def test_reads_a_prompt_by_its_last_at(written, name, version):
    assert versions_of({"prompt": written}).prompts == {name: version}


def test_a_retired_model_is_a_mismatch_on_the_old_and_on_the_new_build():
    retiring = {"m-5": date(2026, 8, 15)}
    later = NOW + timedelta(days=19)
    same = replace(build(), retires_on=retiring)
    assert verdict(RECORDED, same) == "same"
    assert differences(RECORDED, same, wakes_at=later) == [("model", "decide", "m-5", "m-5", "model_retired")]
    moved = replace(build(models={"decide": "m-6"}), retires_on=retiring)
    assert {d[-1] for d in differences(RECORDED, moved, wakes_at=later)} == {"changed", "model_retired"}


def test_a_model_that_retires_on_the_day_of_the_wake_up_is_retired():
    contents = replace(build(), retires_on={"m-5": date(2026, 8, 20)})
    assert verdict(RECORDED, contents, wakes_at=datetime(2026, 8, 19, 23, 59, tzinfo=UTC)) == "same"
    assert verdict(RECORDED, contents, wakes_at=datetime(2026, 8, 20, tzinfo=UTC)) == "mismatch"
    assert retirement_days(versions_of(RECORDED), contents) == [date(2026, 8, 20)]


def test_an_equal_prompt_version_with_two_texts_is_not_the_same():
    contents = replace(build(), texts={("refund-policy", "12"): frozenset({"sha256:1", "sha256:2"})})
    assert verdict(RECORDED, contents) == "mismatch"


def test_uses_what_the_runs_own_build_states_where_nothing_was_recorded():
    base = versions_of(RECORDED)
    assert verdict({"prompt": "refund-policy@12"}, build(), base=base) == "same"
    assert verdict({"prompt": "refund-policy@13"}, build(), base=base) == "mismatch"
    assert verdict({}, build(tools={"refund": "sha256:a2", "lookup": "sha256:b1"}), base=base) == "mismatch"
    assert overlay(None, Versions()).is_empty()


def test_suggests_the_stop_name_that_says_most():
    tool = Difference("tool", "refund", "a", "b", "changed")
    prompt = Difference("prompt", "p", "1", "2", "changed")
    assert stop_name([prompt, tool]) == "ToolSchemaChanged"
    assert stop_name([prompt, replace(tool, change="added")]) == "PromptChanged"
    assert stop_name([replace(tool, change="removed", new=None), tool]) == "ToolRemoved"
    assert stop_name([Difference("model", "r", "a", "a", "model_retired")]) == "ModelRetired"
    assert stop_name([Difference("model", "r", "a", "b", "changed")]) == "ModelChanged"
    assert stop_name([Difference("app", "", "a", "b", "code_changed")]) == "CodeChanged"
    assert stop_name([Difference("prompt", "p", None, "1", "unknown")]) == "VersionsUnknown"
    assert stop_name([]) == "StoppedByOperator"


names = st.text(min_size=1, max_size=4)
maps = st.none() | st.dictionaries(names, names, max_size=3)
versions = st.builds(
    Versions,
    app=st.none() | names,
    sdk=st.none() | names,
    prompts=maps,
    models=st.none() | st.dictionaries(names | st.just(""), names, max_size=3),
    tools=maps,
)
policies = st.builds(Policy, code_changes_compatible=st.booleans())
COMPONENTS = ("app", "sdk", "prompts", "models", "tools")


@given(versions, policies)
def test_a_run_always_fits_the_build_that_holds_exactly_what_it_recorded(own, policy):
    reached = verdict(own, Contents(versions=own), policy=policy)
    assert reached == ("unknown" if own.is_empty() else "same")


@given(versions, versions, policies, st.sampled_from(COMPONENTS))
def test_forgetting_a_component_that_the_build_names_never_makes_a_run_the_same(own, new, policy, component):
    forgotten = replace(own, **{component: None})
    if getattr(new, component):
        assert verdict(forgotten, Contents(versions=new), policy=policy) in ("unknown", "mismatch")


@given(versions, versions, policies)
def test_same_means_that_each_component_of_the_build_is_recorded_and_equal(own, new, policy):
    if verdict(own, Contents(versions=new), policy=policy) != "same":
        return
    assert new.app == own.app
    assert new.sdk in (None, own.sdk)
    assert (new.prompts or {}) == (own.prompts or {})
    assert (new.tools or {}) == (own.tools or {})
    assert set((own.models or {}).values()) <= set((new.models or {}).values())


@given(versions, versions)
def test_a_policy_can_only_turn_changed_code_into_compatible(own, new):
    strict = assess(own, Contents(versions=new), now=NOW, policy=STRICT)
    loose = assess(own, Contents(versions=new), now=NOW, policy=Policy(code_changes_compatible=True))
    assert strict.differences == loose.differences
    if strict.verdict != loose.verdict:
        assert any(d.change == "code_changed" for d in strict.differences)
        assert strict.verdict == "mismatch"
        assert loose.verdict in ("compatible", "unknown")


@given(
    versions,
    versions,
    st.dictionaries(names, st.dates(date(2026, 7, 1), date(2026, 9, 1)), max_size=3),
    st.integers(0, 60),
)
def test_waiting_longer_never_brings_a_retired_model_back(own, new, retires_on, days):
    contents = Contents(versions=new, retires_on=retires_on)
    soon = assess(own, contents, now=NOW, policy=STRICT).differences
    late = assess(own, contents, now=NOW, policy=STRICT, wakes_at=NOW + timedelta(days=days)).differences
    assert set(soon) <= set(late)


@given(versions, versions)
def test_a_group_is_named_by_its_verdict_and_differences_alone(own, new):
    contents = Contents(versions=new)
    one, two = (assess(own, contents, now=NOW + timedelta(hours=h), policy=STRICT) for h in (0, 5))
    assert one.group == two.group
    assert len(one.group) == 16
