"""Values on their way into the journal: plain JSON, the same live as on replay.

A step gives its caller what the journal keeps, not what its function returned, so that live code and replayed code see
equal values. Objects come back as `Record`: a dict whose keys also read as attributes.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timezone
from typing import Any
from uuid import UUID

from drainboard.errors import NotJournalable
from drainboard.wire import MAX_DEPTH

__all__ = ["Answer", "Record", "parse_time", "plain", "record", "rfc3339", "utc_now"]


class Record(dict[str, Any]):
    """A recorded JSON object. `r.text` is `r["text"]`; names of dict methods need the brackets."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"the recorded object has no key {name!r}; it has {', '.join(sorted(self)) or 'none'}"
            ) from None


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a model function may return to say more than its reply: the model that really answered, and its usage."""

    out: Any
    model_reported: str | None = None
    usage: Mapping[str, Any] | None = None


def plain(value: Any, path: str = "$", depth: int = 0) -> Any:
    """A copy made of JSON values only: `Record`, list, str, int, float, bool, None.

    Takes mappings with text keys, sequences, dataclasses, objects with `model_dump()`, datetimes and UUIDs.
    Raises `NotJournalable` for anything else, for NaN and infinities, and for more than 128 levels.
    """
    if value is None or isinstance(value, (bool, str)):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotJournalable(f"{path} is {value}; journal lines hold standard JSON only")
        return float(value)
    if depth > MAX_DEPTH:
        raise NotJournalable(f"{path} is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        return _object(value, path, depth)
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview)):
        return [plain(v, f"{path}[{i}]", depth + 1) for i, v in enumerate(value)]
    return plain(_unfold(value, path), path, depth + 1)


def _object(value: Mapping[Any, Any], path: str, depth: int) -> Record:
    made = Record()
    for key, got in value.items():
        if not isinstance(key, str):
            raise NotJournalable(f"{path} has the key {key!r}, which is not text")
        made[str(key)] = plain(got, f"{path}.{key}", depth + 1)
    return made


def _unfold(value: Any, path: str) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, datetime):
        return rfc3339(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    dump: Callable[..., Any] | None = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump(mode="json")
    raise NotJournalable(
        f"{path} is a {type(value).__name__}, which is not JSON; return dicts, lists, text and numbers"
    )


def record(value: Any) -> Any:
    """Decoded JSON with its objects as `Record`, in place of a walk through `plain`."""
    if isinstance(value, dict):
        return Record({k: record(v) for k, v in value.items()})
    if isinstance(value, list):
        return [record(v) for v in value]
    return value


def utc_now() -> datetime:
    """The sender's clock."""
    return datetime.now(timezone.utc)


def rfc3339(at: datetime) -> str:
    """UTC with microseconds and `Z`; a datetime without zone is refused."""
    if at.tzinfo is None:
        raise NotJournalable(f"{at.isoformat()} has no time zone")
    return at.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: str) -> datetime:
    """An RFC 3339 text as a datetime with its zone; raises `ValueError`."""
    at = datetime.fromisoformat(_fraction(text[:-1] + "+00:00" if text.endswith(("Z", "z")) else text))
    if at.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return at


def _fraction(text: str) -> str:
    """Python 3.10 reads fractions of three or six digits only."""
    return re.sub(r"\.(\d+)", lambda m: "." + m.group(1)[:6].ljust(6, "0"), text)
