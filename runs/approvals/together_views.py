"""The decisions about all open requests of a run, posted together by a signed-in person."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_POST
from drainboard import wire

from journals.access import role_required
from journals.errors import MalformedRequest, Refused
from runs.approvals import actions, api, batch, together


@role_required("viewer")
@require_POST
def decisions(request: HttpRequest, key: str) -> JsonResponse:
    """Body: `{"decisions": [...]}` as JSON, or a form whose field `decisions` is that list. Answers what was decided."""
    try:
        done = together.decide_all(
            key, _given(request), user=request.user, said=lambda settled: _said(request, settled)
        )
    except Refused as e:
        return JsonResponse(e.body(), status=e.status)
    return JsonResponse({"decided": [api.answer(approval) for approval in done]})


def _given(request: HttpRequest) -> Any:
    whole = request.content_type == "application/json"
    text = request.body if whole else request.POST.get("decisions", "").encode("utf-8", "surrogatepass")
    try:
        value, oddities = wire.decode(text)
    except wire.MalformedLine as e:
        raise MalformedRequest(f"the body is not JSON: {e}") from None
    if oddities:
        raise MalformedRequest(f"the body can be read in more than one way: {', '.join(oddities)}")
    if whole and not isinstance(value, dict):
        raise MalformedRequest('the body must be {"decisions": [...]}')
    return value.get("decisions") if whole else value


def _said(request: HttpRequest, settled: batch.Settled) -> actions.Said:
    return actions.Said(
        decision=settled.decision, fingerprint=settled.fingerprint, comment=settled.comment, edited=settled.edited,
        address=request.META.get("REMOTE_ADDR") or "", signed_in_at=getattr(request.user, "last_login", None),
    )  # fmt: skip
