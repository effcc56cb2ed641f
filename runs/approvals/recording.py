"""Decisions about requests of other runtimes: an entry of the run and a row, in one transaction. Nothing is sent anywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.db import transaction

from journals import errors as journal_errors
from journals import store
from runs.approvals import actions, batch, errors, foreign
from runs.approvals.foreign import Request
from runs.approvals.models import Approval, State
from runs.approvals.queries import fields_of
from runs.models import Run

__all__ = ["decide", "decide_all", "settled"]


@transaction.atomic
def decide(head_id: int, ref: str, *, user: Any, said: actions.Said) -> Approval:
    """Records one person's decision about one request.

    Raises UnknownApproval, AmbiguousArtifactRefused (it has more than one reading), MalformedRequest (a decision that the runtime
    does not take), ApprovalExpired, and what `actions.decide` raises.
    """
    head = store.lock(head_id)
    request = foreign.find(head, ref)
    if request is None:
        raise errors.UnknownApproval(f"run {head.run!r} has no request {ref!r} that is open or decided here")
    return _decide(head, request, user, said)


@transaction.atomic
def decide_all(head_id: int, given: Any, *, user: Any, said: Callable[[batch.Settled], actions.Said]) -> list[Approval]:
    """Records one person's decisions about every open request of a run, by the rules of `runs.approvals.batch`; all or none."""
    head = store.lock(head_id)
    asked = foreign.requests(head)
    open_ = {r.name: r for r in asked if _is_open(r)}
    _refuse_named(asked, given)
    taken = settled([_asked(r) for r in open_.values() if not r.problem], given)
    for one in taken:
        if (
            one.decision == "approve"
            and not one.saw_hidden
            and any(f.hidden for f in fields_of(open_[one.name].approval))
        ):
            raise errors.MayNotDecide(
                f"{one.name!r} holds characters that do not show themselves; say `saw_hidden`", approval=one.name
            )
    return [_decide(head, open_[one.name], user, said(one)) for one in taken]


def settled(asked: Sequence[batch.Asked], given: Any) -> list[batch.Settled]:
    """`batch.settle`, refused as the pages and the API refuse. Raises MalformedRequest, StaleView."""
    try:
        return batch.settle(asked, given)
    except batch.Unfit as e:
        kind = errors.StaleView if e.stale else journal_errors.MalformedRequest
        raise kind(str(e), **e.detail) from None


def _is_open(request: Request) -> bool:
    return request.open and request.approval.state == State.REQUESTED


def _refuse_named(asked: Sequence[Request], given: Any) -> None:
    """Says of a request that the list names why it cannot be decided, where that is known."""
    named = (
        {d.get("call") or d.get("approval") for d in given if isinstance(d, dict)} if isinstance(given, list) else set()
    )
    for request in asked:
        if not {request.name, request.call} & {n for n in named if n}:
            continue
        if not _is_open(request):
            _refuse_decided(request)
        if request.problem:
            raise _ambiguous(request)


def _asked(request: Request) -> batch.Asked:
    return batch.Asked(
        name=request.name, call=request.call, tool=request.tool, artifact=request.artifact, fingerprint=request.approval.fingerprint,
        allowed=request.allowed,
    )  # fmt: skip


def _decide(head: store.HeadRow, request: Request, user: Any, said: actions.Said) -> Approval:
    approval = request.approval
    if not _is_open(request):
        _refuse_decided(request)
    if not Run.objects.filter(pk=head.id, in_flight=True).exists():
        raise errors.AlreadyDecided("the run is over; nothing will use a decision", state="stopped", by="", at="")
    if request.problem:
        raise _ambiguous(request)
    word = "edit" if said.edited is not None else said.decision
    if request.allowed and word not in request.allowed:
        raise journal_errors.MalformedRequest(
            f"its runtime does not take {word!r} about {request.name!r}, only {', '.join(sorted(request.allowed))}"
        )
    if approval.expires_at and approval.expires_at <= head.now:
        raise errors.ApprovalExpired(
            f"by its source the time to decide ended at {approval.expires_at:%Y-%m-%d %H:%M:%S} UTC",
            approval=request.name,
        )
    return actions.record_foreign(head, approval, call=request.call, user=user, said=said)


def _refuse_decided(request: Request) -> None:
    approval, here = request.approval, request.here
    if approval.pk and approval.state != State.REQUESTED:
        actions.refuse_decided(approval)
    by = here.entry.by if here else ""
    state = (here.entry.decision if here else None) or request.there or "answered"
    told = f"this request has a decision already: {state}" + (f" by {by}" if by else "")
    raise errors.AlreadyDecided(told, state=state, by=by, at="")


def _ambiguous(request: Request) -> errors.AmbiguousArtifactRefused:
    return errors.AmbiguousArtifactRefused(
        f"{request.name!r} cannot be decided here: {request.problem}", approval=request.name
    )
