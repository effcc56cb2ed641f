"""What a person does to one run about versions: pin, unpin, move to a build; and an agent's policy."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from journals import store
from journals.errors import Refused, RunEnded
from versioning import applying, assessing, registering
from versioning.models import AgentPolicy, Deploy


class NotPinned(Refused):
    """The run is not pinned, so there is no pin to take off."""

    code = "NotPinned"


class NothingToPinTo(Refused):
    """Nobody knows which build the run is on."""

    code = "NothingToPinTo"


class ReasonMissing(Refused):
    """A decision needs a reason."""

    code, status = "ReasonMissing", 400


@transaction.atomic
def pin_run(head_id: int, *, build: str = "", reason: str, by: str, actor: str) -> int:
    """The run finishes on this build (default: the one that it is on); returns the entry's position.

    Raises `RunEnded`, `NothingToPinTo`, `UnknownBuild`, `ReasonMissing`.
    """
    head = _open_head(head_id, reason)
    here = applying.pin_target(head)
    label = build or here
    if not label:
        raise NothingToPinTo(f"run {head.run!r} has not been opened and names no build; name the build to pin it to")
    if label != here and head.native:
        registering.find(agent=head.agent, label=label)
    return applying.pin(head, build=label, reason=reason, by=by, actor=actor)


@transaction.atomic
def unpin_run(head_id: int, *, reason: str, by: str, actor: str) -> int:
    """Takes a run's pin off; returns the entry's position. Raises `NotPinned`, `RunEnded`, `ReasonMissing`."""
    head = _open_head(head_id, reason)
    if not head.pinned_build:
        raise NotPinned(f"run {head.run!r} is not pinned, so there is no pin to take off", key=head.key)
    return applying.unpin(head, reason=reason, by=by, actor=actor)


@transaction.atomic
def move_run(head_id: int, *, build: str, reason: str, by: str, actor: str) -> int:
    """The run goes on under this build and no other; returns the position of `deploy.continued`.

    What it recorded under other versions then replays with the rule for continued runs. A hold is lifted. A run of another
    runtime may go to a build that is registered nowhere here: its runtime knows it. Raises `RunEnded`,
    `UnknownBuild`, `NothingToPinTo`, `ReasonMissing`.
    """
    head = _open_head(head_id, reason)
    if not head.native and not build:
        raise NothingToPinTo("name the build that the run is to go on under")
    if not head.native and not registering.known(agent=head.agent, label=build):
        pos = applying.go_on(head, build=build, reason=reason, by=by, actor=actor)
        applying.pin(store.lock(head_id), build=build, reason=reason, by=by, actor=actor)
        return pos
    target = registering.find(agent=head.agent, label=build)
    pair = assessing.pair_of(head.id)
    found = assessing.measure_for(target, pairs=[pair]).assess(pair, now=head.now)
    tools = applying.changed_tools(found.differences)
    pos = applying.go_on(head, build=build, reason=reason, by=by, actor=actor, tools=tools)
    applying.pin(store.lock(head_id), build=build, reason=reason, by=by, actor=actor)
    return pos


@transaction.atomic
def stop_run(head_id: int, *, name: str, message: str, reason: str, by: str, actor: str) -> int:
    """Stops the run with a name and a message; returns the entry's position. Raises `RunEnded`, `ReasonMissing`."""
    head = _open_head(head_id, reason)
    deploy = Deploy.objects.governing(agent=head.agent, environment=head.environment)
    build = deploy.build if deploy else None
    return applying.stop(head, build=build, name=name, message=message, by=by, actor=actor, more={"why": reason})


def save_policy(*, agent: str, on_mismatch: str, code_changes_compatible: bool, by: str, now: datetime) -> AgentPolicy:
    """What happens to this agent's runs when nobody decides."""
    policy, _ = AgentPolicy.objects.update_or_create(
        agent=agent,
        defaults={
            "on_mismatch": on_mismatch,
            "code_changes_compatible": code_changes_compatible,
            "changed_by": by,
            "changed_at": now,
        },
    )
    return policy


def _open_head(head_id: int, reason: str) -> store.HeadRow:
    if not reason.strip():
        raise ReasonMissing("a decision needs a reason: say why, in a few words")
    head = store.lock(head_id)
    if head.ended:
        raise RunEnded(f"run {head.run!r} is over ({head.ended})", ended=head.ended, stop=head.stop_name)
    return head
