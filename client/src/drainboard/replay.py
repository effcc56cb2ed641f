"""What the journal says about each step, and whether this build still walks the same path. Pure: no clock, no network."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from drainboard import wire

__all__ = ["Recorded", "Step", "Wanted", "compare", "difference", "json_diff"]

Entry = Mapping[str, Any]

HAPPENED = "happened"  # gap.resolved: its `out` is the step's result
_STEP_FAMILIES = frozenset(("model", "tool", "value", "timer", "parallel", "child", "approval"))
_MOST_DIFFERENCES = 50


def number(entry: Entry) -> int:
    """The entry's position; in a native journal `seq` is `pos`."""
    return int(entry["seq"])


@dataclass
class Step:
    """One step as recorded: what was asked, what came of it, what is open."""

    branch: str
    step: int
    entries: list[Entry] = field(default_factory=list)
    asked: Entry | None = None  # the last entry that says what was requested
    result: Entry | None = None
    error: Entry | None = None  # the last attempt's failure
    open_start: Entry | None = None  # a start without answer, whose gap nobody resolved
    attempts: int = 0
    errors: int = 0

    @property
    def family(self) -> str:
        """`model`, `tool`, `value`, `timer`, `parallel` or `approval`; empty when only a gap decision is there."""
        return str(self.asked["kind"]).partition(".")[0] if self.asked else ""

    @property
    def numbers(self) -> list[int]:
        return [number(e) for e in self.entries]

    def add(self, entry: Entry) -> None:
        """Takes the next entry of this step, in journal order."""
        self.entries.append(entry)
        kind = str(entry["kind"])
        if kind == "gap.resolved":
            self._resolve(entry)
            return
        if not kind.startswith("approval.") or kind == "approval.requested":
            self.attempts = max(self.attempts, int(entry.get("attempt", 1)))
            if self.asked is None or "in" in entry or kind.endswith((".started", ".requested")):
                self.asked = entry
        ending = kind.rpartition(".")[2]
        if ending == "started" and kind != "parallel.started":
            self.open_start, self.error = entry, None
        elif ending in ("result", "fired") and self.result is None:
            self.result, self.open_start, self.error = entry, None, None
        elif ending == "error":
            self.error, self.open_start = entry, None
            self.errors += 1

    def _resolve(self, entry: Entry) -> None:
        self.open_start = None
        if entry.get("outcome") == HAPPENED and self.result is None:
            self.result, self.error = entry, None


class Recorded:
    """A run's journal, indexed for replay. `seen` is the last position up to which nothing is missing."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.seen = 0
        self.steps: dict[tuple[str, int], Step] = {}
        self.markers: dict[str, Entry] = {}
        self.resumed: list[int] = []  # positions of run.resumed
        self.parked: list[Entry] = []
        self._last: dict[str, int] = {}
        self._signals: dict[str, list[Entry]] = {}
        self._consumed: set[int] = set()
        self._approvals: dict[str, list[Entry]] = {}
        self._continued: list[tuple[str, int]] = []
        self._noted: set[tuple[str, str, int]] = set()
        self._visited: set[tuple[str, int]] = set()
        for entry in entries:
            self.add(entry)

    def add(self, entry: Entry) -> None:
        """Takes an entry; one that is known is passed over."""
        pos = number(entry)
        if pos <= self.seen:
            return
        self.seen = pos
        kind = str(entry["kind"])
        if isinstance(entry.get("approval"), str):
            self._approvals.setdefault(entry["approval"], []).append(entry)
        if kind == "version.marker":
            self.markers.setdefault(str(entry.get("name")), entry)
        elif kind == "signal.received":
            self._signals.setdefault(str(entry.get("name")), []).append(entry)
        elif kind == "deploy.continued":
            self._continued.append((str(entry.get("build")), pos))
        elif kind == "run.resumed":
            self.resumed.append(pos)
        elif kind == "run.parked":
            self.parked.append(entry)
        elif kind == "note" and isinstance(entry.get("step"), int):
            self._noted.add((str(entry.get("name")), str(entry.get("branch", "")), entry["step"]))
        self._add_to_step(entry, kind)

    def _add_to_step(self, entry: Entry, kind: str) -> None:
        step = entry.get("step")
        if not isinstance(step, int) or (kind.partition(".")[0] not in _STEP_FAMILIES and kind != "gap.resolved"):
            return
        if isinstance(entry.get("consumes"), int):
            self._consumed.add(entry["consumes"])
        at = (str(entry.get("branch", "")), step)
        found = self.steps.get(at)
        if found is None:
            found = self.steps[at] = Step(*at)
            self._last[at[0]] = max(step, self._last.get(at[0], 0))
        found.add(entry)

    def visit(self, branch: str, step: int) -> Step | None:
        """The recorded step, which then counts as reached by this build."""
        self._visited.add((branch, step))
        return self.steps.get((branch, step))

    def last_step(self, branch: str) -> int:
        """The highest step recorded in this branch; 0 when there is none."""
        return self._last.get(branch, 0)

    def unreached(self) -> Iterator[Step]:
        """Recorded steps that this build has passed by, in order of their first entry."""
        left = [s for at, s in self.steps.items() if at not in self._visited and s.asked is not None]
        return iter(sorted(left, key=lambda s: number(s.entries[0])))

    def next_signal(self, name: str) -> Entry | None:
        """The oldest signal of this name that no step has taken."""
        return next((e for e in self._signals.get(name, ()) if number(e) not in self._consumed), None)

    def consume(self, entry: Entry) -> None:
        """Marks a signal as taken, ahead of the record of it."""
        self._consumed.add(number(entry))

    def approval(self, approval: str) -> list[Entry]:
        """Every entry that names this approval, in order."""
        return self._approvals.get(approval, [])

    def continued(self, build: str) -> int:
        """The last position at which a person let the run continue on this build; 0 when nobody did."""
        return max((pos for to, pos in self._continued if to == build), default=0)

    def note_once(self, name: str, branch: str, step: int) -> bool:
        """Whether this note is still to be written for the step; says yes once."""
        if (name, branch, step) in self._noted:
            return False
        self._noted.add((name, branch, step))
        return True


@dataclass(frozen=True)
class Wanted:
    """What this build asks of a step."""

    kind: str  # the family: model, tool, value, timer, parallel, approval
    name: str
    branch: str
    step: int
    in_: Any = wire.MISSING
    key: str | None = None
    request: str = ""  # fingerprint, for models and tools
    versions: Mapping[str, Any] = field(default_factory=dict)


def compare(rec: Step, want: Wanted, *, relaxed: bool) -> list[str]:
    """Names of the fields in which the record and this build differ; empty when they agree.

    `relaxed` lets a model's `in` differ, because the prompt is in it; a tool's never may.
    """
    was = _asked(rec)
    if want.request and was["request"] == want.request and rec.family == want.kind:
        return []
    found = [name for name, mine in (("kind", want.kind), ("name", want.name), ("key", want.key)) if was[name] != mine]
    if "kind" not in found and not (relaxed and want.kind == "model") and _in_differs(was["in"], want.in_):
        found.append("in")
    if not found and want.request and was["request"] and not (relaxed and want.kind == "model"):
        return ["request"]
    return found


def _asked(rec: Step) -> dict[str, Any]:
    entry = rec.asked or {}
    seen = entry.get("artifact", wire.MISSING) if rec.family == "approval" else entry.get("in", wire.MISSING)
    name = entry.get("name")
    return {
        "kind": rec.family,
        "name": name,
        "key": entry.get("key"),
        "request": entry.get("request"),
        "in": entry.get("until", wire.MISSING) if rec.family == "timer" else seen,
    }


def _in_differs(was: Any, mine: Any) -> bool:
    if was is wire.MISSING or mine is wire.MISSING or _erased(was):
        return False
    try:
        return wire.canonical(was) != wire.canonical(mine)
    except wire.Ambiguous:
        return bool(was != mine)


def _erased(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"erased"}


def difference(rec: Step, want: Wanted, differs: list[str]) -> tuple[str, dict[str, Any]]:
    """The sentence and the detail of a `NonDeterministicReplay`: both sides, labelled, with entry numbers and a JSON diff."""
    was = _asked(rec)
    sides: dict[str, dict[str, Any]] = {"recorded": {}, "this_build": {}}
    for side, got in (("recorded", was), ("this_build", _mine(want))):
        sides[side] = {"kind": got["kind"], "name": got["name"]}
        sides[side].update(
            {f: None if got[f] is wire.MISSING else got[f] for f in differs if f not in ("kind", "name")}
        )
    detail = {
        "branch": want.branch,
        "step": want.step,
        "differs": differs,
        **sides,
        "entries": rec.numbers,
        "diff": _diffs(was["in"], want.in_)
        if "in" in differs
        else [
            {"path": f"/{f}", "recorded": sides["recorded"][f], "this_build": sides["this_build"][f]} for f in differs
        ],
    }
    shown = ", ".join(
        f"{f}: recorded {_short(sides['recorded'][f])}, this build {_short(sides['this_build'][f])}" for f in differs
    )
    where = f"step {want.branch + ':' if want.branch else ''}{want.step} ({want.kind} {want.name})"
    entries = ", ".join(map(str, rec.numbers))
    return f"{where} leaves the record at entry {entries} in {' and '.join(differs)}. {shown}", detail


def _mine(want: Wanted) -> dict[str, Any]:
    return {"kind": want.kind, "name": want.name, "key": want.key, "request": want.request, "in": want.in_}


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 120 else text[:117] + "…"


def _diffs(was: Any, mine: Any) -> list[dict[str, Any]]:
    found = list(json_diff(was, mine))
    if len(found) > _MOST_DIFFERENCES:
        more = len(found) - _MOST_DIFFERENCES
        found = [*found[:_MOST_DIFFERENCES], {"path": "", "more": more}]
    return found


def json_diff(was: Any, mine: Any, path: str = "") -> Iterator[dict[str, Any]]:
    """Each place where two JSON values differ: JSON pointer, recorded value, this build's value (absent sides are left out)."""
    if isinstance(was, dict) and isinstance(mine, dict):
        for key in {**was, **mine}:
            yield from _at(was.get(key, wire.MISSING), mine.get(key, wire.MISSING), f"{path}/{_pointer(key)}")
    elif isinstance(was, list) and isinstance(mine, list):
        for i in range(max(len(was), len(mine))):
            yield from _at(
                was[i] if i < len(was) else wire.MISSING, mine[i] if i < len(mine) else wire.MISSING, f"{path}/{i}"
            )
    elif was != mine or (type(was) is not type(mine) and not (_numeric(was) and _numeric(mine))):
        yield {"path": path or "/", "recorded": was, "this_build": mine}


def _at(was: Any, mine: Any, path: str) -> Iterator[dict[str, Any]]:
    if was is wire.MISSING:
        yield {"path": path, "this_build": mine}
    elif mine is wire.MISSING:
        yield {"path": path, "recorded": was}
    else:
        yield from json_diff(was, mine, path)


def _numeric(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _pointer(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
