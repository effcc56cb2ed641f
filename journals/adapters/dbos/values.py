"""Values of DBOS tables: times, numbers, flags, and payloads that are parsed as JSON or shown closed. Nothing is deserialised.

A payload is parsed only when its row says that it is JSON, or when its text cannot be base64 in a layout that has no such mark.
Everything else is shown as `{"opaque": <format>, "bytes": n, "sha256": <hex>}`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drainboard import wire

from journals.adapters.values import opaque, unbase64

JSON_MARKS = frozenset({"portable_json"})
PICKLE_MARK = "py_pickle"
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A value that the runtime's own command line has already decoded; plain JSON."""

    value: Any


@dataclass(frozen=True, slots=True)
class Payload:
    """What an entry shows of a stored value. `value` is `wire.MISSING` where the column is empty."""

    value: Any = wire.MISSING
    opaque: bool = False
    hint: str = ""  # an error class that is named inside closed bytes


def payload(stored: Any, *, mark: str | None, marked: bool) -> Payload:
    """What may be shown of one column.

    `mark` is the row's own word for its encoding; `marked` says whether this layout has such a column at all (it came with
    DBOS 2.20). Without the column, text that has a character outside base64 is the JSON text of DBOS 1.x; text that could be
    base64 stays closed: it is not tried.
    """
    if stored is None:
        return Payload()
    if isinstance(stored, Loaded):
        return _loaded(stored.value)
    if not isinstance(stored, str):
        return Payload(stored)
    if mark in JSON_MARKS or (not marked and mark is None and not _BASE64.fullmatch(stored)):
        return _json(stored)
    form = "pickle" if mark in (None, PICKLE_MARK) else str(mark)
    return Payload(opaque(stored, form=form), True, _hint(stored))


def _json(stored: str) -> Payload:
    try:
        value, odd = wire.decode(stored.encode("utf-8"))
    except (wire.MalformedLine, UnicodeEncodeError):
        return Payload(opaque(stored, form="broken json"), True)
    if value is wire.MISSING or "non_standard_json" in odd:
        return Payload(opaque(stored, form="json, too deep" if value is wire.MISSING else "json with NaN"), True)
    return Payload(value)


def _loaded(value: Any) -> Payload:
    """A value out of DBOS's own tools; classes that they could not import come back as the raw base64 text."""
    if value is None:
        return Payload()
    if isinstance(value, str) and looks_pickled(value):
        return Payload(opaque(value, form="pickle"), True, _hint(value))
    return Payload(value)


def looks_pickled(value: str) -> bool:
    """Base64 whose bytes have the frame of a pickle, protocol 2 to 5. Only first and last bytes are looked at."""
    data = (unbase64(value) or b"") if value.startswith("gA") else b""
    return data[:1] == b"\x80" and data[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05") and data.endswith(b".")


_HINTS = (
    "DBOSUnexpectedStepError",
    "DBOSMaxStepRetriesExceeded",
    "DBOSWorkflowCancelledError",
    "DBOSNonExistentWorkflowError",
)


def _hint(stored: str) -> str:
    """One of DBOS's own error class names, if its letters stand in the closed bytes. A sign, not a proof: nothing is opened."""
    data = unbase64(stored[:65_536]) or b""
    return next((name for name in _HINTS if name.encode() in data), "")


def error_of(shown: Payload) -> dict[str, Any]:
    """A recorded error in the journal's shape; closed bytes say so instead of a message."""
    value = shown.value
    if shown.opaque:
        message = f"error recorded as {value['opaque']}, {value['bytes']} bytes, not opened"
        return {**({"type": shown.hint} if shown.hint else {}), "message": message, **value}
    if isinstance(value, Mapping):
        said, word = value.get("message"), "type" if value.get("type") is not None else "name"
        message = wire.encode(value).decode() if said is None else said
        typed = {"type": value[word]} if value.get(word) is not None else {}
        return {**typed, "message": message, **{k: v for k, v in value.items() if k not in (word, "message")}}
    said = value if isinstance(value, str) else wire.encode(value).decode("utf-8")
    return {**({"type": "DBOSUnexpectedStepError"} if said.startswith("DBOS Error 11:") else {}), "message": said}


def nondeterministic(error: Mapping[str, Any]) -> bool:
    """Whether an error says that the code asked for another step than the recorded one."""
    return str(error.get("type", "")) in ("DBOSUnexpectedStepError", "UnexpectedStep", "DBOSUnexpectedStep")
