"""Pages of deploys, for people: parse, one call, render. Anybody signed in looks; operators decide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from journals.access import has_role, role_required
from journals.errors import Refused
from versioning import deploying, queries, shown
from versioning.deploying import Wish
from versioning.forms import DecisionForm, NewDeployForm, VersionForm
from versioning.models import Deploy
from versioning.tasks import nudge


@login_required
@require_safe
def deploys(request: HttpRequest) -> HttpResponse:
    """Deploys, newest first, and the form that opens one."""
    environment = request.GET.get("environment", "")
    rows, following = queries.deploy_rows(environment=environment, before=_number(request, "before"))
    environments = queries.environments()
    only = environments[0] if len(environments) == 1 else ""
    context = {
        "rows": [shown.deploy_row(deploy, now=timezone.now()) for deploy in rows],
        "older_url": f"?before={following}" if following else "",
        "builds": queries.newest_builds(),
        "environments": environments,
        "may_decide": has_role(request.user, "operator"),
        "form": NewDeployForm(initial={"environment": environment or only}),
    }
    return render(request, "versioning/deploys.html", context)


@role_required("operator")
@require_POST
def new_deploy(request: HttpRequest) -> HttpResponse:
    """Opens a deploy and shows its assessment."""
    form = NewDeployForm(request.POST)
    if not form.is_valid():
        messages.error(request, "Name the agent, the environment and a registered build.")
        return redirect("versioning:deploys")
    asked = form.cleaned_data
    try:
        made = deploying.open_deploy(
            agent=asked["agent"], environment=asked["environment"], label=asked["build"],
            by=request.user.get_username(), now=timezone.now(),
        )  # fmt: skip
    except Refused as e:
        messages.error(request, str(e))
        return redirect("versioning:deploys")
    return redirect("versioning:deploy", made.key)


@login_required
@require_safe
def deploy(request: HttpRequest, key: str) -> HttpResponse:
    """A deploy as of now; with `?v=` 204 while nothing that is shown has changed."""
    found = _deploy(key)
    view = shown.deploy_page(found, now=timezone.now())
    if request.GET.get("v") == view.tag:
        return HttpResponse(status=204)
    context = {"deploy": found, "view": view, "may_decide": has_role(request.user, "operator")}
    target = request.headers.get("HX-Target", "")
    return render(
        request, "versioning/deploy.html#state" if target == "deploy-state" else "versioning/deploy.html", context
    )


@login_required
@require_safe
def group(request: HttpRequest, key: str, group: str) -> HttpResponse:
    """The runs of one group, by number."""
    found = _deploy(key)
    view = shown.group_page(found, group, after=_number(request, "after") or 0, now=timezone.now())
    if view is None:
        raise Http404(f"Deploy {key} has no group {group} now.")
    return render(
        request, "versioning/group.html", {**view, "deploy": found, "may_decide": has_role(request.user, "operator")}
    )


@role_required("operator")
@require_http_methods(["GET", "POST"])
def decide(request: HttpRequest, key: str) -> HttpResponse:
    """GET shows what a decision would do; POST makes it, unless the deploy is not as it was shown."""
    found = _deploy(key)
    if request.method == "GET":
        return _decision_page(request, found, None)
    form = DecisionForm(request.POST)
    if not form.is_valid():
        return _decision_page(request, found, form, status=422)
    asked = form.cleaned_data
    wish = Wish(
        action=asked["action"], reason=asked["reason"], group=asked["group"], run_key=asked["run"],
        name=asked["name"], message=asked["message"],
    )  # fmt: skip
    view = _decision(found, form.data) or {"foreign": None, "waits": []}
    try:
        made = deploying.decide(
            found, wish, version=asked["version"], by=request.user.get_username(), now=timezone.now()
        )
    except deploying.StaleAssessment as e:
        return _decision_page(request, found, form, stale=e, status=409)
    except Refused as e:
        form.add_error(None, str(e))
        return _decision_page(request, found, form, status=e.status)
    reached = deploying.reach(made, limit=deploying.INLINE)
    if made.expected > reached:
        nudge(made)
    told = messages.success if not (view["foreign"] or view["waits"]) else messages.warning
    told(request, shown.decided(made, reached, foreign=view["foreign"], waiting=view["waits"]))
    return redirect("versioning:deploy", found.key)


def _decision(found: Deploy, asked: Any) -> dict[str, Any] | None:
    """What the decision that a form or an address asks for would do."""
    return shown.decision_page(
        found,
        action=asked.get("action", ""),
        group=asked.get("group", ""),
        run_key=asked.get("run", ""),
        now=timezone.now(),
    )


def _decision_page(
    request: HttpRequest, found: Deploy, form: DecisionForm | None, *, stale: Refused | None = None, status: int = 200
) -> HttpResponse:
    asked = form.data if form is not None else request.GET
    view = _decision(found, asked)
    if view is None:
        if stale is not None:
            messages.error(request, str(stale))
            return redirect("versioning:deploy", found.key)
        raise Http404("There is nothing to decide here any more.")
    if form is None or stale is not None:
        kept = {k: asked.get(k) for k in ("reason", "name", "message") if asked.get(k)}
        form = DecisionForm(initial={**view["initial"], **kept})
    context = {**view, "deploy": found, "form": form, "stale": stale}
    return render(request, "versioning/decide.html", context, status=status)


@role_required("operator")
@require_http_methods(["GET", "POST"])
def roll_out(request: HttpRequest, key: str) -> HttpResponse:
    """GET says what follows for new runs and for undecided ones; POST sends new runs to the target."""
    return _step(request, key, deploying.roll_out, shown.ROLL_OUT)


@role_required("operator")
@require_http_methods(["GET", "POST"])
def roll_back(request: HttpRequest, key: str) -> HttpResponse:
    """GET says what stays; POST gives the deploy up."""
    return _step(request, key, deploying.roll_back, shown.ROLL_BACK)


def _step(request: HttpRequest, key: str, action: Callable[..., Deploy], words: shown.StepWords) -> HttpResponse:
    found = _deploy(key)
    form = VersionForm(request.POST or None)
    stale = None
    if request.method == "POST" and form.is_valid():
        asked = form.cleaned_data
        try:
            action(found, **asked, by=request.user.get_username(), now=timezone.now())
            messages.success(request, words.said.format(build=found.build.label))
            return redirect("versioning:deploy", found.key)
        except deploying.StaleAssessment as e:
            stale = e
        except Refused as e:
            messages.error(request, str(e))
            return redirect("versioning:deploy", found.key)
    view = shown.deploy_page(found, now=timezone.now())
    if stale is not None or request.method == "GET":
        form = VersionForm(initial={"version": found.version, "reason": form.data.get("reason", "")})
    context = {"deploy": found, "view": view, "words": words, "form": form, "stale": stale}
    status = 409 if stale is not None else 422 if request.method == "POST" else 200
    return render(request, "versioning/step.html", context, status=status)


def _deploy(key: str) -> Deploy:
    try:
        return deploying.find(key)
    except deploying.UnknownDeploy as e:
        raise Http404(str(e)) from None


def _number(request: HttpRequest, name: str) -> int | None:
    text = request.GET.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
