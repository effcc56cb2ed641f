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


def _made_by(seen: Seen) -> str:
    """`person`, `worker`, `server` or `import`: a hold that a worker asked for is nobody's decision."""
    kind = seen.actor.partition(":")[0]
    return "person" if seen.entry.by and kind == "server" else kind


def _author(seen: Seen) -> str | None:
    kind, _, name = seen.actor.partition(":")
    if kind == "person":
        return name
    return f"worker {name}" if kind == "worker" else "the server" if kind == "server" else None


def _decision(seen: Seen) -> dict[str, Any]:
    entry = seen.entry
    detail: dict[str, Any] = {
        "entry": seen.number,
        "pos": seen.pos,
        "origin": "imported" if seen.origin == "import" else "here",
        "made_by": _made_by(seen),
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
        "by": entry.by or _author(seen),
        "at": said_at(seen),
        "reason": entry.reason,
        "detail": detail,
    }
