"""One event as journal lines: what its type means, then everything else it holds under `temporal`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from drainboard import wire

from journals.adapters.jsonscan import loose
from journals.adapters.temporal.history import WAKES, Event, History
from journals.adapters.temporal.runs import RUNS
from journals.adapters.temporal.steps import STEPS, Draft

_READERS: Final = {**STEPS, **RUNS}
_ORDER: Final = [
    "run",
    "id",
    "seq",
    "at",
    "kind",
    "agent",
    "build",
    "name",
    "step",
    "branch",
    "call",
    "attempt",
    "effect",
    "key",
    "request",
    "versions",
    "model_reported",
    "in",
    "out",
    "error",
    "usage",
    "until",
    "child",
    "parent",
    "reason",
    "outcome",
    "by",
]


def lines_of(run: History, raw: bytes) -> Iterator[tuple[tuple[str, bytes], tuple[str, ...]]]:
    """The lines of one event (suffix of its id and bytes) with their oddities. A type that is not known is kept as it is."""
    value, odd = loose(raw)
    event = Event.of(value)
    again = event.number == run.last
    run.last, run.last_at = max(run.last, event.number), event.at or run.last_at
    reader = _READERS.get(event.type)
    run.opened = None
    drafts = reader(run, event) if reader else [{}]
    run.task.woken = run.task.woken or event.type in WAKES
    if run.opened:
        step, branches = run.opened
        drafts.insert(
            0,
            {
                "kind": "parallel.started",
                "name": "parallel",
                "step": step,
                "branches": branches,
                "id_suffix": ":parallel",
            },
        )
    run.shorthand = run.shorthand or event.values.shorthand
    oddities = tuple(dict.fromkeys([*odd, *event.values.odd, *(["duplicate_entry"] if again else [])]))
    for i, draft in enumerate(drafts):
        suffix = draft.pop("id_suffix", "")
        yield (suffix, _dump(run, event, draft, suffix, main=i == len(drafts) - 1)), oddities


def _dump(run: History, event: Event, draft: Draft, suffix: str, *, main: bool) -> bytes:
    own: dict[str, Any] = {"event": event.type}
    if main:
        own.update(event.rest)
        own.update({"taskId": event.task_id} if event.task_id else {})
        own.update(event.top)
    if event.number < run.copied[0]:
        draft["copied_from"] = run.copied[1]
    fields = {
        "run": run.run,
        "id": f"{event.number}{suffix}",
        "seq": event.number,
        "at": event.at,
        "kind": f"temporal.{event.type}",
        **draft,
    }
    ordered = {k: fields.pop(k) for k in _ORDER if k in fields}
    made = {k: v for k, v in {**ordered, **fields}.items() if _stated(k, v)}
    return wire.dump({**made, "temporal": own})


def _stated(name: str, value: Any) -> bool:
    """Whether a field has something to say; `in` and `out` may be null."""
    if value is wire.MISSING:
        return False
    if name in ("in", "out"):
        return True
    return (
        value is not None
        and value != {}
        and not (name == "branch" and value == "")
        and not (name == "attempt" and value == 1)
    )
