"""Compression and encodings are found by content; limits hold before the cost; archives and pickles are refused by name."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from pathlib import Path

import pytest

from journals.adapters.base import InputFile, shown
from journals.files import CannotOpen, Limits, gather, open_input
from tests.ingest.conftest import TORN, memory

GOOD = (TORN / "00-good.jsonl").read_bytes()
SMALL = Limits(unpacked=8 << 20, ratio=200, ratio_from=1 << 20)


def opened(data: bytes, *, limits: Limits = SMALL) -> InputFile:
    return open_input("f", len(data), memory("f", data).open, limits=limits)


def test_refuses_a_gzip_bomb() -> None:
    with pytest.raises(CannotOpen, match="200 times its size"):
        opened(gzip.compress(bytes(4 << 20)))


def test_takes_a_small_file_however_well_it_packs() -> None:
    assert opened(gzip.compress(bytes(1 << 20))).size == 1 << 20


def test_refuses_what_is_over_the_size_packed_or_not() -> None:
    tight = Limits(unpacked=1_000, ratio=10_000)
    with pytest.raises(CannotOpen, match="the limit is 1000"):
        opened(bytes(1_001), limits=tight)
    with pytest.raises(CannotOpen, match="more than 1000 bytes"):
        opened(gzip.compress(bytes(1_001)), limits=tight)


def test_refuses_gzip_inside_gzip() -> None:
    with pytest.raises(CannotOpen, match="gzip inside gzip"):
        opened(gzip.compress(gzip.compress(GOOD)))


def zipped() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        made.writestr("../../run.jsonl", GOOD)
    return out.getvalue()


def tarred() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as made:
        made.addfile(tarfile.TarInfo("run.jsonl"))
    return out.getvalue()


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (zipped(), "zip archive"),
        (gzip.compress(zipped()), "zip archive"),
        (tarred(), "tar archive"),
        (gzip.compress(tarred()), "tar archive"),
        (bz2.compress(GOOD), "bzip2"),
        (lzma.compress(GOOD), "xz"),
        (b"\x28\xb5\x2f\xfdrest", "zstd"),
        (b"\x80\x04}\x94\x8c\x01a\x94K\x01s.", "pickle"),
        (GOOD.decode().encode("utf-32"), "UTF-32"),
        (b"", "empty"),
        (gzip.compress(b""), "nothing"),
    ],
    ids=["zip", "zip.gz", "tar", "tar.gz", "bz2", "xz", "zstd", "pickle", "utf-32", "empty", "empty.gz"],
)
def test_refuses_by_name(data: bytes, word: str) -> None:
    with pytest.raises(CannotOpen, match=word):
        opened(data)


@pytest.mark.parametrize("size", [1, 7, 4_096, 1 << 20])
def test_gives_what_comes_before_the_damage_however_it_is_read(size: int) -> None:
    packed = bytearray(gzip.compress(GOOD))
    packed[-5] ^= 1
    file = opened(bytes(packed))
    assert "damaged" in file.cut
    with file.open() as stream:
        assert b"".join(iter(lambda: stream.read(size), b"")) == GOOD


@pytest.mark.parametrize("cut", range(1, len(gzip.compress(GOOD))))
def test_every_cut_of_a_gzip_file_is_refused_or_called_cut(cut: int) -> None:
    try:
        file = opened(gzip.compress(GOOD)[:cut])
    except CannotOpen:
        return
    assert file.cut or not file.notes, "a single byte of gzip's mark is no gzip"
    assert not file.notes or GOOD.startswith(file.read())


def test_takes_zero_padding_and_names_other_text_behind_gzip() -> None:
    assert opened(gzip.compress(GOOD) + bytes(600)).cut == ""
    assert "not gzip" in opened(gzip.compress(GOOD) + b"more").cut


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be"])
def test_reads_utf_16(codec: str) -> None:
    file = opened(GOOD.decode().encode(codec))
    assert file.read() == GOOD
    assert opened(GOOD.decode().encode(codec)[:-1]).cut


def test_walks_folders_in_order_and_says_what_cannot_be_read(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", ".hidden/x", "sub/c.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(GOOD)
    found = list(gather([str(tmp_path), str(tmp_path / "none")]))
    assert [f.path.removeprefix(f"{tmp_path}/") for f in found] == ["a.jsonl", "b.jsonl", "sub/c.jsonl", "none"]
    assert found[-1].problem == "No such file or directory"


def test_shows_text_that_nothing_can_act_on() -> None:
    assert shown("a\x1b[2J\x07\u202e\u200b\ud83d\x85é😀") == "a\\x1b[2J\\x07\\u202e\\u200b\\ud83d\\x85é😀"
    assert shown(b"\xff\xfe caf\xc3\xa9") == "\\xff\\xfe café"
    assert len(shown("x" * 500)) == len(shown("\x1b" * 500)) == 80
