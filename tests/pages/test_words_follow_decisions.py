"""Lists, overview and run page say what is so now: decided is not waiting, nobody's run is not running, resolved is not failed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db.models import QuerySet
from django.test import Client
from django.utils import timezone

from runs import actions as run_actions
from runs import overview as overviews
from runs.models import Run
from runs.show import show
from tests.pages import story

pytestmark = pytest.mark.django_db


@pytest.fixture
def http(client: Client, people: dict[str, Any]) -> Client:
    client.force_login(people["vera"])
    return client


def text(http: Client, address: str) -> str:
    html = http.get(address).content.decode()
    main = html.partition("<main")[2].partition("</main")[0]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", main))


def waiting() -> QuerySet[Run]:
    """Runs that the overview counts as waiting for an approval."""
    reason = next(r for r in overviews.reasons("", timezone.now()) if r.name == "approval")
    return Run.objects.filter(reason.condition)


def test_an_undecided_approval_waits_for_a_person(http: Client, token: Callable[..., str]) -> None:
    worker = story.asking(token)
    page = text(http, f"/runs/{worker.key}/")
    assert "waits for a person" in page
    assert "started, no result" not in page
    overview = text(http, "/").partition("In flight, by agent")[0]
    assert overview.count("order-7") == 1
    assert overview.count("Pay the supplier") == 1
    assert waiting().count() == 1


@pytest.mark.parametrize(
    ("decision", "comment", "words"),
    [
        ("approve", "", "approved by bob"),
        ("send_back", "too dear", "sent back by bob: too dear"),
        ("reject", "no", "rejected by bob"),
    ],
)
def test_a_decided_approval_waits_for_a_worker(
    http: Client, token: Callable[..., str], people: dict[str, Any], decision: str, comment: str, words: str
) -> None:
    worker = story.asking(token)
    story.decided(worker, people["bob"], decision, comment)
    for address in ("/runs/", f"/runs/{worker.key}/"):
        page = text(http, address)
        assert words in page, address
        assert "waits for a worker of build 1" in page, address
        assert "approval of" not in page, address
    assert waiting().count() == 0
    assert show(worker.head.id)["status"] == "parked"


def test_a_run_that_no_worker_has_is_not_called_running(http: Client, token: Callable[..., str]) -> None:
    worker = story.begun(token, "left-alone", build="1")
    assert "needs a worker" not in text(http, "/runs/")
    story.lease_over(worker)
    for address in ("/runs/", f"/runs/{worker.key}/"):
        assert "needs a worker" in text(http, address)
        assert "a worker of build 1" in text(http, address)
    assert show(worker.head.id)["status"] == "running"


def test_a_gap_that_happened_shows_its_result_and_who_said_so(http: Client, token: Callable[..., str]) -> None:
    worker = story.refund_in_the_gap(token)
    story.lease_over(worker)
    run_actions.resolve_gap(
        worker.head.id, branch="", step=4, outcome="happened", evidence="seen", by="olga", actor="person:olga", result=b'{"refund":"rf-77"}'
    )  # fmt: skip
    page = text(http, f"/runs/{worker.key}/")
    assert "resolved by olga: happened" in page
    assert "rf-77" in page


def test_a_step_that_recovered_shows_its_result_and_no_error(http: Client, token: Callable[..., str]) -> None:
    worker = story.begun(token, "recovered")
    error = {"type": "StartToCloseTimeout", "message": "late"}
    story.sent(
        worker,
        story.started(worker, 1, "lookup_order"), worker.line("tool.error", name="lookup_order", step=1, error=error),
        story.started(worker, 1, "lookup_order", attempt=2), worker.line("tool.result", name="lookup_order", step=1, attempt=2, out={"paid": "40.00"}),
    )  # fmt: skip
    page = text(http, f"/runs/{worker.key}/")
    assert "40.00" in page
    assert "StartToCloseTimeout" not in page


def test_a_timer_says_until_when_it_waits(http: Client, token: Callable[..., str]) -> None:
    worker = story.begun(token, "sleeping")
    until = "2099-01-01T00:00:00Z"
    story.sent(
        worker, worker.line("timer.started", name="sleep", step=1, until=until), worker.line("run.parked", reason="timer", until=until)
    )  # fmt: skip
    page = text(http, f"/runs/{worker.key}/")
    assert f"waits until {until}" in page
    assert "started, no result" not in page
