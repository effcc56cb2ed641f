"""Deciding all open requests of a run at once: all or none, in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import transaction
from drainboard import wire

from journals import store
from runs.approvals import actions, batch, errors, recording
from runs.approvals.models import Approval, State
from runs.approvals.queries import fields_of

__all__ = ["asked_of", "decide_all"]


def decide_all(key: str, given: Any, *, user: Any, said: Callable[[batch.Settled], actions.Said]) -> list[Approval]:
    """Records one person's decisions about every open request of a run, in the order in which they were asked.

    `said` adds how the person signed in. Raises UnknownRun, MalformedRequest or StaleView (nothing was decided), and what
    `actions.decide` raises about one of them (then none was decided).
    """
    found = store.find(key=key)
    if not found.native:
        return recording.decide_all(found.id, given, user=user, said=said)
    with transaction.atomic():
        head = store.lock(found.id)
        open_ = list(Approval.objects.filter(head_id=head.id, state=State.REQUESTED).order_by("pos"))
        settled = recording.settled(asked_of(head.id, open_), given)
        by_name = {approval.name: approval for approval in open_}
        for one in settled:
            if one.decision == "approve" and not one.saw_hidden and any(f.hidden for f in fields_of(by_name[one.name])):
                raise errors.MayNotDecide(
                    f"{one.name!r} holds characters that do not show themselves; say `saw_hidden`", approval=one.name
                )
        return [actions.decide(by_name[one.name].id, user=user, said=said(one)) for one in settled]


def asked_of(head_id: int, approvals: list[Approval]) -> list[batch.Asked]:
    """The requests, in the same order, with what their entries say of calls and allowed decisions."""
    entries = {e.pos: e.entry for e in store.entries_at(head_id, [a.pos for a in approvals])} if approvals else {}
    return [
        batch.Asked(
            name=a.name,
            call=entries[a.pos].call or "",
            tool=a.tool,
            artifact=wire.decode(bytes(a.artifact))[0],
            fingerprint=a.fingerprint,
            allowed=_allowed(entries[a.pos].extra.get("allowed_decisions")),
        )
        for a in approvals
    ]


def _allowed(told: Any) -> frozenset[str]:
    """Decisions that the request allows; what is no list of words allows every one, and four eyes and policies hold all the same."""
    return frozenset(w for w in told if isinstance(w, str)) if isinstance(told, list) else frozenset()
