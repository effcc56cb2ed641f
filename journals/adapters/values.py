"""Values as exports write them: numbers, flags, times, and the closed view of what is not opened. Pure."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

Fields = Mapping[str, Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MS = 253_402_300_799_999  # the end of the year 9999


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


def compact(numbers: Iterable[int]) -> str:
    """Whole numbers as ascending ranges: `1-16,18`; empty for none."""
    made: list[list[int]] = []
    for number in sorted(set(numbers)):
        if made and number == made[-1][1] + 1:
            made[-1][1] = number
        else:
            made.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in made)


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
    """Epoch seconds as a JSON number; None when it is no time."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        got = Decimal(repr(value))
    except InvalidOperation:
        return None
    return got if got.is_finite() and 0 <= got * 1000 <= _LAST_MS else None


def utc_seconds(seconds: Decimal | None) -> str | None:
    """Epoch seconds as RFC 3339 UTC, to the digit that was recorded; None when absent or beyond the year 9999."""
    return _stamp(seconds) if seconds is not None and 0 <= seconds * 1000 <= _LAST_MS else None


def opaque(stored: str, *, form: str) -> dict[str, Any]:
    """The closed view of a stored value: its format, size and SHA-256; base64 pickles are measured as the bytes they hold."""
    data = unbase64(stored) if form == "pickle" else None
    body = stored.encode("utf-8", "surrogatepass") if data is None else data
    return {"opaque": form, "bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}


def unbase64(stored: str) -> bytes | None:
    """The bytes of strict base64, else None."""
    try:
        return base64.b64decode(stored, validate=True)
    except (binascii.Error, ValueError):
        return None


def utc_nanos(nanos: int | None) -> str | None:
    """Epoch nanoseconds as RFC 3339 UTC, exact; None when absent, not after 1970, or beyond the year 9999."""
    if nanos is None or not 0 < nanos <= _LAST_MS * 1_000_000:
        return None
    return _stamp(Decimal(nanos) / 1_000_000_000)
