"""What a JSON object in an export is, by the names of its members: an event, a row, an answer, or a wrapper around them."""

from __future__ import annotations

from typing import Any, Final

from journals.adapters.jsonscan import Value

_KEYS: Final = 60  # members of an object that are looked at to tell what it is
_ROW: Final = frozenset(("eventtype", "runtimestatus", "payloadid", "text"))
_BODIES: Final = frozenset(
    (
        "taskScheduled", "timerCreated", "taskCompleted", "executionStarted", "subOrchestrationInstanceCreated", "eventSent",
        "entityOperationCalled", "entityOperationSignaled", "entityLockRequested",
    )
)  # fmt: skip
"""Messages of the protocol that may stand beside no `eventId`, because the number 0 is left out."""


def names_of(value: Value) -> frozenset[str]:
    """The names of an object's first members; empty for everything else."""
    return frozenset(name for _, (name, _) in zip(range(_KEYS), value.members(), strict=False))


def shape_of(value: Value) -> str:
    """`event`, `row`, `export`, `header` (of an export in lines), `http`, `state`, `bare state`, `metadata`; empty for a wrapper."""
    names = names_of(value)
    if not names:
        return ""
    return _row(names) or _answer(names, value) or _event(names)


def _row(names: frozenset[str]) -> str:
    lower = {name.replace("_", "").lower() for name in names}
    if (
        {"partitionkey", "rowkey"} <= lower
        or "payloadid" in lower
        or ({"instanceid", "taskhub"} <= lower and lower & _ROW)
    ):
        return "row"
    if {"instanceid", "executionid"} <= lower and (
        {"sequencenumber", "eventtype"} <= lower or {"InstanceID", "RuntimeStatus"} <= names
    ):
        return "row"
    return ""


def _answer(names: frozenset[str], value: Value) -> str:
    if "events" in names and (names & {"instance_id", "schema_version", "metadata"} or _holds_events(value)):
        return "export"
    if {"schema_version", "instance_id"} <= names:
        return "header"
    if "historyEvents" in names or {"instanceId", "runtimeStatus"} <= names:
        return "http"
    if "orchestrationState" in names:
        return "state"
    if "instanceId" in names and names & {"orchestrationStatus", "createdTimestamp", "lastUpdatedTimestamp"}:
        return "bare state"
    return "metadata" if {"instance_id", "runtime_status"} <= names else ""


def _event(names: frozenset[str]) -> str:
    if "event_type" in names or {"EventType", "Timestamp"} <= names or {"eventId", "timestamp"} <= names:
        return "event"
    return "event" if "timestamp" in names and len(names) == 2 and names & _BODIES else ""


def _holds_events(value: Value) -> bool:
    events = value.get("events")
    first = next(events.elements(), None) if events is not None else None
    return first is not None and shape_of(first) == "event"


def form_of(fields: dict[str, Any]) -> str:
    """The form of an event by its fields in snake case: `export`, `grpc`, `table` or `http`."""
    kind = fields.get("event_type")
    if isinstance(kind, str) and kind.endswith("Event"):
        return "export"
    if kind is None:
        return "grpc"
    return "table" if "event_id" in fields else "http"


def is_start(fields: dict[str, Any]) -> bool:
    """Whether an event is the first of its history."""
    return "execution_started" in fields or str(fields.get("event_type")) in (
        "ExecutionStartedEvent",
        "ExecutionStarted",
        "0",
    )
