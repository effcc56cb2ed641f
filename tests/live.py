"""The product as users run it: granian on `config.wsgi`, over the test database, on a loopback port.

Import `live` and `live_process` into a `conftest.py`; a test that uses `live` gets a server with empty tables and fresh tokens.
"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from config.attach import url_of
from config.deathsignal import tied_to_parent
from config.env import Database

BASE = Path(__file__).resolve().parent.parent
START_S = 60


@dataclass(frozen=True)
class Live:
    """A running server: its address, and the secret of a token per scope."""

    url: str
    worker: str
    ci: str
    read: str


@pytest.fixture(scope="session")
def live_process(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server process that serves the test database; one for the whole session."""
    port = _free_port()
    log = tmp_path_factory.mktemp("live") / "granian.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "granian", "--interface", "wsgi", "--host", "127.0.0.1", "--port", str(port)),
                *("--workers", "1", "--blocking-threads", "8", "--no-ws", "config.wsgi:application"),
            ],
            cwd=BASE,
            env={**os.environ, **_environment()},
            stdout=out,
            stderr=out,
            start_new_session=True,
            preexec_fn=tied_to_parent(9),  # type: ignore[arg-type]  # noqa: PLW1509
        )
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_healthy(url, process, log)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.fixture
def live(live_process: str, transactional_db: None, token: Callable[..., str]) -> Live:
    """The server with empty tables and a new token of each scope."""
    return Live(live_process, token("worker"), token("ci"), token("read"))


def _environment() -> dict[str, str]:
    from django.db import connection

    found: dict[str, Any] = connection.settings_dict
    url = url_of(Database(found["NAME"], found["USER"], found["PASSWORD"], found["HOST"], int(found["PORT"] or 5432)))
    return {
        "DATABASE_URL": url,
        "DATABASE_OWNER_URL": url,
        "DATABASE_POOL": "12",
        "SECRET_KEY": secrets.token_urlsafe(50),
        "DRAINBOARD_SUPERVISED": "1",
        "PYTHONPATH": os.pathsep.join([str(BASE), str(BASE / "client" / "src")]),
    }


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def _wait_healthy(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"{url}/healthz", timeout=2) as answer:  # noqa: S310
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.1)
    raise AssertionError(f"the server did not start:\n{log.read_text('utf-8', 'replace')[-3000:]}")
