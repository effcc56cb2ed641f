"""One run's history while it is read, event by event: its steps, its versions, and what is still open.

A line depends only on its own event and on those before it, so that a longer export of the same run repeats the lines of a
shorter one. The one look ahead is `groups`: commands of one workflow task are written together, so their number is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from journals.adapters.temporal.values import Values, attributes_key, dict_of, number_of, text_of, type_of

WAKES: Final = frozenset(
    "ActivityTaskCompleted ActivityTaskFailed ActivityTaskTimedOut ActivityTaskCanceled TimerFired WorkflowExecutionSignaled "  # noqa: SIM905
    "WorkflowExecutionCancelRequested ChildWorkflowExecutionStarted ChildWorkflowExecutionCompleted ChildWorkflowExecutionFailed "
    "ChildWorkflowExecutionCanceled ChildWorkflowExecutionTimedOut ChildWorkflowExecutionTerminated StartChildWorkflowExecutionFailed "
    "NexusOperationCompleted NexusOperationFailed NexusOperationCanceled NexusOperationTimedOut".split()
)
"""Events after which the runtime gives the run a turn: a history that ends with one is not that of a run at rest."""

COMMANDS: Final = frozenset(
    ["ActivityTaskScheduled", "TimerStarted", "StartChildWorkflowExecutionInitiated", "NexusOperationScheduled"]
)
"""Events that take a step number and run side by side when one workflow task wrote several of them."""


@dataclass(slots=True, kw_only=True)
class Event:
    """One history event with its payloads decoded. `rest` is what no field of the line took."""

    number: int  # eventId, from 1
    type: str  # without EVENT_TYPE_, in camel case
    at: str | None
    rest: dict[str, Any]  # its attributes
    top: dict[str, Any]  # fields beside them: userMetadata, workerMayIgnore, links
    task_id: str
    values: Values

    @staticmethod
    def of(raw: Mapping[str, Any]) -> Event:
        """The event in decoded JSON; `number` must have been checked by `number_of`."""
        values = Values()
        name = attributes_key(raw)
        kept = {k: v for k, v in raw.items() if k not in ("eventId", "eventType", "eventTime", "taskId", name)}
        return Event(
            number=number_of(raw.get("eventId")) or 0,
            type=type_of(raw),
            at=text_of(raw.get("eventTime")) or None,
            rest=values.tree(dict_of(raw.get(name))),
            top=values.tree(kept),
            task_id=str(raw.get("taskId", "")),
            values=values,
        )

    def take(self, key: str, default: Any = None) -> Any:
        """An attribute that a field of the line holds from here on."""
        return self.rest.pop(key, default)

    def ref(self, key: str) -> int:
        """The event that an attribute points at; 0 for none."""
        return number_of(self.rest.get(key)) or 0

    @property
    def summary(self) -> str:
        return text_of(dict_of(self.top.get("userMetadata")).get("summary"))


@dataclass(slots=True, kw_only=True)
class Step:
    """An activity, timer, child or operation, from the event that scheduled it."""

    event: int  # the event that scheduled it
    kind: str  # model, tool, child, timer
    branch: str
    step: int
    name: str
    call: str
    at: str | None
    effect: str | None = None
    key: str | None = None
    request: str | None = None
    versions: dict[str, Any] = field(default_factory=dict)
    until: str | None = None
    child: str | None = None
    attempt: int = 1
    begun: bool = False  # its start is recorded
    closed: bool = False

    def line(self, word: str) -> dict[str, Any]:
        """The fields that every line of this step has; `word` is `started`, `result` or `error`."""
        return {
            "kind": f"{self.kind}.{word}",
            "name": self.name,
            "step": self.step,
            "branch": self.branch,
            "call": self.call,
            "attempt": self.attempt,
            "effect": self.effect,
            "key": self.key,
            "request": self.request,
        }


@dataclass(slots=True)
class Task:
    """The workflow task at the end of what was read: the runtime's own turn, no step."""

    state: str = ""  # "", scheduled, started
    since: str | None = None
    attempt: int = 1
    woken: bool = False  # something arrived that the run has not taken up yet
    problem: dict[str, Any] | None = None  # the failure that no later task has got over


@dataclass(slots=True, kw_only=True)
class History:
    """State of one run. `run` is `workflowId/runId`."""

    workflow_id: str
    run_id: str
    copied: tuple[int, str] = (0, "")  # events up to this one were copied from that run by a reset
    groups: Mapping[int, int]  # workflow task completed event -> how many commands it wrote
    steps: dict[int, Step] = field(default_factory=dict)  # by scheduling event
    updates: dict[str, str] = field(default_factory=dict)  # update id -> name
    versions: dict[str, Any] = field(default_factory=dict)  # last prompt, model, tools
    offered: dict[str, str] = field(default_factory=dict)  # tool -> digest, of the last model call
    sdk: str = ""
    build: str = ""  # of the last completed workflow task
    pinned: str = ""
    deployment: str = ""
    workflow_type: str = ""
    parent: str | None = None
    continued_from: str | None = None
    base_run: str | None = None  # the run that was reset into this one
    ended: str = ""  # completed, failed, cancelled, stopped, continued
    status: str = ""  # the runtime's own word, from its last event
    paused: dict[str, Any] | None = None
    cancel_requested: bool = False
    task: Task = field(default_factory=Task)
    lost_turn: int = 0  # the event that ended the turn before the last completed one without its commands; 0: none
    lost_now: int = 0  # the same for the turn that comes next
    cut_turn: int = 0  # attempt of the turn that was open, or had been lost, when the server ended the run; 0: none
    shorthand: bool = False  # read from the HTTP API's shorthand, which writes empty lists as null
    last: int = 0  # number of the last event
    last_at: str | None = None
    started_at: str | None = None
    opened: tuple[int, int] | None = (
        None  # number and size of the group of parallel steps that the present event begins
    )
    _next: int = 1
    _placed: dict[int, tuple[str, int]] = field(
        default_factory=dict
    )  # by event, so that the same event again is the same step
    _group: dict[int, list[int]] = field(default_factory=dict)  # task -> [position of the group, members so far]

    @property
    def run(self) -> str:
        return "/".join(part for part in (self.workflow_id, self.run_id) if part)

    @property
    def next_step(self) -> int:
        """The number that the next step of the main line would have."""
        return self._next

    def place(self, event: int, task: int = 0) -> tuple[str, int]:
        """Branch and number of the step that `event` opens; `task` is the workflow task that wrote it (0: on the main line)."""
        if event not in self._placed:
            self._placed[event] = self._new_place(task)
        return self._placed[event]

    def _new_place(self, task: int) -> tuple[str, int]:
        if self.groups.get(task, 1) < 2:
            self._next += 1
            return "", self._next - 1
        if task not in self._group:
            self._group[task] = [self._next, 0]
            self.opened = (self._next, self.groups[task])
            self._next += 1
        self._group[task][1] += 1
        return f"{self._group[task][0]}.{self._group[task][1]}", 1

    def open_steps(self) -> list[Step]:
        """Steps without an end, in the order in which they were scheduled."""
        return [s for s in self.steps.values() if not s.closed]

    def step_versions(self, kind: str, name: str) -> dict[str, Any]:
        """What a step runs under as far as the run has recorded it; a tool has its own schema only."""
        if kind == "model":
            return {k: v for k, v in self.versions.items() if v}
        tools = {name: self.offered[name]} if name in self.offered else dict_of(self.versions.get("tools"))
        return {"tools": tools} if tools else {}
