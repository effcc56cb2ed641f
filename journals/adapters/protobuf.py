"""Takes protobuf bytes apart by the wire format alone: numbers and byte strings, no schema, no objects. Pure.

Nothing is unfolded by itself: a byte string may be a text, bytes or another message, and only the caller knows which.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MOST_FIELDS: Final = 100_000  # of one message
_VARINT_BYTES: Final = 10
_WIDTHS: Final = {1: 8, 5: 4}  # wire types of fixed numbers


class MalformedProtobuf(ValueError):
    """The bytes are no protobuf message; the text says at which byte and why."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field. `value` is an unsigned number (varint, fixed) or the bytes of a length-delimited field."""

    number: int
    wire_type: int  # 0 varint, 1 fixed 64, 2 length-delimited, 5 fixed 32
    value: int | bytes


class Message:
    """The fields of one message by number; of a field that stands more than once, the last counts, as protobuf says."""

    def __init__(self, data: bytes) -> None:
        self.fields: dict[int, list[Field]] = {}
        for field in fields(data):
            self.fields.setdefault(field.number, []).append(field)

    def number(self, field: int) -> int | None:
        """The varint or fixed number of a field; None when it is absent or something else."""
        found = self.fields.get(field)
        return found[-1].value if found and isinstance(found[-1].value, int) else None

    def data(self, field: int) -> bytes | None:
        """The bytes of a length-delimited field; None when it is absent or something else."""
        found = self.fields.get(field)
        return found[-1].value if found and isinstance(found[-1].value, bytes) else None

    def text(self, field: int) -> str | None:
        """The bytes of a field as UTF-8; None when absent or not UTF-8."""
        found = self.data(field)
        try:
            return None if found is None else found.decode("utf-8")
        except UnicodeDecodeError:
            return None

    def message(self, field: int) -> Message | None:
        """The field taken apart as a message; None when absent. Raises `MalformedProtobuf`."""
        found = self.data(field)
        return None if found is None else Message(found)


def fields(data: bytes) -> Iterator[Field]:
    """The fields of a message in order. Raises `MalformedProtobuf`; groups (wire types 3 and 4) are not taken."""
    at = count = 0
    while at < len(data):
        tag, at = varint(data, at)
        number, wire_type = tag >> 3, tag & 7
        count += 1
        if number == 0:
            raise MalformedProtobuf(f"field number 0 at byte {at}")
        if count > MOST_FIELDS:
            raise MalformedProtobuf(f"more than {MOST_FIELDS} fields")
        if wire_type == 0:
            value, at = varint(data, at)
            yield Field(number, wire_type, value)
            continue
        if wire_type == 2:
            size, at = varint(data, at)
        elif wire_type in _WIDTHS:
            size = _WIDTHS[wire_type]
        else:
            raise MalformedProtobuf(f"wire type {wire_type} at byte {at}")
        if size > len(data) - at:
            raise MalformedProtobuf(f"field {number} at byte {at} needs {size} bytes, {len(data) - at} are left")
        body = data[at : at + size]
        at += size
        yield Field(number, wire_type, body if wire_type == 2 else int.from_bytes(body, "little"))


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The number that begins at `at`, and where it ends. Raises `MalformedProtobuf` when it has no end in 10 bytes."""
    value = 0
    for i in range(_VARINT_BYTES):
        if at + i >= len(data):
            raise MalformedProtobuf(f"a number at byte {at} has no end")
        byte = data[at + i]
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at + i + 1
    raise MalformedProtobuf(f"a number at byte {at} is longer than {_VARINT_BYTES} bytes")
