"""A worker that was stopped past its lease comes back while another one has its run: it is refused, and each key has one effect.

`DRAINBOARD_TRIES=100` makes more tries of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from drainboard import Client

from journals import store
from tests.processes.provider import Provider, Request, Stage
from tests.processes.workers import WorkerProcess, Workers

pytestmark = pytest.mark.processes

TRIES = int(os.environ.get("DRAINBOARD_TRIES", "12"))
AT_ONCE = 3
LEASE_S = 1.0
# Where the first owner is stopped: what it has asked the provider for, and whether that has had its effect.
MOMENTS: tuple[tuple[str, str, Stage], ...] = (
    ("before its write starts", "quote", "after"),
    ("before the effect", "pay", "before"),
    ("after the effect", "pay", "after"),
)


@dataclass(frozen=True)
class Try:
    """One run with two owners, when all is over."""

    run: str
    key: str
    moment: str
    first: dict[str, Any]  # the outcomes that the two workers told
    second: dict[str, Any]


def one_try(n: int, client: Client, workers: Workers, provider: Provider) -> Try:
    """Stops the first owner, lets a second take over, and continues the first while the second still works."""
    moment, what, stage = MOMENTS[n % len(MOMENTS)]
    run = f"payer-{n}"
    key = client.start("payer", {"run": run}, run_id=run).key

    def asked_by(sender: str, what: str) -> Any:
        return lambda r: (r.sender, r.what) == (sender, what)

    first_gate = provider.gate(stage, asked_by(f"first-{n}", what))
    second_gate = provider.gate("after", asked_by(f"second-{n}", "tell"))
    first = owner(workers, f"first-{n}", key, lease_s=LEASE_S)
    provider.wait(lambda: bool(first_gate.waiting), f"the first owner of {run} asks for {what}")
    first.freeze()
    second = owner(workers, f"second-{n}", key, lease_s=60)
    provider.wait(lambda: bool(second_gate.waiting), f"the second owner of {run} is in its last step")
    first_gate.open()
    first.thaw()
    assert first.ended() == 0, first.log()
    second_gate.open()
    assert second.ended() == 0, second.log()
    return Try(run, key, moment, first.outcomes()[run], second.outcomes()[run])


def owner(workers: Workers, name: str, key: str, *, lease_s: float) -> WorkerProcess:
    return workers.start("tests.processes.agents:payer", "--run", key, "--poll", "0.1", name=name, lease_s=lease_s)


def test_the_owner_that_came_back_changes_nothing(
    client: Client, workers: Workers, provider: Provider, figures: Callable[[str], None]
) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        tries = list(pool.map(lambda n: one_try(n, client, workers, provider), range(TRIES)))
    overlapping = 0
    for made in tries:
        entries = list(client.entries(made.key))
        overlapping += came_back_after_the_takeover(made, entries)
        check_effects(made, [e for e in provider.effects if e.body["run"] == made.run], provider.requests)
        check_journal(made, entries)
    figures(f"{overlapping} of {TRIES} stopped owners wrote after the takeover; {len(provider.effects)} effects")
    assert overlapping >= 0.9 * TRIES
    assert len({e.key for e in provider.effects}) == len(provider.effects) == 2 * TRIES


def came_back_after_the_takeover(made: Try, entries: list[Any]) -> bool:
    """Whether the first owner tried to write while the second one had the run: the server refused it, naming the epoch."""
    assert made.first["status"] == "left"
    assert made.first["reason"].startswith("LeaseLost"), made.first
    takeover, end = (next(i for i, e in enumerate(entries) if e["kind"] == kind and e["seq"] > 2) for kind in
                     ("run.resumed", "run.completed"))  # fmt: skip
    late = [i for i, e in enumerate(entries) if e["kind"] == "late.result"]
    return "epoch 2" in made.first["reason"] and all(takeover < i < end for i in late)


def check_effects(made: Try, effects: list[Request], requests: list[Request]) -> None:
    """One effect per key, in the order of the steps, whoever asked for it."""
    assert [e.what for e in effects] == ["pay", "tell"]
    assert [e.key for e in effects] == [f"prod/payer/{made.run}::2", f"prod/payer/{made.run}::3"]
    asked = [r.sender.partition("-")[0] for r in requests if r.key == effects[0].key]
    assert sorted(asked) == (["second"] if made.moment == "before its write starts" else ["first", "second"])


def check_journal(made: Try, entries: list[Any]) -> None:
    """No fork, one result per step, the late result of a write kept as evidence and as nothing else."""
    checked = store.verify(store.find(key=made.key).id)
    assert checked.ok, (made, checked)
    assert [e["seq"] for e in entries] == list(range(1, len(entries) + 1))
    takeover = next(e["seq"] for e in entries if e["kind"] == "run.resumed" and e["epoch"] == 2)
    assert all(e["seq"] < takeover for e in entries if e["id"].startswith("1."))
    results = [(e["step"], e["kind"]) for e in entries if e["kind"].endswith((".result", ".error"))]
    late = [e for e in entries if e["kind"] == "late.result"]
    assert sorted(r for r in results if r[1] != "late.result") == [(n, "tool.result") for n in (1, 2, 3)]
    assert [(e["step"], e["epoch"], e["out"]["number"] > 0) for e in late] == (
        [] if made.moment == "before its write starts" else [(2, 1, True)]
    )
    assert made.second["status"] == "completed"
    paid = next(e["out"] for e in entries if e["kind"] == "tool.result" and e["step"] == 2)
    assert made.second["result"] == paid
