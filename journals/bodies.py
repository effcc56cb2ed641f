"""Storing what `payloads.split` cut out."""

from __future__ import annotations

from collections.abc import Sequence

from journals import payloads
from journals.cursors import plain_cursor


def keep_payloads(splits: Sequence[payloads.Split]) -> None:
    """Stores the bodies and nodes of these lines, those that are there already excepted."""
    bodies = {d: b for s in splits for d, b in s.bodies.items()}
    nodes = {n[0]: n for s in splits for n in s.nodes}
    if not bodies and not nodes:
        return
    with plain_cursor() as cursor:
        cursor.execute(
            "SELECT journals_keep_payloads(%s::bytea[], %s::bigint[], %s::bytea[], %s::bytea[], %s::bytea[], %s::bytea[], '{}')",
            [
                list(bodies),
                [len(b) for b in bodies.values()],
                [payloads.pack(b) for b in bodies.values()],
                list(nodes),
                [n[1] for n in nodes.values()],
                [n[2] for n in nodes.values()],
            ],
        )
