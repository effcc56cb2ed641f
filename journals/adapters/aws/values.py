"""Values of AWS Lambda durable executions: times in three spellings, payloads, and errors. Nothing is turned into an object.

The Python SDK writes a result that is no plain scalar as type-tagged JSON, `{"t": "m", "v": {"total": {"t": "f", "v": 42.5}}}`
(serdes.py of aws-durable-execution-sdk-python 3.0.0). The tags are taken off here; where that loses a type, the payload's own
text is kept beside it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from drainboard import wire

from journals.adapters.values import seconds_of, utc_seconds

_ISO: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,30}))? ?(Z|[+-]\d\d:?\d\d)", re.IGNORECASE | re.ASCII
)
_PLAIN: Final[Mapping[str, type | tuple[type, ...]]] = {
    "s": str,
    "i": int,
    "f": (int, float),
    "b": bool,
    "n": type(None),
}
_TYPED: Final = frozenset(("B", "u", "d", "dt", "D"))
"""Tags whose value is text that stands for bytes (base64), a UUID, a decimal, a time and a date."""
_LISTS: Final = frozenset(("l", "t"))
_MAPS: Final = frozenset(("m", "br"))
_KNOWN: Final = frozenset((*_PLAIN, *_TYPED, *_LISTS, *_MAPS))
_LOSES: Final = frozenset((*_TYPED, "t", "br"))
"""Tags that say something which plain JSON does not."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What a line shows of a payload. `raw` is the payload's text where the shown value says less than it."""

    value: Any = wire.MISSING
    raw: str | None = None
    cut: bool = False
    oddities: tuple[str, ...] = ()


def utc(value: Any) -> str | None:
    """A time as RFC 3339 UTC to the digit recorded, so that every form gives the same text; None for what is none.

    REST gives epoch seconds as a number, the `aws` command line ISO 8601 with an offset, a dump of boto3's answer
    `2026-11-29 12:47:29.686000+00:00`. A time without an offset is not taken: nobody says where its clock stood.
    """
    if not isinstance(value, str):
        return utc_seconds(seconds_of(value))
    found = _ISO.fullmatch(value)
    if found is None:
        return None
    try:
        moment = datetime.fromisoformat(f"{found[1]}T{found[2]}{found[4].upper().replace('Z', '+00:00')}")
        seconds = Decimal(int(moment.timestamp()))
    except (ValueError, OverflowError):
        return None
    return utc_seconds(seconds + Decimal(f"0.{found[3] or 0}")) if seconds >= 0 else None


def later(at: str | None, seconds: Any) -> str | None:
    """The time `seconds` after `at` (as `utc` gives it); None when either is not told."""
    if at is None or isinstance(seconds, bool) or not isinstance(seconds, int) or not 0 <= seconds < 10**10:
        return None
    whole, _, digits = at.removesuffix("Z").partition(".")
    begun = Decimal(int(datetime.fromisoformat(whole + "+00:00").timestamp())) + Decimal(f"0.{digits or 0}")
    made = begun + seconds
    return utc_seconds(made) if made < Decimal(253_402_300_799) else None


def payload_of(holder: Any) -> Shown:
    """What stands in `{"Payload": …, "Truncated": …}`; nothing where the data was not exported."""
    if not isinstance(holder, Mapping) or holder.get("Payload") is None:
        cut = isinstance(holder, Mapping) and holder.get("Truncated") is True
        return Shown({"truncated": True, "payload": None}, cut=True) if cut else Shown()
    payload = holder["Payload"]
    if holder.get("Truncated") is True:
        return Shown({"truncated": True, "payload": payload}, cut=True)
    return text_of(payload) if isinstance(payload, str) else Shown(payload)


def text_of(payload: str) -> Shown:
    """A payload's text as a value: JSON as JSON, with the SDK's type tags taken off; anything else stays text."""
    try:
        value, odd = wire.decode(payload.encode("utf-8", "surrogatepass"))
    except (wire.MalformedLine, RecursionError):
        return Shown(payload)
    if value is wire.MISSING or odd:
        return Shown(payload, oddities=("too_deep",) if "too_deep" in odd else ("non_standard_json",))
    if not _tagged(value) or value["t"] not in _KNOWN - _PLAIN.keys():
        return Shown(value)  # scalars and lists of scalars are written without tags
    lost: set[str] = set()
    made = _untag(value, lost)
    return Shown(made, payload if lost else None)


def _tagged(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"t", "v"} and isinstance(value["t"], str)


def _untag(value: Any, lost: set[str]) -> Any:
    """The plain value; what is not tagged as the SDK tags it stays as it is. `lost` gets the tags that plain JSON cannot say."""
    if not _tagged(value) or value["t"] not in _KNOWN:
        return value
    tag, inner = value["t"], value["v"]
    if tag in _LISTS and isinstance(inner, list) and all(_tagged(v) for v in inner):
        made: Any = [_untag(v, lost) for v in inner]
    elif tag in _MAPS and isinstance(inner, dict) and all(_tagged(v) for v in inner.values()):
        made = {k: _untag(v, lost) for k, v in inner.items()}
    elif _scalar(tag, inner):
        made = {"bytes": inner} if tag == "B" else inner
    else:
        return value
    if tag in _LOSES:
        lost.add(tag)
    return made


def _scalar(tag: str, inner: Any) -> bool:
    if tag in _TYPED:
        return isinstance(inner, str)
    wanted = _PLAIN.get(tag)
    return wanted is not None and isinstance(inner, wanted) and (isinstance(inner, bool) == (tag == "b"))


def error_of(given: Any) -> dict[str, Any]:
    """An error object (ErrorType, ErrorMessage, ErrorData, StackTrace) in the journal's words."""
    if not isinstance(given, Mapping):
        return {"message": given if isinstance(given, str) else json.dumps(given)}
    words = {"ErrorType": "type", "ErrorMessage": "message", "ErrorData": "data", "StackTrace": "stack_trace"}
    return {words.get(k) or k: v for k, v in given.items() if v is not None}


def failure_of(holder: Any) -> dict[str, Any] | None:
    """The error in `{"Payload": {…}, "Truncated": …}`; one that is cut says so."""
    if not isinstance(holder, Mapping) or holder.get("Payload") is None:
        return None
    made = error_of(holder["Payload"])
    return {**made, "truncated": True} if holder.get("Truncated") is True else made


def plain(value: Any) -> Any:
    """Details as they are kept beside a line: times in one spelling, keys in one order, so that every form gives the same bytes."""
    if isinstance(value, Mapping):
        return {
            k: (utc(v) or v) if k.endswith("Timestamp") and not isinstance(v, (Mapping, list)) else plain(v)
            for k, v in sorted(value.items())
        }
    return [plain(v) for v in value] if isinstance(value, list) else value
