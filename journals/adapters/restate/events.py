"""What went wrong in a Restate invocation, as notes: errors of executions, pauses, mismatches, and an end without an output.

An error is a step's own only where the event names the step; all others ended an execution, and what ran then may have acted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from journals.adapters.base import Line, Options
from journals.adapters.restate.entries import Entry
from journals.adapters.restate.line import Fields, call_of, digest, effect, line, record_of, run_kind
from journals.adapters.restate.rows import Row
from journals.adapters.restate.runs import CODES, GONE, MISMATCH, RUNS, Event, Snapshot
from journals.adapters.values import text

Failed = tuple[Event, list[Entry]]
"""An error of an execution, and the Runs that may have been under way then."""


def failures(snapshot: Snapshot) -> list[Failed]:
    """Every error of an execution with the Runs whose action may have been under way when it ended."""
    open_at: dict[int, list[Entry]] = {}
    made: list[Failed] = []
    for event in snapshot.events:
        if event.type != "TransientError":
            continue
        step = failed_step(snapshot, event)
        if step is not None or event.code in (MISMATCH, GONE):
            made.append((event, [step] if step else []))
            continue
        if event.after not in open_at:
            runs = (e for e in snapshot.commands if e.type in RUNS and not e.v1)
            open_at[event.after] = [e for e in runs if _open_at(snapshot, e, event.after)]
        made.append((event, open_at[event.after]))
    return made


def _open_at(snapshot: Snapshot, command: Entry, index: int) -> bool:
    """Whether a command stands in the journal up to this index and its answer does not."""
    answer = snapshot.answered.get(command.completion)
    return command.index <= index and (answer is None or answer.index > index)


def event_id(event: Event) -> str:
    """Events have no id: where, when and what."""
    return f"event:{event.after}:{event.at or ''}:{digest(event.told)}"


def event_title(event: Event) -> str:
    """`TransientError RT0010 (connection to the endpoint lost or refused)`."""
    words = CODES.get(event.code)
    return " ".join(part for part in (event.type, event.code, f"({words})" if words else "") if part)


class Failures:
    """The lines of one snapshot's events, asked for in their order."""

    def __init__(self, snapshot: Snapshot, options: Options) -> None:
        self.snapshot = snapshot
        self.tried: Counter[int] = Counter()  # index of a Run -> its failed tries so far
        self.lost: set[int] = set()  # indexes of Runs whose loss is told
        self.running = {id(event): running for event, running in failures(snapshot)}

    def lines(self, event: Event) -> Iterator[Line]:
        """The event as it is told, and what it means for a step: its error where the event names it; else, for a Run that
        was open and has a result since, that a try of it left no answer. Only the first loss is told of a Run: the ones after
        it may never have reached the code."""
        snapshot, record = self.snapshot, record_of(event.row)
        made = _note(event)
        yield line(snapshot, event.row, record, made)
        step = failed_step(snapshot, event)
        if step is not None:
            self.tried[step.index] += 1
            number = self.tried[step.index]
            failed = {**made, **self._of(step), "attempt": number if number > 1 else None}
            yield line(snapshot, event.row, f"{record}#step", {**failed, "id": f"{made['id']}:step"})
        for lost in self.running.get(id(event), ()) if step is None else ():
            if lost.completion in snapshot.answered and lost.index not in self.lost:
                self.lost.add(lost.index)
                yield self._lost(event, made, lost)
        if event.code == MISMATCH:
            yield mismatch_note(snapshot, event.row, _related(event), at=event.at, seq=event.after or None)

    def _of(self, step: Entry) -> Fields:
        kind = run_kind(step)
        return {
            "kind": f"{kind if kind in ('model', 'child') else 'tool'}.error",
            "name": step.name,
            "effect": effect(step) if kind != "value" else "read",
            "step": self.snapshot.numbers.get(step.index),
            "call": call_of(step),
            "command": None,
        }

    def _lost(self, event: Event, made: Fields, step: Entry) -> Line:
        message = ": ".join(part for part in (event_title(event), event.message) if part)
        error = {"type": "ExecutionLost", "message": message, "retryable": True}
        told = {**made, **self._of(step), "id": f"{made['id']}:lost:{step.index}", "error": error}
        return line(self.snapshot, event.row, f"{record_of(event.row)}#lost", told)


def _note(event: Event) -> Fields:
    failed = event.told if event.message else event.told.get("last_failure")
    failed = failed if isinstance(failed, Mapping) else {}
    code = text(failed, "restate_doc_error_code") or ""
    kind = f"{code} ({CODES[code]})" if code in CODES else code or str(failed.get("error_code", ""))
    error = {
        "type": kind,
        "message": text(failed, "error_message") or "",
        "retryable": True,
        "stack_trace": text(failed, "error_stacktrace"),
    }
    return {
        "id": event_id(event),
        "seq": event.after or None,
        "at": event.at,
        "kind": "note",
        "name": event_title(event),
        "error": {k: v for k, v in error.items() if v is not None} if failed else None,
        "command": _related(event),
    }


def _related(event: Event) -> Fields | None:
    told = {
        k: event.told[f"related_command_{k}"] for k in ("index", "name", "type") if f"related_command_{k}" in event.told
    }
    return told or None


def failed_step(snapshot: Snapshot, event: Event) -> Entry | None:
    """The Run that an event says has failed. Restate's index counts commands only."""
    number = event.told.get("related_command_index")
    if event.type != "TransientError" or event.code in (MISMATCH, GONE) or not isinstance(number, int):
        return None
    found = command_at(snapshot, number)
    named = text(event.told, "related_command_name") or ""
    return found if found is not None and found.type in RUNS and found.name == named else None


def command_at(snapshot: Snapshot, number: int) -> Entry | None:
    """The command of this number, from 0; None when entries before it are not here, so that counting would go wrong."""
    if not 0 <= number < len(snapshot.commands):
        return None
    found = snapshot.commands[number]
    return found if found.index < snapshot.first_hole else None


def mismatch_note(
    snapshot: Snapshot, row: Row, wanted: Mapping[str, Any] | None, *, at: str | None = None, seq: int | None = None
) -> Line:
    """Both sides of a journal mismatch: what is recorded, and what the new code wanted (that is what Restate names)."""
    number = (wanted or {}).get("index")
    recorded = command_at(snapshot, number) if isinstance(number, int) else None
    mine = {"kind": (wanted or {}).get("type"), "name": (wanted or {}).get("name")}
    theirs = {"kind": recorded.type, "name": recorded.name, "entry": recorded.index} if recorded else None
    out = {
        "branch": "",
        "step": snapshot.numbers.get(recorded.index) if recorded else None,
        "command": number,
        "recorded": theirs or "not exported",
        "this_build": mine,
        "differs": [k for k in ("kind", "name") if theirs and (theirs[k] or "") != (mine[k] or "")],
    }
    made: Fields = {
        "id": f"mismatch:{digest([out, at])}",
        "seq": seq,
        "at": at,
        "kind": "note",
        "name": "nondeterministic_replay",
    }
    return line(snapshot, row, f"{record_of(row)}#mismatch", {**made, "out": out})


def invocation_lines(snapshot: Snapshot, row: Row) -> Iterator[Line]:
    """What only the invocation's row says: a mismatch without an event, an end without an output."""
    fields = row.fields
    if text(fields, "last_failure_error_code") == MISMATCH and not any(e.code == MISMATCH for e in snapshot.events):
        told = {k: fields.get(f"last_failure_related_command_{k}") for k in ("index", "name", "type")}
        yield mismatch_note(snapshot, row, told)
    ended = any(e.command and e.type == "Output" for e in snapshot.entries)
    if snapshot.word == "completed" and not ended and (snapshot.whole or not (snapshot.entries or snapshot.cut)):
        status, reason = ending(fields)
        made: Fields = {
            "id": f"end:{text(fields, 'completed_at') or ''}",
            "at": text(fields, "completed_at"),
            "kind": f"run.{status}",
        }
        if status == "failed":
            made["error"] = {"type": "TerminalError", "message": reason, "retryable": False}
        else:
            made["reason"] = reason
        yield line(snapshot, row, f"{record_of(row)}#end", made)


def ending(fields: Mapping[str, Any]) -> tuple[str, str]:
    """Our word for how a completed invocation ended, and Restate's reason."""
    failure = text(fields, "completion_failure") or ""
    if text(fields, "completion_result") != "failure" and not failure:
        return "completed", ""
    if failure == "[409] cancelled":
        return "cancelled", "cancelled"
    return ("stopped", "killed") if failure == "[409] killed" else ("failed", failure)
