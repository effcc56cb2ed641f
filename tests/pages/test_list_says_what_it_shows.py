"""The list's filters, order and ids: what a column shows can be asked for, and what means nothing is said."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from drainboard import wire

from journals import store
from journals.foreign import foreign
from runs import projection
from tests.pages import story

pytestmark = pytest.mark.django_db
IDS = ["", " ", "a b", "a  b", "a\nb", "a\tb", "a ", " a", "a"]


@pytest.fixture
def http(client: Client, people: dict[str, Any]) -> Client:
    client.force_login(people["vera"])
    return client


def rows(http: Client, query: str = "") -> str:
    return http.get(f"/runs/?{query}").content.decode().partition("<tbody>")[2]


@pytest.mark.parametrize("version", ["refund-policy@12", "m-5", "lookup_order", "prompt refund-policy@12", "2026.11.3"])
def test_what_the_versions_column_shows_can_be_asked_for(http: Client, token: Callable[..., str], version: str) -> None:
    story.refund_in_the_gap(token, "holds-it")
    assert "holds-it" in rows(http, f"version={version}")
    assert "holds-it" not in rows(http, f"version={version}x")
    assert "holds-it" not in rows(http, f"version=!{version}")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("status=bogus", "no such status: bogus"),
        ("view=bogus", "no such view: bogus"),
        ("finding=zzz", "no such finding: zzz"),
    ],
)
def test_an_unknown_value_of_a_filter_is_said(http: Client, token: Callable[..., str], query: str, words: str) -> None:
    story.completed(token, "done-1")
    assert words in http.get(f"/runs/?{query}").content.decode()


def test_the_finding_filter_offers_the_codes_that_occur(http: Client, token: Callable[..., str]) -> None:
    story.lease_over(story.refund_in_the_gap(token))
    html = http.get("/runs/").content.decode()
    offered = re.findall(r"<option[^>]*>([^<]*)", html.partition('id="f-finding"')[2].partition("</select>")[0])
    assert "gap_open" in offered
    assert "torn_tail" not in offered


def test_the_order_is_that_of_the_time_in_its_column(http: Client) -> None:
    for run, at in (("first-in", "2026-09-02T00:00:00Z"), ("second-in", "2026-08-01T00:00:00Z")):
        _import(run, at)
    assert re.findall(r"(first|second)-in</a>", rows(http)) == ["second", "first"]
    seen = re.findall(r'<time datetime="([^"]+)" data-form="age"', rows(http))
    assert seen == sorted(seen, reverse=True)


def test_ids_that_differ_in_spaces_only_can_be_told_apart(http: Client) -> None:
    for run in IDS:
        _import(run)
    found = re.findall(r'id="run-\d+"[^>]*>(.*?)</a>', rows(http), re.DOTALL)
    plain = [re.sub(r"<[^>]+>", "", cell) for cell in found]
    assert len({re.sub(r"\s+", " ", cell).strip() for cell in plain}) == len(IDS)
    assert all(cell.strip() for cell in plain), "every link has something to click on"
    assert "(empty)" in plain
    assert "a⏎b" in plain


def test_a_hold_of_a_worker_is_not_a_persons_decision(http: Client, token: Callable[..., str]) -> None:
    worker = story.refund_in_the_gap(token)
    detail = {"differs": ["key"]}
    answer = worker.call("held", {"epoch": worker.epoch, "reason": "NonDeterministicReplay", "detail": detail})
    assert answer.status_code == 200, answer.content
    page = http.get(f"/runs/{worker.key}/decisions/").content.decode()
    assert "worker" in page.partition("<tbody>")[2]
    assert re.search(r"Decisions <b>0</b>", page)


def test_nothing_there_is_said_in_our_words(http: Client) -> None:
    for address in ("/nowhere/", "/imports/999999/", "/runs/rzzz/"):
        page = http.get(address)
        assert page.status_code == 404
        assert not re.search(r"Resolver404|matches the given query", page.content.decode()), address


def _import(run: str, at: str = "2026-09-01T08:00:00Z") -> None:
    line = wire.dump({"run": run, "seq": 1, "id": "1", "at": at, "kind": "run.started"})
    store.ingest(
        source_name="file", runtime="lines", import_id=1, actor="import:1", items=[foreign(line)], agent="old", environment=""
    )  # fmt: skip
    projection.catch_up()


def test_a_search_is_as_long_as_the_longest_id(http: Client, token: Callable[..., str]) -> None:
    story.completed(token, "other")
    longest = "r" * 1_200
    _import(longest)
    assert longest in http.get("/runs/", {"q": longest}).content.decode()


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ({"q": "x" * 2_001}, "the search has 2001 characters, the limit is 2000"),
        ({"agent": "x" * 201}, "the filter “agent” has 201 characters"),
    ],
)
def test_a_text_that_cannot_be_looked_for_finds_nothing_and_says_why(
    http: Client, token: Callable[..., str], query: dict[str, str], why: str
) -> None:
    story.completed(token, "not-an-answer")
    text = http.get("/runs/", query).content.decode()
    assert why in text
    assert "No run was looked for" in text
    assert "not-an-answer" not in text
    assert "<b>0</b>" in text.partition('class="shown"')[2][:30]


@pytest.mark.parametrize("address", ["/runs/", "/imports/", "/api/v1/runs"])
def test_a_nul_character_is_named(http: Client, address: str) -> None:
    answer = http.get(f"{address}?view=&source=a%00b")
    assert answer.status_code == 400
    assert "query parameter `source` holds a NUL character" in answer.content.decode()
