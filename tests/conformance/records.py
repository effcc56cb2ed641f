"""A second reader for each runtime, as small as can be: which records a file has, told by what identifies them.

It shares nothing with the adapters but the file. A record is told by what the runtime calls it (id, number, time); `found` gives
the same out of journal lines.
"""

from __future__ import annotations

import json
import re
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from drainboard import wire

from tests.conformance.reading import STATE, Reading

__all__ = ["COUNTED", "found", "nanoseconds", "zoneless"]

Key = tuple[str, ...]


def documents(data: bytes) -> Iterator[Any]:
    """The JSON values of a file, one after the other; nothing of a file that is none."""
    text, at = data.decode("utf-8", "surrogateescape").lstrip("\ufeff"), 0
    decoder = json.JSONDecoder(parse_float=Decimal)
    while (at := at + len(text[at:]) - len(text[at:].lstrip())) < len(text):
        try:
            value, at = decoder.raw_decode(text, at)
        except ValueError:
            return
        yield value


def objects(value: Any) -> Iterator[Mapping[str, Any]]:
    """Every object at any depth, the outer before the inner."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            yield one
            left += list(one.values())[::-1]
        elif isinstance(one, list):
            left += one[::-1]


def zoneless(time: str) -> str:
    """A time in UTC without its zone."""
    return re.sub(r"Z$|[+-]\d\d:\d\d$", "", time)


def nanoseconds(text: str) -> int:
    """A time without its zone as nanoseconds."""
    whole, _, digits = text.replace(" ", "T").replace(",", ".").partition(".")
    seconds = int(datetime.fromisoformat(whole).replace(tzinfo=UTC).timestamp())
    return seconds * 10**9 + int((digits + "000000000")[:9])


def plain(time: str) -> str:
    """A time in UTC without its zone and the zeros at its end."""
    whole, _, digits = time.removesuffix("+00:00").removesuffix("Z").partition(".")
    return f"{whole}.{digits}".rstrip("0").rstrip(".") if digits else whole


def elements(data: bytes) -> Iterator[Mapping[str, Any]]:
    """Objects that are elements of an array, or stand alone."""
    for document in documents(data):
        if isinstance(document, dict):
            yield document
        for holder in [document] if isinstance(document, list) else objects(document):
            for value in [holder] if isinstance(holder, list) else holder.values():
                yield from (one for one in value if isinstance(one, dict)) if isinstance(value, list) else ()


def every(data: bytes) -> Iterator[Mapping[str, Any]]:
    for document in documents(data):
        yield from objects(document)


def copied(data: bytes) -> Iterator[tuple[str, dict[str, str | None]]]:
    """(table, row) of a dump by pg_dump; values as the text that stands there."""
    table, columns = "", []
    for line in data.decode("utf-8", "replace").split("\n"):
        if line.startswith("COPY ") and line.endswith("FROM stdin;"):
            name, _, rest = line[5:].partition(" (")
            table = name.rpartition(".")[2].strip('"')
            columns = [c.strip().strip('"') for c in rest.partition(")")[0].split(",")]
        elif line == "\\.":
            table = ""
        elif table:
            yield table, dict(zip(columns, (None if v == "\\N" else v for v in line.split("\t")), strict=False))


def sqlite(data: bytes, table: str) -> list[dict[str, Any]]:
    with tempfile.NamedTemporaryFile(suffix=".sqlite") as kept:
        kept.write(data)
        kept.flush()
        opened = sqlite3.connect(f"file:{kept.name}?mode=ro&immutable=1", uri=True)
        try:
            opened.row_factory = sqlite3.Row
            return [dict(row) for row in opened.execute(f'SELECT * FROM "{table}"')]  # noqa: S608
        finally:
            opened.close()


# -- what stands in a file ------------------------------------------------------------------------------------------


def temporal(path: str, data: bytes) -> Iterator[Key]:
    for o in elements(data):
        if "eventId" in o and "eventTime" in o:
            yield str(o["eventId"]), o["eventTime"]


def aws(path: str, data: bytes) -> Iterator[Key]:
    for o in every(data):
        if "EventId" in o and "EventType" in o:
            at = o["EventTimestamp"]
            yield str(o["EventId"]), str(nanoseconds(zoneless(at)) if isinstance(at, str) else int(at * 10**9))


def restate(path: str, data: bytes) -> Iterator[Key]:
    for o in every(data):
        if "entry_type" in o and o.get("index"):
            yield o["id"], str(o["index"])


def dbos(path: str, data: bytes) -> Iterator[Key]:
    if path.endswith(".sqlite"):
        rows: Any = (("operation_outputs", row) for row in sqlite(data, "operation_outputs"))
    elif path.endswith(".sql"):
        rows = copied(data)
    else:
        rows = (("operation_outputs", o) for o in every(data) if "workflow_uuid" in o and "function_id" in o)
    for table, row in rows:
        if table == "operation_outputs":
            yield row["workflow_uuid"], str(row["function_id"])


def otel(path: str, data: bytes) -> Iterator[Key]:
    for o in every(data):
        if "spanId" in o and "name" in o and "startTimeUnixNano" in o:
            yield (str(o["spanId"]).lower(),)


def durabletask(path: str, data: bytes) -> Iterator[Key]:
    for o in every(data):
        kind = o.get("event_type")
        if isinstance(kind, str) and "timestamp" in o:
            yield (plain(str(o["timestamp"])),)


def cloudflare(path: str, data: bytes) -> Iterator[Key]:
    if path.endswith(".sqlite"):
        for row in sqlite(data, "states"):
            yield (plain(str(row["timestamp"]).replace(" ", "T")),)
        return
    for o in every(data):
        if not isinstance(o.get("attempts"), list):
            continue
        starts = [attempt.get("start") for attempt in o["attempts"] if isinstance(attempt, dict)]
        yield from ((plain(time),) for time in [*starts, o.get("end")] if isinstance(time, str))


def langgraph(path: str, data: bytes) -> Iterator[Key]:
    if path.endswith(".sqlite"):
        for row in sqlite(data, "checkpoints"):
            yield (row["checkpoint_id"],)
    elif path.endswith(".sql"):
        for table, row in copied(data):
            if table == "checkpoints":
                yield (str(row["checkpoint_id"]),)
    else:
        for o in every(data):
            inner = o.get("checkpoint")
            if isinstance(inner, dict) and isinstance(inner.get("id"), str) and "checkpoint_id" in o:
                yield (o["checkpoint_id"],)
            elif "values" in o and isinstance(inner, dict) and isinstance(inner.get("checkpoint_id"), str):
                yield (inner["checkpoint_id"],)


def lines(path: str, data: bytes) -> Iterator[Key]:
    for number, line in enumerate(data.replace(b"\0", b"\n").split(b"\n"), 1):
        if line.strip() and (number, line) != (1, b"["):
            yield (line.removeprefix(b"\xef\xbb\xbf").strip().decode("latin-1"),)


COUNTED: dict[str, Callable[[str, bytes], Iterator[Key]]] = {
    "aws": aws,
    "cloudflare": cloudflare,
    "dbos": dbos,
    "durabletask": durabletask,
    "langgraph": langgraph,
    "lines": lines,
    "otel": otel,
    "restate": restate,
    "temporal": temporal,
}


# -- what stands in the lines ---------------------------------------------------------------------------------------


def found(reading: Reading) -> set[Key]:
    """The same keys, out of the lines."""
    made: set[Key] = set()
    for line in reading.lines:
        entry = wire.parse(line.raw)
        if reading.adapter == "langgraph":
            made |= {(one,) for one in _CHECKPOINT.findall(line.raw.decode("utf-8", "replace"))}
        elif entry.kind != "note" or entry.name != STATE:
            made.add(_key(reading.adapter, line.run, line.raw, entry))
    return made


_CHECKPOINT = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def _key(adapter: str, run: str, raw: bytes, entry: wire.Entry) -> Key:
    own = entry.id or ""
    if adapter == "temporal":
        return own.partition(":")[0], entry.at or ""
    if adapter == "aws":
        return own, str(nanoseconds(zoneless(entry.at)) if entry.at else "")
    if adapter == "restate":
        return run, own.partition(":")[0]
    if adapter == "dbos":
        return run, own.removeprefix("step:").partition(":")[0]
    if adapter == "lines":
        return (raw.strip().decode("latin-1"),)
    return (own.partition(":")[0],) if adapter == "otel" else (plain(entry.at or ""),)
