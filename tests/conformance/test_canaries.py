"""Payloads that make a file when somebody loads them: imported, shown, searched and exported, and no file is there."""

from __future__ import annotations

import base64
import json
import pickle  # noqa: TID251  (only to show that the canary would sing)
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.test import Client

from tests.conformance.captures import FIXTURES
from tests.conformance.test_imports import _tasks_at_once, ci, imported, look, runs_of

__all__ = ["_tasks_at_once", "ci", "imported"]  # fixtures

MARK = "was-executed.sentinel"
Imported = Callable[..., dict[str, Any]]


def msgpack_canary() -> bytes:
    """A value of LangGraph's that its own reader would turn into `Path("msgpack-was-executed.sentinel").touch()`."""
    call = msgspec.msgpack.encode(["pathlib", "Path", [f"msgpack-{MARK}"], "touch"])
    return msgspec.msgpack.encode({"messages": [msgspec.msgpack.Ext(3, call)]})


def files() -> Iterator[tuple[str, str, bytes]]:
    """(format, name, bytes)."""
    folder = FIXTURES / "dbos" / "case-10"
    rows = {p.stem: json.loads(p.read_text("utf-8")) for p in folder.glob("[ow]*.json")}
    yield "dbos", "tables.json", json.dumps(rows).encode()
    yield "langgraph", "row.json", (folder / "langgraph-checkpoint-row.json").read_bytes()
    yield "langgraph", "blobs.json", (FIXTURES / "langgraph" / "case-10.blobs.json").read_bytes()
    blob = {"thread_id": "t-canary", "checkpoint_ns": "", "channel": "messages", "version": "1", "type": "msgpack"}
    yield "langgraph", "ext.json", json.dumps([{**blob, "blob": f"\\x{msgpack_canary().hex()}"}]).encode()


def test_the_pickle_would_make_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = json.loads((FIXTURES / "dbos" / "case-10" / "operation_outputs.json").read_text("utf-8"))
    (stored,) = (r["output"] for r in rows if r["function_name"] == "load_plugin")
    pickle.loads(base64.b64decode(stored)).close()  # noqa: S301
    assert [p.name for p in tmp_path.iterdir()] == [f"pickle-{MARK}"]


@pytest.mark.django_db
def test_nothing_that_is_imported_is_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: Client, people: Any, ci: dict[str, Any], imported: Imported
) -> None:
    monkeypatch.chdir(tmp_path)
    client.force_login(people["alice"])
    for n, (form, name, data) in enumerate(files()):
        report = imported(((name, data),), f"canary-{n}", format=form)
        assert runs_of(report), name
        assert look(client, report, ci) == []
        for key in runs_of(report):
            exported = b"".join(client.get(f"/runs/{key}/export.jsonl"))  # type: ignore[arg-type]
            assert exported
    assert client.get("/runs/", {"q": MARK}).status_code == 200
    assert list(tmp_path.iterdir()) == []
