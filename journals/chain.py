"""One link of a run's chain, as the SQL functions `journals_link` and `journal_append` compute it. Pure.

`sha256(previous, sha256(envelope, sha256(line)))`; the envelope is position, time, epoch, actor, token and origin.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from hashlib import sha256

__all__ = ["link", "linking"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def linking(
    *, recorded_at: datetime, epoch: int, actor: str, token_id: int | None, origin: str
) -> Callable[[bytes, int, bytes], bytes]:
    """For entries that are written together: `(previous link, pos, sha256 of the line)` to the next link."""
    micros = (recorded_at - _EPOCH) // timedelta(microseconds=1)
    rest = f"|{micros}|{epoch}|{actor}|{'' if token_id is None else token_id}|{origin}".encode()

    def link(previous: bytes, pos: int, digest: bytes) -> bytes:
        return sha256(previous + sha256(b"%d" % pos + rest + digest).digest()).digest()

    return link


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
    made = linking(recorded_at=recorded_at, epoch=epoch, actor=actor, token_id=token_id, origin=origin)
    return made(previous, pos, sha256(raw).digest())
