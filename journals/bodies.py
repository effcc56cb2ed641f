"""Storing what `payloads.split` cut out."""

from __future__ import annotations

from collections.abc import Sequence

from journals import payloads
from journals.cursors import plain_cursor


def columns(splits: Sequence[payloads.Split]) -> list[list[object]]:
    """What `journals_keep_payloads` takes of these lines: digests, sizes and packed bodies; nodes, their parents and items. Each once."""
    bodies = {d: b for s in splits for d, b in s.bodies.items()}
    nodes = {n[0]: n for s in splits for n in s.nodes}
    return [
        list(bodies),
        [len(b) for b in bodies.values()],
        [payloads.pack(b) for b in bodies.values()],
        list(nodes),
        [n[1] for n in nodes.values()],
        [n[2] for n in nodes.values()],
    ]


def keep_payloads(splits: Sequence[payloads.Split]) -> None:
    """Stores the bodies and nodes of these lines, those that are there already excepted."""
    found = columns(splits)
    if not any(found):
        return
    with plain_cursor() as cursor:
        cursor.execute(
            "SELECT journals_keep_payloads(%s::bytea[], %s::bigint[], %s::bytea[], %s::bytea[], %s::bytea[], %s::bytea[], '{}')",
            found,
        )
