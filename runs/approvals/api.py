"""The worker's calls about approvals: ask, wait, deliver, use."""

from __future__ import annotations

import time
from typing import Any

from django.db import connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_http_methods

from journals.access import api_view, authenticate
from journals.api import Owner, body_of, header_int, raw_body, visible
from runs.approvals import actions, errors, records
from runs.approvals.models import Approval, State

WAIT_S = 20  # seconds that one waiting call may take
_POLL_S = 0.25


@api_view
@require_http_methods(["POST"])
def ask(request: HttpRequest, key: str) -> HttpResponse:
    """Body: one `approval.requested` line. Answers the approval; `problems` says why nobody could open the gate."""
    token = authenticate(request, scopes=("worker",))
    found = visible(key, token)
    made, problems = actions.request(
        found, raw_body(request).strip(), token=token, epoch=header_int(request, "Drainboard-Epoch") or 0
    )
    return JsonResponse({**answer(made), "problems": problems, "positions": [made.pos]}, status=200)


@api_view
@require_http_methods(["GET"])
def look(request: HttpRequest, key: str, name: str) -> HttpResponse:
    """The approval as it stands; with `wait=S` the answer comes when it is decided, or after S (at most 20) seconds."""
    found = visible(key, authenticate(request, scopes=("worker", "ci", "read")))
    try:
        wait_s = min(float(request.GET.get("wait", "0")), WAIT_S)
    except ValueError:
        wait_s = 0.0
    until = time.monotonic() + wait_s
    while True:
        approval = Approval.objects.filter(foreign=False, head_id=found.id, name=name).first()
        if approval is None:
            raise errors.UnknownApproval(f"the run has no approval {name!r}")
        if approval.state != State.REQUESTED or time.monotonic() >= until:
            return JsonResponse(answer(approval))
        connection.close()  # back to the pool while waiting
        time.sleep(_POLL_S)


@api_view
@require_http_methods(["POST"])
def deliver(request: HttpRequest, key: str, name: str) -> HttpResponse:
    """The worker has read the decision."""
    token = authenticate(request, scopes=("worker",))
    owner = body_of(request, Owner)
    approval, positions = actions.deliver(visible(key, token), name, epoch=owner.epoch)
    return JsonResponse({**answer(approval), "positions": positions})


@api_view
@require_http_methods(["POST"])
def use(request: HttpRequest, key: str, name: str) -> HttpResponse:
    """Body: the `tool.started` line that the approval is for. One transaction with `approval.used`."""
    token = authenticate(request, scopes=("worker",))
    epoch = header_int(request, "Drainboard-Epoch") or 0
    made = actions.use(visible(key, token), name, raw_body(request).strip(), token=token, epoch=epoch)
    return JsonResponse({"positions": made.positions, "pos": made.pos})


_DECISIONS = {State.APPROVED: "approve", State.USED: "approve", State.REJECTED: "reject", State.SENT_BACK: "send_back"}


def answer(approval: Approval) -> dict[str, Any]:
    """The API's approval object."""
    return {
        "id": approval.name, "state": approval.state, "decision": _DECISIONS.get(State(approval.state)), "by": approval.decided_by or None,
        "comment": approval.comment or None, "fingerprint": approval.fingerprint, "requested_at": records.text(approval.requested_at),
        "expires_at": records.text(approval.expires_at), "decided_at": records.text(approval.decided_at),
        "delivered_at": records.text(approval.delivered_at), "used_at": records.text(approval.used_at), "pos": approval.pos,
    }  # fmt: skip
