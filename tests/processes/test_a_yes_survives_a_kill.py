"""A yes is given once, used once, and survives the death of the worker that was using it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from statistics import median
from typing import Any

import pytest
from drainboard import Client

from journals import store
from runs.approvals import actions
from runs.approvals.models import Approval
from tests.processes.provider import Provider, Stage
from tests.processes.waiting import until
from tests.processes.workers import WorkerProcess, Workers

pytestmark = pytest.mark.processes

WISH = {"item": "chair", "quantity": 20}
RESUMED_WITHIN_S = 2.0
DECISIONS = 5


def buyer(workers: Workers, name: str, *, lease_s: float = 30) -> WorkerProcess:
    """A worker of the procurement example, with the pause between two looks that workers have by default."""
    return workers.start("examples.procurement.agent:build_1", name=name, lease_s=lease_s)


def approve(run: str, person: Any) -> None:
    """The yes to the run's request, once it is there."""
    approval = until(lambda: Approval.objects.filter(run=store.encode_text(run)).first(), f"{run} asks for a yes")
    said = actions.Said(decision="approve", fingerprint=approval.fingerprint)
    actions.decide(approval.id, user=person, said=said)


def parked(key: str) -> bool:
    return store.find(key=key).parked_on.startswith("approval:")


def completed(key: str) -> bool:
    return store.find(key=key).ended == "completed"


@pytest.mark.parametrize("stage", ["before", "after"], ids=["before the effect", "after the effect"])
def test_a_yes_in_use_is_used_again_by_the_same_step_only(
    client: Client, provider: Provider, workers: Workers, people: dict[str, Any], stage: Stage
) -> None:
    run = "buy-1"
    key = client.start("procurement", WISH, run_id=run).key
    gate = provider.gate(stage, lambda r: r.what == "orders")
    first = buyer(workers, "first", lease_s=1)
    approve(run, people["bob"])
    provider.wait(lambda: bool(gate.waiting), "the first worker has sent its order")
    before = [e["kind"] for e in client.entries(key)]
    assert before[-2:] == ["tool.started", "approval.used"], (
        "the yes is used, and nobody knows whether the order is placed"
    )
    assert len(provider.effects) == (0 if stage == "before" else 1)
    first.kill()
    gate.drop()

    second = buyer(workers, "second")
    until(lambda: completed(key), lambda: f"{run} completes\n{second.log()}")
    assert second.terminate() == 0
    assert [(e.what, e.body["quantity"]) for e in provider.effects] == [("orders", 20)]
    assert [r.key for r in provider.requests] == [f"prod/procurement/{run}::3"] * 2
    entries = list(client.entries(key))
    kinds = [e["kind"] for e in entries]
    assert [kinds.count(k) for k in ("approval.decided", "approval.used", "tool.started", "tool.result")] == [
        1,
        1,
        2,
        1,
    ]
    starts = [e for e in entries if e["kind"] == "tool.started"]
    assert len({(e["approval"], e["fingerprint"], e["key"], e["request"]) for e in starts}) == 1
    assert Approval.objects.get().state == "used"
    assert store.verify(store.find(key=key).id).ok


def test_a_decided_run_resumes_within_two_seconds(
    client: Client, workers: Workers, people: dict[str, Any], figures: Callable[[str], None]
) -> None:
    worker = buyer(workers, "buyer")
    took = [seconds_to_resume(f"buy-{n}", client, worker, people["bob"]) for n in range(DECISIONS)]
    figures(f"from decision to tool.started: {', '.join(f'{s:.2f}' for s in took)} s")
    assert median(took) <= RESUMED_WITHIN_S, took  # one of them may meet a busy moment of the machine


def seconds_to_resume(run: str, client: Client, worker: WorkerProcess, person: Any) -> float:
    """From the decision to the start of the tool, both by the database's clock."""
    key = client.start("procurement", WISH, run_id=run).key
    until(lambda: parked(key), lambda: f"{run} parks\n{worker.log()}")
    approve(run, person)
    until(lambda: completed(key), lambda: f"{run} completes\n{worker.log()}")
    at = {e["kind"]: datetime.fromisoformat(e["recorded_at"]) for e in client.entries(key)}
    return (at["tool.started"] - at["approval.decided"]).total_seconds()
