"""One request of another runtime: what its export shows, the decision that is recorded, and what to tell the runtime."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from journals import store
from journals.access import role_required
from journals.errors import Refused, UnknownRun
from runs import controls
from runs.approvals import cards, errors, foreign, forms, queries, recording
from runs.approvals.models import State
from runs.approvals.views import NOT_DONE, said_by


def head_of(key: str) -> store.HeadRow:
    """The run's head row; 404 for none."""
    try:
        return store.find(key=key)
    except UnknownRun as e:
        raise Http404(str(e)) from None


@role_required("viewer")
@require_safe
def detail(request: HttpRequest, key: str, ref: str) -> HttpResponse:
    """The request; one that its runtime answered without a word of ours is found on the run's page alone."""
    return _page(request, head_of(key), ref)


def _page(
    request: HttpRequest, head: store.HeadRow, ref: str, *, error: Refused | None = None, comment: str = ""
) -> HttpResponse:
    asked = foreign.requests(head)
    found = next((r for r in asked if r.ref == ref), None)
    if found is None:
        return redirect("runs:tab", head.key, "approvals")
    approval = found.approval
    votes = list(approval.votes.order_by("id")) if approval.pk else []
    context = {
        "request_": found, "card": cards.of_request(found, request.user), "approval": approval, "of": controls.title_or_none(head.runtime), "votes": votes,
        "error": error, "comment": comment, "not_done": NOT_DONE.get(error.code, "Nothing was decided") if error else "",
        "led": queries.led_to(approval), "late": approval.expires_at is not None and approval.expires_at <= head.now,
        "told": [t for t in foreign.replies(head, asked) if found.name in t.about], "names": {r.name: r for r in asked},
        "others": sum(r.open and r.here is None for r in asked if r is not found), "have": sum(v.decision == "approve" for v in votes),
    }  # fmt: skip
    return render(request, "runs/approvals/foreign.html", context, status=error.status if error else 200)


@role_required("viewer")
@require_http_methods(["GET", "POST"])
def decision(request: HttpRequest, key: str, ref: str) -> HttpResponse:
    """POST records this person's decision; a refusal shows the request again with its reason. GET (a reload) leads to the request."""
    if request.method == "GET":
        return redirect("approvals:foreign", key, ref)
    head, form, comment = head_of(key), forms.DecisionForm(request.POST), request.POST.get("comment", "")
    if not form.is_valid():
        return _page(
            request,
            head,
            ref,
            error=errors.StaleView("the form was not complete; look at the request again"),
            comment=comment,
        )
    said = form.cleaned_data
    try:
        _refuse_unseen(head, ref, said)
        done = recording.decide(head.id, ref, user=request.user, said=said_by(request, said))
    except Refused as e:
        return _page(request, store.head(head.id), ref, error=e, comment=comment)
    left = done.needed - done.votes.filter(decision="approve").count()
    told = f"Now tell {controls.title_or_none(head.runtime) or 'its runtime'}."
    messages.success(
        request,
        f"Your yes is recorded; it needs {left} more." if done.state == State.REQUESTED else f"Recorded here. {told}",
    )
    return redirect("approvals:foreign", key, ref)


def _refuse_unseen(head: store.HeadRow, ref: str, said: dict[str, Any]) -> None:
    found = foreign.find(head, ref)
    if found is None or found.problem or said["decision"] != "approve" or said["saw_hidden"]:
        return
    if any(f.hidden for f in queries.fields_of(found.approval)):
        raise errors.MayNotDecide("the request holds characters that do not show themselves; say that you saw them")
