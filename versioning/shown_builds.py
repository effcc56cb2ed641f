"""What differs between two builds, in words and as diffs of their texts and schemas. Pure but for the rows it is given."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from versioning import buildfile, mismatch
from versioning.mismatch import Contents, Difference, Policy
from versioning.models import Build

CONTEXT: Final = 3  # unchanged lines around a change
_WORDS: Final = re.compile(r"\s+|\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Change:
    """One difference and, where both sides have a text, its lines for components/diff.html."""

    difference: Difference
    lines: Sequence[Mapping[str, Any]]
    untold: Sequence[str] = ()  # labels of the builds that name a version here and carry no text of it


def changes(old: Build, new: Build) -> list[Change]:
    """What a run on `old` would meet on `new`, with diffs of prompts and schemas."""
    found = mismatch.assess(
        buildfile.versions_in(old.body),
        Contents(versions=buildfile.versions_in(new.body)),
        now=new.created_at,
        policy=Policy(),
    )
    return [
        Change(d, _lines(d, old.body, new.body), [side.label for side in (old, new) if _untold(d, side.body)])
        for d in found.differences
    ]


def _untold(d: Difference, body: Mapping[str, Any]) -> bool:
    part = {"prompt": "prompts", "tool": "tools"}.get(d.component, "")
    named = body.get(part, {}).get(d.name)
    if named is None:
        return False
    return named.get("text") is None if d.component == "prompt" else _schema_text(named) is None


def _lines(d: Difference, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    part = {"prompt": "prompts", "tool": "tools"}.get(d.component)
    if part is None:
        return []
    one, two = (side.get(part, {}).get(d.name, {}) for side in (old, new))
    if d.component == "prompt":
        before, after = one.get("text"), two.get("text")
    else:
        before, after = _schema_text(one), _schema_text(two)
    return [] if before is None or after is None else diff(before, after)


def diff(old: str, new: str) -> list[Mapping[str, Any]]:
    """Lines of a diff: unchanged ones beside changes, changed ones with the words that changed."""
    made: list[Mapping[str, Any]] = []
    before, after = old.splitlines(), new.splitlines()
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for block in matcher.get_grouped_opcodes(CONTEXT):
        if made:
            made.append({"op": "@", "text": "⋯"})
        for op, i1, i2, j1, j2 in block:
            if op == "equal":
                made += [{"op": "=", "text": line} for line in before[i1:i2]]
            elif op == "replace" and i2 - i1 == j2 - j1:
                for a, b in zip(before[i1:i2], after[j1:j2], strict=True):
                    made += _words(a, b)
            else:
                made += [{"op": "-", "text": line} for line in before[i1:i2]]
                made += [{"op": "+", "text": line} for line in after[j1:j2]]
    return made


def _words(old: str, new: str) -> Iterator[Mapping[str, Any]]:
    """A changed line, twice: with the words that went, and with those that came."""
    before, after = _WORDS.findall(old), _WORDS.findall(new)
    gone: list[tuple[str, str]] = []
    come: list[tuple[str, str]] = []
    for op, i1, i2, j1, j2 in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if i2 > i1:
            gone.append(("=" if op == "equal" else "-", "".join(before[i1:i2])))
        if j2 > j1:
            come.append(("=" if op == "equal" else "+", "".join(after[j1:j2])))
    yield {"op": "-", "words": gone}
    yield {"op": "+", "words": come}


def _schema_text(side: Mapping[str, Any]) -> str | None:
    shown = {name: side[name] for name in ("description", "schema") if name in side}
    return json.dumps(shown, indent=2, sort_keys=True, ensure_ascii=False) if shown else None
