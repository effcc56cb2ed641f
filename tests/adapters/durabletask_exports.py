"""Reads Durable Task captures for the tests, and makes small histories."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from journals.adapters import durabletask
from journals.adapters.base import Counted, InputFile, Line, Note, Options, Partial, Refused, Unread

HERE = Path(__file__).parent.parent / "fixtures" / "adapters" / "durabletask"
CASE = "5f1d0000000000000000000000000041"


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

    @property
    def raw(self) -> list[bytes]:
        return [line.raw for line in self.lines]


def read(*files: InputFile, **options: Any) -> Read:
    made = Read()
    for item in durabletask.read(files, Options(**options)):
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


def read_bytes(data: bytes, **options: Any) -> Read:
    return read(InputFile.of("x.json", data), **options)


def read_json(value: Any, **options: Any) -> Read:
    return read_bytes(json.dumps(value).encode(), **options)


def capture(name: str) -> Any:
    return json.loads((HERE / name).read_text())


def read_capture(name: str) -> Read:
    return read(InputFile.of(name, (HERE / name).read_bytes()))


def at(seconds: float) -> str:
    return f"2026-01-01T00:00:{seconds:09.6f}Z"


def core(kind: str, seconds: float, **fields: Any) -> dict[str, Any]:
    """An event as DurableTask.Core writes it: what is scheduled counts from 0, a retry gets a new number."""
    return {"EventType": kind, "EventId": -1, "IsPlayed": False, "Timestamp": at(seconds), **fields}


def rows_of(events: Sequence[dict[str, Any]], instance: str = "i", execution: str = "e") -> list[dict[str, Any]]:
    """The same events as entities of the storage provider's history table."""
    made = []
    for n, event in enumerate(events):
        row = {k: v for k, v in event.items() if k != "Timestamp"}
        row |= {
            "PartitionKey": instance,
            "RowKey": f"{n:016X}",
            "ExecutionId": execution,
            "_Timestamp": event["Timestamp"],
        }
        made.append({**row, "Timestamp": "2026-02-02T00:00:00Z"})
    return made


def places(items: Sequence[dict[str, Any]]) -> list[int]:
    return [item["step"] for item in items]
