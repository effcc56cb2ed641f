"""Checkpoints and tasks of LangGraph, freed from the form they came in: table rows, state history, the server's answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from drainboard import wire

from journals.adapters.base import Item, Partial, Unread, run_problem, shown
from journals.adapters.tables import Place

CHECKPOINTS, BLOBS = "checkpoints", "checkpoint_blobs"
WRITES: Final = ("checkpoint_writes", "writes")
WANTED: Final = (CHECKPOINTS, BLOBS, *WRITES, "checkpoint_migrations")
_ALIASES: Final = {"thread_ts": "checkpoint_id", "parent_ts": "parent_checkpoint_id"}  # columns of the first releases
NOBODY: Final = "00000000-0000-0000-0000-000000000000"  # the task id of a resume value that no task has taken yet


@dataclass(slots=True)
class Task:
    """One execution of a node, as far as it is recorded."""

    id: str
    name: str = ""
    path: str = ""
    push: int | None = None  # of a Send: its place in the list
    result: Any = wire.MISSING  # channel -> value
    error: Any = wire.MISSING
    interrupts: list[Any] = field(default_factory=list)
    resumed: list[Any] = field(default_factory=list)
    follows: list[tuple[str, int | None]] = field(default_factory=list)  # nodes that its writes start
    nested: str = ""  # the checkpoint_ns of its subgraph, when the record names it
    record: str = ""
    file: str = ""
    rows: int = 0

    @property
    def done(self) -> bool:
        return self.result is not wire.MISSING


@dataclass(slots=True)
class Checkpoint:
    """One checkpoint. `due` are the nodes that it starts: (name, place of a Send or None)."""

    thread: str
    ns: str
    id: str
    parent: str | None
    ts: str | None
    metadata: Mapping[str, Any]
    path: str
    record: str
    due: list[tuple[str, int | None]] = field(default_factory=list)
    due_known: bool = True
    tasks: dict[str, Task] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)  # state that stands inline or in a history
    channel_versions: Mapping[str, Any] = field(default_factory=dict)
    versions_seen: Mapping[str, Any] = field(default_factory=dict)
    given: Any = wire.MISSING  # the input that began the invocation
    orphan: bool = False  # only writes are there: the checkpoint itself was never saved

    @property
    def step(self) -> int:
        """The runtime's number of the super-step, from -1; of a checkpoint that was not saved it stands in its id."""
        told = self.metadata.get("step")
        if isinstance(told, int) and not isinstance(told, bool) and -1 <= told < 2**31:
            return told
        return step_in(self.id)

    @property
    def source(self) -> str:
        told = self.metadata.get("source")
        return told if isinstance(told, str) else ""

    @property
    def is_input(self) -> bool:
        return self.source == "input" or (not self.source and self.step == -1)


def step_in(checkpoint_id: str) -> int:
    """The super-step in the clock sequence of a checkpoint's UUID (version 6, 8000 + step); -1 when it holds none."""
    part = checkpoint_id.split("-")[3:4]
    try:
        number = int(part[0], 16) & 0x3FFF if part and len(part[0]) == 4 else -1
    except ValueError:
        return -1
    return -1 if number == 0x3FFF else number


@dataclass(slots=True)
class Group:
    """What was exported together: one database, or one set of answers, at one moment."""

    form: str  # tables, history
    checkpoints: dict[tuple[str, str, str], list[Checkpoint]] = field(default_factory=dict)
    threads: dict[str, Mapping[str, Any]] = field(default_factory=dict)  # the server's word on a thread
    server_runs: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    where: dict[str, tuple[str, str]] = field(default_factory=dict)  # thread -> path and record of the server's word
    loose: dict[str, list[Row]] = field(default_factory=dict)  # blobs of threads that have no checkpoint here
    torn: str = ""
    lost: str = ""

    @property
    def runs(self) -> list[str]:
        return list(dict.fromkeys([*(key[0] for key in self.checkpoints), *self.threads, *self.loose]))


@dataclass(slots=True)
class Row:
    """One row of a table."""

    table: str
    fields: Mapping[str, Any]
    path: str
    record: str


@dataclass(slots=True)
class Part:
    """What one file gave; a `tables.Sink`."""

    title: ClassVar[str] = "LangGraph"
    path: str
    rows: dict[str, list[Row]] = field(default_factory=dict)  # by the group that they belong to
    known: set[str] = field(default_factory=set)
    torn: str = ""
    unread: list[Unread] = field(default_factory=list)
    problems: list[Item] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)  # records by kind

    def add(self, table: str, fields: Mapping[str, Any], place: Place) -> None:
        self.take(table, fields, place, group="", record=f"{table}/{place.line}")

    def take(self, table: str, fields: Mapping[str, Any], place: Place, *, group: str, record: str) -> None:
        """One row, or its name as unread when it lacks what identifies it."""
        fields = {_ALIASES.get(k, k): v for k, v in fields.items()}
        if problem := _unusable(table, fields):
            self.skip(f"{table} row: {problem}", place)
            return
        self.counts[table] = self.counts.get(table, 0) + 1
        self.rows.setdefault(group, []).append(Row(table, fields, self.path, record))

    def skip(self, reason: str, place: Place) -> None:
        self.unread.append(Unread(self.path, place.line, place.byte, reason, shown(place.start)))

    @property
    def found(self) -> bool:
        return bool(self.known & {CHECKPOINTS, BLOBS, *WRITES})

    @property
    def named(self) -> bool:
        return bool(self.known)

    def wants(self, table: str) -> bool:
        return table in WANTED

    def has(self, table: str, columns: Iterable[str]) -> None:
        if table != "writes" or {"thread_id", "task_id"} <= set(columns):
            self.known.add(table)

    def tear(self, reason: str) -> None:
        if not self.torn:
            self.torn = reason
            self.problems.append(Partial(self.path, reason))


def _unusable(table: str, fields: Mapping[str, Any]) -> str:
    """Why a row belongs to no thread; empty when it does."""
    if table == "checkpoint_migrations":
        return ""
    needed = ["thread_id", "checkpoint_id"] if table != BLOBS else ["thread_id", "channel"]
    if table in WRITES:
        needed += ["task_id", "channel"]
    for column in needed:
        if not isinstance(fields.get(column), str):
            return f"{column} is {'missing' if fields.get(column) is None else 'not a string'}"
    return run_problem(fields["thread_id"])


def table_of(columns: Iterable[str]) -> str:
    """The table whose rows have these columns; empty when it is none of LangGraph's."""
    has = {_ALIASES.get(column, column) for column in columns}
    if "thread_id" not in has:
        return ""
    if {"checkpoint_id", "task_id", "channel"} <= has:
        return WRITES[0]
    if {"channel", "version"} <= has and "checkpoint_id" not in has:
        return BLOBS
    return CHECKPOINTS if {"checkpoint_id", "checkpoint", "metadata"} <= has and "values" not in has else ""
