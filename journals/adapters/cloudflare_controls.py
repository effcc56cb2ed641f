"""The `wrangler` commands that carry out a decision. WORKFLOW stands for the workflow's name, which its instances do not tell."""

from __future__ import annotations

from typing import Final

from journals.adapters.controls import Control

_INSTANCES: Final = ("npx", "wrangler", "workflows", "instances")

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
)
