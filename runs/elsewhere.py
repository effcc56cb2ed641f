"""Requests for approval that another runtime makes: which are open, and whether it got what a person decided here. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from runs.consent import Approval, said_at
from runs.facts import Seen, SourceFacts
from runs.findings import Finding, found
from runs.states import ApprovalState, Severity

__all__ = ["findings", "waits_for", "with_open"]

_ASKS: Final = re.compile(r"approv|sign[ _-]?off|confirm|review|consent|decision|authori[sz]", re.IGNORECASE)


def waits_for(what: str) -> str:
    """The approval that a source waits for, by its words for it: `approval:X`, or a signal whose name asks for one; else empty."""
    kind, _, name = what.partition(":")
    return name if kind == "approval" or (kind == "signal" and _ASKS.search(name)) else ""


def with_open(
    approvals: Sequence[Approval], facts: SourceFacts | None, entries: Sequence[Seen], *, in_flight: bool
) -> list[Approval]:
    """The approvals with those marked that wait for an answer, and those that only the source's list of waits names.

    Open is a request without an outcome, of a run in flight, that the source still waits for where it lists what it waits for.
    A request that is nothing but a wait for a signal is answered by the signal.
    """
    waits = [name for w in facts.waiting if (name := waits_for(w.what))] if facts and in_flight else []
    listed = facts is not None and facts.says_what_is_open
    known = {a.id for a in approvals}
    more = [n for n in dict.fromkeys(waits) if n not in known and not any(k.startswith(f"{n}:") for k in known)]
    made = [*approvals, *(Approval(name, foreign=True) for name in more)]
    for approval in made:
        if approval.foreign and approval.here is not None and not approval.requests:
            came = (s for s in entries if s.entry.kind == "signal.received" and s.entry.name == approval.id)
            approval.entries += [s for s in came if s.pos > approval.here.pos]
        waited = approval.id in waits or not listed
        approval.open = in_flight and approval.foreign and waited and approval.state == ApprovalState.REQUESTED
    return made


def findings(approvals: Sequence[Approval]) -> Iterator[Finding]:
    """`approval_mismatch` for runtimes whose record shows another outcome than what a person decided here."""
    for approval in approvals:
        yield from _otherwise(approval)


def _otherwise(approval: Approval) -> Iterator[Finding]:
    here = approval.here
    if here is None:
        return
    said = here.entry.decision or "send_back"
    for there in reversed(approval.there):
        done = there.entry.decision or there.entry.kind.partition(".")[2]
        if done in ("decided", "delivered", "used", "received"):
            continue  # an answer, and the export does not say which
        if (done == "approve") != (said == "approve"):
            by = f" by {there.entry.by}" if there.entry.by else ""
            yield found(
                "approval_mismatch",
                f"{here.entry.by or 'Somebody'} decided {said} about {approval.tool or approval.id} here at {said_at(here)}, and the"
                f" runtime's record says {done.replace('_', ' ')}{by} (entry {there.number}): it was told, or acted, otherwise.",
                [here.number, there.number],
                severity=Severity.ERROR if done == "approve" else Severity.WARNING,
                approval=approval.id,
                here=said,
                runtime=done,
            )
        return
