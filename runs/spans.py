"""What records say together that come one by one, each when it ends (spans): which have not come, and what was begun. Pure.

`under` of an entry names the record that holds it, `order` its place among records without positions, `asked` the tool calls
that a model's answer asks for, `answered` those whose results its request holds, `encloses` an end that only closes what is
around the work. Every batch of records may tell a part, so all `runtime.state` notes are looked at and not the newest alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from runs.facts import STATE_NOTE, Pending, Seen, SourceFacts, Waiting
from runs.states import ENDED, RunStatus

__all__ = ["absent", "filled", "received", "settled"]

TOOL: Final = ("tool.started", "tool.result", "tool.error")


def absent(entries: Sequence[Seen]) -> dict[str, list[Seen]]:
    """Records that hold entries and are not here themselves, with those entries."""
    held = [(under, s) for s in entries if isinstance(under := s.entry.extra.get("under"), str)]
    if not held:
        return {}
    here = {s.entry_id.partition(":")[0] for s in entries}
    here.update(i for out in _told(entries) for i in _texts(out.get("others")))
    missing: dict[str, list[Seen]] = {}
    for under, seen in held:
        if under not in here:
            missing.setdefault(under, []).append(seen)
    return missing


def received(entries: Sequence[Seen]) -> dict[int, int]:
    """How often entries came, by their number, for those that one file or batch held more than once."""
    times: dict[str, int] = {}
    for out in _told(entries):
        counts = out.get("received")
        for entry_id, count in counts.items() if isinstance(counts, Mapping) else ():
            if isinstance(count, int) and not isinstance(count, bool):
                times[entry_id] = max(times.get(entry_id, 0), count)
    if not times:
        return {}
    return {s.number: times[s.entry_id] for s in entries if s.entry_id in times}


def settled(entries: Sequence[Seen], end: Seen) -> Seen:
    """The entry that says how a run stands whose end `end` only encloses it: the parking before it, when no step lies between."""
    if end.entry.extra.get("encloses") is not True:
        return end
    for seen in reversed(entries):
        if seen.entry.kind == "run.parked":
            return seen
        if seen.entry.kind.endswith((".started", ".result", ".error")) and seen.entry.kind != "run.started":
            return end
    return end


def filled(facts: SourceFacts | None, entries: Sequence[Seen], status: RunStatus) -> SourceFacts | None:
    """`facts` with the tool calls that a model asked for and nothing tells of, and with what the run is parked on."""
    if facts is None or status in ENDED:
        return facts
    parked = next((s for s in reversed(entries) if s.entry.kind == "run.parked"), None)
    if status == RunStatus.PARKED and parked is not None and not facts.waiting and facts.status is None:
        what, since = parked.entry.reason or "", parked.entry.at or ""
        return replace(facts, waiting=(Waiting(branch="", step=None, what=what, until="", since=since),))
    asked = tuple(_open_calls(entries))
    return replace(facts, pending=(*facts.pending, *asked)) if asked else facts


def _open_calls(entries: Sequence[Seen]) -> Iterator[Pending]:
    """Calls that the last answer of each loop asks for, without a record of the tool, and without its result in a later request."""
    last = {s.entry.extra.get("under"): i for i, s in enumerate(entries) if s.entry.kind.startswith("model.")}
    asking = [i for i in last.values() if entries[i].entry.extra.get("asked")]
    if not asking:
        return
    known = {s.entry.call for s in entries if s.entry.kind.startswith(("tool.", "approval."))}
    known.update(i for s in entries for i in _texts(s.entry.extra.get("answered")))
    for i in sorted(asking):
        uncalled = [s.entry.name for s in entries[i + 1 :] if s.entry.kind in TOOL and s.entry.call is None]
        for call in _objects(entries[i].entry.extra.get("asked")):
            name = call.get("name")
            if call.get("call") in known and call.get("call") is not None:
                continue
            if name in uncalled:
                uncalled.remove(name)
                continue
            yield Pending(
                branch="", step=None, name=name if isinstance(name, str) else None, attempt=None, state="", last_failure="",
                last_started_at="", kind="tool",
            )  # fmt: skip


def _told(entries: Sequence[Seen]) -> Iterator[Mapping[str, Any]]:
    """The `out` of every `runtime.state` note of an import."""
    notes = (s for s in entries if s.entry.kind == "note" and s.entry.name == STATE_NOTE and s.origin == "import")
    return (s.entry.out for s in notes if isinstance(s.entry.out, Mapping))


def _texts(given: Any) -> list[str]:
    return [g for g in given if isinstance(g, str)] if isinstance(given, list) else []


def _objects(given: Any) -> list[Mapping[str, Any]]:
    return [g for g in given if isinstance(g, Mapping)] if isinstance(given, list) else []
