"""A runtime's own commands: what a person types to carry out a decision that is only recorded here. Pure.

A command is a constant of its adapter, made of words. `{run}`, `{name}`, `{execution}`, `{deployment}`, `{build}`,
`{awakeable}` and `{reason}` in a word stand for the run's values, `{call}`, `{event}` and `{answer}` for those of an answered
request (`replies`); `{event:url}` is a part of an address, `{reason:json}` a text inside JSON. Each word is quoted for the shell
as a whole, whatever it holds.
"""

from __future__ import annotations

import json
import re
import shlex
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

Action = Literal["stop", "pin", "unpin", "move", "release", "approve", "reject"]
Option = tuple[str, str]
"""A flag and its value; both are left out when the value is empty."""

_FIELD = re.compile(r"\{(\w+)(?::(url|json))?\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """One command of a runtime that carries out an action on one run."""

    action: Action
    does: str  # what it does there, in a few words
    words: tuple[str | Option, ...]
    needs: str = ""  # a value without which the command is left out
    code: bool = False  # Python for the program that drives the run, no line for a shell: values are literals

    def command(self, values: Mapping[str, Any]) -> str:
        """The line to type. A value that is a word of its own and looks like an option is kept apart by `--`."""
        if self.code:
            return " ".join(_FIELD.sub(lambda m: ascii(values.get(m[1], "")), str(word)) for word in self.words)
        made: list[str] = []
        for word in self.words:
            flag, text = word if isinstance(word, tuple) else ("", word)
            filled = _FIELD.sub(lambda m: _text(values.get(m[1], ""), m[2]), text)
            if flag and not filled:
                continue
            if flag:
                made.append(flag)
            elif filled.startswith("-") and text.startswith("{"):
                made.append("--")
            made.append(quoted(filled))
        return " ".join(made)


def _text(value: Any, form: str | None) -> str:
    text = value if isinstance(value, str) and form != "json" else json.dumps(value, separators=(",", ":"))
    return quote(text, safe="", errors="surrogatepass") if form == "url" else text


def values_of(
    run: str, *, separator: str, build: str = "", reason: str = "", deployment: str = "", awakeable: str = ""
) -> dict[str, str]:
    """What a command is filled with. `separator` stands between the name that people know and the execution.

    What is not known yet is a word in capitals, for the person who types the command.
    """
    name, found, execution = run.rpartition(separator) if separator else ("", "", "")
    known = {"name": name, "execution": execution} if found else {"name": run, "execution": ""}
    return {
        "run": run,
        **known,
        "build": build or "BUILD",
        "reason": reason or "REASON",
        "deployment": deployment or "DEPLOYMENT",
        "awakeable": awakeable or "AWAKEABLE",
    }


def quoted(text: str) -> str:
    """One word for a POSIX shell. Characters that cannot be seen are escaped in `$'…'`, so that the line shows all it does."""
    if all(c == " " or unicodedata.category(c)[0] not in "CZ" for c in text):
        return shlex.quote(text)
    return "$'" + "".join(_escaped(c) for c in text) + "'"


def _escaped(c: str) -> str:
    if c in "\\'":
        return "\\" + c
    if c == " " or unicodedata.category(c)[0] not in "CZ":
        return c
    if "\ud800" <= c <= "\udfff":
        return "".join(f"\\x{b:02x}" for b in c.encode("utf-8", "surrogatepass"))
    return f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}"
