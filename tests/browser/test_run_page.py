"""The page of a run in a real browser: the gap in words, fifteen steps in sight, steps that open in place."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.pages import story

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_shows_gap_and_fifteen_steps_on_a_screen_of_900_pixels(
    token: Callable[..., str], opened: Callable[..., Page]
) -> None:
    worker = story.long_run(token, "refund-long", rounds=15)
    story.lease_over(worker)
    page = opened(f"/runs/{worker.key}/")
    expect(page.locator(".card.gap")).to_be_in_viewport(ratio=1)
    expect(page.locator(".card.gap")).to_contain_text("Step 30 send_refund may run twice")
    seen = page.locator("table.steps > tbody > tr").evaluate_all(
        "rows => rows.filter(r => r.getBoundingClientRect().bottom <= innerHeight).length"
    )
    assert seen >= 15


def test_says_the_cause_of_a_failure_first(token: Callable[..., str], opened: Callable[..., Page]) -> None:
    worker = story.failed(token)
    page = opened(f"/runs/{worker.key}/")
    card = page.locator(".card[data-mean=broken]")
    expect(card).to_contain_text("Failed at step 2 send_refund")
    expect(card).to_contain_text("CardDeclined: card network declined the refund")
    expect(card.locator("pre")).to_be_hidden()
    card.get_by_role("link", name="Go to step 2").click()
    expect(page.locator("#s2 .step-detail")).to_be_visible()


def test_opens_two_steps_in_place_and_closes_one(token: Callable[..., str], opened: Callable[..., Page]) -> None:
    worker = story.refund_in_the_gap(token)
    page = opened(f"/runs/{worker.key}/")
    page.click("#a2")
    expect(page.locator("#s2 .json").first).to_contain_text('"order": 8812')
    page.click("#a1")
    expect(page.locator("#s1 .step-detail")).to_be_visible()
    expect(page.locator("#s2 .step-detail")).to_be_visible()
    assert "open=1" in page.url
    page.click("#a2")
    expect(page.locator("#s2 .step-detail")).to_have_count(0)
    expect(page.locator("#s1 .step-detail")).to_be_visible()


def test_marks_the_step_where_the_prompt_changed(token: Callable[..., str], opened: Callable[..., Page]) -> None:
    worker = story.long_run(token, "moved", rounds=4, gap=False)
    page = opened(f"/runs/{worker.key}/")
    expect(page.locator(".ver .changed")).to_have_count(1)
    expect(page.locator("#s5 .ver .changed")).to_contain_text("refund-policy@14")
    page.get_by_role("link", name="Versions").click()
    expect(page.locator("table.matrix")).to_contain_text("changed inside the run")
    page.wait_for_url("**/versions/")


def test_goes_to_an_entry_by_its_number(token: Callable[..., str], opened: Callable[..., Page]) -> None:
    worker = story.refund_in_the_gap(token)
    page = opened(f"/runs/{worker.key}/#e4")
    page.wait_for_url("**/entries/4/#e4")
    expect(page.locator("#e4")).to_have_attribute("aria-selected", "true")
    expect(page.locator("tr.detail")).to_contain_text("line as recorded")


def test_keeps_opened_steps_open_while_the_run_goes_on(token: Callable[..., str], opened: Callable[..., Page]) -> None:
    worker = story.refund_in_the_gap(token)
    page = opened(f"/runs/{worker.key}/")
    page.click("#a2")
    expect(page.locator("#s2 .step-detail")).to_be_visible()
    story.sent(worker, story.answered(worker, 4, "send_refund", "sent"), story.model(worker, 5, "none"))
    expect(page.locator("#s5")).to_be_visible(timeout=15_000)
    expect(page.locator("#s2 .step-detail")).to_be_visible()
    expect(page.locator(".card.gap")).to_have_count(0)
    expect(page.locator("#run-tabs [aria-current] b")).to_have_text("5")


def test_shows_hostile_text_as_text(token: Callable[..., str], opened: Callable[..., Page]) -> None:
    worker = story.begun(token, "<script>alert(1)</script>\u202egnp.exe")
    story.sent(
        worker,
        story.started(worker, 1, '"><img src=x onerror=alert(1)>'),
        worker.line("tool.result", step=1, name="x", out="a\u200bb"),
    )
    page = opened(f"/runs/{worker.key}/?open=1")
    expect(page.locator("h1")).to_contain_text("<script>alert(1)</script>U+202E RLOgnp.exe")
    expect(page.locator("#s1 mark").first).to_contain_text("U+200B ZWSP")
    page.goto("/runs/")
    expect(page.locator("table.run-list")).to_contain_text("<script>alert(1)</script>")


def test_cuts_a_large_value_and_gives_the_whole(token: Callable[..., str], opened: Callable[..., Page]) -> None:
    worker = story.begun(token, "large")
    story.sent(worker, story.started(worker, 1, "fetch"), story.answered(worker, 1, "fetch", {"text": "x" * 1_000_000}))
    page = opened(f"/runs/{worker.key}/?open=1")
    link = page.get_by_role("link", name="Show all")
    expect(link).to_be_visible()
    answer = page.request.get(link.get_attribute("href") or "")
    assert answer.text() == '{"text":"' + "x" * 1_000_000 + '"}'
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
