"""What an adapter is: a pure reader of one runtime's export. Bytes in, journal lines out; no Django, no clock, no network.

An adapter is a package (or a module) with the constants `INFO: AdapterInfo` and the functions

    sniff(files) -> float            how sure it is that it can read these files, 0 to 1; looks at `head` only
    read(files, options) -> Iterator[Item]

`read` never raises for bad content: what cannot be read is an `Unread` or a `Refused` item. Lines of one run come in the
order in which they are to be stored.
"""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal, Protocol

from journals.adapters.controls import Control
from journals.adapters.replies import Answer, Reply, one_by_one

StartEvidence = Literal["before_effect", "on_close", "never"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the runtime's journal proves. `before_effect`: a start stands in the journal before the effect can happen;
    `on_close`: it is written late, or says only that a step was scheduled; `never`: a step leaves a record only at its end."""

    write: StartEvidence
    read: StartEvidence
    attempts: bool  # every attempt of a step leaves its own record
    says_end: bool  # an export states its own end (length or end mark)
    note: str = ""  # one sentence for people, shown beside verdicts


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterInfo:
    name: str  # the runtime's word in URLs and JSON: lines, temporal, dbos
    title: str
    evidence: Evidence
    capabilities: frozenset[str] = (
        frozenset()
    )  # of: stop, pin, resume, approve (what the runtime's own controls can do)
    controls: tuple[Control, ...] = ()  # the runtime's own commands, most direct first; nothing here runs them
    replies: Callable[[Sequence[Answer]], Sequence[Reply]] = one_by_one  # the calls that tell it what was decided
    limits: tuple[Mapping[str, Any], ...] = ()  # {what, unit, limit, source, as_of}
    chain_separator: str = ""  # run ids are `<name><separator><execution>`; people know the name
    how_to_export: str = ""  # shell commands that make the files we read; what differs is a variable ($RUN_ID)
    files: tuple[str, ...] = ()  # the files that they make, as a shell writes them; empty: none to import
    versions_from: str = ""  # where versions are looked for without a mapping, as the end of a sentence
    together: str = ""  # which files belong in one import, and what else is read; one or two sentences


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file of an import, already freed of compression. `open()` gives a fresh binary stream from its start."""

    path: str  # as the user named it, for reports
    size: int  # bytes, unpacked; -1 when not known before reading
    open: Callable[[], BinaryIO]
    notes: tuple[str, ...] = ()  # what unpacking met: gzip, members, cut
    cut: str = ""  # why the unpacked bytes end early; empty when they do not

    def head(self, n: int = 65_536) -> bytes:
        with self.open() as f:
            return f.read(n)

    def read(self) -> bytes:
        with self.open() as f:
            return f.read()

    @staticmethod
    def of(path: str, data: bytes) -> InputFile:
        """A file from memory, for tests."""
        return InputFile(path, len(data), lambda: io.BytesIO(data))


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    agent: str = ""
    environment: str = ""
    known: Callable[[Sequence[str]], frozenset[str]] = lambda _: frozenset()  # which of these runs the source has


@dataclass(frozen=True, slots=True)
class Line:
    """One entry. `raw` is the journal line (UTF-8, no newline): the file's own bytes for the `lines` format, made by
    `wire.dump` elsewhere. `record` points at its origin in the file: `line=12`, `/events/10`, `operation_outputs/<id>/3`.
    `oddities` names what is odd about the record behind it, in the words of `wire.parse`, or `opaque_payload`, `encrypted_payload`,
    `duplicate_entry`; what the line itself does not show is stored in its field `oddities`."""

    run: str
    raw: bytes
    record: str
    path: str
    oddities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unread:
    """A stretch of a file that became no entry. `line` from 1, `byte` from 0 in the unpacked file, `start` at most 80 safe characters."""

    path: str
    line: int
    byte: int
    reason: str
    start: str


DOUBT = "the last rows may be missing"
"""In a note: nothing of the file was lost, but nobody can tell whether it is all. A run's page repeats such a note."""


@dataclass(frozen=True, slots=True)
class Note:
    """Something about the file that lost nothing: a BOM, CRLF, two records on one line."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing of the file was taken, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Partial:
    """Part of the file is missing (torn tail, cut gzip): its runs are not complete, and why."""

    path: str
    reason: str
    runs: tuple[str, ...] = ()  # empty: every run of the file
    code: str = "torn_tail"  # or missing_entry: something in the middle was not read


@dataclass(frozen=True, slots=True)
class Counted:
    """How many lines (or records) the file has; read + unread must be equal to it."""

    path: str
    lines: int


RUN_LIMIT = 1_200  # bytes of a run id in UTF-8: an index holds it, in a form that may take twice as much


def run_problem(run: str) -> str:
    """Why this run id cannot be kept; empty when it can."""
    if len(run) * 4 <= RUN_LIMIT:
        return ""
    size = len(run.encode("utf-8", "surrogatepass"))
    return f"the run id has {size} bytes, the limit is {RUN_LIMIT}" if size > RUN_LIMIT else ""


def shown(text: bytes | str, limit: int = 80) -> str:
    """At most `limit` characters that are safe on a terminal, in a log line and in PostgreSQL's JSON.

    Control, format (bidirectional, zero-width), line-separator and unassigned characters, and bytes that are not UTF-8 are
    written as `\\x1b`, `\\u202e`; an ellipsis says that more follows.
    """
    whole = text if isinstance(text, str) else text[: 4 * limit + 4].decode("utf-8", "backslashreplace")
    made = "".join(
        c if _plain(c) else c.encode("ascii", "backslashreplace").decode() if ord(c) > 127 else f"\\x{ord(c):02x}"
        for c in whole[: limit + 1]
    )
    return made if len(whole) <= limit and len(made) <= limit else made[: limit - 1] + "…"


def _plain(c: str) -> bool:
    return c == " " or unicodedata.category(c) not in {"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"}


Item = Line | Unread | Note | Refused | Partial | Counted


class Adapter(Protocol):
    INFO: AdapterInfo

    def sniff(self, files: Sequence[InputFile]) -> float: ...

    def read(self, files: Sequence[InputFile], options: Options) -> Iterator[Item]: ...
