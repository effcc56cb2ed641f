"""What the events of one execution have told so far: its operations, where each stands, and which are open."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from journals.adapters.aws.values import utc
from journals.adapters.names import effect_of, kind_of
from journals.adapters.values import integer, text

GROUPS: Final = ("Parallel", "Map")
"""Contexts whose children are contexts too, one for each branch."""

_ASKS: Final = re.compile(
    r"approv|review|human|confirm|consent|sign[ _-]?off|authori[sz]|decision|decide|permission", re.IGNORECASE
)
"""Names of callbacks that ask somebody for a word; other callbacks are messages."""

MAIN_LINE: Final = 4_000  # positions whose ids are tried: an execution has at most 3,000 operations
AHEAD: Final = 64  # the same for the children of a context, beyond those that were seen


@dataclass(slots=True)
class Op:
    """One operation: a step, wait, callback, chained invoke or context."""

    id: str
    type: str  # Step, Wait, Callback, ChainedInvoke, Context
    sub_type: str
    name: str
    parent: str | None
    branch: str = ""
    step: int | None = None
    inner: str = ""  # of a context: the branch of its children
    kind: str = "tool"  # of a step: model, tool, value; of a callback: approval or signal
    effect: str | None = None
    open: bool = True
    attempt: int = 1  # of the newest start
    failed: int = 0  # highest attempt that is recorded as failed
    retry_s: int | None = None  # of the newest failure: seconds until the next attempt; None when there is none
    failure: dict[str, Any] | None = None
    at: str | None = None  # newest start
    ended_at: str | None = None
    until: str | None = None
    child: str | None = None
    callback: str | None = None
    started_in: int = 0  # invocations that were complete when its newest attempt began


@dataclass(slots=True, kw_only=True)
class History:
    """Fold over the events of one export of one execution, in the order of their ids."""

    run: str
    ops: dict[str, Op] = field(default_factory=dict)
    children: dict[str, list[str]] = field(default_factory=dict)  # parent id, empty for the main line
    last: int = 0  # newest event id
    last_type: str = ""
    last_error: bool = False  # the newest event is an invocation that was cut off
    cut: bool = False  # it was ended from outside while an invocation may have been running
    latest: str | None = None  # newest time of an event
    gapless: bool = True  # no event is missing up to here
    invocations: int = 0
    idle_invocations: int = 0  # invocations at the end that left nothing
    crashed: bool = False  # the newest invocation ended with an error and no step has begun since
    ended: str = ""  # completed, failed, stopped: what an end event says
    held: dict[str, Any] | None = None
    again: list[tuple[Op, str]] = field(default_factory=list)  # steps that ran in two invocations, or may have
    ids: dict[str, dict[str, int]] = field(default_factory=dict)  # parent -> id of a child -> its position

    def op(self, event: Mapping[str, Any], kind: str) -> Op:
        """The operation that an event is of, made and placed when it is its first."""
        name = text(event, "Id") or f"?{integer(event, 'EventId') or 0}"
        found = self.ops.get(name)
        if found is None:
            sub_type = text(event, "SubType") or ""
            found = Op(name, kind, sub_type, text(event, "Name") or "", text(event, "ParentId"))
            self._place(found)
            self.ops[name] = found
            self.children.setdefault(found.parent or "", []).append(name)
            self._classify(found)
        return found

    def _classify(self, op: Op) -> None:
        if op.type == "Callback":
            op.kind = "approval" if _ASKS.search(op.name) else "signal"
            return
        told = {"model": "model", "llm": "model", "tool": "tool"}.get(op.sub_type.lower(), "")
        op.kind = told or kind_of(op.name)
        op.kind = op.kind if op.kind in ("model", "tool", "value") else "tool"
        op.effect = effect_of(op.name)

    def _place(self, op: Op) -> None:
        """Branch and number. In a WaitForCallback the callback is the wait itself, so the steps beside it count from 1."""
        parent = self.ops.get(op.parent) if op.parent else None
        number = self._position(op)
        if op.parent and parent is None:
            op.branch = f"?{op.parent[:12]}"
        elif parent is not None and parent.sub_type == "WaitForCallback":
            if op.type == "Callback":
                op.branch, op.step, op.name = parent.branch, parent.step, parent.name or op.name
                return
            op.branch, number = parent.inner, number - 1 if number is not None and number > 1 else number
        elif parent is not None:
            op.branch = parent.inner
        op.step = number
        if op.type == "Context":
            grouped = parent is not None and parent.sub_type in GROUPS
            path = f"{op.branch}.{number or '?'}" if op.branch else f"{number or '?'}"
            op.inner = path if grouped or op.sub_type in GROUPS else f"{path}.1"

    def _position(self, op: Op) -> int | None:
        """The place among its siblings: the Python SDK makes an id of it (BLAKE2b of `<parent id>-<n>`), else by order of appearance."""
        parent = op.parent or ""
        known, seen = self.ids.setdefault(parent, {}), len(self.children.get(parent, ()))
        up_to = seen + AHEAD if parent else MAIN_LINE
        while op.id not in known and len(known) < up_to:
            n = len(known) + 1
            place = f"{parent}-{n}" if parent else str(n)
            known[hashlib.blake2b(place.encode("utf-8", "surrogatepass")).hexdigest()[:64]] = n
        if op.id in known:
            return known[op.id]
        return seen + 1 if self.gapless else None

    def see(self, event: Mapping[str, Any]) -> None:
        """Takes down that this event is the newest one."""
        number = integer(event, "EventId") or 0
        kind = text(event, "EventType") or ""
        self.gapless = self.gapless and number in (self.last, self.last + 1)
        self.last = max(self.last, number)
        at = utc(event.get("EventTimestamp"))
        if at is not None and (self.latest is None or moment_key(at) > moment_key(self.latest)):
            self.latest = at
        if kind in ("ExecutionStopped", "ExecutionTimedOut"):
            self.cut = self.last_type != "InvocationCompleted" or self.last_error
        self.last_type, self.last_error = kind, False
        if kind != "InvocationCompleted":
            self.idle_invocations = 0

    def invoked(self, error: bool) -> None:
        """One invocation of the function is over: nothing of it runs any more."""
        self.invocations += 1
        self.idle_invocations += 1
        self.crashed = self.last_error = error or self._cut_off()

    def _cut_off(self) -> bool:
        """Whether something was under way, though no error is recorded: a step, or a branch that waits for nothing."""
        held_up = {op.branch for op in self.ops.values() if op.open or op.retry_s is not None}
        for op in self.open_ops():
            parent = self.ops.get(op.parent or "")
            branch = op.type == "Context" and op.sub_type not in (*GROUPS, "WaitForCallback")
            if op.type == "Step" or (branch and op.inner not in held_up and (parent is None or parent.open)):
                return True
        return False

    def began(self, op: Op) -> None:
        """A step's attempt begins. After an invocation that failed, it may have begun in that one too without a record."""
        op.started_in = self.invocations
        if self.crashed and op.type == "Step":
            self.again.append((op, "recovered"))
        self.crashed = False

    def answered(self, op: Op) -> None:
        """A step's attempt ended. In a later invocation than it began in, its code ran in both."""
        if op.open and op.at is not None and op.started_in < self.invocations:
            if op.type == "Step":
                self.again.append((op, "recovered"))
            self.crashed = (
                self.crashed and op.branch != ""
            )  # the main line was held up in it and can have begun nothing else

    def open_ops(self) -> list[Op]:
        return [op for op in self.ops.values() if op.open]


def moment_key(at: str) -> tuple[str, str]:
    """Orders times as `utc` gives them: whole seconds, then the fraction's digits."""
    whole, _, digits = at.removesuffix("Z").partition(".")
    return whole, digits
