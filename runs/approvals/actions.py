"""What an agent asks, what people answer, and the one use of a yes. Each is one transaction with its journal entries.

Locks are taken in one order: the run's head, then the approval.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models import Q
from django.utils.dateparse import parse_datetime
from drainboard import wire

from journals import errors as journal_errors
from journals import store
from journals.access import Bearer
from runs.approvals import errors, fingerprint, policies, rules
from runs.approvals.models import Approval, Policy, State, Vote

__all__ = ["decide", "deliver", "expire_due", "request", "use", "withdraw"]


_NAME = re.compile(r"[A-Za-z0-9._:-]{1,64}")


def approval_name(branch: str, step: int) -> str:
    """The default name of the approval at a step: `a3`, in a branch `a3.1.2`."""
    return f"a{branch}.{step}" if branch else f"a{step}"


# -- asking ---------------------------------------------------------------------------------------------------------


def request(head: store.HeadRow, line: bytes, *, token: Bearer, epoch: int) -> tuple[Approval, list[str]]:
    """Records `approval.requested`; answers the approval and why nobody could open the gate (empty: somebody can).

    The same request of the same step again answers what is there, whatever became of it. Raises AmbiguousArtifact, ApprovalMismatch (the
    fingerprint is not ours: the field says `policy` or `artifact`), EntryConflict (the step asked for something else), and what append raises.
    """
    entry = _parsed(line, "approval.requested")
    try:
        artifact = fingerprint.artifact_of(line)
    except fingerprint.AmbiguousArtifact as e:
        raise errors.AmbiguousArtifactRefused(str(e)) from None
    with transaction.atomic():
        locked = store.lock(head.id)
        made = _asked_before(locked, entry, artifact) or _ask(locked, line, entry, artifact, token=token, epoch=epoch)
    return made, problems_of(made)


def _parsed(line: bytes, kind: str) -> wire.Entry:
    try:
        entry = wire.parse(line)
    except wire.MalformedLine as e:
        raise journal_errors.MalformedEntry(str(e)) from None
    if entry.kind != kind:
        raise journal_errors.KindNotAllowed(f"this call takes {kind} entries, not {entry.kind}", kind=entry.kind)
    if entry.step is None:
        raise journal_errors.MalformedEntry(f"{kind} needs `step`, the number of the step that asks")
    if "\0" in entry.branch or not 0 < entry.step < 1 << 31:
        raise journal_errors.MalformedEntry(f"{kind}: `step` counts from 1 to 2147483647, `branch` holds no U+0000")
    return entry


def _asked_before(head: store.HeadRow, entry: wire.Entry, artifact: Any) -> Approval | None:
    found = (
        Approval.objects.filter(head_id=head.id, branch=entry.branch, step=entry.step)
        .exclude(state=State.WITHDRAWN)
        .first()
    )
    if found is None:
        return None
    if bytes(found.artifact) != fingerprint.canonical(artifact):
        raise journal_errors.EntryConflict(
            f"step {entry.step} asked for another artifact before",
            step=entry.step,
            approval=found.name,
            fingerprint=found.fingerprint,
        )
    return found


def _ask(head: store.HeadRow, line: bytes, entry: wire.Entry, artifact: Any, *, token: Bearer, epoch: int) -> Approval:
    assert entry.step is not None
    tool = fingerprint.tool_of(artifact)
    if entry.approval is not None and not _NAME.fullmatch(entry.approval):
        raise journal_errors.MalformedEntry("`approval` must be 1 to 64 of the characters A-Z a-z 0-9 . _ : -")
    policy = policies.current(head.agent, tool) if tool else None
    schema = _schema_of(entry, tool)
    place = _place(head, branch=entry.branch, step=entry.step, policy=policy)
    ours = fingerprint.fingerprint(artifact, tool_schema=schema, place=place)
    if entry.fingerprint != ours:
        raise journal_errors.ApprovalMismatch(
            f"the fingerprint sent is not that of this artifact under policy version {place.policy}",
            field="fingerprint", expected=ours, found=entry.fingerprint, policy=place.policy,
        )  # fmt: skip
    pos = store.append(head.key, [line], token_hash=token.hash, epoch=epoch, granted=True).positions[0]
    return Approval.objects.create(
        head_id=head.id, key=head.key, name=entry.approval or approval_name(entry.branch, entry.step), branch=entry.branch, step=entry.step, pos=pos,
        agent=head.agent, environment=head.environment, run=store.encode_text(head.run), title=entry.name or "", tool=tool, tool_schema=schema or "",
        artifact=fingerprint.canonical(artifact), fingerprint=ours, policy=policy, needed=policy.needed if policy else 1,
        requested_by=entry.requested_by or "", asked_by=token.actor, note=str(entry.extra.get("note") or entry.reason or ""),
        requested_at=head.now, expires_at=_expiry(head.now, entry, policy),
    )  # fmt: skip


def _place(head: store.HeadRow, *, branch: str, step: int, policy: Policy | None) -> fingerprint.Place:
    return fingerprint.Place(
        run=head.run, branch=branch, step=step, environment=head.environment, policy=policy.version if policy else 0
    )


def _schema_of(entry: wire.Entry, tool: str) -> str | None:
    tools = (entry.versions or {}).get("tools")
    found = tools.get(tool) if isinstance(tools, dict) else None
    return found if isinstance(found, str) else None


def _expiry(now: datetime, entry: wire.Entry, policy: Policy | None) -> datetime | None:
    """The earlier of what the agent asks and what the policy says."""
    asked = parse_datetime(entry.expires_at) if entry.expires_at else None
    if entry.expires_at and (asked is None or asked.tzinfo is None):
        raise journal_errors.MalformedEntry(f"expires_at {entry.expires_at!r} is not an RFC 3339 time with a zone")
    by_policy = now + timedelta(seconds=policy.expires_s) if policy and policy.expires_s else None
    return min((t for t in (asked, by_policy) if t), default=None)


def problems_of(approval: Approval) -> list[str]:
    """Why nobody could open this gate with the accounts that there are; empty when somebody can, or it is decided."""
    if approval.state != State.REQUESTED:
        return []
    return rules.problems(everybody(), policies.terms(approval.policy), asked_for=asked_for(approval))


def everybody() -> list[rules.Person]:
    """All accounts as the rules see them, now."""
    return [person_of(u) for u in get_user_model().objects.prefetch_related("groups")]


def person_of(user: Any) -> rules.Person:
    groups = frozenset(g.name for g in user.groups.all())
    approver = user.is_superuser or bool(groups & {"approver", "admin"})
    return rules.Person(name=user.get_username(), active=user.is_active, approver=approver, groups=groups)


def asked_for(approval: Approval) -> tuple[str, ...]:
    return tuple(x for x in (approval.requested_by, approval.asked_by.removeprefix("person:")) if x)


# -- deciding -------------------------------------------------------------------------------------------------------


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


_ENDS = {"approve": State.APPROVED, "reject": State.REJECTED, "send_back": State.SENT_BACK}
_KINDS = {"approve": "approval.decided", "reject": "approval.decided", "send_back": "approval.sent_back"}


def decide(approval_id: int, *, user: Any, said: Said) -> Approval:
    """Records one person's decision; the last one needed decides and wakes the run.

    Raises MayNotDecide, AlreadyDecided (with the winner), StaleView, ApprovalExpired, MalformedRequest.
    """
    if said.decision not in _ENDS:
        raise journal_errors.MalformedRequest(f"decision {said.decision!r} is not approve, reject or send_back")
    if said.decision != "approve" and not said.comment.strip():
        raise journal_errors.MalformedRequest("say why: a rejection or a send-back needs a comment for the agent")
    head_id = _one(id=approval_id).head_id
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


def _check(head: store.HeadRow, approval: Approval, user: Any, said: Said) -> None:
    if approval.state != State.REQUESTED:
        when = f" at {approval.decided_at:%Y-%m-%d %H:%M:%S} UTC" if approval.decided_at else ""
        by = f" by {approval.decided_by}" if approval.decided_by else ""
        raise errors.AlreadyDecided(
            f"this request is {State(approval.state).label} already{by}{when}",
            state=approval.state, by=approval.decided_by, at=str(approval.decided_at or ""),
        )  # fmt: skip
    if head.ended or head.stop_name:
        raise errors.AlreadyDecided(
            "the run is over or being stopped; nothing will use a decision", state="stopped", by="", at=""
        )
    if said.fingerprint != approval.fingerprint:
        raise errors.StaleView(
            "the page showed another artifact; open the request again", fingerprint=approval.fingerprint
        )
    terms = policies.terms(approval.policy)
    voted = list(approval.votes.values_list("person", flat=True))
    fresh_user = get_user_model().objects.prefetch_related("groups").get(pk=user.pk)
    if why := rules.why_not(person_of(fresh_user), terms, asked_for=asked_for(approval), voted=voted):
        raise errors.MayNotDecide(why)
    if terms.high_risk and not rules.fresh(said.signed_in_at, now=head.now):
        raise errors.MayNotDecide("this policy is high risk: sign in again, then decide within 5 minutes", sign_in=True)


def _vote(head: store.HeadRow, approval: Approval, person: str, said: Said) -> Approval:
    Vote.objects.create(
        approval=approval, person=person, signed_in_by=said.signed_in_by, decision=said.decision, comment=said.comment, shown=said.shown,
        address=said.address, at=head.now,
    )  # fmt: skip
    yes = list(approval.votes.filter(decision="approve").order_by("id").values_list("person", flat=True))
    told = {
        "approval": approval.name, "name": approval.title, "fingerprint": approval.fingerprint, "decision": said.decision, "by": person,
        "reason": said.comment or None, "signed_in_by": said.signed_in_by, "shown": said.shown or None, "address": said.address or None,
    }  # fmt: skip
    told = {k: v for k, v in told.items() if v is not None}
    actor = f"person:{person}"
    if said.decision == "approve" and len(yes) < approval.needed:
        vote = {
            "kind": "note",
            "name": "approval.vote",
            **told,
            "step": approval.step,
            "branch": approval.branch,
            "have": len(yes),
        }
        store.record(head.id, {**vote, "needed": approval.needed}, actor=actor)
        return approval
    approval.state, approval.decided_at, approval.comment = _ENDS[said.decision], head.now, said.comment
    approval.decided_by = ", ".join(yes) if said.decision == "approve" else person
    approval.save(update_fields=["state", "decided_at", "decided_by", "comment"])
    entry = {"kind": _KINDS[said.decision], **told, "step": approval.step, "branch": approval.branch}
    if approval.needed > 1 and said.decision == "approve":
        entry["approvers"] = yes
    store.record(
        head.id, {**entry, "expires_at": _text(approval.expires_at)}, actor=actor, changes=_wake(head, approval)
    )
    return approval


def _text(at: datetime | None) -> str | None:
    return at.isoformat().replace("+00:00", "Z") if at else None


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
        head.id, {**entry, "expires_at": _text(approval.expires_at)}, actor="server", changes=_wake(head, approval)
    )


def expire_due() -> int:
    """Expires undecided requests whose time is over, by the database's clock; returns how many."""
    from django.db.models.functions import Now

    due = (
        Approval.objects.filter(state=State.REQUESTED, expires_at__lte=Now())
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
    wanted = Approval.objects.select_for_update().filter(head_id=head_id, state__in=(State.REQUESTED, State.APPROVED))
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


# -- using ----------------------------------------------------------------------------------------------------------


def deliver(head: store.HeadRow, name: str, *, epoch: int) -> tuple[Approval, list[int]]:
    """The worker has the decision: `approval.delivered`, once; its position, none when it stood there before.

    Raises UnknownApproval, LeaseLost.
    """
    from journals.api import owned_head

    positions: list[int] = []
    with transaction.atomic():
        owned = owned_head(head.id, epoch)
        approval = _one(lock=True, head_id=head.id, name=name)
        if approval.state == State.APPROVED and approval.delivered_at is None:
            approval.delivered_at = owned.now
            approval.save(update_fields=["delivered_at"])
            entry = {
                "kind": "approval.delivered",
                "approval": name,
                "fingerprint": approval.fingerprint,
                "step": approval.step,
                "branch": approval.branch,
            }
            positions.append(store.record(head.id, entry, actor="server"))
    return approval, positions


def use(head: store.HeadRow, name: str, line: bytes, *, token: Bearer, epoch: int) -> store.Appended:
    """`tool.started` and `approval.used` in one transaction, for one step only; that step may ask again after a crash.

    The positions are those of both; of the start alone when the yes was used before.
    Raises ApprovalRequired (not approved yet), ApprovalDenied, ApprovalExpired, ApprovalMismatch (naming the first field), ApprovalAlreadyUsed.
    """
    entry = _parsed(line, "tool.started")
    with transaction.atomic():
        locked = store.lock(head.id)
        approval = _one(lock=True, head_id=head.id, name=name)
        request_print = wire.request_fingerprint(kind=entry.kind, name=entry.name, in_=entry.in_, key=entry.key)
        same = (approval.used_branch, approval.used_step, approval.used_request, approval.used_key) == (
            entry.branch, entry.step, request_print, entry.key or "",
        )  # fmt: skip
        if approval.state == State.USED and not same:
            raise errors.ApprovalAlreadyUsed(
                f"step {approval.used_branch or ''}{':' if approval.used_branch else ''}{approval.used_step} has used this approval",
                approval=name, branch=approval.used_branch, step=approval.used_step,
            )  # fmt: skip
        if approval.state != State.USED:
            _usable(locked, approval)
        _matches(locked, approval, entry)
        made = store.append(head.key, [line], token_hash=token.hash, epoch=epoch, granted=True)
        if approval.state == State.USED:
            return made
        approval.state, approval.used_at = State.USED, locked.now
        approval.used_branch, approval.used_step, approval.used_request, approval.used_key = (
            entry.branch,
            entry.step,
            request_print,
            entry.key or "",
        )
        approval.save(update_fields=["state", "used_at", "used_branch", "used_step", "used_request", "used_key"])
        used = {
            "kind": "approval.used",
            "approval": name,
            "fingerprint": approval.fingerprint,
            "step": entry.step,
            "branch": entry.branch,
        }
        pos = store.record(
            head.id, {**used, "name": entry.name, "key": entry.key, "request": request_print}, actor="server"
        )
    return store.Appended([*made.positions, pos], pos)


def _usable(head: store.HeadRow, approval: Approval) -> None:
    if approval.state in (State.REJECTED, State.SENT_BACK):
        raise errors.ApprovalDenied(
            f"{approval.decided_by} said no: {approval.comment}", approval=approval.name, by=approval.decided_by
        )
    if approval.state == State.EXPIRED or (
        approval.state == State.APPROVED and approval.expires_at and approval.expires_at <= head.now
    ):
        raise errors.ApprovalExpired(f"the approval ran out at {_text(approval.expires_at)}", approval=approval.name)
    if approval.state != State.APPROVED:
        raise journal_errors.ApprovalRequired(
            f"approval {approval.name} is {State(approval.state).label}", approval=approval.name, state=approval.state
        )


def _matches(head: store.HeadRow, approval: Approval, entry: wire.Entry) -> None:
    """Raises `ApprovalMismatch` unless what is about to run is what was approved, in this place, under this schema."""
    approved, _ = wire.decode(bytes(approval.artifact))
    about = {"tool": entry.name, "args": None if entry.in_ is wire.MISSING else entry.in_}
    try:
        differs = fingerprint.first_difference(approved, about) if approval.tool else None
    except wire.Ambiguous as e:
        raise errors.AmbiguousArtifactRefused(f"what is about to run is ambiguous: {e}") from None
    if differs is not None:
        raise journal_errors.ApprovalMismatch(
            f"approval {approval.name} does not cover this call; {differs.sentence()}",
            field=differs.field, approved=_plain(differs.approved), found=_plain(differs.found), approval=approval.name,
        )  # fmt: skip
    schema = _schema_of(entry, approval.tool) or ""
    if approval.tool and schema != approval.tool_schema:
        raise journal_errors.ApprovalMismatch(
            f"tool {approval.tool} has another schema than the one approved",
            field="tool_schema", approved=approval.tool_schema, found=schema, approval=approval.name,
        )  # fmt: skip
    if entry.fingerprint != approval.fingerprint:
        raise journal_errors.ApprovalMismatch(
            "the fingerprint sent is not the approved one",
            field="fingerprint",
            approved=approval.fingerprint,
            found=entry.fingerprint,
            approval=approval.name,
        )


def _plain(value: Any) -> Any:
    return None if value is wire.MISSING else value


def _one(*, lock: bool = False, **where: Any) -> Approval:
    rows = Approval.objects.select_for_update() if lock else Approval.objects
    found = rows.filter(**where).first()
    if found is None:
        raise errors.UnknownApproval(f"there is no approval {where.get('name', where.get('id'))!r} here")
    return found
