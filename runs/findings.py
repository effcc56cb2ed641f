"""The named observations about a run: a closed list of codes, and the value that carries one. Pure.

Each code has a page, `docs/findings/<code>.md`, that says what it means and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from runs.facts import Seen
from runs.states import Severity

__all__ = ["CODES", "Finding", "found", "numbers", "ordered"]

CODES: Final[Mapping[str, tuple[Severity, str]]] = {
    "gap_open": (Severity.ERROR, "A step may run twice if the run goes on"),
    "possible_double_effect": (Severity.ERROR, "An outside effect may have happened twice"),
    "key_unstable": (Severity.ERROR, "One step was sent under different idempotency keys"),
    "key_missing": (Severity.WARNING, "A step in the gap carries no idempotency key"),
    "changed_inside_run": (Severity.WARNING, "Versions changed between the steps of one run"),
    "silent_fallback": (Severity.WARNING, "Another model answered than was asked"),
    "model_retired": (Severity.ERROR, "A model retires before the run can go on"),
    "versions_missing": (Severity.WARNING, "Steps ran under versions that nobody recorded"),
    "version_moved": (Severity.WARNING, "The run went from one build to another"),
    "approval_mismatch": (Severity.ERROR, "What ran is not what was approved"),
    "ran_without_approval": (Severity.ERROR, "An action ran without a valid approval"),
    "approval_too_early": (Severity.WARNING, "A decision came before its question"),
    "approval_not_used": (Severity.WARNING, "A yes was given and nobody used it"),
    "approval_ambiguous": (Severity.ERROR, "An approval has more than one reading"),
    "duplicate_call_id": (Severity.INFO, "Two different calls share one call id"),
    "repeated_model_call": (Severity.INFO, "One model step has more than one answer"),
    "nondeterministic_replay": (Severity.ERROR, "The code does not follow the journal"),
    "missing_entry": (Severity.ERROR, "Entries are missing"),
    "parent_missing": (Severity.WARNING, "A record that holds others has not come"),
    "torn_tail": (Severity.WARNING, "The end of the file is missing"),
    "conflicting_entry": (Severity.ERROR, "One entry has two contents"),
    "history_rewritten": (Severity.ERROR, "A later export tells another past"),
    "near_limit": (Severity.WARNING, "The journal is close to a limit of its runtime"),
    "stopped_by_limit": (Severity.ERROR, "A limit ended the run"),
    "stranded": (Severity.ERROR, "Nobody can pick this run up"),
    "stuck_task": (Severity.ERROR, "The runtime fails at the same place again and again"),
    "clock_step_back": (Severity.WARNING, "The recorded time goes back"),
    "clock_skew": (Severity.WARNING, "A worker's clock is off"),
    "opaque_payload": (Severity.INFO, "A value is kept unopened"),
    "encrypted_payload": (Severity.INFO, "A value is encrypted"),
    "non_standard_json": (Severity.WARNING, "A line is not standard JSON"),
    "too_deep": (Severity.INFO, "A value is nested too deeply to unfold"),
    "attempt_overlap": (Severity.WARNING, "Two attempts of one step overlapped"),
    "replay_loop": (Severity.ERROR, "The run is begun again and again without getting on"),
    "duplicate_entry": (Severity.INFO, "An entry was received more than once"),
}
"""Code -> (severity unless a finding says otherwise, title)."""

_RANK: Final = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}
LISTED: Final = 1_000  # entries named by one finding; `detail.entries_total` says how many there are


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    code: str
    severity: Severity
    message: str
    entries: tuple[int, ...] = ()  # numbers
    detail: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        detail = dict(self.detail)
        if len(self.entries) > LISTED:
            detail["entries_total"] = len(self.entries)
        return {
            "code": self.code,
            "severity": str(self.severity),
            "message": self.message,
            "entries": list(self.entries[:LISTED]),
            "detail": detail,
        }


def found(
    code: str, message: str, entries: Iterable[int] = (), /, *, severity: Severity | None = None, **detail: Any
) -> Finding:
    """A finding; without `severity` it has that of its code."""
    return Finding(
        code=code,
        severity=severity or CODES[code][0],
        message=message,
        entries=tuple(dict.fromkeys(entries)),
        detail=detail,
    )


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """Errors first, then by code in the order of `CODES`, then by entry."""
    codes = list(CODES)
    return sorted(findings, key=lambda f: (_RANK[f.severity], codes.index(f.code), f.entries[:1], f.message))


def numbers(entries: Iterable[Seen]) -> list[int]:
    """The numbers of these entries."""
    return [s.number for s in entries]
