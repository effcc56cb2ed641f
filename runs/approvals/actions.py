"""What agents ask, what people answer, and the one use of a yes. Each is one transaction with its journal entries.

Locks are taken in one order: the run's head, then the approval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models import Q

from journals import errors as journal_errors
from journals import store
from runs.approvals import errors, policies, records, rules
from runs.approvals.asking import asked_for, person_of, problems_of, request
from runs.approvals.models import Approval, State, Vote
from runs.approvals.using import deliver, use

__all__ = [
    "Said", "asked_for", "decide", "deliver", "expire_due", "person_of", "problems_of", "request", "use", "withdraw",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One person's decision about what they saw."""

    decision: str  # approve, reject, send_back
    fingerprint: str  # of what was on the page
    comment: str = ""
    shown: str = ""  # digest of the shown text
    address: str = ""
    signed_in_by: str = "password"
    signed_in_at: datetime | None = None
    edited: Any = None  # the artifact that the approver would have instead, kept beside a send-back


_ENDS = {"approve": State.APPROVED, "reject": State.REJECTED, "send_back": State.SENT_BACK}
_KINDS = {"approve": "approval.decided", "reject": "approval.decided", "send_back": "approval.sent_back"}


def decide(approval_id: int, *, user: Any, said: Said) -> Approval:
    """Records one person's decision; the last one needed decides and wakes the run.

    Raises MayNotDecide, AlreadyDecided (with the winner), StaleView, ApprovalExpired, MalformedRequest.
    """
    _complete(said)
    head_id = records.one(id=approval_id).head_id
    with transaction.atomic():
        head = store.lock(head_id)
        approval = Approval.objects.select_for_update().get(id=approval_id)
        if approval.state == State.REQUESTED and approval.expires_at and approval.expires_at <= head.now:
            _expire(head, approval)
        else:
            _check(head, approval, user, said)
            return _vote(head, approval, user.get_username(), said)
    raise errors.ApprovalExpired(
        f"the time to decide ended at {approval.expires_at:%Y-%m-%d %H:%M:%S} UTC", approval=approval.name
    )


def record_foreign(head: store.HeadRow, approval: Approval, *, call: str, user: Any, said: Said) -> Approval:
    """Records one person's decision about another runtime's request, whose row is made now; the caller has locked the head.

    Raises as `decide`, ApprovalExpired aside.
    """
    _complete(said)
    _check(head, approval, user, said)
    if approval.pk is None:
        approval.save()
    return _vote(head, approval, user.get_username(), said, call=call)


def _complete(said: Said) -> None:
    if said.decision not in _ENDS:
        raise journal_errors.MalformedRequest(f"decision {said.decision!r} is not approve, reject or send_back")
    if "\0" in said.comment or any("\ud800" <= c <= "\udfff" for c in said.comment):
        raise journal_errors.MalformedRequest("the comment holds characters that cannot be stored as text")
    if said.decision != "approve" and not said.comment.strip():
        raise journal_errors.MalformedRequest("say why: a rejection or a send-back needs a comment for the agent")


def refuse_decided(approval: Approval) -> None:
    """Raises AlreadyDecided, with who was first and when."""
    when = f" at {approval.decided_at:%Y-%m-%d %H:%M:%S} UTC" if approval.decided_at else ""
    by = f" by {approval.decided_by}" if approval.decided_by else ""
    raise errors.AlreadyDecided(
        f"this request is {State(approval.state).label} already{by}{when}",
        state=approval.state, by=approval.decided_by, at=str(approval.decided_at or ""),
    )  # fmt: skip


def _check(head: store.HeadRow, approval: Approval, user: Any, said: Said) -> None:
    if approval.state != State.REQUESTED:
        refuse_decided(approval)
    if head.ended or head.stop_name:
        raise errors.AlreadyDecided(
            "the run is over or being stopped; nothing will use a decision", state="stopped", by="", at=""
        )
    if said.fingerprint != approval.fingerprint:
        raise errors.StaleView(
            "the page showed another artifact; open the request again", fingerprint=approval.fingerprint
        )
    terms = policies.terms(approval.policy)
    voted = list(approval.votes.values_list("person", flat=True)) if approval.pk else []
    fresh_user = get_user_model().objects.prefetch_related("groups").get(pk=user.pk)
    if why := rules.why_not(person_of(fresh_user), terms, asked_for=asked_for(approval), voted=voted):
        raise errors.MayNotDecide(why)
    if terms.high_risk and not rules.fresh(said.signed_in_at, now=head.now):
        raise errors.MayNotDecide("this policy is high risk: sign in again, then decide within 5 minutes", sign_in=True)


def _vote(head: store.HeadRow, approval: Approval, person: str, said: Said, *, call: str = "") -> Approval:
    Vote.objects.create(
        approval=approval, person=person, signed_in_by=said.signed_in_by, decision=said.decision, comment=said.comment, shown=said.shown,
        address=said.address, at=head.now,
    )  # fmt: skip
    yes = list(approval.votes.filter(decision="approve").order_by("id").values_list("person", flat=True))
    named = _named(approval, call)
    told = {
        **named, "fingerprint": approval.fingerprint, "decision": said.decision, "by": person,
        "reason": said.comment or None, "signed_in_by": said.signed_in_by, "shown": said.shown or None, "address": said.address or None,
    }  # fmt: skip
    told = {k: v for k, v in {**told, "edited": said.edited}.items() if v is not None}
    actor = f"person:{person}"
    if said.decision == "approve" and len(yes) < approval.needed:
        vote = {
            "kind": "note",
            "name": "approval.vote",
            **told,
            "have": len(yes),
        }
        store.record(head.id, {**vote, "needed": approval.needed}, actor=actor)
        return approval
    approval.state, approval.decided_at, approval.comment = _ENDS[said.decision], head.now, said.comment
    approval.decided_by = ", ".join(yes) if said.decision == "approve" else person
    approval.save(update_fields=["state", "decided_at", "decided_by", "comment"])
    entry: dict[str, Any] = {"kind": _KINDS[said.decision], **told}
    if approval.needed > 1 and said.decision == "approve":
        entry["approvers"] = yes
    store.record(
        head.id, {**entry, "expires_at": records.text(approval.expires_at)}, actor=actor, changes=_wake(head, approval)
    )
    return approval


def _named(approval: Approval, call: str) -> dict[str, Any]:
    """How the run names its request; what another runtime does not tell is left out."""
    if not approval.foreign:
        return {"approval": approval.name, "name": approval.title, "step": approval.step, "branch": approval.branch}
    made = {name: store.decode_text(getattr(approval, name)) for name in ("title", "branch")}
    told = {
        "approval": store.decode_text(approval.name),
        "call": call,
        "name": made["title"],
        "branch": made["branch"],
        "step": approval.step,
    }
    return {k: v for k, v in told.items() if v}


def _wake(head: store.HeadRow, approval: Approval) -> dict[str, Any]:
    return {"wake_at": head.now} if store.waits_for(head, f"approval:{approval.name}") else {}


def _expire(head: store.HeadRow, approval: Approval) -> None:
    approval.state = State.EXPIRED
    approval.save(update_fields=["state"])
    entry = {
        "kind": "approval.expired",
        "approval": approval.name,
        "fingerprint": approval.fingerprint,
        "step": approval.step,
        "branch": approval.branch,
    }
    store.record(
        head.id,
        {**entry, "expires_at": records.text(approval.expires_at)},
        actor="server",
        changes=_wake(head, approval),
    )


def expire_due() -> int:
    """Expires undecided requests whose time is over, by the database's clock; returns how many."""
    from django.db.models.functions import Now

    due = (
        Approval.objects.filter(foreign=False, state=State.REQUESTED, expires_at__lte=Now())
        .order_by("expires_at")
        .values_list("id", "head_id")[:1_000]
    )
    done = 0
    for approval_id, head_id in due:
        with transaction.atomic():
            head = store.lock(head_id)
            approval = Approval.objects.select_for_update().get(id=approval_id)
            if approval.state == State.REQUESTED and not head.ended:
                _expire(head, approval)
                done += 1
    return done


def withdraw(head_id: int, *, reason: str, actor: str, tools: Sequence[str] | None = None) -> list[str]:
    """Withdraws a run's open and unused approvals (of these tools only), in the caller's transaction; returns their names."""
    head = store.lock(head_id)
    wanted = Approval.objects.select_for_update().filter(
        foreign=False, head_id=head_id, state__in=(State.REQUESTED, State.APPROVED)
    )
    if tools is not None:
        wanted = wanted.filter(Q(tool__in=tools))
    names = []
    for approval in wanted.order_by("id"):
        approval.state = State.WITHDRAWN
        approval.save(update_fields=["state"])
        entry = {
            "kind": "approval.withdrawn",
            "approval": approval.name,
            "fingerprint": approval.fingerprint,
            "step": approval.step,
            "branch": approval.branch,
        }
        store.record(head_id, {**entry, "reason": reason}, actor=actor, changes=_wake(head, approval))
        names.append(approval.name)
    return names
