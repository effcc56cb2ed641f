"""The build file: what it takes, what it refuses, and the digests that follow from it."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from versioning import buildfile

SCHEMA = {
    "type": "object",
    "properties": {"order": {"type": "string"}, "amount": {"type": "number"}},
    "required": ["order"],
}
FILE = {
    "agent": "refund",
    "label": "41",
    "app": "agent-21",
    "sdk": "0.1.0",
    "prompts": {"refund-policy": {"version": "14", "text": "Be kind.\n"}},
    "models": {"decide": {"id": "m-6", "retires_on": "2027-01-31"}},
    "tools": {
        "refund": {"schema": SCHEMA, "description": "Sends a refund."},
        "lookup": {"sha256": "sha256:bbb2"},
    },
}


def without(name):
    return {key: value for key, value in FILE.items() if key != name}


def test_reads_a_whole_build_file():
    made = buildfile.read(json.dumps(FILE).encode())
    assert (made.agent, made.label, made.replaces) == ("refund", "41", "")
    prompt = made.body["prompts"]["refund-policy"]
    assert prompt["sha256"] == "sha256:" + hashlib.sha256(b"Be kind.\n").hexdigest()
    assert made.body["tools"]["lookup"] == {"sha256": "sha256:bbb2"}
    stated = buildfile.versions_in(made.body)
    assert stated.prompts == {"refund-policy": "14"}
    assert stated.models == {"decide": "m-6"}
    assert stated.tools["refund"].startswith("sha256:")
    assert {m: d.isoformat() for m, d in buildfile.retirements_in(made.body).items()} == {"m-6": "2027-01-31"}


def test_the_order_of_keys_in_a_schema_changes_nothing():
    turned = {
        "required": ["order"],
        "properties": dict(reversed(SCHEMA["properties"].items())),
        "type": "object",
    }
    assert buildfile.tool_digest(schema=SCHEMA, description="d") == buildfile.tool_digest(
        schema=turned, description="d"
    )


def test_one_letter_of_a_description_changes_the_digest():
    assert buildfile.tool_digest(schema=SCHEMA, description="Sends") != buildfile.tool_digest(
        schema=SCHEMA, description="Send"
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"agent": ""}, "agent is not a text"),
        ({"label": None}, "label is missing"),
        ({"label": 41}, "label is not a text"),
        ({"app": 3}, "app is not a text"),
        ({"prompts": []}, "prompts must be an object, not list"),
        ({"prompts": {"p": {}}}, "prompts.p.version is missing"),
        (
            {"prompts": {"p": {"version": "1", "text": "a", "sha256": "sha256:00"}}},
            "but its text has sha256:ca978112",
        ),
        ({"prompts": {"p": {"version": "1", "text": "\ud800"}}}, "lone surrogate"),
        ({"models": {"r": {"retires_on": "2026-01-01"}}}, "models.r.id is missing"),
        ({"models": {"r": {"id": "m", "retires_on": "soon"}}}, "give a date as 2026-08-15"),
        ({"tools": {"t": {}}}, "neither schema, description nor sha256"),
        ({"tools": {"t": {"schema": {"maximum": 2**60}}}}, "no digest"),
        ({"tools": {"t": {"schema": {"const": "\x00"}}}}, "NUL"),
        ({"app": "a\x00b"}, "NUL"),
    ],
)
def test_refuses_by_the_name_of_the_field(change, said):
    with pytest.raises(buildfile.BadBuildFile) as refused:
        buildfile.describe({**FILE, **change})
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"{",
        b'{"agent":"a","agent":"b","label":"1"}',
        b"\xff",
        b'{"agent":"a","label":"1","app":NaN}',
    ],
)
def test_refuses_bytes_that_are_not_one_plain_json_object(raw):
    with pytest.raises(buildfile.BadBuildFile):
        buildfile.read(raw)


def test_short_forms_name_a_version_an_id_and_a_digest():
    made = buildfile.describe(
        {"agent": "a", "label": "1", "prompts": {"p": "2"}, "models": {"": "m"}, "tools": {"t": "sha256:1"}}
    )
    assert made.body == {
        "prompts": {"p": {"version": "2"}},
        "models": {"": {"id": "m"}},
        "tools": {"t": {"sha256": "sha256:1"}},
    }


def test_a_worker_and_a_build_file_of_the_same_versions_do_not_contradict():
    made = buildfile.describe(FILE)
    digest = made.body["tools"]["refund"]["sha256"]
    worker = buildfile.described_by_worker(
        agent="refund",
        label="41",
        versions={
            "app": "agent-21",
            "prompt": "refund-policy@14",
            "model": "m-6",
            "tools": {"refund": digest, "lookup": "sha256:bbb2"},
        },
    )
    assert buildfile.contradictions(made.body, worker.body) == []
    assert buildfile.merged(worker.body, made.body) == made.body
    assert buildfile.merged(made.body, worker.body) == made.body


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"app": "agent-22"}, "app is agent-21, here it is agent-22"),
        ({"prompts": {"refund-policy": {"version": "15"}}}, "prompts.refund-policy differs in version"),
        ({"prompts": {}}, "prompts.refund-policy is there, here it is absent"),
        ({"models": {"": {"id": "m-7"}}}, "models. is absent, here it is there"),
        (
            {"tools": {**buildfile.describe(FILE).body["tools"], "x": {"sha256": "1"}}},
            "tools.x is absent, here it is there",
        ),
    ],
)
def test_names_each_contradiction(other, said):
    assert said in buildfile.contradictions(buildfile.describe(FILE).body, other)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(json_values, st.randoms())
def test_a_digest_depends_on_the_value_and_not_on_its_spelling(schema, random):
    def shuffled(value):
        if isinstance(value, dict):
            pairs = [(key, shuffled(got)) for key, got in value.items()]
            random.shuffle(pairs)
            return dict(pairs)
        return [shuffled(got) for got in value] if isinstance(value, list) else value

    respelled = json.loads(json.dumps(shuffled(schema), indent=2, ensure_ascii=True))
    assert buildfile.tool_digest(schema=schema, description="d") == buildfile.tool_digest(
        schema=respelled, description="d"
    )
