"""The one use of a yes: a tool's start and `approval.used` in one transaction."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from drainboard import wire

from journals import errors as journal_errors
from journals import store
from journals.access import Bearer
from runs.approvals import errors, fingerprint, records
from runs.approvals.models import Approval, State


def deliver(head: store.HeadRow, name: str, *, epoch: int) -> tuple[Approval, list[int]]:
    """The worker has the decision: `approval.delivered`, once; its position, none when it stood there before.

    Raises UnknownApproval, LeaseLost.
    """
    from journals.api import owned_head

    positions: list[int] = []
    with transaction.atomic():
        owned = owned_head(head.id, epoch)
        approval = records.one(lock=True, head_id=head.id, name=name)
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
    entry, _ = records.parsed(line, "tool.started")
    with transaction.atomic():
        locked = store.lock(head.id)
        approval = records.one(lock=True, head_id=head.id, name=name)
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
        raise errors.ApprovalExpired(
            f"the approval ran out at {records.text(approval.expires_at)}", approval=approval.name
        )
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
    schema = records.schema_of(entry, approval.tool) or ""
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
