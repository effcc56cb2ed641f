"""Calls of Restate's admin API that carry out a decision. The addresses are a local server's; yours may stand elsewhere."""

from __future__ import annotations

from typing import Final

from journals.adapters.controls import Control

_ADMIN: Final = "http://localhost:9070/invocations/{run}"
_PATCH: Final = ("curl", "-X", "PATCH")
_AWAKEABLE: Final = "http://localhost:8080/restate/awakeables/{awakeable:url}"
_ANSWER: Final = ("curl", "-X", "POST")

CONTROLS: Final = (
    Control(
        action="stop",
        does="asks its code to end, so that it can undo what it did; a step that runs is finished first",
        words=(*_PATCH, f"{_ADMIN}/cancel"),
    ),
    Control(
        action="stop",
        does="ends it now, nothing is undone; a step that runs still acts outside, unrecorded",
        words=(*_PATCH, f"{_ADMIN}/kill"),
    ),
    Control(
        action="pin",
        does="a started run is pinned by itself; a paused one goes on here on this deployment",
        words=(*_PATCH, f"{_ADMIN}/resume?deployment={{build}}"),
    ),
    Control(
        action="move",
        does="a paused run goes on on this deployment, and its journal keeps no word of the move; recorded entries must fit that "
        "code, and a step without a result runs again",
        words=(*_PATCH, f"{_ADMIN}/resume?deployment={{build}}"),
    ),
    Control(action="move", does="pauses it before that", words=(*_PATCH, f"{_ADMIN}/pause")),
    Control(
        action="release",
        does="lets a paused run go on, on the deployment that it is pinned to",
        words=(*_PATCH, f"{_ADMIN}/resume?deployment=keep"),
    ),
    Control(
        action="approve",
        does="answers the awakeable; what its code expects as JSON is not in the export",
        words=(*_ANSWER, f"{_AWAKEABLE}/resolve", "--json", "{answer}"),
        needs="awakeable",
    ),
    Control(
        action="reject",
        does="rejects the awakeable: its code gets a terminal error with this text",
        words=(*_ANSWER, f"{_AWAKEABLE}/reject", "--data-raw", "{reason}"),
        needs="awakeable",
    ),
)
