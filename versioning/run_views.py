"""What an operator does to one run from its page: pin, unpin, move, stop, release, resolve a gap. The panel is a fragment of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from journals import store
from journals.access import actor_of, has_role, role_required
from journals.errors import Refused, UnknownRun
from runs import actions as run_actions
from runs import controls, projection
from runs.models import Run
from versioning import actions, outcomes, shown_runs
from versioning.forms import GapForm, RunActionForm


@dataclass(frozen=True, slots=True)
class Act:
    """An action on a run: its button, what follows, which fields its form has, and what it calls."""

    button: str
    follows: str
    fields: tuple[str, ...]
    call: Callable[..., Any]
    danger: bool = False


def _stop(head_id: int, *, reason: str, name: str, message: str, by: str, actor: str, **_: Any) -> None:
    actions.stop_run(
        head_id, name=name or "StoppedByOperator", message=message or reason, reason=reason, by=by, actor=actor
    )


def _only(call: Callable[..., Any], *names: str) -> Callable[..., Any]:
    """The action with the fields of the form that it takes."""
    return lambda head_id, **given: call(
        head_id, **{k: v for k, v in given.items() if k in {*names, "by", "actor", "reason"}}
    )


COMMANDS: Final = 3  # builds whose commands are printed before one is chosen

ACTS: Final = {
    "pin": Act(
        "Pin the run",
        "It finishes on this build; a worker of any other build is refused with PinnedToBuild. A hold is lifted.",
        ("build", "reason"),
        _only(actions.pin_run, "build"),
    ),
    "unpin": Act(
        "Take the pin off",
        "From then on the deploy's decision or the agent's policy says which build may take it.",
        ("reason",),
        _only(actions.unpin_run),
    ),
    "move": Act(
        "Move the run",
        "It goes on under this build and no other. Steps recorded under other versions replay with the rule for continued runs: "
        "only a model's input may differ. A hold is lifted.",
        ("build", "reason"),
        _only(actions.move_run, "build"),
    ),
    "stop": Act(
        "Stop the run",
        "With a worker, it stops between two steps and the result of a step in flight is still taken; without one it ends at once, "
        "with its open gaps listed. It does not run again.",
        ("name", "message", "reason"),
        _stop,
        danger=True,
    ),
    "release": Act(
        "Release the run",
        "The hold is lifted and a worker may take it again. If what held it is still so, it is held again.",
        ("reason",),
        _only(run_actions.release),
    ),
}


@login_required
@require_safe
def panel(request: HttpRequest, key: str) -> HttpResponse:
    """Buttons for what can be done to the run now, and its versions against a build; a fragment, or a page without script."""
    head = _head(key)
    view = shown_runs.panel(head, against=request.GET.get("against", ""), now=timezone.now())
    context = {**view, "may_decide": has_role(request.user, "operator")}
    fragment = request.headers.get("HX-Request") and not request.headers.get("HX-Boosted")
    return render(request, "versioning/run_panel.html" if fragment else "versioning/run_versions.html", context)


@role_required("operator")
@require_http_methods(["GET", "POST"])
def act(request: HttpRequest, key: str, name: str) -> HttpResponse:
    """GET says what follows and asks for the reason; POST does it."""
    head, action = _head(key), ACTS[name]
    form = RunActionForm(request.POST or None, initial=_first(head, name))
    if request.method == "POST" and form.is_valid():
        given = {"by": request.user.get_username(), "actor": actor_of(request), **form.cleaned_data}
        try:
            action.call(head.id, **given)
            after = store.head(head.id)
            told = messages.success if head.native else messages.warning
            told(request, outcomes.said(name, after, given, now=timezone.now()))
            return redirect("runs:detail", key)
        except Refused as e:
            form.add_error(None, str(e))
    builds = shown_runs.labels(head.agent, on=form["build"].value()) if head.native else shown_runs.foreign_labels(head)
    context = {
        "head": head,
        "name": name,
        "act": action,
        "form": form,
        "builds": builds,
        "foreign": None if head.native else _foreign(head, name, form, builds),
        "warnings": shown_runs.warnings(head.id),
        "waits": _waits(head, name, form),
    }
    status = 422 if request.method == "POST" else 200
    return render(request, "versioning/run_act.html", context, status=status)


@role_required("operator")
@require_http_methods(["GET", "POST"])
def resolve_gap(request: HttpRequest, key: str, branch: str, step: int) -> HttpResponse:
    """GET shows the step in the gap; POST records what a person found out about it."""
    head = _head(key)
    place = "" if branch == "-" else branch
    found = shown_runs.gap(head, place, step)
    if found is None:
        raise Http404(f"Step {step} of run {head.run!r} has no open gap.")
    form = GapForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        asked = form.cleaned_data
        result = asked["result"].encode() if asked["outcome"] == "happened" else None
        try:
            run_actions.resolve_gap(
                head.id, branch=place, step=step, outcome=asked["outcome"], evidence=asked["evidence"], result=result,
                by=request.user.get_username(), actor=actor_of(request),
            )  # fmt: skip
            messages.success(request, f"Step {step} is resolved; it stands in the run's journal.")
            return redirect("runs:detail", key)
        except Refused as e:
            form.add_error(None, str(e))
    context = {"head": head, "gap": found, "form": form, "branch": branch, "leased": head.leased}
    return render(request, "versioning/resolve_gap.html", context, status=422 if request.method == "POST" else 200)


def _head(key: str) -> store.HeadRow:
    try:
        found = store.find(key=key)
    except UnknownRun as e:
        raise Http404(str(e)) from None
    projection.catch_up([found.id])
    return found


def _foreign(head: store.HeadRow, name: str, form: RunActionForm, builds: Sequence[str]) -> dict[str, Any]:
    """What the form says about a run of another runtime: that nothing is carried out, and the commands that do it.

    Where a build is to be chosen, the commands of each of the first few that are offered.
    """
    given = str(form["other_build"].value() or form["build"].value() or "") if form.is_bound else ""
    chosen = ([given] if given else builds[:COMMANDS]) if "build" in ACTS[name].fields else [""]
    reason = str(form["message"].value() or form["reason"].value() or "")
    return {
        "title": controls.title(head.runtime),
        "verb": name,
        "commands": [(build, controls.for_head(head, action=name, build=build, reason=reason)) for build in chosen],
        "known": bool(controls.for_head(head, action=name)),
    }


def _waits(head: store.HeadRow, name: str, form: RunActionForm) -> str:
    """That no worker of the build is live, where the action needs one."""
    build = str(form["build"].value() or "") if name in ("pin", "move") else ""
    if name == "release":
        build = head.pinned_build or head.open_build or head.build
    if not head.native or not build:
        return ""
    found = outcomes.who_may(head, build, now=timezone.now())
    return found if found.startswith("No worker") else ""


def _first(head: store.HeadRow, name: str) -> dict[str, Any]:
    if name == "pin":
        run = Run.objects.filter(pk=head.id).only("build").first()
        return {"build": head.open_build or (run.build if run else "")}
    if name == "move" and not head.native:
        return {"build": next(iter(controls.builds(head)), "")}
    if name == "stop":
        return {"name": "StoppedByOperator"}
    return {}
