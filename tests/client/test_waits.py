"""Timers, signals, version markers: steps that wait, and one that takes no number."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import drainboard
import pytest

from tests.client.conftest import Crash, Work
from tests.client.journal_server import JournalServer, soon


def test_parks_a_long_sleep_until_its_time(server: JournalServer, work: Work) -> None:
    wake = soon(3600)

    @drainboard.agent("test")
    def agent(run: drainboard.Run, task: Any) -> str:
        run.sleep_until(wake)
        return "awake"

    run = server.run()
    outcome = work(agent, run)
    assert (outcome.status, run.parked_on) == ("parked", "timer")
    assert run.wake_at == pytest.approx(wake.timestamp())
    assert run.lease_until == 0
    assert work(agent, run).status == "parked", "woken too early, it sleeps again"
    assert run.kinds().count("timer.started") == 1


def test_wakes_by_the_servers_clock(server: JournalServer, work: Work) -> None:
    wake = soon(3600)

    @drainboard.agent("test")
    def agent(run: drainboard.Run, task: Any) -> str:
        run.sleep_until(wake)
        return "awake"

    run = server.run()
    work(agent, run)
    record = run.record
    late = (wake + timedelta(seconds=1)).isoformat()
    run.record = lambda **fields: record(**{"recorded_at": late, **fields})  # type: ignore[method-assign]
    assert work(agent, run).result == "awake"
    assert run.kinds().count("timer.fired") == 1


def test_sleeps_a_short_time_in_place(server: JournalServer, work: Work) -> None:
    @drainboard.agent("test")
    def agent(run: drainboard.Run, task: Any) -> bool:
        until = run.now() + timedelta(milliseconds=50)
        run.sleep_until(until)
        return datetime.now(UTC) >= until

    run = server.run()
    assert work(agent, run).result is True
    assert [e["step"] for e in run.of("timer.started", "timer.fired")] == [2, 2]


def test_takes_signals_in_order_and_parks_when_there_is_none(
    server: JournalServer, client: drainboard.Client, work: Work
) -> None:
    @drainboard.agent("test")
    def agent(run: drainboard.Run, task: Any) -> list[Any]:
        return [run.signal("go"), run.signal("go")]

    run = server.run()
    assert work(agent, run).reason == "signal:go"
    client.signal(run.key, "other", 0)
    client.signal(run.key, "go", {"n": 1})
    assert work(agent, run).reason == "signal:go"
    client.signal(run.key, "go", {"n": 2})
    assert work(agent, run).result == [{"n": 1}, {"n": 2}]
    taken = [e for e in run.of("value.result") if e["name"] == "signal:go"]
    assert [run.entries[e["consumes"] - 1]["out"]["n"] for e in taken] == [1, 2]


def test_sees_a_signal_that_came_while_it_was_working(
    server: JournalServer, client: drainboard.Client, work: Work
) -> None:
    run = server.run()

    @drainboard.agent("test")
    def agent(r: drainboard.Run, task: Any) -> Any:
        r.tool("t", lambda: client.signal(run.key, "go", 5) and None, effect="read")
        return r.signal("go")

    assert work(agent, run).result == 5


def test_wakes_at_once_when_something_came_between_look_and_park(server: JournalServer, work: Work) -> None:
    run = server.run()

    @drainboard.agent("test")
    def agent(r: drainboard.Run, task: Any) -> Any:
        return r.signal("go")

    def late_signal(method: str, path: str, when: str) -> None:
        if when == "after" and method == "GET":
            run.record(kind="signal.received", name="go", out=1)

    server.fault = late_signal
    assert work(agent, run).status == "parked"
    assert run.runnable
    assert work(agent, run).result == 1


def two_steps(run: drainboard.Run) -> Any:
    first = run.now()
    if run.version("new-check", 1, 2) == 2:
        run.tool("check", lambda: 1, effect="read")
    run.tool("send", lambda: 1, rerun_safe=True)
    return first


def agent_with(body: Any) -> drainboard.Agent:
    @drainboard.agent("test")
    def agent(run: drainboard.Run, task: Any) -> Any:
        return str(body(run))

    return agent


def test_gives_new_runs_the_highest_version(server: JournalServer, work: Work) -> None:
    run = server.run()
    work(agent_with(two_steps), run)
    assert run.of("version.marker")[0]["out"] == 2
    assert "check" in [e.get("name") for e in run.entries]


def test_keeps_the_old_path_for_runs_that_are_past_it(server: JournalServer, work: Work) -> None:
    def before(run: drainboard.Run) -> None:
        run.now()
        run.tool("send", lambda: 1, rerun_safe=True)
        raise Crash

    run = server.run()
    with pytest.raises(Crash):
        work(agent_with(before), run)
    assert work(agent_with(two_steps), run).status == "completed"
    assert run.of("version.marker")[0]["out"] == 1
    assert "check" not in [e.get("name") for e in run.entries]


def test_answers_the_same_version_on_every_replay(server: JournalServer, work: Work) -> None:
    def dies(run: drainboard.Run) -> None:
        two_steps(run)
        raise Crash

    run = server.run()
    with pytest.raises(Crash):
        work(agent_with(dies), run)
    work(agent_with(two_steps), run)
    assert [e["out"] for e in run.of("version.marker")] == [2]


def test_refuses_a_recorded_version_that_this_build_dropped(server: JournalServer, work: Work) -> None:
    run = server.run()
    run.record(kind="version.marker", name="x", out=1)
    assert work(agent_with(lambda r: r.version("x", 2, 3)), run).status == "failed"
    assert "recorded 1 for change 'x'; this build supports 2 to 3" in run.of("run.failed")[0]["error"]["message"]
