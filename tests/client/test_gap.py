"""A write without a recorded result: again with the same key, or at most once with a person in between. And retries."""

from __future__ import annotations

from typing import Any

import drainboard
import pytest

from tests.client.conftest import Crash, Work
from tests.client.journal_server import Journal, JournalServer


class Mailer:
    """An outside service without keys."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.crash = True

    def send(self, text: str) -> str:
        self.sent.append(text)
        if self.crash:
            raise Crash
        return "ok"


def mail_agent(mailer: Mailer, **how: Any) -> drainboard.Agent:
    @drainboard.agent("test")
    def agent(run: drainboard.Run, task: Any) -> Any:
        return run.tool("send_mail", mailer.send, "hello", **how)

    return agent


def crashed(server: JournalServer, work: Work, mailer: Mailer, **how: Any) -> Journal:
    run = server.run()
    with pytest.raises(Crash):
        work(mail_agent(mailer, **how), run)
    mailer.crash = False
    return run


def test_parks_a_write_that_may_run_at_most_once(server: JournalServer, work: Work) -> None:
    mailer = Mailer()
    run = crashed(server, work, mailer)
    outcome = work(mail_agent(mailer), run)
    assert (outcome.status, outcome.reason) == ("parked", "gap::1")
    assert run.of("run.parked")[0]["reason"] == "gap::1"
    assert mailer.sent == ["hello"]
    assert "key" not in run.of("tool.started")[0]


def test_replays_a_gap_that_a_person_resolved_as_happened(server: JournalServer, work: Work) -> None:
    mailer = Mailer()
    run = crashed(server, work, mailer)
    work(mail_agent(mailer), run)
    run.resolve(1, "happened", out="receipt 7")
    assert work(mail_agent(mailer), run).result == "receipt 7"
    assert mailer.sent == ["hello"]


def test_runs_a_gap_that_a_person_resolved_as_not_happened(server: JournalServer, work: Work) -> None:
    mailer = Mailer()
    run = crashed(server, work, mailer)
    work(mail_agent(mailer), run)
    run.resolve(1, "did_not_happen")
    assert work(mail_agent(mailer), run).result == "ok"
    assert mailer.sent == ["hello", "hello"]
    assert run.of("tool.started")[-1]["attempt"] == 2


def test_parks_again_when_the_allowed_attempt_dies_too(server: JournalServer, work: Work) -> None:
    mailer = Mailer()
    run = crashed(server, work, mailer)
    run.resolve(1, "did_not_happen")
    mailer.crash = True
    with pytest.raises(Crash):
        work(mail_agent(mailer), run)
    assert work(mail_agent(mailer), run).status == "parked"


def test_runs_a_write_again_that_is_declared_safe(server: JournalServer, work: Work) -> None:
    mailer = Mailer()
    run = crashed(server, work, mailer, rerun_safe=True)
    assert work(mail_agent(mailer, rerun_safe=True), run).status == "completed"
    assert mailer.sent == ["hello", "hello"]


def test_runs_a_read_again_that_was_in_flight(server: JournalServer, work: Work) -> None:
    mailer = Mailer()
    run = crashed(server, work, mailer, effect="read")
    assert run.kinds()[-1] == "run.resumed", "a quick read leaves no start"
    assert work(mail_agent(mailer, effect="read"), run).status == "completed"


def test_never_replays_a_late_result(server: JournalServer, work: Work) -> None:
    mailer = Mailer()
    run = crashed(server, work, mailer)
    run.record(kind="late.result", step=1, name="send_mail", out="late")
    assert work(mail_agent(mailer), run).status == "parked"


class Flaky:
    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.keys: list[str] = []

    def __call__(self, amount: int, key: str) -> str:
        self.keys.append(key)
        if self.errors:
            raise self.errors.pop(0)
        return "sent"


def flaky_agent(flaky: Flaky, **how: Any) -> drainboard.Agent:
    @drainboard.agent("test")
    def agent(run: drainboard.Run, task: Any) -> Any:
        return run.tool("pay", flaky, 4, backoff_s=0.001, **how)

    return agent


def test_retries_as_attempts_of_one_step_under_one_key(server: JournalServer, work: Work) -> None:
    flaky = Flaky(OSError("a"), OSError("b"))
    run = server.run()
    assert work(flaky_agent(flaky, retries=2), run).status == "completed"
    assert flaky.keys == ["prod/test/r1::1"] * 3
    assert [(e["kind"], e.get("attempt", 1)) for e in run.of("tool.started", "tool.error", "tool.result")] == [
        ("tool.started", 1), ("tool.error", 1), ("tool.started", 2), ("tool.error", 2), ("tool.started", 3), ("tool.result", 3),
    ]  # fmt: skip
    assert [e["error"]["retryable"] for e in run.of("tool.error")] == [True, True]


def test_gives_up_after_the_last_retry(server: JournalServer, work: Work) -> None:
    flaky = Flaky(OSError("a"), OSError("b"), OSError("c"))
    run = server.run()
    assert work(flaky_agent(flaky, retries=1), run).status == "failed"
    assert len(flaky.keys) == 2
    assert "OSError: b" in run.of("run.failed")[0]["error"]["message"]


def test_retries_only_the_errors_it_was_told(server: JournalServer, work: Work) -> None:
    flaky = Flaky(KeyError("a"))
    assert work(flaky_agent(flaky, retries=5, retry_on=(OSError,)), server.run()).status == "failed"
    assert len(flaky.keys) == 1


def test_goes_on_with_the_next_attempt_after_a_crash_between_attempts(server: JournalServer, work: Work) -> None:
    flaky = Flaky(OSError("a"), Crash("died"))  # type: ignore[arg-type]
    run = server.run()
    with pytest.raises(Crash):
        work(flaky_agent(flaky, retries=2), run)
    assert work(flaky_agent(flaky, retries=2), run).status == "completed"
    assert [e.get("attempt", 1) for e in run.of("tool.started")] == [1, 2, 3]
    assert set(flaky.keys) == {"prod/test/r1::1"}
