"""One row of Restate's sys_journal, freed from the form that it was written in. Pure.

Ids and names come from `entry_lite_json`, else `raw`, else `entry_json`; payloads from `raw` (hex of the service protocol's
protobuf), else `entry_json`, where they are arrays of byte numbers. Of journal version 1 only the columns are read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from drainboard import wire

from journals.adapters.protobuf import MalformedProtobuf, Message
from journals.adapters.restate.rows import Row
from journals.adapters.values import flag, integer, text

CANCEL: Final = 1  # the signal that Restate sends to cancel
AWAKEABLES: Final = 17  # the first signal index that an awakeable has

_PAYLOAD: Final = {
    "Input": 14, "Output": 14, "Call": 3, "OneWayCall": 3, "SetState": 3, "GetEagerState": 14, "CompletePromise": 2,
    "CompleteAwakeable": 2, "SendSignal": 5, "GetEagerStateKeys": 14,
}  # fmt: skip
_FAILURE: Final = {"Output": 15, "CompletePromise": 3, "CompleteAwakeable": 3, "SendSignal": 6}
_BARE: Final = frozenset(("Call", "OneWayCall"))  # their payload is the bytes themselves, not a message around them
_KEYED: Final = frozenset(
    (
        "SetState",
        "GetState",
        "ClearState",
        "GetEagerState",
        "GetLazyState",
        "GetPromise",
        "PeekPromise",
        "CompletePromise",
    )
)


@dataclass(slots=True)
class Entry:
    """One command or notification."""

    row: Row
    index: int
    type: str  # Run, Sleep, Call, …
    notification: bool
    at: str | None
    v1: bool = False
    name: str = ""
    completion: int | None = None  # id that its notification carries; of a call, the id of its result
    given: int | None = None  # of a call: the id of the notification with the invocation's id
    signal: int | str | None = None
    value: Any = wire.MISSING
    closed: bool = False  # the value is bytes that are no text
    failure: Mapping[str, Any] | None = None  # {code, message}
    void: bool = False
    word: str = ""  # Success or Failure, where only that is told
    wake_ms: int | None = None
    key: str = ""  # of a promise or a state
    service: str = ""
    handler: str = ""
    object_key: str = ""
    idempotency_key: str = ""
    child: str = ""
    unread: str = ""  # why its bytes were not taken apart
    done: bool = False  # version 1: the row itself says that it is completed
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def command(self) -> bool:
        return not self.notification

    @property
    def target(self) -> str:
        return "/".join(part for part in (self.service, self.object_key, self.handler) if part)


def entry_of(row: Row) -> Entry:
    """The entry of one row; never raises."""
    fields = row.fields
    word = text(fields, "entry_type") or ""
    side, _, kind = word.partition(": ")
    made = Entry(
        row,
        integer(fields, "index") or 0,
        kind or side,
        side == "Notification",
        text(fields, "appended_at"),
        v1=not kind,
        name=text(fields, "name") or "",
    )
    _from_lite(made, _json(fields.get("entry_lite_json")))
    _from_raw(made, fields.get("raw"))
    if made.unread or not fields.get("raw"):
        _from_json(made, _json(fields.get("entry_json")))
    _from_columns(made)
    _not_exported(made)
    return made


def _not_exported(e: Entry) -> None:
    """An answer without its content (columns left out, or bytes that cannot be taken apart) is no success unless it says so."""
    seen = e.row.fields.get("raw") and not e.unread
    if seen or e.failure is not None or e.value is not wire.MISSING or e.void:
        return
    if e.word == "Failure":
        e.failure = {"message": "the failure itself is not in the export"}
    elif (
        not e.word
        and e.type in ("Run", "SideEffect", "Call")
        and (e.notification or (e.v1 and e.type != "Call") or e.done)
    ):
        e.failure = {"message": "whether it succeeded or failed is not in the export"}


def payload(data: bytes) -> tuple[Any, bool]:
    """Bytes as JSON if they parse, as text if they are UTF-8, else closed; and whether they stay closed. No bytes are None."""
    if not data:
        return None, False
    try:
        value, odd = wire.decode(data)
        wire.encode(value)
        if not odd:
            return value, False
    except (wire.MalformedLine, wire.Ambiguous, RecursionError):
        pass
    try:
        return data.decode("utf-8"), False
    except UnicodeDecodeError:
        return {"opaque": "bytes", "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}, True


def _json(text_of: Any) -> Mapping[str, Any]:
    if isinstance(text_of, str):
        try:
            text_of = json.loads(text_of)
        except (ValueError, RecursionError):
            return {}
    return text_of if isinstance(text_of, Mapping) else {}


def _inner(found: Any, *names: str) -> Mapping[str, Any]:
    for name in names:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _from_lite(e: Entry, lite: Mapping[str, Any]) -> None:
    if e.notification:
        told = _inner(lite, "Notification")
        ids = _inner(told, "id") or _inner(told, e.type)  # the older form names the completion below the type
        e.completion = _first(ids, "CompletionId", "completion_id")
        name = ids.get("SignalName")
        e.signal = name if isinstance(name, str) else integer(ids, "SignalIndex")
        e.void, e.word = told.get("result") == "Void", text(told, "result") or text(ids, "result") or ""
        return
    told = _inner(lite, "Command", e.type)
    e.completion = _first(told, "result_completion_id", "completion_id")
    e.given = integer(told, "invocation_id_completion_id")
    e.name = e.name or text(told, "name") or ""
    e.wake_ms = _first(told, "wake_up_time", "invoke_time")
    e.key = text(told, "key") or ""
    e.child = text(told, "invocation_id") or ""
    _target(e, _inner(told, "invocation_target"))


def _target(e: Entry, target: Mapping[str, Any]) -> None:
    for found in target.values():
        if isinstance(found, Mapping):
            e.service, e.handler = text(found, "name") or "", text(found, "handler") or ""
            e.object_key = text(found, "key") or ""


def _first(fields: Mapping[str, Any], *names: str) -> int | None:
    return next((n for name in names if (n := integer(fields, name)) is not None), None)


def _from_raw(e: Entry, raw: Any) -> None:
    if not isinstance(raw, str) or not raw:
        return
    try:
        message = Message(bytes.fromhex(raw))
        if e.v1:
            _old_raw(e, message)
        elif e.notification:
            _notification(e, message)
        else:
            _command(e, message)
    except ValueError as problem:  # MalformedProtobuf is one
        said = str(problem) if isinstance(problem, MalformedProtobuf) else "raw is no hex"
        e.unread = said


def _notification(e: Entry, message: Message) -> None:
    e.completion = e.completion if e.completion is not None else message.number(1)
    if e.signal is None:
        e.signal = message.text(3) or message.number(2)
    e.void = e.void or 4 in message.fields
    _value(e, message, 5)
    _failure(e, message, 6)
    e.child = e.child or message.text(16) or ""


def _command(e: Entry, message: Message) -> None:
    kind = e.type
    e.name = e.name or message.text(12) or ""
    if kind in _PAYLOAD:
        _value(e, message, _PAYLOAD[kind], bare=kind in _BARE)
    if kind in _FAILURE:
        _failure(e, message, _FAILURE[kind])
    if kind in ("Call", "OneWayCall"):
        e.service, e.handler = e.service or message.text(1) or "", e.handler or message.text(2) or ""
        e.object_key = e.object_key or message.text(5 if kind == "Call" else 6) or ""
        e.idempotency_key = message.text(6 if kind == "Call" else 7) or ""
        e.given = e.given if e.given is not None else message.number(10)
    if kind == "Sleep" and e.wake_ms is None:
        e.wake_ms = message.number(1)
    if kind == "OneWayCall" and e.wake_ms is None:
        e.wake_ms = message.number(4)
    if kind in _KEYED:
        e.key = e.key or message.text(1) or ""
    if e.completion is None and kind not in ("Input", "Output", "SetState", "OneWayCall"):
        e.completion = message.number(11)
    if kind in ("CompleteAwakeable", "SendSignal"):
        e.extra["to"] = message.text(1)


def _old_raw(e: Entry, message: Message) -> None:
    """Journal version 1: a result stands in the entry itself."""
    _value(e, message, 14)
    _failure(e, message, 15)
    e.done = e.done or 14 in message.fields or 15 in message.fields
    if e.type == "Sleep" and e.wake_ms is None:
        e.wake_ms = message.number(1)


def _value(e: Entry, message: Message, at: int, *, bare: bool = False) -> None:
    data = message.data(at)
    if data is None:
        return
    if not bare:
        data = Message(data).data(1) or b""
    e.value, e.closed = payload(data)


def _failure(e: Entry, message: Message, at: int) -> None:
    told = message.message(at)
    if told is not None:
        e.failure = {"code": told.number(1), "message": told.text(2) or ""}


def _from_json(e: Entry, whole: Mapping[str, Any]) -> None:
    """What only `entry_json` has: results, when `raw` was not exported."""
    told = _inner(whole, "Notification" if e.notification else "Command")
    if e.notification:
        told = _inner(told, "Completion", e.type) or _inner(told, e.type)
        e.completion = e.completion if e.completion is not None else integer(told, "completion_id")
        if e.signal is None:
            ids = _inner(told, "id")
            name = ids.get("Name")
            e.signal = name if isinstance(name, str) else integer(ids, "Index")
    else:
        told = _inner(told, e.type)
        e.completion = e.completion if e.completion is not None else _first(told, "completion_id")
    e.child = e.child or text(told, "invocation_id") or ""
    if e.value is not wire.MISSING or e.failure is not None:
        return
    result = told.get("result", told.get("value", told.get("payload")))
    failed = _inner(result, "Failure")
    if failed:
        e.failure = {"code": integer(failed, "code"), "message": text(failed, "message") or ""}
    elif result == "Void":
        e.void = True
    else:
        numbers = result.get("Success") if isinstance(result, Mapping) else result
        if isinstance(numbers, list) and all(isinstance(n, int) and 0 <= n < 256 for n in numbers):
            e.value, e.closed = payload(bytes(numbers))


def _from_columns(e: Entry) -> None:
    fields = e.row.fields
    e.child = e.child or text(fields, "invoked_id") or ""
    e.key = e.key or text(fields, "promise_name") or ""
    if e.v1:
        e.done = e.done or flag(fields, "completed")
        e.completion = e.index
        if not e.service:
            e.service = text(fields, "invoked_target") or ""
    elif e.signal is None and e.notification and e.type == "Signal":
        e.unread = e.unread or "the signal has neither an index nor a name"
