"""`show_run` and its neighbours: the documented shape, readable text, clear errors."""

from __future__ import annotations

import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from drainboard import wire

from journals import store
from journals.foreign import foreign
from runs.findings import CODES
from runs.models import Run
from runs.show import show
from tests.runs.good import journals
from tests.runs.journal import numbered
from tests.runs.test_projection import begin, bring

DOCS = Path(__file__).parent.parent.parent / "docs"
SCHEMA = json.loads((DOCS / "show-run.schema.json").read_text())
LINES = Path(__file__).parent.parent / "fixtures" / "lines"

pytestmark = pytest.mark.django_db


def run_command(*arguments: str, **options: Any) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out, **options)
    return out.getvalue()


def valid(made: dict[str, Any]) -> dict[str, Any]:
    jsonschema.validate(made, SCHEMA, jsonschema.Draft202012Validator)
    return made


def bring_file(path: Path, source: str) -> list[int]:
    items = []
    for n, raw in enumerate(path.read_bytes().split(b"\n")):
        if raw.strip():
            entry = wire.parse(raw)
            items.append(foreign(raw, id=entry.id or (f"seq:{entry.seq}" if entry.seq else f"line:{n}")))
    found = store.ingest(source_name=source, runtime="lines", import_id=1, actor="import:1", items=items)
    return [r.head_id for r in found.values()]


def test_its_answer_has_the_documented_shape() -> None:
    for name, lines in journals():
        valid(show(bring(name, lines)))
    for path in LINES.glob("*.jsonl"):
        for head_id in bring_file(path, path.name):
            made = valid(show(head_id))
            assert json.loads(wire.encode(made)) == made


def test_its_answer_about_our_own_run_has_it_too() -> None:
    head = begin()
    store.record(
        head.id,
        {"kind": "stop.requested", "reason": "PromptChanged", "message": "m", "by": "alice"},
        actor="person:alice",
        changes={"stop_name": "PromptChanged"},
    )
    made = valid(show(head.id))
    assert (made["status"], made["source"], made["runtime"]) == ("stopping", "native:prod", "native")
    assert [(d["kind"], d["by"], d["reason"], d["detail"]["origin"]) for d in made["decisions"]] == [
        ("stop.requested", "alice", "PromptChanged", "here")
    ]


def test_the_schema_names_every_code() -> None:
    assert SCHEMA["properties"]["findings"]["items"]["properties"]["code"]["enum"] == list(CODES)


def test_every_code_has_a_page_and_every_page_a_code() -> None:
    pages = {p.stem: p.read_text() for p in (DOCS / "findings").glob("*.md")}
    assert set(pages) == set(CODES)
    for code, text in pages.items():
        assert text.startswith(f"# {code}\n\n{CODES[code][1]}. Severity: `{CODES[code][0]}`")
        assert "## What it means" in text
        assert "## What to do" in text


def test_the_command_prints_json_and_text() -> None:
    bring("r-1", numbered({"kind": "run.started"}, {"kind": "tool.started", "name": "pay", "step": 1}))
    assert valid(json.loads(run_command("show_run", "r-1", "--json")))["run"] == "r-1"
    text = run_command("show_run", "r-1")
    for words in ("status     unknown", "pay: may_run_twice, certain", "gap_open", "key_missing"):
        assert words in text


def test_the_text_carries_no_control_character() -> None:
    odd = "x\x1b]0;evil\x07\r\n\x00\x9b2Jy"
    head_id = bring(
        odd,
        numbered(
            {"kind": "tool.error", "name": odd, "step": 1, "key": odd, "error": {"type": odd, "message": "Timeout"}}
        ),
    )
    key = store.head(head_id).key
    text = run_command("show_run", key)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)
    assert "\\x1b" in text
    assert json.loads(run_command("show_run", key, "--json"))["run"] == odd


def test_a_run_is_found_by_its_key_too() -> None:
    head_id = bring("r-1", numbered({"kind": "run.started"}))
    assert json.loads(run_command("show_run", store.head(head_id).key, "--json"))["run"] == "r-1"


def test_a_run_id_of_several_sources_needs_its_source() -> None:
    for source in ("a", "b"):
        bring("r-1", numbered({"kind": "run.started"}), source=source)
    with pytest.raises(
        CommandError, match=r"AmbiguousRun: run 'r-1' is in several sources: a, b\. Name one with --source\."
    ):
        run_command("show_run", "r-1")
    assert json.loads(run_command("show_run", "r-1", "--source", "b", "--json"))["source"] == "b"


def test_an_unknown_run_is_a_clear_error() -> None:
    with pytest.raises(CommandError, match="UnknownRun: no run has the id 'nobody'"):
        run_command("show_run", "nobody")


def test_rebuild_runs_makes_rows_again() -> None:
    bring("r-1", numbered({"kind": "run.started"}))
    Run.objects.all().delete()
    assert json.loads(run_command("rebuild_runs", "--json")) == {"runs": 1}
    assert Run.objects.count() == 1


def test_verify_journals_finds_a_changed_entry() -> None:
    head = begin()
    assert json.loads(run_command("verify_journals", "--json"))["ok"] is True
    with connection.cursor() as cursor:  # a database owner's hand, past trigger and role
        cursor.execute("ALTER TABLE journals_entry DISABLE TRIGGER USER")
        cursor.execute("UPDATE journals_entry SET actor = 'person:mallory' WHERE head_id = %s", [head.id])
        cursor.execute("ALTER TABLE journals_entry ENABLE TRIGGER USER")
    out = StringIO()
    with pytest.raises(SystemExit) as raised:
        call_command("verify_journals", "--json", stdout=out)
    assert raised.value.code == 1
    found = json.loads(out.getvalue())
    assert (found["ok"], [(b["run"], b["pos"]) for b in found["bad"]]) == (False, [("r1", 1)])
