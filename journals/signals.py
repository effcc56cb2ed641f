"""The one signal of the project: these runs have new entries. Sent on commit of whatever the server itself wrote.

A worker's appends send nothing (they are the hot path): the head's `dirty` column says the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction
from django.dispatch import Signal

entries_appended = Signal()  # head_ids: list[int]


def announce(head_ids: Sequence[int]) -> None:
    """Sends `entries_appended` when the present transaction is committed."""
    transaction.on_commit(lambda: entries_appended.send(sender=None, head_ids=list(head_ids)))
