"""What a source's steps are, as its people say it: which names are model calls or tools, what a repeat costs, where keys and
versions stand. `runs.mapped` applies it when a run is folded; the journal itself never changes. Pure.

    {"kinds": {"ask_*": "model"}, "effects": {"lookup_*": "read"}, "keys": ["/in/0/idempotency_key"],
     "versions": {"app": "/in/build"}, "step_versions": {"model": "/out/model"}}

Names are shell patterns (`*`, `?`, `[ab]`), the first match wins. Pointers are JSON pointers (RFC 6901) into the journal line as
the Raw tab shows it: `keys` into the lines of a step, `versions` into `run.started`, `step_versions` into the lines of model
steps. Of several pointers the first that finds something wins.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from typing import Any, Final

from drainboard import wire

from runs.versions import COMPONENTS

__all__ = [
    "EFFECTS",
    "KINDS",
    "NOTHING",
    "BadMapping",
    "SourceMapping",
    "Words",
    "checked",
    "exactly",
    "only_name",
    "read",
    "read_text",
]

KINDS: Final = ("model", "tool")
EFFECTS: Final = wire.EFFECTS
PATTERNS: Final = 2_000  # of kinds, and of effects
WIDE: Final = 200  # of these, that match more than one name: each is tried on every name
POINTERS: Final = 20  # of one component, and of keys
LONGEST: Final = 500  # characters of a pattern or pointer
SIZE: Final = 512 << 10  # bytes of a mapping's JSON

Pairs = tuple[tuple[str, str], ...]


class BadMapping(ValueError):
    """The mapping cannot be used. `path` is the JSON pointer of what is wrong in it, `reason` a sentence without its end."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path or 'the mapping'}: {reason}")
        self.path, self.reason = path, reason


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceMapping:
    """One source's mapping, checked."""

    kinds: Pairs = ()  # (pattern, model | tool)
    effects: Pairs = ()  # (pattern, read | write)
    keys: tuple[str, ...] = ()  # pointers
    versions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # component -> pointers
    step_versions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.kinds or self.effects or self.keys or self.versions or self.step_versions)

    def body(self) -> dict[str, Any]:
        """The mapping as JSON, in the order in which it is tried; what is empty is absent."""
        made: dict[str, Any] = {
            "kinds": dict(self.kinds),
            "effects": dict(self.effects),
            "keys": list(self.keys),
            "versions": {c: list(p) for c, p in self.versions.items()},
            "step_versions": {c: list(p) for c, p in self.step_versions.items()},
        }
        return {name: value for name, value in made.items() if value}

    def text(self) -> str:
        """The mapping as it is stored: JSON text, because the order of patterns counts."""
        return wire.dump(self.body()).decode("utf-8")

    def kind_of(self, name: str) -> str | None:
        return Words(self.kinds).of(name)

    def effect_of(self, name: str) -> str | None:
        return Words(self.effects).of(name)


NOTHING: Final = SourceMapping()


def exactly(name: str) -> str:
    """The pattern that matches this name; characters that no pattern may hold are matched by any one character."""
    return "".join("?" if _unshown(c) else f"[{c}]" if c in "*?[" else c for c in name)


_ESCAPED: Final = re.compile(r"\[([*?[])\]")


def only_name(pattern: str) -> str | None:
    """The one name that a pattern was made for by `exactly`; None for any other pattern."""
    name = _ESCAPED.sub(lambda m: m[1], pattern)
    return name if exactly(name) == pattern else None


_BRACKETS: Final = re.compile(r"\[!?+\]?+[^\]]*\]")  # what a shell pattern takes for one of these characters


class Words:
    """What patterns say of names, the first match first. Patterns of one name are looked up, so that thousands cost nothing."""

    def __init__(self, pairs: Pairs) -> None:
        self._single: dict[str, tuple[int, str]] = {}
        self._wide: list[tuple[int, Callable[[str], object], str]] = []
        for n, (pattern, value) in enumerate(pairs):
            name = only_name(pattern)
            if name is None:
                self._wide.append((n, re.compile(translate(pattern)).match, value))
            else:
                self._single.setdefault(name, (n, value))

    def of(self, name: str) -> str | None:
        """The value of the first pattern that matches; None when none does."""
        own = self._single.get(name)
        for n, matches, value in self._wide:
            if own is not None and n > own[0]:
                break
            if matches(name):
                return value
        return own[1] if own is not None else None


# -- reading ------------------------------------------------------------------------------------------------------------


def read_text(text: str | bytes) -> SourceMapping:
    """The mapping that this JSON text holds. Raises `BadMapping`."""
    if len(text) > SIZE:
        raise BadMapping("", f"it has {len(text):,} bytes, the limit is {SIZE:,}")
    try:
        body = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as e:
        if isinstance(e, BadMapping):
            raise
        raise BadMapping("", f"it is not JSON ({e})") from None
    return read(body)


def checked(made: SourceMapping) -> SourceMapping:
    """A mapping that somebody gives now. Raises `BadMapping` for what stored ones may hold and nobody means: `[` without its end."""
    for part, pairs in (("kinds", made.kinds), ("effects", made.effects)):
        for pattern, _ in pairs:
            if "[" in _BRACKETS.sub("", pattern):
                reason = f"{_told(pattern)} opens a [ that no ] closes; [[] stands for the character itself"
                raise BadMapping(f"/{part}/{_escaped(pattern)}", reason)
    return made


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, value in pairs:
        if name in made:
            raise BadMapping(f"/{_escaped(name)}", "stands twice")
        made[name] = value
    return made


def read(body: Any) -> SourceMapping:
    """The mapping that this value is. Raises `BadMapping`; unknown fields are refused."""
    if not isinstance(body, Mapping):
        raise BadMapping("", f"must be an object, not {_type(body)}")
    known = ("kinds", "effects", "keys", "versions", "step_versions")
    for name in body:
        if name not in known:
            raise BadMapping(f"/{_escaped(str(name))}", f"is not a field of a mapping; those are {', '.join(known)}")
    return SourceMapping(
        kinds=_patterns(body, "kinds", KINDS),
        effects=_patterns(body, "effects", EFFECTS),
        keys=_pointers(body.get("keys", []), "/keys"),
        versions=_components(body, "versions"),
        step_versions=_components(body, "step_versions"),
    )


def _patterns(body: Mapping[str, Any], name: str, words: Sequence[str]) -> Pairs:
    given = _object(body, name)
    if len(given) > PATTERNS:
        raise BadMapping(f"/{name}", f"has {len(given):,} patterns, the limit is {PATTERNS:,}")
    wide = sum(only_name(pattern) is None for pattern in given)
    if wide > WIDE:
        raise BadMapping(f"/{name}", f"has {wide:,} patterns with *, ? or [, the limit is {WIDE}")
    for pattern, value in given.items():
        path = f"/{name}/{_escaped(pattern)}"
        if not pattern:
            raise BadMapping(path, "an empty pattern matches no name")
        _printable(pattern, path, "a pattern", "write ? in its place")
        if value not in words:
            raise BadMapping(path, f"must be {' or '.join(words)}, not {_told(value)}")
    return tuple(given.items())


def _components(body: Mapping[str, Any], name: str) -> dict[str, tuple[str, ...]]:
    given = _object(body, name)
    for component in given:
        if component not in COMPONENTS:
            raise BadMapping(f"/{name}/{_escaped(component)}", f"is no component; those are {', '.join(COMPONENTS)}")
    found = {c: _pointers(given[c], f"/{name}/{c}") for c in COMPONENTS if c in given}
    return {c: pointers for c, pointers in found.items() if pointers}


def _pointers(given: Any, path: str) -> tuple[str, ...]:
    items = given if isinstance(given, list) else [given]
    if len(items) > POINTERS:
        raise BadMapping(path, f"has {len(items)} pointers, the limit is {POINTERS}")
    for n, pointer in enumerate(items):
        here = f"{path}/{n}" if isinstance(given, list) else path
        if not isinstance(pointer, str):
            raise BadMapping(here, f"must be a JSON pointer, not {_type(pointer)}")
        if not pointer.startswith("/") or pointer == "/":
            raise BadMapping(
                here, f"{_told(pointer)} is no JSON pointer; one begins with / and a field, as in /in/build"
            )
        if re.search(r"~(?![01])", pointer):
            raise BadMapping(here, f"{_told(pointer)} holds a ~ that is neither ~0 (for ~) nor ~1 (for /)")
        _printable(pointer, here, "a pointer", "it can point at no such name")
    return tuple(dict.fromkeys(items))


def _object(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    given = body.get(name, {})
    if not isinstance(given, Mapping):
        raise BadMapping(f"/{name}", f"must be an object, not {_type(given)}")
    return given


def _printable(text: str, path: str, what: str, instead: str) -> None:
    if len(text) > LONGEST:
        raise BadMapping(path, f"{what} of {len(text):,} characters, the limit is {LONGEST}")
    odd = next((c for c in text if _unshown(c)), None)
    if odd is not None:
        raise BadMapping(path, f"{what} cannot hold the control character U+{ord(odd):04X}; {instead}")


def _unshown(c: str) -> bool:
    """Characters that a form does not give back as they were."""
    return unicodedata.category(c) in ("Cc", "Cs")


def _escaped(name: str) -> str:
    return name[:80].replace("~", "~0").replace("/", "~1")


def _told(value: Any) -> str:
    return json.dumps(value)[:80] if isinstance(value, (str, int, float, bool)) else _type(value)


def _type(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}
    return "null" if value is None else names.get(type(value), type(value).__name__)
