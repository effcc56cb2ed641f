"""A run that stands at a journal mismatch with a paid step in flight, and one whose journal was not exported."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runs.summary import Summary
from tests.adapters.restate_captures import MISMATCH, lines, read, rows, state
from tests.runs.journal import codes, read_files, step

FIRST, SECOND = "inv_1SYNTHETICaaaaaaaaaaaaaaaaaaaaaa", "inv_2SYNTHETICaaaaaaaaaaaaaaaaaaaaaa"


def table(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((MISMATCH / f"{name}.json").read_bytes())["rows"]
    return found


def files(**changed: list[dict[str, Any]]) -> dict[str, bytes]:
    tables = {name: table(name) for name in ("sys_invocation", "sys_journal", "sys_journal_events")}
    return {f"{name}.json": rows(found) for name, found in {**tables, **changed}.items()}


def folded(given: dict[str, bytes], run: str = FIRST) -> Summary:
    return read_files("restate", given)[run]


def verdicts(made: Summary) -> list[tuple[str | None, str, str]]:
    return [(row.step.name, str(row.judged.verdict), str(row.judged.confidence)) for row in made.steps]


EXPECTED = [
    ("load order", "done", "certain"),
    ("insert route", "done", "certain"),
    ("charge card", "may_run_twice", "certain"),
]


def told(made: Summary, code: str) -> str:
    return next(f.message for f in made.findings if f.code == code)


def test_the_paid_step_may_run_twice_and_only_steps_are_counted() -> None:
    made = folded(files())
    assert verdicts(made) == EXPECTED
    assert [[s.number for s in row.step.entries] for row in made.steps] == [[1, 2], [3, 4], [5]]
    assert [g.name for g in made.gaps] == ["charge card"]


def test_the_headline_names_what_is_recorded_what_is_wanted_and_both_deployments() -> None:
    made = folded(files())
    assert made.status == "stuck"
    assert told(made, "stuck_task").startswith(
        'The runtime fails again and again: RT0016 journal mismatch: Recorded: Run "insert route" (entry 3); '
        "the new code wants Call. Pinned to dp_OLD1, tried by dp_NEW2; 12 tries"
    )
    assert "nondeterministic_replay" in codes(made)
    assert (made.build, made.pinned_to) == ("dp_OLD1", "dp_OLD1")


def test_the_lost_connection_before_the_mismatch_stays_in_the_story() -> None:
    (lost,) = state(read(*files().values()), FIRST)["lost_executions"]
    assert lost["what"] == "TransientError RT0010 (connection to the endpoint lost or refused)"
    assert lost["during"] == [{"step": 3, "name": "charge card"}]
    assert (
        "RT0010 (connection to the endpoint lost or refused): stream closed" in step(folded(files()), 3).judged.reason
    )


def test_rows_in_another_order_give_the_same_verdicts() -> None:
    journal = table("sys_journal")
    swapped = [*journal[:4], journal[5], journal[4]]
    moved = [*journal[:4], {**journal[5], "index": 4}, {**journal[4], "index": 5}]
    assert verdicts(folded(files(sys_journal=swapped))) == EXPECTED
    assert verdicts(folded(files(sys_journal=moved))) == EXPECTED


def test_the_older_form_of_a_notification_says_the_same() -> None:
    older = table("sys_journal-older-notification-form")
    journal = [row for row in table("sys_journal") if row["index"] not in (1, 2)]
    made = folded(files(sys_journal=[*journal, *older]))
    assert verdicts(made) == EXPECTED
    newer = [m for m in read_lines(files()) if m.get("id") in ("1", "2")]
    assert [m for m in read_lines(files(sys_journal=[*journal, *older])) if m.get("id") in ("1", "2")] == newer


def read_lines(given: dict[str, bytes]) -> list[dict[str, Any]]:
    return lines(read(*given.values()))


def test_a_mismatch_on_the_pinned_deployment_means_that_its_code_was_changed() -> None:
    made = folded(files(), SECOND)
    message = told(made, "stuck_task")
    assert "Recorded: not exported (command 1)" in message
    assert 'the new code wants Run "llm turn 0"' in message
    assert "Pinned to and tried by dp_SAME: the code behind the same deployment was changed" in message
    assert made.complete is False
    assert [(str(g.verdict), g.entries) for g in made.gaps] == [("unknown", ())]


def test_commands_are_not_counted_across_a_hole() -> None:
    left = [row for row in table("sys_journal") if row["index"] != 1]
    assert "Recorded: not exported (command 2)" in told(folded(files(sys_journal=left)), "stuck_task")


@pytest.mark.parametrize("index", range(1, 6))
def test_without_an_entry_nothing_becomes_calmer(index: int) -> None:
    left = [row for row in table("sys_journal") if row["index"] != index]
    made = folded(files(sys_journal=left))
    calm = {name for name, verdict, _ in verdicts(made) if verdict in ("done", "waiting", "not_started")}
    assert calm <= {"load order", "insert route", None}
    assert made.gaps
