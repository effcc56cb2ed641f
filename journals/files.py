"""Opens the files of an import: freed of gzip and UTF-16, with limits that hold before the cost.

Content decides, never a name. A gzip stream is walked once before anything of it is used, so that a bomb is refused
and a cut one is known to be cut. Archives are refused by name: their members would be files that nobody named.
"""

from __future__ import annotations

import codecs
import io
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final

from journals.adapters.base import InputFile

__all__ = ["LIMITS", "CannotOpen", "Found", "Gunzip", "Limits", "gather", "open_input"]


class CannotOpen(Exception):
    """The file is nothing that an adapter could read; the message says what it is and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bytes; a file beyond one of them is refused whole, before anything of it is kept."""

    unpacked: int = 2 << 30
    ratio: int = 200  # unpacked to packed, asked once `ratio_from` is unpacked
    ratio_from: int = 64 << 20


LIMITS: Final = Limits()
CHUNK: Final = 1 << 20
PIECE: Final = (
    16 << 10
)  # packed bytes given to zlib at once: what is left of them is copied at the end of each gzip stream
MEMBERS: Final = 100_000  # gzip streams in one file

_SIGNATURES: Final = (
    (0, b"PK\x03\x04", "a zip archive; unpack it and import the files in it"),
    (0, b"PK\x05\x06", "an empty zip archive"),
    (257, b"ustar", "a tar archive; unpack it and import the files in it"),
    (0, b"\x28\xb5\x2f\xfd", "compressed by zstd; unpack it (`zstd -d`) or use gzip"),
    (0, b"BZh", "compressed by bzip2; unpack it (`bunzip2`) or use gzip"),
    (0, b"\xfd7zXZ\x00", "compressed by xz; unpack it (`unxz`) or use gzip"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive; unpack it and import the files in it"),
    (0, b"%PDF-", "a PDF document"),
    (0, b"\x00\x00\xfe\xff", "UTF-32 text; save it as UTF-8 (`iconv -f UTF-32 -t UTF-8`)"),
    (0, b"\xff\xfe\x00\x00", "UTF-32 text; save it as UTF-8 (`iconv -f UTF-32 -t UTF-8`)"),
    *(
        (0, b"\x80" + bytes([n]), "a Python pickle; pickles are never opened, because that would run code")
        for n in range(2, 6)
    ),
)
_GZIP: Final = b"\x1f\x8b"
_UTF16: Final = (
    (b"\xff\xfe", "utf-16-le", 2),
    (b"\xfe\xff", "utf-16-be", 2),
    (b"{\0", "utf-16-le", 0),
    (b"[\0", "utf-16-le", 0),
    (b"\0{", "utf-16-be", 0),
)


@dataclass(frozen=True, slots=True)
class Found:
    """A file that was named, or that lies in a folder that was named; `problem` when it cannot be read at all."""

    path: str
    size: int
    open: Callable[[], BinaryIO]
    problem: str = ""


def gather(paths: Sequence[str]) -> Iterator[Found]:
    """Every regular file of these paths, folders walked in name order. Folders whose name begins with a dot are left out."""
    for path in paths:
        if not os.path.isdir(path):
            yield _found(path)
            continue
        for folder, below, names in os.walk(path):
            below[:] = sorted(d for d in below if not d.startswith("."))
            for name in sorted(names):
                yield _found(os.path.join(folder, name))


def _found(path: str) -> Found:
    try:
        size = os.stat(path).st_size
        problem = "" if os.path.isfile(path) else "not a regular file"
        if not problem:
            open(path, "rb").close()
    except (OSError, ValueError) as e:
        size, problem = 0, getattr(e, "strerror", None) or str(e)
    return Found(path, size, lambda: open(path, "rb"), problem)


def open_input(path: str, size: int, opener: Callable[[], BinaryIO], *, limits: Limits = LIMITS) -> InputFile:
    """The file ready for an adapter. Raises `CannotOpen` for an empty file, an archive, a pickle, and for what is over a limit."""
    if size == 0:
        raise CannotOpen("the file is empty")
    if size > limits.unpacked:
        raise CannotOpen(f"the file has {size} bytes, the limit is {limits.unpacked}")
    made = InputFile(path, size, opener)
    head = made.head(512)
    if head.startswith(_GZIP):
        made, head = _open_gzip(made, limits)
    for at, mark, what in _SIGNATURES:
        if head[at : at + len(mark)] == mark:
            raise CannotOpen(f"the file is {what}")
    return _open_utf16(made, head)


def _open_gzip(packed: InputFile, limits: Limits) -> tuple[InputFile, bytes]:
    def opener() -> BinaryIO:
        return io.BufferedReader(Gunzip(packed.open(), limits=limits), CHUNK)

    with Gunzip(packed.open(), limits=limits) as stream:
        head = stream.read(512) or b""
        size = len(head)
        while got := stream.read(CHUNK):
            size += len(got)
        members, ended = stream.members, stream.ended
    if head.startswith(_GZIP):
        raise CannotOpen("the file is gzip inside gzip; unpack it once")
    if not size:
        raise CannotOpen(ended or "the gzip stream holds nothing")
    notes = ("gzip" if members == 1 else f"gzip of {members} members",)
    return InputFile(packed.path, size, opener, notes, ended), head


def _open_utf16(plain: InputFile, head: bytes) -> InputFile:
    for mark, codec, skip in _UTF16:
        if head.startswith(mark):
            cut = plain.cut or ("the file ends inside a UTF-16 character" if plain.size % 2 else "")
            notes = (*plain.notes, "UTF-16 text, read as UTF-8: bytes are counted after the change")
            return InputFile(plain.path, -1, _recoder(plain, codec, skip), notes, cut)
    return plain


def _recoder(plain: InputFile, codec: str, skip: int) -> Callable[[], BinaryIO]:
    return lambda: io.BufferedReader(_Recoded(plain.open(), codec, skip), CHUNK)


class Gunzip(io.RawIOBase):
    """The unpacked bytes of a gzip stream of one or more members, as a forward-only stream.

    A stream that is cut or damaged ends early and says why in `ended`; nothing is raised for it. Raises `CannotOpen` as soon as
    the unpacked bytes pass a limit.
    """

    def __init__(self, source: BinaryIO, *, limits: Limits = LIMITS) -> None:
        super().__init__()
        self._source, self._limits = source, limits
        self._member: zlib._Decompress = zlib.decompressobj(wbits=31)
        self._input = b""
        self._out = memoryview(b"")
        self._consumed = self._produced = 0
        self._done = False
        self.members = 1
        self.ended = ""

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._source.close()
        super().close()

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._out and not self._done:
            if self._member.eof and not self._next_member():
                break
            if self._input or self._refill():
                self._unpack(len(buffer))
            else:
                self._end(f"the gzip stream is cut after {self._produced} unpacked bytes")
        size = min(len(buffer), len(self._out))
        buffer[:size] = self._out[:size]
        self._out = self._out[size:]
        return size

    def _unpack(self, most: int) -> None:
        before = self._member.copy()
        try:
            got = self._member.decompress(self._input, most)
        except zlib.error as e:
            self._count(_up_to_damage(before, self._input))
            self._end(
                f"the gzip stream is damaged after {self._produced} unpacked bytes ({str(e).partition(': ')[2] or e})"
            )
            return
        self._input = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
        self._count(got)

    def _refill(self) -> bool:
        self._input = self._source.read(PIECE)
        self._consumed += len(self._input)
        return bool(self._input)

    def _next_member(self) -> bool:
        """Goes on to the next member; zero bytes after the last one are padding."""
        while not self._input.strip(b"\0"):
            if not self._refill():
                self._done = True
                return False
        rest = self._input.lstrip(b"\0")
        if len(rest) < 2:
            rest += self._source.read(1)
        if not rest.startswith(_GZIP):
            self._end(f"bytes that are not gzip follow after member {self.members}")
            return False
        self._input, self._member = rest, zlib.decompressobj(wbits=31)
        self.members += 1
        if self.members > MEMBERS:
            raise CannotOpen(f"the file is more than {MEMBERS} gzip streams in a row")
        return True

    def _end(self, why: str) -> None:
        self.ended, self._done = why, True

    def _count(self, got: bytes) -> None:
        self._out = memoryview(got)
        self._produced += len(got)
        if self._produced > self._limits.unpacked:
            raise CannotOpen(f"unpacked, the file has more than {self._limits.unpacked} bytes, which is the limit")
        if self._produced > self._limits.ratio_from and self._produced > self._limits.ratio * self._consumed:
            raise CannotOpen(
                f"the file unpacks to more than {self._limits.ratio} times its size; unpack it yourself if you trust it"
            )


def _up_to_damage(member: zlib._Decompress, data: bytes) -> bytes:
    """What comes out before the damage: zlib throws away the output of the call that fails, so the bytes go in one by one."""
    made = bytearray()
    for i in range(len(data)):
        try:
            made += member.decompress(data[i : i + 1])
        except zlib.error:
            break
    return bytes(made)


class _Recoded(io.RawIOBase):
    """UTF-16 as UTF-8, forward only. Lone surrogates pass as bytes that are not UTF-8, so that they are flagged, not lost."""

    def __init__(self, source: BinaryIO, codec: str, skip: int) -> None:
        super().__init__()
        self._source = source
        self._decoder = codecs.getincrementaldecoder(codec)("surrogatepass")
        self._out = memoryview(b"")
        self._source.read(skip)

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._source.close()
        super().close()

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._out:
            data = self._source.read(CHUNK >> 2)
            if not data:
                return 0  # an odd last byte stays in the decoder: the file is marked as cut
            self._out = memoryview(self._decoder.decode(data).encode("utf-8", "surrogatepass"))
        size = min(len(buffer), len(self._out))
        buffer[:size] = self._out[:size]
        self._out = self._out[size:]
        return size
