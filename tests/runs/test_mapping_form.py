"""The form of a mapping gives back what it was given, whatever page of names it shows, and puts errors to their fields."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from runs.mapping import SourceMapping, exactly, read
from runs.mapping_form import Draft

BODY = {
    "kinds": {exactly("a*[b]?"): "model", "send": "tool", "s*": "model", "ask": "tool", "*": "tool"},
    "effects": {"look": "read", "z*": "write", "*": "write", "s*": "read"},
    "keys": ["/in/0/key", "/in/key"],
    "versions": {"app": ["/in/build"], "tools": ["/in/tools"]},
    "step_versions": {"model": ["/out/model", "/in/model"]},
}


def sent(draft: Draft, shown: list[str], **fields: str) -> dict[str, str]:
    """What a browser sends for this form, with `shown` as the names on the page."""
    made = {"rest": draft.rest(shown)}
    for n, name in enumerate(shown):
        kind, effect = draft.names.get(name, ("", ""))
        made |= {f"name-{n}": json.dumps(name), f"kind-{n}": kind, f"effect-{n}": effect}
    for n, row in enumerate(draft.patterns):
        made |= {f"pattern-{n}": row.pattern, f"pattern-kind-{n}": row.kind, f"pattern-effect-{n}": row.effect}
    return {**made, **{name: text.replace("\n", "\r\n") for name, text in draft.pointers.items()}, **fields}


def meaning(mapping: SourceMapping | None) -> Mapping[str, Any]:
    assert mapping is not None
    names = ("a*[b]?", "axb", "send", "sent", "ask", "look", "zoo", "other")
    return {name: (mapping.kind_of(name), mapping.effect_of(name)) for name in names} | {
        "pointers": (mapping.keys, mapping.versions, mapping.step_versions)
    }


@pytest.mark.parametrize("shown", [[], ["send"], ["send", "look", "a*[b]?", "new"]], ids=len)
def test_a_form_gives_back_what_it_was_given(shown: list[str]) -> None:
    mapping = read(BODY)
    draft = Draft.of(mapping)
    assert set(draft.names) == {"a*[b]?", "send", "look", "ask"}  # no pattern before them covers them
    again = Draft.posted(sent(draft, shown))
    assert meaning(again.mapping()) == meaning(mapping)


def test_a_name_behind_a_pattern_that_covers_it_stays_where_it_is() -> None:
    draft = Draft.of(read({"kinds": {"s*": "model", "send": "tool"}}))
    assert draft.names == {}
    made = draft.mapping()
    assert made is not None
    assert made.kind_of("send") == "model"


def test_choosing_and_taking_back_a_name() -> None:
    draft = Draft.of(read({"kinds": {"a": "model", "b": "tool"}}))
    made = Draft.posted(sent(draft, ["a", "b"], **{"kind-0": "", "effect-1": "read"})).mapping()
    assert made is not None
    assert made.body() == {"kinds": {"b": "tool"}, "effects": {"b": "read"}}


WRONG = [
    ({"pattern-0": "x*"}, "pattern", "Choose a kind or an effect."),
    ({"pattern-0": "", "pattern-kind-0": "model"}, "pattern", "Write a pattern"),
    ({"pattern-0": "x\x01", "pattern-kind-0": "model"}, "pattern", "U+0001"),
    ({"pattern-0": "x", "pattern-kind-0": "robot"}, "pattern", 'Must be model or tool, not "robot".'),
    ({"keys": "/a\nin/b"}, "keys", '"in/b" is no JSON pointer'),
    ({"versions.app": "in"}, "versions.app", "is no JSON pointer"),
    ({"step_versions.model": "/a~"}, "step_versions.model", "neither ~0"),
    ({"rest": "{"}, "", "did not arrive whole"),
    ({"rest": '{"a": 4}'}, "", "did not arrive whole"),
    ({"name-0": "4"}, "", "did not arrive whole"),
    ({"name-0": '"a"', "kind-0": "robot"}, "", "Must be model or tool"),
]


@pytest.mark.parametrize(("data", "place", "words"), WRONG)
def test_an_error_stands_at_its_field(data: dict[str, str], place: str, words: str) -> None:
    draft = Draft.posted(data)
    assert draft.mapping() is None
    told = draft.patterns[0].error if place == "pattern" else draft.errors[place]
    assert words in told
