"""The `aws lambda` commands that carry out a decision on a durable execution. A run is the execution's ARN."""

from __future__ import annotations

from typing import Final

from journals.adapters.controls import Control

_RUN: Final = ("--durable-execution-arn", "{run}")

CONTROLS: Final = (
    Control(
        action="stop",
        does="ends it for good; a step that runs now is not told and its late result is not recorded",
        words=("aws", "lambda", "stop-durable-execution", _RUN),
    ),
    Control(
        action="release",
        does="lets a paused execution go on",
        words=("aws", "lambda", "resume-durable-execution", _RUN, ("--reason", "{reason}")),
    ),
)
