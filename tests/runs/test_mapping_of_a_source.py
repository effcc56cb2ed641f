"""A source's mapping is changed in one transaction: its history grows, its runs are folded again, its journal stays."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from journals import errors, signals, store
from runs import projection
from runs.models import Run, Step
from tests.runs.journal import numbered
from tests.runs.test_projection import begin, bring

LINES = numbered(
    {"kind": "run.started", "in": {"build": "b7"}},
    {"kind": "tool.started", "step": 1, "name": "ask", "in": {"messages": ["m" * 3_000], "model": "m-5"}},
    {"kind": "tool.result", "step": 1, "name": "ask", "out": "fine"},
    {"kind": "tool.started", "step": 2, "name": "look"},
)
BODY = '{"kinds":{"ask":"model"},"effects":{"look":"read"},"versions":{"app":["/in/build"]},"step_versions":{"model":["/in/model"]}}'


def rows(head_id: int) -> list[tuple[str, str, str]]:
    projection.catch_up()
    return [(s.kind, s.effect, s.verdict) for s in Step.objects.filter(run_id=head_id).order_by("ord")]


def entries(head_id: int) -> list[bytes]:
    return [e.raw for e in store.read(head_id)]


@pytest.mark.django_db
def test_runs_are_folded_under_the_new_mapping_and_the_journal_stays() -> None:
    head_id, other = bring("r1", LINES), bring("r1", LINES, source="elsewhere")
    before, recorded = rows(head_id), entries(head_id)
    source = store.source(name="file")
    assert store.change_mapping(source.id, BODY, by="person:alice") == 1
    assert rows(head_id) == [("model", "read", "done"), ("tool", "read", "may_run_twice")]
    run = Run.objects.select_related("versions_set").get(pk=head_id)
    assert run.versions_set is not None
    assert run.versions_set.body == {"app": "b7", "model": {"": "m-5"}}
    assert (run.gap, run.gap_confidence) == (
        "unknown",
        "unknown",
    )  # only a read is open; behind the file's end may be a write
    assert rows(other) == before
    assert entries(head_id) == recorded
    assert bring("r1", LINES) == head_id
    assert entries(head_id) == recorded  # the same file again is nothing new
    store.change_mapping(source.id, store.UNMAPPED, by="person:alice")
    assert rows(head_id) == before


@pytest.mark.django_db
def test_every_change_is_kept_and_an_equal_one_is_none() -> None:
    bring("r1", LINES)
    source = store.source(name="file")
    store.change_mapping(source.id, BODY, by="person:alice")
    assert store.change_mapping(source.id, BODY, by="person:bob") == 0
    now = store.source(name="file")
    assert [(c.by, c.body, c.version) for c in store.mapping_changes(source.id)] == [
        ("person:alice", BODY, now.version)
    ]
    with pytest.raises(store.MappingMoved):
        store.change_mapping(source.id, store.UNMAPPED, by="person:bob", expected=source.version)
    assert store.source(name="file").mapping == BODY
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("DELETE FROM journals_mapping")


@pytest.mark.django_db
def test_a_native_source_takes_no_mapping() -> None:
    begin()
    source = store.source(name="native:prod")
    with pytest.raises(errors.NotAllowed):
        store.change_mapping(source.id, BODY, by="person:alice")
    with pytest.raises(DatabaseError, match="native_unmapped"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("UPDATE journals_source SET mapping = %s", [BODY])
    with pytest.raises(store.UnknownSource):
        store.source(name="nowhere")


@pytest.mark.django_db(transaction=True)
def test_a_fold_that_read_the_old_mapping_leaves_its_run_behind(monkeypatch: Any) -> None:
    """The mapping changes while a fold is under way: the run must be folded again, whether it was behind before or not."""
    monkeypatch.setattr(signals, "announce", lambda _: None)
    head_id = bring("r1", LINES)
    assert store.head(head_id).dirty
    whole = projection.load

    def meanwhile(*given: Any, **named: Any) -> Any:
        made = whole(*given, **named)
        monkeypatch.setattr(projection, "load", whole)
        changing = threading.Thread(target=change)
        changing.start()
        changing.join()
        return made

    def change() -> None:
        try:
            store.change_mapping(store.source(name="file").id, BODY, by="person:alice")
        finally:
            connection.close()

    monkeypatch.setattr(projection, "load", meanwhile)
    projection.fold(head_id)
    assert [s.kind for s in Step.objects.filter(run_id=head_id).order_by("ord")] == ["tool", "tool"]
    assert store.head(head_id).dirty
    assert [kind for kind, _, _ in rows(head_id)] == ["model", "tool"]
