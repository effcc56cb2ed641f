"""The run pages over HTTP: who may see them, what they cost, what they answer to htmx, and that odd addresses do no harm."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

from journals import store
from journals.foreign import foreign
from runs import projection
from runs.models import Run
from tests.pages import story

pytestmark = pytest.mark.django_db
TABS = ("entries", "versions", "approvals", "decisions", "raw")


@pytest.fixture
def http(client: Client, people: dict[str, Any]) -> Client:
    client.force_login(people["vera"])
    return client


def htmx(http: Client, address: str, target: str) -> Any:
    return http.get(address, headers={"HX-Request": "true", "HX-Target": target})


def polled(html: str, element: str) -> str:
    """The address that an element fetches by itself."""
    found = re.search(rf'id="{element}"[^>]*hx-get="([^"]+)"', html)
    assert found
    return found[1].replace("&amp;", "&")


def addresses(key: str) -> list[str]:
    tabs = [f"/runs/{key}/{tab}/" for tab in TABS]
    return [
        "/",
        "/runs/",
        f"/runs/{key}/",
        *tabs,
        f"/runs/{key}/entries/3/",
        f"/runs/{key}/entries/3/line.txt",
        f"/runs/{key}/export.jsonl",
    ]


def test_every_page_asks_to_sign_in(client: Client, people: dict[str, Any], token: Callable[..., str]) -> None:
    worker = story.refund_in_the_gap(token)
    for address in addresses(worker.key):
        answer = client.get(address)
        assert answer.status_code == 302
        assert answer["Location"].startswith("/login/"), address


def test_a_part_of_a_page_that_lost_its_session_opens_the_sign_in_page(client: Client) -> None:
    headers = {"HX-Request": "true", "HX-Target": "rows", "HX-Current-URL": "http://testserver/runs/?view=gap"}
    answer = client.get("/runs/?view=gap&v=1", headers=headers)
    assert answer.status_code == 204
    assert answer["HX-Redirect"] == "/login/?next=/runs/%3Fview%3Dgap"


def test_a_viewer_sees_every_page_and_nobody_can_post_to_it(http: Client, token: Callable[..., str]) -> None:
    worker = story.refund_in_the_gap(token)
    for address in addresses(worker.key):
        assert http.get(address).status_code == 200, address
        assert http.post(address).status_code == 405, address


@pytest.mark.parametrize("path", ["", "entries/", "raw/", "entries/1/", "export.jsonl"])
def test_an_unknown_run_is_not_found(http: Client, path: str) -> None:
    for key in ("rNothing", "r%00", "r%F0%9F%98%80"):
        assert http.get(f"/runs/{key}/{path}").status_code == 404


@pytest.mark.parametrize(
    "query",
    [
        "after=x",
        "after=-1",
        "after=99999999999999999999",
        "open=abc",
        "open=-1",
        "open=99999999",
        "entry=0",
        "entry=" + "9" * 30,
        "open=²",
    ],
)
def test_odd_addresses_do_no_harm(http: Client, token: Callable[..., str], query: str) -> None:
    worker = story.refund_in_the_gap(token)
    for path in (f"/runs/{worker.key}/", f"/runs/{worker.key}/entries/", f"/runs/{worker.key}/raw/", "/runs/", "/"):
        assert http.get(f"{path}?{query}").status_code == 200


@pytest.mark.parametrize(
    "query",
    [
        "status=nonsense",
        "view=nonsense",
        "after=x",
        "version=nonsense",
        "q=%25_%5C",
        "agent=%F0%9F%98%80",
        "gap=x",
    ],
)
def test_a_filter_that_means_nothing_is_named_or_finds_nothing(
    http: Client, token: Callable[..., str], query: str
) -> None:
    story.completed(token, "done-1")
    answer = http.get(f"/runs/?{query}")
    assert answer.status_code == 200
    assert "Left out" in answer.text or "No run matches" in answer.text


def test_percent_and_underscore_are_letters_in_a_search(http: Client, token: Callable[..., str]) -> None:
    story.completed(token, "a_b%c")
    story.completed(token, "axbxc")
    assert "a_b%c" in http.get("/runs/", {"q": "_b%"}).text
    assert "axbxc" not in http.get("/runs/", {"q": "_b%"}).text


def test_an_idempotency_key_finds_its_run(http: Client, token: Callable[..., str]) -> None:
    worker = story.refund_in_the_gap(token, "refund-77")
    assert worker.key in http.get("/runs/", {"q": "prod/refund/refund-77::4"}).text


@pytest.mark.parametrize(
    ("version", "found"),
    [
        ("prompt refund-policy@12", True), ("prompt refund-policy@13", False), ("≠prompt refund-policy@13", True),
        ("!prompt refund-policy@12", False), ("prompt refund-policy", True), ("model m-5", True), ("model m-6", False),
        ("tool send_refund", True), ("tool nothing", False), ("app 2026.11.3", True), ("≠ app 1", True), ("sdk drainboard 0.1", True),
    ],
)  # fmt: skip
def test_filters_by_a_version_that_a_run_holds(
    http: Client, token: Callable[..., str], version: str, found: bool
) -> None:
    worker = story.refund_in_the_gap(token)
    assert (worker.key in http.get("/runs/", {"version": version}).text) is found


def test_walks_all_runs_in_both_directions_without_loss(http: Client, token: Callable[..., str]) -> None:
    story.completed(token, "seed")
    projection.catch_up()
    row = Run.objects.get()
    fields = {f.attname: getattr(row, f.attname) for f in Run._meta.fields}
    Run.objects.bulk_create(
        Run(**{**fields, "head_id": 10_000 + n, "key": f"k{n}", "run": f"run-{n:03}"}) for n in range(130)
    )
    ids = list(Run.objects.order_by("-head_id").values_list("pk", flat=True))

    def walk(address: str, rel: str) -> list[int]:
        seen: list[int] = []
        while address:
            html = http.get(address).text
            seen.append(*[[int(n) for n in re.findall(r'id="run-(\d+)"', html)]])
            link = re.search(rf'rel="{rel}" href="([^"]+)"', html)
            address = link[1].replace("&amp;", "&") if link else ""
        return seen  # type: ignore[return-value]

    pages: Any = walk("/runs/", "next")
    assert [n for page in pages for n in page] == ids
    back: Any = walk(f"/runs/?after={pages[-2][-1]}", "prev")
    assert back == pages[::-1]
    oldest: Any = walk("/runs/?order=oldest", "next")
    assert [n for page in oldest for n in page] == ids[::-1]


def test_the_list_costs_the_same_number_of_queries_for_any_number_of_runs(
    http: Client, token: Callable[..., str], django_assert_max_num_queries: Any
) -> None:
    for n in range(3):
        story.completed(token, f"done-{n}")
    story.failed(token)
    projection.catch_up()
    http.get("/runs/")
    cache.clear()
    with django_assert_max_num_queries(18):
        http.get("/runs/")
    for n in range(30):
        story.completed(token, f"more-{n}")
    projection.catch_up()
    cache.clear()
    with django_assert_max_num_queries(18):
        http.get("/runs/")


def test_a_run_costs_the_same_number_of_queries_for_any_number_of_steps(
    http: Client, token: Callable[..., str], django_assert_max_num_queries: Any
) -> None:
    small, large = story.long_run(token, "small", rounds=2), story.long_run(token, "large", rounds=80)
    projection.catch_up()
    for worker in (small, large):
        cache.clear()
        with django_assert_max_num_queries(20):
            http.get(f"/runs/{worker.key}/")


def test_a_list_that_did_not_change_answers_204(http: Client, token: Callable[..., str]) -> None:
    story.refund_in_the_gap(token)
    again = polled(http.get("/runs/").text, "rows")
    assert htmx(http, again, "rows").status_code == 204
    story.completed(token, "another")
    cache.clear()
    answer = htmx(http, again, "rows")
    assert answer.status_code == 200
    assert "another" in answer.text
    assert 'hx-swap-oob="true"' in answer.text
    assert "<html" not in answer.text


def test_a_run_that_did_not_change_answers_204(http: Client, token: Callable[..., str]) -> None:
    worker = story.refund_in_the_gap(token)
    again = polled(http.get(f"/runs/{worker.key}/").text, "run-head")
    assert htmx(http, again, "run-head").status_code == 204
    story.sent(worker, story.answered(worker, 4, "send_refund", "sent"))
    answer = htmx(http, again, "run-head")
    assert answer["HX-Trigger"] == "run-changed"
    assert "may run twice" not in answer.text


def test_the_overview_that_did_not_change_answers_204(http: Client, token: Callable[..., str]) -> None:
    story.lease_over(story.refund_in_the_gap(token))
    html = http.get("/").text
    assert "Gap open" in html
    again = polled(html, "now")
    assert htmx(http, again, "now").status_code == 204


def test_a_run_that_is_over_does_not_poll(http: Client, token: Callable[..., str]) -> None:
    worker = story.completed(token, "done")
    assert 'hx-trigger="every' not in http.get(f"/runs/{worker.key}/").text


def test_pages_of_a_long_run_are_even_and_joined(http: Client, token: Callable[..., str]) -> None:
    worker = story.long_run(token, "long", rounds=130, gap=False)
    base = f"/runs/{worker.key}/"
    first, second, third = (http.get(f"{base}?after={n}").text for n in (0, 100, 200))
    assert [len(re.findall(r'<tbody id="s\d+"', page)) for page in (first, second, third)] == [100, 100, 60]
    assert 'href="?after=100"' in first
    assert 'href="?after=0"' in second
    assert 'id="s150"' in http.get(f"{base}?open=150").text
    assert "to step" not in http.get(f"{base}?entry=200").text
    last = http.get(f"{base}entries/").text
    assert 'href="?after=100"' in last


def test_an_entry_opens_among_its_neighbours(http: Client, token: Callable[..., str]) -> None:
    worker = story.long_run(token, "long", rounds=100, gap=False)
    html = http.get(f"/runs/{worker.key}/entries/250/").text
    assert re.search(r'<tr id="e250" aria-selected="true">', html)
    assert 'id="e245"' in html
    assert "has no entry 9999" in http.get(f"/runs/{worker.key}/entries/9999/").text


def test_a_value_and_the_export_are_the_recorded_bytes(http: Client, token: Callable[..., str]) -> None:
    worker = story.begun(token, "exact")
    line = worker.line("tool.result", name="t", step=1, out="§")
    line = line.replace(b'"\\u00a7"', b'{"big":12345678901234567890123,"rate":1.10,"nan":"NaN","nested":[[[]]]}')
    story.sent(worker, line)
    stored = list(worker.raws())
    number = len(stored)
    answer = http.get(f"/runs/{worker.key}/entries/{number}/out.txt")
    assert answer.content == b'{"big":12345678901234567890123,"rate":1.10,"nan":"NaN","nested":[[[]]]}'
    assert answer["X-Content-Type-Options"] == "nosniff"
    export = b"".join(http.get(f"/runs/{worker.key}/export.jsonl").streaming_content).splitlines()  # type: ignore[attr-defined]
    assert [json.loads(row)["seq"] for row in export] == list(range(1, number + 1))
    assert export[-1].endswith(line[1:])
    assert "12345678901234567890123" in http.get(f"/runs/{worker.key}/?open=1").text


def imported(*lines: bytes) -> Run:
    """The run of an imported file."""
    store.ingest(
        source_name="file", runtime="lines", import_id=None, actor="import:1", items=[foreign(line) for line in lines], agent="",
        environment="",
    )  # fmt: skip
    projection.catch_up()
    return Run.objects.get()


def test_claims_of_an_imported_file_are_no_decisions(http: Client) -> None:
    run = imported(
        b'{"run":"f-1","seq":1,"kind":"run.started","agent":"a"}',
        b'{"run":"f-1","seq":2,"kind":"approval.decided","approval":"p","decision":"approve","by":"mallory"}',
    )
    assert "claimed" in http.get(f"/runs/{run.key}/entries/").text


def test_two_thousand_levels_show_whole(http: Client) -> None:
    deep = b"[" * 2_000 + b"]" * 2_000
    run = imported(b'{"run":"f-1","seq":1,"kind":"tool.result","name":"t","step":1,"out":' + deep + b"}")
    html = http.get(f"/runs/{run.key}/entries/1/").text
    assert html.count("[") >= 2_000
    assert http.get(f"/runs/{run.key}/?open=1").status_code == 200


def test_entries_go_by_the_numbers_of_their_source(http: Client) -> None:
    run = imported(
        b'{"run":"f-1","seq":10,"kind":"run.started","agent":"a"}',
        b'{"run":"f-1","seq":40,"kind":"tool.result","name":"t","step":1,"out":"forty"}',
    )
    html = http.get(f"/runs/{run.key}/entries/40/").text
    assert re.search(r'<tr id="e40" aria-selected="true">', html)
    assert "#40" in http.get(f"/runs/{run.key}/?open=1").text
    assert http.get(f"/runs/{run.key}/entries/40/out.txt").content == b'"forty"'


def test_a_failed_run_still_asks_about_its_step_without_an_answer(http: Client) -> None:
    run = imported(
        b'{"run":"f-1","seq":1,"kind":"run.started","agent":"a"}',
        b'{"run":"f-1","seq":2,"kind":"tool.started","name":"pay","step":1}',
        b'{"run":"f-1","seq":3,"kind":"run.failed","error":{"type":"E","message":"m"}}',
    )
    html = http.get(f"/runs/{run.key}/").text
    assert "Step 1 pay may have run" in html
    assert '<a href="/docs/findings/gap_open/">What to do</a>' in html
    assert "The run is over." in html


def test_entries_of_another_runtime_show_when_they_happened_there(http: Client) -> None:
    run = imported(
        b'{"run":"f-1","seq":1,"at":"2020-02-03T04:05:06.789Z","kind":"run.started","agent":"a"}',
        b'{"run":"f-1","seq":2,"kind":"tool.result","name":"t","step":1,"out":1}',
    )
    table = http.get(f"/runs/{run.key}/entries/").text.partition("<table")[2]
    assert "2020-02-03T04:05:06.789" in table
    assert table.count("<time") == 1  # no time of ours stands for the one that is not told


@pytest.mark.parametrize("tab", ["entries", "raw"])
def test_the_last_entry_of_an_imported_run_is_reached(http: Client, tab: str) -> None:
    """What an import says about a run stands in its journal too, and counts as no entry of the source."""
    lines = [b'{"run":"f-1","seq":%d,"kind":"note","name":"n%d"}' % (n, n) for n in range(1, 451)]
    notes = [b'{"run":"f-1","id":"state:%d","kind":"note","name":"runtime.state","out":{}}' % n for n in range(3)]
    run = imported(*notes, *lines)
    assert Run.objects.get(pk=run.head_id).entries == 450
    html = http.get(f"/runs/{run.key}/{tab}/").text
    assert "of 453 " in html
    assert "Entries and notes <b>453</b>" in html
    end = re.search(r'<a href="([^"]+)"[^>]*>To the end</a>', html)
    assert end
    html = http.get(f"/runs/{run.key}/{tab}/{end[1]}").text
    assert ">n450<" in html or "&quot;n450&quot;" in html
    assert "Later" not in html


def test_each_of_several_entries_with_one_number_has_an_address_of_its_own(http: Client) -> None:
    run = imported(
        b'{"run":"f-1","seq":1,"kind":"run.started","agent":"a"}',
        b'{"run":"f-1","seq":4,"id":"x","kind":"tool.result","name":"first","step":1,"out":"one"}',
        b'{"run":"f-1","seq":4,"id":"y","kind":"approval.decided","approval":"p","decision":"approve","by":"carl"}',
        b'{"run":"f-1","seq":4,"id":"z","kind":"tool.result","name":"third","step":2,"out":"three"}',
    )
    listed = http.get(f"/runs/{run.key}/entries/").text
    ids = re.findall(r'<tr id="([^"]+)"', listed)
    assert ids == ["e1", "e4-2", "e4-3", "e4-4"]
    assert listed.count(">4</a>") == 3, "the number that is shown stays the source's"
    for place, out in (("4-2", b'"one"'), ("4-4", b'"three"'), ("4", b'"one"')):
        html = http.get(f"/runs/{run.key}/entries/{place}/").text
        assert 'id="e4"' in html
        assert ("Several entries" in html) == (place == "4")
        assert http.get(f"/runs/{run.key}/entries/{place}/out.txt").content == out
    assert f"/runs/{run.key}/entries/4-3/#e4" in http.get(f"/runs/{run.key}/decisions/").text
    for nothing in ("4-1", "4-99", "5-2", "9" * 19):
        assert "has no entry" in http.get(f"/runs/{run.key}/entries/{nothing}/").text
    opened = http.get(f"/runs/{run.key}/?open=1&open=2").text
    assert len(set(re.findall(r'<section class="entry" id="([^"]+)"', opened))) >= 2
