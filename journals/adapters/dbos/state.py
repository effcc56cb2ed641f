"""What a DBOS export says about a run as a whole: the content of its `runtime.state` note.

DBOS writes a step's row when the step has ended, so a step that runs has no row and no name, and tries inside a step leave no
trace. `pending` names such places, `waiting` names receives and sleeps, `doubles` the recorded writes that an earlier execution
or a fork may have done as well. Times come from the run's own rows only, so that an unchanged run has an unchanged state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from journals.adapters.dbos.forms import Row
from journals.adapters.dbos.runs import IN_FLIGHT, INTERNAL_QUEUE, Run, name_of, number_of
from journals.adapters.dbos.values import payload
from journals.adapters.names import said
from journals.adapters.values import compact, integer, seconds_of, text, utc, utc_seconds

STATUSES = {
    "PENDING": "running",
    "ENQUEUED": "running",
    "DELAYED": "parked",
    "SUCCESS": "completed",
    "ERROR": "failed",
    "CANCELLED": "cancelled",
    "MAX_RECOVERY_ATTEMPTS_EXCEEDED": "stuck",
    "RETRIES_EXCEEDED": "stuck",
}
LOOP_FROM = 5
"""Executions without a new row from which a run counts as looping. Redeploys recover a run now and then; a loop does it at once."""

_LONG = 50  # a stretch of missing steps longer than this is one item with `to`


def state_of(run: Run, *, unused: Sequence[str]) -> dict[str, Any]:
    """The `out` of the note; `unused` are the ids of messages that no receive has taken."""
    fields = run.fields
    waiting = _waiting(run) if _may_live(run) else []
    loop = _loop(run, waiting)
    over = STATUSES.get(run.word) in ("completed", "failed", "cancelled")
    status = STATUSES.get(run.word, "unknown")
    if loop:
        status = "stuck"
    elif waiting and status == "running":
        status = "parked"
    made = {
        "runtime_status": run.word or None,
        "status": status,
        "complete": over and run.steps_exported and not run.cut,
        "as_of": _as_of(run),
        "pending": _pending(run, waiting),
        "waiting": waiting,
        "loop": loop,
        "stranded": _stranded(run),
        "stuck": _stuck(run, loop),
        "forked_from": text(fields, "forked_from"),
        "build": text(fields, "application_version"),
        "tries_recorded": False,
        "executions": integer(fields, "recovery_attempts"),
        "steps_exported": run.steps_exported,
        "last_step": run.step_of(run.steps[-1]) if run.steps else 0,
        "steps": len({number_of(row) for row in run.steps}),
        "held": _held(run),
        "copied": _copied_note(run),
        "forks": sorted(fork.id for fork in run.forks),
        "doubles": _doubles(run),
        "not_consumed": sorted(unused),
        "executor": text(fields, "executor_id"),
        "queue": text(fields, "queue_name"),
        "deadline": utc(integer(fields, "workflow_deadline_epoch_ms")),
    }
    if run.word in IN_FLIGHT and run.latest and run.latest != made["build"]:
        made["latest_build"] = run.latest
    return made


def _held(run: Run) -> dict[str, Any] | None:
    """The step rows that the export holds; None when it does not list the run's steps at all."""
    if not run.steps_exported:
        return None
    return {
        "form": "steps" if run.listed else "tables",
        "whole": not run.cut,
        "seqs": compact(run.step_of(row) for row in run.steps),
    }


def _may_live(run: Run) -> bool:
    """Whether the run may still go on: unfinished, or of a status that is not exported or not known."""
    return run.word in IN_FLIGHT or run.word not in STATUSES


def wake_of(row: Row) -> Decimal | None:
    """When a sleep ends, in epoch seconds, to the digit; None when it is closed (a pickle) and the row's end says nothing."""
    fields = row.fields
    out = payload(fields.get("output"), mark=text(fields, "serialization"), marked="serialization" in fields)
    wake = seconds_of(out.value)
    if wake is not None or not out.opaque:
        return wake
    done, started = integer(fields, "completed_at_epoch_ms"), integer(fields, "started_at_epoch_ms")
    return Decimal(done) / 1000 if done is not None and started is not None and done - started > 1000 else None


def limit_of(row: Row) -> bool:
    """Whether a sleep's row is only the time limit of the receive before it: a sleep proper ends its row at the wake time,
    a limit ends it at once."""
    wake, done = wake_of(row), integer(row.fields, "completed_at_epoch_ms")
    if done is None:
        return False
    return wake is None or done + 50 < int(wake * 1000)


def _waiting(run: Run) -> list[dict[str, Any]]:
    """Receives that wait (a hole before their time limit) and the sleep that a run is in (its last row)."""
    by_number = {number_of(row): row for row in run.steps}
    made = []
    for number, row in sorted(by_number.items()):
        if name_of(row) != "DBOS.sleep":
            continue
        step, since = run.step_of(row), utc(integer(row.fields, "started_at_epoch_ms"))
        wake = wake_of(row)
        if number - 1 not in by_number and number > run.base and _may_limit(row):
            made.append(
                {"branch": "", "step": step - 1, "what": "signal:?", "until": utc_seconds(wake), "since": since}
            )
        elif (
            number == max(by_number)
            and not _limits(row, by_number.get(number - 1))
            and wake is not None
            and wake * 1000 > (_last_ms(run) or 0)
        ):
            made.append({"branch": "", "step": step, "what": "timer", "until": utc_seconds(wake), "since": since})
    until = integer(run.fields, "delay_until_epoch_ms")
    if run.word == "DELAYED":
        made.append(
            {
                "branch": "",
                "step": None,
                "what": "timer",
                "until": utc(until),
                "since": utc(integer(run.fields, "updated_at")),
            }
        )
    return made


def _limits(row: Row, before: Row | None) -> bool:
    """Whether a sleep is the time limit of a receive: by its own times, or (DBOS 1.x has none) by the receive's row before it."""
    return limit_of(row) or (before is not None and name_of(before) in ("DBOS.recv", "DBOS.getEvent"))


def _may_limit(row: Row) -> bool:
    return limit_of(row) or integer(row.fields, "completed_at_epoch_ms") is None


def _pending(run: Run, waiting: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Step numbers without a row that may have run: holes, and the number after the last row."""
    if not run.steps_exported:
        return (
            [{**_place(1), "state": "not_exported"}] if _may_live(run) or run.word not in ("SUCCESS", "ERROR") else []
        )
    have = sorted({run.step_of(row) for row in run.steps})
    limits = {run.step_of(row) - 1 for row in run.steps if name_of(row) == "DBOS.sleep" and limit_of(row)}
    waits = {w["step"] for w in waiting if w["what"] != "timer"}
    # Without times (DBOS 1.x) a hole before a sleep may be a receive or a step beside it: it is named in both lists.
    sure = waits & limits
    made: list[dict[str, Any]] = []
    before = 0
    for step in have:
        made.extend(_places(before + 1, step - 1, sure if _may_live(run) else limits))
        before = step
    if _next_may_run(run, waiting, before):
        made.append(_place(before + 1))
    return made


def _places(first: int, last: int, known: set[int]) -> list[dict[str, Any]]:
    if last - first >= _LONG:
        return [{**_place(first), "to": last}]
    return [_place(step) for step in range(first, last + 1) if step not in known]


def _place(step: int) -> dict[str, Any]:
    return {
        "branch": "",
        "step": step,
        "name": None,
        "attempt": None,
        "state": "no_record",
        "last_failure": None,
        "last_started_at": None,
    }


def _next_may_run(run: Run, waiting: Sequence[Mapping[str, Any]], last: int) -> bool:
    """Whether a step after the last row may have begun (now, or in an execution that died or was cancelled)."""
    word = run.word
    if word == "SUCCESS":
        return False
    if word == "ERROR":
        clean = (integer(run.fields, "recovery_attempts") or 1) <= 1 and not _restarted(run)
        return not (clean and any(row.fields.get("error") is not None for row in run.steps))
    if word in ("ENQUEUED", "DELAYED") and _never_begun(run):
        return False
    if word == "CANCELLED":
        waiting = _waiting(run)
    ends = {w["step"] if w["what"] == "timer" else w["step"] + 1 for w in waiting if w["step"] is not None}
    return last not in ends


def _never_begun(run: Run) -> bool:
    fields = run.fields
    fresh = integer(fields, "created_at") is not None and integer(fields, "created_at") == integer(fields, "updated_at")
    queued = text(fields, "queue_name") not in (None, INTERNAL_QUEUE)
    return (
        not run.steps
        and fresh
        and queued
        and not integer(fields, "recovery_attempts")
        and not text(fields, "forked_from")
    )


def _restarted(run: Run) -> bool:
    """Whether the run was resumed, rewound or recovered: those come back by the internal queue, and reset or raise the count."""
    return text(run.fields, "queue_name") == INTERNAL_QUEUE and not text(run.fields, "forked_from")


def _times(run: Run) -> list[int]:
    """Every time that the run's rows record as past; the planned end of a sleep is none."""
    made = [integer(run.fields, name) for name in ("created_at", "updated_at", "completed_at", "started_at_epoch_ms")]
    for row in run.steps:
        made.append(integer(row.fields, "started_at_epoch_ms"))
        if name_of(row) != "DBOS.sleep":
            made.append(integer(row.fields, "completed_at_epoch_ms"))
    made.extend(integer(row.fields, "created_at_epoch_ms") for row in run.messages)
    return [ms for ms in made if ms is not None]


def _last_ms(run: Run) -> int | None:
    return max(_times(run), default=None)


def _as_of(run: Run) -> str | None:
    return utc(_last_ms(run))


def _last_row_ms(run: Run) -> int | None:
    done = [
        ms
        for row in run.steps
        if name_of(row) != "DBOS.sleep" and (ms := integer(row.fields, "completed_at_epoch_ms")) is not None
    ]
    return max(done, default=integer(run.fields, "created_at"))


def _loop(run: Run, waiting: Sequence[object]) -> dict[str, Any] | None:
    """A run that is executed again and again without a new row. The count is DBOS's `recovery_attempts`, its first execution included."""
    count, moved, last = (
        integer(run.fields, "recovery_attempts") or 0,
        integer(run.fields, "updated_at"),
        _last_row_ms(run),
    )
    if run.word != "PENDING" or waiting or count < LOOP_FROM or not run.steps_exported or run.cut:
        return None
    return (
        {"recoveries": count, "since": utc(last)} if moved is not None and last is not None and moved > last else None
    )


def _stuck(run: Run, loop: Mapping[str, Any] | None) -> dict[str, Any] | None:
    count = integer(run.fields, "recovery_attempts")
    if STATUSES.get(run.word) == "stuck":
        said = f"DBOS gave up after {count} executions; an operator has to resume, fork or cancel the run"
        return {"cause": run.word, "message": said}
    if loop:
        return {"cause": "replay_loop", "message": f"{count} recoveries without a new row"}
    return None


def _stranded(run: Run) -> dict[str, Any] | None:
    """An unfinished run whose version no listed executor has; None too when the export lists no executors."""
    build = text(run.fields, "application_version")
    if run.live is None or run.word not in IN_FLIGHT or build is None or build in run.live:
        return None
    return {"build": build, "since": utc(integer(run.fields, "updated_at"))}


def copied_steps(run: Run) -> list[int]:
    """Steps that a fork took over from its source: rows equal to the source's, or older than the fork itself."""
    if not text(run.fields, "forked_from"):
        return []
    theirs = {number_of(row): row for row in run.source.steps} if run.source else {}
    made_ms = integer(run.fields, "created_at")
    return [run.step_of(row) for row in run.steps if _is_copy(row, theirs.get(number_of(row)), made_ms)]


def _is_copy(row: Row, theirs: Row | None, made_ms: int | None) -> bool:
    done = integer(row.fields, "completed_at_epoch_ms")
    if done is not None and made_ms is not None and done < made_ms:
        return True
    same = ("function_name", "output", "error", "started_at_epoch_ms", "completed_at_epoch_ms")
    return theirs is not None and done is not None and all(row.fields.get(k) == theirs.fields.get(k) for k in same)


def _copied_note(run: Run) -> dict[str, Any] | None:
    source, steps = text(run.fields, "forked_from"), copied_steps(run)
    return {"from": source, "steps": steps} if steps else None


def own_steps(run: Run) -> list[Row]:
    """The user's own steps, whatever they do."""
    return [r for r in run.steps if not name_of(r).startswith("DBOS.") and not text(r.fields, "child_workflow_id")]


def _doubles(run: Run) -> list[dict[str, Any]]:
    """Recorded steps that may have happened more than once: in an earlier execution of this run, or in a fork or its source."""
    copied = set(copied_steps(run))
    own = [row for row in own_steps(run) if run.step_of(row) not in copied]
    why, again = _done_again(run)
    made = [_double(run, row, why, None) for row in own if again is None or number_of(row) in again] if why else []
    if text(run.fields, "forked_from"):
        other = text(run.fields, "forked_from")
        made.extend(_double(run, row, "forked", other) for row in own)
    for fork in run.forks:
        theirs = [row for row in own_steps(fork) if fork.step_of(row) not in set(copied_steps(fork))]
        made.extend(_double(fork, row, "forked", fork.id) for row in theirs)
    return made


def _double(run: Run, row: Row, why: str, other: str | None) -> dict[str, Any]:
    return {
        "branch": "",
        "step": run.step_of(row),
        "name": name_of(row),
        **said(name_of(row)),
        "why": why,
        "other": other,
    }


def _done_again(run: Run) -> tuple[str, set[int] | None]:
    """Why the run was executed more than once, and the function ids that may have run in more than one execution (None: any).

    One recovery: the step that was in flight, and what overlapped it. After resume or rewind the count starts anew and rows may
    have been deleted: every row since then. Several recoveries, or no time of the last one: any.
    """
    count = integer(run.fields, "recovery_attempts") or 0
    resumed_ms = integer(run.fields, "started_at_epoch_ms") if _restarted(run) or count > 1 else None
    if count <= 1 and (not _restarted(run) or resumed_ms is None):
        return "", set()  # once so far, or waiting in the queue to run again
    why = "recovered" if count > 1 else "resumed"
    if count > 2 or resumed_ms is None:
        return why, None
    later = [row for row in run.steps if (integer(row.fields, "completed_at_epoch_ms") or resumed_ms) >= resumed_ms]
    if count == 2 and _restarted(run):
        later = _overlapping(later)
    return why, {number_of(row) for row in later}


def _overlapping(rows: Sequence[Row]) -> list[Row]:
    """The first row and those whose time touches it, directly or through others."""
    made: list[Row] = []
    end = None
    for row in rows:
        started = integer(row.fields, "started_at_epoch_ms")
        if end is not None and started is not None and started >= end:
            break
        made.append(row)
        end = max(end or 0, integer(row.fields, "completed_at_epoch_ms") or 0)
    return made
