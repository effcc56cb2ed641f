"""The decisions about all open requests of a run, made together by a signed-in person: a page of cards, or a list as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods
from drainboard import wire

from journals import store
from journals.access import role_required
from journals.errors import MalformedRequest, Refused
from runs import controls
from runs.approvals import actions, api, batch, cards, foreign, together
from runs.approvals.foreign_views import head_of
from runs.approvals.models import Approval, State
from runs.approvals.views import NOT_DONE

_TYPED: Final = ("decision", "comment", "fingerprint", "saw_hidden", "args")  # of each card in the form


@role_required("viewer")
@require_http_methods(["GET", "HEAD", "POST"])
def decisions(request: HttpRequest, key: str) -> HttpResponse:
    """GET: the open requests as cards of one form. POST: that form, or `{"decisions": [...]}` (JSON, or as the form's field), answered as JSON."""
    if request.method != "POST":
        return _page(request, head_of(key))
    if request.POST.getlist("card"):
        return _form(request, head_of(key))
    try:
        done = _decide(request, key, _given(request))
    except Refused as e:
        return JsonResponse(e.body(), status=e.status)
    return JsonResponse({"decided": [api.answer(approval) for approval in done]})


def _decide(request: HttpRequest, key: str, given: Any) -> list[Approval]:
    return together.decide_all(key, given, user=request.user, said=lambda settled: _said(request, settled))


def _form(request: HttpRequest, head: store.HeadRow) -> HttpResponse:
    typed = {
        ref: {name: request.POST.get(f"{name}-{ref}", "") for name in _TYPED} for ref in request.POST.getlist("card")
    }
    try:
        done = _decide(request, head.key, _typed(head, typed, request.user))
    except Refused as e:
        return _page(request, store.head(head.id), error=e, typed=typed)
    many = f"{len(done)} decision{'s' if len(done) != 1 else ''}"
    what = (
        "recorded. The run goes on by itself."
        if head.native
        else f"recorded here. Now tell {controls.title_or_none(head.runtime) or 'its runtime'}."
    )
    messages.success(request, f"{many} {what}")
    return redirect("approvals:decisions", head.key)


def _typed(head: store.HeadRow, typed: Mapping[str, Mapping[str, str]], user: Any) -> list[dict[str, Any]]:
    """The form as a list of decisions. A card that nobody marked is left out, so that the list is refused as one that says nothing of it."""
    known = {c.ref: c for c in cards.cards_of(head, user)}
    if not head.native:
        known |= {r.ref: cards.of_request(r, user) for r in foreign.requests(head)}
    made = []
    for ref, said in typed.items():
        if not said["decision"]:
            continue
        card = known.get(ref)
        item: dict[str, Any] = {
            "approval": card.name if card else ref, "fingerprint": said["fingerprint"], "decision": said["decision"],
            "comment": said["comment"], "saw_hidden": bool(said["saw_hidden"]),
        }  # fmt: skip
        if said["decision"] == "edit":
            item["edited_action"] = {
                "name": card.tool if card else "",
                "args": _json(said["args"], "the other arguments"),
            }
        made.append(item)
    if not made:
        raise MalformedRequest("nothing was marked: say something about each request")
    return made


def _page(
    request: HttpRequest, head: store.HeadRow, *, error: Refused | None = None, typed: Mapping[str, Mapping[str, str]] | None = None
) -> HttpResponse:  # fmt: skip
    asked = [] if head.native else foreign.requests(head)
    found = cards.cards_of(head, request.user, typed)
    decided = (
        list(Approval.objects.filter(head_id=head.id).exclude(state=State.REQUESTED).order_by("pos"))
        if head.native
        else [r.approval for r in asked if r.here is not None]
    )
    context = {
        "head": head, "cards": found, "decided": decided, "of": controls.title_or_none(head.runtime),
        "told": foreign.replies(head, asked), "names": {r.name: r for r in asked}, "error": error,
        "not_done": NOT_DONE.get(error.code, "Nothing was decided") if error else "",
        "may": bool(found) and all(c.problem or not c.why_not for c in found) and any(not c.problem for c in found),
    }  # fmt: skip
    return render(request, "runs/approvals/together.html", context, status=error.status if error else 200)


def _given(request: HttpRequest) -> Any:
    whole = request.content_type == "application/json"
    text = request.body if whole else request.POST.get("decisions", "").encode("utf-8", "surrogatepass")
    value = _json(text, "the body")
    if whole and not isinstance(value, dict):
        raise MalformedRequest('the body must be {"decisions": [...]}')
    return value.get("decisions") if whole else value


def _json(text: bytes | str, what: str) -> Any:
    try:
        value, oddities = wire.decode(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    except wire.MalformedLine as e:
        raise MalformedRequest(f"{what} is not JSON: {e}") from None
    if oddities:
        raise MalformedRequest(f"{what} can be read in more than one way: {', '.join(oddities)}")
    return value


def _said(request: HttpRequest, settled: batch.Settled) -> actions.Said:
    return actions.Said(
        decision=settled.decision, fingerprint=settled.fingerprint, comment=settled.comment, edited=settled.edited,
        address=request.META.get("REMOTE_ADDR") or "", signed_in_at=getattr(request.user, "last_login", None),
    )  # fmt: skip
