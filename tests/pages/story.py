"""Runs in the states that pages show, made through the worker's API as a real worker makes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from journals import store
from tests.journals.agents import Worker

VERSIONS = {"app": "2026.11.3", "prompt": {"refund-policy": "12"}, "model": {"decide": "m-5"}, "sdk": "drainboard 0.1"}
TOOLS = {
    "app": "2026.11.3",
    "tools": {"lookup_order": "sha256:" + "a1" * 32, "send_refund": "sha256:" + "b2" * 32},
    "sdk": "drainboard 0.1",
}


def begun(
    token: Callable[..., str], run: str, *, agent: str = "refund", environment: str = "prod", build: str = "41"
) -> Worker:
    """A run that a worker has opened."""
    return (
        Worker(token("worker"), run=run, agent=agent, environment=environment).start({"order": 8812}).open(build, "w-3")
    )


def model(worker: Worker, step: int, call: str, *, prompt: str = "12") -> bytes:
    return worker.line(
        "model.result", name="decide", step=step, effect="read", **{"in": [{"role": "user", "content": "Refund order 8812"}]},
        out={"call": call}, versions={**VERSIONS, "prompt": {"refund-policy": prompt}}, model_reported="m-5",
    )  # fmt: skip


def started(worker: Worker, step: int, name: str, *, effect: str = "read", **more: Any) -> bytes:
    return worker.line(
        "tool.started", name=name, step=step, effect=effect, **{"in": {"order": 8812}}, versions=TOOLS, **more
    )


def answered(worker: Worker, step: int, name: str, out: Any) -> bytes:
    return worker.line("tool.result", name=name, step=step, out=out)


def sent(worker: Worker, *lines: bytes) -> Worker:
    answer = worker.post(*lines)
    assert answer.status_code == 200, answer.content
    return worker


def refund_in_the_gap(token: Callable[..., str], run: str = "refund-8812") -> Worker:
    """The first process died inside step 4, after the provider may have taken the refund."""
    worker = begun(token, run)
    return sent(
        worker, model(worker, 1, "lookup_order"), started(worker, 2, "lookup_order"),
        answered(worker, 2, "lookup_order", {"order": 8812, "paid": "40.00"}), model(worker, 3, "send_refund"),
        started(worker, 4, "send_refund", effect="write", key=f"prod/refund/{run}::4"),
    )  # fmt: skip


def long_run(token: Callable[..., str], run: str, *, rounds: int, gap: bool = True) -> Worker:
    """`rounds` times a model call and a tool call; the prompt changes half way; the last tool has no result if `gap`."""
    worker = begun(token, run)
    lines = []
    for n in range(rounds):
        step = 2 * n + 1
        lines.append(model(worker, step, "lookup_order", prompt="12" if n < rounds // 2 else "14"))
        lines.append(
            started(
                worker,
                step + 1,
                "send_refund" if n == rounds - 1 else "lookup_order",
                effect="write" if n == rounds - 1 else "read",
                key=f"k{step + 1}",
            )
        )
        if n < rounds - 1 or not gap:
            lines.append(answered(worker, step + 1, "lookup_order", {"round": n}))
    for at in range(0, len(lines), 500):
        sent(worker, *lines[at : at + 500])
    return worker


def failed(token: Callable[..., str], run: str = "refund-1009") -> Worker:
    """The card network said no, and the agent ended with that."""
    worker = begun(token, run)
    error = {
        "type": "CardDeclined",
        "message": "card network declined the refund",
        "trace": "Traceback: agent.py line 12",
    }
    return sent(
        worker, model(worker, 1, "send_refund"), started(worker, 2, "send_refund", effect="write", key="k2"),
        worker.line("tool.error", name="send_refund", step=2, error=error), worker.line("run.failed", error=error),
    )  # fmt: skip


def completed(token: Callable[..., str], run: str, **more: Any) -> Worker:
    worker = begun(token, run, **more)
    return sent(worker, model(worker, 1, "none"), worker.line("run.completed", out="done"))


def parked(token: Callable[..., str], run: str, **more: Any) -> Worker:
    worker = begun(token, run, **more)
    return sent(worker, model(worker, 1, "ask"), worker.line("run.parked", reason="signal:customer_reply"))


def lease_over(worker: Worker) -> None:
    """The worker is dead and its lease has run out."""
    from datetime import timedelta

    from django.db import transaction

    with transaction.atomic():
        head = store.lock(worker.head.id)
        store.change(head.id, lease_until=timedelta(seconds=-1))


def asking(token: Callable[..., str], run: str = "order-7") -> Worker:
    """Parked on an approval that nobody has decided; step 2 waits for it."""
    from tests.approvals.asking import Asker

    worker = Asker(token("worker"), run=run, agent="procurement", environment="prod").start({"n": 1}).open("1", "w-1")
    sent(worker, model(worker, 1, "pay"))
    assert worker.ask(step=2).status_code == 200
    return sent(worker, worker.line("run.parked", reason="approval:a1"))


def decided(worker: Worker, user: Any, decision: str = "approve", comment: str = "") -> None:
    """What a person said about the request of `asking`."""
    from runs.approvals import actions
    from runs.approvals.models import Approval

    asked = Approval.objects.get(head_id=worker.head.id)
    actions.decide(
        asked.id, user=user, said=actions.Said(decision=decision, fingerprint=asked.fingerprint, comment=comment)
    )
