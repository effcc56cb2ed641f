"""What an action on one run brought about, in a sentence or two: who may take the run now, or what somebody has to do."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from journals import store
from runs import controls
from versioning import live


def said(name: str, head: store.HeadRow, given: Mapping[str, Any], *, now: datetime) -> str:
    """The message after an action; `head` is the run's head after it."""
    if not head.native:
        return recorded(head, name, given)
    match name:
        case "pin":
            return f"Pinned to build {head.pinned_build}. {who_may(head, head.pinned_build, now=now)}"
        case "unpin":
            return "The pin is off. The deploy's decision or the agent's policy says which build may take the run."
        case "move":
            return (
                f"Moved: it goes on under build {given['build']} and no other. {who_may(head, given['build'], now=now)}"
            )
        case "release":
            return f"Released. {who_may(head, head.pinned_build or head.open_build or head.build, now=now)}"
        case _:
            return _stopped(head)


def recorded(head: store.HeadRow, name: str, given: Mapping[str, Any]) -> str:
    """The message after a decision about a run of another runtime."""
    of = controls.title(head.runtime)
    made = controls.for_head(
        head, action=name, build=str(given.get("build") or ""), reason=str(given.get("message") or given["reason"])
    )  # fmt: skip
    how = f" To carry it out, run: {made[0].line}" if made else " Carry it out where the run lives."
    return f"Recorded, and not carried out: Drainboard cannot {name} a run of {of}.{how}"


def who_may(head: store.HeadRow, build: str, *, now: datetime) -> str:
    """Which worker may take the run from now on, and how to start one where none is alive."""
    if not build:
        return "A worker of any build that fits may take it."
    if build in live.builds(agent=head.agent, environment=head.environment, now=now):
        return f"A worker of build {build} may take it."
    command = live.start_command(build=build, environment=head.environment)
    return f"No worker of build {build} is live: it waits until one runs. Start one with: {command}"


def _stopped(head: store.HeadRow) -> str:
    if head.ended:
        return f"Stopped with {head.stop_name}. Nobody worked on it, so it ended at once and does not run again."
    return f"Stop asked for with {head.stop_name}. Worker {head.worker} ends it between two steps."
