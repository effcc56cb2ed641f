"""Run ids that would break an address: each run opens by its own key, and no id leads to another page."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from journals.imports_report import RunReport
from tests.ingest.conftest import LINES, Importing

pytestmark = pytest.mark.django_db
FILE = (LINES / "awkward_ids.jsonl").read_bytes()
IDS = [json.loads(line)["run"] for line in FILE.split(b"\n") if line]


@pytest.fixture
def runs(importing: Importing) -> list[RunReport]:
    (file,) = importing({"f": FILE})["files"]
    return file["runs"]


@pytest.fixture
def http(client: Client, people: dict[str, Any]) -> Client:
    client.force_login(people["vera"])
    return client


def test_every_run_has_its_own_key_and_id(runs: list[RunReport]) -> None:
    assert [r["run"] for r in runs] == IDS
    assert len({r["key"] for r in runs}) == len(set(IDS)) == 27


def test_every_page_opens_by_its_key(http: Client, runs: list[RunReport]) -> None:
    listed = http.get("/runs/").content.decode()
    for n, run in enumerate(runs):
        assert f'href="/runs/{run["key"]}/"' in listed
        for address in (f"/runs/{run['key']}/", f"/runs/{run['key']}/raw/", f"/runs/{run['key']}/entries/1/"):
            answer = http.get(address)
            assert answer.status_code == 200, (address, run["run"])
            assert f"/runs/{run['key']}/" in answer.content.decode()
        raw = html.unescape(http.get(f"/runs/{run['key']}/raw/").content.decode())
        assert set(re.findall(r'"n": ?(\d+)', raw)) == {str(n)}, run["run"]
        lines = b"".join(http.get(f"/runs/{run['key']}/export.jsonl"))  # type: ignore[arg-type]
        assert lines.strip() == FILE.split(b"\n")[n]


def test_every_run_is_found_through_the_api(client: Client, token: Callable[..., str], runs: list[RunReport]) -> None:
    bearer = {"HTTP_AUTHORIZATION": f"Bearer {token('read')}"}
    for run in runs:
        answer = client.get(f"/api/v1/runs/{run['key']}", **bearer)
        assert answer.status_code == 200
        assert (answer.json()["key"], answer.json()["run"]) == (run["key"], run["run"])
