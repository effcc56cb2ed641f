"""Captured exports of Temporal by name, and what the adapter makes of them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from journals.adapters import temporal
from journals.adapters.base import InputFile, Item, Line, Options

FOLDER = Path(__file__).parent.parent / "fixtures/adapters/temporal"
NAMES = sorted(
    [p.name.removesuffix(".gz") for p in FOLDER.glob("*.gz")]
    + [f"made/{p.name}" for p in (FOLDER / "made").glob("*.json")]
)


def data(name: str) -> bytes:
    """The unpacked bytes of one fixture."""
    path = FOLDER / name
    return path.read_bytes() if path.exists() else gzip.decompress((FOLDER / f"{name}.gz").read_bytes())


def read(*names: str) -> list[Item]:
    """Every item of one import of these fixtures."""
    return items(InputFile.of(n, data(n)) for n in names)


def items(files: Iterable[InputFile]) -> list[Item]:
    return list(temporal.read(list(files), Options()))


def lines(found: Iterable[Item]) -> list[dict[str, Any]]:
    """The decoded lines of the steps and events, without the notes of state."""
    made = [json.loads(i.raw) for i in found if isinstance(i, Line)]
    return [entry for entry in made if entry.get("name") != "runtime.state"]


def raws(found: Iterable[Item]) -> list[bytes]:
    return [i.raw for i in found if isinstance(i, Line) and b'"runtime.state"' not in i.raw]


def states(found: Iterable[Item]) -> list[dict[str, Any]]:
    """What the `runtime.state` notes say, in order."""
    made = [json.loads(i.raw) for i in found if isinstance(i, Line)]
    return [entry["out"] for entry in made if entry.get("name") == "runtime.state"]


def state(*names: str) -> dict[str, Any]:
    return states(read(*names))[-1]


def history(
    *events: Mapping[str, Any], run_id: str = "0f3c1f2e-0000-4000-8000-0000000000aa", workflow_id: str = "wf-1"
) -> bytes:
    """A history of these events after its first one; ids are given in order, times are a second apart.

    An event is `{"type": "TimerFired", **attributes}`; `top` holds fields beside the attributes.
    """
    first = {
        "type": "WorkflowExecutionStarted",
        "workflowId": workflow_id,
        "workflowType": {"name": "Agent"},
        "originalExecutionRunId": run_id,
    }
    return json.dumps({"events": [event(n, e) for n, e in enumerate([first, *events], 1)]}).encode()


def event(number: int, given: Mapping[str, Any]) -> dict[str, Any]:
    kind = given["type"]
    attributes = {k: v for k, v in given.items() if k not in ("type", "top")}
    name = kind[0].lower() + kind[1:] + "EventAttributes"
    return {
        "eventId": str(number), "eventTime": f"2026-08-03T09:00:{number % 60:02}Z", "eventType": kind, "taskId": str(1000 + number),
        name: attributes, **given.get("top", {}),
    }  # fmt: skip


def payload(value: Any) -> dict[str, Any]:
    """One argument or result as a human-readable export writes it."""
    return {"payloads": [{"metadata": {"encoding": "json/plain"}, "data": value}]}


def made(*events: Mapping[str, Any]) -> list[Item]:
    return items([InputFile.of("made.json", history(*events))])
