"""Steps are numbered, recorded, and answered from the record."""

from __future__ import annotations

from typing import Any

import drainboard
import pytest

from tests.client.conftest import Crash, Work
from tests.client.journal_server import JournalServer

VERSIONS = {
    "app": "a1",
    "prompts": {"refund": {"version": "7"}},
    "models": {"main": {"id": "model-1"}},
    "tools": {"send_refund": {"schema": {"type": "object"}, "description": "Sends money"}, "lookup": "sha256:abc"},
}


class World:
    """Counts what really happened outside."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.crash_in: str = ""

    def __call__(self, name: str, value: Any) -> Any:
        self.calls.append((name, value))
        if self.crash_in == name:
            raise Crash
        return value


def refund_agent(world: World) -> drainboard.Agent:
    script = [
        {"is_final": False, "call": {"name": "lookup", "args": {"order": 8812}}},
        {"is_final": False, "call": {"name": "send_refund", "args": {"order": 8812, "amount": "40.00"}}},
        {"is_final": True, "text": "refunded"},
    ]
    tools = {
        "lookup": lambda args: world("lookup", args),
        "send_refund": lambda args, key: world("send_refund", {**args, "key": key}),
    }

    def ask_model(messages: list[Any]) -> Any:
        return world("model", script[sum(1 for m in messages if isinstance(m, dict) and "is_final" in m)])

    @drainboard.agent("test", versions=VERSIONS)
    def refund(run: drainboard.Run, task: Any) -> Any:
        messages = ["be kind", task]
        while True:
            reply = run.model("decide", ask_model, messages)
            messages.append(reply)
            if reply.is_final:
                return reply.text
            effect = "read" if reply.call.name == "lookup" else "write"
            messages.append(run.tool(reply.call.name, tools[reply.call.name], reply.call.args, effect=effect))

    return refund


def test_records_the_seed_story(server: JournalServer, work: Work) -> None:
    world, run = World(), server.run(task="order 8812 is broken")
    assert work(refund_agent(world), run).status == "completed"
    assert run.kinds() == [
        "run.started", "run.resumed", "model.result", "tool.result", "model.result", "tool.started", "tool.result",
        "model.result", "run.completed",
    ]  # fmt: skip
    assert [e.get("step") for e in run.entries[2:8]] == [1, 2, 3, 4, 4, 5]
    start = run.of("tool.started")[0]
    assert start["key"] == "prod/test/r1::4"
    assert start["in"] == {"order": 8812, "amount": "40.00"}
    assert start["versions"] == {
        "app": "a1",
        "tools": {"send_refund": drainboard.Versions.of(VERSIONS).tools["send_refund"]},
    }
    assert run.of("model.result")[0]["versions"] == {
        "app": "a1",
        "prompt": {"refund": "7"},
        "model": {"main": "model-1"},
    }
    assert run.of("run.completed")[0]["out"] == "refunded"


def test_replays_finished_steps_and_runs_the_one_in_flight_with_the_same_key(server: JournalServer, work: Work) -> None:
    world, run = World(), server.run(task="t")
    world.crash_in = "send_refund"
    with pytest.raises(Crash):
        work(refund_agent(world), run)
    assert run.kinds()[-1] == "tool.started"
    world.crash_in = ""
    assert work(refund_agent(world), run).status == "completed"
    names = [name for name, _ in world.calls]
    assert names == ["model", "lookup", "model", "send_refund", "send_refund", "model"]
    keys = {value["key"] for name, value in world.calls if name == "send_refund"}
    assert keys == {"prod/test/r1::4"}
    starts = run.of("tool.started")
    assert [s.get("attempt", 1) for s in starts] == [1, 2]
    assert run.of("tool.result")[-1]["attempt"] == 2


def test_live_and_replayed_values_are_equal(server: JournalServer, work: Work) -> None:
    seen: list[Any] = []

    @drainboard.agent("test")
    def agent(run: drainboard.Run, task: Any) -> None:
        got = run.tool("t", lambda: {"a": (1, 2.5), "b": None, "c": {"d": "é"}}, rerun_safe=True)
        seen.append((got, got.c.d, run.now(), run.uuid(), run.random()))
        if len(seen) == 1:
            raise Crash

    run = server.run()
    with pytest.raises(Crash):
        work(agent, run)
    work(agent, run)
    assert seen[0] == seen[1]
    assert seen[0][0] == {"a": [1, 2.5], "b": None, "c": {"d": "é"}}


def test_gives_current_run_to_code_below_the_agent(server: JournalServer, work: Work) -> None:
    @drainboard.agent("test")
    def agent(run: drainboard.Run, task: Any) -> Any:
        assert drainboard.current_run() is run
        return [run.id, run.environment, run.build, run.key()]

    assert work(agent, server.run(), build="9").result == ["r1", "prod", "9", "prod/test/r1::1"]
    with pytest.raises(drainboard.MisusedRun, match="no current run"):
        drainboard.current_run()


def test_encodes_each_part_of_a_key(server: JournalServer, work: Work) -> None:
    @drainboard.agent("a/b")
    def agent(run: drainboard.Run, task: Any) -> Any:
        return run.key()

    run = server.run("x:1/ü", agent="a/b", environment="prod eu")
    assert work(agent, run).result == "prod%20eu/a%2Fb/x%3A1%2F%C3%BC::1"


def test_raises_a_recorded_error_again_without_calling(server: JournalServer, work: Work) -> None:
    world, run = World(), server.run()
    caught: list[Any] = []

    def fail() -> None:
        world("fail", None)
        raise KeyError("gone")

    @drainboard.agent("test")
    def agent(run: drainboard.Run, task: Any) -> None:
        try:
            run.tool("t", fail)
        except drainboard.StepFailed as e:
            caught.append((e.type, e.message, e.attempts, str(e)))
        if len(caught) == 1:
            raise Crash

    with pytest.raises(Crash):
        work(agent, run)
    assert work(agent, run).status == "completed"
    assert caught[0] == caught[1]
    assert caught[0][:3] == ("KeyError", "'gone'", 1)
    assert len(world.calls) == 1


def test_fails_the_run_with_the_agents_own_error(server: JournalServer, work: Work) -> None:
    @drainboard.agent("test")
    def agent(run: drainboard.Run, task: Any) -> None:
        raise RuntimeError("a bug")

    run = server.run()
    assert work(agent, run).status == "failed"
    assert run.of("run.failed")[0]["error"] == {"type": "RuntimeError", "message": "a bug"}


def test_records_a_result_that_is_not_json_as_the_steps_error(server: JournalServer, work: Work) -> None:
    world, run = World(), server.run()

    @drainboard.agent("test")
    def agent(run: drainboard.Run, task: Any) -> None:
        run.tool("t", lambda: world("t", None) or {"x": {1, 2}})

    outcome = work(agent, run)
    assert outcome.status == "failed"
    assert "$.x is a set" in run.of("tool.error")[0]["error"]["message"]
    assert len(world.calls) == 1


def test_records_a_result_over_the_limit_as_the_steps_error(server: JournalServer, work: Work) -> None:
    @drainboard.agent("test")
    def agent(run: drainboard.Run, task: Any) -> Any:
        with pytest.raises(drainboard.StepFailed, match="TooLarge"):
            run.tool("t", lambda: "x" * (5 << 20))
        return "went on"

    run = server.run()
    assert work(agent, run).status == "completed"
    assert run.of("tool.error")[0]["error"]["type"] == "TooLarge"


def test_records_what_the_model_reported(server: JournalServer, work: Work) -> None:
    @drainboard.agent("test", versions=VERSIONS)
    def agent(run: drainboard.Run, task: Any) -> Any:
        run.model("a", lambda: {"model": "model-2", "usage": {"in": 3}, "text": "x"})
        return run.model("b", lambda: drainboard.Answer("y", model_reported="model-3", usage={"out": 4}))

    run = server.run()
    assert work(agent, run).result == "y"
    a, b = run.of("model.result")
    assert (a["model_reported"], a["usage"]) == ("model-2", {"in": 3})
    assert (b["model_reported"], b["usage"], b["out"]) == ("model-3", {"out": 4}, "y")


def test_reads_a_journal_longer_than_one_page(server: JournalServer, work: Work) -> None:
    world = World()

    @drainboard.agent("test")
    def agent(run: drainboard.Run, task: Any) -> Any:
        got = [run.tool("t", lambda i=i: world("t", i), effect="read") for i in range(1200)]
        if len(world.calls) == 1200 and not world.crash_in:
            world.crash_in = "next"
            raise Crash
        return sum(got)

    run = server.run()
    with pytest.raises(Crash):
        work(agent, run)
    assert work(agent, run).result == sum(range(1200))
    assert len(world.calls) == 1200


def test_refuses_two_steps_at_once_in_one_branch(server: JournalServer, work: Work) -> None:
    @drainboard.agent("test")
    def agent(run: drainboard.Run, task: Any) -> None:
        run.tool("outer", lambda: run.tool("inner", lambda: 1))

    run = server.run()
    assert work(agent, run).status == "failed"
    assert "run.parallel" in run.of("tool.error")[0]["error"]["message"]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda run: run.tool("", print), "name is text"),
        (lambda run: run.tool("t", 3), "not a function"),
        (lambda run: run.tool("t", len, "x", effect="maybe"), "effect 'maybe'"),
        (lambda run: run.tool("t", lambda: 1, key="k"), "takes no `key`"),
        (lambda run: run.tool("t", lambda x: 1, float("nan")), "standard JSON"),
        (lambda run: run.tool("t", lambda x: 1, {1: 2}), "not text"),
    ],
)
def test_refuses_bad_calls_by_name_before_anything_runs(
    server: JournalServer, work: Work, wrong: Any, says: str
) -> None:
    @drainboard.agent("test")
    def agent(run: drainboard.Run, task: Any) -> None:
        wrong(run)

    run = server.run()
    assert work(agent, run).status == "failed"
    assert says in run.of("run.failed")[0]["error"]["message"]
    assert not run.of("tool.started", "tool.error")


def test_a_result_without_a_start_says_when_it_began(server: JournalServer, work: Work) -> None:
    @drainboard.agent("test")
    def agent(run: drainboard.Run, task: Any) -> None:
        run.tool("look", lambda: 1, effect="read")
        run.tool("send", lambda: 1)

    run = server.run()
    work(agent, run)
    look, send = run.of("tool.result")
    assert look["started_at"] <= look["at"]
    assert "started_at" not in send
