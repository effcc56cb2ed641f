"""A run's entries as the rules need them: the skeleton, with whole values where a rule looks inside one."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from journals import store
from journals.store import HeadRow, StoredEntry
from runs.damage import codes_of
from runs.light import changed, quick
from runs.mapped import apply
from runs.mapping import NOTHING, SourceMapping

__all__ = ["Closed", "load", "without_collection"]

CHUNK: Final = 100  # entries read whole at once
Closed = dict[str, Any]
"""Codes of values that the skeleton leaves out: {"until": position, "codes": {code: [positions]}}. Entries never change, so this only grows."""


def load(
    head: HeadRow, *, closed: Mapping[str, Any] | None = None, mapping: SourceMapping = NOTHING
) -> tuple[list[StoredEntry], Closed]:
    """The entries up to `head.pos`, by position, as its source's mapping has them, and what was found in large values of an
    imported run.

    `closed` is the answer of an earlier load of the same run; what it covers is not read again.
    """
    entries = [_quick(e) for e in store.skeleton(head.id) if e.pos <= head.pos]
    entries = _readable(head, entries)
    found: Closed = {"until": head.pos, "codes": {k: list(v) for k, v in ((closed or {}).get("codes") or {}).items()}}
    if not head.native:
        _look_inside(head, entries, after=(closed or {}).get("until", 0), found=found)
        entries = list(apply(entries, mapping, whole=lambda positions: _whole(head.id, positions)))
    return _marked(entries, found["codes"]), found


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


def _readable(head: HeadRow, entries: list[StoredEntry]) -> list[StoredEntry]:
    first = _first_of_versions(entries)
    wanted = set(first.values()) | {e.pos for e in entries if _needs_value(e)}
    if not wanted:
        return entries
    whole = {e.pos: e for e in _whole(head.id, sorted(wanted))}
    texts = {digest: whole[pos].entry.versions for digest, pos in first.items()}
    return [whole.get(e.pos) or _with_versions(e, texts) for e in entries]


def _whole(head_id: int, positions: Sequence[int]) -> Iterator[StoredEntry]:
    for at in range(0, len(positions), CHUNK):
        yield from store.entries_at(head_id, positions[at : at + CHUNK])


def _cut(value: Any) -> str | None:
    """The digest of a value that the skeleton left out."""
    mark = value.get("$cut") if isinstance(value, Mapping) and len(value) == 1 else None
    return mark.get("digest") if isinstance(mark, Mapping) else None


def _holds_cut(value: Any) -> bool:
    """Whether a value or one of its fields was left out."""
    return isinstance(value, Mapping) and (_cut(value) is not None or any(_cut(v) is not None for v in value.values()))


def _first_of_versions(entries: Sequence[StoredEntry]) -> dict[str, int]:
    """One position for each distinct `versions` that was left out."""
    first: dict[str, int] = {}
    for e in entries:
        if e.entry.versions is not None and (digest := _cut(e.entry.versions)):
            first.setdefault(digest, e.pos)
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


def _look_inside(head: HeadRow, entries: Sequence[StoredEntry], *, after: int, found: Closed) -> None:
    """Names what is odd about values that the skeleton left out, without keeping them."""
    wanted = [e.pos for e in entries if e.pos > after and b'"$cut"' in e.raw]
    for e in _whole(head.id, wanted):
        for code in codes_of(e):
            found["codes"].setdefault(code, []).append(e.pos)


def _marked(entries: list[StoredEntry], codes: Mapping[str, Sequence[int]]) -> list[StoredEntry]:
    odd: dict[int, tuple[str, ...]] = {}
    for code, positions in codes.items():
        for pos in positions:
            odd[pos] = (*odd.get(pos, ()), code)
    if not odd:
        return entries
    return [changed(e, oddities=(*e.entry.oddities, *odd[e.pos])) if e.pos in odd else e for e in entries]
