"""Writes folded runs: rows of runs and steps that differ from those of before, and sets of versions that are new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from journals import binary
from journals.cursors import plain_cursor
from journals.store import HeadRow
from runs import rows, versions
from runs.entries import Closed
from runs.models import Run, VersionSet
from runs.safe import packed
from runs.summary import Summary

__all__ = ["Folded", "write"]


@dataclass(frozen=True, slots=True)
class Folded:
    """A run as its journal stands; `old` is its row of before."""

    head: HeadRow
    made: Summary
    closed: Closed
    old: Run | None


def write(runs: Sequence[Folded], *, fresh: bool) -> dict[int, Run]:
    """Writes what differs, in the caller's transaction, and returns the rows by run. `fresh` replaces every step's row."""
    sets = _version_sets(runs)
    _write_steps({f.head.id: rows.step_rows(f.made) for f in runs}, fresh=fresh)
    kept: dict[int, Run] = {}
    new: list[Run] = []
    changed: dict[frozenset[str], list[Run]] = {}
    for f in runs:
        columns = rows.run_columns(f.made, head=f.head, closed=f.closed, fallback_at=f.head.created_at)
        columns["versions_set_id"] = sets[f.head.id]
        run = kept[f.head.id] = f.old or Run(head_id=f.head.id, **columns)
        if f.old is None:
            new.append(run)
        elif other := frozenset(name for name, value in columns.items() if getattr(run, name) != value):
            for name in other:
                setattr(run, name, columns[name])
            changed.setdefault(other, []).append(run)
    Run.objects.bulk_create(new)
    for names, several in changed.items():
        _save(several, sorted(names))
    return kept


def _save(runs: Sequence[Run], names: Sequence[str]) -> None:
    if len(runs) == 1:
        runs[0].save(update_fields=names)
        return
    # Every row is there and none is new: in one statement, where an UPDATE would take a case for each row and column.
    Run.objects.bulk_create(runs, update_conflicts=True, unique_fields=["head"], update_fields=names)


# -- sets of versions -----------------------------------------------------------------------------------------------


def _version_sets(runs: Sequence[Folded]) -> dict[int, int | None]:
    """By run, the row of its set, made when it is new; None when the run recorded no versions."""
    bodies = {f.head.id: f.made.version_set for f in runs}
    digests = {head_id: versions.digest_of(body) for head_id, body in bodies.items() if body}
    found = {f.old.versions_set.digest: f.old.versions_set.pk for f in runs if f.old and f.old.versions_set}
    missing = set(digests.values()) - set(found)
    if missing:
        found |= _ids(missing)
    if new := missing - set(found):
        wanted = {digest: bodies[head_id] for head_id, digest in digests.items() if digest in new}
        # In one order, so that two folds that make the same sets never wait for each other.
        made = [VersionSet(digest=digest, body=packed(wanted[digest])) for digest in sorted(new)]
        VersionSet.objects.bulk_create(made, ignore_conflicts=True)
        found |= _ids(new)
    return {head_id: found[digests[head_id]] if head_id in digests else None for head_id in bodies}


def _ids(digests: set[str]) -> dict[str, int]:
    return dict(VersionSet.objects.filter(digest__in=digests).values_list("digest", "pk"))


# -- steps ----------------------------------------------------------------------------------------------------------

_COPY: Final = f"COPY runs_step (run_id, {', '.join(rows.STEP_COLUMNS)}, digest) FROM STDIN (FORMAT binary)"
_FRONT: Final = (len(rows.STEP_COLUMNS) + 2).to_bytes(2)
_PARTS: Final = 600  # of 200 rows, given to the server at once


def _write_steps(new: Mapping[int, Sequence[bytes]], *, fresh: bool) -> None:
    """Replaces the rows that differ, adds the new ones, removes those behind the last one; `fresh` replaces all."""
    old: dict[int, dict[int, int]] = {head_id: {} for head_id in new}
    with plain_cursor() as cursor:
        cursor.execute("SELECT run_id, ord, digest FROM runs_step WHERE run_id = ANY(%s)", [list(new)], binary=True)
        for head_id, place, digest in cursor.fetchall():
            old[head_id][place] = digest
        gone: list[tuple[int, int]] = []
        parts: list[bytes] = []
        for head_id, made in new.items():
            was, front = old[head_id], _FRONT + binary.int8(head_id)
            gone += [(head_id, place) for place in was if place > len(made)]
            for place, row in enumerate(made, 1):
                digest = rows.digest_of(row)
                if fresh or was.get(place) != digest:
                    parts += (front, row, binary.int8(digest))
                    if place in was:
                        gone.append((head_id, place))
        if gone:
            cursor.execute(
                "DELETE FROM runs_step s USING unnest(%s::bigint[], %s::int[]) AS t(run, place) WHERE s.run_id = t.run AND s.ord = t.place",
                [[head_id for head_id, _ in gone], [place for _, place in gone]],
            )
        if parts:
            with cursor.copy(_COPY) as copy:
                copy.write(binary.START)
                for at in range(0, len(parts), _PARTS):
                    copy.write(b"".join(parts[at : at + _PARTS]))
                copy.write(binary.END)
