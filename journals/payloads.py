"""Large values kept apart by content, so that a growing transcript costs what is new.

`split` cuts the large top-level values out of a raw line; `join` puts the very same bytes back. A list (a transcript)
becomes a chain: each node is the hash of its parent and one item, so a longer list is one more node and one more body.
Pure: no database. A line whose parts would not join to identical bytes is not split.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import zstandard
from drainboard import wire

__all__ = ["Known", "Split", "cut_mark", "join", "node_digest", "pack", "sha256", "split", "unpack", "wanted"]

BODY_AT = 256  # bytes from which a value is kept apart
SPLITTABLE = {
    "in": BODY_AT,
    "out": BODY_AT,
    "artifact": BODY_AT,
    "error": BODY_AT,
    "versions": 64,
}  # field: bytes from which it is cut
LIST_AT = 512  # bytes from which a list is kept as a chain
_LEAST = min(SPLITTABLE.values())
_BETWEEN = re.compile(rb"[ \t\r\n]*,[ \t\r\n]*")

Slot = list[Any]  # [offset in the line, "b" | "n", digest hex, size in bytes, separator (lists only)]


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def node_digest(parent: bytes, item: bytes) -> bytes:
    """The chain node of a list that ends in the item with this digest."""
    return sha256(b"node:" + parent + item)


@dataclass(slots=True)
class Split:
    """A raw line without its large values: `line` with one `0` in the place of each, and what goes back where."""

    line: bytes
    slots: list[Slot] = field(default_factory=list)
    bodies: dict[bytes, bytes] = field(default_factory=dict)  # digest -> plain bytes
    nodes: list[tuple[bytes, bytes | None, bytes]] = field(
        default_factory=list
    )  # (digest, parent, item), parents first


class _Large(msgspec.Struct):
    """The fields of a line that may be cut, as they stand there."""

    in_: msgspec.Raw = msgspec.field(name="in", default=msgspec.Raw(b""))
    out: msgspec.Raw = msgspec.Raw(b"")
    artifact: msgspec.Raw = msgspec.Raw(b"")
    error: msgspec.Raw = msgspec.Raw(b"")
    versions: msgspec.Raw = msgspec.Raw(b"")


_NOT_PLAIN = (msgspec.MsgspecError, RecursionError, UnicodeError)  # not the JSON that msgspec reads: the slow way knows
_large = msgspec.json.Decoder(_Large).decode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode


def _may_be_cut(raw: bytes) -> bool:
    """Whether a field is large enough; a quick look (0.5 µs) that most lines end with."""
    try:
        q = _large(raw)
    except _NOT_PLAIN:
        return True
    return (
        len(q.in_) >= SPLITTABLE["in"]
        or len(q.out) >= SPLITTABLE["out"]
        or len(q.versions) >= SPLITTABLE["versions"]
        or len(q.error) >= SPLITTABLE["error"]
        or len(q.artifact) >= SPLITTABLE["artifact"]
    )


def spans_of(raw: bytes) -> dict[str, tuple[int, int]] | None:
    """What `wire.spans_of` answers; text as the usual encoders write it takes a way that is ten times as quick."""
    if len(raw) > 4 * wire.MAX_KEYS and raw.count(b":") > wire.MAX_KEYS:
        return wire.spans_of(raw)
    try:
        members = _members(raw)
        return _laid_out(raw, members) or wire.spans_of(raw)
    except _NOT_PLAIN:
        return wire.spans_of(raw)


def _laid_out(raw: bytes, members: dict[str, msgspec.Raw]) -> dict[str, tuple[int, int]] | None:
    """The spans when nothing but `,` and `:`, or `, ` and `: `, stands between keys and values; None otherwise.

    In compact text the lengths alone prove it: white space, escapes in a key or a key twice can only make `raw` longer than
    the sum. With spaces each member is compared.
    """
    spans: dict[str, tuple[int, int]] = {}
    at = 1
    for key, value in members.items():
        start = at + (len(key) if key.isascii() else len(key.encode())) + 3
        end = start + len(value)
        spans[key] = (start, end)
        at = end + 1
    if at == len(raw):
        return spans
    if at + 2 * len(members) - 1 != len(raw) or not members:
        return None
    spans, parts, at = {}, [], 1
    for key, value in members.items():
        name, text = b'"%b": ' % key.encode(), bytes(value)
        parts.append(name + text)
        spans[key] = (at + len(name), at + len(name) + len(text))
        at += len(name) + len(text) + 2
    return spans if b"{" + b", ".join(parts) + b"}" == raw else None


def split(raw: bytes) -> Split:
    """Cuts the large values of one line; the answer joins to exactly `raw`."""
    if len(raw) < _LEAST or not _may_be_cut(raw) or (spans := spans_of(raw)) is None:
        return Split(raw)
    cuts = sorted(
        spans[name] for name, least in SPLITTABLE.items() if name in spans and spans[name][1] - spans[name][0] >= least
    )
    made = Split(b"")
    parts: list[bytes] = []
    at = offset = 0
    for start, end in cuts:
        start, end = _inner_list(raw, start, end) or (start, end)
        offset += start - at
        _keep(raw[start:end], offset, made)
        parts += (raw[at:start], b"0")
        offset += 1
        at = end
    made.line = b"".join([*parts, raw[at:]])
    return made


def _inner_list(raw: bytes, start: int, end: int) -> tuple[int, int] | None:
    """In `{"messages":[…]}` with little around it, the span of the list; so that keyword calls share transcripts too."""
    if end - start <= LIST_AT or raw[start : start + 1] != b"{" or raw.find(b"[", start, end) < 0:
        return None
    spans = spans_of(raw[start:end])
    if spans is None:
        return None
    lists = [(a, b) for a, b in spans.values() if b - a >= LIST_AT and raw[start + a : start + a + 1] == b"["]
    if len(lists) != 1 or (end - start) - (lists[0][1] - lists[0][0]) > 4 * BODY_AT:
        return None
    return start + lists[0][0], start + lists[0][1]


def _keep(value: bytes, offset: int, made: Split) -> None:
    chain = _chain(value) if len(value) >= LIST_AT else None
    if chain is None:
        digest = sha256(value)
        made.bodies[digest] = value
        made.slots.append([offset, "b", digest.hex(), len(value)])
        return
    items, separator = chain
    parent = b""  # of the first node: none
    for item in items:
        digest = sha256(item)
        made.bodies[digest] = item
        node = node_digest(parent, digest)
        made.nodes.append((node, parent or None, digest))
        parent = node
    made.slots.append([offset, "n", parent.hex(), len(value), separator.decode("ascii")])


def _chain(value: bytes) -> tuple[list[bytes], bytes] | None:
    """The items of a list and their one separator; None when joining them would not give these bytes."""
    if not value.startswith(b"["):
        return None
    items, separator = _items(value)
    return (items, separator) if len(items) >= 2 and b"[" + separator.join(items) + b"]" == value else None


def _items(value: bytes) -> tuple[list[bytes], bytes]:
    """The elements of an array's text, and what stands between the first two; no elements when it is none."""
    try:
        items = [bytes(v) for v in _elements(value)]
    except _NOT_PLAIN:
        spans = wire.items_of(value) or []
        items = [value[a:b] for a, b in spans]
        return items, value[spans[0][1] : spans[1][0]] if len(items) > 1 else b""
    between = _BETWEEN.match(value, 1 + len(items[0])) if items else None
    return items, between.group() if between else b""


def wanted(lines: Iterable[Sequence[Slot] | None]) -> tuple[set[bytes], set[bytes]]:
    """Digests that these slots need: (bodies, list ends)."""
    bodies: set[bytes] = set()
    nodes: set[bytes] = set()
    for slots in lines:
        for slot in slots or ():
            (bodies if slot[1] == "b" else nodes).add(bytes.fromhex(slot[2]))
    return bodies, nodes


def join(
    line: bytes,
    slots: Sequence[Slot] | None,
    body_of: Callable[[bytes], bytes],
    list_of: Callable[[bytes], list[bytes]],
) -> bytes:
    """The raw line again. `body_of` gives a body by digest, `list_of` the item digests of a list by its last node."""
    if not slots:
        return line
    parts: list[bytes] = []
    at = 0
    for slot in slots:
        offset, form, digest = slot[0], slot[1], bytes.fromhex(slot[2])
        parts.append(line[at:offset])
        if form == "b":
            parts.append(body_of(digest))
        else:
            parts.append(b"[" + slot[4].encode("ascii").join(map(body_of, list_of(digest))) + b"]")
        at = offset + 1
    parts.append(line[at:])
    return b"".join(parts)


_PLAIN_BELOW = 128  # bytes; zstd does not pay below


def cut_mark(slot: Slot) -> bytes:
    """The JSON that stands for a value that was left out: `{"$cut":{"digest":…,"size":…}}`."""
    return b'{"$cut":{"digest":"sha256:%b","size":%d}}' % (slot[2].encode("ascii"), slot[3])


class _Zstd(threading.local):
    """Contexts of this thread: making one costs five times what it takes to compress a message."""

    def __init__(self) -> None:
        self.compress = zstandard.ZstdCompressor(level=3).compress
        self.decompress = zstandard.ZstdDecompressor().decompress


_zstd = _Zstd()


def pack(body: bytes) -> bytes:
    """As stored: a marker byte, then the bytes, plain (0) or zstd (1)."""
    if len(body) >= _PLAIN_BELOW:
        packed = _zstd.compress(body)
        if len(packed) < len(body):
            return b"\x01" + packed
    return b"\x00" + body


def unpack(stored: bytes) -> bytes:
    """The bytes that `pack` was given."""
    return _zstd.decompress(stored[1:]) if stored[:1] == b"\x01" else stored[1:]


class Known:
    """List nodes that this process has seen committed; spares sending a transcript's old part again. Bounded."""

    def __init__(self, size: int = 50_000) -> None:
        self._size = size
        self._seen: OrderedDict[bytes, None] = OrderedDict()

    def __contains__(self, node: bytes) -> bool:
        return node in self._seen

    def add(self, nodes: Iterable[bytes]) -> None:
        for node in nodes:
            self._seen[node] = None
            self._seen.move_to_end(node)
        while len(self._seen) > self._size:
            self._seen.popitem(last=False)

    def clear(self) -> None:
        self._seen.clear()

    def trim(self, made: Split) -> tuple[Split, list[bytes]]:
        """`made` without what is known to be stored, and the nodes that the rest leans on."""
        first_new = [n for n in made.nodes if n[0] not in self._seen]
        need = [p for _, p, _ in first_new if p is not None and p in self._seen]
        items = {item for _, _, item in first_new}
        old_items = {item for _, _, item in made.nodes} - items
        alone = {bytes.fromhex(s[2]) for s in made.slots if s[1] == "b"}
        bodies = {d: b for d, b in made.bodies.items() if d not in old_items or d in alone}
        return Split(made.line, made.slots, bodies, first_new), need
