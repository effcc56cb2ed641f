"""What a journal says about approvals: asked, decided, delivered, used. Pure.

An approval is known by `approval`, else by `call`, else by the id of its request. A yes counts for the artifact that was
asked about, and for one step. About a request of another runtime a person's decision is only recorded here: once an import
shows what the runtime got, that holds, and whether both agree is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from drainboard import wire

from runs.facts import Seen, moment
from runs.findings import Finding, found
from runs.states import ApprovalState
from runs.steps import Journal, Step

__all__ = [
    "ENDINGS",
    "GIVEN",
    "UNUSED_AFTER",
    "Approval",
    "collect",
    "findings",
    "happened_at",
    "next_check",
    "said_at",
]

UNUSED_AFTER: Final = timedelta(minutes=10)  # from the decision until a yes that nobody uses is a finding
_STATES: Final = {
    "approve": ApprovalState.APPROVED,
    "reject": ApprovalState.REJECTED,
    "send_back": ApprovalState.SENT_BACK,
}
ENDINGS: Final = {
    "approval.sent_back": ApprovalState.SENT_BACK,
    "approval.expired": ApprovalState.EXPIRED,
    "approval.withdrawn": ApprovalState.WITHDRAWN,
}
GIVEN: Final = (ApprovalState.APPROVED, ApprovalState.DELIVERED, ApprovalState.USED)


@dataclass(slots=True)
class Approval:
    """One approval, as the journal tells it."""

    id: str
    state: ApprovalState = ApprovalState.REQUESTED
    requests: list[Seen] = field(default_factory=list)
    decisions: list[Seen] = field(default_factory=list)
    delivered: Seen | None = None
    used: Seen | None = None
    used_by: Step | None = None
    entries: list[Seen] = field(default_factory=list)
    foreign: bool = False  # another runtime asks
    open: bool = False  # of another runtime, which waits for an answer: a person may record one (`runs.elsewhere`)

    @property
    def request(self) -> Seen | None:
        return self.requests[-1] if self.requests else None

    @property
    def here(self) -> Seen | None:
        """What a person decided here about a request of another runtime."""
        made = [s for s in self.decisions if s.origin == "server"] if self.foreign else []
        return made[-1] if made else None

    @property
    def there(self) -> list[Seen]:
        """What the runtime itself records of an outcome, when it asked."""
        kinds = ("approval.decided", "approval.delivered", "approval.used", "signal.received", *ENDINGS)
        return [s for s in self.entries if s.origin == "import" and s.entry.kind in kinds] if self.foreign else []

    @property
    def answer(self) -> Seen | None:
        """What the runtime itself says was decided about its request, the last that names it or somebody; None without that."""
        return next((s for s in reversed(self.there) if s.entry.decision or s.entry.by), None)

    @property
    def decision(self) -> Seen | None:
        """The last one that says what was decided, the runtime's own word first; one that does not, when there is no other."""
        said = [s for s in self.decisions if s.entry.decision] or self.decisions
        told = [s for s in said if s.origin == "import"] if self.foreign else []
        return (told or said)[-1] if said else None

    @property
    def fingerprint(self) -> str | None:
        """Of what was decided on, else of what was asked."""
        told = [s.entry.fingerprint for s in (self.decision, self.request) if s is not None]
        return next((f for f in told if f), None)

    @property
    def artifact(self) -> Any:
        return self.request.entry.artifact if self.request else wire.MISSING

    @property
    def expires_at(self) -> datetime | None:
        for seen in (self.decision, self.request):
            if seen is not None and (at := moment(seen.entry.expires_at)):
                return at
        return None

    @property
    def tool(self) -> str | None:
        artifact = self.artifact
        name = artifact.get("tool") if isinstance(artifact, Mapping) else None
        return name if isinstance(name, str) else None

    def as_json(self) -> dict[str, Any]:
        request, decision = self.request, self.decision
        first = (request if self.foreign else None) or decision or request or next(iter(self.entries), None)
        here = self.here
        recorded: dict[str, Any] = {"open": True} if self.open else {}
        if here is not None:
            said = {"decision": here.entry.decision or "send_back", "by": here.entry.by, "at": said_at(here)}
            recorded["here"] = {**said, "fingerprint": here.entry.fingerprint, "told": bool(self.there)}
            if (answer := self.answer) is not None:
                theirs = {"decision": answer.entry.decision, "by": answer.entry.by, "at": said_at(answer)}
                recorded["here"]["runtime"] = theirs
        return {
            "id": self.id,
            "state": str(self.state),
            "fingerprint": self.fingerprint,
            "title": request.entry.name if request else None,
            "tool": self.tool,
            "branch": request.entry.branch if request else "",
            "step": request.entry.step if request else None,
            "requested_by": request.entry.requested_by if request else None,
            "requested_at": said_at(request),
            "decided_by": decision.entry.by if decision else None,
            "decided_at": said_at(decision),
            "decision": decision.entry.decision if decision else None,
            "comment": decision.entry.reason if decision else None,
            "delivered_at": said_at(self.delivered),
            "used_at": said_at(self.used),
            "expires_at": self.expires_at.isoformat().replace("+00:00", "Z") if self.expires_at else None,
            "origin": "imported" if self.foreign or (first and first.origin == "import") else "here",
            "entries": [s.number for s in self.entries],
            **recorded,
        }


def happened_at(seen: Seen) -> datetime | None:
    """When an entry happened: the database's time for what was written here, the sender's for what was imported."""
    return moment(seen.entry.at) if seen.origin == "import" else seen.recorded_at


def began_at(seen: Seen) -> datetime | None:
    """When what an entry tells of began: its `started_at` where no start has an entry of its own, else when the entry happened.

    Both times of a line are the sender's, so it is their distance that is taken off a time of ours.
    """
    happened, sent, began = happened_at(seen), moment(seen.entry.at), seen.entry.extra.get("started_at")
    began_there = moment(began) if isinstance(began, str) else None
    if happened is None or sent is None or began_there is None or began_there > sent:
        return happened
    return happened - (sent - began_there)


def said_at(seen: Seen | None) -> str | None:
    if seen is None:
        return None
    at = happened_at(seen)
    return at.isoformat().replace("+00:00", "Z") if at else None


def collect(journal: Journal, *, now: datetime, foreign: bool = False) -> list[Approval]:
    """The approvals of a run by first mention, with the state that the entries lead to."""
    approvals: dict[str, Approval] = {}
    for seen in journal.entries:
        if seen.entry.kind.startswith("approval."):
            name = _name(seen, approvals)
            _tell(approvals.setdefault(name, Approval(name, foreign=foreign)), seen)
    for approval in approvals.values():
        if approval.state == ApprovalState.REQUESTED and (here := approval.here) is not None:
            approval.state = _STATES.get(here.entry.decision or "send_back", approval.state)
        if approval.state == ApprovalState.REQUESTED and approval.expires_at and approval.expires_at <= now:
            approval.state = ApprovalState.EXPIRED
    return list(approvals.values())


def _name(seen: Seen, known: Mapping[str, Approval]) -> str:
    entry = seen.entry
    return (
        entry.approval
        or entry.call
        or (seen.entry_id if entry.kind == "approval.requested" else next(iter(known), seen.entry_id))
    )


def _tell(approval: Approval, seen: Seen) -> None:
    """One entry of an approval."""
    approval.entries.append(seen)
    kind = seen.entry.kind
    if kind == "approval.requested":
        approval.requests.append(seen)
        if approval.state in ENDINGS.values():
            approval.state = ApprovalState.REQUESTED
    elif kind == "approval.decided" or kind in ENDINGS:
        _decide(approval, seen)
    elif kind == "approval.delivered":
        approval.delivered = seen
        if approval.state == ApprovalState.APPROVED:
            approval.state = ApprovalState.DELIVERED
    elif kind == "approval.used":
        approval.used = approval.used or seen
        if approval.state in GIVEN:
            approval.state = ApprovalState.USED


def _decide(approval: Approval, seen: Seen) -> None:
    entry = seen.entry
    if entry.kind in ("approval.decided", "approval.sent_back"):
        approval.decisions.append(seen)
    if seen.origin == "server" and approval.foreign:
        return  # the runtime's own word comes first, wherever it stands
    if entry.kind == "approval.decided":
        approval.state = _STATES.get(entry.decision or "", approval.state)
    elif approval.state != ApprovalState.USED:
        approval.state = ENDINGS[entry.kind]


def findings(journal: Journal, approvals: Sequence[Approval], *, in_flight: bool, now: datetime) -> Iterator[Finding]:
    """What is wrong with the approvals themselves. Call `runs.acted.findings` first: it marks those that actions used."""
    for approval in approvals:
        yield from _ambiguous(approval)
        yield from _too_early(approval, journal)
        if not _acted_on(approval, journal):
            yield from _not_used(approval, in_flight=in_flight, now=now)
    yield from _not_taken(journal, in_flight=in_flight)


def _ambiguous(approval: Approval) -> Iterator[Finding]:
    why = [reason for seen in approval.requests if (reason := _two_readings(seen))]
    asked = {s.entry.fingerprint or repr(s.entry.artifact) for s in approval.requests}
    withdrawn = sum(s.entry.kind in ENDINGS for s in approval.entries)
    if len(asked) > 1 + withdrawn:
        why.append(f"it was asked {len(approval.requests)} times for different artifacts")
    said = {s.entry.decision for s in approval.decisions if s.entry.decision and s is not approval.here}
    if len(said) > 1 + withdrawn:
        why.append(f"its decisions disagree: {', '.join(sorted(str(d) for d in said))}")
    if why:
        yield found(
            "approval_ambiguous",
            f"Approval {approval.id} has more than one reading: {'; '.join(why)}.",
            [s.number for s in approval.entries],
            approval=approval.id,
            why=why,
        )


def _two_readings(seen: Seen) -> str:
    keys = [o.partition(":")[2] for o in seen.entry.oddities if o.startswith("duplicate_key:")]
    if keys:
        return f"the key {', '.join(keys)} stands in it twice"
    if seen.entry.artifact is wire.MISSING:
        return ""
    try:
        wire.canonical(seen.entry.artifact)
    except wire.Ambiguous as e:
        return str(e)
    return ""


def _too_early(approval: Approval, journal: Journal) -> Iterator[Finding]:
    decisions = [s for s in approval.decisions if s is not approval.here]
    if not decisions:
        return
    order = {id(s): i for i, s in enumerate(journal.entries)}
    decision = decisions[0]
    if approval.requests and order[id(approval.requests[0])] < order[id(decision)]:
        return
    asked = (
        f" (it was asked in entry {approval.requests[0].number})"
        if approval.requests
        else ", and no request of it is recorded"
    )
    yield found(
        "approval_too_early",
        f"Approval {approval.id} was decided in entry {decision.number} before it was asked for{asked}: nobody can have seen the artifact.",
        [s.number for s in approval.entries],
        approval=approval.id,
    )


def _acted_on(approval: Approval, journal: Journal) -> bool:
    """Whether a yes of another runtime, which says neither what it is for nor who uses it, was at least acted on: the run went
    on behind it."""
    decision = approval.decision
    if decision is not None and decision is approval.here:
        return bool(approval.there)  # the runtime has an answer, whatever its export tells of it
    if decision is None or decision.origin != "import" or approval.artifact is not wire.MISSING or approval.fingerprint:
        return False
    at = next(i for i, seen in enumerate(journal.entries) if seen is decision)
    kinds = {seen.entry.kind for seen in journal.entries[at + 1 :]}
    return "run.completed" in kinds or any(kind.startswith(("tool.", "model.", "child.")) for kind in kinds)


def _not_used(approval: Approval, *, in_flight: bool, now: datetime) -> Iterator[Finding]:
    decision = approval.decision
    if decision is None or approval.used is not None or decision.entry.decision != "approve":
        return
    if approval.state not in (ApprovalState.APPROVED, ApprovalState.DELIVERED, ApprovalState.EXPIRED):
        return
    at = happened_at(decision)
    if in_flight and at is not None and now - at < UNUSED_AFTER:
        return
    until = approval.expires_at
    late = f" It is too late after {until.isoformat().replace('+00:00', 'Z')}." if until and in_flight else ""
    unused = "no import shows that its runtime was told" if decision is approval.here else "nothing used it"
    yield found(
        "approval_not_used",
        f"{decision.entry.by or 'Somebody'} approved {approval.tool or approval.id} at {said_at(decision)}, and {unused}"
        + (" yet." if in_flight else " before the run was over.")
        + late,
        [s.number for s in approval.entries],
        approval=approval.id,
        decided_at=said_at(decision),
        delivered_at=said_at(approval.delivered),
        expires_at=until.isoformat().replace("+00:00", "Z") if until else None,
    )


def _not_taken(journal: Journal, *, in_flight: bool) -> Iterator[Finding]:
    """Messages that a source keeps for a run and that no receive has taken."""
    taken = {
        s.entry.call for s in journal.entries if s.entry.kind == "signal.received" and s.entry.outcome == "consumed"
    }
    for seen in journal.entries:
        entry = seen.entry
        if entry.kind != "signal.received" or entry.outcome != "not_consumed" or (entry.call and entry.call in taken):
            continue
        until = next(
            (s.entry.until for s in reversed(journal.entries) if s.entry.kind == "timer.started" and s.entry.until),
            None,
        )
        late = f" It is too late after {until}." if until and in_flight else ""
        yield found(
            "approval_not_used",
            f"The message {entry.name or entry.call or ''} arrived at {entry.at}, and nothing has taken it.{late}",
            [seen.number],
            message_id=entry.call,
            topic=entry.name,
            given_at=entry.at,
            too_late_after=until,
        )


def next_check(approvals: Sequence[Approval], *, now: datetime) -> datetime | None:
    """When an unused yes becomes a finding, or an open request expires; the nearest moment after `now`."""
    moments = []
    for approval in approvals:
        if approval.state in (ApprovalState.APPROVED, ApprovalState.DELIVERED) and approval.decision is not None:
            at = happened_at(approval.decision)
            moments.append(at + UNUSED_AFTER if at else None)
        if approval.state == ApprovalState.REQUESTED:
            moments.append(approval.expires_at)
    return min((m for m in moments if m is not None and m > now), default=None)
