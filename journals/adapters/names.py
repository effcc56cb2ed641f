"""What a recorded step is, by its name: a model call or a tool, what a repeat costs, which key it sends, which versions it ran under.

Runtimes record no kind. These are defaults: a source's mapping (`runs.mapping`) has the last word when its runs are folded. What
the defaults do not know for sure is a tool that writes, because calling a write a read would make its repeat look harmless.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

KINDS: Final = ("model", "tool", "value", "timer", "child")
"""What a step may be called. `value` is a recorded clock, id or random number."""

LIBRARIES: Final[tuple[tuple[str, str, str], ...]] = (
    ("Model call", "model", "pydantic-ai on Restate"),
    ("Model stream call", "model", "pydantic-ai on Restate"),
    ("Calling mcp tool *", "tool", "pydantic-ai on Restate"),
    ("Calling *", "tool", "pydantic-ai on Restate"),
    ("get mcp tools", "tool", "pydantic-ai on Restate"),
    ("call LLM", "model", "openai-agents on Restate"),
    ("*__model.request", "model", "pydantic-ai on DBOS"),
    ("*__model.request_stream", "model", "pydantic-ai on DBOS"),
    ("*__mcp_server__*.call_tool", "tool", "pydantic-ai on DBOS"),
    ("*__mcp_server__*.get_tools", "tool", "pydantic-ai on DBOS"),
    ("agent__*__model_request", "model", "pydantic-ai on Temporal"),
    ("agent__*__model_request_stream", "model", "pydantic-ai on Temporal"),
    ("agent__*__call_tool", "tool", "pydantic-ai on Temporal"),
    ("agent__*__get_tools", "tool", "pydantic-ai on Temporal"),
    ("invoke_model_activity", "model", "openai-agents on Temporal"),
    ("invoke_model_activity_streaming", "model", "openai-agents on Temporal"),
    ("Model Request: *", "model", "pydantic-ai on Prefect"),
    ("Call MCP Tool: *", "tool", "pydantic-ai on Prefect"),
    ("Call Tool: *", "tool", "pydantic-ai on Prefect"),
    ("Discover Tools: *", "tool", "pydantic-ai on Prefect"),
)
"""Names that agent libraries give to steps (shell pattern, kind, library), seen in captures and live objects of 2026."""

_READS: Final = ("get mcp tools", "*__mcp_server__*.get_tools", "agent__*__get_tools", "Discover Tools: *")
"""Tools of libraries that only list what there is."""

_MODEL: Final = re.compile(
    r"a?(?:(?:call|ask|invoke|query|prompt|run)[ _-]?(?:the[ _-]?)?(?:model|llm)|model|llm|chat[ _-]?completions?"
    r"|(?:model|llm)[ _-]?(?:call|step|turn|request|completion|stream call)s?)(?:[ _-]?(?:step|stream|streaming|async|activity))?(?:[ _#-]*\d+)?",
    re.IGNORECASE,
)
_KEYS: Final = ("idempotency_key", "idempotencyKey", "idempotency-key", "Idempotency-Key", "key")


def kind_of(name: str) -> str:
    """`model` or `tool`: what a library's name says, else `model` for a name that plainly calls a model, else `tool`."""
    for pattern, kind, _ in LIBRARIES:
        if fnmatchcase(name, pattern):
            return kind
    return "model" if _MODEL.fullmatch(name) else "tool"


def effect_of(name: str) -> str | None:
    """`read` where a library says so; None leaves it to the kind."""
    return "read" if any(fnmatchcase(name, pattern) for pattern in _READS) else None


def said(name: str, kind: str | None = None) -> dict[str, str]:
    """`kind`, and `effect` where it is known, of a step that `runtime.state` names; `kind` where the adapter knows better."""
    effect = effect_of(name)
    return {"kind": kind or kind_of(name), **({"effect": effect} if effect else {})}


def key_of(given: Any) -> str | None:
    """The idempotency key inside a step's input: a field that is named as one."""
    for argument in _arguments(given):
        for field in _KEYS:
            if isinstance(argument.get(field), str) and argument[field]:
                return str(argument[field])
    return None


def versions_at(document: Any, places: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """Versions by component (`app`, `prompt`, `model`, `tools`, `sdk`), each from the first of its JSON pointers that finds one in
    `document`. What is nowhere named is absent."""
    made: dict[str, Any] = {}
    for component, pointers in places.items():
        shapes = (version_shape(component, pointed(document, pointer)) for pointer in pointers)
        if shaped := next((s for s in shapes if s), None):
            made[component] = shaped
    return made


def version_shape(component: str, found: Any) -> Any:
    """A version in the journal's shape (text, or a map of names to texts); None for what has no such shape."""
    if component == "tools" and isinstance(found, str) and found:
        name, at, version = found.rpartition("@")
        return {name: version} if at and name else {found: found}
    if isinstance(found, Mapping) and component in ("prompt", "model", "tools"):
        return {str(k): v for k, v in sorted(found.items()) if isinstance(v, str)}
    return found if isinstance(found, str) else None


def pointed(document: Any, pointer: str) -> Any:
    """The value at a JSON pointer (RFC 6901); None when there is none."""
    here = document
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(here, Mapping):
            here = here.get(key)
        elif isinstance(here, list) and key.isascii() and key.isdigit() and int(key[:9]) < len(here):
            here = here[int(key[:9])]
        else:
            return None
    return here


def _arguments(given: Any) -> Iterator[Mapping[str, Any]]:
    """The objects among a step's arguments."""
    values: Iterable[Any] = (given,)
    if isinstance(given, list):
        values = given
    elif isinstance(given, Mapping) and set(given) == {"args", "kwargs"} and isinstance(given["args"], list):
        values = [*given["args"], given["kwargs"]]
    yield from (v for v in values if isinstance(v, Mapping))
