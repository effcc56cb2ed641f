"""Known traps: order of parallel steps, stranded versions, unused approvals, forks, pickles."""

from __future__ import annotations

import ast
import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from journals.adapters import dbos

from .dbos_exports import HERE, Read, a_run, a_step, names, places, read_capture, read_folder, read_rows


@pytest.fixture(scope="module")
def nine() -> Read:
    return read_folder(HERE / "case-09")


def test_the_tables_of_a_folder_are_one_import(nine: Read) -> None:
    assert sorted(nine.runs) == ["wf-error-6", "wf-fork-5", "wf-gather-1", "wf-orig-4", "wf-parked-2", "wf-poison-3"]
    assert [r.path for r in nine.refused] == ["candidate.jsonl"]


def test_a_missing_number_is_a_step_that_may_run_twice(nine: Read) -> None:
    state = nine.state("wf-gather-1")
    assert [(p["step"], p["name"], p["state"]) for p in state["pending"]] == [
        (2, None, "no_record"),
        (4, None, "no_record"),
    ]


def test_many_recoveries_without_a_new_row_are_a_loop(nine: Read) -> None:
    state = nine.state("wf-gather-1")
    assert state["status"] == "stuck"
    assert state["loop"] == {"recoveries": 41, "since": "2026-08-03T08:00:05Z"}
    assert state["stuck"] == {"cause": "replay_loop", "message": "41 recoveries without a new row"}
    assert state["stranded"] is None


def test_a_version_that_no_executor_has_is_stranded(nine: Read) -> None:
    assert nine.state("wf-parked-2")["stranded"] == {"build": "11aa22bb", "since": "2026-07-25T17:25:00Z"}
    assert nine.state("wf-orig-4")["stranded"]["build"] == "11aa22bb"
    assert nine.state("wf-fork-5")["stranded"] is None


def test_a_hole_before_its_time_limit_is_a_receive_that_waits(nine: Read) -> None:
    state = nine.state("wf-parked-2")
    assert (state["status"], state["pending"]) == ("parked", [])
    assert state["waiting"] == [
        {
            "branch": "",
            "step": 3,
            "what": "signal:?",
            "until": "2026-08-08T17:20:03.5Z",
            "since": "2026-07-25T17:20:03.4Z",
        }
    ]
    assert nine.entry("wf-parked-2", "step:4")["limit_of"] == 3


def test_an_approval_that_nobody_took_is_given_and_not_consumed(nine: Read) -> None:
    message = nine.entry("wf-parked-2", "message:m-1")
    assert (message["kind"], message["name"], message["outcome"]) == ("signal.received", "approval", "not_consumed")
    assert message["at"] == "2026-08-03T08:15:50Z"
    assert message["out"] == {"approved": True, "by": "user-17"}
    assert nine.state("wf-parked-2")["not_consumed"] == ["m-1"]


def test_a_fork_and_its_source_name_the_effect_that_both_may_have(nine: Read) -> None:
    refund = {"branch": "", "step": 3, "name": "send_refund", "kind": "tool", "why": "forked"}
    assert nine.state("wf-fork-5")["doubles"] == [{**refund, "other": "wf-orig-4"}]
    assert nine.state("wf-orig-4")["doubles"] == [{**refund, "other": "wf-fork-5"}]
    assert places(nine.state("wf-orig-4")["pending"]) == [3]
    assert nine.state("wf-fork-5")["copied"] == {"from": "wf-orig-4", "steps": [1, 2]}
    assert nine.entries("wf-fork-5")[0]["forked_from"] == "wf-orig-4"


def test_an_error_of_the_newer_layout_is_shown(nine: Read) -> None:
    failed = nine.entry("wf-error-6", "end:ERROR:1785744900000")
    assert failed["error"]["type"] == "UnexpectedStep"
    assert (failed["error"]["expected"], failed["error"]["recorded"]) == ("check_fraud", "lookup_order")
    assert failed["reason"] == "NonDeterministicReplay"
    (line,) = [line for line in nine.lines if line.run == "wf-error-6" and b"run.failed" in line.raw]
    assert (line.record, line.path) == ("workflow_output/wf-error-6", "workflow_output.json")


def test_a_run_that_dbos_gave_up_keeps_its_word_and_needs_an_operator(nine: Read) -> None:
    state = nine.state("wf-poison-3")
    assert (state["runtime_status"], state["status"], state["complete"]) == (
        "MAX_RECOVERY_ATTEMPTS_EXCEEDED",
        "stuck",
        False,
    )
    assert "operator" in state["stuck"]["message"]


def test_inputs_that_are_null_are_not_exported(nine: Read) -> None:
    assert all("in" not in nine.entries(run)[0] for run in nine.runs)


def test_no_run_claims_that_tries_are_recorded(nine: Read) -> None:
    assert not any(nine.state(run)["tries_recorded"] for run in nine.runs)
    assert (dbos.INFO.evidence.write, dbos.INFO.evidence.read, dbos.INFO.evidence.attempts) == ("never", "never", False)


def test_pickles_and_unmarked_values_are_shown_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = read_folder(HERE / "case-10")
    assert not list(tmp_path.iterdir())
    rows = {
        r["function_id"]: r["output"] for r in json.loads((HERE / "case-10" / "operation_outputs.json").read_text())
    }
    for number in (1, 2, 4):
        body = base64.b64decode(rows[number])
        out = made.entry("wf-pk-1", f"step:{number}")["out"]
        assert out == {"opaque": "pickle", "bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}
    assert made.entry("wf-pk-1", "step:3")["out"] == {"ok": True}
    assert made.entries("wf-pk-1")[0]["in"]["opaque"] == "pickle"
    assert [line.record for line in made.lines if "opaque_payload" in line.oddities] == [
        "workflow_status/wf-pk-1", *(f"operation_outputs/wf-pk-1/{n}" for n in (1, 2, 4)),
    ]  # fmt: skip
    assert places(made.state("wf-pk-1")["pending"]) == [5]
    assert [r.path for r in made.refused] == ["langgraph-checkpoint-row.json"]


def test_the_readers_import_nothing_that_could_load_an_object() -> None:
    banned = {
        "pickle",
        "dill",
        "cloudpickle",
        "shelve",
        "marshal",
        "jsonpickle",
        "yaml",
        "msgpack",
        "ormsgpack",
        "importlib",
    }
    for path in Path(dbos.__file__).parent.glob("dbos*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                assert not banned & {alias.name.split(".")[0] for alias in node.names}, path
            elif isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] not in banned, path
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in {"eval", "exec", "compile", "__import__"}, path


def _ledger() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (HERE / "captures" / "side-effects-ledger.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("name", [n for n in names(".dump.sql") if not n.startswith("old.")] + names(".sqlite"))
def test_every_effect_that_really_happened_is_recorded_or_named_as_possible(name: str) -> None:
    """The ledger says what happened outside. An effect that no row's own time covers must be pending or a possible double."""
    made = read_capture(name)
    for run in made.runs:
        entries, state = made.entries(run), made.state(run)
        for effect in _ledger():
            if (
                effect["wf"] != run
                or not _ms(entries[0]["at"]) - 1000 <= effect["t"] * 1000 <= _ms(state["as_of"]) + 1000
            ):
                continue
            covered = any(
                e.get("step") == effect["step"]
                and e["kind"] == "tool.result"
                and _ms(e["started_at"]) <= effect["t"] * 1000 <= _ms(e["at"]) + 1
                for e in entries
            )
            assert covered or effect["step"] in places(state["pending"]) + places(state["doubles"]), (run, effect)


def _ms(at: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(at.replace("Z", "+00:00")).timestamp() * 1000


@pytest.mark.parametrize("name", ["b-crash.recovered", "f-version.drained", "k-rewind.after"])
def test_a_run_with_two_effects_names_the_step_as_a_possible_double(name: str) -> None:
    made = read_capture(f"{name}.dump.sql")
    effects = [e for e in _ledger() if e["wf"] in made.runs]
    twice = {e["wf"] for e in effects if sum(o["wf"] == e["wf"] for o in effects) > 1}
    assert twice
    assert all(4 in places(made.state(run)["doubles"]) for run in twice)


@pytest.mark.parametrize("gone", [1, 2, 3])
def test_a_row_taken_away_makes_nothing_calmer(gone: int) -> None:
    rows = [a_step(n) for n in (1, 2, 3) if n != gone]
    assert gone in places(read_rows([a_run()], rows).state("r")["pending"])


def test_a_sleep_that_is_over_leaves_the_next_step_open() -> None:
    sleep = a_step(2, "DBOS.sleep", output="1007.0", started_at_epoch_ms=1_004_000, completed_at_epoch_ms=1_007_000)
    asleep = read_rows([a_run()], [a_step(1), sleep]).state("r")
    awake = read_rows([a_run(updated_at=1_008_000)], [a_step(1), sleep]).state("r")
    assert (places(asleep["waiting"]), places(asleep["pending"])) == ([2], [])
    assert (places(awake["waiting"]), places(awake["pending"])) == ([], [3])


def test_a_step_beside_a_sleep_proper_is_not_taken_for_a_receive() -> None:
    sleep = a_step(3, "DBOS.sleep", output="9007.0", started_at_epoch_ms=1_004_000, completed_at_epoch_ms=9_007_000)
    state = read_rows([a_run()], [a_step(1), sleep]).state("r")
    assert places(state["pending"]) == [2]
    assert [(w["step"], w["what"]) for w in state["waiting"]] == [(3, "timer")]


def test_a_parked_run_that_was_redeployed_often_is_no_loop() -> None:
    limit = a_step(2, "DBOS.sleep", output="9007.0", started_at_epoch_ms=1_000_100, completed_at_epoch_ms=1_000_200)
    state = read_rows([a_run(recovery_attempts=30, updated_at=2_000_000)], [limit]).state("r")
    assert (state["status"], state["loop"]) == ("parked", None)


def test_a_queued_run_that_never_began_has_no_gap() -> None:
    fresh = a_run(status="ENQUEUED", queue_name="tools", recovery_attempts=0)
    assert read_rows([fresh]).state("r")["pending"] == []
    assert places(read_rows([{**fresh, "queue_name": "_dbos_internal_queue"}]).state("r")["pending"]) == [1]
    assert places(read_rows([{**fresh, "updated_at": 2_000_000}]).state("r")["pending"]) == [1]


def test_a_delayed_run_waits_for_its_time() -> None:
    state = read_rows(
        [a_run(status="DELAYED", queue_name="q", recovery_attempts=0, delay_until_epoch_ms=5_000_000)]
    ).state("r")
    assert (state["status"], state["waiting"][0]["what"], state["waiting"][0]["until"]) == (
        "parked",
        "timer",
        "1970-01-01T01:23:20Z",
    )


def test_steps_without_their_run_are_kept() -> None:
    made = read_rows([], [a_step(1, run="lost")])
    assert made.entry("lost", "step:1")["name"] == "send_refund"
    assert (made.state("lost")["status"], made.state("lost")["complete"]) == ("unknown", False)


def test_a_status_that_is_not_known_is_kept_word_for_word() -> None:
    state = read_rows([a_run(status="PAUSED_BY_MOON")], [a_step(1)]).state("r")
    assert (state["runtime_status"], state["status"], places(state["pending"])) == ("PAUSED_BY_MOON", "unknown", [2])


def test_steps_of_every_kind_may_have_run_twice_and_the_rule_keeps_the_writes() -> None:
    made = read_rows([a_run(recovery_attempts=3)], [a_step(1, "call_model"), a_step(2, "DBOS.sleep"), a_step(3)])
    assert made.entry("r", "step:1")["kind"] == "model.result"
    assert places(made.state("r")["doubles"]) == [1, 3]


def test_a_very_long_hole_is_one_item() -> None:
    state = read_rows([a_run()], [a_step(1), a_step(10**15)]).state("r")
    assert [(p["step"], p.get("to")) for p in state["pending"]] == [(2, 10**15 - 1), (10**15 + 1, None)]


def test_step_numbers_that_count_from_zero_are_moved_to_one() -> None:
    made = read_rows([a_run()], [a_step(0), a_step(1)])
    assert [(e["id"], e["step"]) for e in made.entries("r") if "step" in e] == [("step:0", 1), ("step:1", 2)]


def test_rows_older_than_a_fork_are_copies_even_without_its_source() -> None:
    fork = a_run("fork", status="SUCCESS", forked_from="gone", created_at=1_004_500)
    made = read_rows([fork], [a_step(1, run="fork"), a_step(2, run="fork")])
    state = made.state("fork")
    assert state["copied"] == {"from": "gone", "steps": [1]}
    assert [(d["step"], d["why"], d["other"]) for d in state["doubles"]] == [(2, "forked", "gone")]
