"""A source's mapping: what may stand in one, and what a fold makes of a run under it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from drainboard import wire

from journals.adapters.base import Evidence
from runs.mapped import apply
from runs.mapping import BadMapping, SourceMapping, exactly, read, read_text
from runs.summary import Summary
from tests.runs.journal import Entry, codes, fold_import, imported, numbered, step

ENDS = Evidence(write="never", read="never", attempts=False, says_end=True)
BEGUN = {"kind": "run.started", "in": {"build": "b7", "deploy": {"prompt": "policy@3"}}}
ASK = {"kind": "tool.started", "step": 1, "name": "ask", "in": [{"text": "hi", "model": "m-5"}]}
ASKED = {"kind": "tool.result", "step": 1, "out": {"text": "ok", "by": "m-6"}}
SEND = {"kind": "tool.started", "step": 2, "name": "send/refund", "in": {"ref": "k-1"}}


def summed(*lines: Mapping[str, Any], body: Mapping[str, Any], evidence: Evidence | None = None) -> Summary:
    entries = apply(imported(numbered(*lines)), read(body))
    return fold_import(entries, evidence=evidence) if evidence else fold_import(entries)


def test_kinds_and_effects_follow_the_first_pattern_that_matches() -> None:
    body = {"kinds": {"ask": "model", "a*": "tool"}, "effects": {"*/refund": "read", "*": "write"}}
    made = summed(BEGUN, ASK, ASKED, SEND, body=body)
    first, second = step(made, 1).step, step(made, 2).step
    assert (first.kind, first.write, second.kind, second.write) == ("model", True, "tool", False)
    assert step(made, 1).status == "result"  # the answer leaves its name out and is the model's all the same
    assert first.mixed is False


def test_a_name_of_its_own_stands_in_the_order_of_the_patterns() -> None:
    mapping = read({"kinds": {"b*": "model", "bat": "tool", "cat": "tool", "c*": "model"}})
    assert [mapping.kind_of(n) for n in ("bat", "bee", "cat", "cow", "dog")] == [
        "model",
        "model",
        "tool",
        "model",
        None,
    ]


def test_patterns_are_tried_in_their_order_after_they_were_stored() -> None:
    body = {"kinds": {"longer*": "tool", "l*": "model"}, "effects": {"b": "read", "a": "write"}}
    again = read_text(read(body).text())
    assert again == read(body)
    assert json.dumps(again.body()) == json.dumps(body)
    assert again.kind_of("longest") == "model"


def test_a_key_is_taken_from_where_the_mapping_points() -> None:
    made = summed(BEGUN, {**SEND, "step": 1}, body={"keys": ["/in/none", "/in/ref"]})
    assert list(step(made, 1).step.keys) == ["k-1"]
    assert "key_missing" not in codes(made)
    assert "key_missing" in codes(summed(BEGUN, {**SEND, "step": 1}, body={}))


def test_a_pointed_key_stands_for_the_one_that_was_recorded() -> None:
    answer = {"kind": "tool.result", "step": 1, "name": "send/refund", "key": "guess", "out": 1}
    made = summed(BEGUN, {**SEND, "step": 1, "key": "guess"}, answer, body={"keys": ["/in/ref"]})
    assert list(step(made, 1).step.keys) == ["k-1"]
    assert "key_unstable" not in codes(made)


def test_two_pointed_keys_of_one_step_are_both_kept() -> None:
    answer = {"kind": "tool.result", "step": 1, "name": "send/refund", "out": {"ref": "k-2"}}
    made = summed(BEGUN, {**SEND, "step": 1}, answer, body={"keys": ["/in/ref", "/out/ref"]})
    assert list(step(made, 1).step.keys) == ["k-1", "k-2"]
    assert "key_unstable" in codes(made)


def test_versions_are_merged_component_by_component() -> None:
    begun = {**BEGUN, "versions": {"app": "old", "sdk": "9"}}
    body = {
        "kinds": {"ask": "model"},
        "versions": {"app": ["/in/none", "/in/build"], "prompt": "/in/deploy/prompt"},
        "step_versions": {"model": ["/out/by", "/in/0/model"]},
    }
    made = summed(begun, ASK, ASKED, SEND, body=body)
    assert made.version_set == {"app": "b7", "sdk": "9", "prompt": {"policy": "3"}, "model": {"": "m-6"}}
    assert made.versions["model"] == ["m-5", "m-6"]
    assert step(made, 2).versions is None  # only model steps have step versions


def test_what_the_mapping_finds_for_the_run_stands_for_what_steps_recorded() -> None:
    body = {"versions": {"app": "/in/build"}, "step_versions": {"prompt": "/in/prompt"}}
    steps = [{"kind": "model.result", "step": n, "name": "ask", "versions": {"app": f"w{n}", "model": "m-5"}, "in": {"prompt": f"p@{n}"}} for n in (1, 2)]  # fmt: skip
    made = summed(BEGUN, *steps, body=body)
    assert made.versions["app"] == ["b7"]
    assert made.versions["prompt"] == {"p": ["1", "2"]}  # what a step says of itself still counts
    assert [f.detail["component"] for f in made.findings if f.code == "changed_inside_run"] == ["prompt"]
    late = summed(*steps, {**BEGUN, "in": {"build": "b8"}}, body=body)
    assert late.versions["app"] == ["b8"]  # a root's span comes last


def test_a_number_is_a_version() -> None:
    made = summed({**BEGUN, "in": {"build": 41}}, body={"versions": {"app": "/in/build"}})
    assert made.version_set == {"app": "41"}


def test_unfinished_steps_that_the_source_names_are_mapped_too() -> None:
    state = {"kind": "note", "name": "runtime.state", "out": {"status": "running", "pending": [{"name": "look", "kind": "tool"}], "waiting": []}}  # fmt: skip
    (gap,) = summed(BEGUN, state, body={"kinds": {"look": "model"}, "effects": {"look": "read"}}).gaps
    assert (gap.kind, gap.effect) == ("model", "read")
    (gap,) = summed(BEGUN, state, body={}).gaps
    assert (gap.kind, gap.effect) == ("tool", "write")


def told_twice(*places: int) -> dict[str, Any]:
    names = {1: "look", 2: "send"}
    doubles = [{"branch": "", "step": n, "name": names[n], "kind": "tool", "why": "recovered"} for n in places]
    return {"kind": "note", "name": "runtime.state", "out": {"status": "completed", "complete": True, "doubles": doubles}}  # fmt: skip


def test_a_read_that_ran_twice_is_no_double_effect() -> None:
    answers = [{"kind": "tool.result", "step": n, "name": name, "out": 1} for n, name in ((1, "look"), (2, "send"))]
    lines = (BEGUN, *answers, told_twice(1, 2))
    found = [f for f in summed(*lines, body={}, evidence=ENDS).findings if f.code == "possible_double_effect"]
    assert [s["step"] for s in found[0].detail["steps"]] == [1, 2]
    found = [f for f in summed(*lines, body={"effects": {"look": "read"}}, evidence=ENDS).findings if f.code == "possible_double_effect"]  # fmt: skip
    assert [s["step"] for s in found[0].detail["steps"]] == [2]
    made = summed(*lines, body={"kinds": {"*": "model"}}, evidence=ENDS)
    assert "possible_double_effect" not in codes(made)


@pytest.mark.parametrize(
    ("told", "body", "found"),
    [
        ({"kind": "tool"}, {}, True),
        ({}, {}, True),
        ({"kind": "model"}, {}, False),
        ({"kind": "tool", "effect": "read"}, {}, False),
        ({"kind": "tool"}, {"effects": {"s": "read"}}, False),
        ({"kind": "model"}, {"kinds": {"s": "tool"}}, True),
    ],
)
def test_a_repeat_in_another_run_is_judged_by_what_its_source_and_the_mapping_say(
    told: dict[str, str], body: dict[str, Any], found: bool
) -> None:
    answer = {"kind": "model.result", "step": 7, "name": "another", "out": 1}
    double = {"branch": "", "step": 7, "name": "s", "why": "forked", "other": "r2", **told}
    state = {"kind": "note", "name": "runtime.state", "out": {"status": "completed", "complete": True, "doubles": [double]}}  # fmt: skip
    assert ("possible_double_effect" in codes(summed(BEGUN, answer, state, body=body, evidence=ENDS))) == found


def test_entries_that_were_written_here_and_other_kinds_stay_as_they_are() -> None:
    lines = [
        BEGUN,
        {"kind": "child.started", "step": 1, "name": "ask"},
        {"kind": "gap.resolved", "step": 2, "name": "ask"},
    ]
    entries = imported(numbered(*lines, {"kind": "tool.result", "step": 3, "name": "ask"}))
    entries[3].origin = "server"
    mapping = read({"kinds": {"*": "model"}, "effects": {"*": "read"}, "keys": ["/name"], "versions": {"sdk": "/none"}})
    assert list(apply(entries, mapping)) == entries


def test_only_what_a_pointer_leads_into_is_read_whole() -> None:
    long = {"messages": ["x" * 3_000], "ref": "k-9"}
    lines = numbered(BEGUN, *({"kind": "tool.started", "step": n, "name": "t", "in": long} for n in (1, 2, 3)))
    full = imported(lines)
    cut = {"$cut": {"digest": "00", "size": 3_000}}
    skeleton = imported([lines[0], {**lines[1], "in": cut}, {**lines[2], "in": {"messages": cut, "ref": "k-8"}}, {**lines[3], "in": {"ref": cut}}])  # fmt: skip
    asked: list[Sequence[int]] = []

    def whole(positions: Sequence[int]) -> list[Entry]:
        asked.append(positions)
        return [full[p - 1] for p in positions]

    made = apply(skeleton, read({"keys": ["/in/ref"]}), whole=whole)
    assert asked == [[2, 4]]
    assert [e.entry.key for e in made] == [None, "k-9", "k-8", "k-9"]
    assert made[1].entry.in_ == cut  # nothing of the whole value is kept


def test_the_pattern_of_one_name_matches_that_name_only() -> None:
    for name in ("plain", "a*b", "what?", "[x]", "]x[", "tab\there", "Ünïcode", "\ud800"):
        mapping = read({"kinds": {exactly(name): "model"}})
        assert mapping.kind_of(name) == "model"
        assert mapping.kind_of(name + "x") is None
    assert read({"kinds": {exactly("a*b"): "model"}}).kind_of("axb") is None


BAD = [
    ([], "", "must be an object, not a list"),
    ({"kind": {}}, "/kind", "is not a field of a mapping"),
    ({"kinds": []}, "/kinds", "must be an object, not a list"),
    ({"kinds": {"a": "timer"}}, "/kinds/a", 'must be model or tool, not "timer"'),
    ({"effects": {"a/b": True}}, "/effects/a~1b", "must be read or write, not true"),
    ({"effects": {"": "read"}}, "/effects/", "an empty pattern matches no name"),
    ({"kinds": {"a\nb": "model"}}, "/kinds/a\nb", "control character U+000A; write ? in its place"),
    ({"kinds": {f"{n}*": "model" for n in range(201)}}, "/kinds", "has 201 patterns with *, ? or [, the limit is 200"),
    ({"keys": "in/key"}, "/keys", '"in/key" is no JSON pointer'),
    ({"keys": ["/in/a", 4]}, "/keys/1", "must be a JSON pointer, not a number"),
    ({"keys": ["/in/a~2"]}, "/keys/0", "neither ~0 (for ~) nor ~1 (for /)"),
    ({"versions": {"prompts": "/in"}}, "/versions/prompts", "is no component; those are app, prompt, model, tools, sdk"),
    ({"versions": {"app": None}}, "/versions/app", "must be a JSON pointer, not null"),
    ({"step_versions": {"model": ["/x"] * 21}}, "/step_versions/model", "has 21 pointers, the limit is 20"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "path", "reason"), BAD, ids=[f"{n}{p}" for n, (_, p, _) in enumerate(BAD)])
def test_what_is_wrong_is_named_with_its_place(body: Any, path: str, reason: str) -> None:
    with pytest.raises(BadMapping) as raised:
        read(body)
    assert raised.value.path == path
    assert reason in raised.value.reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"kinds": {"a": "model", "a": "tool"}}', "stands twice"),
        ("{", "it is not JSON"),
        ("[" * 5_000, "it is not JSON"),
        (" " * 600_000, "the limit is"),
    ],
)
def test_text_that_is_no_mapping_is_refused(text: str, reason: str) -> None:
    with pytest.raises(BadMapping, match=reason):
        read_text(text)


def test_an_empty_mapping_changes_nothing() -> None:
    entries = imported(numbered(BEGUN, ASK))
    assert apply(entries, SourceMapping()) is entries
    assert wire.decode(SourceMapping().text().encode())[0] == {}
