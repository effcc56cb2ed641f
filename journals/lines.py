"""Lines that the server writes for workers: a start, a signal, a result that came too late."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import connection, transaction
from drainboard import wire

from journals import errors, payloads, store
from journals.access import Bearer
from journals.cursors import plain_cursor


def started(run: str, agent: str, environment: str, in_: bytes, *, build: str | None, parent: str | None) -> bytes:
    """The `run.started` line; the input keeps its bytes. `at` is left out so that starting twice is the same start."""
    fields = {
        "run": run,
        "id": "s.0",
        "kind": "run.started",
        "agent": agent,
        "environment": environment,
        "build": build,
        "parent": parent,
    }
    front = wire.encode({k: v for k, v in fields.items() if v is not None})
    return front[:-1] + b',"in":' + one_line(in_) + b"}"


def one_line(raw: bytes) -> bytes:
    """JSON text without newlines outside strings (inside, JSON has none); other bytes stay."""
    return raw.replace(b"\r", b" ").replace(b"\n", b" ")


def signal(head_id: int, *, name: str, value: bytes, id: str | None, token: Bearer) -> int:
    """Appends `signal.received` and wakes the run if it waits for this name; returns the position. Needs a transaction."""
    found = store.lock(head_id)
    entry_id = f"signal:{id}" if id is not None else f"s.{found.pos + 1}"
    if id is not None and (old := store.position_of(head_id, entry_id)):
        return old
    if found.ended:
        raise errors.RunEnded(f"the run is over ({found.ended}); it takes no signals", ended=found.ended)
    decoded, odd = wire.decode(value)
    if odd:
        raise errors.MalformedRequest(f"the signal's value is not plain JSON: {', '.join(odd)}", oddities=list(odd))
    wake: dict[str, Any] = {"wake_at": found.now} if store.waits_for(found, f"signal:{name}") else {}
    entry = {"kind": "signal.received", "id": entry_id, "name": name, "out": decoded, "by": token.name}
    return store.record(head_id, entry, actor=token.actor, changes=wake, token_id=token.id)


def keep_late(key: str, lines: Sequence[bytes], *, token_hash: bytes, epoch: int, why: errors.Refused) -> None:
    """Keeps results of writes that came from an old epoch or after the end as `late.result` entries: evidence, never replayed.

    Only for a live worker token that may see the run; the same late line again is kept once.
    """
    late = [(raw, e) for raw in lines if (e := _late(raw)) is not None]
    with transaction.atomic():
        if not late or not _may_append(key, token_hash):
            return
        found = store.lock(store.find(key=key).id)
        for raw, entry in late:
            _keep_one(found.id, raw, entry, epoch, why)


def _keep_one(head_id: int, raw: bytes, entry: wire.Entry, epoch: int, why: errors.Refused) -> None:
    digest = payloads.sha256(raw)
    if store.position_of(head_id, entry.id or "", digest=digest) or store.position_of(
        head_id, f"late:{digest.hex()[:32]}"
    ):
        return
    value = {"kind": "late.result", "id": f"late:{digest.hex()[:32]}", "name": entry.name, "step": entry.step, "branch": entry.branch,
             "attempt": entry.attempt, "key": entry.key, "reason": why.code, "epoch": epoch, "of": entry.id}  # fmt: skip
    outcome = {"out": entry.out} if entry.kind == "tool.result" else {"error": entry.error}
    store.record(head_id, {**{k: v for k, v in value.items() if v not in (None, "")}, **outcome}, actor="server")


def _late(raw: bytes) -> wire.Entry | None:
    """The entry, when it is the result of a write."""
    try:
        entry = wire.parse(raw)
    except wire.MalformedLine:
        return None
    return entry if entry.kind in ("tool.result", "tool.error") and entry.effect_or_default == "write" else None


def _may_append(key: str, token_hash: bytes) -> bool:
    connection.ensure_connection()
    with plain_cursor() as cursor:
        cursor.execute(
            "SELECT 1 FROM journals_token t, journals_head h WHERE t.hash = %s AND h.key = %s AND t.scope = 'worker' AND t.revoked_at IS NULL"
            " AND (t.expires_at IS NULL OR t.expires_at > now()) AND t.agent IN ('', h.agent) AND t.environment IN ('', h.environment)",
            [token_hash, key],
        )
        return cursor.fetchone() is not None
