"""Captures, whole, again, later and damaged, through the real import, the pages and the JSON API."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from journals.adapters import ADAPTERS
from tests.conformance.captures import Capture, captures
from tests.fuzz.cases import cases

pytestmark = pytest.mark.django_db

SERVED = int(os.environ.get("SERVED", "1"))  # damaged captures of each adapter
SEED = os.environ.get("SEED", "make test")
SEEN = 3  # runs of one import whose pages are opened
PAGES = ("", "entries/", "versions/", "approvals/", "decisions/", "raw/", "export.jsonl")
Files = tuple[tuple[str, bytes], ...]


@pytest.fixture(autouse=True)
def _tasks_at_once() -> Iterator[None]:
    """A worker that takes each message at once, in this process."""
    from config.celery import app

    app.conf.task_always_eager = app.conf.task_eager_propagates = True
    yield
    app.conf.task_always_eager = app.conf.task_eager_propagates = False


@pytest.fixture
def ci(token: Callable[..., str]) -> dict[str, Any]:
    return {"HTTP_AUTHORIZATION": f"Bearer {token('ci')}"}


@pytest.fixture
def imported(client: Client, ci: dict[str, Any]) -> Callable[..., dict[str, Any]]:
    """`imported(files, source)`: the report of an upload, checked for its counts."""

    def run(files: Files, source: str, **more: str) -> dict[str, Any]:
        form = {"file": [SimpleUploadedFile(path, data) for path, data in files], "source": source, **more}
        answer = client.post("/api/v1/imports", form, **ci)
        made: dict[str, Any] = answer.json()
        nothing = made.pop("error", {}).get("code") == "NothingImported"
        assert answer.status_code == (422 if nothing else 201), answer.content[:500]
        assert client.get(f"/api/v1/imports/{made['id']}", **ci).json() == made
        assert [f["path"] for f in made["files"]] == [path.rpartition("/")[2] for path, _ in files]
        for file in made["files"]:
            assert file["entries_read"] + file["unread_lines"] == file["lines"] or file["state"] == "refused", file
            assert file["state"] in ("complete", "partial", "refused"), file
            assert len(file["unread"]) == file["unread_lines"], file
            assert file["reason"] or file["state"] == "complete", file
        return made

    return run


def runs_of(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {run["key"]: run for file in report["files"] for run in file["runs"]}


def look(client: Client, report: dict[str, Any], ci: dict[str, Any]) -> list[str]:
    """Addresses of the import's runs that answer with anything but the page."""
    bad = []
    for key in list(runs_of(report))[:SEEN]:
        urls = [f"/runs/{key}/{page}" for page in PAGES] + [f"/api/v1/runs/{key}", f"/api/v1/runs/{key}/entries"]
        bad += [f"{url}: {answer.status_code}" for url in urls if (answer := client.get(url, **ci)).status_code != 200]
    pages = ["/runs/", f"/imports/{report['id']}/"]
    return bad + [f"{url}: {answer.status_code}" for url in pages if (answer := client.get(url)).status_code != 200]


@pytest.mark.parametrize("adapter", list(ADAPTERS))
def test_what_is_damaged_is_imported_and_shown(
    adapter: str, client: Client, people: dict[str, Any], ci: dict[str, Any], imported: Callable[..., dict[str, Any]]
) -> None:
    client.force_login(people["alice"])
    client.raise_request_exception = False
    tried = 0
    for case in cases(adapter, f"{SEED}, served", SERVED):
        bad = look(client, imported(case.files, f"{adapter}-{case.number}", format=adapter), ci)
        assert bad == [], f"{case.name}: {case.what}"
        tried += 1
    print(f"{adapter:12} {tried:6} imported and shown")  # noqa: T201


def one_of(adapter: str) -> Capture:
    """A capture of some runs."""
    name = {"dbos": "captures/c-approval.parked*", "temporal": "c-signal.parked*", "langgraph": "case-13.history.json"}
    found = [c for c in captures() if c.adapter == adapter and c.size < 40_000]
    return next((c for c in found if c.name == name.get(adapter)), max(found, key=lambda c: c.size))


@pytest.mark.parametrize("adapter", list(ADAPTERS))
def test_the_same_files_again_bring_nothing_new(adapter: str, imported: Callable[..., dict[str, Any]]) -> None:
    capture = one_of(adapter)
    first = runs_of(imported(capture.files, adapter))
    again = runs_of(imported(capture.files, adapter))
    assert first
    assert again.keys() == first.keys()
    for key, run in again.items():
        assert (run["new_entries"], run["conflicts"]) == (0, []), key
        assert {k: run[k] for k in ("status", "complete", "reason")} == {
            k: first[key][k] for k in ("status", "complete", "reason")
        }


LATER = [
    ("temporal", "b-crash.inflight*", "b-crash.recovered*"),
    ("temporal", "c-signal.parked*", "c-signal.approved*"),
    ("dbos", "captures/b-crash.inflight.tables.json", "captures/b-crash.recovered.tables.json"),
    ("dbos", "captures/c-approval.parked.dump.sql", "captures/c-approval.approved.dump.sql"),
    ("langgraph", "b-crash-sync.inflight.dump.sql", "b-crash-sync.recovered.dump.sql"),
    ("langgraph", "c-approval.parked.tables.json", "c-approval.approved.tables.json"),
    ("restate", "b_sigkill_in_send_refund.json", ""),
    ("aws", "c_parked_callback.json", ""),
    ("durabletask", "b-crash.json", ""),
    ("cloudflare", "approval.json", ""),
]
"""An earlier and a later export of one run; with no later one, the snapshots inside of the first."""


def snapshots(data: bytes) -> list[bytes]:
    """The members of a capture that wraps several moments, each as a file of its own."""
    whole = json.loads(data)
    return [json.dumps({name: value}).encode() for name, value in whole.items() if isinstance(value, dict)]


@pytest.mark.parametrize(("adapter", "earlier", "later"), LATER)
def test_a_later_export_brings_only_what_is_new(
    adapter: str, earlier: str, later: str, imported: Callable[..., dict[str, Any]]
) -> None:
    found = {c.name: c for c in captures() if c.adapter == adapter}
    exports = (
        [found[earlier].files, found[later].files]
        if later
        else [((earlier, data),) for data in snapshots(found[earlier].files[0][1])]
    )
    before: dict[str, dict[str, Any]] = {}
    together = 0
    for files in exports:
        for key, run in runs_of(imported(files, adapter, format=adapter)).items():
            assert run["conflicts"] == [], f"{run['run']} in {files[0][0]}"
            if key in before:
                together += 1
                assert run["existing_entries"] > 0
            before[key] = run
    assert together, "no run stands in two of the exports"
