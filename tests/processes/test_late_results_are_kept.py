"""What a write answered after its run was taken over is evidence, and is kept, whoever notices the loss first."""

from __future__ import annotations

from typing import Any

import drainboard
import pytest
from drainboard import Client
from drainboard.execute import execute
from drainboard.session import Session

pytestmark = pytest.mark.processes


@pytest.mark.parametrize("noticed", ["by the result", "by the heart"])
def test_keeps_the_result_of_a_write_whose_run_was_taken_over(client: Client, noticed: str) -> None:
    sessions: list[Session] = []

    @drainboard.agent("mailer")
    def mailer(run: drainboard.Run, task: Any) -> Any:
        def send(key: str) -> str:
            client.run_call(started, "/release", {"epoch": sessions[0].epoch})
            client.open(started, build="1", worker="other", lease_s=30, versions={})
            if noticed == "by the heart":
                sessions[0].beat()
            return "sent"

        return run.tool("send", send)

    started = client.start(mailer.name, None).key
    opened = client.open(started, build="1", worker="w", lease_s=30, versions={})
    sessions.append(Session(client, opened, build="1", versions=mailer.versions))
    outcome = execute(mailer, sessions[0])
    assert (outcome.status, outcome.reason.partition(":")[0]) == ("left", "LeaseLost")
    (late,) = [e for e in client.entries(started) if e["kind"] == "late.result"]
    assert (late["step"], late["out"], late["epoch"], late["reason"]) == (1, "sent", sessions[0].epoch, "LeaseLost")
