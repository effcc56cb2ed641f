"""The inbox, one request, its decision, and the policies. Only a signed-in POST decides."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.models import Group
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe
from drainboard import wire

from journals.access import role_required
from journals.errors import Refused
from runs import projection
from runs.approvals import actions, errors, forms, policies, queries
from runs.approvals.models import Approval, Policy, State

CATCH_UP_S = 0.4  # as the pages of runs


@role_required("viewer")
@require_safe
def inbox(request: HttpRequest) -> HttpResponse:
    """Requests that wait: mine to decide first, oldest first; those of other runtimes behind ours."""
    projection.catch_up(within_s=CATCH_UP_S)
    form = forms.InboxForm(request.GET)
    asked: dict[str, Any] = form.cleaned_data if form.is_valid() else {}
    view = asked.get("view") or "mine"
    rows, following = queries.inbox(
        view,
        request.user,
        agent=asked.get("agent") or "",
        environment=asked.get("environment") or "",
        after=asked.get("after") or 0,
    )
    theirs, theirs_next = queries.of_other_runtimes(
        view,
        request.user,
        agent=asked.get("agent") or "",
        environment=asked.get("environment") or "",
        after=asked.get("theirs") or 0,
    )
    seen = [(r.approval.key, r.approval.name, r.approval.state, r.have) for r in [*rows, *theirs]]
    version = wire.digest_bytes(repr(seen).encode("utf-8", "surrogatepass"))[7:19]
    if request.GET.get("v") == version:
        return HttpResponse(status=204)
    kept = {k: v for k, v in asked.items() if v and k not in ("after", "theirs")}
    context = {
        "rows": rows, "view": view, "form": asked, "poll_url": f"?{urlencode({**kept, 'view': view, 'v': version})}",
        "next_url": f"?{urlencode({**kept, 'view': view, 'after': following})}" if following else "",
        "theirs": theirs, "theirs_url": f"?{urlencode({**kept, 'view': view, 'theirs': theirs_next})}" if theirs_next else "",
        "mine": queries.count_for(request.user), "open": queries.waiting("open").count() + queries.count_of_other_runtimes(),
    }  # fmt: skip
    return render(
        request,
        "runs/approvals/inbox.html#rows" if request.headers.get("HX-Request") else "runs/approvals/inbox.html",
        context,
    )


def _find(key: str, name: str) -> Approval:
    return get_object_or_404(Approval.objects.select_related("policy"), foreign=False, key=key, name=name)


@role_required("viewer")
@require_safe
def detail(request: HttpRequest, key: str, name: str) -> HttpResponse:
    """One request: exactly what is approved, why, under which versions, and the decision."""
    return _page(request, _find(key, name))


def _page(request: HttpRequest, approval: Approval, *, error: Refused | None = None, comment: str = "") -> HttpResponse:
    before = queries.last_like(approval)
    fields = queries.fields_of(approval, before)
    votes = list(approval.votes.order_by("id"))
    context = {
        "approval": approval, "fields": fields, "before": before, "votes": votes, "earlier": queries.earlier(approval),
        "hidden": tuple(dict.fromkeys(h for f in fields for h in f.hidden)), "led": queries.led_to(approval), "gist": queries.gist(approval),
        "why_not": queries.why_not(approval, actions.person_of(request.user), [v.person for v in votes]), "error": error, "comment": comment, "not_done": NOT_DONE.get(error.code, "Nothing was decided") if error else "",
        "terms": policies.terms(approval.policy), "shown": wire.digest_bytes(bytes(approval.artifact)),
        "problems": actions.problems_of(approval), "artifact": bytes(approval.artifact), "nobody": queries.nobody_can_go_on(approval), "have": sum(v.decision == "approve" for v in votes),
    }  # fmt: skip
    return render(request, "runs/approvals/detail.html", context, status=error.status if error else 200)


@role_required("viewer")
@require_http_methods(["GET", "POST"])
def decision(request: HttpRequest, key: str, name: str) -> HttpResponse:
    """POST records this person's decision; a refusal shows the request again with its reason. GET (a reload) leads to the request."""
    approval = _find(key, name)
    if request.method == "GET":
        return redirect("approvals:detail", key, name)
    form = forms.DecisionForm(request.POST)
    comment = request.POST.get("comment", "")
    if not form.is_valid():
        return _page(
            request,
            approval,
            error=errors.StaleView("the form was not complete; look at the request again"),
            comment=comment,
        )
    said = form.cleaned_data
    hidden = any(f.hidden for f in queries.fields_of(approval))
    if said["decision"] == "approve" and hidden and not said["saw_hidden"]:
        error = errors.MayNotDecide("the request holds characters that do not show themselves; say that you saw them")
        return _page(request, approval, error=error, comment=comment)
    try:
        done = actions.decide(approval.id, user=request.user, said=said_by(request, said))
    except Refused as e:
        approval.refresh_from_db()
        return _page(request, approval, error=e, comment=comment)
    messages.success(request, _told(done))
    return redirect(reverse("approvals:detail", args=[key, name]))


def said_by(request: HttpRequest, said: dict[str, Any]) -> actions.Said:
    """What this person says, by a form."""
    return actions.Said(
        decision=said["decision"], fingerprint=said["fingerprint"], comment=said["comment"], shown=said["shown"],
        address=request.META.get("REMOTE_ADDR") or "", signed_in_at=getattr(request.user, "last_login", None),
    )  # fmt: skip


def _told(done: Approval) -> str:
    if done.state == State.REQUESTED:
        left = done.needed - done.votes.filter(decision="approve").count()
        return f"Your yes is recorded. It needs {left} more {'person' if left == 1 else 'people'}."
    if queries.nobody_can_go_on(done):
        return (
            f"{_OUTCOMES[State(done.state)]} No worker of the run's build is live: the run goes on when one is started."
        )
    return f"{_OUTCOMES[State(done.state)]} The run goes on by itself."


_OUTCOMES = {
    State.APPROVED: "Approved.",
    State.REJECTED: "Rejected; the agent is told why.",
    State.SENT_BACK: "Sent back; the agent gets your message.",
}
NOT_DONE = {
    "MalformedRequest": "Nothing was decided",
    "AlreadyDecided": "Somebody was first; your decision was not recorded",
    "StaleView": "Nothing was decided",
    "MayNotDecide": "You cannot decide this",
    "ApprovalExpired": "Too late; nothing was decided",
    "AmbiguousArtifact": "Nobody can decide this here",
}


@role_required("viewer")
@require_http_methods(["GET", "POST"])
def policy_list(request: HttpRequest) -> HttpResponse:
    """Policies in force; an admin posts the next version of one."""
    from journals.access import has_role

    may = has_role(request.user, "admin")
    groups = list(Group.objects.order_by("name").values_list("name", flat=True))
    form = forms.PolicyForm(request.POST or None, groups=groups)
    if request.method == "POST":
        if not may:
            return render(request, "403.html", status=403)
        if form.is_valid():
            made = _save(form.cleaned_data, by=request.user.get_username())
            messages.success(request, f"Policy for {made.agent}/{made.tool} is at version {made.version}.")
            return redirect("approvals:policies")
    newest = Policy.objects.order_by("agent", "tool", "-version").distinct("agent", "tool")
    context = {"policies": newest, "form": form, "groups": groups, "may": may}
    return render(request, "runs/approvals/policies.html", context, status=400 if form.errors else 200)


def _save(asked: dict[str, Any], *, by: str) -> Policy:
    expires = asked["expires_h"]
    return policies.save(
        agent=asked["agent"], tool=asked["tool"], actor=by, needed=asked["needed"], groups=asked["groups"], four_eyes=asked["four_eyes"],
        expires_s=round(expires * 3600) if expires else None, high_risk=asked["high_risk"], active=asked["active"],
    )  # fmt: skip
