"""Fixtures of the versioning tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.live import live, live_process  # noqa: F401
from tests.versioning.fleet import Fleet


@pytest.fixture
def fleet(token: Callable[..., str]) -> Fleet:
    return Fleet(token("worker"))
