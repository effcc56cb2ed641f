"""The list of runs in a real browser: dense, filtered in one interaction, searched by any part of an id."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from runs import projection
from tests.pages import story

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def runs(token: Callable[..., str], people: object) -> None:
    story.refund_in_the_gap(token)
    story.failed(token)
    story.parked(token, "po-2231", agent="procure", build="40")
    for n in range(27):
        story.completed(token, f"done-{n:03}", environment="staging" if n % 2 else "prod")
    projection.catch_up()


def rows(page: Page) -> int:
    return page.locator("table.run-list tbody tr").count()


def test_shows_twenty_five_runs_on_a_screen_of_900_pixels(runs: None, opened: Callable[..., Page]) -> None:
    page = opened("/runs/")
    whole = page.locator("table.run-list tbody tr").evaluate_all(
        "rows => rows.filter(r => r.getBoundingClientRect().bottom <= innerHeight).length"
    )
    assert whole >= 25


def test_filters_by_status_in_one_interaction(runs: None, opened: Callable[..., Page]) -> None:
    page = opened("/runs/")
    page.select_option("#f-status", "failed")
    expect(page.locator("table.run-list tbody tr")).to_have_count(1)
    expect(page.locator("table.run-list")).to_contain_text("refund-1009")
    assert "status=failed" in page.url
    page.locator(".tag", has_text="failed").click()
    expect(page.locator("table.run-list tbody tr")).to_have_count(30)


def test_a_shortcut_shows_the_open_gaps(runs: None, opened: Callable[..., Page]) -> None:
    page = opened("/runs/")
    page.locator(".pill", has_text="gap open").click()
    expect(page.locator("table.run-list tbody tr")).to_have_count(1)
    expect(page.locator("table.run-list tbody")).to_contain_text("may run twice")
    expect(page.locator(".pill", has_text="gap open")).to_have_attribute("aria-current", "true")


def test_searches_any_part_of_an_id_while_typing(runs: None, opened: Callable[..., Page]) -> None:
    page = opened("/runs/")
    page.keyboard.press("/")
    page.keyboard.type("2231")
    expect(page.locator("table.run-list tbody tr")).to_have_count(1)
    expect(page.locator("table.run-list")).to_contain_text("po-2231")
    assert page.evaluate("() => document.activeElement.id") == "search"


def test_searches_from_any_page_with_one_enter(runs: None, opened: Callable[..., Page]) -> None:
    page = opened("/")
    page.fill("#search", "FUND-88")
    page.press("#search", "Enter")
    expect(page.locator("table.run-list tbody tr")).to_have_count(1)


def test_walks_rows_with_j_and_k(runs: None, opened: Callable[..., Page]) -> None:
    page = opened("/runs/")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/r*/")
    expect(page.locator("h1")).to_contain_text("done-026")


def test_refreshes_itself_when_a_run_moves_and_not_before(
    runs: None, token: Callable[..., str], opened: Callable[..., Page]
) -> None:
    page = opened("/runs/?view=in_flight")
    with page.expect_response(lambda r: "v=" in r.url) as quiet:
        pass
    assert quiet.value.status == 204
    story.parked(token, "late-arrival")
    expect(page.locator("table.run-list")).to_contain_text("late-arrival", timeout=15_000)
    expect(page.locator(".pill[aria-current] b")).to_have_text("3")


def test_keeps_the_environment_while_walking_through_pages(runs: None, opened: Callable[..., Page]) -> None:
    page = opened("/runs/")
    page.locator(".topbar details", has_text="all environments").locator("summary").click()
    page.get_by_role("link", name="staging", exact=True).click()
    expect(page.locator("table.run-list tbody tr")).to_have_count(13)
    page.get_by_role("link", name="Overview").last.click()
    assert "environment=staging" in page.url


def test_says_what_brings_runs_when_there_are_none(opened: Callable[..., Page]) -> None:
    page = opened("/runs/")
    expect(page.locator(".empty")).to_contain_text("import_journal")
