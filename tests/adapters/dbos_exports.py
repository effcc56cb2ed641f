"""Reads the DBOS captures for the tests: what the adapter makes of a file, sorted by what it is."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from journals.adapters import dbos
from journals.adapters.base import Counted, InputFile, Line, Note, Options, Partial, Refused, Unread

HERE = Path(__file__).parent.parent / "fixtures" / "adapters" / "dbos"
CAPTURES = HERE / "captures"


@dataclass
class Read:
    """Everything that one import gave."""

    lines: list[Line] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    partial: list[Partial] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    counted: dict[str, int] = field(default_factory=dict)

    def entries(self, run: str) -> list[dict[str, Any]]:
        return [json.loads(line.raw) for line in self.lines if line.run == run]

    def entry(self, run: str, entry_id: str) -> dict[str, Any]:
        (found,) = [e for e in self.entries(run) if e["id"] == entry_id]
        return found

    def state(self, run: str) -> dict[str, Any]:
        """The content of the run's last line."""
        last = self.entries(run)[-1]
        assert (last["kind"], last["name"]) == ("note", "runtime.state")
        return last["out"]

    @property
    def runs(self) -> list[str]:
        return list(dict.fromkeys(line.run for line in self.lines))


def bytes_of(name: str) -> bytes:
    """The unpacked bytes of a capture, whether it is kept packed or not."""
    packed = CAPTURES / f"{name}.gz"
    return gzip.decompress(packed.read_bytes()) if packed.exists() else (CAPTURES / name).read_bytes()


def names(ending: str) -> list[str]:
    """Captures with this ending, without `.gz`."""
    found = (path.name.removesuffix(".gz") for path in CAPTURES.iterdir())
    return sorted(name for name in found if name.endswith(ending))


def read(*files: InputFile, **options: Any) -> Read:
    made = Read()
    for item in dbos.read(files, Options(**options)):
        match item:
            case Line():
                made.lines.append(item)
            case Unread():
                made.unread.append(item)
            case Refused():
                made.refused.append(item)
            case Partial():
                made.partial.append(item)
            case Note():
                made.notes.append(item)
            case Counted():
                made.counted[item.path] = item.lines
    return made


def read_capture(*captures: str, **options: Any) -> Read:
    return read(*(InputFile.of(name, bytes_of(name)) for name in captures), **options)


def read_folder(folder: Path) -> Read:
    return read(*(InputFile.of(path.name, path.read_bytes()) for path in sorted(folder.iterdir())))


def table_file(table: str, rows: Sequence[dict[str, Any]], path: str = "") -> InputFile:
    return InputFile.of(path or f"{table}.json", json.dumps(rows).encode())


def a_run(run: str = "r", **fields: Any) -> dict[str, Any]:
    """A row of workflow_status of a running workflow."""
    row = {
        "workflow_uuid": run, "status": "PENDING", "name": "agent", "executor_id": "e", "created_at": 1_000_000, "updated_at": 1_000_000,
        "application_version": "v1", "recovery_attempts": 1, "queue_name": None, "started_at_epoch_ms": None, "inputs": None, "output": None,
        "error": None, "serialization": "portable_json", "forked_from": None,
    }  # fmt: skip
    return {**row, **fields}


def a_step(number: int, name: str = "send_refund", run: str = "r", **fields: Any) -> dict[str, Any]:
    """A row of operation_outputs: the step `number`, one second long, its result a JSON object."""
    row = {
        "workflow_uuid": run, "function_id": number, "function_name": name, "output": "{}", "error": None, "child_workflow_id": None,
        "started_at_epoch_ms": 1_000_000 + 2_000 * number, "completed_at_epoch_ms": 1_001_000 + 2_000 * number,
        "serialization": "portable_json",
    }  # fmt: skip
    return {**row, **fields}


def read_rows(
    status: Sequence[dict[str, Any]], steps: Sequence[dict[str, Any]] = (), **tables: Sequence[dict[str, Any]]
) -> Read:
    files = {"workflow_status": status, "operation_outputs": steps, **tables}
    return read(*(table_file(table, rows) for table, rows in files.items()))


def places(items: Sequence[dict[str, Any]]) -> list[int]:
    return [item["step"] for item in items]
