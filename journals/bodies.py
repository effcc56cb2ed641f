"""Storing what `payloads.split` cut out."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction

from journals import payloads
from journals.binary import array, know_arrays
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


def keep_payloads(splits: Sequence[payloads.Split], *, stored: payloads.Known | None = None) -> None:
    """Stores the bodies and nodes of these lines, those that are there already excepted.

    `stored` holds digests that are known to be committed: they are not sent again, and what is sent is added once it is
    committed.
    """
    known = stored if stored is not None else payloads.Known(0)
    bodies = {d: b for s in splits for d, b in s.bodies.items() if d not in known}
    nodes = {n[0]: n for s in splits for n in s.nodes if n[0] not in known}
    if not bodies and not nodes:
        return
    with plain_cursor() as cursor:
        know_arrays(cursor)
        cursor.execute(
            "SELECT journals_keep_payloads(%s, %s::bigint[], %s, %s, %s, %s, '{}')",
            [
                array(list(bodies)), [len(b) for b in bodies.values()], array([payloads.pack(b) for b in bodies.values()]),
                array(list(nodes)), array([n[1] for n in nodes.values()]), array([n[2] for n in nodes.values()]),
            ],
        )  # fmt: skip
    if stored is not None:
        transaction.on_commit(lambda: stored.add([*bodies, *nodes]))
