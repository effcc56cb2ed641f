"""The procurement example: parked for a person, ordered once after a yes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from examples.procurement.__main__ import main
from runs.approvals import actions
from runs.approvals.models import Approval
from tests.live import Live

pytestmark = pytest.mark.processes


def told(live: Live, data: Path, capfd: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main([*arguments, "--url", live.url, "--token", live.worker, "--data", str(data)]) == 0
    found: dict[str, Any] = json.loads(capfd.readouterr().out.splitlines()[-1])
    return found


def decide(people: dict[str, Any], decision: str, comment: str = "") -> None:
    approval = Approval.objects.get()
    said = actions.Said(decision=decision, fingerprint=approval.fingerprint, comment=comment)
    actions.decide(approval.id, user=people["bob"], said=said)


def test_orders_once_after_a_yes(
    live: Live, tmp_path: Path, people: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    parked = told(live, tmp_path, capfd, "start")
    assert (parked["status"], parked["orders"]) == ("parked", [])
    assert parked["parked_on"].startswith("approval:")
    assert told(live, tmp_path, capfd, "work", "--key", parked["key"])["status"] == "parked"
    decide(people, "approve")
    done = told(live, tmp_path, capfd, "work", "--key", parked["key"])
    assert done["status"] == "completed"
    assert done["orders"] == [{"item": "chair", "quantity": 20, "total": "4000.00"}]
    assert Approval.objects.get().state == "used"


def test_orders_nothing_after_a_no(
    live: Live, tmp_path: Path, people: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    parked = told(live, tmp_path, capfd, "start")
    decide(people, "reject", "too many chairs")
    done = told(live, tmp_path, capfd, "work", "--key", parked["key"])
    assert (done["status"], done["orders"]) == ("completed", [])


def test_gives_build_2_nothing_that_build_1_began(
    live: Live, tmp_path: Path, people: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    parked = told(live, tmp_path, capfd, "start")
    decide(people, "approve")
    assert told(live, tmp_path, capfd, "work", "--key", parked["key"], "--build", "2")["orders"] == []
    assert told(live, tmp_path, capfd, "work", "--key", parked["key"], "--build", "1")["status"] == "completed"
