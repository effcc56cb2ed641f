"""Finds LangGraph's answers in JSON: state snapshots, threads, runs and table rows, at any depth and however they are wrapped."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from drainboard import wire

from journals.adapters.base import InputFile, Note, Partial, Refused, run_problem, shown
from journals.adapters.jsonscan import Value, documents, is_whole, walk
from journals.adapters.langgraph.forms import WANTED, WRITES, Checkpoint, Part, Task, table_of
from journals.adapters.tables import Place
from journals.adapters.values import text

_INNER: Final = re.compile(r"(?:/(?:history|state|states|thread|threads|runs|values|items|data|\d+))+$")
_ROWS: Final = re.compile(r"(?:/(?:" + "|".join(WANTED) + r"|rows))?(?:/\d+)?$")
_ROW: Final = re.compile(r"/(" + "|".join(WANTED) + r")/\d+$")
_SNAPSHOT: Final = re.compile(r"/history/\d+$")
_LEVELS: Final = 6


@dataclass(slots=True)
class Lines:
    """Line numbers of a file; asked for rising offsets, it is counted through once."""

    data: bytes = b""
    byte: int = 0
    line: int = 1

    def at(self, byte: int) -> int:
        if byte < self.byte:
            return self.data.count(b"\n", 0, byte) + 1
        self.line += self.data.count(b"\n", self.byte, byte)
        self.byte = byte
        return self.line


@dataclass(slots=True)
class Answers:
    """What one file gave beside table rows, by group."""

    lines: Lines = field(default_factory=Lines)

    snapshots: dict[str, list[Checkpoint]] = field(default_factory=dict)
    threads: dict[str, list[tuple[Mapping[str, Any], str]]] = field(default_factory=dict)
    runs: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)


def read_json(file: InputFile) -> tuple[Part, Answers]:
    """The records of one JSON file (also one value a line); a file without any gives a part whose only problem is `Refused`."""
    part, data = Part(file.path), file.read()
    made = Answers(Lines(data))
    torn, others = "", list[str]()
    for n, document in enumerate(documents(data)):
        if not is_whole(document) and document.form not in ("{", "["):
            _skip(part, made, document, "this is no JSON")
            continue
        prefix = f"/{n}" if n else ""
        others += _document(part, made, document, prefix)
        if document.torn:
            torn = "the JSON is torn"
            _skip(part, made, _tail(document), "the file ends or breaks here")
    if torn or file.cut:
        part.tear(file.cut or torn)
    if others and (part.rows or made.snapshots or made.threads):
        part.problems.append(
            Note(part.path, f"no answers of LangGraph: {shown(', '.join(dict.fromkeys(others)), 200)}")
        )
    _judge(part, made, data)
    return part, made


def _document(part: Part, made: Answers, document: Value, prefix: str) -> list[str]:
    """Takes what is in one document; answers the names of its members that hold nothing of LangGraph. Elements of a list that
    hold nothing are unread."""
    if _wanted(document) or document.form not in ("{", "["):
        if not document.torn:
            _take(part, made, document, prefix)
        return []
    named = list(document.members()) or [("", element) for element in document.elements()]
    others = []
    for name, inner in named:
        found = list(walk(inner, _wanted, levels=_LEVELS))
        for value in found:
            if not value.torn:
                _take(part, made, value, prefix)
        if not found and not inner.torn and name and name not in WANTED:
            others.append(name)
        elif not found and not inner.torn and not name:
            _skip(part, made, inner, "no table row, state snapshot or thread of LangGraph")
    return others


def _skip(part: Part, made: Answers, value: Value, reason: str) -> None:
    part.skip(reason, _place(made, value))


def _place(made: Answers, value: Value) -> Place:
    return Place(
        made.lines.at(value.start), value.start, value.data[value.start : value.start + 400].split(b"\n", 1)[0]
    )


def _tail(value: Value) -> Value:
    """The innermost torn value: what stands before it in the document was read."""
    while True:
        inner = [member for _, member in value.members()] if value.form == "{" else list(value.elements())
        if not inner or not inner[-1].torn or _wanted(value):
            return value
        value = inner[-1]


def _keys(value: Value) -> set[str]:
    return {key for key, _ in value.members()} if value.form == "{" else set()


def _wanted(value: Value) -> bool:
    return value.form == "{" and bool(
        _ROW.search(value.pointer) or _SNAPSHOT.search(value.pointer) or _what(_keys(value))
    )


def _what(keys: set[str]) -> str:
    """What an object with these members is; empty for a wrapper or something else."""
    if {"values", "next"} <= keys and ({"checkpoint", "config"} & keys):
        return "snapshot"
    if {"thread_id", "run_id", "status"} <= keys and "values" not in keys:
        return "run"
    if {"thread_id", "status"} <= keys and ({"values", "metadata", "interrupts"} & keys):
        return "thread"
    return (
        table_of(keys)
        if "thread_id" in keys or "thread_ts" in keys
        else "assistant"
        if {"assistant_id", "graph_id"} <= keys
        else ""
    )


def _take(part: Part, made: Answers, value: Value, prefix: str) -> None:
    """Sorts one record in. An object in an array that is named after a table is a row of it, whatever it holds, and one in a
    `history` a snapshot."""
    named = _ROW.search(value.pointer)
    what, record = _what(_keys(value)), f"{prefix}{value.pointer}"
    if named and (what not in WANTED or what in WRITES):
        what = named.group(1)
    elif _SNAPSHOT.search(value.pointer):
        what = "snapshot"
    try:
        fields, _ = value.load()
    except wire.MalformedLine as e:
        _skip(part, made, value, f"not JSON: {e}")
        return
    if not isinstance(fields, Mapping):
        _skip(part, made, value, "too deep or wide to unfold")
        return
    part.counts[what] = part.counts.get(what, 0) + (what not in WANTED)
    if what == "snapshot":
        _snapshot(part, made, value, fields, record)
    elif what == "thread":
        made.threads.setdefault(_group(record), []).append((fields, record))
    elif what == "run":
        made.runs.setdefault(_group(record), []).append(fields)
    elif what in WANTED:
        place = _place(made, value)
        part.known.add(what)
        part.take(what, fields, place, group=_ROWS.sub("", record), record=record)


def _group(record: str) -> str:
    return _INNER.sub("", record)


def _snapshot(part: Part, made: Answers, value: Value, fields: Mapping[str, Any], record: str) -> None:
    checkpoint = _checkpoint(fields, part.path, record)
    if isinstance(checkpoint, str):
        _skip(part, made, value, f"state snapshot: {checkpoint}")
        part.counts["snapshot"] -= 1
        return
    made.snapshots.setdefault(_group(record), []).append(checkpoint)


def _configured(fields: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """The `checkpoint` of the server, or the `configurable` of the library's `config`."""
    for name in names:
        got = fields.get(name)
        if isinstance(got, Mapping):
            inner = got.get("configurable")
            return inner if isinstance(inner, Mapping) else got
    return {}


def _checkpoint(fields: Mapping[str, Any], path: str, record: str) -> Checkpoint | str:
    at = _configured(fields, "checkpoint", "config")
    above = _configured(fields, "parent_checkpoint", "parent_config", "parentConfig")
    thread, own = text(at, "thread_id"), text(at, "checkpoint_id") or text(fields, "checkpoint_id")
    if thread is None or own is None:
        return "its thread or checkpoint has no id"
    if problem := run_problem(thread):
        return problem
    metadata, nodes = fields.get("metadata"), fields.get("next")
    values = fields.get("values")
    made = Checkpoint(
        thread,
        text(at, "checkpoint_ns") or "",
        own,
        text(above, "checkpoint_id") or text(fields, "parent_checkpoint_id"),
        text(fields, "created_at") or text(fields, "createdAt"),
        metadata if isinstance(metadata, Mapping) else {},
        path,
        record,
        due_known=isinstance(nodes, list),
        values=values if isinstance(values, Mapping) else {},
    )
    tasks = fields.get("tasks")
    for item in tasks if isinstance(tasks, list) else ():
        if isinstance(item, Mapping) and isinstance(item.get("id"), str):
            made.tasks[item["id"]] = _task(item, path, record)
    _due(made, nodes)
    start = next((t for t in made.tasks.values() if t.name == "__start__"), None)
    if made.is_input and start is not None:
        made.given = start.result
    return made


def _due(made: Checkpoint, nodes: Any) -> None:
    """What the snapshot starts: its tasks, and the nodes of `next` that it lists no task of."""
    pulls = sorted({t.name for t in made.tasks.values() if t.push is None})
    pushes = sorted({(t.push, t.name) for t in made.tasks.values() if t.push is not None})
    names = [n for n in nodes if isinstance(n, str)] if isinstance(nodes, list) else []
    told = {*pulls, *(name for _, name in pushes)}
    pulls += sorted({n for n in names if n not in told})
    made.due = [(name, None) for name in pulls if name != "__start__"] + [(name, push) for push, name in pushes]


def _task(item: Mapping[str, Any], path: str, record: str) -> Task:
    where = item.get("path")
    made = Task(item["id"], name=text(item, "name") or "", record=record, file=path)
    if isinstance(where, list) and where:
        made.path = "~" + ", ".join(str(part) for part in where)
        pushed = where[0] == "__pregel_push" and len(where) > 1 and isinstance(where[1], int)
        made.push = where[1] if pushed and where[1] >= 0 else None
    if item.get("result") is not None:
        made.result = item["result"]
    if item.get("error") is not None:
        made.error = item["error"]
    if isinstance(item.get("interrupts"), list):
        made.interrupts = list(item["interrupts"])
    nested = _configured(item, "state", "checkpoint")
    made.nested = text(nested, "checkpoint_ns") or ""
    return made


def _judge(part: Part, made: Answers, data: bytes) -> None:
    """Refuses a file without anything of a thread; says what else was in it."""
    counts = part.counts
    if counts.get("assistant"):
        part.problems.append(Note(part.path, f"{counts['assistant']} assistants are no part of a thread"))
    if part.rows or made.snapshots or made.threads or (part.unread and part.torn and _named(data)):
        if made.runs and not (made.snapshots or made.threads):
            part.problems.append(
                Note(part.path, f"{counts['run']} server runs without the state of their threads hold no step")
            )
        return
    part.unread.clear()
    part.problems = [problem for problem in part.problems if not isinstance(problem, Partial)]
    if not data.strip():
        reason = "empty file"
    elif made.runs:
        reason = "server runs only: export the thread's history, GET /threads/THREAD/history?limit=1000"
    elif counts.get("assistant"):
        reason = "assistants only: export the threads' history, GET /threads/THREAD/history?limit=1000"
    else:
        reason = "no table, state snapshot or thread of LangGraph in it"
    part.problems.append(Refused(part.path, reason))


def _named(data: bytes) -> bool:
    return re.search(rb'"(?:checkpoint_id|checkpoint_ns|parent_checkpoint|thread_id)"', data[:65_536]) is not None
