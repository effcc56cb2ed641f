"""One reading of files by one adapter, and what must hold of it whatever the bytes were."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from drainboard import wire

from journals.adapters import ADAPTERS
from journals.adapters.base import Counted, InputFile, Item, Line, Note, Options, Partial, Refused, Unread, shown
from journals.adapters.heads import head_of
from runs.states import CALM, ENDED, Confidence, Effects, RunStatus, Verdict
from runs.summary import Summary
from runs.verdicts import Judged
from tests.runs.journal import Entry, fold_import, imported

__all__ = ["NOW", "Reading", "calmer", "read"]

NOW = datetime(2026, 12, 24, tzinfo=UTC)
LOSSES = frozenset(("torn_tail", "missing_entry"))
STATE = "runtime.state"


@dataclass(frozen=True)
class Reading:
    """The items that an adapter gave for these files, in order."""

    adapter: str
    files: Sequence[InputFile]
    items: Sequence[Item]

    @cached_property
    def lines(self) -> list[Line]:
        return [i for i in self.items if isinstance(i, Line)]

    @cached_property
    def runs(self) -> dict[str, list[Line]]:
        made: dict[str, list[Line]] = {}
        for line in self.lines:
            made.setdefault(line.run, []).append(line)
        return made

    def of(self, kind: type) -> list[Any]:
        return [i for i in self.items if isinstance(i, kind)]

    @cached_property
    def partials(self) -> dict[str, list[Partial]]:
        """What is missing, by run: of the runs that a `Partial` names and that are here, else of every run of its file."""
        made: dict[str, list[Partial]] = {}
        for partial in self.of(Partial):
            here = {line.run for line in self.lines if line.path == partial.path}
            for run in (set(partial.runs) & self.runs.keys()) or here:
                made.setdefault(run, []).append(partial)
        return made

    @cached_property
    def entries(self) -> dict[str, list[Entry]]:
        """By run, as an import stores them: a damaged file adds a state note that says so."""
        return {
            run: imported([line.raw for line in found] + self._told(run, found)) for run, found in self.runs.items()
        }

    def _told(self, run: str, found: Sequence[Line]) -> list[bytes]:
        lost = self.partials.get(run)
        if not lost:
            return []
        states = [e for e in (wire.parse(line.raw) for line in found) if e.kind == "note" and e.name == STATE]
        last: Mapping[str, Any] = states[-1].out if states and isinstance(states[-1].out, Mapping) else {}
        out = {
            **last,
            "complete": False,
            "partial": "; ".join(dict.fromkeys(p.reason for p in lost)),
            "losses": [{"code": p.code, "reason": p.reason} for p in lost],
        }
        return [wire.encode({"run": run, "id": "state:partial", "kind": "note", "name": STATE, "out": out})]

    @cached_property
    def summaries(self) -> dict[str, Summary]:
        evidence = ADAPTERS[self.adapter].INFO.evidence
        return {run: fold_import(entries, evidence=evidence, now=NOW) for run, entries in self.entries.items()}

    # -- what must hold ---------------------------------------------------------------------------------------------

    def faults(self) -> list[str]:
        """What does not hold of the items, of the lines, or of what the rules make of them."""
        return [*self._counts(), *self._lines(), *self._said(), *self._folds()]

    def _counts(self) -> Iterator[str]:
        lines = Counter(line.path for line in self.lines)
        unread = Counter(u.path for u in self.of(Unread))
        refused = {r.path for r in self.of(Refused)}
        paths = {f.path for f in self.files}
        for item in self.items:
            if item.path not in paths:
                yield f"an item of a file that was not given: {item.path}"
        for path in paths:
            counted = [c.lines for c in self.of(Counted) if c.path == path]
            if len(counted) > 1:
                yield f"{path} was counted {len(counted)} times"
            if counted and counted[0] != lines[path] + unread[path]:
                yield f"{path}: {counted[0]} counted, {lines[path]} lines and {unread[path]} unread"
            if path in refused and lines[path]:
                yield f"{path} was refused and gave {lines[path]} lines"
            if not counted and path not in refused and not self._goes_with(path):
                yield f"{path} was neither counted nor refused"

    def _goes_with(self, path: str) -> bool:
        return any(n.path == path and "belongs to the SQLite file" in n.text for n in self.of(Note))

    def _lines(self) -> Iterator[str]:
        for line in self.lines:
            where = f"{line.path} {line.record}"
            if b"\n" in line.raw:
                yield f"{where}: a line feed stands in the line"
            try:
                entry, head = wire.parse(line.raw), head_of(line.raw)
            except wire.MalformedLine as e:
                yield f"{where}: the line is no journal line: {e}"
                continue
            if entry.run != line.run or head.run != line.run:
                yield f"{where}: the line names run {entry.run!r}, its item {line.run!r}"
        if self.adapter != "lines":
            for run, found in self.runs.items():
                last = wire.parse(found[-1].raw)
                if last.kind != "note" or last.name != STATE:
                    yield f"run {shown(run)}: the last line is {last.kind} {last.name}, not its state"

    def _said(self) -> Iterator[str]:
        sizes = {f.path: f.size for f in self.files}
        for unread in self.of(Unread):
            if not unread.reason:
                yield f"{unread.path}: unread without a reason"
            if unread.line < 0 or not 0 <= unread.byte <= sizes.get(unread.path, 0):
                yield f"{unread.path}: unread at line {unread.line}, byte {unread.byte} of {sizes.get(unread.path)}"
            if unread.start != shown(unread.start):
                yield f"{unread.path}: the start {unread.start!r} is not safe to show"
        for partial in self.of(Partial):
            if partial.code not in LOSSES or not partial.reason:
                yield f"{partial.path}: partial with code {partial.code!r} and reason {partial.reason!r}"
        for told in (*self.of(Note), *self.of(Refused)):
            if not (told.text if isinstance(told, Note) else told.reason).strip():
                yield f"{told.path}: a note or refusal without words"

    def _folds(self) -> Iterator[str]:
        for run, summary in self.summaries.items():
            if summary.status not in RunStatus:
                yield f"run {shown(run)}: status {summary.status!r}"
            for row in summary.steps:
                j = row.judged
                if j.verdict not in Verdict or j.effects not in Effects or j.confidence not in Confidence:
                    yield f"run {shown(run)}: verdict {j}"
            for told in (*summary.gaps, *summary.findings):
                wire.encode(told.as_json())
            if self.partials.get(run) and summary.complete:
                yield f"run {shown(run)}: complete, and part of its file is missing"
            if any(p.code == "torn_tail" for p in self.partials.get(run, ())) and summary.complete:
                yield f"run {shown(run)}: a torn file shows a finished run"


def read(adapter: str, files: Sequence[InputFile], options: Options | None = None) -> Reading:
    return Reading(adapter, files, tuple(ADAPTERS[adapter].read(files, options or Options())))


_CONFIDENCE = {Confidence.UNKNOWN: 0, Confidence.POSSIBLE: 1, Confidence.CERTAIN: 2}
_SURE = frozenset((Effects.NONE, Effects.ONE))


def _judged(summary: Summary) -> dict[str, list[Judged]]:
    """The verdicts on the steps that each entry belongs to, by the entry's id. Without steps whose entries contradict each other:
    that doubt goes with either of them."""
    made: dict[str, list[Judged]] = {}
    for row in summary.steps:
        if row.step.conflict or row.step.mixed or row.step.ambiguous:
            continue
        for seen in row.step.entries:
            made.setdefault(seen.entry_id, []).append(row.judged)
    return made


def calmer(before: Reading, after: Reading) -> list[str]:
    """What became more certain in `after`, which was made by taking something away. Steps are compared by their entries' ids."""
    found = []
    for run, new in after.summaries.items():
        old = before.summaries.get(run)
        if old is None:
            continue
        was = _judged(old)
        for entry_id, judged in _judged(new).items():
            surer = [_surer(was[entry_id], j) for j in judged if entry_id in was]
            found += [f"run {shown(run)}, entry {shown(entry_id)}: {words}" for words in surer if words]
        here = {e.entry_id for e in after.entries[run]}
        for gap in old.gaps if not new.gaps else ():
            held = {e.entry_id for e in before.entries[run] if e.number in gap.entries}
            if held and held <= here and was.keys() <= _judged(new).keys():
                found.append(f"run {shown(run)}: nothing is in the gap any more, {gap.name} neither")
        if new.complete and not old.complete:
            found.append(f"run {shown(run)}: became complete")
        if new.status in ENDED and old.status not in ENDED:
            found.append(f"run {shown(run)}: {old.status} became {new.status}")
    return found


def _surer(before: Sequence[Judged], after: Judged) -> str:
    """What the verdict promises now and none of those before did."""
    if after.verdict in CALM and not any(b.verdict in CALM for b in before):
        return f"{before[0].verdict} became {after.verdict}"
    if after.effects in _SURE and not any(b.effects in _SURE for b in before):
        return f"effects {before[0].effects} became {after.effects}"
    same = [b for b in before if b.verdict == after.verdict]
    if same and all(_CONFIDENCE[after.confidence] > _CONFIDENCE[b.confidence] for b in same):
        return f"{after.verdict} became {after.confidence}"
    return ""
