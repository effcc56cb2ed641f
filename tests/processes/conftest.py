"""The product under these tests: a live server, a provider, and real worker processes that end with the test."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.db import connection
from drainboard import Client

from tests.live import Live, live, live_process  # noqa: F401
from tests.processes.provider import Provider
from tests.processes.waiting import until
from tests.processes.workers import Workers


@pytest.fixture
def client(live: Live) -> Iterator[Client]:  # noqa: F811
    """A worker's client of the live server."""
    with Client(live.url, live.worker) as made:
        yield made


@pytest.fixture
def provider() -> Iterator[Provider]:
    """The outside service of this test."""
    made = Provider()
    yield made
    made.close()


@pytest.fixture
def workers(live: Live, tmp_path: Path, provider: Provider) -> Iterator[Workers]:  # noqa: F811
    """Starts worker processes; those that are left at the end are killed, and the server has done with them."""
    made = Workers(live, tmp_path, provider.port)
    yield made
    made.close()
    until(lambda: not busy_sessions(), "the server has answered the last requests of killed workers")


def busy_sessions() -> int:
    """Other sessions of the database that are inside a transaction; emptying the tables would collide with them."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'"
        )
        return int(cursor.fetchone()[0])


@pytest.fixture
def figures(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Prints a line with what was measured, whether the test passes or not."""

    def show(text: str) -> None:
        with capsys.disabled():
            sys.stdout.write(f"\n{text}\n")

    return show
