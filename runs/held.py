"""Which records a later export of a run no longer has: the `held` of its `runtime.state` notes, compared. Pure.

Exports of one form list the same kinds of records. Of two such exports that both hold the whole journal of their time, the
newer one lacks a record of the older one only when somebody took it away: a rewind, a reset in place, a repair by hand.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from runs.facts import STATE_NOTE, Seen, newness

__all__ = ["Held", "Rewritten", "ranges_of", "rewritten"]

_RANGES: Final = re.compile(r"(?:\d{1,18}(?:-\d{1,18})?(?:,\d{1,18}(?:-\d{1,18})?)*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Held:
    """The records of a run that one export held."""

    form: str
    starts: Sequence[int]  # of the ranges of `seq`, ascending
    ends: Sequence[int]
    ids: frozenset[str] | None  # entry ids instead of ranges
    at: int  # our position of the note

    def has(self, seen: Seen) -> bool:
        if self.ids is not None:
            return seen.entry_id in self.ids
        if seen.seq is None:
            return False
        i = bisect_right(self.starts, seen.seq) - 1
        return i >= 0 and seen.seq <= self.ends[i]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What later exports lack. `gone`: positions that the newest export of their form lacks as well; `entries`: all that one lacked."""

    entries: Sequence[Seen] = ()
    gone: frozenset[int] = frozenset()
    notes: Sequence[tuple[int, int]] = field(default=())  # positions of the two notes that were compared


def rewritten(entries: Sequence[Seen]) -> Rewritten:
    """Compares what the exports of one form held, in the order in which they were true."""
    forms: dict[str, list[Held]] = {}
    for note in sorted(_notes(entries), key=newness):
        if (held := _held(note)) is not None:
            forms.setdefault(held.form, []).append(held)
    lost: dict[int, Seen] = {}
    gone: set[int] = set()
    pairs: list[tuple[int, int]] = []
    records = [s for s in entries if s.origin == "import" and not _is_state(s)] if forms else []
    for exports in forms.values():
        for older, newer in pairwise(exports):
            lacking = [s for s in records if older.has(s) and not newer.has(s)]
            lost.update({s.pos: s for s in lacking})
            if lacking:
                pairs.append((older.at, newer.at))
        newest = exports[-1]
        gone.update(s.pos for s in lost.values() if not newest.has(s) and any(e.has(s) for e in exports))
    return Rewritten(sorted(lost.values(), key=lambda s: (s.number, s.pos)), frozenset(gone), pairs)


def _notes(entries: Sequence[Seen]) -> Iterator[Seen]:
    return (s for s in entries if _is_state(s) and s.origin == "import")


def _is_state(seen: Seen) -> bool:
    return seen.entry.kind == "note" and seen.entry.name == STATE_NOTE


def _held(note: Seen) -> Held | None:
    """What the export held; None when it does not say, or was not whole: such a one proves nothing by what it lacks."""
    out = note.entry.out
    told = out.get("held") if isinstance(out, Mapping) else None
    if not isinstance(told, Mapping) or told.get("whole") is not True or not isinstance(told.get("form"), str):
        return None
    ids = told.get("ids")
    if isinstance(ids, list):
        return Held(told["form"], (), (), frozenset(i for i in ids if isinstance(i, str)), note.pos)
    ranges = ranges_of(told.get("seqs"))
    if ranges is None:
        return None
    return Held(told["form"], [first for first, _ in ranges], [last for _, last in ranges], None, note.pos)


def ranges_of(told: Any) -> list[tuple[int, int]] | None:
    """`1-16,18` as pairs in ascending order, empty for an empty text; None for anything else."""
    if not isinstance(told, str) or not _RANGES.fullmatch(told):
        return None
    pairs = [part.partition("-") for part in told.split(",") if part]
    made = sorted((int(first), int(last or first)) for first, _, last in pairs)
    merged: list[tuple[int, int]] = []
    for first, last in made:
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged
