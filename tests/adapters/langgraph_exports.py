"""Reads the LangGraph captures for the tests, and makes small tables by hand."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from journals.adapters import langgraph
from journals.adapters.base import Counted, InputFile, Item, Line, Note, Options, Partial, Refused, Unread

HERE = Path(__file__).parent.parent / "fixtures" / "adapters" / "langgraph"
NAMES = sorted(p.name.removesuffix(".gz") for p in HERE.iterdir() if p.suffix != ".md")


def data(name: str) -> bytes:
    packed = HERE / f"{name}.gz"
    return gzip.decompress(packed.read_bytes()) if packed.exists() else (HERE / name).read_bytes()


@dataclass
class Read:
    items: list[Item] = field(default_factory=list)

    def of(self, kind: type) -> list[Any]:
        return [item for item in self.items if isinstance(item, kind)]

    @property
    def lines(self) -> list[Line]:
        return self.of(Line)

    @property
    def entries(self) -> list[dict[str, Any]]:
        """All lines but the states."""
        return [e for e in (json.loads(line.raw) for line in self.lines) if e.get("name") != "runtime.state"]

    @property
    def states(self) -> list[dict[str, Any]]:
        found = (json.loads(line.raw) for line in self.lines)
        return [e["out"] for e in found if e.get("name") == "runtime.state"]

    @property
    def state(self) -> dict[str, Any]:
        """The last state; it is the last line."""
        assert json.loads(self.lines[-1].raw)["name"] == "runtime.state"
        return self.states[-1]

    def balanced(self) -> bool:
        """Every file's count is its lines and its unread stretches."""
        counts = {c.path: c.lines for c in self.of(Counted)}
        made = {path: 0 for path in counts}
        for item in [*self.lines, *self.of(Unread)]:
            made[item.path] += 1
        return made == counts and not {r.path for r in self.of(Refused)} & counts.keys()

    def place(self, branch: str, step: int) -> dict[str, Any]:
        """The one entry that ends this step."""
        (found,) = [
            e
            for e in self.entries
            if (e.get("branch", ""), e.get("step")) == (branch, step) and e["kind"].endswith((".result", ".error"))
        ]
        return found


def read(files: Mapping[str, bytes], **options: Any) -> Read:
    inputs = [InputFile.of(name, body) for name, body in files.items()]
    return Read(list(langgraph.read(inputs, Options(**options))))


def read_capture(*names: str, **options: Any) -> Read:
    return read({name: data(name) for name in names}, **options)


def read_tables(tables: Any, **options: Any) -> Read:
    return read({"t.json": json.dumps(tables).encode()}, **options)


def checkpoint_id(step: int, n: int = 1) -> str:
    return f"1f000000-0000-6000-{0x8000 + step & 0xBFFF:04x}-{n:012x}"


@dataclass
class Tables:
    """Rows of the PostgreSQL checkpointer. A checkpoint's time is second `step`, unless told."""

    checkpoints: list[dict[str, Any]] = field(default_factory=list)
    checkpoint_writes: list[dict[str, Any]] = field(default_factory=list)
    checkpoint_blobs: list[dict[str, Any]] = field(default_factory=list)
    seen: dict[str, dict[str, Any]] = field(default_factory=dict)

    def checkpoint(
        self, step: int, *due: str, parent: str | None = "", n: int = 1, source: str = "loop", resumed: bool = False,
        metadata: Mapping[str, Any] | None = None, ran: Sequence[str] = (), ns: str = "",
    ) -> str:  # fmt: skip
        """Adds a checkpoint that starts `due`, made out of what `ran`; its parent is the one of the step before unless told."""
        own = checkpoint_id(step, n)
        above = (checkpoint_id(step - 1) if step > -1 else None) if parent == "" else parent
        before = self.seen.get(above or "", {})
        seen = {**before, **{node: {f"branch:to:{node}": str(step)} for node in ran}}
        if resumed:
            seen["__interrupt__"] = {"x": str(step)}
        self.seen[own] = seen
        body = {
            "v": 4, "id": own, "ts": f"2026-11-29T12:00:{step + 10:02d}+00:00", "versions_seen": seen,
            "channel_versions": {f"branch:to:{node}": str(step + 1) for node in due}, "channel_values": {f"branch:to:{node}": None for node in due},
        }  # fmt: skip
        about = {"source": "input" if step == -1 else source, "step": step, "parents": {}, **(metadata or {})}
        self.checkpoints.append(
            {"thread_id": "t", "checkpoint_ns": ns, "checkpoint_id": own, "parent_checkpoint_id": above, "type": None, "checkpoint": body, "metadata": about}
        )  # fmt: skip
        return own

    def write(self, at: str, node: str, value: Any = "done", channel: str = "out", **fields: Any) -> None:
        """Adds a write of the task of a node that started from checkpoint `at`."""
        row = {
            "thread_id": "t", "checkpoint_ns": "", "checkpoint_id": at, "task_id": f"{at}-{node}", "idx": 0, "channel": channel, "type": "json",
            "blob": json.dumps(value), "task_path": f"~__pregel_pull, {node}",
        }  # fmt: skip
        self.checkpoint_writes.append({**row, **fields})

    def read(self, **options: Any) -> Read:
        return read_tables(self.rows, **options)

    @property
    def rows(self) -> dict[str, Any]:
        return {
            "checkpoints": self.checkpoints,
            "checkpoint_writes": self.checkpoint_writes,
            "checkpoint_blobs": self.checkpoint_blobs,
        }


def straight(*nodes: str) -> Tables:
    """A thread whose nodes ran one after the other and that is over."""
    made = Tables()
    made.checkpoint(-1)
    last = ""
    for step, node in enumerate([*nodes, ""]):
        at = made.checkpoint(step, *([node] if node else []), ran=[last] if last else [])
        if node:
            made.write(at, node)
        last = node
    return made


__all__ = [
    "NAMES",
    "Note",
    "Partial",
    "Read",
    "Refused",
    "Tables",
    "Unread",
    "data",
    "read",
    "read_capture",
    "read_tables",
    "straight",
]
