"""Actions against their approvals: what ran without a yes, before it, after it had gone, or on something else. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from drainboard import wire

from runs.consent import ENDINGS, GIVEN, Approval, happened_at, said_at
from runs.facts import Seen
from runs.findings import Finding, found
from runs.states import ApprovalState, Severity
from runs.steps import Journal, Step

__all__ = ["differing", "findings"]


def findings(journal: Journal, approvals: Sequence[Approval]) -> Iterator[Finding]:
    """`approval_mismatch` and `ran_without_approval`; marks the approvals that actions used."""
    for step in journal.steps:
        if step.kind == "tool" and not step.missing:
            yield from _action(step, approvals, journal)


def _action(step: Step, approvals: Sequence[Approval], journal: Journal) -> Iterator[Finding]:
    begun = next((a.started for a in step.attempts if a.started is not None), None) or step.entries[0]
    named = next((s.entry.approval for s in step.entries if s.entry.approval), None)
    approval = _approval_of(step, begun, named, approvals)
    if approval is None:
        if named:
            yield _without(step, begun, None, f"it names approval {named}, which is not in the journal")
        elif other := [a for a in approvals if a.tool == step.name and a.tool is not None]:
            yield from _beside(step, begun, other)
        return
    differences = _differences(approval, begun)
    if differences is not None:
        yield _mismatch(step, begun, approval, differences)
        yield _without(step, begun, approval, "what was approved is not what ran")
    elif why := _why_not_valid(approval, step, begun, journal):
        yield _without(step, begun, approval, why)
    else:
        approval.used = approval.used or begun
        approval.used_by = step
        approval.state = ApprovalState.USED


def _approval_of(step: Step, begun: Seen, named: str | None, approvals: Sequence[Approval]) -> Approval | None:
    """The approval that the action names, else the one of its call, else the one that asked for just this."""
    if named is not None:
        return next((a for a in approvals if a.id == named), None)
    by_call = next((a for a in approvals if begun.entry.call and a.id == begun.entry.call), None)
    if by_call is not None:
        return by_call
    subject = {"tool": step.name, "args": begun.entry.in_}
    equal = [a for a in approvals if a.used_by is None and a.tool == step.name and _same(a.artifact, subject)]
    return next((a for a in equal if a.state in GIVEN), equal[0] if equal else None)


def _beside(step: Step, begun: Seen, other: Sequence[Approval]) -> Iterator[Finding]:
    """A tool that approvals of this run are about, started with arguments that none of them asked for."""
    open_yes = [a for a in other if a.state in (ApprovalState.APPROVED, ApprovalState.DELIVERED) and a.used_by is None]
    if open_yes:
        approval = open_yes[-1]
        differences = _differences(approval, begun)
        yield _mismatch(step, begun, approval, differences or [])
        yield _without(step, begun, approval, "what was approved is not what ran")
    else:
        yield _without(
            step,
            begun,
            other[-1],
            "no approval asked for it, while other calls of this tool had one",
            severity=Severity.WARNING,
        )


def _differences(approval: Approval, begun: Seen) -> list[dict[str, Any]] | None:
    """Fields in which what ran is not what was asked for; None when it is the same, or nothing can be compared."""
    entry, artifact = begun.entry, approval.artifact
    comparable = isinstance(artifact, Mapping) and set(artifact) >= {"tool", "args"} and entry.in_ is not wire.MISSING
    if comparable:
        ran = {"tool": entry.name, "args": entry.in_}
        asked = {"tool": artifact["tool"], "args": artifact["args"]}
        if not _same(asked, ran):
            return differing(asked, ran)
    fingerprints = {f for s in (approval.decision, approval.request) if s is not None and (f := s.entry.fingerprint)}
    if entry.fingerprint and fingerprints and fingerprints != {entry.fingerprint}:
        return []
    return None


def _same(a: Any, b: Any) -> bool:
    try:
        return wire.canonical(a) == wire.canonical(b)
    except wire.Ambiguous:
        return False


def differing(old: Any, new: Any, path: str = "") -> list[dict[str, Any]]:
    """Where two JSON values differ, as `{"path", "approved", "ran"}`; at most 50 places, the last of which says that there are more."""
    made: list[dict[str, Any]] = []
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            made += differing(old.get(key, wire.MISSING), new.get(key, wire.MISSING), f"{path}/{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (a, b) in enumerate(zip(old, new, strict=True)):
            made += differing(a, b, f"{path}/{i}")
    elif not _same({"v": _plain(old)}, {"v": _plain(new)}):
        made.append({"path": path or "/", "approved": _plain(old), "ran": _plain(new)})
    return (
        [*made[:49], {"path": "…", "approved": None, "ran": None, "more": len(made) - 49}] if len(made) > 50 else made
    )


def _plain(value: Any) -> Any:
    return None if value is wire.MISSING else value


def _mismatch(step: Step, begun: Seen, approval: Approval, differences: Sequence[Mapping[str, Any]]) -> Finding:
    names = ", ".join(str(d["path"]).removeprefix("/args/") for d in differences[:5])
    where = f"; it differs in {names}" if names else "; only the fingerprints can be compared"
    return found(
        "approval_mismatch",
        f"Approved was {approval.fingerprint or 'another artifact'}, about to run is {begun.entry.fingerprint or step.name} (entry {begun.number}){where}.",
        [*(s.number for s in approval.entries), begun.number],
        approval=approval.id,
        approved=approval.fingerprint,
        ran=begun.entry.fingerprint,
        differences=list(differences),
    )


def _without(
    step: Step, begun: Seen, approval: Approval | None, why: str, *, severity: Severity | None = None
) -> Finding:
    decision = approval.decision if approval else None
    who = (
        f" {decision.entry.by or 'Somebody'} said {decision.entry.decision} at {said_at(decision)}." if decision else ""
    )
    return found(
        "ran_without_approval",
        f"{step.name or 'A tool'} ran (entry {begun.number}) without a valid approval: {why}.{who}",
        [begun.number, *((s.number for s in approval.entries) if approval else ())],
        severity=severity,
        approval=approval.id if approval else None,
        state=str(approval.state) if approval else None,
        why=why,
        decided_by=decision.entry.by if decision else None,
        decided_at=said_at(decision),
    )


def _why_not_valid(approval: Approval, step: Step, begun: Seen, journal: Journal) -> str:
    """Why the yes does not hold for this action; empty when it does."""
    if approval.used_by is not None and approval.used_by is not step:
        return f"the yes was used by step {approval.used_by.number} before"
    order = {id(s): i for i, s in enumerate(journal.entries)}
    yes = [s for s in approval.decisions if s.entry.decision == "approve"]
    if not yes:
        return f"the approval is {str(approval.state).replace('_', ' ')}"
    if order[id(yes[0])] > order[id(begun)]:
        return "the yes came only after it had begun"
    before = [s for s in approval.entries if order[id(s)] < order[id(begun)]]
    last = next((s.entry for s in reversed(before) if s.entry.kind in ("approval.decided", *ENDINGS)), None)
    if last is not None and last.kind in ENDINGS:
        return f"the approval was {last.kind.partition('.')[2].replace('_', ' ')}"
    if last is not None and last.decision != "approve":
        return f"the last decision was {last.decision}"
    at = happened_at(begun)
    if approval.expires_at and at and at > approval.expires_at:
        return f"the yes had expired at {approval.expires_at.isoformat()}"
    return ""
