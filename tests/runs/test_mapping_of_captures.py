"""A mapping is obeyed on what each runtime really exported: names in all lines of a step, pointers into the lines as they are shown."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from journals.adapters import ADAPTERS
from journals.adapters.base import InputFile, Line, Options
from runs.mapped import apply
from runs.mapping import read
from runs.summary import Summary
from tests.runs.journal import Entry, fold_import, imported

FOLDER = Path(__file__).resolve().parent.parent / "fixtures" / "adapters"
CAPTURES = [
    ("temporal", "a-normal.show.json.gz", "/temporal/firstExecutionRunId", "01a22742-769f-7acc-8eeb-0fc9e2db464f"),
    ("dbos", "captures/a-hashversion.done.dump.sql", "/attributes/git_sha", "3f1c9ab"),
    ("aws", "a_succeeded.json", "/in/key", "k-A-100"),
    ("restate", "a_completed_virtual_object.json", "/target_service_key", "cust-9"),
    ("otel", "oa_d_fanout.jsonl", "/resource/deployment.environment.name", "prod"),
    ("cloudflare", "approval.json", "/in/iid", "approval-55739"),
    ("durabletask", "a-completed.json", "/tags/prompt_version", "refund-agent@7"),
    ("langgraph", "b-crash-sync.recovered.dump.sql.gz", "/metadata/git_sha", "3f1c9ab"),
]


def entries(runtime: str, name: str) -> list[Entry]:
    """The first run of a capture that looks an order up, as an import stores it."""
    data = (FOLDER / runtime / name).read_bytes()
    file = InputFile.of(name.removesuffix(".gz"), gzip.decompress(data) if name.endswith(".gz") else data)
    runs: dict[str, list[bytes]] = {}
    for item in ADAPTERS[runtime].read([file], Options()):
        if isinstance(item, Line):
            runs.setdefault(item.run, []).append(item.raw)
    return imported(next(lines for lines in runs.values() if any(b'"lookup_order"' in line for line in lines)))


def lookups(made: Summary) -> list[tuple[str, bool, bool, str]]:
    return [
        (r.step.kind, r.step.write, r.step.mixed, str(r.status)) for r in made.steps if r.step.name == "lookup_order"
    ]


@pytest.mark.parametrize(("runtime", "name", "pointer", "found"), CAPTURES, ids=lambda v: v if v in ADAPTERS else "")
def test_a_mapping_is_obeyed(runtime: str, name: str, pointer: str, found: str) -> None:
    given, evidence = entries(runtime, name), ADAPTERS[runtime].INFO.evidence
    before = fold_import(given, evidence=evidence)
    body = {"kinds": {"lookup_*": "model"}, "effects": {"lookup_*": "read"}, "versions": {"app": pointer}}
    after = fold_import(apply(given, read(body)), evidence=evidence)
    assert lookups(before)
    assert {s[:3] for s in lookups(before)} == {("tool", True, False)}
    assert {s[:3] for s in lookups(after)} == {("model", False, False)}
    assert [s[3] for s in lookups(after)] == [s[3] for s in lookups(before)]
    assert found in after.versions["app"]
    assert len(after.steps) == len(before.steps)
