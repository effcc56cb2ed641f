"""Random agents: models, reads, writes with and without keys, timers, approvals, children, parallel branches, retries."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Final, Protocol

READS: Final = ("lookup_order", "search_docs", "get_weather")
WRITES: Final = ("send_refund", "book_flight", "post_message", "charge_card")


@dataclass(slots=True)
class Step:
    """One step of the agent. `outcomes` are those of its executions: `ok`, `error` (the other side refused), `silent` (it
    acted, and no answer came); the last one counts for all that follow."""

    id: int
    kind: str  # model, tool, timer, approval, child, parallel
    name: str
    number: int  # from 1, within its branch
    branch: str
    write: bool = False
    key: bool = False
    outcomes: tuple[str, ...] = ("ok",)
    retries: int = 0
    tolerant: bool = False  # the agent goes on after its failure
    seconds: int = 0  # of a timer
    branches: list[list[Step]] = field(default_factory=list)


class Asked(Protocol):
    """What a runtime's world says about its agents."""

    dice: random.Random
    unique: bool

    @property
    def kinds(self) -> tuple[str, ...]: ...
    @property
    def branch_kinds(self) -> tuple[str, ...]: ...
    @property
    def branch_steps(self) -> int: ...
    @property
    def retries(self) -> bool: ...


WEIGHTS: Final = {"model": 4, "tool": 9, "timer": 1, "approval": 1, "child": 1, "parallel": 1}


class Planner:
    """Makes the steps of one agent."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.dice = asked.dice
        self.made = 0

    def line(self, branch: str, *, inside: bool, most: int) -> list[Step]:
        """The steps of the main line, or of a branch inside a parallel step."""
        return [self.step(n, branch, inside=inside) for n in range(1, self.dice.randint(1, most) + 1)]

    def step(self, number: int, branch: str, *, inside: bool) -> Step:
        dice, asked = self.dice, self.asked
        self.made += 1
        allowed = [k for k in asked.kinds if not inside or k in asked.branch_kinds]
        kind = dice.choices(allowed, [WEIGHTS[k] for k in allowed])[0]
        step = Step(self.made, kind, kind, number, branch)
        if kind == "model":
            step.name = "call_model"
        elif kind == "tool":
            step.write = dice.random() < 0.7
            step.name = dice.choice(WRITES if step.write else READS)
            step.key = step.write and dice.random() < 0.4
        elif kind == "child":
            step.name, step.write = "ship_parcel", True
        elif kind == "timer":
            step.seconds = dice.choice((5, 60, 3600))
        elif kind == "parallel":
            step.branches = self.branches(step)
        if asked.unique and kind in ("model", "tool", "child"):
            step.name = f"{step.name}_{step.id}"
        if kind in ("model", "tool") and asked.retries and dice.random() < 0.25:
            step.retries = dice.randint(0, 2)
            step.tolerant = dice.random() < 0.3
            step.outcomes = tuple(dice.choice(("error", "silent", "ok")) for _ in range(dice.randint(1, 3)))
        return step

    def branches(self, step: Step) -> list[list[Step]]:
        above = f"{step.branch}." if step.branch else ""
        return [
            self.line(f"{above}{step.number}.{n}", inside=True, most=self.asked.branch_steps)
            for n in range(1, self.dice.randint(2, 3) + 1)
        ]
