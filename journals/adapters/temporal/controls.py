"""The `temporal` commands that carry out a decision. A run's name is its workflow id, its execution the run id."""

from __future__ import annotations

from typing import Final

from journals.adapters.controls import Control

_RUN: Final = ("-w", "{name}"), ("-r", "{execution}")
_UPDATE: Final = ("temporal", "workflow", "update-options", *_RUN, "--versioning-override-behavior")
_BUILD: Final = (
    "pinned",
    ("--versioning-override-deployment-name", "{deployment}"),
    ("--versioning-override-build-id", "{build}"),
)
_SIGNAL: Final = ("temporal", "workflow", "signal", *_RUN, ("--name", "{event}"), ("--input", "{answer}"))

CONTROLS: Final = (
    Control(
        action="stop",
        does="ends it now; a running activity is not told and its late result is dropped",
        words=("temporal", "workflow", "terminate", *_RUN, ("--reason", "{reason}")),
    ),
    Control(
        action="stop",
        does="asks it to end, so that its code can clean up",
        words=("temporal", "workflow", "cancel", *_RUN),
    ),
    Control(
        action="pin",
        does="keeps it on this build",
        words=(*_UPDATE, *_BUILD),
    ),
    Control(
        action="move",
        does="sends it to workers of this build",
        words=(*_UPDATE, *_BUILD),
    ),
    Control(
        action="move",
        does="when it fails on its history: a new run that goes on from its last workflow task; steps after it run again",
        words=("temporal", "workflow", "reset", *_RUN, "-t", "LastWorkflowTask", ("--reason", "{reason}")),
    ),
    Control(action="unpin", does="takes the override off", words=(*_UPDATE, "unspecified")),
    Control(
        action="release",
        does="lets a paused run go on",
        words=("temporal", "workflow", "unpause", *_RUN, ("--reason", "{reason}")),
    ),
    Control(
        action="approve",
        does="sends the signal that it waits for; its name and what its code expects as input are not in its history before it comes",
        words=_SIGNAL,
    ),
    Control(
        action="reject",
        does="sends the signal that it waits for with a no: its code must look at `approved`, a signal alone is no yes",
        words=_SIGNAL,
    ),
)
