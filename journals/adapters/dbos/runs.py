"""Gathers the rows of each run of a DBOS export."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from journals.adapters.base import Item, Note
from journals.adapters.dbos.forms import STATUS, STEPS, Capture, Row
from journals.adapters.values import Fields, integer, text

IN_FLIGHT = frozenset({"PENDING", "ENQUEUED", "DELAYED"})
INTERNAL_QUEUE = "_dbos_internal_queue"
"""Runs come into it by recovery, resume, rewind and fork: something may have run before."""


@dataclass(slots=True)
class Run:
    """What an export holds about one run."""

    id: str
    status: Row | None = None  # None: its rows are here, its row of workflow_status is not
    input: Row | None = None
    output: Row | None = None
    steps: list[Row] = field(default_factory=list)  # by function_id
    messages: list[Row] = field(default_factory=list)
    values: list[Row] = field(default_factory=list)  # events, their history, streams
    parent: str | None = None
    forks: list[Run] = field(default_factory=list)  # runs in the same export that were forked from this one
    source: Run | None = None  # the run that this one was forked from, if it is in the same export
    steps_exported: bool = True
    listed: bool = False  # out of what the command line or the client prints, not out of the tables
    cut: bool = False  # rows of the export are missing
    live: frozenset[str] | None = None  # versions that some executor runs, where the export says so
    latest: str | None = None  # the application's newest version, where the export says so

    @property
    def fields(self) -> Fields:
        return self.status.fields if self.status else {}

    @property
    def word(self) -> str:
        """DBOS's own status, verbatim; empty when not exported."""
        return text(self.fields, "status") or ""

    @property
    def base(self) -> int:
        """The function id of the first step: 1, or 0 in SDKs that count from 0."""
        return 0 if self.steps and number_of(self.steps[0]) == 0 else 1

    def step_of(self, row: Row) -> int:
        return number_of(row) - self.base + 1

    def ended_ms(self) -> int | None:
        """When the run ended, as far as the layout tells (`completed_at` came with DBOS 2.31)."""
        done = integer(self.fields, "completed_at")
        return done if done is not None else integer(self.fields, "updated_at")


def number_of(row: Row) -> int:
    """`function_id` of a step row; rows without one are never kept."""
    return integer(row.fields, "function_id") or 0


def name_of(row: Row) -> str:
    return text(row.fields, "function_name") or ""


def runs_of(capture: Capture) -> tuple[list[Run], list[Item]]:
    """The runs of an export, oldest first (then by id), and what was left out. The order does not depend on the form."""
    made: dict[str, Run] = {}
    notes: list[Item] = []
    for row in capture.rows(STATUS):
        _add_status(made, row, notes)
    for table in (STEPS, "transaction_outputs", "datasource_outputs"):
        for row in capture.rows(table):
            _run(made, row).steps.append(row)
    for table in ("workflow_input", "workflow_inputs"):
        for row in capture.rows(table):
            _run(made, row).input = row
    for row in capture.rows("workflow_output"):
        _run(made, row).output = row
    for row in capture.rows("notifications"):
        _run(made, row, "destination_uuid").messages.append(row)
    for table in ("workflow_events_history", "workflow_events", "streams"):
        for row in capture.rows(table):
            _run(made, row).values.append(row)
    _link(made, capture)
    kept = [run for run in made.values() if not _internal(run)]
    notes.extend(_left_out(run) for run in made.values() if _internal(run))
    return sorted(kept, key=lambda run: (integer(run.fields, "created_at") or 0, run.id)), notes


def _run(made: dict[str, Run], row: Row, column: str = "workflow_uuid") -> Run:
    run_id: str = row.fields[column]
    return made.setdefault(run_id, Run(run_id))


def _add_status(made: dict[str, Run], row: Row, notes: list[Item]) -> None:
    run = _run(made, row)
    if run.status is None:
        run.status = row
        return
    if run.status.fields == row.fields:
        notes.append(Note(row.path, f"run {run.id!r} is listed twice, both times alike"))
        return
    notes.append(Note(row.path, f"run {run.id!r} is listed twice with different facts; the later update counts"))
    if (integer(row.fields, "updated_at") or 0) >= (integer(run.fields, "updated_at") or 0):
        run.status = row


def _internal(run: Run) -> bool:
    """Runs that DBOS up to 2.10 made by itself to carry a message sent from outside a workflow."""
    return (text(run.fields, "name") or "").startswith("<temp>.")


def _left_out(run: Run) -> Note:
    what = f"{run.id} ({run.fields.get('name')}, {1 + len(run.steps)} rows)"
    return Note(run.status.path if run.status else "", f"{what} only carried a message and is not shown as a run")


def _link(made: Mapping[str, Run], capture: Capture) -> None:
    live, latest = _live(capture), _latest(capture)
    for run in made.values():
        run.steps.sort(key=number_of)
        run.steps_exported = capture.steps_exported(run.id)
        run.cut, run.live, run.listed = capture.cut, live, capture.cli
        run.latest = latest.get(text(run.fields, "application_name")) or latest.get(None)
        run.parent = text(run.fields, "parent_workflow_id") or run.parent
        source = made.get(text(run.fields, "forked_from") or "")
        if source is not None and source is not run:
            run.source = source
            source.forks.append(run)
        for row in run.steps:
            child = made.get(text(row.fields, "child_workflow_id") or "")
            if child is not None and child is not run and "parent_workflow_id" not in child.fields:
                child.parent = run.id  # before DBOS 2.20 only the parent's step names the child


def _live(capture: Capture) -> frozenset[str] | None:
    if not any("executors" in part.tables for part in capture.parts):
        return None
    return frozenset(v for row in capture.rows("executors") if (v := text(row.fields, "application_version")))


def _latest(capture: Capture) -> dict[str | None, str]:
    newest: dict[str | None, tuple[int, str]] = {}
    for row in capture.rows("application_versions"):
        name, at = text(row.fields, "version_name"), integer(row.fields, "version_timestamp")
        app = text(row.fields, "application_name")
        if name and at is not None and (at, name) > newest.get(app, (-1, "")):
            newest[app] = (at, name)
    return {app: name for app, (_, name) in newest.items()}


def rows_of(capture: Capture) -> Iterator[tuple[str, int]]:
    """Every table of the export with its number of rows, by name."""
    counts: dict[str, int] = {}
    for part in capture.parts:
        for table, rows in part.tables.items():
            counts[table] = counts.get(table, 0) + len(rows)
    yield from sorted(counts.items())


def stored(run: Run, name: str) -> tuple[Any, bool]:
    """A run-level payload (`inputs`, `output`, `error`) and whether it came out of its own table (DBOS 3) or the status row."""
    row = run.input if name == "inputs" else run.output
    if row is not None and row.fields.get(name) is not None:
        return row.fields[name], True
    return run.fields.get(name), False
