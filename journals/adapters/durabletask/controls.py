"""The HTTP calls of Durable Functions that carry out a decision. `APP` is the function app's host, `KEY` its Durable Task system key."""

from __future__ import annotations

from typing import Final

from journals.adapters.controls import Control


def _post(call: str) -> tuple[str, ...]:
    url = f"https://APP/runtime/webhooks/durabletask/instances/{{name}}/{call}"
    return "curl", "-G", "-X", "POST", "--data-urlencode", "reason={reason}", "--data-urlencode", "code=KEY", url


_EVENT: Final = (
    "curl",
    "-X",
    "POST",
    "-H",
    "content-type: application/json",
    "-d",
    "{yes}",
    "https://APP/runtime/webhooks/durabletask/instances/{name:url}/raiseEvent/{event:url}?code=KEY",
)

CONTROLS: Final = (
    Control(
        action="stop",
        does="terminates it; an activity that runs is not told, and its late result is dropped",
        words=_post("terminate"),
    ),
    Control(action="release", does="lets a suspended run go on", words=_post("resume")),
    Control(
        action="release",
        does="rewinds a failed run: its failed steps run again, and their records are taken out of its history",
        words=_post("rewind"),
    ),
    Control(
        action="approve",
        does="raises the event that it waits for with true; what its code expects as the content is not in its history",
        words=_EVENT,
    ),
    Control(action="reject", does="raises the event that it waits for with false", words=_EVENT),
)
