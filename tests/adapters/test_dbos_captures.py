"""Every capture of a real DBOS gives the run that it is, in every form that it was exported in."""

from __future__ import annotations

import json

import pytest
from drainboard import wire

from journals.adapters import dbos
from journals.adapters.base import InputFile

from .dbos_exports import bytes_of, names, places, read_capture

DATABASES = names(".tables.json") + names(".dump.sql") + names(".sqlite")

# capture, run, DBOS's status, ours, over, step numbers without a record, waiting (step, what), doubles (step, why), lines
OUTCOMES = [
    ("a-hashversion.done", "refund-a", "SUCCESS", "completed", True, [], [], [], 8),
    ("a-normal.done", "refund-a", "SUCCESS", "completed", True, [], [], [], 8),
    ("b-crash.inflight", "refund-b", "PENDING", "running", False, [4], [], [], 5),
    ("b-crash.recovered", "refund-b", "SUCCESS", "completed", True, [], [], [(4, "recovered")], 8),
    ("c-approval.parked", "refund-c", "PENDING", "parked", False, [], [(5, "signal:?")], [], 8),
    ("c-approval.approved", "refund-c", "SUCCESS", "completed", True, [], [], [], 15),
    ("d-parallel.done", "refund-d", "SUCCESS", "completed", True, [], [], [], 10),
    ("e-failed.done", "refund-e2", "ERROR", "failed", True, [], [], [], 7),
    ("e-failed.done", "refund-e3", "ERROR", "failed", True, [], [], [], 7),
    ("e-failed.done", "refund-e4", "ERROR", "failed", True, [], [], [], 7),
    ("e-retry.done", "refund-e1", "SUCCESS", "completed", True, [], [], [], 8),
    ("f-nondet.error", "refund-f2", "ERROR", "failed", True, [4], [], [], 6),
    ("f-patch.done", "refund-f3", "SUCCESS", "completed", True, [], [], [], 10),
    ("f-version.orphaned", "refund-f1", "PENDING", "running", False, [4], [], [], 5),
    ("f-version.drained", "refund-f1", "SUCCESS", "completed", True, [], [], [(4, "recovered"), (4, "forked")], 8),
    (
        "f-version.drained",
        "c640f6be-05e8-4f58-9760-b89dcdab204c",
        "SUCCESS",
        "completed",
        True,
        [],
        [],
        [(4, "forked")],
        8,
    ),
    ("g-long.done", "refund-g", "SUCCESS", "completed", True, [], [], [], 2203),
    ("h-childfail.done", "refund-h2", "SUCCESS", "completed", True, [], [], [], 5),
    ("h-childfail.done", "refund-h2-1", "ERROR", "failed", True, [], [], [], 7),
    ("h-children.done", "refund-h", "SUCCESS", "completed", True, [], [], [], 15),
    ("h-sleep.sleeping", "refund-h3", "PENDING", "parked", False, [], [(4, "timer")], [], 6),
    ("h-sleep.done", "refund-h3", "SUCCESS", "completed", True, [], [], [], 10),
    ("i-cancelled.cancelling", "refund-i1", "CANCELLED", "cancelled", True, [2], [], [], 4),
    ("i-cancelled.cancelled", "refund-i1", "CANCELLED", "cancelled", True, [2], [], [], 4),
    ("i-cancelled.resumed-enqueued", "refund-i1", "ENQUEUED", "running", False, [2], [], [], 3),
    ("i-cancelled.resumed-running", "refund-i1", "PENDING", "running", False, [2], [], [], 3),
    ("k-rewind.before", "refund-k", "SUCCESS", "completed", True, [], [], [], 8),
    ("k-rewind.rewound", "refund-k", "ENQUEUED", "running", False, [4], [], [], 5),
    ("k-rewind.after", "refund-k", "SUCCESS", "completed", True, [], [], [(4, "resumed")], 8),
]
OLD = [
    ("old.dbos-1.14.0.b-crash.inflight.dump.sql", "PENDING", [7], [], 9),
    ("old.dbos-1.14.0.b-crash.recovered.dump.sql", "SUCCESS", [], [2, 7], 13),
    ("old.dbos-2.10.0.b-crash.inflight.dump.sql", "PENDING", [7], [], 9),
    ("old.dbos-2.10.0.b-crash.recovered.dump.sql", "SUCCESS", [], [2, 7], 12),
    ("old.dbos-2.31.1.b-crash.inflight.dump.sql", "PENDING", [7], [], 10),
    ("old.dbos-2.31.1.b-crash.recovered.dump.sql", "SUCCESS", [], [7], 13),
]


@pytest.mark.parametrize("form", ["tables.json", "dump.sql"])
@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda o: f"{o[0]}-{o[1]}")
def test_a_capture_gives_its_run(outcome: tuple, form: str) -> None:
    capture, run, word, status, over, pending, waiting, doubles, lines = outcome
    made = read_capture(f"{capture}.{form}")
    state = made.state(run)
    assert (state["runtime_status"], state["status"], state["complete"]) == (word, status, over)
    assert places(state["pending"]) == pending
    assert [(w["step"], w["what"]) for w in state["waiting"]] == waiting
    assert [(d["step"], d["why"]) for d in state["doubles"] if d["kind"] == "tool"] == doubles
    assert len(made.entries(run)) == lines
    assert not made.unread
    assert not made.refused
    assert not made.partial


@pytest.mark.parametrize(
    ("name", "word", "pending", "doubles", "lines"), OLD, ids=lambda v: v if isinstance(v, str) else ""
)
def test_an_old_schema_gives_its_run(name: str, word: str, pending: list[int], doubles: list[int], lines: int) -> None:
    made = read_capture(name)
    state = made.state("refund-b")
    assert made.runs == ["refund-b"]
    writes = [d for d in state["doubles"] if d["kind"] == "tool"]
    assert (state["runtime_status"], places(state["pending"]), places(writes)) == (word, pending, doubles)
    assert len(made.lines) == lines


def test_every_database_capture_has_an_expected_outcome() -> None:
    told = {o[0] for o in OUTCOMES} | {"a-sqlite.done"} | {o[0].removesuffix(".dump.sql") for o in OLD}
    captures = {
        name.removesuffix(".tables.json").removesuffix(".dump.sql").removesuffix(".sqlite") for name in DATABASES
    }
    assert captures == told


@pytest.mark.parametrize("name", names("schema.sql") + names("postgres.sql"))
def test_a_dump_of_the_schema_only_is_refused(name: str) -> None:
    made = read_capture(name)
    assert not made.lines
    assert [r.reason for r in made.refused] == ["a dump of the schema only: it holds no rows"]


@pytest.mark.parametrize("name", names(".json") + names(".sql") + names(".sqlite"))
def test_every_capture_is_recognised(name: str) -> None:
    assert dbos.sniff([InputFile.of(name, bytes_of(name))]) >= 0.9


def _stored(name: str) -> list[tuple[str, bytes, str]]:
    return [(line.run, line.raw, line.record) for line in read_capture(name).lines]


@pytest.mark.parametrize(
    "capture", [n.removesuffix(".tables.json") for n in names(".tables.json") if not n.startswith("a-sqlite")]
)
def test_the_dump_and_the_tables_of_one_moment_give_equal_lines(capture: str) -> None:
    assert _stored(f"{capture}.tables.json") == _stored(f"{capture}.dump.sql")


def test_the_sqlite_file_and_its_tables_give_equal_lines() -> None:
    assert _stored("a-sqlite.done.sqlite") == _stored("a-sqlite.done.tables.json")


@pytest.mark.parametrize("name", names(".tables.json"))
def test_every_row_becomes_an_entry_or_is_named(name: str) -> None:
    made, tables = read_capture(name), json.loads(bytes_of(name))
    records = {line.record for line in made.lines}
    for row in tables["operation_outputs"]:
        assert f"operation_outputs/{row['workflow_uuid']}/{row['function_id']}" in records
    for row in tables["notifications"]:
        assert f"notifications/{row['destination_uuid']}/{row['message_uuid']}" in records
    for row in tables["workflow_events_history"]:
        assert f"workflow_events_history/{row['workflow_uuid']}/{row['key']}/{row['function_id']}" in records
    for row in tables["workflow_status"]:
        assert {e["kind"] for e in made.entries(row["workflow_uuid"])} >= {"run.started", "note"}
    (account,) = [note.text for note in made.notes if note.text.startswith("rows: ")]
    for table, rows in tables.items():
        assert (f"{table} {len(rows)}" if rows else table) in account


@pytest.mark.parametrize("name", DATABASES)
def test_lines_are_journal_lines_without_oddities(name: str) -> None:
    made = read_capture(name)
    for line in made.lines:
        entry = wire.parse(line.raw)
        assert entry.kind in wire.KINDS
        assert not entry.oddities
        assert entry.run == line.run
    assert made.counted == {name: len(made.lines)}


@pytest.mark.parametrize("name", DATABASES)
def test_entry_ids_are_unique_within_a_run(name: str) -> None:
    ids = [(line.run, json.loads(line.raw)["id"]) for line in read_capture(name).lines]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    ("before", "after", "again"),
    [
        ("b-crash.inflight", "b-crash.recovered", 0),
        ("c-approval.parked", "c-approval.approved", 0),
        ("f-version.orphaned", "f-version.drained", 0),
        ("h-sleep.sleeping", "h-sleep.done", 0),
        ("i-cancelled.cancelled", "i-cancelled.resumed-running", 0),
        ("k-rewind.rewound", "k-rewind.after", 0),
        ("k-rewind.before", "k-rewind.after", 2),  # a rewind deletes rows: steps 4 and 5 were done twice
    ],
)
def test_a_later_export_repeats_the_entries_that_did_not_change(before: str, after: str, again: int) -> None:
    old = {(line.run, json.loads(line.raw)["id"]): line.raw for line in read_capture(f"{before}.dump.sql").lines}
    new = {(line.run, json.loads(line.raw)["id"]): line.raw for line in read_capture(f"{after}.dump.sql").lines}
    changed = [key for key in old.keys() & new.keys() if old[key] != new[key]]
    assert len(changed) == again
    assert all(key[1].startswith("step:") for key in changed)


def test_a_step_says_when_it_began_and_ended() -> None:
    entry = read_capture("a-normal.done.tables.json").entry("refund-a", "step:4")
    assert (entry["started_at"], entry["at"]) == ("2026-11-29T12:27:17.064Z", "2026-11-29T12:27:17.065Z")
    assert (entry["kind"], entry["name"], entry["step"], entry["seq"]) == ("tool.result", "send_refund", 4, 4)


def test_versions_come_from_the_version_of_the_application_and_the_attributes() -> None:
    started = read_capture("a-normal.done.tables.json").entries("refund-a")[0]
    assert started["build"] == "1.0.0+prompt3"
    assert started["versions"] == {
        "app": "1.0.0+prompt3", "prompt": "refund-prompt@3", "model": "fake-model-2026-01", "tools": {"tools": "5"},
    }  # fmt: skip


def test_children_and_their_results_name_the_child() -> None:
    made = read_capture("h-children.done.dump.sql")
    steps = [(e["step"], e["kind"], e.get("child")) for e in made.entries("refund-h") if "step" in e]
    assert steps[0] == (1, "child.started", "refund-h-1")
    assert steps[-1] == (11, "child.result", "refund-h-4")
    assert made.entries("refund-h-1")[0]["parent"] == "refund-h"
    failed = read_capture("h-childfail.done.dump.sql").entry("refund-h2", "step:2")
    assert (failed["kind"], failed["child"]) == ("child.error", "refund-h2-1")


def test_a_sleep_is_a_timer_that_fires_once_something_ran_after_it() -> None:
    sleeping = [e["kind"] for e in read_capture("h-sleep.sleeping.dump.sql").entries("refund-h3")]
    done = read_capture("h-sleep.done.dump.sql").entries("refund-h3")
    assert "timer.started" in sleeping
    assert "timer.fired" not in sleeping
    assert [(e["kind"], e["at"]) for e in done if e["kind"].startswith("timer")] == [
        ("timer.started", "2026-11-29T12:29:02.828Z"), ("timer.fired", "2026-11-29T12:29:04.828906Z"),
    ]  # fmt: skip


def test_a_patch_is_a_version_marker() -> None:
    marker = read_capture("f-patch.done.dump.sql").entry("refund-f3", "step:2")
    assert (marker["kind"], marker["name"]) == ("version.marker", "fraud-check")


def test_an_error_in_a_pickle_says_that_it_was_not_opened() -> None:
    failed = read_capture("f-nondet.error.dump.sql").entries("refund-f2")[-2]
    assert failed["kind"] == "run.failed"
    assert failed["error"]["message"] == "error recorded as pickle, 102 bytes, not opened"
    assert failed["reason"] == "NonDeterministicReplay"


def test_an_error_in_json_is_shown() -> None:
    failed = read_capture("e-failed.done.dump.sql").entries("refund-e4")[-2]
    assert failed["error"] == {"type": "RefundDeclined", "message": "card network declined the refund", "code": None}
    assert read_capture("e-failed.done.dump.sql").entries("refund-e4")[0]["in"] == {
        "args": ["A-1009", "Please refund order A-1009", "declined"], "kwargs": {},
    }  # fmt: skip


def test_copied_rows_of_a_fork_are_named_as_copies() -> None:
    state = read_capture("f-version.drained.dump.sql").state("c640f6be-05e8-4f58-9760-b89dcdab204c")
    assert state["copied"] == {"from": "refund-f1", "steps": [1, 2, 3]}
    assert state["forked_from"] == "refund-f1"


def test_a_message_that_was_taken_names_the_step_that_took_it() -> None:
    made = read_capture("c-approval.approved.dump.sql")
    message = made.entry("refund-c", "message:decision-1::refund-c:consumed")
    assert (message["name"], message["outcome"], message["taken_by_step"]) == ("approval", "consumed", 5)
    assert made.state("refund-c")["not_consumed"] == []


def test_the_runs_that_carried_a_message_are_not_shown_as_runs() -> None:
    made = read_capture("old.dbos-2.10.0.b-crash.recovered.dump.sql")
    assert made.runs == ["refund-b"]
    assert any("only carried a message" in note.text for note in made.notes)
