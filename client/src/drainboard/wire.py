"""The journal line: one JSON object per entry, shared by workers, imports and exports.

Standard library only. `parse` turns one line into an `Entry` without losing anything: unknown fields stay in
`Entry.extra`, numbers keep their text, and what is odd about the line is named in `Entry.oddities`.
`canonical` is RFC 8785 (JSON Canonicalization Scheme); `digest` is `sha256:` over it.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from json.encoder import encode_basestring
from typing import Any, Final

__all__ = [
    "APPROVAL_DECISIONS",
    "EFFECTS",
    "KINDS",
    "MISSING",
    "WORKER_KINDS",
    "Ambiguous",
    "Entry",
    "MalformedLine",
    "Number",
    "canonical",
    "digest",
    "digest_bytes",
    "dump",
    "effect_of",
    "fields_of",
    "number_text",
    "parse",
    "request_fingerprint",
]


class _Missing:
    """Stands for a field that the line does not have (`null` is a value, absence is not)."""

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False


MISSING: Final = _Missing()

KINDS: Final = frozenset(
    [
        f"run.{x}"
        for x in [
            "started",
            "parked",
            "held",
            "released",
            "resumed",
            "completed",
            "failed",
            "stopped",
            "cancelled",
            "continued",
        ]
    ]
    + [f"{s}.{x}" for s in ("model", "tool", "child") for x in ("started", "result", "error")]
    + ["value.result", "timer.started", "timer.fired", "signal.received", "parallel.started"]
    + [f"approval.{x}" for x in ["requested", "decided", "delivered", "used", "sent_back", "expired", "withdrawn"]]
    + ["version.marker", "deploy.pinned", "deploy.continued", "deploy.unpinned", "stop.requested"]
    + ["gap.resolved", "conflict.resolved", "late.result", "note"]
)
"""Every kind with a meaning here. Others are kept and shown as they are."""

WORKER_KINDS: Final = frozenset(
    k
    for k in KINDS
    if (k.split(".")[0] in {"run", "model", "tool", "value", "timer", "child", "parallel"} and k != "run.stopped")
    or k in {"version.marker", "approval.requested", "note"}
)
"""What a worker's token may append; anything else is `KindNotAllowed`."""

EFFECTS: Final = ("read", "write")
APPROVAL_DECISIONS: Final = ("approve", "reject", "send_back")
MAX_DEPTH: Final = 128  # levels that a reader unfolds; deeper lines are kept as text
MAX_FIELDS: Final = 10_000  # of the line's own object, when it is wider than MAX_KEYS
MAX_KEYS: Final = 200_000  # keys of all objects of one line together; wider lines are kept as text


class MalformedLine(ValueError):
    """The bytes are not one JSON object with a `run` and a `kind`; the message names what is wrong and where."""


class Ambiguous(ValueError):
    """The value has more than one reading (duplicate key, NaN, unsafe integer, lone surrogate), so it has no digest."""


class Number(float):
    """A JSON number whose text is not what Python would print: the value is approximate, `.text` is exact."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> Number:
        made = super().__new__(cls, text)
        made.text = text
        return made

    def __repr__(self) -> str:
        return self.text


def number_text(text: str) -> float:
    """Reads one JSON number with a fraction or exponent; returns a `Number` where a float would change its text."""
    value = float(text)
    return value if repr(value) == text and math.isfinite(value) else Number(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One journal line. `docs/journal-lines.md` gives the meaning, unit and owner of each field."""

    run: str
    kind: str
    id: str | None = None
    seq: int | None = None  # position in the source's journal, from 1; holes and doubles are possible
    at: str | None = None  # RFC 3339, the sender's clock
    agent: str | None = None
    build: str | None = None
    environment: str | None = None
    name: str | None = None
    step: int | None = None  # from 1, within its branch
    branch: str = ""
    call: str | None = None
    attempt: int = 1
    effect: str | None = None
    key: str | None = None
    request: str | None = None  # "sha256:<64 hex>"
    versions: Mapping[str, Any] | None = None
    model_reported: str | None = None
    in_: Any = MISSING  # field `in`
    out: Any = MISSING
    error: Any = MISSING
    ref: str | None = None
    bytes: int | None = None
    usage: Any = MISSING
    artifact: Any = MISSING
    fingerprint: str | None = None
    approval: str | None = None
    decision: str | None = None
    by: str | None = None
    expires_at: str | None = None
    requested_by: str | None = None
    until: str | None = None
    child: str | None = None
    parent: str | None = None
    reason: str | None = None
    outcome: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    oddities: tuple[
        str, ...
    ] = ()  # finding codes: non_standard_json, too_deep; not_utf8, "wrong_type:<field>", "duplicate_key:<key>"

    @property
    def effect_or_default(self) -> str:
        """`effect`, or what its kind implies: tools write, everything else reads."""
        return effect_of(self.kind, self.effect)


_TEXT = frozenset(
    [
        "id",
        "at",
        "agent",
        "build",
        "environment",
        "name",
        "branch",
        "call",
        "effect",
        "key",
        "request",
        "model_reported",
        "ref",
        "fingerprint",
        "approval",
        "decision",
        "by",
        "expires_at",
        "requested_by",
        "until",
        "child",
        "parent",
        "reason",
        "outcome",
    ]
)
_INT = frozenset(("seq", "step", "attempt", "bytes"))
_FIELDS = _TEXT | _INT | {"run", "kind", "versions", "in", "out", "error", "usage", "artifact"}


def effect_of(kind: str, effect: str | None) -> str:
    """`read` or `write` for an entry of this kind; an explicit effect wins."""
    if effect in EFFECTS:
        return effect
    return "write" if kind.startswith("tool.") else "read"


class _Reader:
    """Collects what is odd while `json` decodes one line."""

    def __init__(self) -> None:
        self.odd: dict[str, None] = {}

    def pairs(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) != len(pairs):
            seen: set[str] = set()
            for key, _ in pairs:
                if key in seen:
                    self.odd[f"duplicate_key:{key}"] = None
                seen.add(key)
        return made

    def constant(self, text: str) -> Number:
        self.odd["non_standard_json"] = None
        return Number(text)


def depth_of(raw: bytes, *, stop_at: int = 1 << 30) -> int:
    """The deepest nesting of arrays and objects in JSON text, counted without recursion; stops early at `stop_at`."""
    depth = deepest = 0
    for token in _BRACKETS.finditer(raw):
        c = token.group()
        if c in b"[{":
            depth += 1
            deepest = max(deepest, depth)
            if deepest >= stop_at:
                return deepest
        elif c in b"]}":
            depth -= 1
    return deepest


_TEXT_BYTES = rb'"[^"\\]*(?:\\.[^"\\]*)*"'  # unrolled: a loop over single characters costs memory for each of them
_BRACKETS = re.compile(_TEXT_BYTES + rb"|[\[\]{}]", re.DOTALL)
_KEY = re.compile(rb'"[ \t\r\n]*:')
_INT_LIMIT = 4_000  # digits; beyond it int() is slow and refused by Python


def _integer(text: str) -> int | Number:
    return int(text) if len(text) <= _INT_LIMIT else Number(text)


def decode(raw: bytes) -> tuple[Any, tuple[str, ...]]:
    """The JSON value of `raw` and its oddities.

    Bytes that are not UTF-8 become lone surrogates (U+DC80 to U+DCFF, one each) and the oddity `not_utf8`; control characters
    that stand bare in a string are kept (`non_standard_json`), except NUL. Text deeper than `MAX_DEPTH` or with more than
    `MAX_KEYS` keys is not unfolded: `(MISSING, ("too_deep",))`. Raises `MalformedLine` for what is not JSON.
    """
    if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH and depth_of(raw, stop_at=MAX_DEPTH + 1) > MAX_DEPTH:
        return MISSING, ("too_deep",)
    if raw.count(b":") > MAX_KEYS and sum(1 for _ in _KEY.finditer(raw)) > MAX_KEYS:
        return MISSING, ("too_deep",)
    reader = _Reader()
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("utf-8", "surrogateescape")
        reader.odd["not_utf8"] = None
    try:
        value = _loads(text, reader, strict=True)
    except json.JSONDecodeError as e:
        if not e.msg.startswith("Invalid control character") or b"\0" in raw:
            raise MalformedLine(f"not JSON at character {e.pos}: {e.msg}") from None
        reader.odd["non_standard_json"] = None
        value = _loads_loosely(text, reader)
    return value, tuple(reader.odd)


def _loads(text: str, reader: _Reader, *, strict: bool) -> Any:
    return json.loads(
        text,
        strict=strict,
        object_pairs_hook=reader.pairs,
        parse_constant=reader.constant,
        parse_float=number_text,
        parse_int=_integer,
    )


def _loads_loosely(text: str, reader: _Reader) -> Any:
    try:
        return _loads(text, reader, strict=False)
    except json.JSONDecodeError as e:
        raise MalformedLine(f"not JSON at character {e.pos}: {e.msg}") from None


def _shallow(raw: bytes) -> dict[str, Any]:
    """The top-level fields of an object that is too deep or wide to unfold; such values become their text."""
    spans = spans_of(raw)
    if spans is None:
        raise MalformedLine("too deep or wide, and not an object with each key once")
    if len(spans) > MAX_FIELDS:
        raise MalformedLine(f"{len(spans)} fields in one line, the limit is {MAX_FIELDS}")
    made: dict[str, Any] = {}
    for key, (start, end) in spans.items():
        value, odd = decode(raw[start:end])
        made[key] = raw[start:end].decode("utf-8", "surrogateescape") if odd == ("too_deep",) else value
    return made


_STRING = re.compile(_TEXT_BYTES, re.DOTALL)
_SPACE = re.compile(rb"[ \t\r\n]*")
_SCALAR = re.compile(rb"[^,\]}\s]+")


def _value_end(raw: bytes, at: int) -> int:
    """Where the JSON value that begins at `at` ends; -1 when the text runs out."""
    first = raw[at : at + 1]
    if first == b'"':
        m = _STRING.match(raw, at)
        return m.end() if m else -1
    if first not in (b"[", b"{"):
        m = _SCALAR.match(raw, at)
        return m.end() if m else -1
    depth = 0
    for token in _BRACKETS.finditer(raw, at):
        c = token.group()
        depth += (c in b"[{") - (c in b"]}") if len(c) == 1 else 0
        if depth == 0:
            return token.end()
    return -1


def items_of(raw: bytes) -> list[tuple[int, int]] | None:
    """Byte spans of the elements of a JSON array's text, in order; None when it is not an array."""
    at = _SPACE.match(raw).end()  # type: ignore[union-attr]
    if raw[at : at + 1] != b"[":
        return None
    spans: list[tuple[int, int]] = []
    at = _SPACE.match(raw, at + 1).end()  # type: ignore[union-attr]
    while raw[at : at + 1] != b"]":
        end = _value_end(raw, at)
        if end < 0:
            return None
        spans.append((at, end))
        at = _SPACE.match(raw, end).end()  # type: ignore[union-attr]
        if raw[at : at + 1] == b",":
            at = _SPACE.match(raw, at + 1).end()  # type: ignore[union-attr]
        elif raw[at : at + 1] != b"]":
            return None
    return spans


def spans_of(raw: bytes) -> dict[str, tuple[int, int]] | None:
    """Byte spans of the top-level values of a JSON object's text, by key; None when it is not an object or a key repeats."""
    at = _SPACE.match(raw).end()  # type: ignore[union-attr]
    if raw[at : at + 1] != b"{":
        return None
    spans: dict[str, tuple[int, int]] = {}
    at = _SPACE.match(raw, at + 1).end()  # type: ignore[union-attr]
    while raw[at : at + 1] != b"}":
        name = _STRING.match(raw, at)
        if name is None:
            return None
        try:
            key = json.loads(name.group().decode("utf-8", "surrogateescape"), strict=False)
        except json.JSONDecodeError:
            return None
        at = _SPACE.match(raw, name.end()).end()  # type: ignore[union-attr]
        if key in spans or raw[at : at + 1] != b":":
            return None
        at = _SPACE.match(raw, at + 1).end()  # type: ignore[union-attr]
        end = _value_end(raw, at)
        if end < 0:
            return None
        spans[key] = (at, end)
        at = _SPACE.match(raw, end).end()  # type: ignore[union-attr]
        if raw[at : at + 1] == b",":
            at = _SPACE.match(raw, at + 1).end()  # type: ignore[union-attr]
        elif raw[at : at + 1] != b"}":
            return None
    return spans


def parse(raw: bytes) -> Entry:
    """The entry that one line holds.

    A known field of the wrong type moves to `extra` under its own name and is named in `oddities`; nothing is dropped.
    Raises `MalformedLine` when the line is not a JSON object or lacks a string `run` or `kind`.
    """
    value, odd = decode(raw)
    if odd == ("too_deep",):
        value = _shallow(raw)
    if not isinstance(value, dict):
        raise MalformedLine(f"the line holds {type(value).__name__}, not a JSON object")
    return from_fields(value, oddities=odd)


def from_fields(value: Mapping[str, Any], *, oddities: tuple[str, ...] = ()) -> Entry:
    """The entry made of already decoded fields; same rules and errors as `parse`."""
    known: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    odd = list(oddities)
    for name in ("run", "kind"):
        if not isinstance(value.get(name), str):
            raise MalformedLine(f"field `{name}` is {'missing' if name not in value else 'not a string'}")
    for name, got in value.items():
        if name not in _FIELDS:
            extra[name] = got
        elif _right_type(name, got):
            known["in_" if name == "in" else name] = got
        elif got is not None:
            extra[name] = got
            odd.append(f"wrong_type:{name}")
    return Entry(**known, extra=extra, oddities=tuple(odd))


def _right_type(name: str, got: Any) -> bool:
    if name in _TEXT:
        return isinstance(got, str)
    if name in _INT:
        return isinstance(got, int) and not isinstance(got, bool) and got >= (0 if name == "bytes" else 1)
    if name == "versions":
        return isinstance(got, dict)
    return True


def fields_of(entry: Entry) -> dict[str, Any]:
    """The line's fields as one dict, in the documented order, without absent ones."""
    made: dict[str, Any] = {}
    for name in Entry.__dataclass_fields__:
        got = getattr(entry, name)
        if (
            name in ("extra", "oddities")
            or got is None
            or got is MISSING
            or (name == "branch" and not got)
            or (name == "attempt" and got == 1)
        ):
            continue
        made["in" if name == "in_" else name] = got
    return {**made, **entry.extra}


def dump(entry: Entry | Mapping[str, Any]) -> bytes:
    """One line without its newline: UTF-8, compact. NaN and infinities raise `Ambiguous`; lone surrogates are escaped."""
    fields = fields_of(entry) if isinstance(entry, Entry) else entry
    return encode(fields)


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_ASCII_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def encode(value: Any) -> bytes:
    """Compact UTF-8 JSON of `value`, exact for `Number`; raises `Ambiguous` for NaN and infinities."""
    encoder = _ENCODER
    try:
        text = _exact(value, encoder) if _holds_number(value) else encoder.encode(value)
        try:
            return text.encode("utf-8")
        except UnicodeEncodeError:
            encoder = _ASCII_ENCODER
            return (_exact(value, encoder) if _holds_number(value) else encoder.encode(value)).encode("ascii")
    except ValueError as e:
        raise Ambiguous(f"{e}; journal lines hold standard JSON only") from None


def _holds_number(value: Any) -> bool:
    """The C encoder prints a float subclass as a float, which would lose a `Number`'s text."""
    if isinstance(value, Mapping):
        return any(map(_holds_number, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(_holds_number, value))
    return isinstance(value, Number)


def _exact(value: Any, encoder: json.JSONEncoder) -> str:
    if isinstance(value, Number):
        if not math.isfinite(value) and not re.fullmatch(r"-?[0-9][0-9.eE+-]*", value.text):
            raise ValueError(f"{value.text} is not JSON")
        return value.text
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{encoder.encode(str(k))}:{_exact(v, encoder)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(_exact(v, encoder) for v in value) + "]"
    return encoder.encode(value)


_SAFE_INT = 2**53 - 1


def canonical(value: Any) -> bytes:
    """RFC 8785 bytes of a JSON value.

    Raises `Ambiguous` for NaN, infinities, integers beyond ±(2^53-1), numbers whose text a double does not keep,
    lone surrogates and keys that are not strings. `decode` reports duplicate keys, which a dict cannot show.
    """
    out: list[str] = []
    _canonical(value, out, 0)
    try:
        return "".join(out).encode("utf-8")
    except UnicodeEncodeError:
        raise Ambiguous("a string holds a lone surrogate, which has no UTF-8 form") from None


def _canonical(value: Any, out: list[str], depth: int) -> None:
    if depth > MAX_DEPTH:
        raise Ambiguous(f"nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, str):
        out.append(_canonical_string(value))
    elif value is None or isinstance(value, bool):
        out.append({None: "null", True: "true", False: "false"}[value])
    elif isinstance(value, (int, float)):
        out.append(_canonical_number(value))
    elif isinstance(value, (list, tuple)):
        out.append("[")
        for i, item in enumerate(value):
            if i:
                out.append(",")
            _canonical(item, out, depth + 1)
        out.append("]")
    elif isinstance(value, Mapping):
        _canonical_object(value, out, depth)
    else:
        raise Ambiguous(f"{type(value).__name__} is not a JSON value")


def _canonical_object(value: Mapping[Any, Any], out: list[str], depth: int) -> None:
    if not all(isinstance(k, str) for k in value):
        raise Ambiguous("an object key is not a string")
    out.append("{")
    for i, key in enumerate(sorted(value, key=lambda k: k.encode("utf-16-be", "surrogatepass"))):
        if i:
            out.append(",")
        out.append(_canonical_string(key))
        out.append(":")
        _canonical(value[key], out, depth + 1)
    out.append("}")


_SURROGATE = re.compile("[\ud800-\udfff]")


def _canonical_string(value: str) -> str:
    if not value.isascii() and _SURROGATE.search(value):
        raise Ambiguous("a string holds a lone surrogate, which has no UTF-8 form")
    return encode_basestring(value)


def _canonical_number(value: int | float) -> str:
    if isinstance(value, Number):
        raise_for = _inexact(value.text)
        if raise_for:
            raise Ambiguous(raise_for)
        value = float(value)
    if isinstance(value, int):
        if abs(value) > _SAFE_INT:
            raise Ambiguous(f"integer {value} does not survive JSON (beyond 2^53-1); send it as a string")
        return str(value)
    if not math.isfinite(value):
        raise Ambiguous(f"{value} is not JSON")
    return _ecma_number(value)


def _inexact(text: str) -> str | None:
    """Why this number text has no single double, or None when it has (`0.10`, `1E2` do)."""
    if text.lstrip("-") in ("NaN", "Infinity"):
        return f"{text} is not JSON"
    from decimal import Decimal

    value = float(text)
    if not math.isfinite(value):
        return f"number {text} is beyond a double"
    digits = len(Decimal(text).normalize().as_tuple().digits)
    if digits > 17 and Decimal(text) != Decimal(value):
        return f"number {text} does not survive JSON; send it as a string"
    return None


def _ecma_number(value: float) -> str:
    """ECMAScript Number::toString, as RFC 8785 section 3.2.2.3 asks."""
    if value == 0:
        return "0"
    sign, value = ("-", -value) if value < 0 else ("", value)
    mantissa, exponent = f"{value!r}e0".split("e")[:2] if "e" not in repr(value) else repr(value).split("e")
    digits = mantissa.replace(".", "").lstrip("0")
    point = len(mantissa.split(".")[0]) + int(exponent)
    if mantissa.startswith("0."):
        point -= len(mantissa[2:]) - len(mantissa[2:].lstrip("0")) + 1
    digits = digits.rstrip("0") or "0"
    n, k = point, len(digits)
    if k <= n <= 21:
        text = digits + "0" * (n - k)
    elif 0 < n <= 21:
        text = f"{digits[:n]}.{digits[n:]}"
    elif -6 < n <= 0:
        text = f"0.{'0' * -n}{digits}"
    else:
        e = n - 1
        text = f"{digits[0]}{'.' + digits[1:] if k > 1 else ''}e{'+' if e > 0 else '-'}{abs(e)}"
    return sign + text


def digest_bytes(data: bytes) -> str:
    """`sha256:<64 hex>` of these bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def digest(value: Any) -> str:
    """`sha256:<64 hex>` over the canonical form; raises `Ambiguous`."""
    return digest_bytes(canonical(value))


def request_fingerprint(*, kind: str, name: str | None, in_: Any, key: str | None) -> str:
    """Fingerprint of a step's request: kind (`model` or `tool`), name, `in` and `key`, in canonical JSON.

    Values that have no canonical form are fingerprinted by their compact JSON text, prefixed so that the two never meet.
    """
    subject = {"kind": kind.split(".")[0], "name": name, "in": None if in_ is MISSING else in_, "key": key}
    try:
        return digest(subject)
    except Ambiguous:
        return digest_bytes(
            b"text:" + json.dumps(subject, sort_keys=True, default=repr).encode("utf-8", "surrogatepass")
        )
