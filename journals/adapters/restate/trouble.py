"""Why a Restate invocation does not get on: the failure that it backs off or is paused with, a mismatch, a deployment that is gone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from journals.adapters.restate.events import command_at
from journals.adapters.restate.line import Fields
from journals.adapters.restate.runs import CODES, GONE, IN_FLIGHT, MISMATCH, Snapshot
from journals.adapters.values import integer, text

LOOP_FROM: Final = 5
"""Tries in a row from which a run that backs off counts as stuck. A network error or two pass by themselves."""


def stuck_of(snapshot: Snapshot) -> Fields | None:
    fields, word = snapshot.fields, snapshot.word
    if word not in ("backing-off", "paused"):
        return None
    code, message = text(fields, "last_failure_error_code") or "", text(fields, "last_failure") or ""
    paused = [e for e in snapshot.events if e.type == "Paused"]
    told = paused[-1].told.get("last_failure") if paused else None
    if word == "paused" and not (code or message) and isinstance(told, Mapping):
        code, message = text(told, "restate_doc_error_code") or "", text(told, "error_message") or ""
    tries = integer(fields, "retry_count") or 0
    failing = code or message
    if not failing or (word == "backing-off" and code not in (MISMATCH, GONE) and tries < LOOP_FROM):
        return None
    words = CODES.get(code)
    tried = text(fields, "last_attempt_deployment_id") or text(fields, "pinned_deployment_id")
    mismatch = mismatch_of(snapshot) if code == MISMATCH else None
    same = [e for e in snapshot.events if e.type == "TransientError" and e.code == code]
    made = {
        "cause": " ".join(part for part in (code, words) if part),
        "message": mismatch["message"] if mismatch else f"{message.split(chr(10), 1)[0]} ({tries} tries)",
        "build": tried,
        "since": same[0].at if same else None,
        "tries": tries,
        "event": mismatch["entry"] if mismatch else None,
    }
    return {k: v for k, v in made.items() if v is not None}


def mismatch_of(snapshot: Snapshot) -> Fields | None:
    """The mismatch that a run stands at. Restate's command index counts commands only, and the name and type are what the new
    code wanted."""
    fields = snapshot.fields
    if text(fields, "last_failure_error_code") != MISMATCH:
        return None
    number = integer(fields, "last_failure_related_command_index")
    wanted = _side(text(fields, "last_failure_related_command_type"), text(fields, "last_failure_related_command_name"))
    recorded = command_at(snapshot, number) if number is not None else None
    pinned, tried = text(fields, "pinned_deployment_id"), text(fields, "last_attempt_deployment_id")
    there = f"{_side(recorded.type, recorded.name)} (entry {recorded.index})" if recorded else ""
    if not there:
        there = "not exported" + (f" (command {number})" if number is not None else "")
    same = pinned is not None and pinned == tried
    where = (
        f"Pinned to and tried by {pinned}: the code behind the same deployment was changed"
        if same
        else f"Pinned to {pinned}, tried by {tried}"
    )
    return {
        "message": f"Recorded: {there}; the new code wants {wanted}. {where}; {integer(fields, 'retry_count') or 0} tries",
        "command": number,
        "entry": recorded.index if recorded else None,
        "recorded": {"type": recorded.type, "name": recorded.name} if recorded else "not exported",
        "wanted": {
            "type": text(fields, "last_failure_related_command_type"),
            "name": text(fields, "last_failure_related_command_name"),
        },
        "pinned_to": pinned,
        "tried_by": tried,
        "code_changed_behind_the_same_deployment": same,
        "resume": "on the pinned deployment with its recorded code"
        if same
        else f"on {pinned}; on {tried} the recorded entries do not fit its code, and steps without a result may run twice",
    }


def _side(kind: str | None, name: str | None) -> str:
    return f'{kind or "a command"} "{name}"' if name else kind or "another command"


def stranded_of(snapshot: Snapshot) -> Fields | None:
    fields = snapshot.fields
    if text(fields, "last_failure_error_code") != GONE or snapshot.word not in IN_FLIGHT:
        return None
    first = next((e.at for e in snapshot.events if e.code == GONE), None)
    return {"build": text(fields, "pinned_deployment_id"), "since": first}
