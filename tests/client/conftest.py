"""A journal server per test, a client for it, and a way to run an agent once as a worker would."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from drainboard import Agent, Client, Outcome
from drainboard.client import Client as _Client
from drainboard.execute import execute
from drainboard.session import Session, lease_clock

from tests.client.journal_server import TOKEN, Journal, JournalServer

Work = Callable[..., Outcome]


@pytest.fixture
def server() -> Iterator[JournalServer]:
    made = JournalServer()
    yield made
    made.close()


@pytest.fixture
def client(server: JournalServer) -> Iterator[Client]:
    with _Client(server.url, TOKEN, patience_s=2) as made:
        yield made


@pytest.fixture
def work(client: Client) -> Work:
    """`work(agent, run)` opens the run, executes the agent until it ends, parks or is taken away, and gives the outcome."""

    def once(
        agent: Agent, run: Journal, *, build: str = "1", mode: str = "hold", lease_s: float = 30, **how: Any
    ) -> Outcome:
        run.expire()
        asked_at = lease_clock()
        opened = client.open(run.key, build=build, worker="w", lease_s=lease_s, versions=agent.versions.as_json())
        session = Session(client, opened, build=build, versions=agent.versions, mode=mode, asked_at=asked_at, **how)
        with ThreadPoolExecutor(
            1
        ) as workers:  # as in a worker: a thread of its own, without the event loop that a browser test leaves
            return workers.submit(execute, agent, session).result()

    return once


class Crash(BaseException):
    """Stands for a process that dies: nothing of ours may catch it and write a record."""
