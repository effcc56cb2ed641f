"""Every finding has a page inside the product, and what is found links to it."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from journals import store
from runs import guide, show
from runs.findings import CODES
from tests.pages import story

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer(people: dict[str, Any]) -> Client:
    client = Client()
    client.force_login(people["vera"])
    return client


@pytest.mark.parametrize("code", CODES)
def test_a_finding_has_a_page_that_says_what_to_do(code: str) -> None:
    page = guide.page_of(code)
    heads = ["".join(piece.text for piece in block.lines[0]) for block in page.blocks if block.kind == "heading"]
    assert heads[:3] == ["What it means", "How it is found", "What to do"]
    assert all(piece.text for block in page.blocks for line in block.lines for piece in line)


def test_the_page_is_text_and_lists_and_links_to_the_runs(viewer: Client) -> None:
    page = viewer.get("/docs/findings/gap_open/").content.decode()
    assert "<h2>What to do</h2>" in page
    assert "<ol><li>Keep the run from going on" in page
    assert "<code>UnresolvedGap</code>" in page
    assert 'href="/runs/?finding=gap_open"' in page


def test_the_list_names_every_finding_with_its_severity(viewer: Client) -> None:
    page = viewer.get("/docs/findings/").content.decode()
    assert all(f'href="/docs/findings/{code}/">{code}</a>' in page for code in CODES)
    assert page.count('data-mean="broken">error') == sum(severity == "error" for severity, _ in CODES.values())


def test_there_is_no_page_of_another_name(viewer: Client) -> None:
    assert viewer.get("/docs/findings/gap_opened/").status_code == 404
    assert viewer.get("/docs/findings/..%2Fstates/").status_code == 404


def test_a_run_links_each_finding_and_json_names_its_page(viewer: Client, token: Any) -> None:
    head = store.find(key=story.refund_in_the_gap(token).key)
    found = show.show(head.id)["findings"]
    assert found
    assert all(f["docs"] == f"/docs/findings/{f['code']}/" for f in found)
    page = viewer.get(f"/runs/{head.key}/").content.decode()
    assert all(f'href="{f["docs"]}"' in page for f in found)
