"""The versions that a DBOS run or a model step names, and where its exports name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from journals.adapters.names import versions_at
from journals.adapters.values import Fields, text

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


def versions_of(document: Fields) -> dict[str, Any]:
    """Versions of a run, by component; a component that is nowhere named is absent."""
    return versions_at(document, VERSION_PLACES)


def step_versions_of(out: object) -> dict[str, Any]:
    """Versions that a model step's own result names."""
    return versions_at(out, STEP_PLACES) if isinstance(out, Mapping) else {}


def said_by_model(out: object) -> dict[str, Any]:
    """`model_reported` and `usage` out of a readable model result."""
    if not isinstance(out, Mapping):
        return {}
    made: dict[str, Any] = {"model_reported": text(out, "model"), "usage": out.get("usage")}
    return {k: v for k, v in made.items() if v is not None}
