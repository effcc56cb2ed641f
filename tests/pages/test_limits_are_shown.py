"""Limits of runtimes: on a run's page, among the sources, and the fullest runs among the agents."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from journals import store
from runs import limit_words, projection, show
from tests.pages import story

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer(people: dict[str, Any]) -> Client:
    client = Client()
    client.force_login(people["vera"])
    return client


def test_a_run_shows_what_it_uses_and_who_documents_the_limit(viewer: Client, token: Any, settings: Any) -> None:
    settings.NATIVE_RUN_LIMITS = (10, 64 << 20)
    head = store.find(key=story.refund_in_the_gap(token).key)
    limits = {item["what"]: item for item in show.show(head.id)["limits"]}
    entries = show.show(head.id)["entries"]
    assert (limits["entries"]["limit"], limits["entries"]["used"]) == (10, entries)
    page = viewer.get(f"/runs/{head.key}/").content.decode()
    assert f"{entries} entries" in page
    assert "RUN_LIMIT_ENTRIES, setting of this installation" in page
    assert "the run is too young for a forecast" in page


def test_sources_name_their_limits(viewer: Client, token: Any) -> None:
    story.refund_in_the_gap(token)
    (link,) = set(re.findall(r'href="(/sources/\d+/)"', viewer.get("/imports/").content.decode()))
    page = viewer.get(link).content.decode()
    assert "50,000 entries" in page
    assert "64 MiB" in page


def test_the_fullest_runs_in_flight_stand_among_the_agents(viewer: Client, token: Any) -> None:
    small = story.begun(token, "small")
    full = story.long_run(token, "full", rounds=20)
    over = story.long_run(token, "over", rounds=20, gap=False)
    story.sent(over, over.line("run.completed", out="done"))
    projection.catch_up()
    page = viewer.get("/agents/").content.decode()
    at = [page.find(f'href="/runs/{worker.key}/"') for worker in (full, small, over)]
    assert 0 < at[0] < at[1]
    assert at[2] == -1  # it is over


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ({"what": "entries", "unit": "events", "limit": 51_200, "used": 40_960, "share": 0.8, "near": True}, ("51,200 events", "40,960 events", "80\u202f%")),
        ({"what": "bytes", "unit": "bytes", "limit": 50 << 20, "used": 1536, "share": 0.00003}, ("50\u202fMiB", "1.5\u202fKiB", "under 1 %")),
        ({"what": "signals", "unit": "", "limit": 10_000, "used": None, "share": None}, ("10,000 signals", "not measured", "–")),
    ],
)  # fmt: skip
def test_numbers_have_their_units(item: dict[str, Any], words: tuple[str, str, str]) -> None:
    (made,) = limit_words.worded([item])
    assert (made.limit_text, made.used_text, made.share_text) == words
