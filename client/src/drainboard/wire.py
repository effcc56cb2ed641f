"""The journal line: one JSON object per entry, shared by workers, imports and exports.

Standard library only. `parse` turns one line into an `Entry` without losing anything: unknown fields stay in
`Entry.extra`, numbers keep their text, and what is odd about the line is named in `Entry.oddities`.
`canonical` is RFC 8785 (JSON Canonicalization Scheme); `digest` is `sha256:` over it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from drainboard.canonical import canonical, digest, digest_bytes
from drainboard.jsontext import (
    MAX_DEPTH,
    MAX_FIELDS,
    MAX_KEYS,
    MISSING,
    Ambiguous,
    MalformedLine,
    Number,
    decode,
    depth_of,
    encode,
    items_of,
    number_text,
    shallow,
    spans_of,
)

__all__ = [
    "APPROVAL_DECISIONS",
    "EFFECTS",
    "KINDS",
    "MAX_DEPTH",
    "MAX_FIELDS",
    "MAX_KEYS",
    "MISSING",
    "WORKER_KINDS",
    "Ambiguous",
    "Entry",
    "MalformedLine",
    "Number",
    "canonical",
    "decode",
    "depth_of",
    "digest",
    "digest_bytes",
    "dump",
    "effect_of",
    "encode",
    "fields_of",
    "from_fields",
    "items_of",
    "number_text",
    "parse",
    "request_fingerprint",
    "spans_of",
]

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


def parse(raw: bytes) -> Entry:
    """The entry that one line holds.

    A known field of the wrong type moves to `extra` under its own name and is named in `oddities`; nothing is dropped.
    Raises `MalformedLine` when the line is not a JSON object or lacks a string `run` or `kind`.
    """
    value, odd = decode(raw)
    if odd == ("too_deep",):
        value, odd = shallow(raw)
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
