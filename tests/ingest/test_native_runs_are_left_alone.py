"""A file never speaks for a worker: imports do not touch native runs."""

from __future__ import annotations

from typing import Any

import pytest

from journals import errors, store
from tests.ingest.conftest import Importing
from tests.journals.agents import Worker

pytestmark = pytest.mark.django_db


def test_the_store_refuses_a_native_source() -> None:
    line = b'{"run":"run-1","seq":1,"kind":"run.completed"}'
    item = store.Foreign(run="run-1", id="seq:1", raw=line, kind="run.completed", seq=1)
    with pytest.raises(errors.NotAllowed, match="native"):
        store.ingest(source_name="native:prod", runtime="lines", import_id=None, actor="import:1", items=[item])


def test_an_import_of_a_native_runs_export_makes_a_run_of_its_own(token: Any, importing: Importing) -> None:
    worker = Worker(token("worker")).start().open()
    worker.post(worker.line("tool.started", name="send", step=1))
    lines = b"\n".join(store.export(worker.head.id, native=True)) + b"\n"
    before = (worker.head.pos, worker.raws())
    told = importing({"export.jsonl": lines}, source="copy")
    (run,) = told["files"][0]["runs"]
    assert (run["run"], run["source"], run["new_entries"]) == ("run-1", "copy", 3)
    assert run["key"] != worker.key
    assert (worker.head.pos, worker.raws()) == before
    assert store.verify(worker.head.id).ok


def test_a_file_cannot_name_a_native_source(token: Any, importing: Importing) -> None:
    worker = Worker(token("worker")).start().open()
    before = worker.head.pos
    told: Any = None
    try:
        told = importing({"x.jsonl": b'{"run":"run-1","seq":1,"kind":"run.completed"}\n'}, source="native:prod")
    except errors.Refused as e:
        assert e.code == "MalformedRequest"  # noqa: PT017 - a refused file would be right too
    assert told is None or told["files"][0]["state"] == "refused"
    assert (worker.head.pos, worker.head.ended) == (before, "")
