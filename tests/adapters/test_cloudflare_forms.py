"""Files of Cloudflare Workflows: names, the SQLite file, lists, short answers, and damage."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from journals.adapters import cloudflare
from journals.adapters.base import InputFile, Line, Partial, Refused, Unread
from tests.runs.journal import read_files

from .cloudflare_exports import LOG, check_counts, data, entries, is_partial, part, raws, read, state

FOLDER = "v3/workflows/miniflare-workflows-refund-workflow"
FILE = f"{FOLDER}/7c97b38a8023b79efa414f8e4b672c2b14301506f0c50d107be66262519a9d02.sqlite"


def answer(**changed: Any) -> bytes:
    whole = json.loads(part("completed", ""))
    whole["result"].update(changed)
    return json.dumps(whole).encode()


def test_the_sqlite_file_tells_its_instance_and_its_workflow() -> None:
    files = {FILE: data("local.sqlite.gz")}
    assert cloudflare.sniff([InputFile.of("x", files[FILE])]) >= 0.9
    items = read(files)
    check_counts(items)
    assert {e["run"] for e in entries(items)} == {"twosleeps-89468"}
    assert entries(items)[0]["agent"] == "refund-workflow"
    assert raws(read({"i.json": part("rollback", "parallel", LOG)}))  # the same rows as JSON
    times = {w["what"]: w["until"] for w in state(items)["waiting"]}
    assert times == {"timer": "2026-11-29T21:58:13.538Z", "signal:paid": "2026-11-30T21:57:53.544Z"}


def test_a_database_that_was_not_closed_goes_with_its_wal_file() -> None:
    empty = data("local.sqlite.gz")[:4096]
    assert cloudflare.sniff([InputFile.of(FILE, empty)]) >= 0.5
    assert cloudflare.sniff([InputFile.of(f"{FILE}-shm", b"")]) >= 0.5


@pytest.mark.parametrize(
    ("path", "run", "agent"),
    [
        ("refund-workflow@agent-1.json", "agent-1", "refund-workflow"),
        ("agent-1.json", "agent-1", None),
        ("exports/some name.json.gz", "some name", None),
    ],
)
def test_the_file_names_the_run_when_nothing_in_it_does(path: str, run: str, agent: str | None) -> None:
    (first, *_) = entries(read({path: part("completed", "")}))
    assert (first["run"], first.get("agent")) == (run, agent)


def test_what_wrangler_describes_names_itself() -> None:
    name = "refund-workflow@rollback-89468.json"
    (first, *_) = entries(read({name: data(name)}))
    assert (first["run"], first["agent"]) == ("rollback-89468", "refund-workflow")


def test_a_list_says_where_instances_stand_and_yields_to_what_says_more() -> None:
    files = {"list.json": data("list.json"), "rollback.json": data("rollback.json")}
    told = [e for e in entries(read(files), "rollback-89468") if e.get("name") == "runtime.state"]
    assert [e["out"]["status"] for e in told] == ["failed"]
    alone = read({"list.json": data("list.json")})
    check_counts(alone)
    said = state(alone, "twosleeps-89468")
    assert (said["status"], said["complete"], said["pending"], said["steps_exported"]) == (
        "running",
        False,
        None,
        False,
    )


def test_an_answer_without_its_steps_is_never_complete() -> None:
    for changed in ({"steps": []}, {"steps": None}, {"step_count": 9}):
        said = state(read({"i.json": answer(**changed)}))
        assert (said["complete"], said["held"]["whole"], said["pending"]) == (False, False, None), changed


def test_the_newest_step_may_come_first() -> None:
    whole = json.loads(part("completed", ""))
    whole["result"]["steps"].reverse()
    turned = json.dumps(whole).encode()
    assert raws(read({"i.json": turned}), state=True) == raws(read({"i.json": part("completed", "")}), state=True)


def test_a_longer_export_repeats_the_lines_of_a_shorter_one() -> None:
    short = raws(read({"i.json": part("killed", "hanging_after_side_effect_before_kill", LOG)}))
    long = raws(read({"i.json": part("killed", "after_recovery", LOG)}))
    assert short < long


def test_a_step_that_failed_without_an_error_of_its_attempt_is_no_success() -> None:
    steps = json.loads(part("killed", "hanging_after_side_effect_before_kill"))["result"]["steps"]
    steps[3] |= {"success": False, "end": "2026-11-29T12:39:00Z"}
    items = read({"i.json": answer(steps=steps, step_count=4)})
    assert [e["kind"] for e in entries(items) if e.get("step") == 4] == ["tool.started", "tool.error", "note"]


def test_options_of_the_import_are_obeyed() -> None:
    found = entries(read({"i.json": part("completed", "")}, agent="refunds", environment="prod"))
    assert (found[0]["agent"], found[0]["environment"]) == ("refunds", "prod")


def test_outputs_that_the_cloud_cut_are_marked() -> None:
    steps = json.loads(part("completed", ""))["result"]["steps"]
    steps[0]["output"] = '{"id":"chatcmpl-c2A'
    items = read({"i.json": answer(steps=steps, versionId="v")})
    (result,) = [e for e in entries(items) if e.get("step") == 1 and e["kind"] == "model.result"]
    assert (result["out"], result["truncated"]) == ('{"id":"chatcmpl-c2A', True)


@pytest.mark.parametrize("name", ["killed.json", "cloud_form.json"])
def test_a_file_torn_anywhere_keeps_what_is_whole_and_says_so(name: str) -> None:
    whole = data(name)
    known = raws(read({"x.json": whole}))
    chance = random.Random(11)
    for cut in sorted(chance.sample(range(200, len(whole) - 3), 25)):
        items = read({"x.json": whole[:cut]})
        check_counts(items)
        if not any(isinstance(item, Refused) for item in items):
            assert is_partial(items), cut
            if name == "killed.json":
                assert raws(items) - known == {raw for raw in raws(items) if b":succeeded@" in raw}, cut


def test_a_torn_file_never_shows_a_finished_run() -> None:
    whole = part("completed", "")
    for cut in range(whole.index(b'"steps"') + 20, len(whole) - 25, 400):
        for run in read_files("cloudflare", {"i.json": whole[:cut]}).values():
            assert (run.complete, str(run.status)) == (False, "unknown"), cut


def test_behind_a_damaged_step_reading_goes_on() -> None:
    whole = part("completed", "").replace(b'"lookup_order-1", "start"', b'"lookup_or"der-1", "start"')
    items = read({"i.json": whole})
    check_counts(items)
    assert [e["name"] for e in entries(items) if e["kind"].endswith(".result")][-2:] == ["send_refund", "model call 2"]
    assert [p.code for p in items if isinstance(p, Partial)][:1] == ["missing_entry"] or is_partial(items)
    assert any(isinstance(item, Unread) for item in items)


@pytest.mark.parametrize("name", ["approval.json", "retries.json"])
def test_damage_gives_no_run_a_record_of_another(name: str) -> None:
    whole = data(name)
    places = {(e["run"], e.get("call"), e.get("at")) for e in entries(read({name: whole})) if "call" in e}
    runs, times = {run for run, _, _ in places}, {at for _, _, at in places}
    ends = [
        i for i in range(len(whole)) if whole.startswith((b'"finished":', b'"attempts":[', b'"ATTEMPT_SUCCESS"'), i)
    ]
    for at in ends:
        items = read({name: whole[:at] + b'"' + whole[at:]})
        check_counts(items)
        found = {(e["run"], e.get("call"), e.get("at")) for e in entries(items) if "call" in e}
        assert not {(run, call, t) for run, call, t in found - places if run in runs and t in times}, at


def test_damage_gives_no_log_the_rows_of_the_next_one() -> None:
    first, second = part("completed", "", LOG), part("retries", "retries_then_success", LOG)
    both = (
        b'{"a": '
        + first.replace(b'"event_name": "WORKFLOW_SUCCESS"', b'"event_name": "WORKFLOW"_SUCCESS"')
        + b', "b": '
        + second
        + b"}"
    )
    items = read({"x.json": both})
    check_counts(items)
    assert {e["at"] + e["call"] for e in entries(items) if "call" in e} == {
        e["at"] + e["call"] for e in entries(read({"x.json": first})) if "call" in e
    }
    assert is_partial(items)


def test_missing_rows_of_a_log_are_a_loss() -> None:
    rows = json.loads(part("completed", "", LOG))
    items = read({"i.json": json.dumps(rows[:9] + rows[12:]).encode()})
    assert [(p.code, p.reason) for p in items if isinstance(p, Partial)] == [
        ("missing_entry", "rows 10 to 12 of states are not here")
    ]
    assert state(items)["held"]["whole"] is False


@pytest.mark.parametrize(
    "value",
    [b"[" * 2_000 + b"]" * 2_000, b"NaN", b"9" * 4_000, b'"\\ud800"', b'"a\\u0000b"', b'"' + b"x" * 1_000_000 + b'"'],
)
def test_strange_values_are_kept_and_break_nothing(value: bytes) -> None:
    mark = b'"please refund order A-100"'
    items = read({"i.json": part("completed", "").replace(mark, value).replace(b'"re_agent-55739"', value)})
    check_counts(items)
    assert len(raws(items)) == len(raws(read({"i.json": part("completed", "")})))


@pytest.mark.parametrize(
    "raw",
    [
        json.dumps([{"id": "i-1", "status": {"a": 1}, "created_on": "2026-11-29T12:00:00Z"}]).encode(),
        data("cloud_form.json").replace(b'"versionId":"', b'"versionId":"\\ud800'),
    ],
)
def test_values_of_another_type_than_documented_raise_nothing(raw: bytes) -> None:
    check_counts(read({"x.json": raw}))


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"null", b'{"openapi": "3.0.3"}', b"\xff\xfe\x00", b"SQLite format 3\x00" + b"\0" * 200]
)
def test_what_is_no_journal_is_refused(raw: bytes) -> None:
    items = read({"x.json": raw})
    assert [type(item) for item in items] == [Refused]
    assert not any(isinstance(item, Line) for item in items)
