"""A run's entries as the rules need them: the skeleton, with whole values where a rule looks inside one."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from journals import store
from journals.store import HeadRow, StoredEntry
from runs.damage import codes_of
from runs.light import changed, quick
from runs.mapped import apply
from runs.mapping import NOTHING, SourceMapping

__all__ = ["Asked", "Closed", "load", "without_collection"]

CHUNK: Final = 100  # entries read whole at once
Place = tuple[int, int]  # run and position
Closed = dict[str, Any]
"""Codes of values that the skeleton leaves out: {"until": position, "codes": {code: [positions]}}. Entries never change, so this only grows."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A run to load. `closed` is the answer of an earlier load of it; what that covers is not read again."""

    head: HeadRow
    closed: Mapping[str, Any] | None = None
    mapping: SourceMapping = NOTHING


def load(asked: Sequence[Asked]) -> dict[int, tuple[list[StoredEntry], Closed]]:
    """By run, its entries up to `head.pos`, by position, as its source's mapping has them, and what was found in large values
    of an imported run. Runs that are asked for together should be short, or one.
    """
    entries = _readable([_quick(e) for e in _skeletons([a.head for a in asked])])
    by_run: dict[int, list[StoredEntry]] = {a.head.id: [] for a in asked}
    for e in entries:
        by_run[e.head_id].append(e)
    found = _look_inside(asked, entries)
    for a in asked:
        if a.mapping and not a.head.native:
            by_run[a.head.id] = list(apply(by_run[a.head.id], a.mapping, whole=_whole_of(a.head.id)))
    return {head_id: (_marked(of_run, found[head_id]["codes"]), found[head_id]) for head_id, of_run in by_run.items()}


def _skeletons(heads: Sequence[HeadRow]) -> Iterator[StoredEntry]:
    if len(heads) == 1:  # long perhaps: read in batches
        return (e for e in store.skeleton(heads[0].id) if e.pos <= heads[0].pos)
    return store.skeletons([h.id for h in heads], until=[h.pos for h in heads])


@contextmanager
def without_collection(entries: int) -> Iterator[None]:
    """Long runs make millions of objects that all live until the end; looking for garbage among them doubles the time."""
    wanted = entries > 5_000 and gc.isenabled()
    if wanted:
        gc.disable()
    try:
        yield
    finally:
        if wanted:
            gc.enable()


def _quick(e: StoredEntry) -> StoredEntry:
    """The entry with its line decoded the quick way, where that is safe."""
    if (made := quick(e.raw)) is not None:
        e.__dict__["entry"] = made
    return e


# -- whole values ---------------------------------------------------------------------------------------------------


def _readable(entries: list[StoredEntry]) -> list[StoredEntry]:
    first = _first_of_versions(entries)
    wanted = set(first.values()) | {_place(e) for e in entries if _needs_value(e)}
    if not wanted:
        return entries
    whole = {_place(e): e for e in _whole(sorted(wanted))}
    texts = {digest: whole[place].entry.versions for digest, place in first.items()}
    return [whole.get(_place(e)) or _with_versions(e, texts) for e in entries]


def _place(e: StoredEntry) -> Place:
    return e.head_id, e.pos


def _whole(places: Sequence[Place]) -> Iterator[StoredEntry]:
    for at in range(0, len(places), CHUNK):
        yield from store.entries_of(places[at : at + CHUNK])


def _whole_of(head_id: int) -> Callable[[Sequence[int]], Iterator[StoredEntry]]:
    return lambda positions: _whole([(head_id, pos) for pos in positions])


def _cut(value: Any) -> str | None:
    """The digest of a value that the skeleton left out."""
    mark = value.get("$cut") if isinstance(value, Mapping) and len(value) == 1 else None
    return mark.get("digest") if isinstance(mark, Mapping) else None


def _holds_cut(value: Any) -> bool:
    """Whether a value or one of its fields was left out."""
    return isinstance(value, Mapping) and (_cut(value) is not None or any(_cut(v) is not None for v in value.values()))


def _first_of_versions(entries: Sequence[StoredEntry]) -> dict[str, Place]:
    """One place for each distinct `versions` that was left out."""
    first: dict[str, Place] = {}
    for e in entries:
        if e.entry.versions is not None and (digest := _cut(e.entry.versions)):
            first.setdefault(digest, _place(e))
    return first


def _with_versions(e: StoredEntry, texts: Mapping[str, Any]) -> StoredEntry:
    digest = _cut(e.entry.versions)
    return e if digest is None else changed(e, versions=texts[digest])


def _needs_value(e: StoredEntry) -> bool:
    """Whether a rule compares or reads a value that was left out: artifacts and what ran under them, failures, notes of a source."""
    if b'"$cut"' not in e.raw:
        return False
    entry = e.entry
    if entry.kind.startswith("approval."):
        return _holds_cut(entry.artifact)
    if entry.kind == "tool.started" and (entry.approval or entry.fingerprint):
        return _holds_cut(entry.in_)
    return _holds_cut(entry.error) or (entry.kind == "note" and _holds_cut(entry.out))


# -- closed values --------------------------------------------------------------------------------------------------


def _look_inside(asked: Sequence[Asked], entries: Sequence[StoredEntry]) -> dict[int, Closed]:
    """Names what is odd about values that the skeletons of imported runs left out, without keeping them."""
    found: dict[int, Closed] = {}
    seen: dict[int, int] = {}  # positions of imported runs that were looked at before
    for a in asked:
        known = a.closed or {}
        found[a.head.id] = {"until": a.head.pos, "codes": {k: list(v) for k, v in (known.get("codes") or {}).items()}}
        if not a.head.native:
            seen[a.head.id] = known.get("until", 0)
    if seen:
        wanted = [_place(e) for e in entries if b'"$cut"' in e.raw and e.head_id in seen and e.pos > seen[e.head_id]]
        for e in _whole(wanted):
            for code in codes_of(e):
                found[e.head_id]["codes"].setdefault(code, []).append(e.pos)
    return found


def _marked(entries: list[StoredEntry], codes: Mapping[str, Sequence[int]]) -> list[StoredEntry]:
    odd: dict[int, tuple[str, ...]] = {}
    for code, positions in codes.items():
        for pos in positions:
            odd[pos] = (*odd.get(pos, ()), code)
    if not odd:
        return entries
    return [changed(e, oddities=(*e.entry.oddities, *odd[e.pos])) if e.pos in odd else e for e in entries]
