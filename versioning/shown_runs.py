"""What the panel on a run's page shows about versions and what can be done. No request, no writes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from journals import store
from runs import actions as run_actions
from runs import controls
from runs.models import Run
from versioning import assessing, registering, ruling, shown
from versioning.models import Build, Deploy


def labels(agent: str, *, on: str | None = "") -> list[str]:
    """Labels of the agent's builds, newest first, at most 200; and the one that the run is on, which may be unregistered."""
    known = list(Build.objects.filter(agent=agent).order_by("-id").values_list("label", flat=True)[:200])
    return known if not on or on in known else [on, *known]


SEEN: int = 1_000  # newest runs of a source in which builds are looked for
OFFERED: int = 50


def foreign_labels(head: store.HeadRow) -> list[str]:
    """Builds that a run of another runtime could go to, as far as they have been seen: named by its own import, registered, or
    held by the newest runs of its agent from the same source."""
    source = Run.objects.filter(pk=head.id).values_list("source", flat=True).first()
    newest = Run.objects.filter(source=source, agent=head.agent).order_by("-head_id").values_list("build", flat=True)
    return [b for b in dict.fromkeys([*controls.builds(head), *labels(head.agent), *newest[:SEEN]]) if b][:OFFERED]


def warnings(head_id: int) -> list[Mapping[str, Any]]:
    """Findings of a run that somebody who decides about it must have read: its open gap, and what is an error."""
    run = Run.objects.filter(pk=head_id).only("summary").first()
    found = run.summary.get("findings", ()) if run is not None else ()
    return [f for f in found if f["severity"] == "error" or f["code"] == "gap_open"]


def gap(head: store.HeadRow, branch: str, step: int) -> Mapping[str, Any] | None:
    """The open gap at this step."""
    for found in run_actions.open_gaps(head.id):
        if (found.get("branch") or "", found.get("step")) == (branch, step):
            return found
    return None


def panel(head: store.HeadRow, *, against: str, now: datetime) -> dict[str, Any]:
    """What can be done to the run now, and how its versions stand to a build: the named one, else the deploy's target."""
    run = Run.objects.filter(pk=head.id).select_related("versions_set").first()
    over = bool(head.ended) or (run is not None and not run.in_flight)
    deploy = Deploy.objects.governing(agent=head.agent, environment=head.environment)
    build = _build(head, against, deploy)
    assessment = None
    if build is not None and run is not None:
        pair = assessing.pair_of(head.id)
        assessment = assessing.measure_for(build, pairs=[pair]).assess(pair, now=now)
    return {
        "head": head,
        "run": run,
        "over": over,
        "acts": [] if over else _acts(head),
        "gaps": [] if over or not head.native else run_actions.open_gaps(head.id),
        "deploy": deploy,
        "build": build,
        "builds": labels(head.agent),
        "assessment": assessment,
        "lines": shown.lines_of(assessment.differences) if assessment else (),
        "decision": _decision(head, build, now) if build and not over and head.native else None,
    }


def _build(head: store.HeadRow, against: str, deploy: Deploy | None) -> Build | None:
    if against:
        return Build.objects.filter(agent=head.agent, label=against).first()
    if deploy is not None:
        return deploy.build
    return Build.objects.filter(agent=head.agent).order_by("-id").first()


def _acts(head: store.HeadRow) -> list[str]:
    """Names of the actions that make sense now."""
    if head.stop_name:
        return []
    made = ["unpin" if head.pinned_build else "pin", "move", "stop"]
    return ["release", *made] if head.hold_reason else made


def _decision(head: store.HeadRow, build: Build, now: datetime) -> Any:
    rules = ruling.Rules.load(build, environment=head.environment, now=now)
    return rules.decision_for(head)


__all__ = ["foreign_labels", "gap", "labels", "panel", "registering", "warnings"]
