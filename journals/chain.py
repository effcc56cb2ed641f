"""One link of a run's chain, as the SQL functions `journals_link` and `journal_append` compute it. Pure.

`sha256(previous, sha256(envelope, sha256(line)))`; the envelope is position, time, epoch, actor, token and origin.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def link(
    previous: bytes,
    *,
    pos: int,
    recorded_at: datetime,
    epoch: int,
    actor: str,
    token_id: int | None,
    origin: str,
    raw: bytes,
) -> bytes:
    """The link of the entry with this exact line, after `previous` (empty for the first)."""
    micros = (recorded_at - _EPOCH) // timedelta(microseconds=1)
    envelope = f"{pos}|{micros}|{epoch}|{actor}|{'' if token_id is None else token_id}|{origin}"
    inner = hashlib.sha256(envelope.encode() + hashlib.sha256(raw).digest()).digest()
    return hashlib.sha256(previous + inner).digest()
