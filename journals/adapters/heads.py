"""The few fields by which a journal line is filed: a quick look that never disagrees with `wire.parse`."""

from __future__ import annotations

import msgspec
from drainboard import wire

__all__ = ["LineHead", "head_of"]


class LineHead(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of `wire.Entry` under the same names; `oddities` as `wire.parse` names them."""

    run: str
    kind: str
    id: str | None = None
    seq: int | None = None
    branch: str | None = ""
    step: int | None = None
    attempt: int | None = 1
    name: str | None = None
    agent: str | None = None
    environment: str | None = None
    oddities: tuple[str, ...] = ()


class _Quick(msgspec.Struct):
    run: str
    kind: str
    id: str | None = None
    seq: int | None = None
    branch: str | None = ""
    step: int | None = None
    attempt: int | None = 1
    name: str | None = None
    agent: str | None = None
    environment: str | None = None


_quick = msgspec.json.Decoder(_Quick).decode


def head_of(raw: bytes) -> LineHead:
    """The head of one line. Raises `wire.MalformedLine` just where `wire.parse` does.

    Standard JSON takes the quick way (about 2 µs); whatever that refuses or cannot judge is parsed in full. Repeated keys are
    not looked for here.
    """
    if len(raw) > 4 * wire.MAX_KEYS and raw.count(b":") > wire.MAX_KEYS:  # too wide, perhaps: refused or kept as text
        return _slow(raw)
    try:
        raw.decode("utf-8")
        q = _quick(raw)
    except (UnicodeDecodeError, msgspec.MsgspecError, RecursionError):
        return _slow(raw)
    if (q.seq or 1) < 1 or (q.step or 1) < 1 or (q.attempt or 1) < 1 or 0 in (q.seq, q.step, q.attempt):
        return _slow(raw)
    return LineHead(
        run=q.run, kind=q.kind, id=q.id, seq=q.seq, branch=q.branch or "", step=q.step, attempt=q.attempt or 1, name=q.name,
        agent=q.agent, environment=q.environment,
    )  # fmt: skip


def _slow(raw: bytes) -> LineHead:
    e = wire.parse(raw)
    return LineHead(
        run=e.run, kind=e.kind, id=e.id, seq=e.seq, branch=e.branch, step=e.step, attempt=e.attempt, name=e.name, agent=e.agent,
        environment=e.environment, oddities=e.oddities,
    )  # fmt: skip
