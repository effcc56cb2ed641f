"""The journal is away, the lease is short, somebody stops the run: no record, no effect, and every reason by name."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import drainboard
import pytest
from drainboard import Client, Worker
from drainboard.execute import execute
from drainboard.http import Http
from drainboard.session import Session
from drainboard.worker import Heart

from tests.client.conftest import Work
from tests.client.journal_server import TOKEN, Journal, JournalServer


def writer(calls: list[Any], then: Callable[[drainboard.Run], Any] = lambda run: None) -> drainboard.Agent:
    def write(text: str, key: str) -> str:
        calls.append(key)
        return "ok"

    @drainboard.agent("test")
    def agent(run: drainboard.Run, task: Any) -> Any:
        got = run.tool("write", write, "x")
        then(run)
        return got

    return agent


def failing(server: JournalServer, fault: str, when: str, times: int) -> None:
    left = [times]

    def one(method: str, path: str, at: str) -> str | None:
        if path.endswith("/entries") and at == when and left[0]:
            left[0] -= 1
            return fault
        return None

    server.fault = one


@pytest.mark.parametrize("fault", ["drop", "408", "503"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_repeats_an_append_without_doubling_it(server: JournalServer, work: Work, fault: str, when: str) -> None:
    failing(server, fault, when, times=3)
    run, calls = server.run(), []
    assert work(writer(calls), run).status == "completed"
    assert len(calls) == 1
    assert run.kinds() == ["run.started", "run.resumed", "tool.started", "tool.result", "run.completed"]


def test_starts_nothing_while_the_journal_is_away(server: JournalServer) -> None:
    run, calls = server.run(), []
    with Client(server.url, TOKEN, patience_s=0.2) as client:
        opened = client.open(run.key, build="1", worker="w", lease_s=30, versions={})
        failing(server, "drop", "before", times=1 << 30)
        outcome = execute(writer(calls), Session(client, opened, build="1", versions=drainboard.Versions()))
    assert (outcome.status, calls) == ("left", [])
    assert outcome.reason.startswith("JournalUnavailable")
    assert not run.ended


def test_names_the_server_that_nobody_answers_for() -> None:
    with pytest.raises(drainboard.JournalUnavailable, match=r"127\.0\.0\.1:9 did not take GET"):
        Http("http://127.0.0.1:9", TOKEN, patience_s=0.1).call("GET", "/runs/x")


def test_waits_between_attempts_and_gives_up_after_its_patience() -> None:
    pauses: list[float] = []
    http = Http("http://127.0.0.1:9", TOKEN, patience_s=5, sleep=pauses.append)
    http._patience_s = 0.5
    with pytest.raises(drainboard.JournalUnavailable):
        http.call("GET", "/runs/x")
    assert pauses == sorted(pauses)
    assert 0.04 <= pauses[0] <= 0.06


def test_leaves_a_run_that_another_worker_took(server: JournalServer, work: Work) -> None:
    run, calls = server.run(), []

    def take(r: drainboard.Run) -> None:
        run.epoch += 1
        r.tool("second", lambda: calls.append("second"))

    outcome = work(writer(calls, take), run)
    assert (outcome.status, outcome.reason.split(":")[0]) == ("left", "LeaseLost")
    assert calls == ["prod/test/r1::1"]
    assert run.kinds()[-1] == "tool.result"


def opened_session(client: Client, run: Journal, *, asked_at: float, **how: Any) -> Session:
    run.expire()
    opened = client.open(run.key, build="1", worker="w", lease_s=10, versions={})
    return Session(client, opened, build="1", versions=drainboard.Versions(), asked_at=asked_at, **how)


def now() -> float:
    from drainboard.session import lease_clock

    return lease_clock()


def test_renews_a_lease_below_its_margin_before_a_write(server: JournalServer, client: Client) -> None:
    run, calls = server.run(), []
    session = opened_session(client, run, asked_at=now() - 9)
    assert session.lease_left_s < session.margin_s
    assert execute(writer(calls), session).status == "completed"
    beats = [p for m, p in server.requests if p.endswith("/heartbeat")]
    assert len(beats) == 1
    assert session.lease_left_s > 9


def test_starts_no_write_when_the_lease_cannot_be_renewed(server: JournalServer, client: Client) -> None:
    run, calls = server.run(), []
    session = opened_session(client, run, asked_at=now() - 9)
    server.fault = lambda method, path, when: "drop" if path.endswith("/heartbeat") else None
    outcome = execute(writer(calls), session)
    assert (outcome.status, outcome.reason.split(":")[0]) == ("left", "LeaseLost")
    assert calls == []
    assert not run.of("tool.started")


def test_does_not_run_a_write_whose_start_took_too_long_to_store(server: JournalServer, client: Client) -> None:
    run, calls = server.run(), []
    session = opened_session(client, run, asked_at=now())
    taken = session.append

    def slow(fields: Any, **how: Any) -> None:
        taken(fields, **how)
        session._lease_end = now() + 0.1
        run.epoch += 1

    session.append = slow  # type: ignore[method-assign]
    assert execute(writer(calls), session).status == "left"
    assert calls == []


def test_beats_while_a_step_runs_and_sends_a_reads_start_within_a_second(server: JournalServer, client: Client) -> None:
    run = server.run()
    session = opened_session(client, run, asked_at=now())
    session.lease_s = 0.3
    heart = Heart(tick_s=0.05)
    heart.add(session)

    def slow() -> str:
        server.wait(lambda: bool(run.of("model.started")) and any(p.endswith("/heartbeat") for _, p in server.requests))
        return "done"

    @drainboard.agent("test")
    def agent(r: drainboard.Run, task: Any) -> Any:
        return r.model("m", slow)

    try:
        assert execute(agent, session).status == "completed"
    finally:
        heart.close()
    assert [k for k in run.kinds() if k.startswith("model")] == ["model.started", "model.result"]
    start, result = run.of("model.started", "model.result")
    assert "in" in start
    assert "in" not in result
    assert result["request"] == start["request"]


def test_raises_a_stop_by_its_name_at_the_next_step(server: JournalServer, work: Work) -> None:
    run, calls, seen = server.run(), [], []

    def stopped(r: drainboard.Run) -> None:
        run.stop("PromptChanged", "the new prompt is not reviewed")
        try:
            r.tool("second", lambda: calls.append("second"))
        except drainboard.RunStopped as e:
            seen.append((e.name, e.message))
            raise

    outcome = work(writer(calls, stopped), run)
    assert outcome.status == "stopped"
    assert seen == [("PromptChanged", "the new prompt is not reviewed")]
    assert calls == ["prod/test/r1::1"]
    assert run.kinds()[-1] == "run.stopped"


def test_records_the_result_of_a_write_that_was_stopped_in_flight(server: JournalServer, work: Work) -> None:
    run = server.run()

    @drainboard.agent("test")
    def agent(r: drainboard.Run, task: Any) -> None:
        r.tool("write", lambda: run.stop("StoppedByOperator", "now"))

    assert work(agent, run).status == "stopped"
    assert run.kinds()[-3:] == ["stop.requested", "tool.result", "run.stopped"]


def test_records_a_read_that_was_stopped_in_flight_beside_other_waiting_lines(
    server: JournalServer, client: Client
) -> None:
    run = server.run()
    session = opened_session(client, run, asked_at=now())

    @drainboard.agent("test")
    def agent(r: drainboard.Run, task: Any) -> None:
        r.version("waits to be sent", 1, 2)
        r.model("m", lambda: run.stop("StoppedByOperator", "now"))

    assert execute(agent, session).status == "stopped"
    assert run.kinds()[-3:] == ["stop.requested", "model.result", "run.stopped"]


def test_learns_of_a_stop_by_its_heartbeat(server: JournalServer, client: Client) -> None:
    run = server.run()
    session = opened_session(client, run, asked_at=now())
    run.stop("ModelRetired", "gone")
    session.beat()
    with pytest.raises(drainboard.RunStopped, match="ModelRetired: gone"):
        session.ready()


def test_gives_the_lease_of_a_held_run_back(server: JournalServer, work: Work) -> None:
    run, calls = server.run(), []

    def hold(r: drainboard.Run) -> None:
        run.hold = "look at it"
        r.tool("second", lambda: calls.append("second"))

    outcome = work(writer(calls, hold), run)
    assert (outcome.status, outcome.reason.split(":")[0]) == ("left", "RunHeld")
    assert run.lease_until == 0
    assert len(calls) == 1


def test_is_refused_a_run_that_is_pinned_elsewhere(server: JournalServer, work: Work) -> None:
    run = server.run()
    run.pinned = "41"
    with pytest.raises(drainboard.PinnedToBuild):
        work(writer([]), run, build="42")


def test_stops_cleanly_after_the_step_in_flight(server: JournalServer, client: Client) -> None:
    run, calls = server.run(), []
    inside, go_on = threading.Event(), threading.Event()

    def slow(key: str) -> str:
        calls.append(key)
        inside.set()
        assert go_on.wait(30)
        return "finished"

    @drainboard.agent("test")
    def agent(r: drainboard.Run, task: Any) -> None:
        r.tool("slow", slow)
        r.tool("next", slow)

    outcomes: list[drainboard.Outcome] = []
    worker = Worker(client, agent, build="1", poll_s=0.02, on_outcome=outcomes.append)
    thread = threading.Thread(target=worker.run)
    thread.start()
    assert inside.wait(30)
    worker.stop()
    go_on.set()
    thread.join(60)
    assert not thread.is_alive()
    # A claim that was on its way may have met the released run once more; it gives it back without a step.
    assert {o.status for o in outcomes} == {"released"}
    assert [e["name"] for e in run.of("tool.started", "tool.result")] == ["slow", "slow"]
    assert run.lease_until == 0
    assert run.runnable


def test_works_on_many_runs_at_once(server: JournalServer, client: Client) -> None:
    together = threading.Barrier(3)

    @drainboard.agent("test")
    def agent(run: drainboard.Run, task: Any) -> Any:
        return run.tool("t", lambda: together.wait(30) and None, effect="read")

    runs = [server.run(f"r{i}") for i in range(3)]
    Worker(client, agent, build="1", concurrency=3, poll_s=0.02).run(until_idle=True)
    assert [r.ended for r in runs] == ["completed"] * 3


def test_takes_no_run_of_another_agent(server: JournalServer, client: Client) -> None:
    run = server.run(agent="other")
    assert Worker(client, writer([]), build="1", poll_s=0.02).run(until_idle=True) == 0
    assert run.epoch == 0


def test_uses_one_connection_again(server: JournalServer, client: Client, work: Work) -> None:
    began = time.monotonic()
    made: list[Any] = []
    link = client.http._link
    client.http._link = lambda: made.append(1) or link()  # type: ignore[method-assign, func-returns-value]
    work(writer([]), server.run())
    assert len(made) == 1
    assert time.monotonic() - began < 5
