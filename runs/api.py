"""Runs over the API: the list, and one run as `show_run` gives it. Starting a run is `journals.api.start`."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_http_methods

from journals import api as journal_api
from journals import errors, store
from journals.access import Bearer, api_view, authenticate
from runs import projection, show
from runs.models import Run

PAGE = 100  # runs a page
READ = ("worker", "ci", "read")


@require_http_methods(["GET", "POST"])
def runs(request: HttpRequest) -> HttpResponseBase:
    """GET lists runs, newest activity first; POST starts one."""
    return journal_api.start(request) if request.method == "POST" else listing(request)


runs.csrf_exempt = True  # type: ignore[attr-defined]


@api_view
def listing(request: HttpRequest) -> HttpResponse:
    """`agent`, `status`, `environment`, `build` and `source` filter; `cursor` continues after the last run of a page."""
    token = authenticate(request, scopes=READ)
    projection.catch_up()
    rows = _filtered(request, token).order_by("-head_id")
    cursor = request.GET.get("cursor")
    if cursor:
        try:
            rows = rows.filter(head_id__lt=int(cursor))
        except ValueError:
            raise errors.MalformedRequest(f"cursor {cursor!r} is not one that a page gave") from None
    page = list(rows[: PAGE + 1])
    following = str(page[PAGE - 1].head_id) if len(page) > PAGE else None
    return JsonResponse({"runs": [_row(r) for r in page[:PAGE]], "cursor": following})


def _filtered(request: HttpRequest, token: Bearer) -> Any:
    rows = Run.objects.all()
    for name in ("agent", "status", "environment", "build", "source", "runtime"):
        if value := request.GET.get(name):
            rows = rows.filter(**{name: store.encode_text(value)})
    if token.agent:
        rows = rows.filter(agent=store.encode_text(token.agent))
    if token.environment:
        rows = rows.filter(environment=store.encode_text(token.environment))
    return rows


def _row(run: Run) -> dict[str, Any]:
    text = store.decode_text
    return {
        "run": run.run, "key": run.key, "source": run.source, "agent": text(run.agent), "environment": text(run.environment), "status": run.status,
        "build": text(run.build), "pinned_to": text(run.pinned_to) or None, "parked_on": text(run.parked_on) or None, "gap": run.gap or None,
        "findings": list(run.findings), "entries": run.entries,
    }  # fmt: skip


@api_view
@require_http_methods(["GET"])
def detail(request: HttpRequest, key: str) -> HttpResponse:
    """One run, folded up to its last entry."""
    found = journal_api.visible(key, authenticate(request, scopes=READ))
    return JsonResponse(show.show(found.id))
