"""Pages of builds, the catalogue of versions, and agents with their policies."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.cache import cache
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from journals.access import has_role, role_required
from runs import limit_words
from runs import queries as run_queries
from versioning import actions, assessing, live, queries, shown_builds
from versioning.forms import PolicyForm
from versioning.models import Build


@login_required
@require_safe
def builds(request: HttpRequest) -> HttpResponse:
    """Builds, newest first, and for one agent every version seen."""
    agent = request.GET.get("agent", "")
    before = request.GET.get("before", "")
    cursor = int(before) if before.isascii() and before.isdigit() and len(before) < 19 else None
    rows, following = queries.build_rows(agent=agent, before=cursor, now=timezone.now())
    context = {
        "rows": rows,
        "agent": agent,
        "agents": queries.agents(),
        "catalogue": queries.catalogue(agent) if agent else (),
        "older": following,
    }
    return render(request, "versioning/builds.html", context)


@login_required
@require_safe
def build(request: HttpRequest, number: int) -> HttpResponse:
    """One build: what it holds, what differs from another, and which runs in flight hold it or would be touched by it."""
    found = Build.objects.filter(pk=number).first()
    if found is None:
        raise Http404("No build has this number.")
    now = timezone.now()
    other = Build.objects.filter(agent=found.agent, label=request.GET.get("against", "")).first()
    context = {
        "build": found,
        "parts": list(found.parts.exclude(version="")),
        "other": other,
        "changes": shown_builds.changes(other, found) if other else (),
        "others": list(
            Build.objects.filter(agent=found.agent)
            .exclude(pk=found.pk)
            .order_by("-id")
            .values_list("label", flat=True)[:200]
        ),
        "assessed": assessing.assess_build(found, environment="", now=now),
        "in_flight": queries.in_flight(agent=found.agent, environment="").filter(build=found.label).count(),
        "deploys": list(found.deploys.order_by("-id")[:20]),
        "live": found.label in live.builds(agent=found.agent, environment="", now=now),
    }
    return render(request, "versioning/build.html", context)


@login_required
@require_safe
def agents(request: HttpRequest) -> HttpResponse:
    """Agents, what happens to their runs when nobody decides, and how many are in flight."""
    context = {
        "rows": queries.agent_rows(now=timezone.now()),
        "fullest": cache.get_or_set("fullest-in-flight", _fullest, 30),
        "may_decide": has_role(request.user, "operator"),
        "policies": PolicyForm.base_fields["on_mismatch"].choices,  # type: ignore[attr-defined]
    }
    return render(request, "versioning/agents.html", context)


def _fullest() -> list[dict[str, Any]]:
    """Runs in flight, each with the limit of which it uses most."""
    found = ({**row, "limit": limit_words.fullest(row["limits"])} for row in run_queries.fullest_in_flight())
    return [row for row in found if row["limit"] is not None]


@role_required("operator")
@require_POST
def policy(request: HttpRequest) -> HttpResponse:
    """Sets an agent's policy."""
    form = PolicyForm(request.POST)
    if not form.is_valid():
        messages.error(request, "Choose one of finish_on_old, stop and ask.")
        return redirect("versioning:agents")
    saved = actions.save_policy(**form.cleaned_data, by=request.user.get_username(), now=timezone.now())
    messages.success(request, f"Runs of {saved.agent} that nobody decides about: {saved.on_mismatch}.")
    return redirect("versioning:agents")
