"""What the process itself serves: health, readiness, metrics, and the headers of every answer."""

from __future__ import annotations

import json

import pytest
from django.db import connection
from django.test import Client
from pytest_django import Settings

POLICY = {
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "form-action 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
}


def test_answers_healthz_without_the_database(client: Client) -> None:
    response = client.get("/healthz")
    assert (response.status_code, response.content) == (200, b"ok\n")


@pytest.mark.django_db
def test_is_ready_with_a_migrated_database(client: Client) -> None:
    response = client.get("/readyz")
    assert response.status_code == 200
    assert json.loads(response.content) == {"ready": True, "database": "ok", "migrations": "ok"}


@pytest.mark.django_db
def test_is_not_ready_while_a_migration_is_missing(client: Client) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'sessions'")
    response = client.get("/readyz")
    assert response.status_code == 503
    assert json.loads(response.content)["migrations"] == "missing"


@pytest.mark.django_db
def test_counts_requests_under_their_route(client: Client) -> None:
    client.get("/healthz")
    body = client.get("/metrics").content.decode()
    assert 'drainboard_request_seconds_count{method="GET",route="healthz",status="200"}' in body
    assert "drainboard_database_up 1.0" in body


@pytest.mark.django_db
@pytest.mark.parametrize("headers", [{"REMOTE_ADDR": "192.0.2.7"}, {"HTTP_X_FORWARDED_FOR": "192.0.2.7"}])
def test_keeps_metrics_from_other_machines(client: Client, headers: dict[str, str]) -> None:
    assert client.get("/metrics", **headers).status_code == 403  # type: ignore[arg-type]


@pytest.mark.django_db
def test_gives_metrics_for_the_token(client: Client, settings: Settings) -> None:
    settings.METRICS_TOKEN = "a-secret"
    assert client.get("/metrics").status_code == 403
    assert client.get("/metrics", headers={"Authorization": "Bearer wrong"}).status_code == 403
    assert client.get("/metrics", headers={"Authorization": "Bearer a-secret"}).status_code == 200


@pytest.mark.parametrize("path", ["/healthz", "/login/", "/no-such-page"])
@pytest.mark.django_db
def test_sends_the_strict_policy_with_every_answer(client: Client, path: str) -> None:
    headers = client.get(path).headers
    assert set(headers["Content-Security-Policy"].split("; ")) == POLICY
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "same-origin"
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert "camera=()" in headers["Permissions-Policy"]
