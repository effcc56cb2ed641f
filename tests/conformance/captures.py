"""Every capture of `tests/fixtures/adapters`, as an import would be given it."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from journals.adapters.base import InputFile

__all__ = ["FIXTURES", "Capture", "captures", "captures_of", "files_of"]

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "adapters"
NO_EXPORT = (".md",)
FORMS = (
    ".show.json", ".describe.json", ".metadata.json", ".cli-list.json", ".cli-steps.", ".client-list.json", ".client-steps.json",
)  # fmt: skip
"""Endings of files that one export is made of; what stands before one is its name."""


@dataclass(frozen=True, slots=True)
class Capture:
    """Files that are imported together."""

    adapter: str
    name: str
    files: tuple[tuple[str, bytes], ...]  # path below the adapter's folder, unpacked bytes

    def __str__(self) -> str:
        return f"{self.adapter}:{self.name}"

    @property
    def size(self) -> int:
        return sum(len(data) for _, data in self.files)

    def inputs(self) -> list[InputFile]:
        return files_of(self.files)


def files_of(files: tuple[tuple[str, bytes], ...]) -> list[InputFile]:
    return [InputFile.of(path, data) for path, data in files]


@cache
def captures() -> tuple[Capture, ...]:
    """Each file by itself; besides, those together that are one export, and those of a folder that is one."""
    made = []
    for folder in sorted(p for p in FIXTURES.iterdir() if p.is_dir()):
        made += captures_of(folder.name, folder)
    return (*made, *captures_of("lines", FIXTURES.parent / "lines"))


def captures_of(adapter: str, folder: Path) -> list[Capture]:
    """The captures of one folder, for another one than that of the fixtures too."""
    read = {path: data for path, data in _read(folder)}
    made = [Capture(adapter, path, ((path, data),)) for path, data in read.items()]
    for name, paths in sorted(_together(read)) if adapter != "lines" else ():
        made.append(Capture(adapter, name, tuple((path, read[path]) for path in paths)))
    return made


def _read(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix not in NO_EXPORT):
        data = path.read_bytes()
        name = str(path.relative_to(folder))
        if data[:2] != b"\x1f\x8b":
            yield name, data
        else:
            unpacked = zlib.decompressobj(wbits=31)  # one of them is cut, and gives what it holds
            yield name.removesuffix(".gz"), unpacked.decompress(data)


def _together(read: dict[str, bytes]) -> Iterator[tuple[str, list[str]]]:
    stems: dict[str, list[str]] = {}
    folders: dict[str, list[str]] = {}
    for path in read:
        for form in FORMS:
            if form in path:
                stems.setdefault(path.split(form)[0], []).append(path)
                break
        inside = path.rpartition("/")[0]
        if inside and not any(form in other for other in read if other.startswith(f"{inside}/") for form in FORMS):
            folders.setdefault(inside, []).append(path)
    for name, paths in [*stems.items(), *folders.items()]:
        if len(paths) > 1:
            yield f"{name}*", paths
