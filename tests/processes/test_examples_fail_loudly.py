"""An example whose worker fails says so; it never shows a run as if the worker had had nothing to do."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from drainboard import Client, JournalUnavailable, Worker

from examples.processes import outcome_of
from examples.procurement.__main__ import main
from examples.procurement.agent import build_1
from tests.live import Live

pytestmark = pytest.mark.processes


def test_procurement_says_that_its_worker_failed(
    live: Live, client: Client, token: Callable[..., str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    key = client.start("procurement", {"item": "chair", "quantity": 2}).key
    other = token("worker", agent="refund")
    arguments = ["work", "--key", key, "--url", live.url, "--token", other, "--data", str(tmp_path)]
    assert main(arguments) == 1
    assert len(capfd.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("said", ["", "print('{}')"])
def test_an_outcome_of_a_worker_that_failed_is_not_taken(said: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", f"{said}\nraise SystemExit(3)"], stdout=subprocess.PIPE, text=True
    )
    with pytest.raises(RuntimeError, match="the worker failed with code 3"):
        outcome_of(process)


def test_a_worker_that_reaches_no_server_does_not_pass_for_idle() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        Client(f"http://127.0.0.1:{taken.getsockname()[1]}", "db_x", timeout_s=0.2, patience_s=0.2) as silent,
        pytest.raises(JournalUnavailable),
    ):
        Worker(silent, build_1, build="1").run(until_idle=True)
