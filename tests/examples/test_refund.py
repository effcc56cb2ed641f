"""The refund story with real processes, a real provider and the real server: who pays twice, and what holds it back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from drainboard import Client

from examples.refund.__main__ import main
from tests.live import Live

pytestmark = pytest.mark.processes


def story(live: Live, capfd: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main([*arguments, "--url", live.url, "--token", live.worker, "--lease", "1"]) == 0
    told: dict[str, Any] = json.loads(capfd.readouterr().out.splitlines()[-1])
    return told


def codes(live: Live, key: str) -> dict[str, Any]:
    with Client(live.url, live.read) as client:
        shown = client.show(key)
    return {f["code"]: f for f in shown["findings"]}


def test_pays_once_under_the_runs_own_key(live: Live, capfd: pytest.CaptureFixture[str]) -> None:
    told = story(live, capfd)
    assert (told["provider_refunds"], told["provider_requests"], told["model_calls"]) == (1, 2, 3)
    assert told["status"] == "completed"
    assert "key_unstable" not in codes(live, told["key"])


def test_pays_twice_under_a_planted_key_in_mode_warn_and_says_so(live: Live, capfd: pytest.CaptureFixture[str]) -> None:
    told = story(live, capfd, "--key", "planted", "--mode", "warn")
    assert (told["provider_refunds"], told["model_calls"], told["status"]) == (2, 3, "completed")
    assert {"key_unstable", "nondeterministic_replay"} <= set(codes(live, told["key"]))


def test_is_held_before_the_second_send_under_a_planted_key(live: Live, capfd: pytest.CaptureFixture[str]) -> None:
    told = story(live, capfd, "--key", "planted", "--mode", "hold")
    assert (told["provider_refunds"], told["provider_requests"], told["status"]) == (1, 1, "held")
    assert "recorded" in told["reason"]
    assert "this build" in told["reason"]
    with Client(live.url, live.read) as client:
        entries = list(client.entries(told["key"]))
    assert [(e["kind"], e.get("step")) for e in entries] == [
        ("run.started", None), ("run.resumed", None), ("model.result", 1), ("tool.result", 2), ("model.result", 3),
        ("tool.started", 4), ("run.resumed", None), ("run.held", None),
    ]  # fmt: skip
    assert entries[-1]["detail"]["entries"] == [6]


def test_shows_the_step_in_the_gap_after_the_crash(live: Live, capfd: pytest.CaptureFixture[str]) -> None:
    told = story(live, capfd, "--key", "planted", "--mode", "hold")
    with Client(live.url, live.read) as client:
        shown = client.show(told["key"])
    (gap,) = shown["gaps"]
    assert (gap["step"], gap["name"], gap["verdict"], gap["confidence"]) == (
        4,
        "send_refund",
        "may_run_twice",
        "certain",
    )
    assert [s["verdict"] for s in shown["steps"]] == ["done", "done", "done", "may_run_twice"]
