"""Journal lines of one DBOS run.

A step's line holds only what its own row says, so that the same row gives the same line in every later export and in every
form (tables as JSON, SQL dump, SQLite file). What the export says about the run as a whole stands in the last line, the
`runtime.state` note, whose id is made of its content.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from drainboard import wire

from journals.adapters.base import Line, Options
from journals.adapters.dbos.forms import Row
from journals.adapters.dbos.kinds import said_by_model, step_versions_of, versions_of
from journals.adapters.dbos.runs import Run, name_of, number_of, stored
from journals.adapters.dbos.state import limit_of, state_of, wake_of
from journals.adapters.dbos.values import Payload, error_of, nondeterministic, payload
from journals.adapters.names import effect_of, kind_of
from journals.adapters.values import Fields, flag, integer, opaque, text, utc, utc_seconds

ENDS = {"SUCCESS": "run.completed", "ERROR": "run.failed", "CANCELLED": "run.cancelled"}
_ABOUT = (
    "class_name",
    "config_name",
    "application_name",
    "application_id",
    "authenticated_user",
    "deduplication_id",
    "schedule_name",
    "forked_from",
    "queue_partition_key",
)
"""Columns of workflow_status that never change in the life of a run; they go along as they are."""


def lines_of(run: Run, options: Options) -> Iterator[Line]:
    """The lines of a run in the order in which they are stored: start, steps, values, messages, end, state."""
    if run.status is not None:
        yield _started(run, run.status, options)
    for row in run.steps:
        yield from _step(run, row, options)
    seen: dict[tuple[str, str], str] = {}
    for row in sorted(run.values, key=_value_order):
        line = _value(run, row, seen)
        if line is not None:
            yield line
    for row in sorted(
        run.messages,
        key=lambda row: (integer(row.fields, "created_at_epoch_ms") or 0, text(row.fields, "message_uuid") or ""),
    ):
        yield _message(run, row)
    if run.status is not None and run.word in ENDS:
        yield _ended(run, run.status)
    yield _state(run, options)


def _line(run: Run, row: Row, record: str, fields: Mapping[str, Any], shown: Payload | None = None) -> Line:
    """A line of these fields; absent ones are dropped, `out` and `in` may be null."""
    kept = {k: v for k, v in fields.items() if v is not wire.MISSING and (v is not None or k in ("in", "out"))}
    oddities = ("opaque_payload",) if shown is not None and shown.opaque else ()
    try:
        raw = wire.dump({"run": run.id, **kept})
    except wire.Ambiguous:  # NaN in a value that the command line printed
        closed = {k: _standard(v) for k, v in kept.items()}
        raw, oddities = wire.dump({"run": run.id, **closed}), ("opaque_payload",)
    return Line(run.id, raw, record, row.path, oddities)


def _standard(value: Any) -> Any:
    """The value itself when it is standard JSON, else its closed view."""
    try:
        wire.encode(value)
    except wire.Ambiguous:
        return opaque(json.dumps(value), form="json with NaN")
    return value


def _read(fields: Fields, column: str) -> Payload:
    return payload(fields.get(column), mark=text(fields, "serialization"), marked="serialization" in fields)


def attributes_of(run: Run) -> Any:
    """The run's attributes as JSON (SQLite and dumps hold them as text), or None."""
    got = run.fields.get("attributes")
    if isinstance(got, str):
        got = payload(got, mark="portable_json", marked=True).value
    return {k: got[k] for k in sorted(got)} if isinstance(got, Mapping) else got


def _run_payload(run: Run, name: str) -> Payload:
    value, _ = stored(run, name)
    return payload(
        value, mark=text(run.fields, "serialization"), marked="serialization" in run.fields or run.status is None
    )


def _started(run: Run, row: Row, options: Options) -> Line:
    """`run.started`. Inputs that are null were not exported (retention, or a list without them): then there is no `in`."""
    fields, attributes = row.fields, attributes_of(run)
    shown = _run_payload(run, "inputs")
    name = text(fields, "name")
    agent = options.agent or name or ""
    versions = versions_of({**fields, "attributes": attributes, "inputs": shown.value})
    build = text(fields, "application_version")
    moving = [build, versions, attributes, agent, options.environment]
    made = {
        "id": f"run:{_digest(moving)}",
        "at": utc(integer(fields, "created_at")),
        "kind": "run.started",
        "agent": agent or None,
        "build": build,
        "environment": options.environment or None,
        "name": name,
        "versions": versions or None,
        "in": _arguments(shown.value),
        "parent": run.parent,
        "attributes": attributes,
        **{k: text(fields, k) for k in _ABOUT},
    }
    return _line(run, row, f"workflow_status/{run.id}", made, shown)


def _arguments(value: Any) -> Any:
    if isinstance(value, Mapping) and value.keys() == {"positionalArgs", "namedArgs"}:
        return {"args": value["positionalArgs"], "kwargs": value["namedArgs"]}
    return value


def _digest(value: Any) -> str:
    """12 hex digits that stand for a value; values without a canonical form are taken by their text."""
    try:
        return wire.digest(value)[7:19]
    except wire.Ambiguous:
        return wire.digest_bytes(json.dumps(value, sort_keys=True).encode("ascii"))[7:19]


def _step(run: Run, row: Row, options: Options) -> Iterator[Line]:
    name, fields = name_of(row), row.fields
    record = f"{row.table}/{run.id}/{number_of(row)}"
    out, failed = _read(fields, "output"), _read(fields, "error")
    is_error = failed.value is not wire.MISSING
    told = is_error or "error" in fields or out.value not in (None, wire.MISSING)
    base = _placed(run, row)
    if name == "DBOS.sleep":
        yield from _timer(run, row, base, out, record)
        return
    made = {**base, **_kind(name, fields, is_error or not told, options)}
    if not told:
        made["error"] = {"message": "the export has neither output nor error: how it ended is not known"}
    elif is_error:
        made["error"] = error_of(failed)
        if nondeterministic(made["error"]):
            made["reason"] = "NonDeterministicReplay"
    else:
        made["out"] = out.value
    if made["kind"].startswith("model."):
        versions = step_versions_of(out.value)
        made |= said_by_model(out.value) | ({"versions": versions} if versions else {})
    yield _line(run, row, record, made, failed if is_error else out)


def _placed(run: Run, row: Row) -> dict[str, Any]:
    """Identity, position and times of a step's line. `at` is its end: DBOS writes the row then."""
    fields, step = row.fields, run.step_of(row)
    started, done = integer(fields, "started_at_epoch_ms"), integer(fields, "completed_at_epoch_ms")
    return {
        "id": f"{'step' if row.table != 'transaction_outputs' else 'transaction'}:{number_of(row)}",
        "seq": step,
        "at": utc(done if done is not None else integer(fields, "created_at")),
        "kind": "",
        "name": name_of(row) or None,
        "step": step,
        "started_at": utc(started),
    }


def _kind(name: str, fields: Fields, is_error: bool, options: Options) -> dict[str, Any]:
    ending = "error" if is_error else "result"
    child = text(fields, "child_workflow_id")
    if name == "DBOS.getResult":
        return {"kind": f"child.{ending}", "child": child}
    if name == "DBOS.recv":
        return {"kind": "signal.received"}
    if name.startswith("DBOS.patch-"):
        return {"kind": "version.marker", "name": name.removeprefix("DBOS.patch-")}
    if name.startswith("DBOS."):
        return {"kind": "value.result", "child": child}
    if child is not None:
        return {"kind": "child.error" if is_error else "child.started", "child": child}
    return {"kind": f"{kind_of(name)}.{ending}", "effect": effect_of(name)}


def _timer(run: Run, row: Row, base: dict[str, Any], out: Payload, record: str) -> Iterator[Line]:
    """A sleep's row is written before sleeping. One that only limits a receive names the step of that receive."""
    wake = wake_of(row)
    limit = limit_of(row)
    made = {
        **base,
        "kind": "timer.started",
        "at": base["started_at"] or base["at"],
        "until": utc_seconds(wake),
        "out": out.value,
        "limit_of": base["step"] - 1 if limit and base["step"] > 1 else None,
        "started_at": None,
    }
    yield _line(run, row, record, made, out)
    if wake is not None and _fired(run, row, wake, limit):
        fired = {
            "id": f"{base['id']}:fired",
            "at": utc_seconds(wake),
            "kind": "timer.fired",
            "name": "DBOS.sleep",
            "step": base["step"],
        }
        yield _line(run, row, record, fired)


def _fired(run: Run, row: Row, wake: Decimal, limit: bool) -> bool:
    """Whether the export proves that the timer fired: a later step of the run (of a limit: its receive) ended after the wake time."""
    number = number_of(row)
    for other in run.steps:
        far = number_of(other) == number - 1 and name_of(other) == "DBOS.recv" if limit else number_of(other) > number
        at = integer(other.fields, "completed_at_epoch_ms" if limit else "started_at_epoch_ms")
        if (
            far
            and name_of(other) != "DBOS.sleep"
            and ((at is None and not limit) or (at is not None and at >= int(wake * 1000)))
        ):
            return True
    return False


def _value_order(row: Row) -> tuple[int, int, str, int]:
    tables = ("workflow_events_history", "workflow_events", "streams")
    fields = row.fields
    return (
        tables.index(row.table),
        integer(fields, "function_id") or 0,
        text(fields, "key") or "",
        integer(fields, "offset") or 0,
    )


def _value(run: Run, row: Row, seen: dict[tuple[str, str], str]) -> Line | None:
    """A published value (event or stream item) as a note; the latest value of an event that its history has is not repeated."""
    fields, shown = row.fields, _read(row.fields, "value")
    key, number = text(fields, "key") or "", integer(fields, "function_id")
    if row.table == "streams":
        place, what = f"{key}/{integer(fields, 'offset')}", "stream"
    else:
        what, raw = "event", str(fields.get("value"))
        if row.table == "workflow_events" and seen.get((key, raw)):
            return None
        seen[(key, raw)] = "history"
        place = f"{key}/{number}" if row.table == "workflow_events_history" else f"{key}/{_digest(raw)}"
    made = {
        "id": f"{what}:{place}",
        "kind": "note",
        "name": f"{what}:{key}",
        "out": shown.value,
        "of_step": None if number is None else number - run.base + 1,
    }
    return _line(run, row, f"{row.table}/{run.id}/{place}", made, shown)


def given(row: Row) -> bool:
    """Whether a message was given and no receive has taken it. Layouts without the column delete a message when it is taken."""
    return not flag(row.fields, "consumed")


def _message(run: Run, row: Row) -> Line:
    """A message sent to the run. Taken later, it gets a second line, so that given and used both have their place."""
    fields, shown = row.fields, _read(row.fields, "message")
    sent = text(fields, "message_uuid") or _digest(
        [text(fields, "topic"), integer(fields, "created_at_epoch_ms"), str(fields.get("message"))]
    )
    taken_by = integer(fields, "consumed_by_function_id")
    made = {
        "id": f"message:{sent}{'' if given(row) else ':consumed'}",
        "at": utc(integer(fields, "created_at_epoch_ms")),
        "kind": "signal.received",
        "name": text(fields, "topic"),
        "call": sent,
        "out": shown.value,
        "outcome": "not_consumed" if given(row) else "consumed",
        "taken_by_step": None if taken_by is None else taken_by - run.base + 1,
    }
    return _line(run, row, f"notifications/{run.id}/{sent}", made, shown)


def _ended(run: Run, row: Row) -> Line:
    """The end that the status tells. A run can end again (resume, rewind): the id holds the time."""
    kind, at = ENDS[run.word], run.ended_ms()
    output, failed = _run_payload(run, "output"), _run_payload(run, "error")
    made: dict[str, Any] = {"id": f"end:{run.word}:{at}", "at": utc(at), "kind": kind, "name": text(row.fields, "name")}
    if kind == "run.failed":
        made["error"] = (
            error_of(failed) if failed.value is not wire.MISSING else {"message": "the error was not exported"}
        )
        if nondeterministic(made["error"]):
            made["reason"] = "NonDeterministicReplay"
    else:
        made["out"] = output.value
    apart = stored(run, "error" if kind == "run.failed" else "output")[1] and run.output
    table = "workflow_output" if apart else "workflow_status"
    return _line(
        run,
        run.output if apart and run.output else row,
        f"{table}/{run.id}",
        made,
        failed if kind == "run.failed" else output,
    )


def _state(run: Run, options: Options) -> Line:
    out = state_of(
        run,
        unused=[
            text(row.fields, "message_uuid") or text(row.fields, "topic") or "" for row in run.messages if given(row)
        ],
    )
    first = run.status or next(
        iter(run.steps or run.messages or run.values or [r for r in (run.input, run.output) if r])
    )
    made = {"id": f"state:{_digest(out)}", "at": out["as_of"], "kind": "note", "name": "runtime.state", "out": out}
    return _line(run, first, f"workflow_status/{run.id}", made)
