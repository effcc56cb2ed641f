"""The `wrangler` commands that carry out a decision. WORKFLOW stands for the workflow's name, which its instances do not tell."""

from __future__ import annotations

from typing import Final

from journals.adapters.controls import Control

_INSTANCES: Final = ("npx", "wrangler", "workflows", "instances")
_EVENT: Final = (*_INSTANCES, "send-event", "WORKFLOW", "{run}", ("--type", "{event}"), ("--payload", "{answer}"))

CONTROLS: Final = (
    Control(
        action="stop",
        does="ends it now; a step that runs is cut off, and its effect may have happened",
        words=(*_INSTANCES, "terminate", "WORKFLOW", "{run}"),
    ),
    Control(
        action="stop",
        does="ends it and runs the rollback functions of the steps that are done",
        words=(*_INSTANCES, "terminate", "WORKFLOW", "{run}", "--rollback"),
    ),
    Control(
        action="move",
        does="there is no move: this begins the instance again from STEP on the deployed version. That step and all behind it run "
        "again, and their records are deleted; import the instance first",
        words=(*_INSTANCES, "restart", "WORKFLOW", "{run}", ("--from-step-name", "STEP")),
    ),
    Control(
        action="release",
        does="lets a paused instance go on",
        words=(*_INSTANCES, "resume", "WORKFLOW", "{run}"),
    ),
    Control(
        action="approve",
        does="sends the event that it waits for, with a yes; what its code expects as the payload is not in its journal",
        words=_EVENT,
    ),
    Control(
        action="reject",
        does="sends the event that it waits for, with a no: its code must look at `approved`, an event alone is no yes",
        words=_EVENT,
    ),
)
