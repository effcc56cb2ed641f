"""The procurement example: parked for a person, ordered once after a yes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from examples.procurement.__main__ import main
from examples.procurement.agent import HERE, PROMPTS
from journals import store
from runs.approvals import actions
from runs.approvals.models import Approval
from tests.live import Live
from versioning.actions import pin_run

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


def test_says_that_a_run_is_pinned_to_another_build(
    live: Live, tmp_path: Path, people: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    parked = told(live, tmp_path, capfd, "start")
    pin_run(store.find(key=parked["key"]).id, reason="prompt", by="alice", actor="person:alice")
    decide(people, "approve")
    arguments = ["work", "--key", parked["key"], "--build", "2", "--url", live.url, "--token", live.worker]
    assert main([*arguments, "--data", str(tmp_path)]) == 1
    assert json.loads(capfd.readouterr().out.splitlines()[-1])["nothing_done"].startswith("pinned to build 1")


def test_says_that_a_run_still_waits(live: Live, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    parked = told(live, tmp_path, capfd, "start")
    again = told(live, tmp_path, capfd, "work", "--key", parked["key"])
    assert again["nothing_done"].startswith("it waits for its approval")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["work", "--key", "rnope"], 1, "rnope"),
        (["work"], 2, "work needs --key"),
        (["start", "--token", "db_wrong"], 1, "give a token of scope worker"),
    ],
)
def test_says_in_one_sentence_what_is_wrong(
    live: Live,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    code: int,
    said: str,
) -> None:
    monkeypatch.setenv("DRAINBOARD_URL", live.url)
    monkeypatch.setenv("DRAINBOARD_TOKEN", live.worker)
    assert main([*arguments, "--data", str(tmp_path)]) == code
    [line] = capfd.readouterr().err.splitlines()
    assert said in line


def test_its_builds_carry_the_texts_of_their_prompts() -> None:
    texts = {
        label: json.loads((HERE / f"build-{label}.json").read_text())["prompts"]["buyer"]["text"] for label in "12"
    }
    assert texts == PROMPTS
    assert texts["1"] != texts["2"]
