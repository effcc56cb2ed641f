"""The API's description names every route and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import get_resolver

from config.openapi import OPERATIONS, SPANS, document

LINE = b'{"id":"1.1","run":"x","kind":"note"}'


def routes(resolver: Any, prefix: str = "") -> Iterator[str]:
    for pattern in resolver.url_patterns:
        path = prefix + str(pattern.pattern)
        if hasattr(pattern, "url_patterns"):
            yield from routes(pattern, path)
        elif path.startswith("api/v1/"):
            yield "/" + re.sub(r"<\w+:(\w+)>", r"{\1}", path.removeprefix("api/v1/"))


def test_every_route_is_described() -> None:
    assert set(routes(get_resolver())) - {"/openapi.json"} == set(OPERATIONS)


@pytest.mark.django_db
@pytest.mark.parametrize(("path", "method"), [(p, m) for p, methods in OPERATIONS.items() for m in methods])
def test_every_call_needs_a_token(path: str, method: str) -> None:
    address = "/api/v1" + re.sub(r"{(\w+)}", lambda m: "1" if m[1] in ("import_id", "n") else "x", path)
    answer = (
        getattr(Client(), method)(address, b"{}", content_type="application/json")
        if method in ("post", "put")
        else Client().get(address)
    )
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "NotAuthenticated")


@pytest.mark.django_db
@pytest.mark.parametrize(("path", "method"), [(p, m) for p, methods in OPERATIONS.items() for m in methods])
@pytest.mark.parametrize("scope", ["worker", "ci", "read"])
def test_every_call_takes_the_scopes_that_it_says(path: str, method: str, scope: str, token: Any) -> None:
    address = "/api/v1" + re.sub(r"{(\w+)}", lambda m: "1" if m[1] in ("import_id", "n") else "x", path)
    headers = {"Authorization": f"Bearer {token(scope)}", "Drainboard-Epoch": "1"}
    ask = getattr(Client(), method)
    answer = (
        ask(address, LINE, content_type="application/json", headers=headers)
        if method in ("post", "put")
        else ask(address, headers=headers)
    )
    refused = answer.status_code == 403 and answer.json()["error"]["code"] == "NotAllowed"
    assert refused == (scope not in OPERATIONS[path][method].scopes)


def test_the_document_is_openapi() -> None:
    made = document()
    assert made["openapi"] == "3.1.0"
    assert made["paths"]["/v1/traces"]["servers"] == [{"url": "/"}]
    assert (
        "agent" in made["paths"]["/runs"]["post"]["requestBody"]["content"]["application/json"]["schema"]["properties"]
    )


@pytest.mark.django_db
def test_the_page_lists_every_call(people: Any) -> None:
    client = Client()
    client.force_login(people["vera"])
    html = client.get("/api/").content.decode()
    assert all(f"/api/v1{path}" in html for path in OPERATIONS)
    assert all(path in html for path in SPANS)
    assert "LeaseLost" in html
