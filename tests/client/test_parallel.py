"""Branches: numbered on their own, answered in branch order, parked and stopped together."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import drainboard
import pytest

from tests.client.conftest import Crash, Work
from tests.client.journal_server import JournalServer


@pytest.mark.parametrize("first", [0, 1, 2])
def test_gives_results_in_branch_order_whatever_the_order_of_completion(
    server: JournalServer, work: Work, first: int
) -> None:
    done = [threading.Event() for _ in range(3)]
    order = [first, *(i for i in range(3) if i != first)]

    def branch(i: int) -> Any:
        before = order.index(i) - 1

        def work_on(run: drainboard.Run) -> str:
            def step() -> str:
                assert before < 0 or done[order[before]].wait(30)
                return f"result {i}"

            got = run.tool("t", step, effect="read")
            done[i].set()
            return str(got)

        return work_on

    @drainboard.agent("test")
    def agent(run: drainboard.Run, task: Any) -> Any:
        run.now()
        got = run.parallel(*(branch(i) for i in range(3)))
        run.uuid()
        return got

    run = server.run()
    assert work(agent, run).result == ["result 0", "result 1", "result 2"]
    assert [e["branch"] for e in run.of("tool.result")] == [f"2.{i + 1}" for i in order]
    assert [e["step"] for e in run.of("parallel.started", "tool.result", "value.result")] == [1, 2, 1, 1, 1, 3]


def test_replays_each_branch_from_its_own_record(server: JournalServer, work: Work) -> None:
    calls: list[str] = []

    def branch(name: str) -> Any:
        def steps(run: drainboard.Run) -> list[str]:
            return [
                run.tool("t", lambda n=n: calls.append(f"{name}{n}") or f"{name}{n}", effect="read") for n in (1, 2)
            ]

        return steps

    @drainboard.agent("test")
    def agent(run: drainboard.Run, task: Any) -> Any:
        got = run.parallel(branch("a"), branch("b"), limit=1)
        if len(calls) == 4 and not run.id.endswith("x"):
            calls.append("crash")
            raise Crash
        return got

    run = server.run()
    with pytest.raises(Crash):
        work(agent, run)
    assert work(agent, run).result == [["a1", "a2"], ["b1", "b2"]]
    assert len(calls) == 5


def test_nests_branches(server: JournalServer, work: Work) -> None:
    @drainboard.agent("test")
    def agent(run: drainboard.Run, task: Any) -> Any:
        return run.parallel(lambda r: r.parallel(lambda s: (s.now(), s.branch, s.key())[1:], lambda s: s.branch))

    run = server.run()
    assert work(agent, run).result == [[["1.1.1.1", "prod/test/r1:1.1.1.1:2"], "1.1.1.2"]]


def test_refuses_the_parents_run_inside_a_branch(server: JournalServer, work: Work) -> None:
    @drainboard.agent("test")
    def agent(run: drainboard.Run, task: Any) -> Any:
        return run.parallel(lambda _: run.now())

    run = server.run()
    assert work(agent, run).status == "failed"
    assert "while step 1 (parallel) is still open" in run.of("run.failed")[0]["error"]["message"]


def test_raises_the_first_failure_in_branch_order_after_all_have_ended(server: JournalServer, work: Work) -> None:
    second_failed = threading.Event()

    def first(run: drainboard.Run) -> None:
        second_failed.wait(30)
        raise ValueError("first")

    def second(run: drainboard.Run) -> None:
        second_failed.set()
        raise ValueError("second")

    @drainboard.agent("test")
    def agent(run: drainboard.Run, task: Any) -> None:
        run.parallel(first, second)

    run = server.run()
    work(agent, run)
    assert run.of("run.failed")[0]["error"]["message"] == "first"


def test_parks_when_the_branches_left_all_wait(server: JournalServer, work: Work, client: drainboard.Client) -> None:
    calls: list[int] = []

    @drainboard.agent("test")
    def agent(run: drainboard.Run, task: Any) -> Any:
        return run.parallel(
            lambda r: r.signal("a"),
            lambda r: r.tool("t", lambda: calls.append(1) or "t", effect="read"),
            lambda r: r.signal("b"),
        )

    run = server.run()
    outcome = work(agent, run)
    assert (outcome.status, outcome.reason) == ("parked", "signal:a, signal:b")
    assert run.of("run.parked")[0]["also"] == ["signal:b"]
    assert run.wake_at is not None, "nothing wakes it for the second signal, so it looks again"
    client.signal(run.key, "b", 2)
    assert work(agent, run).reason == "signal:a"
    client.signal(run.key, "a", 1)
    assert work(agent, run).result == [1, "t", 2]
    assert calls == [1]


def test_holds_a_build_with_another_number_of_branches(server: JournalServer, work: Work) -> None:
    def agent_of(n: int) -> drainboard.Agent:
        @drainboard.agent("test")
        def agent(run: drainboard.Run, task: Any) -> None:
            run.parallel(*[lambda r: r.now()] * n)
            if n == 2:
                raise Crash

        return agent

    run = server.run()
    with pytest.raises(Crash):
        work(agent_of(2), run)
    assert work(agent_of(3), run).status == "held"


def test_parks_on_the_gap_of_a_branch(server: JournalServer, work: Work) -> None:
    def die() -> None:
        raise Crash

    @drainboard.agent("test")
    def agent(run: drainboard.Run, task: Any) -> None:
        run.parallel(lambda r: r.now(), lambda r: r.tool("t", die))

    run = server.run()
    with pytest.raises(Crash):
        work(agent, run)
    assert work(agent, run).reason == "gap:1.2:1"


def test_runs_async_agents_with_async_and_plain_functions(server: JournalServer, work: Work) -> None:
    calls: list[str] = []

    async def ask(messages: list[str]) -> dict[str, str]:
        await asyncio.sleep(0)
        calls.append("ask")
        return {"text": "hi"}

    def pay(amount: int, key: str) -> str:
        calls.append(key)
        if len(calls) == 2:
            raise Crash
        return "paid"

    @drainboard.agent("test")
    async def agent(run: drainboard.AsyncRun, task: Any) -> Any:
        assert drainboard.current_run() is run
        reply = await run.model("decide", ask, ["x"])
        paid = await run.tool("pay", pay, 4)

        async def branch(r: drainboard.AsyncRun) -> str:
            await r.now()
            return str(await r.uuid())

        both = await run.parallel(branch, branch)
        return [reply.text, paid, len(set(both)), await run.random() < 1, run.version("v", 1, 3)]

    run = server.run()
    with pytest.raises(Crash):
        work(agent, run)
    assert work(agent, run).result == ["hi", "paid", 2, True, 3]
    assert calls == ["ask", "prod/test/r1::2", "prod/test/r1::2"]


def test_refuses_concurrent_steps_of_one_async_branch(server: JournalServer, work: Work) -> None:
    async def slow() -> None:
        await asyncio.sleep(0.01)

    @drainboard.agent("test")
    async def agent(run: drainboard.AsyncRun, task: Any) -> None:
        await asyncio.gather(run.tool("a", slow, effect="read"), run.tool("b", slow, effect="read"))

    run = server.run()
    assert work(agent, run).status == "failed"
    assert "run.parallel" in run.of("run.failed")[0]["error"]["message"]


def test_parks_an_async_agent(server: JournalServer, work: Work, client: drainboard.Client) -> None:
    @drainboard.agent("test")
    async def agent(run: drainboard.AsyncRun, task: Any) -> Any:
        return await run.signal("go")

    run = server.run()
    assert work(agent, run).status == "parked"
    client.signal(run.key, "go", "now")
    assert work(agent, run).result == "now"


def test_refuses_an_async_function_in_a_plain_agent_before_it_runs(server: JournalServer, work: Work) -> None:
    async def ask() -> None:
        raise AssertionError("ran")

    @drainboard.agent("test")
    def agent(run: drainboard.Run, task: Any) -> None:
        run.model("m", ask)

    run = server.run()
    assert work(agent, run).status == "failed"
    assert "async function" in run.of("run.failed")[0]["error"]["message"]
