"""Rows of Restate's SQL tables, and deployments of its admin API, out of JSON of any wrapping; torn files included. Pure.

A row is known by its columns, wherever it stands: in `{"rows": […]}`, in an array, on a line of its own, under a table's name.
Rows that one object with `captured_at`, `sys_invocation` or `sys_journal` holds are a snapshot of their own.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from drainboard import wire

from journals.adapters import jsonscan
from journals.adapters.base import InputFile, Item, Note, Partial, Refused, Unread, run_problem, shown
from journals.adapters.jsonscan import Value
from journals.adapters.values import integer

INVOCATION, JOURNAL, EVENTS = "sys_invocation", "sys_journal", "sys_journal_events"
DEPLOYMENT, SERVICE, STATE, PROMISE = "sys_deployment", "sys_service", "state", "sys_promise"
RUN_TABLES: Final = (INVOCATION, JOURNAL, EVENTS)

_MARKS: Final = frozenset(("captured_at", INVOCATION, JOURNAL))
_LEVELS: Final = 6  # of objects and arrays around a row
_ROW_START: Final = re.compile(rb'\{\s*"(?:partition_key|id|index|name|service_name|after_journal_entry_index)"\s*:')
_TRIES: Final = 16  # false starts behind a damaged stretch; each may cost a look at the rest of the file


@dataclass(frozen=True, slots=True)
class Row:
    """One row. `scope` names the snapshot that it belongs to."""

    table: str
    fields: Mapping[str, Any]
    path: str
    record: str  # JSON pointer, after `line=n` where the file has several documents
    scope: str
    order: int  # in the file


@dataclass(slots=True)
class Part:
    """What one file gave."""

    path: str
    rows: list[Row] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    problems: list[Item] = field(default_factory=list)
    aside: Counter[str] = field(default_factory=Counter)  # what is no row of a journal, with its count
    captured: dict[str, str] = field(default_factory=dict)  # scope -> captured_at
    named: set[str] = field(default_factory=set)  # tables that a member is named after, empty ones too

    @property
    def torn(self) -> bool:
        return any(isinstance(p, Partial) for p in self.problems)


def table_of(columns: Iterable[str]) -> str:
    """The table whose rows have these columns; empty when it is none that is known."""
    has = set(columns)
    for table, needs, one_of in _SHAPES:
        if needs <= has and (not one_of or one_of & has):
            return table
    return ""


_SHAPES: Final[tuple[tuple[str, set[str], set[str]], ...]] = (
    (JOURNAL, {"id", "index", "entry_type"}, set()),
    (EVENTS, {"id", "after_journal_entry_index", "event_type"}, set()),
    (SERVICE, {"name", "revision", "deployment_id"}, set()),
    (STATE, {"service_name", "key", "value"}, {"service_key", "value_utf8"}),
    (STATE, {"service_name", "key", "value_utf8"}, set()),
    (PROMISE, {"service_name", "service_key", "key", "completed"}, set()),
    ("sys_inbox", {"service_name", "service_key", "id", "sequence_number"}, set()),
    ("sys_keyed_service_status", {"service_name", "service_key", "invocation_id"}, set()),
    (INVOCATION, {"id", "target_service_name"}, {"status", "target", "invoked_by", "pinned_deployment_id"}),
    (INVOCATION, {"id", "status"}, {"target", "pinned_deployment_id", "completion_result", "journal_size"}),
    (INVOCATION, {"id", "target"}, {"invoked_by", "target_handler_name"}),
    (DEPLOYMENT, {"id", "endpoint"}, set()),
    (DEPLOYMENT, {"id", "uri", "services"}, set()),
    (DEPLOYMENT, {"id", "arn", "services"}, set()),
)


_TABLE_NAMED: Final = re.compile(
    r"(?:^|[._-])(sys_(?:journal_events|journal|invocation|deployment|promise|inbox))(?=[._-]|$)"
)
_EMPTY: Final = re.compile(rb'\s*(?:\{\s*"rows"\s*:\s*\[\s*\]\s*\}|\[\s*\])?\s*')


def empty_table(path: str, data: bytes) -> str:
    """The table that a file without rows is named after (`sys_journal_events.json` of a run without errors); else empty."""
    found = _TABLE_NAMED.search(posixpath.basename(path))
    return found.group(1) if found and len(data) < 1_000 and _EMPTY.fullmatch(data) else ""


def problem_of(table: str, fields: Mapping[str, Any]) -> str:
    """Why a row of a run cannot be filed; empty when it can."""
    run = fields.get("id")
    if table in RUN_TABLES:
        if not isinstance(run, str) or not run:
            return f"a row of {table} whose id is no text"
        if problem := run_problem(run):
            return problem
    column = {JOURNAL: "index", EVENTS: "after_journal_entry_index"}.get(table, "")
    number = integer(fields, column) if column else 0
    if number is None or not 0 <= number < 2**31:
        return f"a row of {table} whose {column} is no position"
    return ""


def read_rows(file: InputFile) -> Part:
    """The rows of one file. A file without any gives a part whose only problem is `Refused`."""
    part, data = Part(file.path), file.read()
    found = list(jsonscan.documents(data))
    scan = _Scan(part, data)
    for document in found:
        scan.document(document, several=len(found) > 1)
    scan.finish(file)
    return part


class _Scan:
    """One pass over the documents of a file."""

    def __init__(self, part: Part, data: bytes) -> None:
        self.part, self.data = part, data
        self.prefix = ""
        self.strange: list[Unread] = []
        self.damage: list[str] = []
        self.tail = ""
        self._at, self._line = 0, 1

    def document(self, value: Value, *, several: bool) -> None:
        self.prefix = f"line={self._line_of(value.start)}" if several else ""
        if value.form in ("{", "["):
            self._value(value, "", 0)
        else:
            self.strange.append(self._unread(value.start, value.end, "no JSON object"))

    def finish(self, file: InputFile) -> None:
        """Says what is wrong with the file as a whole."""
        part, path = self.part, self.part.path
        table = empty_table(path, self.data)
        if table:
            part.named.add(table)
            part.problems.append(Note(path, f"{table} has no rows"))
            return
        if not part.rows:
            part.unread.clear()
            part.problems = [Refused(path, self._refusal())]
            return
        part.unread.extend(self.strange)
        if self.data.startswith(jsonscan.BOM):
            part.problems.append(Note(path, "begins with a byte order mark"))
        if self.tail or file.cut:
            part.problems.append(Partial(path, file.cut or self.tail))
        lost = [*self.damage, *(u.reason for u in self.strange)]
        if lost:
            reason = lost[0] if len(lost) == 1 else f"{len(lost)} stretches were not read"
            part.problems.append(Partial(path, reason, code="missing_entry"))

    def _refusal(self) -> str:
        if not self.data.strip():
            return "the file is empty"
        if b'"column_name"' in self.data[:4_096]:
            return "the columns of Restate's tables, not rows of them: export sys_invocation and sys_journal"
        if b'"openapi"' in self.data[:400]:
            return "the description of an API, not rows of Restate's tables"
        return "no row of Restate's sys_invocation, sys_journal or sys_journal_events in it"

    def _value(self, value: Value, scope: str, level: int) -> None:
        if value.form == "{":
            self._object(value, scope, level)
        elif value.form == "[":
            self._array(value, scope, level)

    def _object(self, value: Value, scope: str, level: int) -> None:
        starts = bool(_ROW_START.match(self.data, value.start))
        if starts and not value.torn and self._is_row(value, scope):
            return
        members = list(value.members())
        names = [name for name, _ in members]
        table = table_of(names)
        if table and not value.torn:
            self._row(table, value, scope, _fields(value))
        elif table or (value.torn and starts):
            self._hop(value.start, value.end, scope)
        else:
            self._wrapper(value, members, scope, level)

    def _is_row(self, value: Value, scope: str) -> bool:
        """Takes the object if it is a row, without walking its members."""
        fields = _fields(value)
        table = table_of(fields or ())
        if table:
            self._row(table, value, scope, fields)
        return bool(table)

    def _wrapper(self, value: Value, members: Sequence[tuple[str, Value]], scope: str, level: int) -> None:
        """An object around rows. One that names a table, or says when it was captured, begins a snapshot."""
        if not scope and _MARKS & {name for name, _ in members}:
            scope = f"{self.part.path}#{self.prefix}{value.pointer}"
        for name, member in members:
            if name == "captured_at" and member.form == '"' and not member.torn:
                self.part.captured[scope] = member.raw[1:-1].decode("utf-8", "replace")
            elif member.form in ("{", "[") and level < _LEVELS:
                self.part.named.add(name)
                self._value(member, scope, level + 1)
            else:
                self.part.aside["other members"] += 1
        end = members[-1][1].end if members else value.start + 1
        if members and members[-1][1].torn and members[-1][1].form == '"':
            self._gap(members[-1][1].start, value.end)
        if not (members and members[-1][1].torn) and not self._closed(end, value.end, b"}"):
            self._hop(end, value.end, scope)

    def _array(self, value: Value, scope: str, level: int) -> None:
        end = value.start + 1
        torn = False
        for element in value.elements():
            end, torn = element.end, element.torn
            if element.form in ("{", "[") and level < _LEVELS:
                self._value(element, scope, level + 1)
            else:
                self.part.aside["other values"] += 1
        if not torn and not self._closed(end, value.end, b"]"):
            self._hop(end, value.end, scope)

    def _closed(self, at: int, limit: int, bracket: bytes) -> bool:
        """Whether only the closing bracket stands between the last member and the value's end."""
        return self.data[at:limit].strip(b" \t\r\n,") == bracket

    def _hop(self, start: int, limit: int, scope: str) -> None:
        """Rows behind a damaged place: wherever a row begins whole. What lies between is named."""
        at = lost = start
        tries = 0
        while tries < _TRIES and (found := _ROW_START.search(self.data, at, limit)):
            end = jsonscan.value_end(self.data, found.start(), limit)
            value = Value(self.data, found.start(), max(end, found.start()), f"@{found.start()}")
            table = table_of(name for name, _ in value.members()) if end >= 0 else ""
            if not table:
                at, tries = found.start() + 1 if end < 0 else end, tries + 1
                continue
            self._gap(lost, found.start())
            self._row(table, value, scope, _fields(value))
            at = lost = end
        self._gap(lost, limit)

    def _gap(self, start: int, end: int) -> None:
        last = end >= len(self.data)
        left = self.data[start:end].strip(b" \t\r\n,")
        if not left.strip(b"[]{}"):
            if last and not left.endswith((b"]", b"}")):
                self.tail = self.tail or "the JSON ends before its last bracket"
            return
        reason = "the file ends inside this stretch" if last else "a damaged stretch"
        self.part.unread.append(self._unread(start, end, reason))
        if last:
            self.tail = "the file ends inside a row"
        else:
            self.damage.append(f"a damaged stretch at byte {start}")

    def _row(self, table: str, value: Value, scope: str, fields: Mapping[str, Any] | None) -> None:
        if fields is None:
            self.part.unread.append(self._unread(value.start, value.end, f"a row of {table} that is no JSON"))
            self.damage.append(f"a row of {table} was not read")
            return
        if problem := problem_of(table, fields):
            self.part.unread.append(self._unread(value.start, value.end, problem))
            self.damage.append(problem)
            return
        record = f"{self.prefix}{value.pointer}"
        self.part.rows.append(Row(table, fields, self.part.path, record, scope, len(self.part.rows)))

    def _unread(self, start: int, end: int, reason: str) -> Unread:
        first = self.data[start : min(end, start + 400)].strip().split(b"\n", 1)[0]
        return Unread(self.part.path, self._line_of(start), start, reason, shown(first))

    def _line_of(self, at: int) -> int:
        """The line of an offset; cheap for rising ones."""
        if at < self._at:
            return self.data.count(b"\n", 0, at) + 1
        self._line += self.data.count(b"\n", self._at, at)
        self._at = at
        return self._line


def _fields(value: Value) -> Mapping[str, Any] | None:
    """The columns of a row; None when it is no JSON object."""
    try:
        found, _ = value.load()
    except wire.MalformedLine:
        return None
    return found if isinstance(found, Mapping) else None
