"""What a recorded DBOS step is: its kind by its name, and the versions that a run or a model step names.

DBOS records no kind. A mapping of the source decides; without one, names that plainly call a model are model steps and all
others are tools, which write unless the mapping says that they read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from journals.adapters.dbos_values import Fields, text

_MODEL = re.compile(
    r"a?(?:(?:call|ask|invoke|query|prompt|run)_?(?:the_?)?(?:model|llm)|model|llm|chat_?completions?|(?:model|llm)_?(?:call|step|request|completion))"
    r"(?:_?(?:step|stream|async))?|.*__model\.request(?:_stream)?",
    re.IGNORECASE,
)

VERSION_PLACES: Mapping[str, tuple[str, ...]] = {
    "app": ("/application_version",),
    "prompt": ("/attributes/prompt_version", "/attributes/prompt", "/attributes/prompts"),
    "model": ("/attributes/model", "/attributes/models"),
    "tools": ("/attributes/tool_schema", "/attributes/tool_schemas", "/attributes/tools"),
    "sdk": ("/attributes/sdk", "/attributes/dbos_version"),
}
"""Where versions are looked for: JSON pointers into the run's row of workflow_status, its `attributes` parsed."""

STEP_PLACES: Mapping[str, tuple[str, ...]] = {"prompt": ("/prompt_version",), "tools": ("/tool_schema",)}
"""The same for the recorded result of a model step, where it can be read."""


def kind_of(name: str, mapping: Mapping[str, Any]) -> str:
    """`model` or `tool` (or what the mapping's `kinds` says: shell patterns to kinds, first match)."""
    mapped = _first(name, mapping.get("kinds"))
    if mapped:
        return mapped
    return "model" if _MODEL.fullmatch(name) else "tool"


def effect_of(name: str, mapping: Mapping[str, Any]) -> str | None:
    """`read` or `write` where the mapping's `effects` says it, else None."""
    got = _first(name, mapping.get("effects"))
    return got if got in ("read", "write") else None


def _first(name: str, patterns: object) -> str | None:
    if isinstance(patterns, Mapping):
        for pattern, value in patterns.items():
            if isinstance(pattern, str) and isinstance(value, str) and fnmatchcase(name, pattern):
                return value
    return None


def versions_of(document: Fields, mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Versions of a run, by component; a component that is nowhere named is absent."""
    return _collect(document, VERSION_PLACES, mapping.get("versions"))


def step_versions_of(out: object, mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Versions that a model step's own result names."""
    return _collect(out, STEP_PLACES, mapping.get("step_versions")) if isinstance(out, Mapping) else {}


def _collect(document: object, defaults: Mapping[str, tuple[str, ...]], mapped: object) -> dict[str, Any]:
    places = {**defaults, **(mapped if isinstance(mapped, Mapping) else {})}
    made = {}
    for component, pointers in places.items():
        found = _at_first(document, (pointers,) if isinstance(pointers, str) else pointers)
        shaped = _shaped(component, found)
        if shaped:
            made[component] = shaped
    return made


def _at_first(document: object, pointers: Iterable[object]) -> object:
    for pointer in pointers:
        found = pointed(document, pointer) if isinstance(pointer, str) else None
        if found is not None:
            return found
    return None


def _shaped(component: str, found: object) -> object:
    """A version in the journal's shape; what has no such shape is left out."""
    if component == "tools" and isinstance(found, str):
        name, at, version = found.rpartition("@")
        return {name: version} if at and name else {found: found}
    if isinstance(found, Mapping) and component in ("prompt", "model", "tools"):
        return {str(k): v for k, v in sorted(found.items()) if isinstance(v, str)}
    return found if isinstance(found, str) else None


def pointed(document: object, pointer: str) -> object:
    """The value at a JSON pointer (RFC 6901); None when there is none."""
    here = document
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(here, Mapping):
            here = here.get(key)
        elif isinstance(here, list) and key.isdecimal() and int(key) < len(here):
            here = here[int(key)]
        else:
            return None
    return here


def said_by_model(out: object) -> dict[str, Any]:
    """`model_reported` and `usage` out of a readable model result."""
    if not isinstance(out, Mapping):
        return {}
    made: dict[str, Any] = {"model_reported": text(out, "model"), "usage": out.get("usage")}
    return {k: v for k, v in made.items() if v is not None}
