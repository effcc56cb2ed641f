"""Two questions of an orchestrator: does the process live, and may it get traffic."""

from __future__ import annotations

from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse


def healthz(request: HttpRequest) -> HttpResponse:
    """``/healthz``: 200 as long as this process answers; asks nothing of the database."""
    return HttpResponse("ok\n", content_type="text/plain", headers={"Cache-Control": "no-store"})


def readyz(request: HttpRequest) -> JsonResponse:
    """``/readyz``: 200 if the database answers and has every migration of this release, else 503."""
    try:
        executor = MigrationExecutor(connection)
        missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
        body = {"database": "ok", "migrations": "missing" if missing else "ok"}
    except Error as error:
        missing = []
        body = {"database": type(error).__name__, "migrations": "unknown"}
    ready = body == {"database": "ok", "migrations": "ok"}
    headers = {"Cache-Control": "no-store"}
    return JsonResponse({"ready": ready, **body}, status=200 if ready else 503, headers=headers)
