"""Versions come in a build file's form or short, and steps record what they used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import drainboard
import pytest
from drainboard import Versions, wire
from drainboard.versions import tool_digest

BUILD = {
    "agent": "refund",
    "label": "41",
    "app": "a1",
    "sdk": "s1",
    "prompts": {"refund": {"version": "7", "text": "Be kind."}},
    "models": {"main": {"id": "model-1", "retires_on": "2027-01-01"}, "small": {"id": "model-0"}},
    "tools": {"pay": {"schema": {"type": "object"}, "description": "Pays"}, "look": {"sha256": "anything"}},
}
SHORT = {
    "app": "a1",
    "sdk": "s1",
    "prompt": "refund@7",
    "model": {"main": "model-1", "small": "model-0"},
    "tools": {"pay": wire.digest({"description": "Pays", "schema": {"type": "object"}}), "look": "anything"},
}


def test_reads_a_build_file_its_contents_and_the_short_form_alike(tmp_path: Path) -> None:
    path = tmp_path / "build.json"
    path.write_text(json.dumps(BUILD), encoding="utf-8")
    found = [Versions.of(given).as_json() for given in (path, str(path), BUILD, SHORT)]
    assert found[0] == found[1] == found[2] == found[3]
    assert found[0]["prompt"] == {"refund": "7"}


def test_records_what_a_step_names() -> None:
    versions = Versions.of(BUILD)
    assert versions.for_model(role="small")["model"] == {"small": "model-0"}
    assert versions.for_model()["model"] == {"main": "model-1", "small": "model-0"}
    assert versions.for_tool("pay") == {"app": "a1", "tools": {"pay": SHORT["tools"]["pay"]}, "sdk": "s1"}  # type: ignore[index]
    assert versions.for_tool("unknown") == {"app": "a1", "sdk": "s1"}


def test_takes_a_changed_description_for_a_changed_tool() -> None:
    assert tool_digest(schema={}, description="a") != tool_digest(schema={}, description="b")
    assert tool_digest(schema={"b": 1, "a": 2}) == tool_digest(schema={"a": 2, "b": 1})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (3, "versions are a int"),
        ({"promts": {}}, "no part 'promts'"),
        ({"prompts": {}, "prompt": "x"}, "both"),
        ({"app": 3}, "`app` is a int"),
        ({"tools": "x"}, "`tools` is text"),
        ({"tools": {"t": {}}}, "'t' states no version"),
        ({"models": {"m": {"id": ""}}}, "'m' states no version"),
        ({"prompts": ["x"]}, "`prompts` is a list"),
        ("/nowhere/build.json", "No such file"),
    ],
)
def test_names_what_is_wrong(given: Any, says: str) -> None:
    with pytest.raises(drainboard.BadVersions, match=says):
        Versions.of(given)


def test_names_a_prompt_that_the_build_does_not_have() -> None:
    with pytest.raises(drainboard.BadVersions, match="no prompt 'refnd'; they have refund"):
        Versions.of(BUILD).for_model(prompt="refnd")
