"""Which event belongs to which step of a run: what was scheduled, what answered it, and which schedule is a retry of which.

A step is a task, a timer or a child, numbered from 1. The runtime counts them (and messages it sends) from 0 or from 1; its own
number stays on the entry as `event_id`. A retry is a further attempt of its step: the Python SDK schedules it under the same
number, DurableTask.Core under a new one, in the turn in which a timer fires that was set when the step failed.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from drainboard import wire

from journals.adapters.durabletask.events import ACTIONS, ANSWERS, Event

_COUNTED = frozenset(
    ("EventSent", "EntityOperationSignaled", "EntityOperationCalled", "EntityLockRequested", "EntityUnlockSent")
)
"""Events beside the steps that take a number of the runtime's counter."""

_WINDOW = (
    256  # failures and timers among which the pair of a retry is looked for; beyond it a retry is a step of its own
)


@dataclass(slots=True, eq=False)
class Step:
    """A step as far as the events told it so far."""

    number: int
    what: str  # task, timer, child
    signature: tuple[str, str | None, str | None]
    id: str  # of the newest schedule's entry
    event: Event  # its newest schedule
    attempt: int = 1
    answered: bool = False
    ok: bool = False
    error: dict[str, Any] | None = None  # of the last failure
    turn: int = 0  # in which it was scheduled last
    ended_turn: int = 0  # in which its last answer came
    order: int = 0  # among the steps
    progress: int = 0  # answers and messages that had come when it was scheduled last
    shown: dict[str, Any] = field(default_factory=dict)  # fields of its start that its answer repeats


@dataclass(slots=True)
class Steps:
    """The steps of one history, built event by event."""

    numbered: bool  # the form gives the runtime's own numbers
    base: int  # the runtime's number of the first step
    steps: list[Step] = field(default_factory=list)
    prefix: str = ""  # of entry ids
    turn: int = 0
    progress: int = 0  # answers and messages that have come
    _by_number: dict[int, Step] = field(default_factory=dict)
    _by_place: dict[str, deque[Step]] = field(default_factory=dict)
    _taken: set[int] = field(default_factory=set)  # step numbers
    _highest: int = 0
    _skipped: list[int] = field(default_factory=list)  # numbers that are no steps of their own, ascending
    _ids: dict[str, int] = field(default_factory=dict)
    _failed: dict[tuple[str, str | None, str | None], list[Step]] = field(default_factory=dict)
    _fired: list[Step] = field(default_factory=list)  # timers that fired and that no retry waited for

    @classmethod
    def of(cls, events: Sequence[Event], *, numbered: bool) -> Steps:
        zero = any(e.number == 0 and (e.type in ACTIONS or e.type in _COUNTED) for e in events)
        return cls(numbered, 0 if zero else 1)

    def unique(self, name: str) -> str:
        """This entry id, with `#2` at its second use; behind a rewind with its prefix, because numbers come again there."""
        name = self.prefix + name
        count = self._ids[name] = self._ids.get(name, 0) + 1
        return name if count == 1 else f"{name}#{count}"

    def pass_by(self, event: Event) -> None:
        """An event that is no step: it may begin a turn, or take a number."""
        if event.type == "OrchestratorStarted":
            self.turn += 1
        elif event.type == "EventRaised":
            self.progress += 1
        elif event.type in _COUNTED and event.number is not None:
            insort(self._skipped, event.number)

    def scheduled(self, event: Event) -> Step:
        """The step that this schedule begins or tries again."""
        what = ACTIONS[event.type]
        given = event.input if isinstance(event.input, str) or event.input is None else None
        signature = (what, event.name, given if event.input is not wire.MISSING else "" if self.numbered else None)
        step = self._again(event, what) or self._retried(signature, event)
        own = f"{what}:{event.number if event.number is not None else '?'}" if self.numbered else event.place
        own = self.unique(own)
        if step is None:
            step = Step(self._number(event), what, signature, own, event, order=len(self.steps))
            self.steps.append(step)
        else:
            step.attempt += 1
            step.id, step.event, step.answered = own, event, False
        step.turn, step.progress = self.turn, self.progress
        if event.number is not None:
            self._by_number[event.number] = step
        self._by_place.setdefault(event.place, deque()).append(step)
        return step

    def answer(self, event: Event) -> Step | None:
        """The step that this answers; None when its schedule is not in the history."""
        what, ok = ANSWERS[event.type]
        self.progress += 1
        if self.numbered:
            step = self._by_number.get(event.ref) if event.ref is not None else None
        else:
            here = self._by_place.get(event.place)
            while here and here[0].answered:
                here.popleft()
            step = here[0] if here else None
        if step is None or step.what != what:
            return None
        step.answered, step.ok, step.ended_turn = True, ok, self.turn
        if not ok:
            step.error = event.error
            self._failed.setdefault(step.signature, []).append(step)
        elif what == "timer":
            self._fired.append(step)
        return step

    def number_of(self, ref: int | None) -> int | None:
        """The step number that belongs to one of the runtime's numbers."""
        if ref is None or ref < self.base:
            return None
        return ref - self.base + 1 - bisect_left(self._skipped, ref)

    def _number(self, event: Event) -> int:
        given = self.number_of(event.number) if self.numbered else None
        number = given if given is not None and given not in self._taken else self._highest + 1
        self._taken.add(number)
        self._highest = max(self._highest, number)
        return number

    def _again(self, event: Event, what: str) -> Step | None:
        """The step under the same number, which the Python SDK uses for a retry."""
        step = self._by_number.get(event.number) if self.numbered and event.number is not None else None
        return step if step is not None and step.what == what else None

    def _retried(self, signature: tuple[str, str | None, str | None], event: Event) -> Step | None:
        """The failed step that this new number tries again: same name and input, after a timer that was set when it failed."""
        if signature[0] != "task" or signature[2] is None:
            return None
        failed = self._failed.get(signature, [])
        for step in failed[:_WINDOW]:
            timer = self._timer_after(step) if step.answered and not step.ok else None
            if timer is not None:
                failed.remove(step)
                self._fired.remove(timer)
                if event.number is not None:
                    insort(self._skipped, event.number)
                return step
        return None

    def _timer_after(self, step: Step) -> Step | None:
        for timer in self._fired[-_WINDOW:]:
            in_turn = not self.turn or (timer.turn == step.ended_turn and timer.ended_turn == self.turn)
            if in_turn and timer.order > step.order:
                return timer
        return None
