"""A form that is posted after the session ended was not sent; its page comes back after signing in."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client

pytestmark = pytest.mark.django_db
PAGE = "http://testserver/agents/?agent=a%20b"


def posted(**headers: str) -> Any:
    return Client().post("/agents/policy/", {"agent": "a"}, headers=headers)


def where(address: str) -> dict[str, list[str]]:
    assert urlsplit(address).path == "/login/"
    return parse_qs(urlsplit(address).query)


def test_signing_in_leads_back_to_the_page_with_the_form(people: Any) -> None:
    address = posted(referer=PAGE).headers["Location"]
    assert where(address) == {"next": ["/agents/?agent=a%20b"], "unsent": ["1"]}
    page = Client().get(address).content.decode()
    assert "the form was not sent" in page
    assert 'name="next" value="/agents/?agent=a%20b"' in page


@pytest.mark.parametrize("headers", [{}, {"referer": "https://elsewhere.example/agents/"}])
def test_without_a_page_of_ours_it_leads_to_the_start(headers: dict[str, str]) -> None:
    assert where(posted(**headers).headers["Location"])["next"] == ["/"]


def test_a_part_of_a_page_takes_the_whole_page_there() -> None:
    answer = posted(**{"HX-Request": "true", "HX-Current-URL": PAGE})
    assert answer.status_code == 204
    assert where(answer.headers["HX-Redirect"])["next"] == ["/agents/?agent=a%20b"]


def test_a_page_that_was_asked_for_still_opens_after_signing_in() -> None:
    answer = Client().get("/agents/")
    assert where(answer.headers["Location"]) == {"next": ["/agents/"]}
    assert "opens after signing in" in Client().get(answer.headers["Location"]).content.decode()
