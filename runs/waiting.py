"""What a run or a step waits for, and how it came to an end that was no result: the short words of lists and rows. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from drainboard import wire

from runs.consent import Approval
from runs.facts import Seen
from runs.states import ApprovalState, RunStatus, StepStatus, Verdict
from runs.steps import Step
from runs.summary import StepRow, Summary

__all__ = ["step_words", "waits_for"]

_SAID: Final = {"approve": "approved", "reject": "rejected", "send_back": "sent back"}
_ENDED: Final = {"approval.expired": "expired, nobody decided", "approval.withdrawn": "withdrawn"}
_HAPPENED: Final = {
    "happened": "happened",
    "did_not_happen": "did not happen, it will run",
    "stop": "not resolved, the run was stopped",
}


def waits_for(made: Summary, *, native: bool, leased: bool, now: datetime) -> str:
    """What the run waits for: a person, a message, a time, or only a worker because that has come; '' for nothing."""
    if native and made.status == RunStatus.RUNNING:
        return "" if leased else _worker(made)
    if not made.parked_on:
        return ""
    if native and made.wake_at is not None and made.wake_at <= now and made.status == RunStatus.PARKED:
        return f"{_arrived(made)}, waits for {_worker(made)}"
    return _parked(made)


def _worker(made: Summary) -> str:
    build = made.pinned_to or made.build
    return f"a worker of build {build}" if build else "a worker"


def _parked(made: Summary) -> str:
    kind, _, name = made.parked_on.partition(":")
    until = f" until {_stamp(made.wake_at)}" if made.wake_at else ""
    if kind == "approval":
        asked = _asked(made, name)
        if asked and asked.here:
            return f"its runtime to be told: {_title(asked, name)} {_ending(asked.here)}"
        return f"approval of {_title(asked, name)}"
    if kind == "signal":
        return f"{'a message' if name == '?' else f'signal {name}'}{until}"
    if kind == "gap":
        branch, _, step = name.rpartition(":")
        return f"a word on step {f'{branch}:{step}' if branch else step}"
    if kind == "child":
        return f"child run {name}"
    return f"timer{until}" if kind == "timer" else made.parked_on


def _arrived(made: Summary) -> str:
    """How what it waited for came."""
    kind, _, name = made.parked_on.partition(":")
    if kind == "approval":
        asked = _asked(made, name)
        return _outcome(asked) if asked else "decided"
    told = {"signal": f"signal {name} arrived", "timer": "its timer is over", "child": f"child run {name} is over"}
    return told.get(kind, "due")


def _asked(made: Summary, name: str) -> Approval | None:
    return next((a for a in made.approvals if a.id == name), None)


def _title(asked: Approval | None, name: str) -> str:
    return (asked.request.entry.name if asked and asked.request else None) or (asked.tool if asked else None) or name


def _outcome(asked: Approval) -> str:
    ends = [s for s in asked.entries if s.entry.kind in (*_ENDED, "approval.decided", "approval.sent_back")]
    if ends and asked.state != ApprovalState.REQUESTED:
        return _ending(ends[-1])
    return "decided"


def _ending(seen: Seen) -> str:
    """`approved by bob`, `sent back by carl: too dear`."""
    entry = seen.entry
    if entry.kind in _ENDED:
        return _ENDED[entry.kind] + (f": {entry.reason}" if entry.reason else "")
    said = _SAID.get(entry.decision or ("send_back" if entry.kind == "approval.sent_back" else ""), "decided")
    together = entry.extra.get("approvers")
    by = ", ".join(str(p) for p in together) if isinstance(together, list) and together else entry.by
    why = f": {entry.reason}" if entry.reason and said != "approved" else ""
    return f"{said} by {by or 'somebody'}{why}"


def step_words(row: StepRow, *, exported: bool = True) -> str:
    """Where a step stands when that is no result and no error: its decision, its resolution, what it waits for; '' else."""
    step = row.step
    if step.resolution is not None:
        entry = step.resolution.entry
        return (
            f"resolved by {entry.by or 'somebody'}: {_HAPPENED.get(entry.outcome or '', entry.outcome or 'resolved')}"
        )
    if row.judged.verdict == Verdict.WAITING:
        return _step_waits(step, row.judged.reason)
    if step.kind == "approval":
        decided = step.results[-1:] if row.status == StepStatus.RESULT else []
        return _ending(decided[0]) if decided else "nobody decided"
    if step.kind == "timer":
        until = _field(step, "until")
        return f"waited until {until}" if until else "over"
    if not exported and row.status == StepStatus.RESULT and all(s.entry.out is wire.MISSING for s in step.results):
        return "result not exported"
    return ""


def _step_waits(step: Step, reason: str) -> str:
    until, name = _field(step, "until"), step.name or step.call or ""
    if step.kind == "approval":
        here = [s for s in step.entries if s.origin == "server" and s.entry.kind.startswith("approval.")]
        return f"its runtime is to be told: {_ending(here[-1])}" if here else "waits for a person"
    if step.kind == "timer":
        return f"waits until {until}" if until else "waits for a timer"
    if step.kind == "child":
        return f"waits for child run {_field(step, 'child') or name}".rstrip()
    return reason[:1].lower() + reason[1:].rstrip(".").replace("the signal", "signal")


def _field(step: Step, name: str) -> Any:
    return next((value for s in step.entries if (value := getattr(s.entry, name))), None)


def _stamp(at: datetime) -> str:
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")
