"""What people decided about a run's requests, as calls to its runtime: in the runtime's order, whatever that of a screen. Pure.

How a runtime is told is a function of its adapter (`AdapterInfo.replies`); most take one answer a call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from journals.adapters.controls import Action

_KNOWN: Final = {
    "awakeable": "awakeable",
    "event_type": "event",
    "call": "call",
}  # field of the request: value of a command


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One request of a run, and what was decided about it."""

    approval: str
    decision: str = ""  # approve, reject, send_back; empty: nobody has decided
    comment: str = ""
    by: str = ""
    edited: Any = None  # the artifact that the approver would have instead
    told: Mapping[str, Any] = field(default_factory=dict)  # the request's fields in the export, and those of its wait

    @property
    def action(self) -> Action:
        """A runtime knows yes and no; a send-back is a no with its message."""
        return "approve" if self.decision == "approve" else "reject"

    @property
    def message(self) -> str:
        """The comment, and the arguments that the approver would have instead."""
        if self.edited is None:
            return self.comment
        return f"{self.comment} {json.dumps(self.edited)}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One call to the runtime, for the controls of its action. With `missing` there is none yet: it takes those answers too."""

    action: Action
    about: tuple[str, ...]  # the approvals that it answers
    values: Mapping[str, Any] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


def one_by_one(asked: Sequence[Answer]) -> list[Reply]:
    """One call for each decided request."""
    return [Reply(action=a.action, about=(a.approval,), values=values_of(a)) for a in asked if a.decision]


def values_of(answer: Answer) -> dict[str, Any]:
    """`answer` is an object and `yes` a bare true or false: which of them its code expects, no export tells."""
    yes = answer.action == "approve"
    said = {"approved": yes, "by": answer.by, "reason": answer.message}
    known = {to: answer.told[name] for name, to in _KNOWN.items() if isinstance(answer.told.get(name), str)}
    return {
        **known,
        "approval": answer.approval,
        "yes": yes,
        "answer": {k: v for k, v in said.items() if v != ""},
        "reason": answer.message or ("approved" if yes else "rejected"),
    }
