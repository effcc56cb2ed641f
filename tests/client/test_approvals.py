"""A person says yes to one artifact, and the yes is used once."""

from __future__ import annotations

from typing import Any

import drainboard
import pytest
from drainboard import wire

from tests.client.conftest import Crash, Work
from tests.client.journal_server import Journal, JournalServer

VERSIONS = {"app": "1", "tools": {"pay": "digest-of-pay"}}
ARGS = {"iban": "DE00", "amount": "4000.00"}


def payer(calls: list[Any], args: Any = ARGS, **ask: Any) -> drainboard.Agent:
    def pay(order: Any, key: str) -> str:
        calls.append((order, key))
        return "paid"

    @drainboard.agent("test", versions=VERSIONS)
    def agent(run: drainboard.Run, task: Any) -> Any:
        asked = {"tool": "pay", "args": ARGS, **ask}
        try:
            yes = run.approve("Pay the supplier", **asked)
        except drainboard.ApprovalDenied as e:
            return f"denied by {e.by}: {e.comment}"
        except drainboard.ApprovalSentBack as e:
            return f"sent back: {e.comment}"
        except drainboard.ApprovalExpired:
            return "expired"
        return run.tool("pay", pay, args, approval=yes)

    return agent


def asked(server: JournalServer, work: Work, **ask: Any) -> tuple[Journal, str]:
    """A run that waits for its approval."""
    run = server.run()
    assert work(payer([], **ask), run).status == "parked"
    return run, str(run.of("approval.requested")[0]["approval"])


def test_parks_on_its_approval_with_the_fingerprint_of_exactly_this(server: JournalServer, work: Work) -> None:
    run, approval = asked(server, work, note="the invoice is due", requested_by="carol", expires=3600)
    entry = run.of("approval.requested")[0]
    assert run.parked_on == f"approval:{approval}"
    assert run.lease_until == 0
    assert entry["artifact"] == {"tool": "pay", "args": ARGS}
    assert entry["fingerprint"] == wire.digest({
        "artifact": {"tool": "pay", "args": ARGS}, "tool_schema": "digest-of-pay", "run": "r1", "branch": "", "step": 1,
        "environment": "prod", "policy": 0,
    })  # fmt: skip
    assert (entry["name"], entry["note"], entry["requested_by"]) == ("Pay the supplier", "the invoice is due", "carol")
    assert entry["expires_at"] > entry["at"]
    assert entry["versions"]["tools"] == {"pay": "digest-of-pay"}


def test_uses_a_yes_once_and_says_that_it_was_delivered(server: JournalServer, work: Work) -> None:
    run, approval = asked(server, work)
    run.decide(approval, "approve")
    calls: list[Any] = []
    assert work(payer(calls), run).result == "paid"
    assert calls == [(ARGS, "prod/test/r1::2")]
    assert [k for k in run.kinds() if "approval" in k or "tool" in k] == [
        "approval.requested", "approval.decided", "approval.delivered", "approval.used", "tool.started", "tool.result",
    ]  # fmt: skip
    start = run.of("tool.started")[0]
    assert (start["approval"], start["fingerprint"]) == (approval, run.of("approval.requested")[0]["fingerprint"])


@pytest.mark.parametrize(
    ("decision", "result"),
    [("reject", "denied by bob: too much"), ("send_back", "sent back: too much")],
)
def test_raises_another_answer_alike_on_every_replay(
    server: JournalServer, work: Work, decision: str, result: str
) -> None:
    run, approval = asked(server, work)
    run.decide(approval, decision, reason="too much")
    calls: list[Any] = []
    assert work(payer(calls), run).result == result
    run.ended = ""
    run.entries = [e for e in run.entries if e["kind"] != "run.completed"]
    assert work(payer(calls), run).result == result
    assert calls == []


def test_raises_expiry(server: JournalServer, work: Work) -> None:
    run, approval = asked(server, work)
    run.record(kind="approval.expired", approval=approval)
    assert work(payer([]), run).result == "expired"


def test_parks_again_when_it_is_opened_before_the_decision(server: JournalServer, work: Work) -> None:
    run, _ = asked(server, work)
    assert work(payer([]), run).status == "parked"
    assert run.kinds().count("approval.requested") == 1


def test_asks_again_after_a_withdrawal(server: JournalServer, work: Work) -> None:
    run, approval = asked(server, work)
    run.decide(approval, "approve")
    run.record(kind="approval.withdrawn", approval=approval, reason="the schema changed")
    assert work(payer([]), run).status == "parked"
    first, second = run.of("approval.requested")
    assert (first["approval"], second["attempt"]) == (approval, 2)
    run.decide(second["approval"], "approve")
    assert work(payer([]), run).result == "paid"


def test_holds_a_run_whose_artifact_changed_after_the_yes(server: JournalServer, work: Work) -> None:
    run, approval = asked(server, work)
    run.decide(approval, "approve")
    calls: list[Any] = []
    assert work(payer(calls, args={**ARGS, "amount": "9000.00"}), run).status == "held"
    assert run.hold == "ApprovalMismatch"
    assert calls == []
    assert not run.of("tool.started")


def test_holds_a_run_that_walks_around_the_gate(server: JournalServer, work: Work) -> None:
    calls: list[int] = []

    @drainboard.agent("test")
    def agent(run: drainboard.Run, task: Any) -> None:
        run.tool("pay", lambda: calls.append(1))

    run = server.run()
    run.gated.add("pay")
    assert work(agent, run).status == "held"
    assert run.hold == "ApprovalRequired"
    assert calls == []


def test_gives_the_same_step_the_same_yes_after_a_crash(server: JournalServer, work: Work) -> None:
    run, approval = asked(server, work)
    run.decide(approval, "approve")

    class Dies(list[Any]):
        def append(self, item: Any) -> None:
            super().append(item)
            if len(self) == 1:
                raise Crash

    calls = Dies()
    with pytest.raises(Crash):
        work(payer(calls), run)
    assert work(payer(calls), run).result == "paid"
    assert len(calls) == 2
    assert run.kinds().count("approval.used") == 1
    assert len({key for _, key in calls}) == 1


@pytest.mark.parametrize("artifact", [float("nan"), {"n": 2**60}, "\ud800", {"x": {1}}])
def test_refuses_an_artifact_with_more_than_one_reading(server: JournalServer, work: Work, artifact: Any) -> None:
    run = server.run()
    assert work(payer([], tool=None, args=None, artifact=artifact), run).status == "failed"
    assert not run.of("approval.requested")


def twice(calls: list[Any]) -> drainboard.Agent:
    def pay(args: Any, key: str) -> str:
        calls.append(args)
        return "paid"

    @drainboard.agent("test", versions=VERSIONS)
    def agent(run: drainboard.Run, task: Any) -> None:
        for n in (1, 2):
            yes = run.approve("Pay", tool="pay", args={"n": n})
            run.tool("pay", pay, {"n": n}, approval=yes)

    return agent


def test_is_not_woken_by_what_it_recorded_itself(server: JournalServer, work: Work) -> None:
    calls: list[Any] = []
    run = server.run()
    for n in (1, 2):
        assert work(twice(calls), run).status == "parked"
        assert not run.runnable, "its own request, delivery and use are no news"
        run.decide(run.of("approval.requested")[-1]["approval"], "approve")
        assert len(run.of("approval.requested")) == n
    assert work(twice(calls), run).status == "completed"
    assert calls == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize("call", ["approvals", "deliver", "use"])
def test_is_woken_at_once_by_a_decision_that_came_behind_its_own_entries(
    server: JournalServer, work: Work, call: str
) -> None:
    run = server.run()
    assert work(twice([]), run).status == "parked"
    run.decide(run.of("approval.requested")[0]["approval"], "approve")

    def meanwhile(method: str, path: str, when: str) -> None:
        if when == "after" and method == "POST" and path.endswith(f"/{call}"):
            run.record(kind="signal.received", name="other", out=1)

    server.fault = meanwhile
    assert work(twice([]), run).status == "parked"
    assert run.runnable, "an entry that nobody here has read is never passed over"
