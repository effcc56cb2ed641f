"""Reads the journals of LangGraph: the tables of its PostgreSQL and SQLite checkpointers as a dump, a file or JSON, the state
history of a thread, and what its server answers about threads. `docs/adapters-langgraph.md` gives the mapping.

Nodes leave a record only when they have ended, so the evidence is `never`. Values are decoded without building anything.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

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
)
from journals.adapters.langgraph.controls import CONTROLS, replies
from journals.adapters.langgraph.forms import BLOBS, WANTED, Checkpoint, Group, Part
from journals.adapters.langgraph.json_rows import Answers, read_json
from journals.adapters.langgraph.lines import Lines, loose_value
from journals.adapters.langgraph.state import Ground, state_line
from journals.adapters.langgraph.tables import checkpoints_of, looked_up, name_alone
from journals.adapters.langgraph.thread import passed, thread_of
from journals.adapters.pgdump import read_dump
from journals.adapters.sqlitefile import MAGIC, Beside, besides, mentions, read_sqlite
from journals.adapters.values import text

INFO: Final = AdapterInfo(
    name="langgraph",
    title="LangGraph",
    evidence=Evidence(
        write="never",
        read="never",
        attempts=False,
        says_end=False,
        note="LangGraph records a node only when it has ended, and no tries; with durability async or exit a crash loses even nodes that had ended.",
    ),
    capabilities=frozenset({"stop", "resume", "approve"}),
    controls=CONTROLS,
    replies=replies,
    how_to_export="""# PostgreSQL checkpointer
pg_dump --data-only -t checkpoints -t checkpoint_blobs -t checkpoint_writes "$DATABASE_URL" > langgraph.sql
# LangGraph server: a thread's history, which says less than the tables
curl -s "$SERVER/threads/$THREAD/history?limit=1000" > "$THREAD.history.json\"""",
    files=("langgraph.sql",),
    versions_from="a checkpoint's metadata: app_version or build, prompt_version, model, tool_schema.",
    together="A dump stands by itself. So does a SQLite file, with the -wal file beside it while the application runs. "
    "Tables as JSON, one a file, belong together.",
)

_SIGNS: Final[tuple[tuple[re.Pattern[bytes], float], ...]] = (
    (re.compile(rb'^COPY [\w".$]*\bcheckpoint_(?:blobs|writes|migrations)\b', re.MULTILINE), 0.95),
    (re.compile(rb'^COPY [\w".$]*\bcheckpoints\b"? \("?thread_id', re.MULTILINE), 0.95),
    (re.compile(rb"^CREATE TABLE [\w\".$]*\bcheckpoint_(?:blobs|writes|migrations)\b", re.MULTILINE), 0.9),
    (re.compile(rb'"checkpoint_ns"\s*:'), 0.9),
    (re.compile(rb'"thread_id"\s*:.*"(?:parent_checkpoint_id|checkpoint_id|thread_ts)"\s*:', re.DOTALL), 0.8),
    (re.compile(rb'"thread_id"\s*:.*"(?:assistant_id|state_updated_at|interrupts)"\s*:', re.DOTALL), 0.7),
    (re.compile(rb'"assistant_id"\s*:.*"graph_id"\s*:', re.DOTALL), 0.6),
    (re.compile(rb'"__pregel_(?:pull|push|tasks)"'), 0.7),
)
_OURS: Final = re.compile(rb'\s*\{\s*"(?:run|seq|recorded_at|id|at|kind)"\s*:')


def sniff(files: Sequence[InputFile]) -> float:
    """How sure the adapter is about the file that it knows best."""
    return max((_sniff(file) for file in files), default=0.0)


def _sniff(file: InputFile) -> float:
    head = file.head()
    if head.startswith(MAGIC):
        return 0.95 if mentions(file, b"checkpoint_ns") or mentions(file, b"parent_ts") else 0.0
    if _OURS.match(head):
        return 0.0
    return max((score for sign, score in _SIGNS if sign.search(head)), default=0.0)


def read(files: Sequence[InputFile], options: Options) -> Iterator[Item]:
    """The lines of every thread in the files. Each database, dump or set of answers is one export of its own time."""
    beside = besides(files)
    parts: list[Part] = []
    groups: dict[tuple[str, str], Group] = {}
    rows: dict[tuple[str, str], list[Any]] = {}
    for file in files:
        if file.path.endswith(("-wal", "-shm")) and file.path[:-4] in {other.path for other in files}:
            yield Note(file.path, "belongs to the SQLite file beside it")
            continue
        part, answers = _part(file, beside(file.path))
        parts.append(part)
        _sort(part, answers, groups, rows)
    for key, found in rows.items():
        _from_rows(groups[key], found)
    _join_threads(groups)
    counts: Counter[str] = Counter()
    given: dict[str, set[bytes]] = {}
    for group in sorted(groups.values(), key=_newest):
        for line in _group(group, options):
            if line.raw not in given.setdefault(line.run, set()):
                given[line.run].add(line.raw)
                counts[line.path] += 1
                yield line
    for part in parts:
        yield from _ending(part, counts[part.path], groups)


def _part(file: InputFile, beside: Beside) -> tuple[Part, Answers]:
    head = file.head(4_096)
    if head.startswith(MAGIC):
        read_sqlite(file, beside, part := Part(file.path))
        return part, Answers()
    if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"[", b"{"):
        return read_json(file)
    if re.search(rb"^(?:--|COPY |SET |CREATE |INSERT )", file.head(), re.MULTILINE):
        read_dump(file, part := Part(file.path))
        return part, Answers()
    reason = "empty file" if not head.strip() else "neither a SQL dump, nor a SQLite file, nor JSON"
    return Part(file.path, problems=[Refused(file.path, reason)]), Answers()


_TABLE_FILE: Final = re.compile(r"(?:^|[._-])(?:" + "|".join(sorted(WANTED, key=len, reverse=True)) + r")(?:[._-]|$)")


def _sort(
    part: Part, answers: Answers, groups: dict[tuple[str, str], Group], rows: dict[tuple[str, str], list[Any]]
) -> None:
    """Puts what a file gave into the export that it belongs to; a table that has a file to itself goes with those beside it."""
    for inner, found in part.rows.items():
        alone = _TABLE_FILE.search(posixpath.basename(part.path)) and not inner
        key = (posixpath.dirname(part.path) + "/" if alone else part.path, f"tables{inner}")
        groups.setdefault(key, Group("tables"))
        rows.setdefault(key, []).extend(found)
        _damage(groups[key], part)
    for inner in dict.fromkeys([*answers.snapshots, *answers.threads, *answers.runs]):
        group = groups.setdefault((part.path, f"history{inner}"), Group("history"))
        _damage(group, part)
        for checkpoint in answers.snapshots.get(inner, ()):
            group.checkpoints.setdefault((checkpoint.thread, checkpoint.ns, checkpoint.id), []).append(checkpoint)
        for told, record in answers.threads.get(inner, ()):
            thread = told.get("thread_id")
            if isinstance(thread, str):
                group.threads[thread] = told
                group.where[thread] = (part.path, record)
        for told in answers.runs.get(inner, ()):
            if isinstance(told.get("thread_id"), str):
                group.server_runs.setdefault(told["thread_id"], []).append(told)


def _damage(group: Group, part: Part) -> None:
    group.torn = group.torn or part.torn
    if part.unread and not part.torn:
        group.lost = group.lost or f"{len(part.unread)} records were not read"


def _from_rows(group: Group, rows: Sequence[Any]) -> None:
    made = checkpoints_of(rows)
    children: dict[tuple[str, str, str | None], list[Checkpoint]] = {}
    for checkpoint in made:
        children.setdefault((checkpoint.thread, checkpoint.ns, checkpoint.parent), []).append(checkpoint)
        group.checkpoints.setdefault((checkpoint.thread, checkpoint.ns, checkpoint.id), []).append(checkpoint)
    for checkpoint in made:
        below = children.get((checkpoint.thread, checkpoint.ns, checkpoint.id), [])
        name_alone(checkpoint, [n for n in sorted(passed(checkpoint, below)) if n and not n.startswith("__")])
    looked_up(made, rows)
    known = {key[0] for key in group.checkpoints}
    for row in rows:
        if row.table == BLOBS and row.fields["thread_id"] not in known:
            group.loose.setdefault(row.fields["thread_id"], []).append(row)


def _join_threads(groups: dict[tuple[str, str], Group]) -> None:
    """A list of threads without their histories serves the histories of the same import."""
    for group in groups.values():
        known = {key[0] for key in group.checkpoints}
        for thread in [t for t in group.threads if t not in known]:
            for other in groups.values():
                if other is not group and any(key[0] == thread for key in other.checkpoints):
                    told = other.threads.get(thread)
                    if told is None or str(told.get("updated_at")) <= str(group.threads[thread].get("updated_at")):
                        other.threads[thread] = group.threads[thread]
                    group.threads.pop(thread, None)


def _newest(group: Group) -> str:
    times = [c.ts or "" for found in group.checkpoints.values() for c in found]
    return max([*times, *(text(t, "updated_at") or "" for t in group.threads.values())], default="")


def _group(group: Group, options: Options) -> Iterator[Line]:
    """The lines of one export, thread by thread. A checkpoint that it holds twice with other content is given twice."""
    by_thread: dict[str, list[Checkpoint]] = {}
    again: dict[str, list[Checkpoint]] = {}
    for (thread, _, _), found in group.checkpoints.items():
        by_thread.setdefault(thread, []).append(found[0])
        if found[1:]:
            again.setdefault(thread, []).extend(found[1:])
    for name in dict.fromkeys([*by_thread, *group.threads, *group.loose]):
        yield from _thread(name, by_thread.get(name, []), again.get(name, []), group, options)


def _thread(
    name: str, found: Sequence[Checkpoint], again: Sequence[Checkpoint], group: Group, options: Options
) -> Iterator[Line]:
    thread = thread_of(name, found)
    lines = Lines(thread, options)
    made = list(lines) + [loose_value(row) for row in group.loose.get(name, ())]
    ids = [_id(line) for line in made]
    seen = {line.raw for line in made}
    if again:
        others = {(c.ns, c.id): c for c in again}
        other = thread_of(name, [others.get((c.ns, c.id), c) for c in found])
        made += [line for line in Lines(other, options) if line.raw not in seen]
    yield from made
    told: Mapping[str, Any] = group.threads.get(name, {})
    first = found[0] if found else group.loose[name][0] if name in group.loose else None
    where = group.where.get(name) or ((first.path, first.record) if first else ("", ""))
    yield state_line(Ground(thread, lines, group, options, told, ids), *where)


_ID: Final = re.compile(rb'"id":"((?:[^"\\]|\\.)*)"')


def _id(line: Line) -> str:
    found = _ID.search(line.raw)
    return found.group(1).decode("utf-8", "replace") if found else ""


def _ending(part: Part, lines: int, groups: Mapping[tuple[str, str], Group]) -> Iterator[Item]:
    """What a file's records became: notes, losses and the count."""
    runs = tuple(dict.fromkeys(r for (path, _), g in groups.items() if part.path.startswith(path) for r in g.runs))
    for problem in part.problems:
        yield Partial(problem.path, problem.reason, runs, problem.code) if isinstance(problem, Partial) else problem
    if part.unread and not part.torn:
        yield Partial(part.path, f"{len(part.unread)} records were not read", runs, "missing_entry")
    yield from part.unread
    told = ", ".join(f"{name} {n}" for name, n in sorted(part.counts.items()) if n)
    if told:
        yield Note(part.path, f"records: {told}; a step is made of its checkpoint and its writes")
    if not any(isinstance(problem, Refused) for problem in part.problems):
        yield Counted(part.path, lines + len(part.unread))
