"""A run that parks is left alone until something comes, and is woken at once by what came before it was parked."""

from __future__ import annotations

from typing import Any

import drainboard
import pytest
from django.db import connection
from drainboard import Client, Worker

from journals import store
from runs.approvals import actions
from runs.approvals.models import Approval

pytestmark = pytest.mark.processes


def decide(person: Any, decision: str = "approve") -> None:
    approval = Approval.objects.filter(state="requested").get()
    said = actions.Said(decision=decision, fingerprint=approval.fingerprint, comment="seen")
    actions.decide(approval.id, user=person, said=said)


def worked(client: Client, agent: drainboard.Agent) -> list[str]:
    """How the runs that a worker took ended, until nothing was left to claim; sorted, since a woken run may end before its parking is told."""
    outcomes: list[drainboard.Outcome] = []
    Worker(client, agent, build="1", poll_s=0.05, on_outcome=outcomes.append).run(until_idle=True)
    return sorted(o.status for o in outcomes)


@drainboard.agent("buyer")
def buyer(run: drainboard.Run, task: Any) -> list[Any]:
    """Two orders, each after a yes of its own."""
    made = []
    for n in (1, 2):
        yes = run.approve(f"Order {n}", tool="order", args={"n": n})
        made.append(run.tool("order", lambda args: args["n"], {"n": n}, approval=yes))
    return made


def kinds(client: Client, key: str) -> list[str]:
    return [e["kind"] for e in client.entries(key)]


def test_parks_once_on_each_approval(client: Client, people: dict[str, Any]) -> None:
    key = client.start(buyer.name, None).key
    assert worked(client, buyer) == ["parked"]
    decide(people["bob"])
    assert worked(client, buyer) == ["parked"], "what this worker recorded itself does not wake the run"
    decide(people["bob"])
    assert worked(client, buyer) == ["completed"]
    assert (kinds(client, key).count("run.parked"), kinds(client, key).count("run.resumed")) == (2, 3)


def test_is_woken_at_once_by_a_decision_that_came_before_it_was_parked(client: Client, people: dict[str, Any]) -> None:
    class Quick(Client):
        """The decision comes between the request and the parking."""

        def post_line(self, key: str, path: str, line: bytes, *, epoch: int) -> Any:
            got = super().post_line(key, path, line, epoch=epoch)
            if path == "/approvals":
                decide(people["bob"])
                connection.close()  # this is a thread of the worker
            return got

    client.start(buyer.name, None)
    with Quick(client.http.url, client.http.token) as quick:
        assert worked(quick, buyer) == ["completed", "parked", "parked"]


def test_is_woken_at_once_by_a_signal_that_came_before_it_was_parked(client: Client) -> None:
    @drainboard.agent("waiter")
    def waiter(run: drainboard.Run, task: Any) -> Any:
        run.tool("note", lambda: None, rerun_safe=True)
        return run.signal("go")

    class Late(Client):
        """The signal comes between the last look and the parking."""

        def append(self, key: str, lines: Any, **how: Any) -> Any:
            if b'"run.parked"' in lines[-1]:
                self.signal(key, "go", 1, id="once")
            return super().append(key, lines, **how)

    key = client.start(waiter.name, None).key
    with Late(client.http.url, client.http.token) as late:
        assert worked(late, waiter) == ["completed", "parked"]
    assert store.find(key=key).ended == "completed"
