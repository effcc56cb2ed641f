"""A Drainboard of its own for a benchmark: `manage.py up` in a temporary data folder, with a worker's token."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

BASE = Path(__file__).resolve().parent.parent
START_S = 180


@dataclass(frozen=True)
class Installation:
    """A running server and the PostgreSQL behind it."""

    url: str
    worker_token: str
    superuser_url: str  # postgresql://…/postgres, for baselines on the same server


@contextmanager
def installation() -> Iterator[Installation]:
    """Starts an empty installation; stops it, and removes its data, at the end."""
    with tempfile.TemporaryDirectory(prefix="drainboard-bench-", ignore_cleanup_errors=True) as folder:
        port = _free_port()
        variables = {**os.environ, "DRAINBOARD_DATA": folder, "PORT": str(port), "EMPTY": "1"}
        variables.pop("DATABASE_URL", None)
        log = Path(folder) / "up.log"
        with log.open("wb") as out:
            up = subprocess.Popen([sys.executable, "manage.py", "up"], cwd=BASE, env=variables, stdout=out, stderr=out)
        try:
            url = f"http://127.0.0.1:{port}"
            _wait(url, up, log)
            made = [sys.executable, "manage.py", "create_token", "benchmark", "--scope", "worker", "--json"]
            token = json.loads(subprocess.run(made, cwd=BASE, env=variables, check=True, capture_output=True).stdout)[
                "token"
            ]
            yield Installation(url, token, _superuser(Path(folder)))
        finally:
            up.terminate()
            up.wait(60)


def _superuser(data: Path) -> str:
    from config.attach import server_of, url_of
    from config.embedded import SUPERUSER
    from config.env import Environment

    server = server_of(data, Environment(os.environ), say=lambda text: None, holder="benchmark")
    return url_of(server.database(SUPERUSER, "postgres"))


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def _wait(url: str, up: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end and up.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/readyz", timeout=5):  # noqa: S310 - our own loopback address
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise SystemExit(f"the server did not start: {log.read_text(errors='replace')[-1000:]}")
