"""Values of LangGraph checkpoints as plain JSON. Nothing is ever constructed: MessagePack extension types, which LangGraph's own
loader imports and calls, are shown by the class that they name; pickles, encrypted and unknown bytes stay closed.

Extension codes are those of `langgraph.checkpoint.serde.jsonplus`: 0 to 3 hold [module, name, arguments, …], 4 and 5 hold
[module, name, fields, …] of a pydantic model.
"""

from __future__ import annotations

import binascii
import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec
from drainboard import wire

from journals.adapters.values import unbase64

DEPTH: Final = 64  # levels that are unfolded, in one value with the extension values inside it
_PLAIN: Final = frozenset(("builtins.set", "builtins.frozenset", "builtins.tuple", "collections.deque"))
_TEXT: Final = frozenset(("uuid.UUID", "decimal.Decimal", "pathlib.Path", "pathlib.PosixPath", "ipaddress.IPv4Address"))
_MESSAGES: Final = "langchain_core.messages."


def closed(data: bytes, form: str) -> dict[str, Any]:
    """What is shown of bytes that are not opened."""
    return {"opaque": form, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def bytes_of(stored: Any) -> bytes | None:
    """The bytes of a cell, however the export wrote them: raw, `\\x…` hex, `{"$b64"}`, `{"type": "Buffer"}`, or text."""
    if isinstance(stored, (bytes, bytearray)):
        return bytes(stored)
    if isinstance(stored, str):
        if stored.startswith("\\x"):
            try:
                return binascii.unhexlify(stored[2:])
            except (binascii.Error, ValueError):
                return stored.encode("utf-8", "surrogatepass")
        return stored.encode("utf-8", "surrogatepass")
    if isinstance(stored, Mapping):
        if isinstance(stored.get("$b64"), str):
            return unbase64(stored["$b64"])
        told = stored.get("data")
        if stored.get("type") == "Buffer" and isinstance(told, list) and all(_is_byte(b) for b in told):
            return bytes(told)
    return None


def _is_byte(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 256


def value_of(form: str | None, stored: Any) -> Any:
    """The value of one cell. `form` is its `type` column; without one, JSON is read and everything else stays closed."""
    if form in ("null", "empty") or stored is None:
        return None
    data = bytes_of(stored)
    if data is None:
        return stored  # a value that the export had already decoded
    if form == "msgpack":
        return _msgpack(data, form)
    if form == "json" or (form is None and data[:1] in (b"{", b"[", b'"')):
        return _json(data)
    if form is None and isinstance(stored, str) and not stored.startswith("\\x"):
        base = _base64_json(stored)
        return _json(base) if base else closed(data, "unknown")
    return closed(data, form or "unknown")


def _base64_json(text: str) -> bytes | None:
    data = unbase64(text)
    return data if data and data[:1] in (b"{", b"[") else None


def _json(data: bytes) -> Any:
    try:
        value, odd = wire.decode(data)
    except wire.MalformedLine:
        return closed(data, "broken json")
    if value is wire.MISSING or "non_standard_json" in odd:
        return closed(data, "json, too deep" if value is wire.MISSING else "json with NaN")
    return value


def _msgpack(data: bytes, form: str) -> Any:
    try:
        return _plain(msgspec.msgpack.decode(data), DEPTH)
    except (msgspec.MsgspecError, RecursionError, ValueError, OverflowError):
        return closed(data, f"{form}, not readable")


def _plain(value: Any, depth: int) -> Any:
    """A decoded value as JSON; what is too deep, or no JSON, is closed or text."""
    if isinstance(value, msgspec.msgpack.Ext):
        return _extension(value.code, bytes(value.data), depth)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return closed(bytes(value), "bytes")
    if isinstance(value, datetime):
        return value.isoformat()
    if depth <= 0 and isinstance(value, (Mapping, list, tuple)):
        return {"opaque": "msgpack, too deep", "items": len(value)}
    if isinstance(value, Mapping):
        return {
            k if isinstance(k, str) else json.dumps(_plain(k, 4), default=str): _plain(v, depth - 1)
            for k, v in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_plain(v, depth - 1) for v in value]
    return value


def _extension(code: int, data: bytes, depth: int) -> Any:
    """An extension value: the class that it names with its arguments, or closed when it is of no known form."""
    if not 0 <= code <= 5:
        return closed(data, f"msgpack ext {code}")
    try:
        inner = _plain(msgspec.msgpack.decode(data), depth - 1)
    except (msgspec.MsgspecError, RecursionError, ValueError, OverflowError):
        return closed(data, f"msgpack ext {code}")
    if not (isinstance(inner, list) and len(inner) >= 3 and all(isinstance(part, str) for part in inner[:2])):
        return closed(data, f"msgpack ext {code}")
    name, given = f"{inner[0]}.{inner[1]}", inner[2]
    if code in (4, 5) and isinstance(given, dict):
        return given if name.startswith(_MESSAGES) and isinstance(given.get("type"), str) else {"$class": name, **given}
    if code == 2 and isinstance(given, dict):
        return {"$class": name, **given}
    if name in _PLAIN and isinstance(given, list):
        return given
    plain = inner[3:] in (["fromisoformat"], ["fromhex"]) if code == 3 else name in _TEXT
    if plain and isinstance(_only(given), str):
        return _only(given)
    return {"$class": name, "args": given, **({"method": inner[3]} if code == 3 and len(inner) > 3 else {})}


def _only(given: Any) -> Any:
    return given[0] if isinstance(given, list) and len(given) == 1 else given


def is_closed(value: Any) -> bool:
    """Whether a part of the value, near its top, is shown closed."""
    return any("opaque" in part for part in _parts(value, 3))


def _parts(value: Any, depth: int) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        yield value
    inner = value.values() if isinstance(value, Mapping) else value[:50] if isinstance(value, list) else ()
    for part in inner if depth else ():
        if isinstance(part, (Mapping, list)):
            yield from _parts(part, depth - 1)


def messages_of(value: Any) -> Iterator[Mapping[str, Any]]:
    """The LangChain messages in a channel's value: one, or a list of them. Constructor JSON (`lc`) gives its `kwargs`."""
    for item in value if isinstance(value, list) else (value,):
        if not isinstance(item, Mapping):
            continue
        if (
            item.get("type") == "constructor"
            and isinstance(item.get("id"), list)
            and isinstance(item.get("kwargs"), Mapping)
        ):
            name = str(item["id"][-1]) if item["id"] else ""
            word = {"AIMessage": "ai", "AIMessageChunk": "ai", "ToolMessage": "tool", "HumanMessage": "human"}.get(name)
            if word:
                yield {"type": word, **{k: v for k, v in item["kwargs"].items() if k != "type"}}
        elif item.get("type") in ("ai", "AIMessageChunk", "tool", "human", "system") and "content" in item:
            yield item


def is_model(message: Mapping[str, Any]) -> bool:
    return message.get("type") in ("ai", "AIMessageChunk")


def sendable(value: Any) -> tuple[str, Any] | None:
    """Node and argument of a `Send`; None for anything else."""
    if not isinstance(value, Mapping):
        return None
    if str(value.get("$class", "")).endswith(".Send"):
        args = value.get("args")
        if isinstance(args, list) and args and isinstance(args[0], str):
            return args[0], args[1] if len(args) > 1 else None
        return (value["node"], value.get("arg")) if isinstance(value.get("node"), str) else None
    if (
        isinstance(value.get("node"), str)
        and value.get("lg_name", "Send") == "Send"
        and {"node", "args"} <= value.keys()
    ):
        return value["node"], value["args"]  # LangGraph.js
    return None
