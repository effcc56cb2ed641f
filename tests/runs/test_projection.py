"""Rows of runs are made of journals: folded when they change, the same when rebuilt, written only where they differ."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from drainboard import wire

from journals import store
from journals.foreign import foreign
from runs import projection
from runs.models import Run, Step, VersionSet
from tests.runs.good import DONE, START, journals, model, result, started, state
from tests.runs.journal import numbered

pytestmark = pytest.mark.django_db


def bring(run: str, lines: list[dict[str, Any]], *, source: str = "file", import_id: int = 1) -> int:
    """Imports lines of one run and returns its head's number."""
    items = [foreign(wire.dump({"run": run, **line})) for line in lines]
    return store.ingest(
        source_name=source, runtime="lines", import_id=import_id, actor=f"import:{import_id}", items=items
    )[run].head_id


def begin(run: str = "r1") -> store.HeadRow:
    line = wire.dump({"run": run, "id": "s.0", "kind": "run.started", "agent": "refund", "in": 1})
    return store.create(run=run, agent="refund", environment="prod", line=line, actor="server")[0]


def columns(model: Any) -> list[dict[str, Any]]:
    names = [f.attname for f in model._meta.concrete_fields]
    return list(model.objects.order_by("pk").values(*names))


def everything() -> list[list[dict[str, Any]]]:
    return [columns(Run), columns(Step)]


def test_every_column_is_the_same_after_a_rebuild() -> None:
    for name, lines in journals():
        for n in range(1, len(lines) + 1):  # entry by entry: many incremental folds of each run
            projection.fold(bring(name, lines[:n]))
    head = begin()
    store.record(
        head.id,
        {"kind": "deploy.pinned", "build": "40", "by": "alice", "reason": "drain"},
        actor="person:alice",
        changes={"pinned_build": "40"},
    )
    projection.catch_up()
    before = everything()
    assert len(before[0]) == len(list(journals())) + 1
    projection.rebuild()
    assert everything() == before
    Step.objects.all().delete()
    Run.objects.all().delete()
    VersionSet.objects.all().delete()
    projection.rebuild()
    after = everything()
    for rows in (before[0], after[0]):
        for row in rows:
            row.pop("versions_set_id")  # made anew, so under another number
    assert after == before


def test_a_fold_of_what_has_not_changed_writes_no_row() -> None:
    head_id = bring("r", numbered(START, model(1), started(2)))
    projection.fold(head_id)
    with CaptureQueriesContext(
        connection,
    ) as queries:
        projection.fold(head_id)
    assert not [
        q["sql"] for q in queries if q["sql"].startswith(("INSERT", "DELETE", 'UPDATE "runs_')) or "COPY" in q["sql"]
    ]


def test_one_more_entry_leaves_the_other_steps_untouched() -> None:
    lines = numbered(START, model(1), started(2), result(2), model(3))
    head_id = bring("r", lines[:4])
    projection.fold(head_id)
    with connection.cursor() as cursor:
        cursor.execute("SELECT ord, ctid::text FROM runs_step ORDER BY ord")
        before = dict(cursor.fetchall())
        bring("r", lines)
        projection.fold(head_id)
        cursor.execute("SELECT ord, ctid::text FROM runs_step ORDER BY ord")
        after = dict(cursor.fetchall())
    assert {n: after[n] for n in before} == before
    assert len(after) == len(before) + 1


def test_a_run_that_got_shorter_steps_loses_rows() -> None:
    head_id = bring("r", [{"seq": 1, **result(1)}, {"seq": 5, "kind": "tool.result", "name": "x", "call": "y"}])
    assert projection.fold(head_id).steps == 5
    bring("r", [{"seq": n, "kind": "note", "name": "n"} for n in (2, 3, 4)])
    assert projection.fold(head_id).steps == 2
    assert Step.objects.filter(run_id=head_id).count() == 2


def test_catching_up_folds_what_is_dirty_and_only_that() -> None:
    with_signal_off = bring("a", numbered(START))
    projection.catch_up()
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM journals_head WHERE dirty")
        assert cursor.fetchone() == (0,)
        cursor.execute("UPDATE journals_head SET dirty = true WHERE id = %s", [with_signal_off])
    Run.objects.update(status="stale")
    other = bring("b", numbered(START, DONE))
    projection.catch_up([other])
    assert Run.objects.get(pk=with_signal_off).status == "stale"
    projection.catch_up()
    assert Run.objects.get(pk=with_signal_off).status == "unknown"
    assert projection.catch_up() == 0


def test_catching_up_stops_when_its_time_is_over_and_says_what_is_left() -> None:
    for n in range(3):
        bring(f"r{n}", numbered(START))
    with connection.cursor() as cursor:
        cursor.execute("UPDATE journals_head SET dirty = true")
    assert projection.catch_up(within_s=-1) == 3
    assert projection.catch_up() == 0


def test_one_bad_journal_keeps_no_other_of_its_batch_from_its_rows(caplog: pytest.LogCaptureFixture) -> None:
    heads = {name: bring(name, numbered(START, model(1), DONE)) for name in ("a", "bad", "c")}
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("ALTER TABLE runs_run ADD CONSTRAINT no_such_run CHECK (run <> 'bad')")
    assert projection.catch_up() == 1
    assert set(Run.objects.values_list("run", "status")) == {("a", "completed"), ("c", "completed")}
    assert {run for (run,) in Step.objects.values_list("run_id").distinct()} == {heads["a"], heads["c"]}
    assert [name for name, head_id in heads.items() if store.head(head_id).dirty] == ["bad"]
    assert "cannot be folded" in caplog.text
    with pytest.raises(IntegrityError), transaction.atomic():
        projection.catch_up(heads.values())


def test_runs_that_are_folded_together_keep_their_values_apart() -> None:
    """Large values are read for all runs of a batch at once; closed ones are found in the run that holds them."""
    big = {"text": "x" * 3_000}
    closed = {"$payload": {"encoding": "binary/encrypted", "data": "AAAA" * 1_000}}
    versions = {"tools": {f"tool{n}": f"{n:064x}" for n in range(40)}}
    for name, out in (("open", big), ("closed", closed)):
        bring(name, numbered({**START, "versions": versions}, {**model(1), "out": out}, DONE))
    projection.catch_up()
    found = {run.run: run for run in Run.objects.select_related("versions_set")}
    assert found["open"].findings == []
    assert found["closed"].findings == ["encrypted_payload"]
    assert found["open"].versions_set == found["closed"].versions_set
    before = everything()
    for run in found.values():
        projection.fold(run.pk, fresh=True)
    assert everything() == before


@pytest.mark.django_db(transaction=True)
def test_a_fold_waits_for_nobody_who_holds_a_head() -> None:
    head = begin()
    settings = connection.get_connection_params()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE journals_head SET dirty = true WHERE id = %s", [head.id])
        cursor.execute("SET lock_timeout = '5s'")
    with psycopg.connect(
        dbname=settings["dbname"], host=settings["host"], port=settings["port"], user=settings["user"]
    ) as other:
        other.execute("SELECT 1 FROM journals_head WHERE id = %s FOR UPDATE", [head.id])
        assert projection.catch_up() == 0
        assert store.head(head.id).dirty is True
    with connection.cursor() as cursor:
        cursor.execute("RESET lock_timeout")
    projection.catch_up()
    assert store.head(head.id).dirty is False


@pytest.mark.django_db(transaction=True)
def test_a_change_behind_the_reading_of_the_head_leaves_the_run_dirty() -> None:
    head = begin()
    settings = connection.get_connection_params()

    def hold_meanwhile() -> dict[str, str]:
        """Called in the middle of a fold: another session holds the run and commits."""
        with psycopg.connect(
            dbname=settings["dbname"], host=settings["host"], port=settings["port"], user=settings["user"]
        ) as other:
            other.execute(
                "UPDATE journals_head SET hold_reason = 'PromptChanged', dirty = true WHERE id = %s", [head.id]
            )
        return {}

    with connection.cursor() as cursor:
        cursor.execute("UPDATE journals_head SET dirty = true WHERE id = %s", [head.id])
    projection.RETIREMENTS.append(hold_meanwhile)
    try:
        assert projection.fold(head.id).status == "running"
    finally:
        projection.RETIREMENTS.remove(hold_meanwhile)
    assert store.head(head.id).dirty is True
    projection.catch_up()
    assert Run.objects.get(pk=head.id).status == "held"
    assert store.head(head.id).dirty is False


@pytest.mark.django_db(transaction=True)
def test_what_the_server_writes_is_folded_when_it_is_committed() -> None:
    head = begin()
    store_id = head.id
    assert Run.objects.get(pk=store_id).status == "running"
    bring("file-run", numbered(START, DONE))
    assert Run.objects.get(run="file-run").status == "completed"


def test_time_alone_makes_a_run_behind() -> None:
    asked = {
        "kind": "approval.requested",
        "approval": "a",
        "artifact": {"tool": "pay", "args": {}},
        "expires_at": "2026-01-01T00:00:00Z",
    }
    head_id = bring("r", numbered(START, asked))
    run = projection.fold(head_id)
    Run.objects.filter(pk=head_id).update(recheck_at="2026-01-01T00:00:00Z", status="stale")
    projection.catch_up()
    assert Run.objects.get(pk=head_id).status == run.status


def test_equal_version_sets_are_one_row() -> None:
    ids = [bring(f"r{n}", numbered(START, model(1))) for n in range(2)]
    rows = [projection.fold(i).versions_set for i in ids]
    assert rows[0] == rows[1]
    assert rows[0] is not None
    assert rows[0].body == {
        "app": "agent-1",
        "prompt": {"refund-policy": "12"},
        "model": {"": "provider/model-5"},
        "sdk": "1",
    }


def test_a_run_that_recorded_no_versions_has_no_set() -> None:
    assert projection.fold(bring("r", numbered({"kind": "run.started"}))).versions_set is None


def test_steps_of_other_names_keep_their_own_bare_models() -> None:
    other = {**model(2), "name": "sum", "versions": {"model": "m-6"}}
    found = projection.fold(bring("r", numbered(model(1), other))).versions_set
    assert found is not None
    assert found.body["model"] == {"decide": "provider/model-5", "sum": "m-6"}


def test_large_versions_are_read_whole() -> None:
    tools = {f"tool-{n}": f"sha256:{n:064d}" for n in range(60)}
    run = projection.fold(
        bring("r", numbered({**started(1), "versions": {"tools": tools}}, {**result(1), "versions": {"tools": tools}}))
    )
    assert run.versions_set is not None
    assert run.versions_set.body["tools"] == tools
    assert Step.objects.get(run=run).versions == {"tools": tools}


def test_large_artifacts_are_compared_whole() -> None:
    asked = {"kind": "approval.requested", "approval": "a", "artifact": {"tool": "pay", "args": {"memo": "x" * 5_000}}}
    said = {"kind": "approval.decided", "approval": "a", "decision": "approve", "by": "bob"}
    ran = {"kind": "tool.started", "name": "pay", "approval": "a", "in": {"memo": "x" * 4_999 + "y"}}
    assert "approval_mismatch" in projection.fold(bring("r", numbered(asked, said, ran))).findings
    assert (
        "approval_mismatch"
        not in projection.fold(bring("s", numbered(asked, said, {**ran, "in": {"memo": "x" * 5_000}}))).findings
    )


def test_what_is_odd_about_a_large_value_is_found_once_and_kept() -> None:
    deep = b'{"run":"r","seq":1,"kind":"tool.result","name":"a","out":' + b"[" * 3_000 + b"]" * 3_000 + b"}"
    head_id = store.ingest(source_name="file", runtime="lines", import_id=1, actor="import:1", items=[foreign(deep)])[
        "r"
    ].head_id
    first = projection.fold(head_id)
    assert "too_deep" in first.findings
    assert first.summary["closed"] == {"until": 1, "codes": {"too_deep": [1]}}
    bring("r", [{"seq": 2, **model(2)}])
    assert "too_deep" in projection.fold(head_id).findings


@pytest.mark.parametrize("odd", ["a\x00b", "half \ud83d", "\\x41", "", " lead", "\u00fc", "u\u0308", "order/42"])
def test_awkward_texts_are_kept(odd: str) -> None:
    line = {
        "kind": "tool.started",
        "name": odd,
        "step": 1,
        "key": odd,
        "in": 1,
        "versions": {"app": odd or "a", "tools": {odd or "t": odd or "v"}},
    }
    head_id = bring(odd, numbered({"kind": "run.started", "build": odd}, line))
    projection.fold(head_id)
    step = Step.objects.get(run_id=head_id)
    assert (store.decode_text(step.name or ""), store.decode_text(step.key or "")) == (odd, odd)
    json.dumps(Run.objects.get(pk=head_id).summary).encode()
    assert "\x00" not in Run.objects.get(pk=head_id).run


def test_an_unknown_runtime_is_believed_nothing() -> None:
    items = [foreign(wire.dump({"run": "r", **line})) for line in numbered(START, result(1))]
    head_id = store.ingest(source_name="x", runtime="nobody-knows", import_id=1, actor="import:1", items=items)[
        "r"
    ].head_id
    projection.fold(head_id)
    assert Step.objects.get(run_id=head_id).effects == "at_least_one"


def test_a_runs_row_tells_what_lists_need() -> None:
    waits = {"kind": "timer.started", "name": "wait", "step": 3, "until": "2027-01-01T00:00:00Z"}
    run = projection.fold(bring("r", numbered(START, model(1), started(2), result(2), waits)))
    assert (run.agent, run.build, run.status, run.in_flight, run.steps, run.entries) == (
        "refund",
        "40",
        "unknown",
        True,
        3,
        5,
    )
    assert (run.parked_on, run.waiting_for, run.current_step, run.current_kind) == (
        "timer",
        "timer until 2027-01-01T00:00:00Z",
        3,
        "timer",
    )
    told = projection.fold(
        bring("s", [*numbered(START, model(1), started(2)), {**state(status="running", complete=False), "seq": 4}])
    )
    assert (told.status, told.gap, told.gap_confidence, told.current_name) == (
        "running",
        "may_run_twice",
        "certain",
        "pay",
    )
    assert "gap_open" in told.findings
