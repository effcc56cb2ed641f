"""The overview's groups and the shortcuts of the list: one definition, each run once, the surest first."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from drainboard import wire

from journals import store
from journals.foreign import foreign
from runs import overview, projection, queries
from runs.forms import Filters
from tests.pages import story

pytestmark = pytest.mark.django_db


@pytest.fixture
def http(client: Client, people: dict[str, Any]) -> Client:
    client.force_login(people["vera"])
    return client


def groups() -> dict[str, list[str]]:
    projection.catch_up()
    return {g.name: [row.run.run for row in g.rows] for g in overview.attention("", timezone.now())}


def imported(run: str, *lines: dict[str, Any]) -> None:
    items = [
        foreign(wire.dump({"run": run, "seq": n, "id": f"{run}-{n}", "at": f"2026-09-01T08:00:{n:02}Z", **line}))
        for n, line in enumerate(lines, 1)
    ]
    store.ingest(
        source_name="file", runtime="lines", import_id=1, actor="import:1", items=items, agent="old", environment=""
    )
    projection.catch_up()


def twice(token: Callable[..., str], run: str) -> Any:
    """Ended well, with a write that was answered under two keys."""
    worker = story.begun(token, run)
    story.sent(worker, story.started(worker, 1, "send_refund", effect="write", key="a"))
    worker.open("41", "w-4")
    story.sent(
        worker, story.started(worker, 1, "send_refund", effect="write", key="b"), story.answered(worker, 1, "send_refund", "ok"),
        worker.line("run.completed", out="done"),
    )  # fmt: skip
    return worker


def test_a_run_that_may_have_had_two_effects_is_marked_though_it_ended_well(
    http: Client, token: Callable[..., str]
) -> None:
    worker = twice(token, "paid-twice")
    story.completed(token, "paid-once")
    assert groups()["double"] == ["paid-twice"]
    assert "May have had two effects" in http.get("/").content.decode()
    html = http.get("/runs/").content.decode()
    assert html.count("two effects?") == 1
    assert "paid-once" not in http.get("/runs/?view=double").content.decode().partition("<tbody>")[2]
    page = http.get(f"/runs/{worker.key}/").content.decode()
    assert re.search(r'<details class="findings" open', page), "an error is read without opening anything"


def test_each_run_stands_in_its_most_urgent_group_only(token: Callable[..., str]) -> None:
    worker = story.refund_in_the_gap(token)
    story.lease_over(worker)
    found = groups()
    assert found["gap"] == [worker.run]
    assert sum(worker.run in rows for rows in found.values()) == 1


def test_certain_own_gaps_come_before_what_old_files_call_possible(http: Client, token: Callable[..., str]) -> None:
    story.lease_over(story.refund_in_the_gap(token, "certain-own"))
    for n in range(overview.SHOWN + 2):
        imported(
            f"file-{n}", {"kind": "run.started"}, {"kind": "tool.started", "name": "pay", "step": 1, "effect": "write"}
        )
    rows = groups()["gap"]
    assert rows[0] == "certain-own"
    assert len(rows) == overview.SHOWN


def test_the_pill_and_the_group_count_the_same_runs(token: Callable[..., str]) -> None:
    from journals.store import change, lock

    worker = story.begun(token, "held-and-alone")
    story.lease_over(worker)
    lock(worker.head.id)
    change(worker.head.id, hold_reason="PromptChanged")
    projection.catch_up()
    found = {g.name: g for g in overview.attention("", timezone.now())}
    assert "nobody" not in found
    assert queries.counted(Filters())["nobody"] == 0


def test_a_held_run_of_another_runtime_is_released_there(http: Client) -> None:
    imported(
        "theirs", {"kind": "run.started"},
        {"kind": "note", "name": "runtime.state", "out": {"status": "held", "runtime_status": "PAUSED", "complete": False}},
    )  # fmt: skip
    from runs.models import Run

    page = http.get(f"/runs/{Run.objects.get().key}/").content.decode()
    assert "Its own runtime" in page
    assert "until a person releases" not in page


def test_a_run_held_before_its_second_send_is_not_said_to_have_had_two_effects(token: Callable[..., str]) -> None:
    worker = story.begun(token, "held-in-time")
    story.sent(worker, story.started(worker, 1, "send_refund", effect="write", key="a"))
    worker.open("41", "w-4")
    differs = {
        "branch": "",
        "step": 1,
        "differs": ["key"],
        "recorded": {"key": "a"},
        "this_build": {"key": "b"},
        "entries": [3],
    }
    assert (
        worker.call("held", {"epoch": worker.epoch, "reason": "NonDeterministicReplay", "detail": differs}).status_code
        == 200
    )
    projection.catch_up()
    found = queries.Run.objects.get(key=worker.key)
    assert (found.status, "key_unstable" in found.findings) == ("held", True)
    assert not queries.Run.objects.filter(queries.doubled()).exists()


def test_a_row_names_the_step_that_its_group_is_about(http: Client) -> None:
    imported(
        "theirs", {"kind": "run.started"},
        *({"kind": f"tool.{word}", "name": "send_refund", "step": 1, "attempt": n} for n, word in ((1, "started"), (2, "started"), (2, "result"))),
        {"kind": "model.result", "name": "sum_up", "step": 2},
    )  # fmt: skip
    page = http.get("/").content.decode()
    assert "two effects?" in page
    assert "1 send_refund" in page
    assert "sum_up" not in page


def test_the_list_names_the_step_that_is_in_danger_and_marks_what_a_failed_run_left_open(http: Client) -> None:
    pay = {"kind": "tool.started", "name": "pay", "step": 1}
    imported("left", {"kind": "run.started"}, pay, {"kind": "run.failed"})
    imported("gap", {"kind": "run.started"}, pay, {"kind": "model.started", "name": "sum_up", "step": 2})
    listed = http.get("/runs/").content.decode()
    assert listed.count("1 pay") == 2
    assert "sum_up" not in listed
    assert listed.count("may have run</span>") == 1
