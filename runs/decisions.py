"""What people (and rules in their name) decided about a run, as its entries say it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from runs.consent import said_at
from runs.facts import Seen

__all__ = ["listed"]

KINDS: Final = frozenset(
    (
        *(
            "deploy.pinned",
            "deploy.continued",
            "deploy.unpinned",
            "stop.requested",
            "run.stopped",
            "run.held",
            "run.released",
        ),
        *("gap.resolved", "conflict.resolved"),
        *("approval.decided", "approval.sent_back", "approval.withdrawn", "approval.expired"),
    )
)


def listed(entries: Iterable[Seen]) -> list[dict[str, Any]]:
    """Decisions in reading order: kind, by, at, reason, detail. `detail.origin` tells those made here from claims of a file."""
    return [_decision(s) for s in entries if s.entry.kind in KINDS]


def _decision(seen: Seen) -> dict[str, Any]:
    entry = seen.entry
    detail: dict[str, Any] = {
        "entry": seen.number,
        "pos": seen.pos,
        "origin": "imported" if seen.origin == "import" else "here",
        "build": entry.build,
        "branch": entry.branch or None,
        "step": entry.step,
        "name": entry.name,
        "outcome": entry.outcome,
        "decision": entry.decision,
        "approval": entry.approval or (entry.call if entry.kind.startswith("approval.") else None),
        "fingerprint": entry.fingerprint,
    }
    detail = {k: v for k, v in detail.items() if v is not None}
    for name in ("message", "deploy", "held", "detail"):
        if name in entry.extra:
            detail[name] = entry.extra[name]
    return {
        "kind": entry.kind,
        "by": entry.by or (seen.actor.partition(":")[2] if seen.actor.startswith("person:") else None),
        "at": said_at(seen),
        "reason": entry.reason,
        "detail": detail,
    }
