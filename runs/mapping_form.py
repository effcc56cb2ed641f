"""The form of a source's mapping: names with their own kind and effect, then patterns, then pointers, one a line. Pure.

A page of the form shows some of the names; those that it does not show travel in the field `rest`, so that nothing that was
chosen is lost on the way from page to page.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from runs.mapping import BadMapping, SourceMapping, Words, checked, exactly, only_name, read
from runs.versions import COMPONENTS

__all__ = ["SPARE", "Draft", "Pattern"]

SPARE: Final = 3  # empty rows for patterns
_ROWS: Final = 3_000  # that a form may have
_PARTS: Final = ("versions", "step_versions")


@dataclass(slots=True)
class Pattern:
    """One row of patterns."""

    pattern: str = ""
    kind: str = ""
    effect: str = ""
    error: str = ""

    @property
    def blank(self) -> bool:
        return not (self.pattern or self.kind or self.effect)


@dataclass(slots=True)
class Draft:
    """A mapping as the form holds it, whether it can be used or not."""

    names: dict[str, tuple[str, str]] = field(default_factory=dict)  # name -> kind, effect; "": as recorded
    patterns: list[Pattern] = field(default_factory=list)
    pointers: dict[str, str] = field(default_factory=dict)  # keys, versions.app … -> pointers, one a line
    errors: dict[str, str] = field(default_factory=dict)  # the same names, and "" for the form as a whole

    @classmethod
    def of(cls, mapping: SourceMapping) -> Draft:
        """The form of a mapping. Patterns of one name each become rows of names, if no pattern before them covers the name."""
        made = cls()
        rows: list[Pattern] = []
        at = 0
        for pairs, part in ((mapping.kinds, 0), (mapping.effects, 1)):
            at = 0
            wide: list[str] = []
            for pattern, value in pairs:
                name = only_name(pattern)
                if name is not None and Words(tuple((w, "") for w in wide)).of(name) is None:
                    kind, effect = made.names.get(name, ("", ""))
                    made.names[name] = (value, effect) if part == 0 else (kind, value)
                    continue
                wide.append(pattern)
                at = _placed(rows, at, pattern, value, part)
        made.patterns = rows
        made.pointers = {"keys": "\n".join(mapping.keys)}
        for word in _PARTS:
            for component, pointers in getattr(mapping, word).items():
                made.pointers[f"{word}.{component}"] = "\n".join(pointers)
        return made

    @classmethod
    def posted(cls, data: Mapping[str, Any]) -> Draft:
        """The form as it was sent. What no form of ours sends is named in `errors`."""
        made = cls()
        try:
            made._take_names(data)
        except (ValueError, TypeError, RecursionError):
            made.errors[""] = "The form did not arrive whole. Open the page again; nothing was changed."
        for n in range(_ROWS):
            if f"pattern-{n}" not in data:
                break
            row = Pattern(data[f"pattern-{n}"], data.get(f"pattern-kind-{n}", ""), data.get(f"pattern-effect-{n}", ""))
            if not row.blank:
                made.patterns.append(row)
        for word in ("keys", *(f"{p}.{c}" for p in _PARTS for c in COMPONENTS)):
            made.pointers[word] = str(data.get(word, ""))
        return made

    def _take_names(self, data: Mapping[str, Any]) -> None:
        rest = json.loads(data.get("rest", "{}"))
        for name, (kind, effect) in rest.items():
            self.names[name] = (str(kind), str(effect))
        for n in range(_ROWS):
            if f"name-{n}" not in data:
                break
            name = json.loads(data[f"name-{n}"])
            if not isinstance(name, str):
                raise TypeError("a name is text")
            chosen = data.get(f"kind-{n}", ""), data.get(f"effect-{n}", "")
            if any(chosen):
                self.names[name] = chosen
            else:
                self.names.pop(name, None)

    def rest(self, shown: Sequence[str]) -> str:
        """The chosen names that a page does not show, for its field `rest`."""
        return json.dumps({name: chosen for name, chosen in self.names.items() if name not in set(shown)})

    def mapping(self) -> SourceMapping | None:
        """The mapping; None, with `errors` filled, when it is none."""
        for row in self.patterns:
            if row.pattern and not (row.kind or row.effect):
                row.error = "Choose a kind or an effect."
            elif not row.pattern:
                row.error = "Write a pattern, such as lookup_*."
        if any(row.error for row in self.patterns) or self.errors:
            return None
        try:
            return checked(read(self._body()))
        except BadMapping as e:
            self._blame(e)
            return None

    def _body(self) -> dict[str, Any]:
        made: dict[str, Any] = {"kinds": {}, "effects": {}, "versions": {}, "step_versions": {}}
        chosen = [(exactly(name), kind, effect) for name, (kind, effect) in self.names.items()]
        for pattern, kind, effect in [*chosen, *((r.pattern, r.kind, r.effect) for r in self.patterns)]:
            for part, value in (("kinds", kind), ("effects", effect)):
                if value:
                    made[part].setdefault(pattern, value)  # the first one wins
        made["keys"] = _lines(self.pointers.get("keys", ""))
        for word in _PARTS:
            for component in COMPONENTS:
                if pointers := _lines(self.pointers.get(f"{word}.{component}", "")):
                    made[word][component] = pointers
        return made

    def _blame(self, e: BadMapping) -> None:
        """Puts the error to the field that it is about."""
        parts = [p.replace("~1", "/").replace("~0", "~") for p in e.path.split("/")[1:]]
        reason = f"{e.reason[:1].upper()}{e.reason[1:]}."
        row = next((r for r in self.patterns if len(parts) == 2 and r.pattern[:80] == parts[1]), None)
        if parts[:1] in (["kinds"], ["effects"]) and row is not None:
            row.error = reason
        elif parts[:1] == ["keys"]:
            self.errors["keys"] = reason
        elif len(parts) >= 2 and parts[0] in _PARTS:
            self.errors[f"{parts[0]}.{parts[1]}"] = reason
        else:
            self.errors[""] = f"{e.path}: {reason}"


def _placed(rows: list[Pattern], at: int, pattern: str, value: str, part: int) -> int:
    """Puts a pattern's kind (0) or effect (1) into the rows, behind `at`, so that the order of each part stays; where it stands."""
    for n in range(at, len(rows)):
        row = rows[n]
        if row.pattern == pattern and not (row.kind, row.effect)[part]:
            break
    else:
        rows.append(Pattern(pattern))
        n = len(rows) - 1
    if part == 0:
        rows[n].kind = value
    else:
        rows[n].effect = value
    return n + 1


def _lines(text: str) -> list[str]:
    return [line for line in text.replace("\r", "").split("\n") if line]
