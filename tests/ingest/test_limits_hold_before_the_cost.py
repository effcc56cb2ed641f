"""Hostile files are refused, or read as what they are, in bounded memory and after a bounded number of bytes."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from journals.adapters import lines
from journals.adapters.base import Options, Unread
from journals.files import LIMITS, CannotOpen, open_input

BASE = Path(__file__).resolve().parents[2]
MIB = 1 << 20


class Counting(io.BytesIO):
    """Counts what is read of it."""

    taken = 0

    def read(self, size: int | None = -1, /) -> bytes:
        got = super().read(size)
        Counting.taken += len(got)
        return got


def bomb(unpacked: int) -> bytes:
    """Zero bytes, packed, without ever holding them."""
    packer = zlib.compressobj(9, wbits=31)
    return b"".join([*(packer.compress(bytes(16 * MIB)) for _ in range(unpacked // (16 * MIB))), packer.flush()])


def test_a_gzip_bomb_is_refused_after_its_first_bytes() -> None:
    data = bomb(256 * MIB)  # the beginning of 10 GiB of zeros looks no different
    Counting.taken = 0
    with pytest.raises(CannotOpen, match="more than 200 times"):
        open_input("f", len(data), lambda: Counting(data))
    assert Counting.taken * LIMITS.ratio < 2 * LIMITS.ratio_from


def test_gzip_inside_gzip_is_refused_unseen() -> None:
    inner = bomb(64 * MIB)
    data = gzip.compress(gzip.compress(inner))
    with pytest.raises(CannotOpen, match="gzip inside gzip"):
        open_input("f", len(data), lambda: io.BytesIO(data))


def test_a_bomb_of_many_members_is_refused() -> None:
    data = bomb(16 * MIB) * 40
    with pytest.raises(CannotOpen, match="more than 200 times"):
        open_input("f", len(data), lambda: io.BytesIO(data))
    data = gzip.compress(b"") * 100_001
    with pytest.raises(CannotOpen, match="gzip streams in a row"):
        open_input("f", len(data), lambda: io.BytesIO(data))


def test_brackets_without_end_are_one_loss() -> None:
    for data in (b"[" * 10**7, b'{"run":"r","kind":"note","out":' + b"[" * 10**7):
        file = open_input("f", len(data), lambda data=data: io.BytesIO(data))  # type: ignore[misc]
        found = [i for i in lines.read([file], Options()) if isinstance(i, Unread)]
        assert len(found) == 1


CHILD = """
import io, resource, sys
from journals.adapters import lines
from journals.adapters.base import Counted, InputFile, Line, Options, Unread
from journals import payloads
from drainboard import wire

class Made(io.RawIOBase):
    def __init__(self, parts): self.parts, self.left = parts, b""
    def readable(self): return True
    def readinto(self, buffer):
        self.left = self.left or next(self.parts, b"")
        size = min(len(buffer), len(self.left))
        buffer[:size], self.left = self.left[:size], self.left[size:]
        return size

def one_line():
    yield b'{"run":"r","kind":"note","out":"'
    for _ in range(1024): yield b"x" * (1 << 20)
    yield b'"}\\n{"run":"r","seq":2,"kind":"note"}\\n'

def inner_keys():
    yield b'{"run":"r","kind":"note","out":{"k":1'
    for n in range(1_000_000): yield b',"k%d":1' % n
    yield b'}}\\n{"run":"r","seq":2,"kind":"note"}\\n'

def own_keys():
    yield b'{"run":"r","kind":"note"'
    for n in range(1_000_000): yield b',"k%d":1' % n
    yield b'}\\n{"run":"r","seq":2,"kind":"note"}\\n'

parts = {"one_line": one_line, "inner_keys": inner_keys, "own_keys": own_keys}[sys.argv[1]]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
file = InputFile("f", -1, lambda: io.BufferedReader(Made(parts()), 1 << 20))
entries = lost = 0
for item in lines.read([file], Options()):
    if isinstance(item, Line):
        entries += 1
        assert wire.parse(item.raw).run == "r"
        payloads.split(item.raw)
    lost += isinstance(item, Unread)
print(entries, lost, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


@pytest.mark.parametrize(("what", "entries", "lost"), [("one_line", 1, 1), ("inner_keys", 2, 0), ("own_keys", 1, 1)])
def test_a_line_of_any_size_costs_less_than_100_mib(what: str, entries: int, lost: int) -> None:
    done = subprocess.run([sys.executable, "-c", CHILD, what], cwd=BASE, capture_output=True, text=True, check=True)
    read, unread, mib = map(int, done.stdout.split())
    assert (read, unread) == (entries, lost)
    assert mib < 100


def false_starts(count: int) -> Iterator[bytes]:
    for n in range(count):
        yield b'{"run":"r","seq":%d,"kind":"note","out":[' % n * 100 + b"\n"


def test_false_starts_cost_a_few_times_the_size_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = 0
    real = lines.pieces

    def counting(data: bytes, search: lines.Search) -> Iterator[object]:
        nonlocal looked
        before = search.left
        yield from real(data, search)
        looked += before - search.left

    monkeypatch.setattr(lines, "pieces", counting)
    data = b"".join(false_starts(1_500))
    file = open_input("f", len(data), lambda: io.BytesIO(data))
    found = list(lines.read([file], Options()))
    assert sum(isinstance(i, Unread) for i in found) == 1_500
    assert looked < 2 * len(data) + 17 * MIB


def test_a_glued_record_is_found_behind_false_starts() -> None:
    whole = b'{"run":"r","seq":1,"kind":"note"}\n'
    data = whole * 200 + b'{"run":"r","seq":2,"ki{"run":"r","seq":3,"kind":"note"}\n'
    file = open_input("f", len(data), lambda: io.BytesIO(data))
    assert sum(isinstance(i, lines.Line) for i in lines.read([file], Options())) == 201
