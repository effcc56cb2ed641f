"""A replayed request is compared with the record before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import drainboard
import pytest
from drainboard.replay import json_diff

from tests.client.conftest import Crash, Work
from tests.client.journal_server import JournalServer

Body = Callable[[drainboard.Run], Any]


def agent_of(body: Body, versions: Any = None) -> drainboard.Agent:
    @drainboard.agent("test", versions=versions)
    def agent(run: drainboard.Run, task: Any) -> Any:
        return body(run)

    return agent


def crash(*_: Any, **__: Any) -> None:
    raise Crash


def record(server: JournalServer, work: Work, body: Body, versions: Any = None) -> Any:
    """A run that this body began and that died in it."""
    run = server.run()
    with pytest.raises(Crash):
        work(agent_of(body, versions), run)
    return run


def pay(calls: list[str]) -> Callable[..., str]:
    def send_refund(amount: str, key: str) -> str:
        calls.append(key)
        return "sent"

    return send_refund


def planted(key: str, fn: Callable[..., Any]) -> Body:
    return lambda run: run.tool("send_refund", fn, "40.00", key=key)


def test_holds_a_key_that_changed_before_the_second_send(server: JournalServer, work: Work) -> None:
    calls: list[str] = []
    run = record(server, work, planted("first:4", lambda amount, key: crash()))
    outcome = work(agent_of(planted("second:4", pay(calls))), run)
    assert outcome.status == "held"
    assert calls == []
    assert run.hold == "NonDeterministicReplay"
    detail = run.of("run.held")[0]["detail"]
    assert detail["differs"] == ["key"]
    assert detail["recorded"]["key"] == "first:4"
    assert detail["this_build"]["key"] == "second:4"
    assert detail["entries"] == [3]
    assert detail["diff"] == [{"path": "/key", "recorded": "first:4", "this_build": "second:4"}]
    assert 'key: recorded "first:4", this build "second:4"' in detail["message"]
    assert not run.ended


def test_goes_on_with_a_note_in_mode_warn(server: JournalServer, work: Work) -> None:
    calls: list[str] = []
    run = record(server, work, planted("first:4", lambda amount, key: crash()))
    assert work(agent_of(planted("second:4", pay(calls))), run, mode="warn").status == "completed"
    assert calls == ["second:4"]
    (note,) = run.of("note")
    assert (note["name"], note["step"], note["out"]["differs"]) == ("nondeterministic_replay", 1, ["key"])
    assert [s["key"] for s in run.of("tool.started")] == ["first:4", "second:4"]
    assert run.kinds().index("note") < run.kinds().index("tool.started", 4)


@pytest.mark.parametrize("mode", ["hold", "warn"])
def test_holds_a_step_of_another_kind_in_both_modes(server: JournalServer, work: Work, mode: str) -> None:
    run = record(server, work, lambda r: (r.now(), crash()))
    assert work(agent_of(lambda r: r.tool("t", lambda: 1, rerun_safe=True)), run, mode=mode).status == "held"
    assert run.of("run.held")[0]["detail"]["differs"] == ["kind", "name"]


def test_shows_where_a_tools_input_differs(server: JournalServer, work: Work) -> None:
    run = record(server, work, lambda r: (r.tool("t", lambda x: x, {"a": 1, "b": [1, 2]}), crash()))
    work(agent_of(lambda r: r.tool("t", lambda x: x, {"a": 1, "b": [1, 3]})), run)
    assert run.of("run.held")[0]["detail"]["diff"] == [{"path": "/b/1", "recorded": 2, "this_build": 3}]


def test_holds_a_renamed_step_and_calls_nothing(server: JournalServer, work: Work) -> None:
    run = record(server, work, lambda r: (r.tool("old", lambda: 1), crash()))
    calls: list[int] = []
    assert work(agent_of(lambda r: r.tool("new", lambda: calls.append(1))), run).status == "held"
    assert calls == []


def test_holds_a_build_that_ends_before_a_recorded_step(server: JournalServer, work: Work) -> None:
    run = record(server, work, lambda r: (r.now(), r.uuid(), crash()))
    assert work(agent_of(lambda r: r.now()), run).status == "held"
    assert run.of("run.held")[0]["detail"]["differs"] == ["end"]
    assert not run.of("run.completed")


def test_stays_held_when_the_agent_swallows_the_error(server: JournalServer, work: Work) -> None:
    run = record(server, work, lambda r: (r.tool("old", lambda: 1), crash()))

    def stubborn(r: drainboard.Run) -> str:
        for _ in range(2):
            try:
                r.tool("new", crash)
            except Exception:  # noqa: BLE001, S112
                continue
        return "fine"

    assert work(agent_of(stubborn), run).status == "held"


def test_compares_numbers_as_json_does(server: JournalServer, work: Work) -> None:
    run = record(server, work, lambda r: (r.tool("t", lambda x: x, {"a": 1.0, "b": True}), crash()))
    assert work(agent_of(lambda r: r.tool("t", lambda x: x, {"b": True, "a": 1})), run).status == "completed"
    run = record(server, work, lambda r: (r.tool("t", lambda x: x, True), crash()))
    assert work(agent_of(lambda r: r.tool("t", lambda x: x, 1)), run).status == "held"


OLD = {"prompts": {"p": "1"}, "models": {"m": "x"}, "tools": {"t": "d1"}}
NEW = {"prompts": {"p": "2"}, "models": {"m": "x"}, "tools": {"t": "d2"}}


def asks(prompt: str, arg: int = 1) -> Body:
    return lambda r: (r.model("decide", lambda m: "reply", [prompt, "task"]), r.tool("t", lambda x: x, arg))


def begun(server: JournalServer, work: Work) -> Any:
    return record(server, work, lambda r: (asks("old")(r), crash()), OLD)


def test_holds_a_changed_prompt_that_nobody_let_continue(server: JournalServer, work: Work) -> None:
    run = begun(server, work)
    assert work(agent_of(asks("new"), NEW), run, build="2").status == "held"
    assert run.of("run.held")[0]["detail"]["diff"] == [{"path": "/0", "recorded": "old", "this_build": "new"}]


def test_lets_a_models_input_differ_after_a_decision_to_continue(server: JournalServer, work: Work) -> None:
    run = begun(server, work)
    run.record(kind="deploy.continued", build="2", by="alice", reason="reviewed")
    assert work(agent_of(asks("new"), NEW), run, build="2").status == "completed"
    (note,) = run.of("note")
    assert (note["name"], note["step"]) == ("continued_request", 1)


def test_holds_a_tools_input_that_differs_even_after_a_decision_to_continue(server: JournalServer, work: Work) -> None:
    run = begun(server, work)
    run.record(kind="deploy.continued", build="2", by="alice", reason="reviewed")
    assert work(agent_of(asks("new", arg=2), NEW), run, build="2").status == "held"


def test_continues_only_on_the_build_that_was_named(server: JournalServer, work: Work) -> None:
    run = begun(server, work)
    run.record(kind="deploy.continued", build="3", by="alice", reason="reviewed")
    assert work(agent_of(asks("new"), NEW), run, build="2").status == "held"


def test_checks_strictly_what_was_recorded_after_the_decision(server: JournalServer, work: Work) -> None:
    run = begun(server, work)
    run.record(kind="deploy.continued", build="2", by="alice", reason="reviewed")
    with pytest.raises(Crash):
        work(
            agent_of(lambda r: (asks("new")(r), r.model("decide", lambda m: "2nd", ["third"]), crash()), NEW),
            run,
            build="2",
        )
    outcome = work(
        agent_of(lambda r: (asks("new")(r), r.model("decide", lambda m: "2nd", ["other"])), NEW), run, build="2"
    )
    assert outcome.status == "held"


def test_holds_a_journal_with_a_hole(server: JournalServer, work: Work) -> None:
    run = record(server, work, lambda r: (r.now(), r.uuid(), crash()))
    run.entries = [{**e, "step": 3} if e.get("step") == 2 else e for e in run.entries]
    assert work(agent_of(lambda r: (r.now(), r.uuid(), r.random())), run).status == "held"
    assert run.of("run.held")[0]["detail"]["differs"] == ["missing"]


def test_names_each_place_of_a_difference_by_pointer() -> None:
    was, mine = {"a/b": 1, "c": [1, 2, 3], "t": True}, {"a/b": 2, "c": [1, 2], "d": None, "t": 1}
    assert list(json_diff(was, mine)) == [
        {"path": "/a~1b", "recorded": 1, "this_build": 2},
        {"path": "/c/2", "recorded": 3},
        {"path": "/t", "recorded": True, "this_build": 1},
        {"path": "/d", "this_build": None},
    ]
