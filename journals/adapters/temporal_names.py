"""What an activity is, by its name and input: a model call or a tool, what a repeat costs, and which key it sends.

The journal has no such field, so a source's mapping has the last word: `kinds` and `effects` (name patterns to `model`/`tool`,
`read`/`write`), `keys` and `versions` (JSON pointers). What the defaults do not know for sure is a tool that writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from drainboard import wire

from journals.adapters.temporal_values import dict_of

_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_MODEL_WORDS: Final = frozenset(
    ["model", "models", "llm", "llms", "gpt", "claude", "gemini", "chatgpt", "completion", "completions", "inference"]
)
_SOFT_WORDS: Final = frozenset(
    [
        "decide",
        "decision",
        "plan",
        "planner",
        "draft",
        "think",
        "reason",
        "classify",
        "summarize",
        "generate",
        "chat",
        "ask",
        "prompt",
        "agent",
    ]
)
_MODEL_INPUT: Final = frozenset(
    [
        "messages",
        "model",
        "model_name",
        "modelName",
        "system_instructions",
        "systemInstructions",
        "prompt",
        "prompt_version",
    ]
)
_KEYS: Final = ("idempotency_key", "idempotencyKey", "idempotency-key", "Idempotency-Key", "key")


def kind_of(name: str, given: Any, mapping: Mapping[str, Any]) -> str:
    """`model` or `tool`. A name with a model's word is a model; `plan` or `draft` alone only with a model's input, because
    calling a write a read would make its repeat look harmless."""
    for pattern, kind in dict_of(mapping.get("kinds")).items():
        if kind in ("model", "tool") and fnmatchcase(name, pattern):
            return str(kind)
    words = {w.lower() for w in _WORDS.findall(name)}
    if words & _MODEL_WORDS:
        return "model"
    return "model" if words & _SOFT_WORDS and any(_MODEL_INPUT & set(arg) for arg in arguments(given)) else "tool"


def effect_of(name: str, mapping: Mapping[str, Any]) -> str | None:
    """`read` or `write` where the mapping says so; None leaves it to the kind."""
    for pattern, effect in dict_of(mapping.get("effects")).items():
        if effect in wire.EFFECTS and fnmatchcase(name, pattern):
            return str(effect)
    return None


def key_of(given: Any, mapping: Mapping[str, Any]) -> str | None:
    """The idempotency key inside a step's input; None when no field is recognisable as one."""
    for pointer in pointers(mapping.get("keys")):
        found = at_pointer(given, pointer)
        if isinstance(found, str) and found:
            return found
    for arg in arguments(given):
        for field in _KEYS:
            if isinstance(arg.get(field), str) and arg[field]:
                return str(arg[field])
    return None


def input_of(values: Any) -> Any:
    """A step's `in` from its list of arguments: one argument is that value, several are `args`; MISSING when none is recorded."""
    if not isinstance(values, list):
        return wire.MISSING if values is None else values
    if len(values) == 1:
        return values[0]
    return {"args": values, "kwargs": {}} if values else wire.MISSING


def arguments(given: Any) -> Iterator[dict[str, Any]]:
    """The objects among a step's arguments."""
    if not isinstance(given, dict):
        return
    if set(given) == {"args", "kwargs"} and isinstance(given["args"], list):
        yield from (arg for arg in given["args"] if isinstance(arg, dict))
    else:
        yield given


def pointers(value: Any) -> list[str]:
    """One JSON pointer or a list of them."""
    return [p for p in (value if isinstance(value, list) else [value]) if isinstance(p, str)]


def at_pointer(value: Any, pointer: str) -> Any:
    """What RFC 6901 `pointer` names in `value`; MISSING when there is nothing."""
    for part in pointer.split("/")[1:] if pointer else []:
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isascii() and part.isdigit() and int(part[:9]) < len(value):
            value = value[int(part[:9])]
        else:
            return wire.MISSING
    return value
