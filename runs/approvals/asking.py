"""What an agent asks for: one transaction with its `approval.requested` entry."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.db import transaction
from django.utils.dateparse import parse_datetime
from drainboard import wire

from journals import errors as journal_errors
from journals import store
from journals.access import Bearer
from runs.approvals import errors, fingerprint, policies, records, rules
from runs.approvals.models import Approval, Policy, State

_NAME = re.compile(r"[A-Za-z0-9._:-]{1,64}")


def approval_name(branch: str, step: int) -> str:
    """The default name of the approval at a step: `a3`, in a branch `a3.1.2`."""
    return f"a{branch}.{step}" if branch else f"a{step}"


def request(head: store.HeadRow, line: bytes, *, token: Bearer, epoch: int) -> tuple[Approval, list[str]]:
    """Records `approval.requested`; answers the approval and why nobody could open the gate (empty: somebody can).

    The same request of the same step again answers what is there, whatever became of it. Raises AmbiguousArtifact, ApprovalMismatch (the
    fingerprint is not ours: the field says `policy` or `artifact`), EntryConflict (the step asked for something else), and what append raises.
    """
    entry, step = records.parsed(line, "approval.requested")
    try:
        artifact = fingerprint.artifact_of(line)
    except fingerprint.AmbiguousArtifact as e:
        raise errors.AmbiguousArtifactRefused(str(e)) from None
    with transaction.atomic():
        locked = store.lock(head.id)
        made = _asked_before(locked, entry, step, artifact) or _ask(
            locked, line, entry, step, artifact, token=token, epoch=epoch
        )
    return made, problems_of(made)


def _asked_before(head: store.HeadRow, entry: wire.Entry, step: int, artifact: Any) -> Approval | None:
    found = (
        Approval.objects.filter(head_id=head.id, branch=entry.branch, step=step).exclude(state=State.WITHDRAWN).first()
    )
    if found is None:
        return None
    if bytes(found.artifact) != fingerprint.canonical(artifact):
        raise journal_errors.EntryConflict(
            f"step {step} asked for another artifact before",
            step=step,
            approval=found.name,
            fingerprint=found.fingerprint,
        )
    return found


def _ask(
    head: store.HeadRow, line: bytes, entry: wire.Entry, step: int, artifact: Any, *, token: Bearer, epoch: int
) -> Approval:
    tool = fingerprint.tool_of(artifact)
    if entry.approval is not None and not _NAME.fullmatch(entry.approval):
        raise journal_errors.MalformedEntry("`approval` must be 1 to 64 of the characters A-Z a-z 0-9 . _ : -")
    policy = policies.current(head.agent, tool) if tool else None
    schema = records.schema_of(entry, tool)
    place = _place(head, branch=entry.branch, step=step, policy=policy)
    ours = fingerprint.fingerprint(artifact, tool_schema=schema, place=place)
    if entry.fingerprint != ours:
        raise journal_errors.ApprovalMismatch(
            f"the fingerprint sent is not that of this artifact under policy version {place.policy}",
            field="fingerprint", expected=ours, found=entry.fingerprint, policy=place.policy,
        )  # fmt: skip
    pos = store.append(head.key, [line], token_hash=token.hash, epoch=epoch, granted=True).positions[0]
    return Approval.objects.create(
        head_id=head.id, key=head.key, name=entry.approval or approval_name(entry.branch, step), branch=entry.branch, step=step, pos=pos,
        agent=head.agent, environment=head.environment, run=store.encode_text(head.run), title=entry.name or "", tool=tool, tool_schema=schema or "",
        artifact=fingerprint.canonical(artifact), fingerprint=ours, policy=policy, needed=policy.needed if policy else 1,
        requested_by=entry.requested_by or "", asked_by=token.actor, note=str(entry.extra.get("note") or entry.reason or ""),
        requested_at=head.now, expires_at=_expiry(head.now, entry, policy),
    )  # fmt: skip


def _place(head: store.HeadRow, *, branch: str, step: int, policy: Policy | None) -> fingerprint.Place:
    return fingerprint.Place(
        run=head.run, branch=branch, step=step, environment=head.environment, policy=policy.version if policy else 0
    )


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
