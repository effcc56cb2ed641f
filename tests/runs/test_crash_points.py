"""Agents that die at random places, with every outside effect counted: what is called safe is safe."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from journals.adapters.base import Evidence
from runs.states import Effects, Verdict
from runs.summary import Summary
from tests.runs.journal import LINES, NOW, fold_import, fold_native, imported, native

ROUNDS = 1_500  # runs per kind of runtime, each with several chances to die
EVIDENCE = {
    "native": None,
    "lines": LINES,
    "on_close": Evidence(write="on_close", read="on_close", attempts=False, says_end=False),
    "never": Evidence(write="never", read="never", attempts=False, says_end=False),
}


@dataclass
class Process:
    """One run of a scripted agent: every step is a write whose effects are counted, or a read."""

    runtime: str
    dice: random.Random
    lines: list[dict[str, Any]] = field(default_factory=list)
    effects: Counter[int] = field(default_factory=Counter)
    begun: Counter[int] = field(default_factory=Counter)
    epoch: int = 1
    recoveries: int = 1
    over: bool = False

    def live(self, steps: int) -> None:
        """Runs to the end, or until it dies for good."""
        self.say(kind="run.started")
        for step in range(1, steps + 1):
            while not self.execute(step, write=self.dice.random() < 0.7):
                if self.dice.random() < 0.4:
                    return
                self.epoch += 1
                self.recoveries += 1
        self.say(kind="run.completed")
        self.over = True

    def say(self, **line: Any) -> None:
        self.lines.append({"epoch": self.epoch, **line} if self.runtime == "native" else line)

    def execute(self, step: int, *, write: bool) -> bool:
        """One attempt of a step; False when the process died in it."""
        if self.begun[step]:
            write = (step in self.effects) or self.writes[step]
        self.writes[step] = write
        self.begun[step] += 1
        place = {"name": f"s{step}", "step": step, "effect": "write" if write else "read", "in": step}
        attempt = self.begun[step] if self.runtime != "native" else 1
        if (self.runtime in ("native", "lines") and write) or (self.runtime == "on_close" and self.begun[step] == 1):
            self.say(kind="tool.started", **place, attempt=attempt)
        if self.dice.random() < 0.15:
            return False
        if write:
            self.effects[step] += 1
        if self.dice.random() < 0.15:
            return False
        if self.runtime == "on_close" and attempt > 1:
            self.say(kind="tool.error", **place, attempt=attempt - 1, error={"type": "StartToCloseTimeout"})
        self.say(kind="tool.result", **place, attempt=attempt if self.runtime != "never" else 1, out=step)
        return True

    @property
    def writes(self) -> dict[int, bool]:
        return self.__dict__.setdefault("_writes", {})

    def folded(self) -> Summary:
        if self.runtime == "native":
            return fold_native(
                native(*self.lines),
                worker="" if self.over else "w1",
                ended="completed" if self.over else "",
                lease_until=None if self.over else NOW,
            )
        out = {
            "status": "completed" if self.over else "running",
            "complete": self.over,
            "pending": [],
            "waiting": [],
            "loop": {"recoveries": self.recoveries},
        }
        told = [] if self.runtime == "lines" else [{"kind": "note", "name": "runtime.state", "out": out}]
        lines = [{"seq": n, **line} for n, line in enumerate(self.lines, 1)] if self.runtime != "never" else self.lines
        return fold_import(imported([*lines, *told]), evidence=EVIDENCE[self.runtime] or LINES)


@pytest.mark.parametrize("runtime", list(EVIDENCE))
def test_nothing_that_is_called_safe_happened_twice_or_not_at_all(runtime: str) -> None:
    alarms = false_alarms = 0
    for n in range(ROUNDS):
        process = Process(runtime, random.Random(f"{runtime}{n}"))
        process.live(steps=process.dice.randint(1, 5))
        summary = process.folded()
        rows = {r.step.number: r for r in summary.steps}
        shown = {g.step for g in summary.gaps}
        for step, write in process.writes.items():
            happened = process.effects[step]
            row = rows.get(step)
            if row is None:
                assert not write or happened == 0 or shown & {step, None}, (n, step)
                continue
            judged = row.judged
            if write:
                assert judged.effects != Effects.NONE or happened == 0, (n, step)
                assert judged.effects != Effects.ONE or happened == 1, (n, step)
                assert judged.effects != Effects.AT_LEAST_ONE or happened >= 1, (n, step)
                assert judged.verdict != Verdict.DONE or happened >= 1, (n, step)
            if judged.verdict == Verdict.NOT_STARTED:
                assert happened == 0, (n, step)
            if judged.verdict == Verdict.MAY_RUN_TWICE and write:
                alarms += 1
                false_alarms += happened == 0
            if happened >= 2 and judged.verdict == Verdict.DONE:
                assert "possible_double_effect" in {f.code for f in summary.findings}, (n, step)
    if EVIDENCE[runtime] is None or EVIDENCE[runtime] is LINES:
        # A process that dies between the start's record and the effect cannot be told from one that dies behind it.
        assert alarms > 100
        assert false_alarms < alarms * 0.7
