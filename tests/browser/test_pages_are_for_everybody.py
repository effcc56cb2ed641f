"""Without script, on a phone, in the dark, with the keyboard, for assistive technology."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.pages import story

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


@pytest.fixture
def key(token: Callable[..., str], people: object) -> str:
    story.failed(token)
    story.parked(token, "po-2231", agent="procure")
    worker = story.long_run(token, "refund-long", rounds=6)
    story.lease_over(worker)
    return worker.key


def addresses(key: str) -> list[str]:
    tabs = [f"/runs/{key}/{tab}/" for tab in ("entries", "versions", "approvals", "decisions", "raw")]
    return [
        "/",
        "/runs/",
        "/runs/?q=nothing-has-this",
        f"/runs/{key}/",
        f"/runs/{key}/?open=2",
        *tabs,
        f"/runs/{key}/entries/3/",
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(key: str, opened: Callable[..., Page], scheme: str) -> None:
    page = opened("/", color_scheme=scheme)
    for address in [*addresses(key), "/settings/"]:
        page.goto(address)
        found = Axe().run(page).response["violations"]
        serious = [
            (v["id"], [n["target"] for n in v["nodes"]][:3]) for v in found if v["impact"] in ("serious", "critical")
        ]
        assert not serious, (address, serious)


def test_axe_finds_no_serious_fault_on_pages_of_accounts(opened: Callable[..., Page]) -> None:
    page = opened("/settings/users/", as_="dora")
    for address in ("/settings/users/", "/settings/tokens/", "/runs/rNothing/"):
        page.goto(address)
        found = Axe().run(page).response["violations"]
        assert not [v["id"] for v in found if v["impact"] in ("serious", "critical")], address
    page.goto("/settings/tokens/")
    page.fill("#id_name", "refund workers")
    page.get_by_role("button", name="Make token").click()
    expect(page.locator("#new-token code")).to_contain_text("db_worker_")
    expect(page.locator("table")).to_contain_text("refund workers")


def test_signing_in_leads_to_the_page_that_was_asked_for(opened: Callable[..., Page]) -> None:
    page = opened("/runs/?view=gap", as_=None)
    page.fill("#id_username", "alice")
    page.fill("#id_password", "wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("do not fit together")
    page.fill("#id_password", "alice-password")
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("h1")).to_have_text("Runs")
    assert page.url.endswith("/runs/?view=gap")
    page.locator(".topbar details", has_text="alice").locator("summary").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.locator("h1")).to_have_text("Sign in")


def test_every_page_reads_without_script(key: str, opened: Callable[..., Page]) -> None:
    page = opened("/", java_script_enabled=False)
    for address in addresses(key):
        page.goto(address)
        expect(page.locator("h1")).to_be_visible()
    page.goto("/runs/")
    page.select_option("#f-status", "failed")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("table.run-list tbody tr")).to_have_count(1)
    page.goto(f"/runs/{key}/")
    page.click("#a3")
    expect(page.locator("#s3 .step-detail")).to_be_visible()
    page.click("#a3")
    expect(page.locator(".step-detail")).to_have_count(0)
    expect(page.locator("[data-needs-js]:visible")).to_have_count(0)


def test_nothing_slides_sideways_on_a_phone(key: str, opened: Callable[..., Page]) -> None:
    page = opened("/", **PHONE)
    for address in addresses(key):
        page.goto(address)
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), address
    page.goto("/")
    page.locator(".rail").get_by_role("link", name="Runs").click()
    expect(page.locator("h1")).to_have_text("Runs")


def test_the_theme_is_remembered(key: str, opened: Callable[..., Page]) -> None:
    page = opened("/", color_scheme="light")
    page.get_by_role("button", name="Switch between light and dark").click()
    page.goto("/runs/")
    assert page.evaluate("() => document.documentElement.dataset.theme") == "dark"
    assert page.evaluate("() => getComputedStyle(document.documentElement).backgroundColor") == "rgb(16, 18, 20)"


def test_times_take_the_zone_of_the_viewer(key: str, opened: Callable[..., Page]) -> None:
    page = opened(f"/runs/{key}/entries/", timezone_id="Asia/Kolkata")
    cell = page.locator("table.entries time").first
    expect(cell).to_have_attribute("title", re.compile(r"GMT\+5:30|IST"))
    page = opened(f"/runs/{key}/entries/", java_script_enabled=False)
    expect(page.locator("table.entries time").first).to_have_attribute("title", re.compile("UTC$"))


def test_a_digest_copies_whole(key: str, opened: Callable[..., Page]) -> None:
    page = opened(f"/runs/{key}/", permissions=["clipboard-read", "clipboard-write"])
    page.locator(".facts .digest").click()
    expect(page.locator(".facts .digest")).to_have_attribute("data-copied", "")
    assert page.evaluate("() => navigator.clipboard.readText()") == key
