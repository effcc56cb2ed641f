"""A sample of `make verdicts`: nothing that is called safe happened otherwise, and a guard that is off is seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from journals.adapters.dbos import state as dbos_state
from journals.adapters.temporal import facts as temporal_facts
from runs import gaps, verdicts
from tests.verdicts.running import WORLDS, Tally, run

POINTS = 100


def told(tally: Tally) -> str:
    return "\n".join(f"{kind} ({times}): {tally.examples[kind]}" for kind, times in tally.safe.items())


@pytest.mark.parametrize("runtime", list(WORLDS))
def test_nothing_that_is_called_safe_happened_otherwise(runtime: str) -> None:
    tally = run(runtime, points=POINTS, seed="a sample")
    assert not tally.safe, told(tally)
    assert sum(tally.blind.values()) > 0  # there were dangers to see


def without(module: Any, name: str, answer: Any) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(module, name, lambda *_, **__: answer)


@pytest.mark.parametrize(
    ("runtime", "switch", "kind"),
    [
        ("native", without(gaps, "in_the_gap", False), "no gap before a repeat"),
        ("native", without(verdicts, "_ran_once", True), "effects one"),
        ("dbos", without(dbos_state, "_next_may_run", False), "a repeat that nothing tells"),
        ("temporal", without(temporal_facts, "_task", None), "a repeat that nothing tells"),
        ("restate", lambda patch: patch.setattr(verdicts.Ground, "tries_known", True), "effects one"),
    ],
)
def test_a_guard_that_is_off_is_seen(
    runtime: str, switch: Callable[[pytest.MonkeyPatch], None], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch(monkeypatch)
    assert kind in run(runtime, points=1_000, seed="a guard is off", until=kind).safe
