"""`POST /api/v1/imports` and what it answers."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from journals import ingest, tasks
from journals.imports_models import Import, Upload
from tests.ingest.conftest import TORN

pytestmark = pytest.mark.django_db

GOOD = (TORN / "00-good.jsonl").read_bytes()
RAW = "application/x-ndjson"


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


def test_answers_the_report_for_a_raw_body(client: Client, ci: dict[str, Any]) -> None:
    answer = client.post("/api/v1/imports?filename=run.jsonl&source=here&agent=refund", GOOD, content_type=RAW, **ci)
    assert answer.status_code == 201
    made = answer.json()
    assert (made["files"][0]["path"], made["files"][0]["state"], made["files"][0]["runs"][0]["source"]) == (
        "run.jsonl",
        "complete",
        "here",
    )
    assert client.get(answer["Location"], **ci).json() == made


def test_takes_several_files_as_a_form(client: Client, ci: dict[str, Any]) -> None:
    form = {
        "file": [
            SimpleUploadedFile("a.jsonl", GOOD[:208]),
            SimpleUploadedFile("b.jsonl.gz", gzip.compress(GOOD[208:])),
        ],
        "source": "form",
    }
    made = client.post("/api/v1/imports", form, **ci)
    assert made.status_code == 201
    assert [(f["path"], f["state"], f["runs"][0]["new_entries"]) for f in made.json()["files"]] == [
        ("a.jsonl", "complete", 2),
        ("b.jsonl.gz", "complete", 3),
    ]


def test_gives_a_file_back_as_it_came(client: Client, ci: dict[str, Any]) -> None:
    data = (TORN / "16-cut.jsonl.gz").read_bytes()
    made = client.post("/api/v1/imports?filename=a/b%0Ac.gz", data, content_type=RAW, **ci).json()
    answer = client.get(f"/api/v1/imports/{made['id']}/files/1", **ci)
    assert b"".join(answer) == data  # type: ignore[arg-type]
    assert answer["Content-Disposition"].startswith("attachment")
    assert "\n" not in answer["Content-Disposition"]
    assert client.get(f"/api/v1/imports/{made['id']}/files/2", **ci).status_code == 404


def test_says_422_when_nothing_was_taken(client: Client, ci: dict[str, Any]) -> None:
    for body in (b"", b"hello", b"PK\x03\x04zip", b"\x80\x04pickle"):
        answer = client.post("/api/v1/imports", body, content_type=RAW, **ci)
        assert answer.status_code == 422, body
        assert answer.json()["error"]["code"] == "NothingImported"
        assert answer.json()["files"][0]["reason"]


def test_answers_202_while_no_worker_has_come(
    client: Client, ci: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as away:
        away.setattr(tasks.run_import, "delay", _no_broker)
        answer = client.post("/api/v1/imports?wait=0.05", GOOD, content_type=RAW, **ci)
    assert (answer.status_code, answer.json()["state"], answer.json()["files"][0]["state"]) == (202, "queued", "queued")
    Import.objects.update(created_at="2020-01-01T00:00:00Z")
    tasks.sweep_imports()
    assert client.get(answer["Location"], **ci).json()["state"] == "done"


def _no_broker(**_: Any) -> None:
    raise OSError("connection refused")


def test_needs_a_ci_token_to_import(client: Client, token: Callable[..., str], ci: dict[str, Any]) -> None:
    assert client.post("/api/v1/imports", GOOD, content_type=RAW).status_code == 401
    for scope in ("worker", "read"):
        answer = client.post("/api/v1/imports", GOOD, content_type=RAW, HTTP_AUTHORIZATION=f"Bearer {token(scope)}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "NotAllowed")
    assert not Upload.objects.exists()


def test_a_token_for_one_agent_imports_for_that_agent_only(
    client: Client, token: Callable[..., str], ci: dict[str, Any]
) -> None:
    own = {"HTTP_AUTHORIZATION": f"Bearer {token('ci', agent='refund')}"}
    assert client.post("/api/v1/imports?agent=other", GOOD, content_type=RAW, **own).status_code == 403
    mine = client.post("/api/v1/imports", GOOD, content_type=RAW, **own).json()
    assert Import.objects.get(pk=mine["id"]).agent == "refund"
    other = client.post("/api/v1/imports?agent=other&source=o", GOOD, content_type=RAW, **ci).json()
    hidden, unknown = (client.get(f"/api/v1/imports/{n}", **own) for n in (other["id"], 999_999))
    assert hidden.status_code == unknown.status_code == 404


@pytest.mark.parametrize("query", ["format=sideways", "source=native:prod", "wait=x", "wait=1000"])
def test_names_a_bad_parameter(query: str, client: Client, ci: dict[str, Any]) -> None:
    answer = client.post(f"/api/v1/imports?{query}", GOOD, content_type=RAW, **ci)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "MalformedRequest")
    assert not Import.objects.exists()


def test_refuses_a_body_over_the_limit_before_reading_it(client: Client, ci: dict[str, Any]) -> None:
    answer = client.generic("POST", "/api/v1/imports", b"x", RAW, CONTENT_LENGTH=str(3 << 30), **ci)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "TooLarge")


def test_refuses_a_chunked_body_instead_of_taking_it_for_empty(client: Client, ci: dict[str, Any]) -> None:
    answer = client.generic(
        "POST", "/api/v1/imports", b"", RAW, HTTP_TRANSFER_ENCODING="chunked", CONTENT_LENGTH="", **ci
    )
    assert (answer.status_code, "chunked" in answer.json()["error"]["message"]) == (400, True)
    assert not Import.objects.exists()


def test_refuses_a_bomb_in_no_time_and_keeps_no_run_of_it(client: Client, ci: dict[str, Any]) -> None:
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=9) as bomb:
        for _ in range(80):
            bomb.write(b'{"run":"r","kind":"note"}\n' * 40_000)
    answer = client.post("/api/v1/imports", packed.getvalue(), content_type=RAW, **ci)
    assert answer.status_code == 422
    assert "times its size" in answer.json()["files"][0]["reason"]


def test_importing_twice_at_once_keeps_one_upload(client: Client, ci: dict[str, Any]) -> None:
    for _ in range(2):
        assert client.post("/api/v1/imports", GOOD, content_type=RAW, **ci).status_code == 201
    assert Upload.objects.count() == 1
    assert ingest.FORMATS[0] == "auto"
