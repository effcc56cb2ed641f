"""The append's short way answers as the long one does, and pooled connections survive a server that went away."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from django.core.handlers.wsgi import WSGIHandler
from django.db import connection

from config.hot import with_hot_path
from config.postgresql.base import check_quietly
from tests.journals.agents import Worker


def call(application: Callable[..., Any], path: str, body: bytes, **headers: str) -> tuple[str, dict[str, str], bytes]:
    told: list[Any] = []
    environ = {
        "REQUEST_METHOD": "POST", "PATH_INFO": path, "SERVER_NAME": "127.0.0.1", "SERVER_PORT": "80", "HTTP_HOST": "127.0.0.1",
        "CONTENT_LENGTH": str(len(body)), "wsgi.input": io.BytesIO(body), "wsgi.url_scheme": "http", **headers,
    }  # fmt: skip
    answer = application(environ, lambda status, found: told.append((status, dict(found))))
    return *told[0], b"".join(answer)


@pytest.mark.django_db(transaction=True)
def test_both_ways_answer_alike(token: Any) -> None:
    worker = Worker(token("worker")).start().open()
    path = f"/api/v1/runs/{worker.key}/entries"
    headers = {"HTTP_AUTHORIZATION": f"Bearer {worker.secret}", "HTTP_DRAINBOARD_EPOCH": str(worker.epoch)}
    good, bad = worker.line("note"), worker.line("stop.requested")
    django = WSGIHandler()
    for body, more in (
        (good, headers),
        (good, headers),
        (bad, headers),
        (good, {}),
        (good, {**headers, "HTTP_DRAINBOARD_EPOCH": "x"}),
    ):
        long, short = call(django, path, body, **more), call(with_hot_path(django), path, body, **more)
        assert (long[0], long[2]) == (short[0], short[2])
        assert short[1]["Content-Type"] == "application/json"


def test_everything_else_goes_the_long_way() -> None:
    seen: list[str] = []

    def django(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        seen.append(environ["PATH_INFO"])
        start_response("200 OK", [])
        return []

    for path in ("/api/v1/runs/a/b/entries", "/api/v1/runs/a%2F/entries", "/api/v1/runs", "/api/v1/runs/../entries"):
        call(with_hot_path(django), path, b"")
    assert len(seen) == 4


@pytest.mark.django_db(transaction=True)
def test_a_connection_that_the_server_closed_is_found_without_asking() -> None:
    found = psycopg.connect(_conninfo(), autocommit=True)
    check_quietly(found)
    pid = found.info.backend_pid
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
    with pytest.raises(psycopg.OperationalError):
        check_quietly(found)


def _conninfo() -> str:
    params = connection.settings_dict
    parts = {
        "dbname": params["NAME"],
        "user": params["USER"],
        "password": params["PASSWORD"],
        "host": params["HOST"],
        "port": params["PORT"],
    }
    return psycopg.conninfo.make_conninfo(**{k: v for k, v in parts.items() if v})


def test_the_pool_uses_the_quiet_check() -> None:
    assert connection.pool is None or connection.pool._check is check_quietly
