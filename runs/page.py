"""What the page of one run reads. No request, no writes, no clock of its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

from drainboard import wire

from journals import store
from journals.adapters import ADAPTERS
from runs.consent import happened_at
from runs.models import Run, Step

STEPS: Final = 100  # rows of one page
ENTRIES: Final = 100
RAW: Final = 200


def run_of(head_id: int) -> Run:
    """A folded run."""
    return Run.objects.select_related("versions_set").get(pk=head_id)


def part(run: Run, name: str) -> list[dict[str, Any]]:
    """`gaps`, `findings`, `limits`, `approvals` or `decisions` of the run's summary."""
    return list((run.summary or {}).get(name) or [])


# -- steps ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Held:
    """One component of a step's versions, and whether it differs from the last step that recorded it."""

    text: str
    changed: bool
    title: str


@dataclass(slots=True)
class StepRow:
    """A step and what its row shows."""

    step: Step
    number: str  # branch and number: `3.1:2`, `4`
    prompt: Held | None
    model: Held | None
    tools: Held | None
    dots: Sequence[str]  # a meaning for each attempt, at most 8
    more: str  # why there may have been more attempts than are recorded; '' where there were not
    took_s: float | None
    after: int = 0  # cursor of the page that it is on
    open: bool = False
    entries: Sequence[OpenEntry] = ()


@dataclass(frozen=True, slots=True)
class Window:
    """A keyset page inside a run: its rows, and the cursors of its neighbours (None at an end)."""

    rows: Sequence[Any]
    before: int | None
    after: int | None
    first: int | None = None
    last: int | None = None
    end: int = 0  # the cursor of the last page


def number_of(branch: str, step: int | None) -> str:
    """How a step is named: its number, with the branch in front where there is one."""
    return f"{branch}:{step}" if branch else str(step if step is not None else "?")


def steps(run: Run, *, after: int = 0, opened: Sequence[int] = ()) -> Window:
    """The hundred steps behind a place, in order; the opened ones with their entries. Places are dense, so pages are too."""
    rows = list(Step.objects.filter(run=run, ord__gt=after).order_by("ord")[: STEPS + 1])
    more, rows = len(rows) > STEPS, rows[:STEPS]
    last = _versions_before(run, rows[0].ord) if rows else {}
    made = [_step_row(run, step, last) for step in rows]
    for row in made:
        if row.step.ord in opened:
            open_step(run, row)
    return Window(
        made,
        before=max(after - STEPS, 0) if after else None,
        after=rows[-1].ord if more else None,
        first=rows[0].ord if rows else None,
        last=rows[-1].ord if rows else None,
        end=page_of(run.steps),
    )


def page_of(place: int) -> int:
    """The cursor of the page that holds this place: pages begin after every hundredth step."""
    return (max(place, 1) - 1) // STEPS * STEPS


def step_row(run: Run, place: int) -> StepRow | None:
    """One step's row, not opened."""
    step = Step.objects.filter(run=run, ord=place).first()
    return _step_row(run, step, _versions_before(run, place)) if step else None


def open_step(run: Run, row: StepRow) -> None:
    """Reads the entries of a step into its row."""
    row.open = True
    row.entries = _placed(run, store.entries_at(run.head_id, positions(run, row.step.entries)))


def place_of(run: Run, number: int) -> int | None:
    """The place of the step that holds this entry, or the last one before it."""
    found = (
        Step.objects.filter(run=run, entries__contains=[number]).order_by("ord").values_list("ord", flat=True).first()
    )
    return found


def _versions_before(run: Run, place: int) -> dict[str, Any]:
    """Components that the steps just before recorded last: prompt, model and tools; looks back 50 steps."""
    last: dict[str, Any] = {}
    before = Step.objects.filter(run=run, ord__lt=place).order_by("-ord").values_list("versions", flat=True)[:50]
    for versions in reversed(before):
        _remember(last, versions)
    return last


def _remember(last: dict[str, Any], versions: Any) -> None:
    if isinstance(versions, Mapping):
        for name in ("prompt", "model", "tools"):
            for component, value in components(name, versions.get(name)).items():
                last[f"{name} {component}"] = value


def components(name: str, value: Any) -> dict[str, str]:
    """A prompt, model or tools value as component -> version; a bare text is split at the last `@` for prompts."""
    if isinstance(value, Mapping):
        return {str(k): str(v) for k, v in value.items()}
    if isinstance(value, str) and name == "prompt":
        head, at, tail = value.rpartition("@")
        return {head if at else value: tail if at else value}
    return {"": str(value)} if value is not None else {}


def _step_row(run: Run, step: Step, last: dict[str, Any]) -> StepRow:
    versions = step.versions if isinstance(step.versions, Mapping) else {}
    held = {name: _held(name, versions.get(name), last) for name in ("prompt", "model", "tools")}
    _remember(last, versions)
    took = None
    by_person = step.kind == "approval" or step.said.startswith(
        "resolved by "
    )  # what a person took is not the step's time
    if step.first_at and step.last_at and step.first_at != step.last_at and step.status != "started" and not by_person:
        took = (step.last_at - step.first_at).total_seconds()
    return StepRow(
        step,
        number_of(step.branch, step.step),
        held["prompt"],
        held["model"],
        held["tools"],
        _dots(step),
        _more(run, step),
        took,
        page_of(step.ord),
    )


def _held(name: str, value: Any, last: Mapping[str, Any]) -> Held | None:
    parts = components(name, value)
    if not parts:
        return None
    was = {k: last[f"{name} {k}"] for k in parts if f"{name} {k}" in last}
    changed = any(was[k] != parts[k] for k in was)
    title = "; ".join(
        f"{k} {was[k]} → {v}".strip() if k in was and was[k] != v else f"{k} {v}".strip() for k, v in parts.items()
    )
    if name == "tools":
        return Held(f"{len(parts)} tools" if len(parts) > 1 else short(next(iter(parts.values()))), changed, title)
    first_name, first = next(iter(parts.items()))
    text = f"{first_name}@{first}" if name == "prompt" and first_name != first else first
    return Held(text + (f" +{len(parts) - 1}" if len(parts) > 1 else ""), changed, title)


def short(version: str) -> str:
    """A digest by its first 8 characters; anything else as it is."""
    return version.removeprefix("sha256:")[:8] if version.startswith("sha256:") else version


NO_RECORD: Final = "This runtime keeps no record of a second execution: at least this many"


def keeps_tries(run: Run) -> bool:
    """Whether a second execution of a step leaves a record of its own."""
    adapter = ADAPTERS.get(run.runtime)
    return run.native or (adapter is not None and adapter.INFO.evidence.attempts)


def _more(run: Run, step: Step) -> str:
    if step.effect != "write" or not step.attempts or step.effects == "one" or run.native:
        return ""
    if not keeps_tries(run):
        return NO_RECORD
    unproven = step.attempts == 1 and step.effects == "at_least_one"
    return "What is recorded does not prove that it was the only one" if unproven else ""


def repeats_unseen(run: Run) -> int:
    """Writes of a run that is over that happened at least once, where a second time would leave no record."""
    if run.in_flight or keeps_tries(run):
        return 0
    return Step.objects.filter(run=run, effect="write", effects="at_least_one").count()


def _dots(step: Step) -> list[str]:
    last = {"result": "good", "error": "broken", "started": "attention"}.get(step.status, "plain")
    return ["broken"] * min(step.attempts - 1, 7) + [last] if step.attempts else []


# -- entries --------------------------------------------------------------------------------------------------------


WORDS: Final = {
    "in": "request",
    "out": "result",
    "error": "error",
    "artifact": "artifact",
    "usage": "usage",
    "line": "line as recorded",
}


class Value(NamedTuple):
    """A recorded value: its field, the word for it, its bytes."""

    name: str
    word: str
    raw: bytes


@dataclass(frozen=True)
class OpenEntry:
    """One entry with its values as recorded bytes."""

    stored: store.StoredEntry
    values: Mapping[str, bytes] = field(default_factory=dict)  # field -> the bytes of its value, as recorded
    place: str = ""  # in addresses: its number; with its position behind a dash where others have the number too

    @classmethod
    def of(cls, stored: store.StoredEntry, repeated: Collection[int] = ()) -> OpenEntry:
        """Cuts the line into its fields without decoding any; an odd line is its own only value."""
        spans = wire.spans_of(stored.raw)
        values = {name: stored.raw[a:b] for name, (a, b) in spans.items()} if spans else {"line": stored.raw}
        place = f"{stored.number}-{stored.pos}" if stored.number in repeated else str(stored.number)
        return cls(stored, values, place)

    @property
    def shown(self) -> list[Value]:
        """The fields that a step's detail shows in full."""
        return [Value(name, WORDS[name], raw) for name, raw in self.values.items() if name in WORDS]

    @property
    def happened(self) -> datetime | None:
        """When it happened: the database's time for what was written here, the source's for what was imported."""
        return happened_at(self.stored)

    @property
    def preview(self) -> str:
        """The start of what the entry says, as recorded: result, error, request or reason."""
        for name in ("error", "out", "reason", "in", "artifact", "until", "line"):
            if name in self.values:
                return self.values[name][:200].decode("utf-8", "replace")
        return ""


def _placed(run: Run, rows: Sequence[store.StoredEntry]) -> list[OpenEntry]:
    twice = set() if run.native else store.repeated(run.head_id, [row.number for row in rows])
    return [OpenEntry.of(row, twice) for row in rows]


def positions(run: Run, numbers: Sequence[int]) -> list[int]:
    """Our positions of the entries that people know by these numbers."""
    if run.runtime == "native":
        return list(numbers)
    return store.positions_of(run.head_id, numbers)


def entries(run: Run, *, after: int = 0) -> Window:
    """Entries after a position, large values left out; cursors are positions.

    The end is told by `folded_pos`: `entries` counts what the source recorded, and not what an import says about the run.
    """
    rows = list(store.skeleton(run.head_id, after=after, limit=ENTRIES + 1))
    more, rows = len(rows) > ENTRIES, rows[:ENTRIES]
    return Window(
        _placed(run, rows),
        max(after - ENTRIES, 0) if after else None,
        rows[-1].pos if more else None,
        rows[0].pos if rows else None,
        rows[-1].pos if rows else None,
        max(run.folded_pos - ENTRIES, 0),
    )


def entry(run: Run, place: str) -> OpenEntry | None:
    """The entry of an address, whole: by the number that people know, of several the first; or by number and position."""
    number, _, pos = place.partition("-")
    if int(number) >= 2**63:
        return None
    at = [int(pos)] if pos else positions(run, [int(number)])[:1]
    found = [e for e in store.entries_at(run.head_id, at) if e.number == int(number)]
    return _placed(run, found)[0] if found else None


def raw_lines(run: Run, *, after: int = 0) -> Window:
    """Exported lines after a position."""
    native = run.runtime == "native"
    lines = list(store.export(run.head_id, native=native, after=after, limit=RAW + 1))
    more = len(lines) > RAW
    return Window(
        lines[:RAW],
        max(after - RAW, 0) if after else None,
        after + RAW if more else None,
        after + 1,
        after + min(len(lines), RAW),
        max(run.folded_pos - RAW, 0),
    )
