"""Values of Durable Task records: names of fields, times, stored payloads, failures, statuses. Nothing is deserialised.

Payloads are JSON inside strings. Text that is no JSON stays text; what standard JSON does not have (NaN) or is too deep stays
text too and says so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from drainboard import wire

from journals.adapters.values import Fields, text

STATUSES: Final = {
    "RUNNING": "running",
    "PENDING": "running",
    "COMPLETED": "completed",
    "FAILED": "failed",
    "CANCELED": "cancelled",
    "TERMINATED": "stopped",
    "SUSPENDED": "held",
    "CONTINUED_AS_NEW": "continued",
}
"""The runtime's status in capitals -> the journal's."""

OVER: Final = frozenset(("completed", "failed", "cancelled", "stopped", "continued"))

_NUMBERED: Final = (
    "RUNNING",
    "COMPLETED",
    "CONTINUED_AS_NEW",
    "FAILED",
    "CANCELED",
    "TERMINATED",
    "PENDING",
    "SUSPENDED",
)
"""OrchestrationStatus of the protocol and of DurableTask.Core, by number."""

_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_TIME: Final = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}:\d{2})(?:\.(\d{1,12}))?(Z|z|[+-]\d{2}:?\d{2})?", re.ASCII
)
_UNSET: Final = re.compile(r"1970-01-01[Tt ]00:00:00(?:\.0+)?(?:Z|z|[+-]00:?00)?")
_DIVERGED: Final = re.compile(r"non.?determini|history.?mismatch|version.?mismatch", re.IGNORECASE)
_BLOB: Final = "blob:v1:"  # the SDKs' reference to a payload in a blob store


def snake(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The same fields under names with underscores: `EventId`, `eventId` and `event_id` are one."""
    return {_HUMP.sub("_", name).lower(): value for name, value in fields.items()}


def stored(value: Any, *, structured: bool = False) -> tuple[Any, tuple[str, ...]]:
    """What an entry shows of a stored payload, and its oddities; `wire.MISSING` for none.

    `structured`: the form has decoded values already, so only text of an object or list is taken for JSON.
    """
    if value is None or value is wire.MISSING:
        return wire.MISSING, ()
    if not isinstance(value, str):
        return value, ()
    if value.startswith(_BLOB):
        return value, ("opaque_payload",)
    if structured and value.lstrip()[:1] not in ("{", "["):
        return value, ()
    try:
        decoded, odd = wire.decode(value.encode("utf-8"))
    except (wire.MalformedLine, UnicodeEncodeError):
        return value, ()
    if odd or decoded is wire.MISSING:
        return value, ("too_deep" if "too_deep" in odd else "non_standard_json",)
    return decoded, ()


def encodable(value: Any) -> Any:
    """The value itself when it is standard JSON, else its JSON text (NaN)."""
    try:
        wire.encode(value)
    except wire.Ambiguous:
        return json.dumps(value)
    return value


def stamp(given: Any) -> str | None:
    """A recorded time as RFC 3339 with its digits; UTC where the record has no zone. None for what is no time, and for
    1970-01-01T00:00:00, which the protocol writes for none."""
    found = _TIME.fullmatch(given.strip()) if isinstance(given, str) else None
    if found is None:
        return None
    day, clock, digits, zone = found.groups()
    if is_unset(given):
        return None
    if zone and zone.lstrip("+-").replace(":", "") == "0000" and digits and len(digits) == 6 and digits.endswith("000"):
        digits = digits[:3].rstrip() if digits != "000000" else ""  # the protocol's JSON has 0, 3, 6 or 9 digits
    zone = "Z" if zone is None or zone in ("z", "Z") or zone.strip("+-").replace(":", "") == "0000" else zone
    zone = zone if zone == "Z" or ":" in zone else f"{zone[:3]}:{zone[3:]}"
    try:
        datetime.fromisoformat(f"{day}T{clock}{zone.replace('Z', '+00:00')}").astimezone(UTC)
    except (ValueError, OverflowError):  # no such day, hour or zone
        return None
    return f"{day}T{clock}{f'.{digits}' if digits else ''}{zone}"


def is_unset(given: Any) -> bool:
    """Whether a time is the one that the protocol writes for none."""
    return isinstance(given, str) and bool(_UNSET.fullmatch(given.strip()))


def moment_key(at: str | None) -> tuple[float, str]:
    """Sorts times of `stamp` exactly: whole seconds, then digits. A missing time sorts first."""
    found = _TIME.fullmatch(at) if at else None
    if found is None:
        return -1.0, ""
    whole = datetime.fromisoformat(f"{found[1]}T{found[2]}{(found[4] or 'Z').replace('Z', '+00:00')}")
    return whole.astimezone(UTC).timestamp(), (found[3] or "").ljust(12, "0")


def newest(times: list[str | None]) -> str | None:
    """The latest of these times, as it was written."""
    return max((at for at in times if at), key=moment_key, default=None)


def trimmed(at: str) -> str:
    """A time without closing zeros, so that two spellings of one moment are one name."""
    found = _TIME.fullmatch(at)
    if found is None or found[4] not in (None, "Z"):
        return at
    digits = (found[3] or "").rstrip("0")
    return f"{found[1]}T{found[2]}{f'.{digits}' if digits else ''}Z"


def status_word(given: Any) -> str:
    """The runtime's status in capitals, from a number or any of its spellings; the text itself when it is none of them."""
    if isinstance(given, int) and not isinstance(given, bool):
        return _NUMBERED[given] if 0 <= given < len(_NUMBERED) else str(given)
    if not isinstance(given, str) or not given:
        return ""
    if given.isascii() and given.isdigit():
        return status_word(int(given[:3]))
    word = given.removeprefix("ORCHESTRATION_STATUS_")
    return word if word.isupper() else _HUMP.sub("_", word).upper()


def mapping_of(value: Any) -> Mapping[str, Any]:
    """An object, or the object in JSON text; else empty."""
    found = stored(value)[0] if isinstance(value, str) else value
    return found if isinstance(found, Mapping) else {}


def failure_of(fields: Fields) -> dict[str, Any] | None:
    """A recorded failure in the journal's shape: from `failure_details`, else from `reason` and `details`; None for neither."""
    details = mapping_of(fields.get("failure_details"))
    if details:
        return _failure(details, 8)
    reason, more = fields.get("reason"), fields.get("details")
    inside = mapping_of(more)
    if {"ErrorType", "error_type", "errorType"} & inside.keys():
        return _failure(inside, 8)
    if reason is None and more is None:
        return None
    made: dict[str, Any] = {"message": reason if reason is not None else more}
    return made if reason is None or more is None else {**made, "details": more}


def _failure(details: Mapping[str, Any], levels: int) -> dict[str, Any]:
    fields = snake(details)
    message = fields.get("error_message") if fields.get("error_message") is not None else fields.get("message")
    made: dict[str, Any] = {"type": text(fields, "error_type"), "message": message}
    made["retryable"] = False if fields.get("is_non_retriable") is True else None
    inner = mapping_of(fields.get("inner_failure"))
    if inner and levels:
        made["cause"] = _failure(inner, levels - 1)
    made["stack_trace"] = text(fields, "stack_trace")
    return {k: v for k, v in made.items() if v is not None}


def diverged(error: Mapping[str, Any] | None) -> bool:
    """Whether a failure says that the code, or its version, does not fit the recorded history."""
    return bool(error) and bool(
        _DIVERGED.search(" ".join(str((error or {}).get(k) or "") for k in ("type", "message")))
    )


_DIFFERS: Final = (
    re.compile(
        r"sequence (?:number|ID) (\d+)\s+(?:was|named|and name)\s+'([^']*)'.*?(?:scheduled|named)\s+'([^']*)'",
        re.DOTALL,
    ),
    re.compile(r"sequence (?:number|ID) (\d+)\s+(?:was|named|and name)\s+'([^']*)'()", re.DOTALL),
)
_DIFFERS_PYTHON: Final = re.compile(
    r"with name='([^']*)' and sequence number (\d+), .*?trying to call (.+?) as part", re.DOTALL
)


def difference(message: Any) -> tuple[int, str, str] | None:
    """The runtime's own number, the recorded name and the name that the replay asked for, out of the runtimes' sentences."""
    said = message[:4_000] if isinstance(message, str) else ""
    if found := _DIFFERS_PYTHON.search(said):
        return int(found[2][:9]), found[1], found[3]
    for pattern in _DIFFERS:
        if found := pattern.search(said):
            return int(found[1][:9]), found[2], found[3]
    return None
