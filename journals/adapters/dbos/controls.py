"""The `dbos` commands that carry out a decision. They find the system database as the DBOS CLI is configured to."""

from __future__ import annotations

from typing import Final

from journals.adapters.controls import Control

CONTROLS: Final = (
    Control(
        action="stop",
        does="a step that runs now finishes and its result is not recorded",
        words=("dbos", "workflow", "cancel", "{run}"),
    ),
    Control(
        action="pin",
        does="there is no pin in DBOS: an executor that is started with this version recovers its runs, and no other does",
        words=("env", "DBOS__APPVERSION={build}", "dbos", "start"),
    ),
    Control(
        action="move",
        does="a new workflow on this version that goes on from step STEP, with the results before it; keys made from the workflow "
        "id change. Cancel the old one first",
        words=(
            "dbos",
            "workflow",
            "fork",
            ("--step", "STEP"),
            ("--application-version", "{build}"),
            "{run}",
        ),
    ),
    Control(
        action="release",
        does="starts a cancelled or dead-lettered workflow again from its last recorded step",
        words=("dbos", "workflow", "resume", "{run}"),
    ),
)
