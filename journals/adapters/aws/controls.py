"""The `aws lambda` commands that carry out a decision on a durable execution. A run is the execution's ARN."""

from __future__ import annotations

from typing import Final

from journals.adapters.controls import Control

_RUN: Final = ("--durable-execution-arn", "{run}")
_CALLBACK: Final = ("aws", "lambda")
_ID: Final = (("--callback-id", "{call}"),)
_RAW: Final = ("--cli-binary-format", "raw-in-base64-out")

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
    Control(
        action="approve",
        does="answers the callback; what its code expects as the result is not in the export",
        words=(*_CALLBACK, "send-durable-execution-callback-success", *_ID, ("--result", "{answer}"), *_RAW),
        needs="call",
    ),
    Control(
        action="reject",
        does="fails the callback: its code gets an error with this text",
        words=(
            *_CALLBACK,
            "send-durable-execution-callback-failure",
            *_ID,
            ("--error", '{"ErrorType":"Rejected","ErrorMessage":{reason:json}}'),
        ),
        needs="call",
    ),
)
