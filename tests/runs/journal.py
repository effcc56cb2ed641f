"""Journals for tests of the pure rules: entries as the store would give them, without a database."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from drainboard import wire

from journals.adapters import ADAPTERS, NATIVE
from journals.adapters.base import Evidence, InputFile, Line, Options
from runs.facts import HeadFacts
from runs.summary import Summary, fold

START = datetime(2026, 9, 1, 8, 0, tzinfo=UTC)
NOW = datetime(2026, 9, 1, 12, 0, tzinfo=UTC)
LINES = Evidence(write="before_effect", read="never", attempts=True, says_end=False)


@dataclass(slots=True)
class Entry:
    """What `runs.facts.Seen` asks for."""

    entry: wire.Entry
    pos: int
    seq: int | None
    entry_id: str
    digest: bytes
    raw: bytes = b""
    origin: str = "import"
    actor: str = "import:1"
    import_id: int | None = 1
    epoch: int = 0
    recorded_at: datetime = field(default=START)

    @property
    def size(self) -> int:
        return len(self.raw)

    @property
    def number(self) -> int:
        return self.seq if self.seq is not None else self.pos


def imported(lines: Iterable[bytes | Mapping[str, Any]], *, import_id: int = 1, after: int = 0) -> list[Entry]:
    """Entries of a file, as an import stores them: equal ones once, positions in file order."""
    made: list[Entry] = []
    known: set[tuple[str, bytes]] = set()
    for line in lines:
        raw = line if isinstance(line, bytes) else wire.dump({"run": "r", **line})
        entry = wire.parse(raw)
        digest = hashlib.sha256(raw).digest()
        entry_id = entry.id or (
            f"seq:{entry.seq}" if entry.seq is not None else f"line:{digest.hex()[:16]}:{len(made)}"
        )
        if (entry_id, digest) in known:
            continue
        known.add((entry_id, digest))
        pos = after + len(made) + 1
        made.append(
            Entry(entry, pos, entry.seq, entry_id, digest, raw, actor=f"import:{import_id}", import_id=import_id)
        )
    return made


def numbered(*lines: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The lines with `seq` from 1 and `at` a second apart."""
    return [
        {"seq": n, "at": (START + timedelta(seconds=n)).isoformat().replace("+00:00", "Z"), **line}
        for n, line in enumerate(lines, 1)
    ]


def native(*lines: Mapping[str, Any]) -> list[Entry]:
    """Entries of our own store; `epoch`, `origin` and `actor` may stand in a line."""
    made = []
    for pos, line in enumerate(lines, 1):
        fields = {k: v for k, v in line.items() if k not in ("epoch", "origin", "actor")}
        epoch = line.get("epoch", 1)
        at = START + timedelta(seconds=pos)
        raw = wire.dump({"run": "r", "id": f"{epoch}.{pos}", "at": at.isoformat(), **fields})
        made.append(
            Entry(
                wire.parse(raw),
                pos,
                pos,
                f"{epoch}.{pos}",
                hashlib.sha256(raw).digest(),
                raw,
                import_id=None,
                epoch=epoch,
                origin=line.get("origin", "worker"),
                actor=line.get("actor", "worker:w1"),
                recorded_at=at,
            )
        )
    return made


def fold_import(
    entries: Iterable[Any], *, evidence: Evidence = LINES, now: datetime = NOW, head: HeadFacts | None = None
) -> Summary:
    return fold(list(entries), evidence=evidence, native=False, now=now, head=head or HeadFacts())


def fold_native(entries: list[Entry], *, now: datetime = NOW, **head: Any) -> Summary:
    return fold(
        entries,
        evidence=NATIVE.evidence,
        native=True,
        now=now,
        head=HeadFacts(**{"pos": len(entries), "epoch": 1, **head}),
    )


def read_files(runtime: str, files: Mapping[str, bytes]) -> dict[str, Summary]:
    """What the adapter reads of these files, folded by run."""
    adapter = ADAPTERS[runtime]
    lines: dict[str, list[bytes]] = {}
    for item in adapter.read([InputFile.of(path, data) for path, data in files.items()], Options()):
        if isinstance(item, Line):
            lines.setdefault(item.run, []).append(item.raw)
    return {run: fold_import(imported(raws), evidence=adapter.INFO.evidence) for run, raws in lines.items()}


def step(summary: Summary, number: int, branch: str = "") -> Any:
    """The row of one step."""
    return next(r for r in summary.steps if (r.step.branch, r.step.number) == (branch, number))


def codes(summary: Summary) -> set[str]:
    return {f.code for f in summary.findings}
