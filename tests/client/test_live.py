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
