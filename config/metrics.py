"""Numbers for Prometheus: requests as they are served, and the queue as it stands.

Under several web processes PROMETHEUS_MULTIPROC_DIR (set by ``manage.py up``) adds them together.
"""

from __future__ import annotations

import hmac
import os
import time
from collections.abc import Callable, Iterator

from django.conf import settings
from django.db import Error, connection
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector

LOOPBACK = frozenset({"127.0.0.1", "::1"})
REQUESTS = Histogram(
    "drainboard_request_seconds",
    "Time from the first middleware to the answer, by route and status.",
    ["method", "route", "status"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
)
Get = Callable[[HttpRequest], HttpResponseBase]


def measured(get_response: Get) -> Get:
    """Middleware: observe each request under its route's pattern, never under its full path."""

    def answer(request: HttpRequest) -> HttpResponseBase:
        started = time.perf_counter()
        response = get_response(request)
        route = request.resolver_match.route if request.resolver_match else "unmatched"
        elapsed = time.perf_counter() - started
        REQUESTS.labels(request.method, route, response.status_code).observe(elapsed)
        return response

    return answer


class DatabaseCollector:
    """Gauges read from the database at each scrape, the same whichever process answers."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Whether the database answers, and if the queue is in it, its length and oldest message."""
        up = GaugeMetricFamily("drainboard_database_up", "1 if the database answers.")
        length = GaugeMetricFamily("drainboard_queue_messages", "Messages waiting.", labels=["queue"])
        age = GaugeMetricFamily("drainboard_queue_oldest_seconds", "Age of the oldest.", labels=["queue"])
        try:
            for queue, messages, oldest in _queues():
                length.add_metric([queue], messages)
                age.add_metric([queue], oldest or 0)
            up.add_metric([], 1)
        except Error:  # the scrape reports it as drainboard_database_up 0
            up.add_metric([], 0)
        yield from (up, length, age)


def _queues() -> list[tuple[str, int, int | None]]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regprocedure('pgmq.metrics_all()') IS NOT NULL")
        row = cursor.fetchone()
        if not row or not row[0]:
            return []
        cursor.execute("SELECT queue_name, queue_length, oldest_msg_age_sec FROM pgmq.metrics_all()")
        return [(name, length, oldest) for name, length, oldest in cursor.fetchall()]


def metrics(request: HttpRequest) -> HttpResponse:
    """``/metrics``: for METRICS_TOKEN's bearer; without such a token for this machine only."""
    if not _may_read(request):
        return HttpResponse("Give METRICS_TOKEN as a bearer token.\n", status=403, content_type="text/plain")
    registry = REGISTRY
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    database = CollectorRegistry()
    database.register(DatabaseCollector())
    return HttpResponse(generate_latest(registry) + generate_latest(database), content_type=CONTENT_TYPE_LATEST)


def _may_read(request: HttpRequest) -> bool:
    token: str = settings.METRICS_TOKEN
    if token:
        given = request.headers.get("Authorization", "").encode()
        return hmac.compare_digest(given, f"Bearer {token}".encode())
    forwarded = "X-Forwarded-For" in request.headers or "Forwarded" in request.headers
    return request.META.get("REMOTE_ADDR") in LOOPBACK and not forwarded
