"""The product under these tests: a live server, and real worker processes that end with the test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from drainboard import Client

from tests.live import Live, live, live_process  # noqa: F401


@pytest.fixture
def client(live: Live) -> Iterator[Client]:  # noqa: F811
    """A worker's client of the live server."""
    with Client(live.url, live.worker) as made:
        yield made
