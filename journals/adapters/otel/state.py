"""What a file or batch of spans says about a run as a whole: its `runtime.state` note.

Spans come one by one as they end, so a batch knows nothing of the run's status: that is read from the entries of the root span.
The note holds what this batch alone can say, and a batch that comes later takes nothing of it back.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from drainboard import wire

from journals.adapters.base import Line
from journals.adapters.otel.lines import Made
from journals.adapters.otel.span import Span
from journals.adapters.values import utc_nanos

__all__ = ["Seen"]

_CONVERSATION: Final = ("gen_ai.conversation.id", "session.id")


@dataclass(slots=True)
class Seen:
    """What was seen of one run in the files of one import."""

    run: str
    genai: bool = False  # a span of it is a GenAI span
    spans: int = 0
    made: list[Made] = field(default_factory=list)
    others: list[str] = field(default_factory=list)  # ids of spans that are no entries, to which entries may belong
    conversations: set[str] = field(default_factory=set)
    resources: dict[bytes, Any] = field(default_factory=dict)
    newest: tuple[int, str, str] = (0, "", "")  # time, span, build
    path: str = ""  # of the last span, and its record
    record: str = ""

    def add(self, span: Span, build: str) -> None:
        self.spans += 1
        self.path, self.record = span.path, span.record
        self.newest = max(self.newest, (max(span.end or 0, span.start or 0), span.id, build))
        if found := span.text(*_CONVERSATION):
            self.conversations.add(found)
        try:
            self.resources.setdefault(wire.encode(dict(span.source.resource)), dict(span.source.resource))
        except wire.Ambiguous:
            return  # a resource with NaN in it; it stands in the file

    def lines(self) -> list[Line]:
        """The lines of the run in order; the same whatever the order of the spans in the file."""
        return [made.line for made in sorted(self.made, key=lambda m: (m.order, m.rank, m.line.raw, m.line.record))]

    def state(self, related: list[str]) -> Line:
        """The note. `related`: other runs of the same import that belong to the same conversation."""
        newest, _, build = self.newest
        copies = Counter(made.line.raw for made in self.made)
        received = {i: n for raw, n in sorted(copies.items()) if n > 1 and (i := _id_of(raw))}
        out = {
            "runtime_status": None,
            "status": None,
            "as_of": utc_nanos(newest),
            "build": build or None,
            "tries_recorded": False,
            "spans": self.spans,
            "others": sorted(set(self.others)) or None,
            "received": received or None,
            "conversations": sorted(self.conversations) or None,
            "related": related or None,
            "resources": [self.resources[k] for k in sorted(self.resources)],
            "held": {"form": "otlp", "whole": False},
        }
        out = {k: v for k, v in out.items() if v is not None or k in ("runtime_status", "status")}
        made = {"run": self.run, "id": f"state:{wire.digest_bytes(wire.encode(out))[7:19]}", "at": out.get("as_of")}
        fields = {**made, "kind": "note", "name": "runtime.state", "out": out}
        raw = wire.dump({k: v for k, v in fields.items() if v is not None})
        return Line(self.run, raw, self.record, self.path)


def _id_of(raw: bytes) -> str:
    return wire.parse(raw).id or ""
