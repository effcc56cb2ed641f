"""The documented schemas hold for real reports and lines, and the documents name what the code has."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from drainboard import wire
from jsonschema import Draft202012Validator

from tests.ingest.conftest import LINES, TORN, Importing

DOCS = Path(__file__).resolve().parents[2] / "docs"


def schema(name: str) -> Draft202012Validator:
    body: dict[str, Any] = json.loads((DOCS / name).read_text())
    Draft202012Validator.check_schema(body)
    return Draft202012Validator(body)


@pytest.mark.django_db
@pytest.mark.parametrize("path", sorted([*TORN.iterdir(), *LINES.glob("*.jsonl")]), ids=lambda p: p.name)
def test_a_report_is_what_the_schema_says(path: Path, importing: Importing) -> None:
    made = importing({path.name: path.read_bytes()})
    errors = [e.message for e in schema("import-report.schema.json").iter_errors(json.loads(json.dumps(made)))]
    assert not errors


@pytest.mark.parametrize("name", ["approval_mismatch", "versions_changed", "awkward_ids"])
def test_lines_are_what_the_schema_says(name: str) -> None:
    for line in (LINES / f"{name}.jsonl").read_text().split("\n"):
        if line:
            assert not [e.message for e in schema("journal-line.schema.json").iter_errors(json.loads(line))]


def test_the_line_schema_and_the_document_name_every_field() -> None:
    fields = {"in" if f == "in_" else f for f in wire.Entry.__dataclass_fields__} - {"extra", "oddities"}
    body = json.loads((DOCS / "journal-line.schema.json").read_text())
    told = {
        "started_at",
        "last_failure",
        "copied_from",
        "entry_id",
        "order",
        "under",
        "asked",
        "answered",
        "encloses",
        "oddities",
    }
    beside = {"recorded_at", *told}  # documented, read as extra fields
    assert set(body["properties"]) == fields | beside
    text = (DOCS / "journal-lines.md").read_text()
    assert not [f for f in fields | beside if f"`{f}`" not in text]


def test_the_document_names_every_kind() -> None:
    text = (DOCS / "journal-lines.md").read_text()
    first = {kind.split(".")[0] for kind in wire.KINDS}
    assert not [word for word in first if f"`{word}" not in text]
    assert not [kind for kind in wire.KINDS if kind.split(".")[-1] not in text]


def test_the_document_names_every_fact_of_a_run_that_rules_read() -> None:
    """Fields of a `runtime.state` note."""
    read = set()
    for path in (DOCS.parent / "runs").glob("*.py"):
        read |= set(re.findall(r"""\bout(?:\.get\(|\[)["'](\w+)["']|\btold\(facts, ["'](\w+)["']""", path.read_text()))
    names = {name for pair in read for name in pair if name}
    assert {"pending", "held", "others", "parent"} <= names
    text = (DOCS / "states.md").read_text()
    assert sorted(name for name in names if f"`{name}`" not in text) == []
