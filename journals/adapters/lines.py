"""Journal lines: one JSON object a line, as `docs/journal-lines.md` describes them.

Every line's exact bytes are kept. Lines end at line feeds only (a carriage return before one belongs to the line's end). Files
that were torn, glued, zero-filled or badly encoded give what they hold, and each stretch that is no entry is named.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from drainboard import wire

from journals.adapters.base import (
    AdapterInfo,
    Counted,
    Evidence,
    InputFile,
    Item,
    Line,
    Note,
    Options,
    Partial,
    Refused,
    Unread,
    run_problem,
    shown,
)  # fmt: skip
from journals.adapters.heads import LineHead, head_of
from journals.adapters.stretches import Stretch, Stretches
from journals.adapters.torn import Balance, Search, one_line, pieces, run_of

__all__ = ["INFO", "read", "sniff"]

INFO: Final = AdapterInfo(
    name="lines",
    title="Journal lines",
    evidence=Evidence(
        write="before_effect",
        read="never",
        attempts=True,
        says_end=False,
        note="The line of a start is written before the effect; a file does not say whether the run went on after its last line.",
    ),
    how_to_export="""cat > run.jsonl <<'EOF'
{"run": "refund-8812", "seq": 1, "kind": "run.started", "at": "2026-11-29T14:03:10Z", "agent": "refund", "build": "41"}
{"run": "refund-8812", "seq": 2, "kind": "tool.started", "at": "2026-11-29T14:03:11Z", "step": 1, "name": "send_refund", "key": "refund-8812:1", "in": {"order": 8812}}
{"run": "refund-8812", "seq": 3, "kind": "tool.result", "at": "2026-11-29T14:03:12Z", "step": 1, "name": "send_refund", "out": "sent"}
EOF""",
    files=("run.jsonl",),
    versions_from="the field versions.",
    together="For a runtime of your own: one JSON object a line, written before the effect and after it. Lines of many runs may stand in one "
    "file, plain or gzip. docs/journal-lines.md has every field.",
)

LINE_LIMIT: Final = 64 << 20  # bytes of one line
BRACKETS: Final = 1_000_000  # brackets of one line: walking over them is what a hostile line costs
JOIN_LINES: Final = 10_000  # lines that one record may span
JOIN_BYTES: Final = 4 << 20
GIVE_UP: Final = 100_000  # stretches of a file that are no entries, and ten times as many as entries: no journal, the rest is not looked at
CHUNK: Final = 1 << 20
_BOM: Final = b"\xef\xbb\xbf"
_BLANK: Final = b" \t\r\n"
_KIND: Final = re.compile(rb'"kind"\s*:\s*"[a-z]+[."]')
_LIKELY: Final = re.compile(rb'\{\s*"run"\s*:\s*"')


def sniff(files: Sequence[InputFile]) -> float:
    """0.9 when one of the first lines is an entry, 0.6 when something starts like one, else 0."""
    return max((_sniff(f.head()) for f in files), default=0.0)


def _sniff(head: bytes) -> float:
    text = head.removeprefix(_BOM).lstrip(_BLANK + b"\0")
    for line in text.split(b"\n", 20)[:20]:
        try:
            head_of(line.strip(_BLANK + b"\0"))
        except wire.MalformedLine:
            continue
        return 0.9
    if text.startswith(b"[") and b'"run"' in text and b'"kind"' in text:
        return 0.7
    cut = text.startswith(b"{") and b"\n" not in text  # the first line is longer than what is looked at
    if cut and b'"run"' in text and _KIND.search(text):
        return 0.6
    return 0.6 if _LIKELY.search(text) else 0.0


def read(files: Sequence[InputFile], options: Options) -> Iterator[Item]:
    """Each file for itself: its entries in file order, what was not read, and how many records it has."""
    for file in files:
        yield from _Reading(file).items()


def _too_much(line: Stretch) -> str:
    if line.size > LINE_LIMIT:
        return f"the line has {line.size} bytes, the limit is {LINE_LIMIT}"
    if line.size > BRACKETS and sum(map(line.data.count, (b"[", b"]", b"{", b"}"))) > BRACKETS:
        return f"the line has more than {BRACKETS} brackets, the limit"
    return ""


class _NoJournal(Exception):
    """So much of the file is no entry that the rest need not be looked at."""


@dataclass(slots=True)
class _Lines:
    """Line numbers, the first few kept."""

    first: list[int] = field(default_factory=list)
    count: int = 0

    def add(self, number: int) -> None:
        self.count += 1
        if len(self.first) < 5 and number not in self.first:
            self.first.append(number)

    def __str__(self) -> str:
        more = self.count - len(self.first)
        word = "line" if self.count == 1 else "lines"
        return f"{word} {', '.join(map(str, self.first))}" + (f" and {more} more" if more > 0 else "")


_NOTES: Final = {
    "bom": "byte order mark skipped",
    "crlf": "lines end in CR LF; the CR is not part of an entry",
    "blank": "blank lines skipped",
    "glued": "more than one record on a line, each read by itself",
    "joined": "a record spread over lines was joined; a line feed inside a string is kept as \\n",
    "array": "the file is one JSON array; each element was read as a line",
    "not_utf8": "bytes that are not UTF-8 were kept as they are and are shown with marks",
    "non_standard_json": "values that standard JSON does not have (NaN, infinities, bare control characters) were kept as text",
    "too_deep": "too deep or too wide to unfold; kept as text",
}


class _Reading:
    """One pass over one file."""

    def __init__(self, file: InputFile) -> None:
        self._file = file
        self._path = file.path
        self._entries = self._unread = 0
        self._notes: dict[str, _Lines] = {}
        self._losses: dict[tuple[str | None, str], _Lines] = {}
        self._ahead: deque[Stretch] = deque()
        self._no_join_before = 0
        self._search = Search()

    def items(self) -> Iterator[Item]:
        for text in self._file.notes:
            yield Note(self._path, text)
        if self._file.head(1_024).removeprefix(_BOM).lstrip(_BLANK)[:1] == b"[":
            yield from self._array()
        else:
            with self._file.open() as stream:
                self._stream = Stretches(stream, limit=LINE_LIMIT, chunk=CHUNK)
                try:
                    while (line := self._next()) is not None:
                        at = line
                        yield from self._line(line)
                except _NoJournal:
                    yield self._rest(at)
        yield from self._summary()

    def _rest(self, first: Stretch) -> Unread:
        """One stretch for all that is left when the file is no journal; the lines in it are counted, not looked at."""
        left = 1 + len(self._ahead) + self._stream.count()
        self._unread += 1
        return Unread(
            self._path,
            first.number,
            first.byte,
            f"{left} lines from here on were not looked at: this is no journal",
            shown(first.data),
        )

    def _next(self) -> Stretch | None:
        return self._ahead.popleft() if self._ahead else next(self._stream, None)

    def _summary(self) -> Iterator[Item]:
        for code, numbers in self._notes.items():
            yield Note(self._path, f"{numbers}: {_NOTES[code]}")
        if self._file.cut:
            yield Partial(self._path, self._file.cut)
        for (run, code), numbers in self._losses.items():
            what = "ends before its record does" if code == "torn_tail" else "not read"
            yield Partial(self._path, f"{numbers} {what}", () if run is None else (run,), code)
        yield Counted(self._path, self._entries + self._unread)
        if not self._entries and not self._losses and not self._file.cut:
            yield Refused(self._path, "the file holds no line")

    # -- one line ---------------------------------------------------------------------------------------------------

    def _line(self, line: Stretch) -> Iterator[Item]:
        data = line.data
        skipped = 0
        if data.startswith(_BOM):
            self._note("bom", line.number)
            data, skipped = data[3:], 3
        if data.endswith(b"\r"):
            self._note("crlf", line.number)
            data = data[:-1]
        if problem := _too_much(line):
            yield self._lost(line, 0, data, problem)
        elif not data.strip(_BLANK):
            self._note("blank", line.number)
        elif isinstance(found := self._examine(data), LineHead):
            yield self._entry(data, found, line.number, f"line={line.number}")
        elif b"\0" in data:
            yield from self._around_nuls(line, skipped, data)
        elif (joined := self._join(line, data)) is not None:
            yield joined
        else:
            yield from self._pieces(line, skipped, data, found)

    def _examine(self, data: bytes) -> LineHead | str:
        """The line's head, or why it is no entry."""
        try:
            head = head_of(data)
        except wire.MalformedLine as e:
            return str(e)
        return run_problem(head.run) or head

    def _entry(self, raw: bytes, head: LineHead, number: int, record: str) -> Line:
        self._entries += 1
        for code in head.oddities:
            if code in _NOTES:
                self._note(code, number)
        return Line(head.run, raw, record, self._path, head.oddities)

    def _lost(self, line: Stretch, offset: int, data: bytes, reason: str, *, torn: bool = False) -> Unread:
        if self._unread >= GIVE_UP and self._unread > 10 * self._entries:
            raise _NoJournal
        self._unread += 1
        code = "torn_tail" if torn else "missing_entry"
        self._losses.setdefault((run_of(data), code), _Lines()).add(line.number)
        return Unread(self._path, line.number, line.byte + offset, reason, shown(data))

    def _note(self, code: str, number: int) -> None:
        self._notes.setdefault(code, _Lines()).add(number)

    # -- damaged lines ----------------------------------------------------------------------------------------------

    def _around_nuls(self, line: Stretch, offset: int, data: bytes) -> Iterator[Item]:
        for part in re.finditer(rb"\0+|[^\0]+", data):
            found = part.group()
            if found.startswith(b"\0"):
                yield self._lost(line, offset + part.start(), found, f"{len(found)} NUL bytes where text should be")
            elif isinstance(head := self._examine(found), LineHead):
                yield self._entry(
                    found, head, line.number, f"line={line.number},byte={line.byte + offset + part.start()}"
                )
            elif found.strip(_BLANK):
                yield from self._pieces(line, offset + part.start(), found, head)

    def _pieces(self, line: Stretch, offset: int, data: bytes, reason: str) -> Iterator[Item]:
        records = 0
        self._search.read(len(data))
        for piece in pieces(data, self._search):
            part, at = data[piece.start : piece.end], offset + piece.start
            found = self._examine(part) if piece.record else reason
            if isinstance(found, LineHead):
                records += 1
                yield self._entry(part, found, line.number, f"line={line.number},byte={line.byte + at}")
            elif not line.ended and piece.end == len(data) and Balance().feed(part) < 0:
                yield self._lost(line, at, part, "the file ends before this record does", torn=True)
            else:
                yield self._lost(line, at, part, found if part == data else f"torn: {found}")
        if records > 1:
            self._note("glued", line.number)

    def _join(self, line: Stretch, data: bytes) -> Line | None:
        """The entry that begins on this line and ends on a later one; None, with nothing taken, when there is none."""
        balance = Balance()
        if line.number < self._no_join_before or not data.lstrip(_BLANK).startswith(b"{") or balance.feed(data) >= 0:
            return None
        taken: list[Stretch] = []
        parts, size = [data], len(data)
        while (more := self._more(len(taken), size)) is not None:
            taken.append(more)
            size += len(more.data)
            text = more.data.removesuffix(b"\r")
            if text.rstrip(_BLANK).endswith(b"}") and isinstance(self._examine(text), LineHead):
                break
            parts.append(b"\n" + text)
            if (end := balance.feed(parts[-1])) >= 0:
                raw = one_line(b"".join(parts))
                if not parts[-1][end:].strip(_BLANK) and isinstance(head := self._examine(raw), LineHead):
                    self._note("joined", line.number)
                    return self._entry(raw, head, line.number, f"lines={line.number}-{more.number}")
                break
        self._ahead.extendleft(reversed(taken))
        self._no_join_before = taken[-1].number if taken else 0
        return None

    def _more(self, taken: int, size: int) -> Stretch | None:
        if taken >= JOIN_LINES or size > JOIN_BYTES:
            return None
        return self._next()

    # -- an array instead of lines ----------------------------------------------------------------------------------

    def _array(self) -> Iterator[Item]:
        with self._file.open() as stream:
            data = stream.read(LINE_LIMIT + 1)
        if len(data) > LINE_LIMIT:
            yield Refused(
                self._path, "the file is one JSON array of more than 64 MiB; write one object a line (`jq -c '.[]'`)"
            )
            return
        self._note("array", 1)
        at, number, counted = data.index(b"[") + 1, 1, 0
        while (at := _skip(data, at)) < len(data) and data[at : at + 1] != b"]":
            number, counted = number + data.count(b"\n", counted, at), at
            end = Balance().feed(data, at) if data[at : at + 1] in (b"{", b"[") else _scalar_end(data, at)
            whole = end >= 0
            part = data[at : end if whole else len(data)]
            line = Stretch(number, at, part, len(part), whole)
            raw = one_line(part)
            if isinstance(found := self._examine(raw), LineHead):
                yield self._entry(raw, found, number, f"line={number},byte={at}")
            else:
                yield self._lost(
                    line, 0, part, found if whole else "the file ends before this record does", torn=not whole
                )
            at = end if whole else len(data)
        if at >= len(data):
            self._losses.setdefault((None, "torn_tail"), _Lines()).add(number)
        elif data[at + 1 :].strip(_BLANK + b"\0"):
            rest = data[at + 1 :]
            yield self._lost(Stretch(number, at + 1, rest, len(rest), True), 0, rest, "text after the end of the array")


def _skip(data: bytes, at: int) -> int:
    while at < len(data) and data[at] in b" \t\r\n,":
        at += 1
    return at


def _scalar_end(data: bytes, at: int) -> int:
    found = re.compile(rb'(?:"[^"\\]*(?:\\.[^"\\]*)*"|[^,\]\s])+', re.DOTALL).match(data, at)
    return found.end() if found else at + 1
