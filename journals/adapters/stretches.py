"""The lines of a file, one after the other, whatever their size. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

__all__ = ["Stretch", "Stretches"]


class Stretch(NamedTuple):
    """A line as it stands in the file, without its line feed."""

    number: int  # from 1
    byte: int  # offset of its first byte
    data: bytes  # all of it up to the limit, the beginning of a longer one
    size: int
    ended: bool  # a line feed follows


class Stretches:
    """The lines of a stream, in order; what is left of them can be counted without looking at each."""

    def __init__(self, stream: BinaryIO, *, limit: int, chunk: int) -> None:
        self._stream, self._limit, self._chunk = stream, limit, chunk  # bytes of a line, and of a read
        self._whole: deque[bytes] = deque()  # lines that end in what was read
        self._held: list[bytes] = []  # the line that does not, cut when it is too long
        self._size = 0  # of that line
        self._number, self._at = 1, 0

    def __iter__(self) -> Iterator[Stretch]:
        return self

    def __next__(self) -> Stretch:
        while not self._whole:
            chunk = self._stream.read(self._chunk)
            if not chunk:
                return self._last()
            first, *whole = chunk.split(b"\n")
            self._hold(first)
            if whole:
                made = self._held_line(ended=True)
                self._hold(whole.pop())
                self._whole.extend(whole)
                return made
        data = self._whole.popleft()
        return self._made(data, len(data), ended=True)

    def _made(self, data: bytes, size: int, *, ended: bool) -> Stretch:
        made = Stretch(self._number, self._at, data, size, ended)
        self._number, self._at = self._number + 1, self._at + size + 1
        return made

    def _hold(self, part: bytes) -> None:
        self._size += len(part)
        if self._size <= self._limit:
            self._held.append(part)
        elif part:  # too long to be read: enough to show how it begins
            self._held = [self._held[0][:4_096]] if self._held else [part[:4_096]]

    def _held_line(self, *, ended: bool) -> Stretch:
        made = self._made(b"".join(self._held), self._size, ended=ended)
        self._held, self._size = [], 0
        return made

    def _last(self) -> Stretch:
        if not self._size:
            raise StopIteration
        return self._held_line(ended=False)

    def count(self) -> int:
        """How many lines are left; reads the stream to its end."""
        lines, open_line = len(self._whole), self._size > 0
        self._whole.clear()
        while chunk := self._stream.read(self._chunk):
            lines += chunk.count(b"\n")
            open_line = not chunk.endswith(b"\n")
        return lines + open_line
