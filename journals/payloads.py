"""Large values kept apart by content, so that a growing transcript costs what is new.

`split` cuts the large top-level values out of a raw line; `join` puts the very same bytes back. A list (a transcript)
becomes a chain: each node is the hash of its parent and one item, so a longer list is one more node and one more body.
Pure: no database. A line whose parts would not join to identical bytes is not split.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

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


def split(raw: bytes) -> Split:
    """Cuts the large values of one line; the answer joins to exactly `raw`."""
    if len(raw) < min(SPLITTABLE.values()) or (spans := wire.spans_of(raw)) is None:
        return Split(raw)
    cuts = sorted(
        spans[name] for name, least in SPLITTABLE.items() if name in spans and spans[name][1] - spans[name][0] >= least
    )
    made = Split(b"")
    parts: list[bytes] = []
    at = 0
    for start, end in cuts:
        inner = _inner_list(raw, start, end)
        start, end = inner or (start, end)
        parts.append(raw[at:start])
        offset = sum(map(len, parts))
        _keep(raw[start:end], offset, made)
        parts.append(b"0")
        at = end
    parts.append(raw[at:])
    made.line = b"".join(parts)
    return made


def _inner_list(raw: bytes, start: int, end: int) -> tuple[int, int] | None:
    """In `{"messages":[…]}` with little around it, the span of the list; so that keyword calls share transcripts too."""
    if raw[start : start + 1] != b"{":
        return None
    spans = wire.spans_of(raw[start:end])
    if spans is None:
        return None
    lists = [(a, b) for a, b in spans.values() if raw[start + a : start + a + 1] == b"[" and b - a >= LIST_AT]
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
    spans = wire.items_of(value)
    if not spans or len(spans) < 2:
        return None
    separator = value[spans[0][1] : spans[1][0]]
    items = [value[a:b] for a, b in spans]
    return (items, separator) if b"[" + separator.join(items) + b"]" == value else None


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


def pack(body: bytes) -> bytes:
    """As stored: a marker byte, then the bytes, plain (0) or zstd (1)."""
    if len(body) >= _PLAIN_BELOW:
        packed = zstandard.ZstdCompressor(level=3).compress(body)
        if len(packed) < len(body):
            return b"\x01" + packed
    return b"\x00" + body


def unpack(stored: bytes) -> bytes:
    """The bytes that `pack` was given."""
    return zstandard.ZstdDecompressor().decompress(stored[1:]) if stored[:1] == b"\x01" else stored[1:]


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
