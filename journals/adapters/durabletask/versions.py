"""The versions that a Durable Task run or one of its steps names. The instance's version is fixed for its life; prompt, model and
tool versions are the application's own tags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from journals.adapters.names import versions_at
from journals.adapters.values import text

_RUN: Final[Mapping[str, tuple[str, ...]]] = {
    "app": ("/version",),
    "prompt": ("/tags/prompt_version", "/tags/prompt", "/in/prompt_version"),
    "model": ("/tags/model", "/in/model"),
    "tools": ("/tags/tool_schema", "/tags/tools"),
    "sdk": ("/tags/sdk",),
}
_STEP: Final[Mapping[str, tuple[str, ...]]] = {
    "prompt": ("/tags/prompt_version", "/tags/prompt", "/in/prompt_version"),
    "model": ("/tags/model", "/in/model"),
}
_OUT: Final[Mapping[str, tuple[str, ...]]] = {"prompt": ("/prompt_version",), "tools": ("/tool_schema",)}
_TOOL: Final = "tool_schema."


def versions_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """Versions of a run; `document` has `version`, `tags` and `in`. What is nowhere named is absent."""
    return _with_tools(versions_at(document, _RUN), document["tags"])


def step_versions_of(kind: str, name: str, tags: Mapping[str, Any], given: Any) -> dict[str, Any]:
    """Versions that a step's tags, or a model call's input, name. A tool's `tool_schema` is that tool's own."""
    document = {"tags": tags, "in": given if kind == "model" and isinstance(given, Mapping) else None}
    made = _with_tools(versions_at(document, _STEP), tags)
    own = text(tags, "tool_schema")
    return {**made, "tools": {name: own}} if own and kind == "tool" else made


def _with_tools(made: dict[str, Any], tags: Mapping[str, Any]) -> dict[str, Any]:
    tools = {k.removeprefix(_TOOL): v for k, v in sorted(tags.items()) if k.startswith(_TOOL) and isinstance(v, str)}
    return {**made, "tools": tools} if tools else made


def said_by_model(out: Any) -> dict[str, Any]:
    """`versions`, `model_reported` and `usage` out of a model's readable answer."""
    if not isinstance(out, Mapping):
        return {}
    versions = versions_at(out, _OUT)
    return {"versions": versions or None, "model_reported": text(out, "model"), "usage": out.get("usage")}
