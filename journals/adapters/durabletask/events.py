"""One shape for the history events of every form, and the runs that a file's answers are about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from drainboard import wire

from journals.adapters.durabletask.forms import Answer, Found, Record
from journals.adapters.durabletask.values import (
    failure_of,
    mapping_of,
    moment_key,
    newest,
    snake,
    stamp,
    status_word,
    trimmed,
)
from journals.adapters.values import Fields, integer, text

TYPES: Final = (
    "ExecutionStarted", "ExecutionCompleted", "ExecutionFailed", "ExecutionTerminated", "TaskScheduled", "TaskCompleted", "TaskFailed",
    "SubOrchestrationInstanceCreated", "SubOrchestrationInstanceCompleted", "SubOrchestrationInstanceFailed", "TimerCreated",
    "TimerFired", "OrchestratorStarted", "OrchestratorCompleted", "EventSent", "EventRaised", "ContinueAsNew", "GenericEvent",
    "HistoryState", "ExecutionSuspended", "ExecutionResumed", "ExecutionRewound",
)  # fmt: skip
"""Event types of DurableTask.Core by number, as its own JSON writes them."""

ACTIONS: Final = {"TaskScheduled": "task", "TimerCreated": "timer", "SubOrchestrationInstanceCreated": "child"}
ANSWERS: Final = {
    "TaskCompleted": ("task", True),
    "TaskFailed": ("task", False),
    "SubOrchestrationInstanceCompleted": ("child", True),
    "SubOrchestrationInstanceFailed": ("child", False),
    "TimerFired": ("timer", True),
}
"""Answers -> what they answer, and whether it is a result."""

_ABOUT: Final = frozenset(("event_id", "timestamp", "_timestamp", "event_type", "router"))


@dataclass(slots=True, eq=False)
class Event:
    """A history event, whatever the form it came in."""

    type: str
    at: str | None
    pointer: str
    path: str
    fields: Fields  # names in snake case
    odd: tuple[str, ...] = ()
    number: int | None = None  # the runtime's own, of what was scheduled
    ref: int | None = None  # the number of what an answer answers
    name: str | None = None
    input: Any = wire.MISSING
    result: Any = wire.MISSING
    error: dict[str, Any] | None = None
    until: str | None = None
    place: str = ""  # identity within a form without numbers


@dataclass(slots=True)
class Snapshot:
    """A run as one answer or table showed it."""

    form: str
    instance: str
    execution: str = ""
    path: str = ""
    pointer: str = ""
    state: Mapping[str, Any] | None = None
    events: list[Event] | None = None
    torn: bool = False
    lost: bool = False

    @property
    def run(self) -> str:
        return f"{self.instance}/{self.execution}" if self.execution else self.instance

    @property
    def numbered(self) -> bool:
        return self.form != "http"

    @property
    def word(self) -> str:
        """The status that the runtime states, in capitals; empty when it states none."""
        state = self.state or {}
        given = state.get("runtime_status", state.get("orchestration_status"))
        return status_word(given)

    @property
    def updated(self) -> str | None:
        state = self.state or {}
        names = (
            "last_updated_at",
            "last_updated_timestamp",
            "last_updated_time",
            "created_at",
            "created_timestamp",
            "created_time",
        )
        return newest([stamp(state.get(n)) for n in names])

    @property
    def as_of(self) -> str | None:
        """The newest time that the answer itself holds; the planned end of a timer is none."""
        return newest([self.updated, *(e.at for e in self.events or [])])

    @property
    def ended(self) -> Event | None:
        """The event that ends the history, unless it was rewound since."""
        for event in reversed(self.events or []):
            if event.type in ("ExecutionCompleted", "ExecutionFailed", "ContinueAsNew"):
                return event
            if event.type in ("ExecutionRewound", *ACTIONS):
                return None
        return None


def event_of(record: Record, form: str, path: str, payloads: Mapping[str, Fields]) -> Event:
    """The event that a record of this form holds."""
    fields, kind = record.fields, record.fields.get("event_type")
    if form == "grpc":
        body = next((k for k in fields if k not in _ABOUT), "")
        inner = fields.get(body)
        fields = {
            **(snake(inner) if isinstance(inner, Mapping) else {}),
            "timestamp": fields.get("timestamp"),
            "event_id": fields.get("event_id", 0),
        }
        kind = "".join(part.capitalize() for part in body.split("_"))
        if kind in ANSWERS:
            fields.setdefault("timer_id" if kind == "TimerFired" else "task_scheduled_id", 0)
    kind = (
        TYPES[kind]
        if isinstance(kind, int) and not isinstance(kind, bool) and 0 <= kind < len(TYPES)
        else str(kind or "")
    )
    kind = TYPES[int(kind)] if kind.isascii() and kind.isdigit() and int(kind[:4]) < len(TYPES) else kind
    kind = kind.removesuffix("Event") if kind not in TYPES else kind
    if form == "sql":
        fields = _sql(fields, kind, payloads)
    return _event(kind, fields, record, path)


def _event(kind: str, fields: Fields, record: Record, path: str) -> Event:
    failed = kind in ("TaskFailed", "SubOrchestrationInstanceFailed", "ExecutionCompleted", "ExecutionFailed")
    name = text(fields, "name") or text(fields, "function_name")
    made = Event(
        kind,
        stamp(fields.get("_timestamp") or fields.get("timestamp")),
        record.pointer,
        path,
        fields,
        record.odd,
        name=name,
    )
    made.number = (
        integer(fields, "event_id") if kind in ACTIONS or kind == "EventSent" or kind.startswith("Entity") else None
    )
    made.ref = integer(fields, "timer_id" if kind == "TimerFired" else "task_scheduled_id")
    made.input = fields.get("input", wire.MISSING)
    made.result = fields.get("result", wire.MISSING)
    for name, column in (("input", "input_blob_name"), ("result", "result_blob_name")):
        if blob := text(fields, column):  # Azure Storage keeps a large value apart and only its name in the row
            setattr(made, name, {"blob": blob})
            made.odd = (*made.odd, "opaque_payload")
    made.error = failure_of(fields) if failed else None
    made.until = stamp(fields.get("fire_at"))
    return made


def _sql(row: Fields, kind: str, payloads: Mapping[str, Fields]) -> dict[str, Any]:
    """A row of dt.History or dt.vHistory under the names of the events: one column holds input, result or failure."""
    fields = {k: v for k, v in row.items() if k not in ("task_id", "payload", "visible_time", "instance_id")}
    side = payloads.get(str(row.get("data_payload_id") or "").lower(), {})
    payload = row.get("payload", side.get("text"))
    fields["event_id" if kind in ACTIONS else "timer_id" if kind == "TimerFired" else "task_scheduled_id"] = row.get(
        "task_id"
    )
    fields["fire_at"] = row.get("visible_time")
    if kind.endswith("Failed") or (kind == "ExecutionCompleted" and row.get("runtime_status") == "Failed"):
        inside = mapping_of(payload)
        named = "ErrorType" in inside or "error_type" in inside
        return {
            **fields,
            **({"failure_details": inside} if named else {"reason": side.get("reason"), "details": payload}),
        }
    return {**fields, "result" if kind in ANSWERS or kind == "ExecutionCompleted" else "input": payload}


def unfolded(events: Sequence[Event]) -> list[Event]:
    """The events of an HTTP answer, in which a finished task holds what its start said: two events again, in order of time.

    Their places are made of name and time, which stay when a task finishes later.
    """
    made: list[Event] = []
    created = {e.until: e.at for e in events if e.type == "TimerCreated" and e.until}
    for event in events:
        if event.type not in ANSWERS:
            made.append(event)
            continue
        what, _ = ANSWERS[event.type]
        begun = stamp(event.fields.get("scheduled_time"))
        if what == "timer":
            begun = None if event.until in created else begun
            started = created.get(event.until or "", begun)
            event.place = _place("timer", "", event.until or started)
        else:
            event.place = _place(what, event.name, begun)
        if begun:
            action = next(k for k, v in ACTIONS.items() if v == what)
            made.append(Event(action, begun, f"{event.pointer}#scheduled", event.path, event.fields, (), name=event.name, input=event.input, until=event.until, place=event.place))  # fmt: skip
        made.append(event)
    for event in made:
        if event.type in ACTIONS and not event.place:
            what = ACTIONS[event.type]
            event.place = _place(what, event.name, event.until if what == "timer" else event.at)
    return _in_time(made)


def _place(what: str, name: str | None, at: str | None) -> str:
    return ":".join(part for part in (what, name or "") if part) + f"@{trimmed(at) if at else '?'}"


def _in_time(events: Sequence[Event]) -> list[Event]:
    """By time; an event without one stays behind its neighbour, and a start before the answer of the same moment."""
    keyed: list[tuple[tuple[float, str], int, str, int, Event]] = []
    last = (-1.0, "")
    for n, event in enumerate(events):
        last = moment_key(event.at) if event.at else last
        rank = 0 if event.type == "ExecutionStarted" else 1 if event.type in ACTIONS else 2
        tie = (
            f"{event.name or ''}{event.input if isinstance(event.input, str) else ''}" if event.type in ACTIONS else ""
        )
        keyed.append((last, rank, tie, n, event))
    keyed.sort(key=lambda k: k[:4])
    return [k[-1] for k in keyed]


@dataclass(slots=True)
class Rows:
    """Rows of tables about one execution of an instance."""

    records: list[tuple[str, Record]] = field(default_factory=list)  # path, row
    state: dict[str, Any] | None = None
    path: str = ""
    pointer: str = ""


def snapshots(found: Sequence[Found]) -> list[Snapshot]:
    """What the files hold, run by run, in the order of the files. Rows of tables are put together over all files."""
    made: list[Snapshot] = []
    rows: dict[tuple[str, str, str], Rows] = {}
    payloads = {k: v for f in found for k, v in f.payloads.items()}
    for one in found:
        for answer in one.answers:
            if answer.form in ("sql", "table"):
                _gather(rows, answer)
            else:
                made.append(_snapshot(answer))
    torn, lost = any(f.torn for f in found if f.rows), any(f.lost for f in found if f.rows)
    for (form, instance, execution), kept in rows.items():
        made.append(_of_rows(form, instance, execution, kept, payloads, torn=torn, lost=lost))
    return made


def _gather(rows: dict[tuple[str, str, str], Rows], answer: Answer) -> None:
    fields = answer.state or (answer.events or [Record({}, "")])[0].fields
    execution = text(fields, "execution_id") or ""
    kept = rows.setdefault((answer.form, answer.instance, execution), Rows(path=answer.path, pointer=answer.pointer))
    if answer.state is not None:
        kept.state = answer.state
    for record in answer.events or []:
        kept.records.append((answer.path, record))


def _of_rows(
    form: str, instance: str, execution: str, kept: Rows, payloads: Mapping[str, Fields], *, torn: bool, lost: bool
) -> Snapshot:
    keyed = sorted(((_position(r.fields), n, path, r) for n, (path, r) in enumerate(kept.records)), key=lambda k: k[:2])
    state = dict(kept.state) if kept.state is not None else None
    for column, name in (
        ("input_payload_id", "input_text"),
        ("output_payload_id", "output_text"),
        ("custom_status_payload_id", "custom_status_text"),
    ):
        if state is not None and name not in state and (row := payloads.get(str(state.get(column) or "").lower())):
            state[name] = row.get("text")
    events = [event_of(r, form, path, payloads) for _, _, path, r in keyed] if keyed else None
    gaps = [k[0] for k in keyed] != list(range(len(keyed)))
    made = Snapshot(
        form, instance, execution, kept.path, kept.pointer, state, events, torn, lost or bool(keyed and gaps)
    )
    if any(e.type == "ExecutionRewound" for e in events or []):
        made.execution = ""
    return made


def _position(row: Fields) -> int:
    """SequenceNumber, or the row key, which is a hexadecimal position."""
    if (number := integer(row, "sequence_number")) is not None:
        return number
    try:
        return int(str(row.get("row_key") or ""), 16)
    except ValueError:
        return 1 << 62


def _snapshot(answer: Answer) -> Snapshot:
    state = answer.state or {}
    events = None if answer.events is None else [event_of(r, answer.form, answer.path, {}) for r in answer.events]
    started = next((e for e in events or [] if e.type == "ExecutionStarted"), None)
    own = mapping_of(started.fields.get("orchestration_instance")) if started else {}
    own = snake(own)
    instance = answer.instance or text(state, "instance_id") or text(own, "instance_id") or ""
    execution = text(own, "execution_id") or text(state, "execution_id") or ""
    generation = integer(started.fields, "generation") if started else None
    if not execution and generation:
        execution = f"generation-{generation}"  # instances that went on as new, where nothing else tells them apart
    if any(e.type == "ExecutionRewound" for e in events or []):
        execution = ""  # a rewind gives the same run a new execution id
    form = answer.form if events is not None else "status"
    if form == "http" and events is not None:
        events = unfolded(events)
    return Snapshot(
        form, instance, execution, answer.path, answer.pointer, answer.state, events, answer.torn, answer.lost
    )
