"""Reads exports of AWS Lambda durable functions for the tests: captures, and answers that a test puts together."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from journals.adapters import aws
from journals.adapters.base import Counted, InputFile, Item, Line, Note, Options, Refused, Unread

HERE = Path(__file__).parent.parent / "fixtures" / "adapters" / "aws"
ARN = "arn:aws:lambda:eu-west-1:123456789012:function:refund:7/durable-execution/order-9/0a1b2c3d"
BEGUN = 1_800_000_000


@dataclass
class Read:
    """Everything that one import gave."""

    items: list[Item]
    lines: list[Line] = field(default_factory=list)

    def of(self, kind: type) -> list[Any]:
        return [i for i in self.items if isinstance(i, kind)]

    def entries(self, run: str = ARN) -> list[dict[str, Any]]:
        return [json.loads(line.raw) for line in self.lines if line.run == run]

    def steps(self, run: str = ARN) -> list[tuple[Any, ...]]:
        """Kind, branch, step, name of every entry that is of a step."""
        return [(e["kind"], e.get("branch", ""), e["step"], e.get("name")) for e in self.entries(run) if "step" in e]

    def states(self, run: str = ARN) -> list[dict[str, Any]]:
        return [e["out"] for e in self.entries(run) if e.get("name") == "runtime.state"]

    def state(self, run: str = ARN) -> dict[str, Any]:
        """The content of the run's last line."""
        last = self.entries(run)[-1]
        assert (last["kind"], last["name"]) == ("note", "runtime.state")
        assert last["id"].startswith("state:")
        return last["out"]

    def entry(self, entry_id: str, run: str = ARN) -> dict[str, Any]:
        (found,) = [e for e in self.entries(run) if e["id"] == entry_id]
        return found

    @property
    def runs(self) -> list[str]:
        return list(dict.fromkeys(line.run for line in self.lines))

    @property
    def raws(self) -> list[bytes]:
        """The records' lines without the state notes."""
        return [line.raw for line in self.lines if b'"name":"runtime.state"' not in line.raw]

    @property
    def notes(self) -> str:
        return "\n".join(n.text for n in self.of(Note))


def read(*files: tuple[str, bytes] | InputFile, **options: Any) -> Read:
    """What the adapter makes of these files; every file is refused or counted, and the count is right."""
    inputs = [f if isinstance(f, InputFile) else InputFile.of(*f) for f in files]
    items = list(aws.read(inputs, Options(**options)))
    made = Read(items, [i for i in items if isinstance(i, Line)])
    for file in inputs:
        counted = [i.lines for i in items if isinstance(i, Counted) and i.path == file.path]
        refused = [i for i in items if isinstance(i, Refused) and i.path == file.path]
        mine = [i for i in items if isinstance(i, (Line, Unread)) and i.path == file.path]
        assert (counted, len(refused)) == (([len(mine)], 0) if not refused else ([], 1))
    return made


def capture(name: str) -> bytes:
    return (HERE / f"{name}.json").read_bytes()


def read_capture(name: str) -> Read:
    return read((f"{name}.json", capture(name)))


def dump(*documents: Any) -> bytes:
    return b"\n".join(json.dumps(d).encode() for d in documents)


def execution(status: str = "RUNNING", **more: Any) -> dict[str, Any]:
    """An answer of GetDurableExecution."""
    made = {"DurableExecutionArn": ARN, "DurableExecutionName": "order-9", "Status": status, "StartTimestamp": BEGUN}
    return {**made, "FunctionArn": ARN.partition("/")[0], "Version": "7", **more}


def history(events: Sequence[Mapping[str, Any]], **more: Any) -> dict[str, Any]:
    """An answer of GetDurableExecutionHistory."""
    return {"Events": list(events), **more}


def events(*told: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Events with ids from 1, one a second, the start before them. Each is (type, id, name, details, other members)."""
    start = ("ExecutionStarted", "0a1b2c3d", "order-9", {"Input": {"Payload": '{"order": 9}', "Truncated": False}})
    made = []
    for n, (kind, *rest) in enumerate([start, *told], start=1):
        op, name, details, more = (*rest, *(None, None, None, None)[len(rest) :])
        event: dict[str, Any] = {"EventType": kind, "EventId": n, "EventTimestamp": BEGUN + n}
        event |= {k: v for k, v in (("Id", op), ("Name", name)) if v is not None}
        made.append({**event, f"{kind}Details": details or {}, **(more or {})})
    return made


def iso(seconds: float, *, hours: int = 0, blank: str = "T") -> str:
    """A time as the `aws` command line prints it in a time zone, or as Python prints a datetime."""
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=round(seconds * 1_000_000) + hours * 3_600_000_000)
    return at.isoformat(sep=blank).replace("+00:00", f"+{hours:02d}:00")


def respelled(value: Any, **how: Any) -> Any:
    """An answer with its times spelled another way."""
    if isinstance(value, dict):
        return {
            k: iso(v, **how) if k.endswith("Timestamp") and isinstance(v, (int, float)) else respelled(v, **how)
            for k, v in value.items()
        }
    return [respelled(v, **how) for v in value] if isinstance(value, list) else value
