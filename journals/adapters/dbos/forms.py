"""Rows of a DBOS export, freed from the form they came in: table names, column facts, and which files belong together."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from journals.adapters.base import Item, Partial, Refused, Unread, run_problem, shown
from journals.adapters.dbos.values import Loaded
from journals.adapters.tables import Place
from journals.adapters.values import integer

STEPS = "operation_outputs"
STATUS = "workflow_status"
RUN_TABLES = (
    STATUS,
    STEPS,
    "workflow_input",
    "workflow_inputs",
    "workflow_output",
    "notifications",
    "workflow_events",
    "workflow_events_history",
    "streams",
    "transaction_outputs",
    "datasource_outputs",
)
"""Tables whose rows say something about a run."""

SIDE_TABLES = (
    "application_versions",
    "executors",
    "queues",
    "workflow_queue",
    "workflow_schedules",
    "dbos_migrations",
    "event_dispatch_kv",
    "scheduler_state",
    "job_queue",
    "alembic_version",
)
"""Tables of a DBOS system database that hold no entry of a run; versions and executors are used for what they say about runs."""

CLI_LIST, CLI_STEPS = "cli list", "cli steps"


@dataclass(frozen=True, slots=True)
class Row:
    """One row. `fields` has the column names of the tables; values are as the form wrote them (text in a dump)."""

    table: str
    fields: Mapping[str, Any]
    path: str


@dataclass(slots=True)
class Part:
    """What one file gave; a `tables.Sink`."""

    title: ClassVar[str] = "DBOS"
    path: str
    tables: dict[str, list[Row]] = field(default_factory=dict)
    columns: dict[str, frozenset[str]] = field(default_factory=dict)
    whole: bool = False  # the file is a database by itself, not one table of several files
    form: str = ""  # CLI_LIST, CLI_STEPS, or empty for tables
    torn: str = ""  # why the file ends early
    unread: list[Unread] = field(default_factory=list)
    problems: list[Item] = field(default_factory=list)

    def add(self, table: str, fields: Mapping[str, Any], place: Place) -> None:
        """Adds one row, or names it as unread when it lacks what identifies it."""
        fields = {_ALIASES.get((table, k), k): v for k, v in fields.items()}
        reason = _unusable(table, fields)
        if reason:
            self.skip(f"{table} row: {reason}", place)
            return
        self.tables.setdefault(table, []).append(Row(table, fields, self.path))
        if table not in self.columns:
            self.columns[table] = frozenset(fields)

    def skip(self, reason: str, place: Place) -> None:
        """Names a stretch of the file that became no row."""
        self.unread.append(Unread(self.path, place.line, place.byte, reason, shown(place.start)))

    @property
    def found(self) -> bool:
        """Whether a table about runs is in the file."""
        return any(table in self.tables for table in RUN_TABLES)

    @property
    def named(self) -> bool:
        """Whether any table of DBOS is in the file."""
        return bool(self.tables)

    def wants(self, table: str) -> bool:
        """Whether rows of this table are taken."""
        return table in RUN_TABLES or table in SIDE_TABLES

    def close(self) -> None:
        """Says that runs of the file are not complete when rows in its middle were not read."""
        if self.unread and not self.torn:
            reason = f"{len(self.unread)} rows were not read"
            self.problems.append(Partial(self.path, reason, code="missing_entry"))

    def has(self, table: str, columns: Iterable[str]) -> None:
        """Says that the table is in the export, even when it is empty."""
        self.tables.setdefault(table, [])
        self.columns.setdefault(table, frozenset(columns))

    def tear(self, reason: str) -> None:
        """Marks the file as ending early."""
        if not self.torn:
            self.torn = reason
            self.problems.append(Partial(self.path, reason))


_ALIASES = {("datasource_outputs", "workflow_id"): "workflow_uuid", ("datasource_outputs", "step_id"): "function_id"}
_NUMBERED = frozenset((STEPS, CLI_STEPS, "transaction_outputs", "datasource_outputs"))


def _unusable(table: str, fields: Mapping[str, Any]) -> str:
    """Why a row cannot belong to a run; empty when it can, or when its table is not about runs."""
    if table in RUN_TABLES or table == CLI_LIST:
        column = (
            "destination_uuid" if table == "notifications" else "workflow_id" if table == CLI_LIST else "workflow_uuid"
        )
        if not isinstance(fields.get(column), str):
            return f"{column} is {'missing' if fields.get(column) is None else 'not a string'}"
        if problem := run_problem(fields[column]):
            return problem
    if table in _NUMBERED:
        number = integer(fields, "function_id")
        if number is None or number < 0:
            return "function_id is not a number"
    return ""


def table_of(columns: Iterable[str]) -> str:
    """The table whose rows have these columns; empty when it is none of DBOS's."""
    has = set(columns)
    for table, needs, lacks in _SHAPES:
        if needs <= has and not lacks & has:
            return table
    return ""


_SHAPES: tuple[tuple[str, set[str], set[str]], ...] = (
    (CLI_LIST, {"workflow_id", "status", "name"}, {"workflow_uuid", "step_id"}),
    (CLI_STEPS, {"function_id", "function_name"}, {"workflow_uuid"}),
    (STATUS, {"workflow_uuid", "status"}, {"function_id"}),
    ("transaction_outputs", {"workflow_uuid", "function_id", "txn_snapshot"}, set()),
    (STEPS, {"workflow_uuid", "function_id", "function_name"}, set()),
    (STEPS, {"workflow_uuid", "function_id", "output", "error"}, {"key"}),
    ("notifications", {"destination_uuid", "message"}, set()),
    ("workflow_events_history", {"workflow_uuid", "function_id", "key", "value"}, {"offset"}),
    ("streams", {"workflow_uuid", "key", "value", "offset"}, set()),
    ("workflow_events", {"workflow_uuid", "key", "value"}, {"offset", "function_id"}),
    ("workflow_output", {"workflow_uuid", "output", "error"}, {"status", "function_id"}),
    ("workflow_input", {"workflow_uuid", "inputs"}, {"status"}),
    ("datasource_outputs", {"workflow_id", "step_id"}, set()),
    ("executors", {"executor_id", "application_version"}, {"workflow_uuid", "workflow_id"}),
    ("application_versions", {"version_name", "version_timestamp"}, set()),
    ("queues", {"queue_id", "worker_concurrency"}, set()),
)

_NAMED = re.compile(
    r"(?:^|[._-])(" + "|".join(sorted((*RUN_TABLES, *SIDE_TABLES), key=len, reverse=True)) + r")(?=[._-]|$)"
)


def table_named(path: str) -> str:
    """The table that a file is named after (`prod.workflow_status.json`), or empty."""
    m = _NAMED.search(posixpath.basename(path))
    return m.group(1) if m else ""


_PREFIX = re.compile(r"(?:cli|client)?[._-]?(?:list|get|steps)(?:[._-]|$)")


def group_of(path: str) -> tuple[str, str]:
    """Folder and name prefix: files with an equal pair are parts of one export."""
    folder, name = posixpath.split(path)
    m = _NAMED.search(name)
    if m:
        return folder, name[: m.start(1)].rstrip("._-")
    m = _PREFIX.search(name)
    return folder, name[: m.start()].rstrip("._-") if m else ""


@dataclass(slots=True)
class Capture:
    """Rows that were exported together: one database at one moment."""

    folder: str
    parts: list[Part]
    cli: bool = False
    step_runs: set[str] = field(default_factory=set)  # of a command line export: the runs whose steps were listed

    def steps_exported(self, run: str) -> bool:
        """Whether the steps of this run are in the export, even if there are none."""
        return (
            run in self.step_runs
            if self.cli
            else any(table in part.tables for part in self.parts for table in _NUMBERED)
        )

    def rows(self, table: str) -> list[Row]:
        return [row for part in self.parts for row in part.tables.get(table, ())]

    @property
    def cut(self) -> bool:
        """Whether rows are missing: a file ends early, or some of its rows were not read."""
        return any(part.torn or part.unread for part in self.parts)


def captures(parts: Sequence[Part]) -> list[Capture]:
    """Groups the parts of one import; `executors` rows serve every export of their folder. In the order of the files."""
    made: dict[object, Capture] = {}
    shared: dict[str, list[Part]] = {}
    for part in parts:
        folder, prefix = group_of(part.path)
        if part.tables.keys() == {"executors"}:
            shared.setdefault(folder, []).append(part)
            continue
        key = part.path if part.whole else (folder, prefix, bool(part.form))
        made.setdefault(key, Capture(folder, [], bool(part.form))).parts.append(part)
    for capture in made.values():
        capture.parts.extend(shared.get(capture.folder, ()))
        if capture.cli:
            _name_steps(capture)
    return list(made.values())


def _name_steps(capture: Capture) -> None:
    """Gives the rows of step lists, which do not name their run, the run that list or file name tells."""
    runs = [row.fields["workflow_uuid"] for row in capture.rows(STATUS)]
    for part in capture.parts:
        if part.form == CLI_STEPS:
            run = _run_of_steps(part.path, runs)
            rows = part.tables.pop(CLI_STEPS, [])
            if not run:
                part.problems.append(
                    Refused(
                        part.path,
                        f"{len(rows)} steps of a workflow that nothing names: call the file "
                        "steps.<workflow id>.json, or import it together with the list",
                    )
                )
                continue
            part.tables[STEPS] = [Row(STEPS, {**row.fields, "workflow_uuid": run}, row.path) for row in rows]
            capture.step_runs.add(run)


def _run_of_steps(path: str, runs: Sequence[str]) -> str:
    name = posixpath.basename(path)
    stem = re.sub(r"\.(json|jsonl|gz)", "", name)
    after = re.search(r"(?:^|[._-])steps[._-](.+)$", stem)
    if after and after.group(1) in runs:
        return after.group(1)
    inside = sorted((run for run in runs if run in stem), key=len, reverse=True)
    if inside:
        return inside[0]
    if after:  # the list is of other runs
        return after.group(1)
    distinct = set(runs)
    return distinct.pop() if len(distinct) == 1 else ""


def from_cli(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A run or a step as `dbos workflow list|get|steps` or the client prints it, with the column names of the tables."""
    made = {_CLI_NAMES.get(k, k): v for k, v in fields.items()}
    return {k: Loaded(v) if k in ("inputs", "output", "error") else v for k, v in made.items()}


_CLI_NAMES = {
    "workflow_id": "workflow_uuid",
    "app_version": "application_version",
    "app_id": "application_id",
    "dequeued_at": "started_at_epoch_ms",
    "input": "inputs",
}
