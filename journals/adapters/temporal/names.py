"""What an activity is, by its name and input: a model call or a tool, and which key it sends.

The journal has no such field. These are defaults; what they do not know for sure is a tool that writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from drainboard import wire

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


def kind_of(name: str, given: Any) -> str:
    """`model` or `tool`. A name with a model's word is a model; `plan` or `draft` alone only with a model's input, because
    calling a write a read would make its repeat look harmless."""
    words = {w.lower() for w in _WORDS.findall(name)}
    if words & _MODEL_WORDS:
        return "model"
    return "model" if words & _SOFT_WORDS and any(_MODEL_INPUT & set(arg) for arg in arguments(given)) else "tool"


def key_of(given: Any) -> str | None:
    """The idempotency key inside a step's input; None when no field is recognisable as one."""
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
