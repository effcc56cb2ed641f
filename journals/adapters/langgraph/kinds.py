"""What a LangGraph step is, which versions it ran under, and what its messages tell."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from drainboard import wire

from journals.adapters.langgraph.forms import Task
from journals.adapters.langgraph.values import is_model, messages_of
from journals.adapters.names import kind_of, versions_at
from journals.adapters.values import text

VERSION_PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "app": ("/app_version", "/build", "/release", "/revision_id", "/code", "/git_sha"),
    "prompt": ("/prompt_version", "/prompts", "/prompt"),
    "model": ("/model", "/models", "/model_name"),
    "tools": ("/tool_schema", "/tool_schemas", "/tools"),
    "sdk": ("/langgraph_version",),
}
"""Where versions are looked for in a checkpoint's metadata: what the caller of the graph put into `metadata` or `configurable`."""

STEP_PLACES: Final[Mapping[str, tuple[str, ...]]] = {"prompt": ("/prompt_version",), "tools": ("/tool_schema",)}
"""The same in the `response_metadata` of a model's answer."""

_TOOL_NODES: Final = frozenset(("tools", "tool", "tool_node", "call_tools", "execute_tools", "action"))
"""Nodes that run whatever tool the model asked for: the tool's own name says more."""

_REPR: Final = re.compile(r"([A-Za-z_][\w.]*)\((.*)\)", re.DOTALL)


def said(task: Task | None) -> list[Mapping[str, Any]]:
    """The messages in a task's result, by channel."""
    if task is None or not isinstance(task.result, Mapping):
        return list(messages_of(task.result)) if task is not None and task.done else []
    return [message for value in task.result.values() for message in messages_of(value)]


def kind(name: str, task: Task | None, *, nested: bool) -> str:
    """`model`, `tool`, `child` or `value`. A task that failed once is judged by its name alone, so that its records agree."""
    if nested:
        return "child"
    if task is not None and task.done and task.error is wire.MISSING:
        types = {str(m.get("type")) for m in said(task)}
        if "tool" in types:
            return "tool"
        if types & {"ai", "AIMessageChunk"}:
            return "model"
    return kind_of(name)


def versions_of(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return versions_at(metadata, VERSION_PLACES)


def answered(messages: list[Mapping[str, Any]]) -> dict[str, Any]:
    """`model_reported`, `usage` and the versions out of the last model message."""
    message = next((m for m in reversed(messages) if is_model(m)), None)
    if message is None:
        return {}
    about = message.get("response_metadata")
    about = about if isinstance(about, Mapping) else {}
    made: dict[str, Any] = {
        "model_reported": text(about, "model_name") or text(about, "model"),
        "usage": message.get("usage_metadata"),
    }
    versions = versions_at(about, STEP_PLACES)
    return {k: v for k, v in {**made, "versions": versions or None}.items() if v is not None}


def calls_in(values: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The tool calls that stand in a state, newest message first."""
    for value in values.values():
        for message in reversed(list(messages_of(value))) if isinstance(value, list) else ():
            asked = message.get("tool_calls")
            for call in asked if isinstance(asked, list) else ():
                if isinstance(call, Mapping) and isinstance(call.get("name"), str):
                    yield call


def tool_calls(task: Task | None, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The calls that a task's tool messages answer, with the arguments that the state before it asked for."""
    made = []
    for message in said(task):
        call = message.get("tool_call_id")
        if message.get("type") != "tool" or not isinstance(call, str):
            continue
        asked = next((c for c in calls_in(values) if c.get("id") == call), None)
        made.append(
            {
                "call": call,
                "name": text(message, "name") or (asked["name"] if asked else None),
                **({"in": asked.get("args")} if asked else {}),
                **({"status": message["status"]} if message.get("status") == "error" else {}),
            }
        )
    return made


def shown_name(name: str, calls: list[dict[str, Any]]) -> str:
    """The node's name; of a node that runs any tool, the tool's own when it ran one."""
    told = calls[0]["name"] if len(calls) == 1 else None
    return told if isinstance(told, str) and name in _TOOL_NODES else name


def error_of(value: Any) -> dict[str, Any]:
    """A recorded exception; LangGraph keeps its `repr`."""
    if isinstance(value, Mapping):
        named = text(value, "type") or text(value, "error") or text(value, "name")
        said_ = text(value, "message")
        return {**({"type": named} if named else {}), "message": said_ or wire.encode(value).decode("utf-8")}
    written = value if isinstance(value, str) else wire.encode(value).decode("utf-8")
    found = _REPR.fullmatch(written)
    return {**({"type": found.group(1)} if found else {}), "message": written}
