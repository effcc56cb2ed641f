"""Values of DBOS tables: times, numbers, flags, and payloads that are parsed as JSON or shown closed. Nothing is deserialised.

A payload is parsed only when its row says that it is JSON, or when its text cannot be base64 in a layout that has no such mark.
Everything else is shown as `{"opaque": <format>, "bytes": n, "sha256": <hex>}`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from drainboard import wire

Fields = Mapping[str, Any]

JSON_MARKS = frozenset({"portable_json"})
PICKLE_MARK = "py_pickle"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*")
_LAST_MS = 253_402_300_799_999  # the end of the year 9999


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


def integer(fields: Fields, name: str) -> int | None:
    """A whole number, however the export wrote it (number, text, 12.0); None when it is something else or too long."""
    got = fields.get(name)
    if isinstance(got, bool):
        return None
    if isinstance(got, int):
        return got
    if isinstance(got, float):
        return int(got) if got.is_integer() else None
    if isinstance(got, str) and re.fullmatch(r"-?[0-9]{1,18}", got):
        return int(got)
    return None


def text(fields: Fields, name: str) -> str | None:
    """A non-empty string, else None."""
    got = fields.get(name)
    return got if isinstance(got, str) and got else None


def flag(fields: Fields, name: str) -> bool:
    """A boolean, however the export wrote it (true, 1, t)."""
    got = fields.get(name)
    return got is True or got == 1 or (isinstance(got, str) and got.lower() in ("t", "true", "1"))


def utc(ms: int | None) -> str | None:
    """Epoch milliseconds as RFC 3339 UTC, exact, without trailing zeros; None when absent or beyond the year 9999."""
    if ms is None or not 0 <= ms <= _LAST_MS:
        return None
    return _stamp(Decimal(ms) / 1000)


def _stamp(seconds: Decimal) -> str:
    whole = int(seconds)
    fraction = f"{seconds - whole:f}"[1:].rstrip("0").rstrip(".")  # ".5", or "" for a whole second
    return f"{(_EPOCH + timedelta(seconds=whole)).isoformat()[:19]}{fraction}Z"


def seconds_of(value: Any) -> Decimal | None:
    """Epoch seconds as DBOS writes a wake time (JSON number); None when it is no time."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        got = Decimal(repr(value))
    except InvalidOperation:
        return None
    return got if got.is_finite() and 0 <= got * 1000 <= _LAST_MS else None


def utc_seconds(seconds: Decimal | None) -> str | None:
    """Epoch seconds as RFC 3339 UTC, to the digit that was recorded."""
    return None if seconds is None else _stamp(seconds)


def opaque(stored: str, *, form: str) -> dict[str, Any]:
    """The closed view of a stored value: its format, size and SHA-256; base64 pickles are measured as the bytes they hold."""
    data = _unbase64(stored) if form == "pickle" else None
    body = stored.encode("utf-8", "surrogatepass") if data is None else data
    return {"opaque": form, "bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}


def _unbase64(stored: str) -> bytes | None:
    try:
        return base64.b64decode(stored, validate=True)
    except (binascii.Error, ValueError):
        return None


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
    data = (_unbase64(value) or b"") if value.startswith("gA") else b""
    return data[:1] == b"\x80" and data[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05") and data.endswith(b".")


_HINTS = (
    "DBOSUnexpectedStepError",
    "DBOSMaxStepRetriesExceeded",
    "DBOSWorkflowCancelledError",
    "DBOSNonExistentWorkflowError",
)


def _hint(stored: str) -> str:
    """One of DBOS's own error class names, if its letters stand in the closed bytes. A sign, not a proof: nothing is opened."""
    data = _unbase64(stored[:65_536]) or b""
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
