"""The client against the product itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import drainboard
import pytest
from drainboard import Client, Worker
from drainboard.execute import execute
from drainboard.session import Session

from tests.client.conftest import Crash
from tests.live import Live, live, live_process  # noqa: F401

pytestmark = pytest.mark.processes


@pytest.fixture
def real(live: Live) -> Iterator[Client]:  # noqa: F811
    with Client(live.url, live.worker) as made:
        yield made


def test_records_replays_and_completes(real: Client) -> None:
    calls: list[str] = []

    def send(args: Any, key: str) -> str:
        calls.append(key)
        if len(calls) == 1:
            raise Crash
        return "sent"

    @drainboard.agent("mailer", versions={"app": "1", "prompt": "p@1", "model": "m", "tools": {"send": "d"}})
    def mailer(run: drainboard.Run, task: Any) -> Any:
        reply = run.model("decide", lambda messages: {"to": "x"}, [task])
        return [reply.to, run.tool("send", send, reply), run.uuid(), run.version("v", 1, 2)]

    started = real.start("mailer", "write", run_id="m/1")
    assert started.created
    assert not real.start("mailer", "write", run_id="m/1").created
    opened = real.open(started.key, build="1", worker="w1", lease_s=30, versions=mailer.versions.as_json())
    with pytest.raises(Crash):
        execute(mailer, Session(real, opened, build="1", versions=mailer.versions))
    real.run_call(started.key, "/release", {"epoch": opened["epoch"]})
    outcomes: list[drainboard.Outcome] = []
    Worker(real, mailer, build="1", on_outcome=outcomes.append).run(until_idle=True)
    assert [o.status for o in outcomes] == ["completed"]
    assert calls == ["prod/mailer/m%2F1::2"] * 2
    kinds = [e["kind"] for e in real.entries(started.key)]
    assert kinds == [
        "run.started", "run.resumed", "model.result", "tool.started", "run.resumed", "tool.started", "tool.result", "value.result",
        "version.marker", "run.completed",
    ]  # fmt: skip
    shown = real.show(started.key)
    assert shown["status"] == "completed"
    assert [(s["step"], s["verdict"], s["attempts"]) for s in shown["steps"]] == [
        (1, "done", 1),
        (2, "done", 2),
        (3, "done", 1),
    ]


def test_parks_and_wakes_on_a_signal(real: Client) -> None:
    @drainboard.agent("waiter")
    def waiter(run: drainboard.Run, task: Any) -> Any:
        return run.signal("go")

    started = real.start(waiter.name, None)
    outcomes: list[drainboard.Outcome] = []
    worker = Worker(real, waiter, build="1", on_outcome=outcomes.append)
    assert worker.run(until_idle=True) == 1
    assert worker.run(until_idle=True) == 0
    real.signal(started.key, "go", {"n": 1})
    worker.run(until_idle=True)
    assert [(o.status, o.result) for o in outcomes] == [("parked", None), ("completed", {"n": 1})]


def once(real: Client, agent: drainboard.Agent, key: str, **how: Any) -> drainboard.Outcome:
    """The agent's code against a freshly opened run, as a worker would call it."""
    opened = real.open(key, build="1", worker="w", lease_s=30, versions=agent.versions.as_json())
    return execute(agent, Session(real, opened, build="1", versions=agent.versions, **how))


def test_stops_between_two_steps_by_name(real: Client) -> None:
    key = ""
    calls: list[str] = []

    @drainboard.agent("stoppable")
    def stoppable(run: drainboard.Run, task: Any) -> None:
        run.tool("first", lambda: stop(key, "PromptChanged", "not reviewed"))
        run.tool("second", lambda: calls.append("second"))

    key = real.start(stoppable.name, None).key
    outcome = once(real, stoppable, key)
    assert (outcome.status, outcome.reason) == ("stopped", "PromptChanged: not reviewed")
    assert calls == []
    assert [e["kind"] for e in real.entries(key)][-3:] == ["stop.requested", "tool.result", "run.stopped"]
    with pytest.raises(drainboard.RunStopped, match="PromptChanged: not reviewed"):
        once(real, stoppable, key)


@pytest.mark.parametrize(("outcome", "result", "sent"), [("happened", "receipt 7", 1), ("did_not_happen", "ok", 2)])
def test_goes_on_after_a_person_resolved_its_gap(real: Client, outcome: str, result: str, sent: int) -> None:
    calls: list[int] = []

    def send() -> str:
        calls.append(1)
        if len(calls) == 1:
            raise Crash
        return "ok"

    @drainboard.agent("mailer")
    def mailer(run: drainboard.Run, task: Any) -> Any:
        return run.tool("send", send)

    started = real.start(mailer.name, None)
    opened = real.open(started.key, build="1", worker="w", lease_s=30, versions={})
    with pytest.raises(Crash):
        execute(mailer, Session(real, opened, build="1", versions=mailer.versions))
    real.run_call(started.key, "/release", {"epoch": opened["epoch"]})
    assert once(real, mailer, started.key).reason == "gap::1"
    resolve(started.key, outcome, b'"receipt 7"')
    outcomes: list[drainboard.Outcome] = []
    Worker(real, mailer, build="1", on_outcome=outcomes.append).run(until_idle=True)
    assert [o.result for o in outcomes] == [result]
    assert len(calls) == sent


def test_keeps_the_late_result_of_a_write_whose_run_was_taken_over(real: Client) -> None:
    @drainboard.agent("mailer")
    def mailer(run: drainboard.Run, task: Any) -> Any:
        def send(key: str) -> str:
            if len(epochs) == 1:
                real.run_call(run_key, "/release", {"epoch": epochs[0]})
                epochs.append(int(real.open(run_key, build="1", worker="other", lease_s=1, versions={})["epoch"]))
            return "sent"

        return run.tool("send", send)

    run_key = real.start(mailer.name, None).key
    opened = real.open(run_key, build="1", worker="w", lease_s=30, versions={})
    epochs = [int(opened["epoch"])]
    outcome = execute(mailer, Session(real, opened, build="1", versions=mailer.versions))
    assert (outcome.status, outcome.reason.split(":")[0]) == ("left", "LeaseLost")
    (late,) = [e for e in real.entries(run_key) if e["kind"] == "late.result"]
    assert (late["step"], late["out"], late["epoch"]) == (1, "sent", epochs[0])


def head_of(key: str) -> int:
    from journals import store

    return int(store.find(key=key).id)


def stop(key: str, name: str, message: str) -> None:
    from runs import actions

    actions.request_stop(head_of(key), name=name, message=message, by="alice", actor="person:alice")


def resolve(key: str, outcome: str, result: bytes) -> None:
    from runs import actions

    given = result if outcome == "happened" else None
    actions.resolve_gap(
        head_of(key), branch="", step=1, outcome=outcome, evidence="asked the supplier", by="alice", actor="person:alice",
        result=given,
    )  # fmt: skip
