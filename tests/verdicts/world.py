"""Agents that die at random places, with every outside effect counted.

A `World` runs one random agent: replay, execution, crash, recovery, an end. What a runtime records of that, and how it
exports it, is written by its subclass; the counters are the truth that the export is judged against.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from runs.steps import Step as Shown
from tests.verdicts.agents import Planner, Step

START = datetime(2026, 11, 1, 9, 0, tzinfo=UTC)


@dataclass(slots=True)
class Unit:
    """What one row of the journal stands for: a step, or one try of it where the runtime keeps tries as steps."""

    step: Step
    count: int = 0  # effects that happened outside
    begun: int = 0  # executions
    durable: bool = False  # an answer is recorded that the next recovery reuses
    recorded: bool = False  # any record of it
    over: bool = False  # nothing will execute it again, whatever is recorded


class Crashed(Exception):
    """The process died; unwinds one life."""


class Fenced(Exception):
    """An owner that was replaced learns of it."""


@dataclass(frozen=True, slots=True)
class Moment:
    """When an export is taken."""

    dead: bool = False  # the process has just died
    last: bool = False  # nothing will happen any more


class World:
    """One run of one random agent on one runtime."""

    runtime: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]] = ("model", "tool", "timer", "approval", "child", "parallel")
    retries: ClassVar[bool] = True
    branch_kinds: ClassVar[tuple[str, ...]] = ("model", "tool", "timer", "approval", "child")
    leaves_out: ClassVar[str] = ""  # what is known not to be told by this runtime's journal, and is not made here
    branch_steps: ClassVar[int] = 2  # steps of a parallel branch
    may_be_torn: ClassVar[bool] = True  # a cut of its export is judged too
    may_show_more: bool = False  # rows without a record of a step are no mistake

    def __init__(self, seed: str, observe: Callable[[World, Moment], None]) -> None:
        self.dice = random.Random(seed)
        self.seed = seed
        self.observe = observe
        self.now = START
        self.unique = self.dice.random() < 0.5  # every name of its own, so that damaged exports can be judged too
        self.plan = Planner(self).line("", inside=False, most=5)
        self.units: dict[Any, Unit] = {}
        self.order: list[Any] = []  # units by first record
        self.life = 0
        self.crashes = 0
        self.ended = ""
        self.parked: dict[int, Step] = {}  # steps that the newest life waits for
        self.tries: dict[int, int] = {}  # executions begun of a step
        self.answers: dict[int, str] = {}  # step -> ok, error: what replay reuses
        self.zombies: list[Iterator[None]] = []
        self.crash_rate = self.dice.choice((0.03, 0.08, 0.2))
        self.cancel_at = self.dice.randint(3, 40) if self.dice.random() < 0.15 else 0
        self.ticks = 0
        self.exposed: set[int] = (
            set()
        )  # steps that may have been under way, for all that is recorded, when a life ended
        self.given_up = False  # the runtime does not recover it any more
        self.log: list[str] = []
        self.setup()

    # -- its life ---------------------------------------------------------------------------------------------------

    def live(self) -> None:
        """Everything from the start to the end, or to the moment when nobody recovers the run any more."""
        self.tick()
        self.started()
        while not self.ended:
            self.life += 1
            self.parked = {}
            try:
                self._run_life(self._main(self.life))
            except Fenced:
                if not self.ended:
                    raise
            except Crashed:
                self.crashes += 1
                self.log.append(f"crash of life {self.life}")
                self.crashed()
                self.expose(self.plan)
                self.observe(self, Moment(dead=True))
                if self.crashes > 6 or self.dice.random() < 0.15:
                    break
                if self.given_up:
                    break
                self.tick(self.dice.choice((1, 30, 900)))
                if not self.ended:
                    self.recovered()
                if self.given_up:
                    break
        while self.zombies:
            self._advance_zombie()
        self.tick()
        self.observe(self, Moment(last=True))

    def _run_life(self, main: Iterator[None]) -> None:
        for _ in main:
            self.tick()
            self.ticks += 1
            if self.ended:
                return
            if self.ticks == self.cancel_at and self.cancel():
                # The process learns of it later: what is under way goes on.
                self.log.append("cancelled")
                self.zombies.append(main)
                return
            if self.zombies and self.dice.random() < 0.3:
                self._advance_zombie()
            if self.dice.random() < 0.02:
                self.observe(self, Moment())
            if self.dice.random() < self.crash_rate:
                if self.dice.random() < 0.25 and self.zombie_possible:
                    self.zombies.append(main)
                raise Crashed
        if not self.ended:
            raise AssertionError("a life that neither ended nor died")

    zombie_possible: ClassVar[bool] = True

    def _advance_zombie(self) -> None:
        zombie = self.dice.choice(self.zombies)
        self.tick()
        try:
            next(zombie)
        except (StopIteration, Fenced):
            if zombie in self.zombies:
                self.zombies.remove(zombie)

    def tick(self, seconds: float = 0) -> None:
        self.now += timedelta(milliseconds=self.dice.randint(2, 900) + int(seconds * 1000))

    def _main(self, life: int) -> Iterator[None]:
        yield
        for step in self.plan:
            failed = yield from self._play(step, life)
            if failed:
                yield from self._end("failed", life)
                return
        yield from self._end("completed", life)

    def _end(self, status: str, life: int) -> Iterator[None]:
        yield
        self.fence(life)
        self.finished(status, life)
        self.ended = status
        yield

    def _play(self, step: Step, life: int) -> Iterator[None]:
        """One step: replayed, or executed. The value is true when the run fails by it."""
        if step.kind == "parallel":
            return (yield from self._parallel(step, life))
        if step.id in self.answers:
            return self.answers[step.id] == "error" and not step.tolerant
        if step.kind in ("timer", "approval"):
            yield from self._wait(step, life)
            return False
        if step.kind == "child":
            return (yield from self._child(step, life))
        return (yield from self._execute(step, life))

    def _parallel(self, step: Step, life: int) -> Iterator[None]:
        self.forked(step, life)
        lines = [self._line(branch, life) for branch in step.branches]
        results: list[bool] = []
        while lines:
            line = self.dice.choice(lines)
            try:
                next(line)
                yield
            except StopIteration as end:
                lines.remove(line)
                results.append(end.value)
        self.joined(step, life)
        return any(results)

    def _line(self, steps: list[Step], life: int) -> Iterator[None]:
        for step in steps:
            if (yield from self._play(step, life)):
                return True
        return False

    def _wait(self, step: Step, life: int) -> Iterator[None]:
        self.fence(life)
        self.waits(step, life)
        if life == self.life:
            self.parked[step.id] = step
        for _ in range(self.dice.randint(1, 3)):
            yield
        self.tick(step.seconds + 1)
        self.fence(life)
        if step.id not in self.answers:
            self.woke(step, life)
            self.answers[step.id] = "ok"
        self.parked.pop(step.id, None)
        yield

    def _child(self, step: Step, life: int) -> Iterator[None]:
        """A child run under an id that the runtime keeps: starting it again finds the one that there is."""
        yield
        self.fence(life)
        unit = self.unit(step)
        unit.begun += 1
        unit.count = 1
        if self.child_started(step, life):
            self.note(step)
        self.parked[step.id] = step
        yield
        self.fence(life)
        self.child_ended(step, life)
        self.parked.pop(step.id, None)
        self.answers[step.id] = "ok"
        unit.durable = True
        yield
        return False

    def _execute(self, step: Step, life: int) -> Iterator[None]:
        """Tries until one is answered. Each yield is a place where the process may die."""
        while True:
            yield
            self.fence(life)
            if self.settled(step, life):
                return self.answers[step.id] == "error" and not step.tolerant
            self.tries[step.id] = self.tries.get(step.id, 0) + 1
            n = self.tries[step.id]
            unit = self.unit(step)
            if self.start(step, n, life):
                self.note(step)
            yield
            outcome = step.outcomes[min(n, len(step.outcomes)) - 1]
            unit.begun += 1
            if step.write and outcome != "error":
                unit.count += 1
            self.log.append(f"life {life}: {step.name} ({step.id}) try {n}: {outcome}")
            yield
            again = outcome != "ok" and n <= step.retries
            if self.answer(step, n, outcome, life, again=again):
                self.note(step, unit)
                if not again:
                    unit.durable = True
                    self.answers[step.id] = "ok" if outcome == "ok" else "error"
            if outcome == "ok":
                yield
                return False
            if not again:
                yield
                return not step.tolerant

    def expose(self, steps: list[Step]) -> bool:
        """Adds the first steps without an answer to those that may have been under way; true when there is none."""
        for step in steps:
            if step.kind == "parallel":
                if not all([self.expose(branch) for branch in step.branches]):
                    return False
            elif step.id not in self.answers:
                self.exposed.add(step.id)
                if step.kind != "timer":  # where only its begin is recorded, it may have been over
                    return False
        return True

    # -- for subclasses ---------------------------------------------------------------------------------------------

    def unit(self, step: Step) -> Unit:
        return self.units.setdefault(self.unit_key(step), Unit(step))

    def shown_name(self, name: str | None) -> str | None:
        """The agent's name of a step that is shown under this one; None for a row that is no step of the agent."""
        return name

    def unit_of(self, shown: Shown) -> Unit | None:
        """The unit that this row stands for by what the runtime calls it; None where only its name tells."""
        return None

    def unit_key(self, step: Step) -> Any:
        return step.id

    def note(self, step: Step, unit: Unit | None = None) -> None:
        """The journal has a record of this unit from now on."""
        unit = unit or self.unit(step)
        if not unit.recorded:
            unit.recorded = True
            self.order.append(unit)

    def fence(self, life: int) -> None:
        """Raises `Fenced` for a life that was replaced. Overridden where the runtime does not notice."""
        if life != self.life or self.ended:
            raise Fenced

    def setup(self) -> None:
        """Empty stores."""

    def started(self) -> None: ...
    def recovered(self) -> None: ...
    def crashed(self) -> None: ...
    def forked(self, step: Step, life: int) -> None: ...
    def joined(self, step: Step, life: int) -> None: ...
    def finished(self, status: str, life: int) -> None: ...

    def settled(self, step: Step, life: int) -> bool:
        """Whether somebody else has answered the step meanwhile, so that it is not executed."""
        return False

    def start(self, step: Step, n: int, life: int) -> bool:
        """Before try `n` executes; true when that left a record."""
        return False

    def answer(self, step: Step, n: int, outcome: str, life: int, *, again: bool) -> bool:
        """After it; true when the answer was recorded. `again`: the runtime will try once more."""
        return True

    def waits(self, step: Step, life: int) -> None: ...
    def woke(self, step: Step, life: int) -> None: ...
    def child_started(self, step: Step, life: int) -> bool:
        """Before the child runs; true when that left a record."""
        return False

    def child_ended(self, step: Step, life: int) -> None: ...

    def cancel(self) -> bool:
        """An operator ends the run; false when this runtime has no such thing here. Sets `ended`."""
        return False

    def export(self) -> dict[str, bytes]:
        """The files that the runtime would give at this moment."""
        raise NotImplementedError

    @property
    def over(self) -> bool:
        """Whether the runtime is done with the run, though its process may not know it yet."""
        return bool(self.ended)

    def repeats(self, unit: Unit) -> bool:
        """Whether going on would execute it again."""
        return not self.ended and not unit.durable and not unit.over
