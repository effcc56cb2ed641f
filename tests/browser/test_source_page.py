"""A source's mapping in a real browser: from a run to the names of its steps, a preview, and saving."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from runs import projection
from runs.models import Run
from tests.runs.test_mapping_of_a_source import LINES
from tests.runs.test_projection import bring

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.mark.parametrize("script", [True, False], ids=["with script", "without"])
def test_a_wrong_kind_is_put_right(opened: Callable[..., Page], script: bool) -> None:
    bring("r1", LINES)
    projection.catch_up()
    run = Run.objects.get()
    page = opened(f"/runs/{run.key}/", java_script_enabled=script)
    page.get_by_role("link", name="steps of the wrong kind?").click()
    expect(page.locator("table.names tbody tr")).to_have_count(2)
    page.get_by_label("Kind of ask").select_option("model")
    page.get_by_label("Pattern 1", exact=True).fill("lo*")
    page.get_by_label("Effect of pattern 1").select_option("read")
    page.get_by_role("button", name="Preview on this run").click()
    expect(page.locator("#preview")).to_contain_text("2 of 2 steps change. Nothing is saved.")
    if script:
        expect(page.locator("#preview h2")).to_be_in_viewport()
    expect(page.get_by_label("Kind of ask")).to_have_value("model")
    page.get_by_role("button", name="Save and fold 1 run again").click()
    expect(page.locator(".messages")).to_contain_text("1 run is folded again")
    page.goto(f"/runs/{run.key}/")
    expect(page.locator("#s1 .kind")).to_have_text("model")
    expect(page.locator("#s2")).to_contain_text("look")


def test_every_field_fits_a_phone(opened: Callable[..., Page]) -> None:
    bring("r1", LINES)
    projection.catch_up()
    page = opened("/imports/how/", viewport={"width": 390, "height": 844})
    assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")
    page.goto("/imports/")
    page.get_by_role("link", name="file", exact=True).click()
    assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")
    page.get_by_role("button", name="Save and fold 1 run again").click()
    expect(page.locator(".messages")).to_contain_text("Nothing was changed")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(opened: Callable[..., Page], scheme: str) -> None:
    bring("r1", LINES)
    projection.catch_up()
    page = opened("/imports/how/", color_scheme=scheme)

    def check() -> None:
        found = Axe().run(page).response["violations"]
        assert not [
            (v["id"], [n["target"] for n in v["nodes"]][:3]) for v in found if v["impact"] in ("serious", "critical")
        ]

    check()
    page.goto("/imports/")
    page.get_by_role("link", name="file", exact=True).click()
    page.get_by_label("Kind of ask").select_option("model")
    page.get_by_role("button", name="Preview on this run").click()
    expect(page.locator("#preview")).to_contain_text("1 of 2 steps change")
    check()
