"""What a file of an import holds of Cloudflare: answers, logs, list items, and whose they are."""

from __future__ import annotations

import json
import posixpath
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from drainboard import wire

from journals.adapters.base import InputFile, Item, Note, Partial, Refused, Unread, run_problem, shown
from journals.adapters.cloudflare.answer import answer, is_answer
from journals.adapters.cloudflare.log import LogRow, follows, instance_in, is_row, log, queue_times, row_of
from journals.adapters.cloudflare.model import STATUSES, View, instant
from journals.adapters.cloudflare.scan import Found, find, records
from journals.adapters.jsonscan import Value, documents
from journals.adapters.sqlitefile import MAGIC, Beside, read_sqlite
from journals.adapters.tables import Place
from journals.adapters.values import text

_TABLE: Final = "the printed table of wrangler; make the file with `npx wrangler workflows instances describe WORKFLOW INSTANCE_ID --json`"
_BINDING: Final = (
    "what `instance.status()` of a Worker's binding answers: a status and an output, and no step; export the instance with "
    "`npx wrangler workflows instances describe WORKFLOW INSTANCE_ID --json`"
)
_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}")
"""Names of workflows and ids of instances, by Cloudflare's rule: so an @ is in none of them."""

_FOLDER: Final = re.compile(r"(?:^|/)miniflare-workflows-([^/]+)/[^/]+$")


@dataclass(slots=True)
class Part:
    """What one file gave; a `tables.Sink` for its rows."""

    title: ClassVar[str] = "Cloudflare Workflows"
    path: str
    views: list[View] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    problems: list[Item] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    torn: str = ""
    tables: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    rows: list[LogRow] = field(default_factory=list)

    @property
    def found(self) -> bool:
        return "states" in self.tables

    @property
    def named(self) -> bool:
        return bool(self.tables)

    def wants(self, table: str) -> bool:
        return table in ("states", "priority_queue", "_cf_KV")

    def has(self, table: str, columns: Any) -> None:
        self.tables.setdefault(table, [])

    def add(self, table: str, fields: Mapping[str, Any], place: Place) -> None:
        if table == "_cf_KV" and fields.get("key") != "INSTANCE_METADATA":
            return
        if table != "states":
            self.tables.setdefault(table, []).append(fields)
            return
        row = row_of(fields, f"states/{fields.get('id')}")
        if isinstance(row, str):
            self.skip(row, place)
        else:
            self.rows.append(row)

    def skip(self, reason: str, place: Place) -> None:
        self.unread.append(Unread(self.path, place.line, place.byte, reason, shown(place.start)))

    def tear(self, reason: str) -> None:
        if not self.torn:
            self.torn = reason


def part_of(file: InputFile, beside: Beside) -> Part:
    """Reads one file. What is none of Cloudflare's is `Refused` in `problems`."""
    part = Part(file.path)
    head = file.head(4_096)
    if head.startswith(MAGIC):
        _database(file, beside, part)
        return part
    if b"Workflow Name:" in head and b"Instance Id:" in head:
        part.problems.append(Refused(file.path, _TABLE))
        return part
    data = file.read()
    if not data.strip():
        part.problems.append(Refused(file.path, "empty file"))
        return part
    _json(file, data, part)
    return part


def _database(file: InputFile, beside: Beside, part: Part) -> None:
    read_sqlite(file, beside, part)
    if not part.found:
        if part.torn:
            part.problems.append(Refused(file.path, part.torn))
        return
    if not part.rows and not part.unread:
        part.problems.append(Refused(file.path, "the log of this instance has no row"))
        return
    view = log(part.rows, file.path, "states")
    view.run = next((found for row in part.tables.get("_cf_KV", ()) if (found := instance_in(row.get("value")))), "")
    folder = _FOLDER.search(file.path)
    view.agent = folder[1] if folder else ""
    times = queue_times(part.tables.get("priority_queue", ()))
    names = {row.group: row.target for row in part.rows if row.group and row.target}
    view.until |= {names[key]: until for key, until in times.items() if key in names}
    view.torn = part.torn
    if part.unread:
        view.lost = view.lost or f"{len(part.unread)} rows were not read"
    part.views.append(view)
    _account(part)


def _account(part: Part) -> None:
    """Which rows of the log stand in the lines of others."""
    counts = Counter(row.event for row in part.rows)
    told = ", ".join(f"{counts[name]} {name}" for name in ("STEP_START", "ATTEMPT_SUCCESS") if counts[name])
    if told:
        part.notes.append(
            f"rows of states: {len(part.rows)}; {told} are told by the start and the result of their steps"
        )


def _json(file: InputFile, data: bytes, part: Part) -> None:
    others: list[str] = []
    loose: list[Value] = []  # rows that stand by themselves, one a line
    for document in documents(data):
        if document.start < max((view.reach for view in part.views), default=0):
            continue  # its records were found behind damaged brackets
        if document.form not in ("{", "["):
            part.unread.append(document.unread(file.path, "no JSON value"))
            continue
        found = list(find(document, _kind, others))
        for one in found:
            if one.kind == "row":
                loose.append(one.value)
            else:
                _take(one, part)
        if document.torn:
            _tear(document, found, part)
    if loose:
        _loose_rows(loose, part)
    if not part.views:
        reasons = [p for p in part.problems if isinstance(p, Refused)]
        part.unread.clear()
        part.problems[:] = reasons[:1] or [Refused(file.path, _why_none(data))]
        part.notes.clear()
        return
    part.problems[:] = [p for p in part.problems if not isinstance(p, Refused)]
    part.torn = file.cut or part.torn
    _tell(part, others)


def _tell(part: Part, others: Sequence[str]) -> None:
    """What became no line, and why."""
    if others:
        listed = ", ".join(others[:8]) + (f" and {len(others) - 8} more" if len(others) > 8 else "")
        part.notes.append(f"{len(others)} members are no record of an instance: {listed}")
    _account(part)
    _tell_repeats(part)
    if bad := sum(view.bad_times for view in part.views):
        part.notes.append(f"times that could not be read, and are left out: {bad}")


def _tear(document: Value, found: Sequence[Found], part: Part) -> None:
    """A document that the file ends in, or that is damaged so that its end is not found: what may have followed is not here."""
    part.torn = part.torn or "the file ends inside a JSON value, or is damaged in it"
    last = found[-1].value if found else None
    if last is None or not last.torn or found[-1].kind not in ("answer", "rows"):
        at = document.start if last is None else last.start if last.torn else last.end
        tail = Value(document.data, at, document.end)
        if tail.raw.strip():
            part.unread.append(tail.unread(part.path, "the file ends inside this value"))


def _why_none(data: bytes) -> str:
    return "no workflow instance in it" if data.lstrip()[:1] in (b"{", b"[") else "neither JSON nor a SQLite file"


def _tell_repeats(part: Part) -> None:
    bindings = sum(note == "binding" for note in part.notes)
    errors = sum(note == "error" for note in part.notes)
    part.notes[:] = [note for note in part.notes if note not in ("binding", "error")]
    if bindings:
        part.notes.append(
            f"answers of `instance.status()`: {bindings}; not read, because they have a status and outputs and no step"
        )
    if errors:
        part.notes.append(f"errors of the API: {errors}")


def _kind(value: Value, members: Mapping[str, Value]) -> str:
    """What an object or array is to Cloudflare; empty for anything else."""
    if value.form == "[":
        first = next(value.elements(), None)
        keys = (
            frozenset(name for name, _ in first.members()) if first is not None and first.form == "{" else frozenset()
        )
        return "rows" if {"id", "event", "metadata", "timestamp"} <= keys else ""
    keys = frozenset(members)
    if is_answer(keys) or (value.torn and "status" in keys and "queued" in keys):
        return "answer"
    if {"id", "event", "metadata", "timestamp"} <= keys:
        return "row"
    if (
        {"id", "status"} <= keys
        and keys & {"created_on", "version_id", "workflow_id"}
        and _word(members["status"]) in STATUSES
    ):
        return "item"
    if "__LOCAL_DEV_STEP_OUTPUTS" in keys or (
        "status" in keys and keys <= {"status", "output", "error", "rollback"} and _word(members["status"]) in STATUSES
    ):
        return "binding"
    if "success" in keys and "errors" in keys and _word(members["success"]) is False:
        return "error"
    return ""


def _word(value: Value) -> str | bool | None:
    """A short text or a truth; None for everything else."""
    if value.torn or value.end - value.start > 100:
        return None
    try:
        found = value.load()[0]
    except wire.MalformedLine:
        return None
    return found if isinstance(found, (str, bool)) else None


def _take(one: Found, part: Part) -> None:
    path = part.path
    if one.kind == "answer":
        view = answer(one.value, path, part.unread)
        view.run, view.near = view.run or one.instance, one.near
        part.views.append(view)
    elif one.kind == "rows":
        _rows(one, part)
    elif one.kind == "item":
        _item(one, part)
    elif one.kind == "binding":
        part.notes.append("binding")
        part.problems.append(Refused(path, _BINDING))
    else:
        part.notes.append("error")
        part.problems.append(Refused(path, f"the API answered with an error: {shown(one.value.raw, 200)}"))


def _rows(one: Found, part: Part) -> None:
    rows: list[LogRow] = []
    torn = lost = ""
    reach = 0
    for stretch in records(one.value, lambda fields: follows(fields, max((row.id for row in rows), default=0))):
        reach = max(reach, stretch.value.end)
        problem = stretch.problem
        row = row_of(stretch.fields, stretch.value.pointer) if not problem and is_row(stretch.fields) else problem
        if isinstance(row, LogRow):
            rows.append(row)
            continue
        reason = row or "no row of states"
        part.unread.append(stretch.value.unread(part.path, reason))
        torn, lost = (torn or reason, lost) if stretch.torn else (torn, lost or reason)
    _add_log(part, rows, one, torn, lost)
    if rows:
        part.views[-1].reach = reach


def _loose_rows(values: Sequence[Value], part: Part) -> None:
    rows, lost = [], ""
    for value in values:
        try:
            row = row_of(value.load()[0], f"line={value.line}")
        except wire.MalformedLine:
            row = "damaged: no JSON"
        if isinstance(row, str):
            lost = row
            part.unread.append(value.unread(part.path, row))
        else:
            rows.append(row)
    _add_log(part, rows, Found(kind="rows", value=values[0], instance="", near=""), "", lost)


def _add_log(part: Part, rows: list[LogRow], one: Found, torn: str, lost: str) -> None:
    if not rows:
        return
    view = log(rows, part.path, one.value.pointer or "/")
    view.run, view.near = one.instance, one.near
    view.torn, view.lost = torn or view.torn, lost or view.lost
    part.views.append(view)
    part.rows += rows


def _item(one: Found, part: Part) -> None:
    """A line of a list: where an instance stands, and no step of it."""
    try:
        fields, odd = one.value.load()
    except wire.MalformedLine:
        part.unread.append(one.value.unread(part.path, "a damaged list item"))
        return
    run = text(fields, "id") if isinstance(fields, Mapping) else None
    if run is None:
        part.unread.append(one.value.unread(part.path, "a list item without an id"))
        return
    known = ("id", "status", "created_on", "modified_on", "started_on", "ended_on", "version_id")
    part.views.append(
        View(
            form="item",
            path=part.path,
            record=one.value.pointer or "/",
            run=run,
            status=str(fields["status"]),
            queued=instant(fields.get("created_on")),
            start=instant(fields.get("started_on")),
            end=instant(fields.get("ended_on")),
            changed=instant(fields.get("modified_on")),
            version=text(fields, "version_id"),
            about={k: v for k, v in fields.items() if k not in known},
            oddities=odd,
        )
    )


def name_runs(parts: Sequence[Part]) -> None:
    """Gives every view its run and, where a file's name tells it, its workflow."""
    views = [view for part in parts for view in part.views if view.form != "item"]
    named = {key: view.run for view in views if view.run and (key := _print(view))}
    for part in parts:
        mine = [view for view in part.views if view.form != "item"]
        stem, workflow = _stem(part.path)
        for view in mine:
            view.run = view.run or named.get(_print(view), "")
        left = [view for view in mine if not view.run]
        apart = len({_print(view) for view in left}) > 1
        for view in left:
            view.run = f"unnamed-{_print(view) or '?'}" if apart else stem
            named.setdefault(_print(view), view.run)
        if apart:
            part.notes.append(
                f"{len(left)} answers do not tell their instance: they are told apart by their queue times and parameters. Give each "
                "instance its own file WORKFLOW@INSTANCE_ID.json"
            )
        for view in mine:
            view.agent = view.agent or (workflow if view.run == stem else "")
    agents = {view.run: view.agent for view in views if view.agent}
    for view in views:
        view.agent = view.agent or agents.get(view.run, "")


def _print(view: View) -> str:
    """What tells an instance apart that has no id: when it was queued, and its parameters."""
    if view.queued is None:
        return ""
    text_ = json.dumps([view.queued, None if view.params is wire.MISSING else view.params], sort_keys=True, default=str)
    return wire.digest_bytes(text_.encode("ascii"))[7:19]


def _stem(path: str) -> tuple[str, str]:
    """Instance and workflow out of a file's name: `WORKFLOW@INSTANCE.json`, or `INSTANCE.json`."""
    stem = re.sub(r"\.(?:json|jsonl|ndjson|sqlite3?|db|gz)(?=\.|$)", "", posixpath.basename(path)) or path
    workflow, sign, instance = stem.partition("@")
    return (instance, workflow) if sign and _ID.fullmatch(workflow) and _ID.fullmatch(instance) else (stem, "")


def too_long(view: View) -> str:
    """Why the run of a view cannot be kept; empty when it can."""
    return run_problem(view.run)


def partials(part: Part) -> list[Partial]:
    """What is missing of the file, and the runs that it touches."""
    made: dict[tuple[str, str], list[str]] = {}
    for view in part.views:
        for code, reason in (("torn_tail", view.torn or part.torn), ("missing_entry", view.lost)):
            if reason:
                runs = made.setdefault((code, reason), [])
                if view.run not in runs:
                    runs.append(view.run)
    return [Partial(part.path, reason, tuple(runs), code) for (code, reason), runs in made.items()]


def note(path: str, text_: str) -> Note:
    return Note(path, text_)
