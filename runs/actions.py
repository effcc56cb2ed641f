"""What a person or a rule does to one run: stop, release, resolve a gap. Each is one transaction and an entry in the run's journal.

Every action locks the run's head first, so that it stands either before or after whatever a worker appends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now
from drainboard import wire

from journals import store
from journals.errors import LeaseHeld, LeaseLost, Refused, RunEnded
from runs import projection
from runs.approvals import actions as approvals
from runs.models import Run

OUTCOMES: Final = ("happened", "did_not_happen", "stop")
OPEN_VERDICTS: Final = ("may_run_twice", "failed_may_have_run", "unknown")


class NotHeld(Refused):
    """The run is not held, so there is nothing to release."""

    code = "NotHeld"


class NoOpenGap(Refused):
    """The step has no open gap: it has a result, was never started, or somebody resolved it before."""

    code = "NoOpenGap"


class ForeignRun(Refused):
    """The run belongs to another runtime; only that runtime can carry this out."""

    code = "ForeignRun"


def open_gaps(head_id: int) -> list[dict[str, Any]]:
    """The run's steps whose effect may or may not have happened, as `show_run` names them; the journal is folded first."""
    projection.catch_up([head_id])
    run = Run.objects.filter(pk=head_id).only("summary").first()
    gaps = (run.summary or {}).get("gaps") or [] if run else []
    return [gap for gap in gaps if gap.get("verdict") in OPEN_VERDICTS]


@transaction.atomic
def request_stop(
    head_id: int, *, name: str, message: str, by: str, actor: str, more: Mapping[str, Any] | None = None
) -> tuple[int, bool]:
    """Asks for a stop; returns the entry's position and whether the run is stopped already.

    A run that nobody works on (parked, or its lease has run out) is stopped at once; a running one stops between two steps.
    A second stop of a run changes nothing: the first name stands. On a foreign run only the request is recorded, because
    its own runtime has to stop it. The entry carries the versions that the run recorded last; `more` goes into it too.
    Raises `RunEnded`.
    """
    head = store.lock(head_id)
    _refuse_ended(head)
    if head.stop_name:
        return head.pos, False
    run = Run.objects.filter(pk=head_id).select_related("versions_set").only("versions_set__body").first()
    entry = {
        "kind": "stop.requested",
        "reason": name,
        "message": message,
        "by": by,
        "position": head.pos,
        "recorded": run.versions_set.body if run is not None and run.versions_set is not None else None,
        **(more or {}),
    }
    changes = {"stop_name": name, "stop_message": message} if head.native else {}
    pos = store.record(head_id, entry, actor=actor, changes=changes)
    if not head.native:
        return pos, False
    approvals.withdraw(head_id, reason=f"the run is stopped: {name}", actor=actor)
    if head.leased:
        return pos, False
    finish_stop(head_id, actor=actor)
    return pos, True


@transaction.atomic
def finish_stop(head_id: int, *, actor: str, epoch: int | None = None) -> int:
    """Ends a run whose stop was asked for, with its open gaps listed; returns the position of `run.stopped`.

    `epoch` is that of the worker who obeyed; without one no lease may be live. Raises `RunEnded`, `LeaseHeld`, `LeaseLost`.
    """
    head = store.lock(head_id)
    _refuse_ended(head)
    if not head.stop_name:
        raise Refused("no stop was asked for, so the run is not stopped", key=head.key)
    if epoch is not None and epoch != head.epoch:
        raise LeaseLost(f"the run was opened again since (epoch {head.epoch})", epoch=head.epoch, worker=head.worker)
    if epoch is None and head.leased:
        raise LeaseHeld(f"worker {head.worker} still has the run; it stops between two steps", worker=head.worker)
    entry = {
        "kind": "run.stopped",
        "reason": head.stop_name,
        "message": head.stop_message,
        "by": actor.partition(":")[2] or actor,
        "gaps": open_gaps(head_id),
    }
    changes = {"ended": "stopped", "parked_on": "", "wake_at": None, "lease_until": None, "hold_reason": ""}
    return store.record(head_id, entry, actor=actor, changes=changes)


@transaction.atomic
def release(head_id: int, *, reason: str, by: str, actor: str, more: Mapping[str, Any] | None = None) -> int:
    """Gives a held run back to the workers; returns the position. Raises `RunEnded`, `NotHeld`."""
    head = store.lock(head_id)
    _refuse_ended(head)
    if not head.hold_reason:
        raise NotHeld(f"run {head.run!r} is not held, so there is nothing to release", key=head.key)
    entry = {"kind": "run.released", "reason": reason, "by": by, "held": head.hold_reason, **(more or {})}
    return store.record(head_id, entry, actor=actor, changes={"hold_reason": ""})


@transaction.atomic
def resolve_gap(
    head_id: int,
    *,
    branch: str,
    step: int,
    outcome: str,
    evidence: str,
    by: str,
    actor: str,
    result: bytes | None = None,
) -> int:
    """Records what a person found out about a step in the gap; returns the position of `gap.resolved`.

    `happened` needs the result (JSON), which then replays as the step's; `did_not_happen` lets it run; `stop` stops the run
    with `UnresolvedGap`. The run takes its next epoch in the same transaction, so a worker that comes back late cannot
    append. Raises `RunEnded`, `LeaseHeld`, `NoOpenGap`, `ForeignRun`.
    """
    head = store.lock(head_id)
    _refuse_ended(head)
    if not head.native:
        raise ForeignRun(f"run {head.run!r} belongs to {head.runtime}; resolve the step there", key=head.key)
    if head.leased:
        raise LeaseHeld(
            f"worker {head.worker} holds the run until {head.lease_until}; a gap is resolved when nobody works on it",
            worker=head.worker,
        )
    gap = _gap_at(open_gaps(head_id), branch, step)
    store.change(head_id, epoch=head.epoch + 1, worker="", lease_until=None)
    entry = {"kind": "gap.resolved", "branch": branch, "step": step, "name": gap.get("name"), "key": gap.get("key")}
    entry.update(outcome=outcome, by=by, reason=evidence)
    if outcome == "happened":
        entry["out"] = _result(result)
    changes = {"parked_on": "", "wake_at": None} if head.parked_on == f"gap:{branch}:{step}" else {}
    pos = store.record(
        head_id, {k: v for k, v in entry.items() if v not in (None, "") or k == "out"}, actor=actor, changes=changes
    )
    if outcome == "stop":
        request_stop(head_id, name="UnresolvedGap", message=evidence, by=by, actor=actor)
    return pos


def expired_stops() -> list[int]:
    """Head ids of native runs whose stop was asked for and that nobody works on any more: the server stops them itself."""
    nobody = Q(head__lease_until=None) | Q(head__lease_until__lte=Now())
    found = Run.objects.filter(nobody, head__native=True, head__ended="").exclude(head__stop_name="")
    return list(found.order_by("pk").values_list("pk", flat=True))


def _refuse_ended(head: store.HeadRow) -> None:
    if head.ended:
        raise RunEnded(f"run {head.run!r} is over ({head.ended})", ended=head.ended, stop=head.stop_name)
    if not head.native and (run := Run.objects.filter(pk=head.id, in_flight=False).only("status").first()):
        raise RunEnded(f"run {head.run!r} is over ({run.status})", ended=run.status)


def _gap_at(gaps: Sequence[Mapping[str, Any]], branch: str, step: int) -> Mapping[str, Any]:
    for gap in gaps:
        if (gap.get("branch") or "", gap.get("step")) == (branch, step):
            return gap
    where = f"step {step}" + (f" of branch {branch}" if branch else "")
    raise NoOpenGap(f"{where} has no open gap: it has a result, was never started, or was resolved before")


def _result(raw: bytes | None) -> Any:
    try:
        value, odd = wire.decode(raw or b"")
    except wire.MalformedLine as e:
        raise Refused(f"the result is {e}; give the JSON that the outside service answered") from None
    if odd:
        raise Refused(f"the result has more than one reading: {', '.join(odd)}")
    return value
