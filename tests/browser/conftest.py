"""A signed-in page that fails its test when the browser reports an error or a breach of the content security policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings
from django.core.cache import cache
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page

COLLECT = "document.addEventListener('securitypolicyviolation', e => (window.__breaches ??= []).push(e.violatedDirective + ' ' + e.blockedURI));"


@pytest.fixture(autouse=True)
def _fresh_counts() -> None:
    """Counts and names on pages may be some seconds old; a test must not see those of another."""
    cache.clear()


@pytest.fixture
def people(transactional_db: None, people: dict[str, Any]) -> dict[str, Any]:
    """The cast, committed, so that the live server sees it."""
    return people


def signed_in(context: BrowserContext, person: Any, url: str) -> None:
    """Puts a session of this person into the browser."""
    from django.test import Client

    client = Client()
    client.force_login(person)
    context.add_cookies(
        [
            {
                "name": settings.SESSION_COOKIE_NAME,
                "value": client.cookies[settings.SESSION_COOKIE_NAME].value,
                "url": url,
            }
        ]
    )


def _counts(message: ConsoleMessage) -> bool:
    """Chromium reports an address that is not found, which some tests open on purpose."""
    return message.type in ("error", "warning") and "404 (Not Found)" not in message.text


@pytest.fixture
def opened(browser: Browser, live_server: Any, people: dict[str, Any]) -> Iterator[Callable[..., Page]]:
    """`opened("/runs/", as_="alice", …context options)`: a page at this address; every report of the browser fails the test."""
    reports: list[str] = []
    pages: list[Page] = []

    def open_(path: str, *, as_: str | None = "alice", **options: Any) -> Page:
        context = browser.new_context(
            base_url=live_server.url, **{"viewport": {"width": 1440, "height": 900}, **options}
        )
        if as_:
            signed_in(context, people[as_], live_server.url)
        context.add_init_script(COLLECT)
        page = context.new_page()
        page.on("console", lambda message: reports.append(message.text) if _counts(message) else None)
        page.on("pageerror", lambda error: reports.append(str(error)))
        page.goto(path)
        pages.append(page)
        return page

    yield open_
    for page in pages:
        reports += page.evaluate("() => window.__breaches ?? []") if page.context.browser else []
        page.context.close()
    assert not reports
