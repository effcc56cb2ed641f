"""Hostile recorded text in a real browser: nothing runs, nothing is fetched from elsewhere, nothing asks the person."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.test_hostile_content import MARKUP, SCHEMES, Stage, built

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def stage(people: dict[str, Any]) -> Stage:
    return built(people["dora"])


def addresses(stage: Stage) -> list[str]:
    """One page of each sort, those with the most text."""
    shown = [a for a in stage.addresses if not a.startswith(f"/runs/{stage.all_key}/entries/")]
    return [*shown[:3], f"/runs/{stage.all_key}/entries/", f"/runs/{stage.all_key}/entries/5/", *shown[10::2]]


def test_nothing_of_a_journal_runs_in_a_browser(stage: Stage, opened: Callable[..., Page]) -> None:
    page = opened("/", as_="dora")
    dialogs: list[str] = []
    asked: list[str] = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: asked.append(request.url))
    here = urlsplit(page.url).netloc
    for address in addresses(stage):
        page.goto(address)
        page.wait_for_load_state("networkidle")
        assert (
            page.evaluate(
                "() => document.querySelectorAll('img, iframe, object, embed, base, math, script:not([src])').length"
            )
            == 0
        ), address
        assert "7331" not in page.title() or "51317" not in page.content()
    assert dialogs == []
    assert {urlsplit(url).netloc for url in asked} == {here}


def test_the_text_of_the_page_is_the_text_of_the_journal(stage: Stage, opened: Callable[..., Page]) -> None:
    for text in (*MARKUP[:4], *SCHEMES[:2], "{{7331*7}}"):
        page = opened(f"/runs/{stage.keys[text]}/", as_="dora")
        expect(page.locator("h1")).to_contain_text(text)


def test_pressing_everything_on_a_hostile_page_leads_nowhere_else(stage: Stage, opened: Callable[..., Page]) -> None:
    page = opened(f"/runs/{stage.all_key}/", as_="dora")
    here = urlsplit(page.url).netloc
    targets = page.evaluate(
        "() => [...document.querySelectorAll('a[href], form[action], [hx-get]')].map(e => e.href || e.action || e.getAttribute('hx-get'))"
    )
    assert len(targets) > 20
    assert {urlsplit(t).netloc or here for t in targets} == {here}
    for n in range(2, 12, 3):
        page.click(f"#a{n}")
        expect(page.locator(f"#s{n} .step-detail")).to_be_visible()
