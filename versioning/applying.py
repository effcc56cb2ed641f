"""Decisions become entries: each run's journal says who decided what about it, and its gate obeys from the same commit on.

A decision is written once per run (`Applied`), whoever comes first: the person's request, the background task, or the worker
that wants the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db import transaction

from journals import store
from runs import actions as run_actions
from runs.approvals import actions as approvals
from runs.models import Run
from versioning import mismatch
from versioning.models import Applied, Build, Decision
from versioning.ruling import UNDECIDED

DIVERGED = "NonDeterministicReplay"  # hold_reason of a run whose replay differed


@transaction.atomic
def apply(decision: Decision, head_id: int) -> bool:
    """Writes a decision into one run's journal; False when it stands there already, the run is over, or was decided on by itself."""
    head = store.lock(head_id)
    if Applied.objects.filter(decision=decision, head_id=head_id).exists() or _overruled(decision, head):
        return False
    if head.ended:
        Applied.objects.create(decision=decision, head_id=head_id, outcome=f"over ({head.ended})")
        return False
    pos = _write(decision, head)
    Applied.objects.create(decision=decision, head_id=head_id, pos=pos, outcome="" if head.native else "foreign")
    return True


def _overruled(decision: Decision, head: store.HeadRow) -> bool:
    """Whether a decision about the run itself stands, which goes before its group's, whichever was made first."""
    if not decision.group:
        return False
    return Decision.objects.standing().filter(deploy_id=decision.deploy_id, run_key=head.key).exists()


def pin(
    head: store.HeadRow, *, build: str, reason: str, by: str, actor: str, more: Mapping[str, Any] | None = None
) -> int:
    """The run finishes on this build: no worker of another may take it. A hold is lifted. The head must be locked."""
    entry = {"kind": "deploy.pinned", "build": build, "reason": reason, "by": by, **(more or {})}
    pos = store.record(head.id, entry, actor=actor, changes={"pinned_build": build})
    if head.hold_reason:
        run_actions.release(head.id, reason=f"pinned to build {build}: {reason}", by=by, actor=actor)
    return pos


def go_on(
    head: store.HeadRow,
    *,
    build: str,
    reason: str,
    by: str,
    actor: str,
    tools: Sequence[str] = (),
    more: Mapping[str, Any] | None = None,
) -> int:
    """From this entry on the run may be replayed and continued by this build. A hold for want of a decision is lifted.

    Open and unused approvals of `tools`, which the build changes, are withdrawn: they are asked for again. The head must be
    locked.
    """
    entry = {"kind": "deploy.continued", "build": build, "reason": reason, "by": by, **(more or {})}
    pos = store.record(head.id, entry, actor=actor)
    if tools and head.native:
        approvals.withdraw(head.id, reason=f"build {build} changes the tool", actor=actor, tools=tools)
    if head.hold_reason.startswith(UNDECIDED):
        run_actions.release(head.id, reason=f"continues on build {build}: {reason}", by=by, actor=actor)
    return pos


def changed_tools(differences: Iterable[mismatch.Difference]) -> list[str]:
    """Names of tools that a build changes or no longer has."""
    return sorted({d.name for d in differences if d.component == "tool" and d.change not in ("added", "unknown")})


def stop(
    head: store.HeadRow, *, build: Build | None, name: str, message: str, by: str, actor: str, more: Mapping[str, Any]
) -> int:
    """Stops the run; the entry says what the build holds. The head must be locked."""
    detail = {"current": current_versions(build) if build else None, **more}
    pos, _ = run_actions.request_stop(head.id, name=name, message=message, by=by, actor=actor, more=detail)
    return pos


def pin_target(head: store.HeadRow) -> str:
    """The build on which a pinned run finishes: the one that it is on; where that one's replay differed, the first."""
    if head.native:
        return head.build if head.hold_reason.startswith(DIVERGED) and head.build else head.open_build or head.build
    run = Run.objects.filter(pk=head.id).only("build").first()
    return run.build if run else ""


def current_versions(build: Build) -> dict[str, Any]:
    """A build's versions in the form of an entry."""
    body: Mapping[str, Any] = build.body
    parts = {
        "app": body.get("app"),
        "prompt": {name: got["version"] for name, got in body.get("prompts", {}).items()},
        "model": {role: got["id"] for role, got in body.get("models", {}).items()},
        "tools": {name: got["sha256"] for name, got in body.get("tools", {}).items()},
        "sdk": body.get("sdk"),
        "build": build.label,
    }
    return {name: got for name, got in parts.items() if got}


def named_differences(found: mismatch.Assessment | None) -> dict[str, Any]:
    """Verdict and differences as an entry carries them."""
    if found is None:
        return {}
    return {"verdict": found.verdict, "differences": [d.as_json() for d in found.differences]}


def _write(decision: Decision, head: store.HeadRow) -> int:
    deploy = decision.deploy
    actor = f"person:{decision.by}"
    more = {"deploy": deploy.key, "verdict": decision.verdict, "differences": decision.differences}
    if decision.action == Decision.Action.PIN:
        target = pin_target(head)
        return pin(head, build=target, reason=decision.reason, by=decision.by, actor=actor, more=more)
    if decision.action == Decision.Action.CONTINUE:
        if head.pinned_build:
            unpin(head, reason=decision.reason, by=decision.by, actor=actor)
        label = deploy.build.label
        tools = changed_tools(mismatch.difference_of(d) for d in decision.differences)
        return go_on(head, build=label, reason=decision.reason, by=decision.by, actor=actor, tools=tools, more=more)
    more["why"] = decision.reason
    return stop(
        head, build=deploy.build, name=decision.name, message=decision.message, by=decision.by, actor=actor, more=more
    )


def unpin(head: store.HeadRow, *, reason: str, by: str, actor: str) -> int:
    """Takes the pin off; the head must be locked."""
    entry = {"kind": "deploy.unpinned", "build": head.pinned_build, "reason": reason, "by": by}
    return store.record(head.id, entry, actor=actor, changes={"pinned_build": ""})
