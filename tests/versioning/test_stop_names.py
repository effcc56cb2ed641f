"""The stop names are a closed list, and each has a page that says what it means and what to do."""

from __future__ import annotations

from pathlib import Path

from versioning.models import STOP_NAMES

PAGES = Path(__file__).resolve().parents[2] / "docs" / "stop-names"


def test_each_stop_name_has_a_page_and_each_page_a_stop_name():
    assert sorted(p.stem for p in PAGES.glob("*.md")) == sorted(STOP_NAMES)


def test_each_page_says_what_it_means_and_what_to_do():
    for page in PAGES.glob("*.md"):
        text = page.read_text()
        assert text.startswith(f"# {page.stem}\n"), page
        assert "## What it means" in text, page
        assert "\n- " in text.split("## What to do")[1], page
