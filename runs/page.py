"""What the page of one run reads. No request, no writes, no clock of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from django.db import connection
from drainboard import wire
from journals import store

from runs.models import Run, Step
from runs.pretty import pretty

STEPS: Final = 100  # rows of one page
ENTRIES: Final = 100
RAW: Final = 200


def find_run(key: str) -> Run | None:
    """The run of an address."""
    return Run.objects.select_related("versions_set").filter(key=key).first()


def part(run: Run, name: str) -> list[dict[str, Any]]:
    """`gaps`, `findings`, `approvals` or `decisions` of the run's summary."""
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
    return f"{branch}:{step}" if branch else str(step if step is not None else "–")


def steps(run: Run, *, after: int | None = None, before: int | None = None, opened: Sequence[int] = ()) -> Window:
    """Steps in order, after or before a place; the opened ones with their entries."""
    found = Step.objects.filter(run=run)
    if before is not None:
        rows = list(found.filter(ord__lt=before).order_by("-ord")[: STEPS + 1])
        more, rows = len(rows) > STEPS, rows[:STEPS][::-1]
        ends = (rows[0].ord if rows and more else None, before - 1)
    else:
        rows = list(found.filter(ord__gt=after or 0).order_by("ord")[: STEPS + 1])
        more, rows = len(rows) > STEPS, rows[:STEPS]
        ends = (rows[0].ord if rows and after else None, rows[-1].ord if more else None)
    last = _versions_before(run, rows[0].ord) if rows else {}
    made = [_step_row(step, last) for step in rows]
    for row in made:
        if row.step.ord in opened:
            open_step(run, row)
    return Window(made, ends[0], ends[1], rows[0].ord if rows else None, rows[-1].ord if rows else None, page_of(run.steps))


def page_of(ord: int) -> int:
    """The cursor of the page that holds this place: pages begin after every hundredth step."""
    return (max(ord, 1) - 1) // STEPS * STEPS


def step_row(run: Run, ord: int) -> StepRow | None:
    """One step's row, not opened."""
    step = Step.objects.filter(run=run, ord=ord).first()
    return _step_row(step, _versions_before(run, ord)) if step else None


def open_step(run: Run, row: StepRow) -> None:
    """Reads the entries of a step into its row."""
    row.open = True
    row.entries = [OpenEntry.of(stored) for stored in store.entries_at(run.head_id, positions(run, row.step.entries))]


def place_of(run: Run, number: int) -> int | None:
    """The place of the step that holds this entry, or the last one before it."""
    found = Step.objects.filter(run=run, entries__contains=[number]).order_by("ord").values_list("ord", flat=True).first()
    return found


def _versions_before(run: Run, ord: int) -> dict[str, Any]:
    """Components that the steps just before recorded last: prompt, model and tools; looks back 50 steps."""
    last: dict[str, Any] = {}
    before = Step.objects.filter(run=run, ord__lt=ord).order_by("-ord").values_list("versions", flat=True)[:50]
    for versions in reversed(before):
        _remember(last, versions)
    return last


def _remember(last: dict[str, Any], versions: Any) -> None:
    if isinstance(versions, Mapping):
        for name in ("prompt", "model", "tools"):
            for component, value in _components(name, versions.get(name)).items():
                last[f"{name} {component}"] = value


def _components(name: str, value: Any) -> dict[str, str]:
    """A prompt, model or tools value as component -> version; a bare text is split at the last `@` for prompts."""
    if isinstance(value, Mapping):
        return {str(k): str(v) for k, v in value.items()}
    if isinstance(value, str) and name == "prompt":
        head, at, tail = value.rpartition("@")
        return {head if at else value: tail if at else value}
    return {"": str(value)} if value is not None else {}


def _step_row(step: Step, last: dict[str, Any]) -> StepRow:
    versions = step.versions if isinstance(step.versions, Mapping) else {}
    held = {name: _held(name, versions.get(name), last) for name in ("prompt", "model", "tools")}
    _remember(last, versions)
    both = step.first_at and step.last_at and len(step.entries) > 1 and step.status != "started"
    took = (step.last_at - step.first_at).total_seconds() if both else None
    return StepRow(step, number_of(step.branch, step.step), held["prompt"], held["model"], held["tools"], _dots(step), took, page_of(step.ord))


def _held(name: str, value: Any, last: Mapping[str, Any]) -> Held | None:
    parts = _components(name, value)
    if not parts:
        return None
    was = {k: last[f"{name} {k}"] for k in parts if f"{name} {k}" in last}
    changed = any(was[k] != parts[k] for k in was)
    title = "; ".join(f"{k} {was[k]} → {v}".strip() if k in was and was[k] != v else f"{k} {v}".strip() for k, v in parts.items())
    if name == "tools":
        return Held(f"{len(parts)} tools" if len(parts) > 1 else short(next(iter(parts.values()))), changed, title)
    first_name, first = next(iter(parts.items()))
    text = f"{first_name}@{first}" if name == "prompt" and first_name != first else first
    return Held(text + (f" +{len(parts) - 1}" if len(parts) > 1 else ""), changed, title)


def short(version: str) -> str:
    """A digest by its first 8 characters; anything else as it is."""
    return version.removeprefix("sha256:")[:8] if version.startswith("sha256:") else version


def _dots(step: Step) -> list[str]:
    last = {"result": "good", "error": "broken", "started": "attention"}.get(step.status, "plain")
    return ["broken"] * min(step.attempts - 1, 7) + [last] if step.attempts else []


# -- entries --------------------------------------------------------------------------------------------------------


WORDS: Final = {"in": "request", "out": "result", "error": "error", "artifact": "artifact", "usage": "usage", "line": "line as recorded"}


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

    @classmethod
    def of(cls, stored: store.StoredEntry) -> OpenEntry:
        """Cuts the line into its fields without decoding any; an odd line is its own only value."""
        spans = wire.spans_of(stored.raw)
        return cls(stored, {name: stored.raw[a:b] for name, (a, b) in spans.items()} if spans else {"line": stored.raw})

    @property
    def shown(self) -> list[Value]:
        """The fields that a step's detail shows in full."""
        return [Value(name, WORDS[name], raw) for name, raw in self.values.items() if name in WORDS]

    @property
    def preview(self) -> str:
        """The start of what the entry says, as recorded: result, error, request or reason."""
        for name in ("error", "out", "reason", "in", "artifact", "until", "line"):
            if name in self.values:
                return self.values[name][:200].decode("utf-8", "replace")
        return ""


def positions(run: Run, numbers: Sequence[int]) -> list[int]:
    """Our positions of the entries that people know by these numbers."""
    if run.runtime == "native":
        return list(numbers)
    # No index on seq: the primary key narrows this to one run, whose 50,000 rows are read in about 20 ms.
    sql = "SELECT pos FROM journals_entry WHERE head_id = %s AND coalesce(seq, pos) = ANY(%s) ORDER BY pos"
    with connection.cursor() as cursor:
        cursor.execute(sql, [run.head_id, list(numbers)])
        return [row[0] for row in cursor.fetchall()]


def entries(run: Run, *, after: int = 0) -> Window:
    """Entries after a position, large values left out; cursors are positions."""
    rows = list(store.skeleton(run.head_id, after=after, limit=ENTRIES + 1))
    more, rows = len(rows) > ENTRIES, rows[:ENTRIES]
    return Window(
        [OpenEntry.of(row) for row in rows], max(after - ENTRIES, 0) if after else None, rows[-1].pos if more else None,
        rows[0].pos if rows else None, rows[-1].pos if rows else None, max(run.entries - ENTRIES, 0),
    )


def entry(run: Run, number: int) -> OpenEntry | None:
    """The entry that people know by this number, whole; of several the first."""
    found = store.entries_at(run.head_id, positions(run, [number])[:1])
    return OpenEntry.of(found[0]) if found else None


def raw_lines(run: Run, *, after: int = 0) -> Window:
    """Exported lines after a position."""
    native = run.runtime == "native"
    lines = list(store.export(run.head_id, native=native, after=after, limit=RAW + 1))
    more = len(lines) > RAW
    return Window(lines[:RAW], max(after - RAW, 0) if after else None, after + RAW if more else None, after + 1, after + min(len(lines), RAW), max(run.entries - RAW, 0))


# -- versions -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stretch:
    """Steps in a row that recorded the same version of a component."""

    value: str
    first: str
    last: str
    steps: int
    entry: int | None  # the first entry that recorded it


@dataclass(frozen=True, slots=True)
class Component:
    """A prompt, model, tool, app or sdk through the run."""

    part: str
    name: str
    stretches: Sequence[Stretch]

    @property
    def changed(self) -> bool:
        """More than one version was recorded."""
        return len({s.value for s in self.stretches}) > 1


def version_matrix(run: Run) -> list[Component]:
    """Every component that the run recorded, with the steps under each of its versions; parts in a fixed order."""
    open_: dict[tuple[str, str], list[list[Any]]] = {}
    for branch, step, versions, numbers, repeat in _version_islands(run):
        for part_name in ("app", "prompt", "model", "tools", "sdk"):
            for name, value in _components(part_name, (versions or {}).get(part_name)).items():
                stretches = open_.setdefault((part_name, name), [])
                number = number_of(branch, step)
                if not stretches or stretches[-1][0] != value:
                    stretches.append([value, number, number, 0, numbers[0] if numbers else None])
                stretches[-1][2] = number
                stretches[-1][3] += repeat
    order = {"app": 0, "prompt": 1, "model": 2, "tools": 3, "sdk": 4}
    return [
        Component(part_name, name, [Stretch(*s) for s in stretches])
        for (part_name, name), stretches in sorted(open_.items(), key=lambda kv: (order[kv[0][0]], kv[0][1]))
    ]


def _version_islands(run: Run) -> Iterator[tuple[str, int | None, Any, list[int], int]]:
    """First and last step of every stretch with equal versions: a run of 25,000 steps answers a few rows."""
    sql = """SELECT branch, step, versions, entries, CASE WHEN starts THEN 1 ELSE ord - lag(ord) OVER (ORDER BY ord) END FROM (
        SELECT ord, branch, step, versions, entries, versions IS DISTINCT FROM lag(versions) OVER w AS starts,
            versions IS DISTINCT FROM lead(versions) OVER w AS ends
        FROM runs_step WHERE run_id = %s AND versions IS NOT NULL AND versions <> '{}' WINDOW w AS (ORDER BY ord)) s
        WHERE starts OR ends ORDER BY ord"""
    import json

    with connection.cursor() as cursor:
        cursor.execute(sql, [run.pk])
        for branch, step, versions, numbers, repeat in cursor.fetchall():
            yield branch, step, json.loads(versions) if isinstance(versions, str) else versions, numbers, repeat


# -- header ---------------------------------------------------------------------------------------------------------

GAPS: Final = 3  # cards; more are counted and linked


def tag_of(run: Run) -> str:
    """Changes when anything of the run's header changes."""
    return f"{run.folded_pos}-{run.status}-{run.worker}-{int(run.lease_until.timestamp()) if run.lease_until else ''}"


def gap_facts(run: Run, gap: Mapping[str, Any]) -> dict[str, Any]:
    """When a gap's step was started, and its place in the list of steps."""
    found = Step.objects.filter(run=run, branch=gap.get("branch") or "", step=gap.get("step")).order_by("-ord").first()
    return {"started_at": found.first_at if found else None, "ord": found.ord if found else None}


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a run is where it is: one sentence, and the trace or detail behind it."""

    mean: str
    title: str
    text: str
    trace: str = ""
    ord: int | None = None  # the step to look at
    step: str = ""
    entry: int | None = None


_TOLD_BY: Final = {"stuck": ("stuck_task",), "unknown": ("torn_tail", "missing_entry", "encrypted_payload"), "running": ("stranded",), "parked": ("stranded",)}


def cause(run: Run) -> Cause | None:
    """Why a run is where it is, where that needs saying: failed, held, stopping or stopped, stuck, stranded, not understood."""
    if run.status == "failed":
        return _failure(run)
    if run.status == "held":
        return _hold(run)
    if run.status in ("stopping", "stopped"):
        return _stop(run)
    for finding in part(run, "findings"):
        if finding.get("code") in _TOLD_BY.get(run.status, ()):
            first = next(iter(finding.get("entries") or []), None)
            return Cause(mean="attention", title=finding["code"].replace("_", " ").capitalize(), text=str(finding.get("message", "")), entry=first)
    return None


def _hold(run: Run) -> Cause:
    last = _last_of(run, "run.held")
    if last is None:
        return Cause(mean="attention", title="Held", text="No worker may take this run until a person releases, moves or stops it.")
    entry = last.stored.entry
    detail = entry.extra.get("detail", entry.out if entry.out is not wire.MISSING else "")
    text, trace = (detail, "") if isinstance(detail, str) else error_text(detail)
    if not isinstance(detail, str) and not trace:
        trace = "".join(piece.text for piece in pretty(wire.encode(detail), limit=None).pieces)
    return Cause(
        mean="attention", title=f"Held: {entry.reason or 'no reason recorded'}",
        text=text or "No worker may take this run until a person releases, moves or stops it.", trace=trace, entry=last.stored.number,
    )


def _stop(run: Run) -> Cause:
    head = store.head(run.head_id)
    asked = _last_of(run, "stop.requested") or _last_of(run, "run.stopped")
    by = f" Asked for by {asked.stored.entry.by}." if asked and asked.stored.entry.by else ""
    name = head.stop_name or (asked.stored.entry.reason if asked else "") or "no name recorded"
    follows = "" if run.status == "stopped" else " It takes effect at the next step."
    return Cause(
        mean="plain" if run.status == "stopped" else "waiting", title=f"{'Stopped' if run.status == 'stopped' else 'Stopping'}: {name}",
        text=f"{head.stop_message or 'No message was given.'}{by}{follows}", entry=asked.stored.number if asked else None,
    )


def _failure(run: Run) -> Cause:
    last = _last_of(run, "run.failed")
    error = last.stored.entry.error if last else wire.MISSING
    step = Step.objects.filter(run=run, status="error").order_by("-ord").first()
    text, trace = error_text(error)
    return Cause(
        mean="broken", title="Failed", text=text or (step.error if step else "") or "The journal names no error.", trace=trace,
        ord=step.ord if step else None, step=f"step {number_of(step.branch, step.step)} {step.name}" if step else "",
        entry=last.stored.number if last else None,
    )


def _last_of(run: Run, kind: str) -> OpenEntry | None:
    """The last of the run's final 50 entries that has this kind."""
    head = store.head(run.head_id)
    found = [e for e in store.read(run.head_id, after=max(head.pos - 50, 0)) if e.kind == kind]
    return OpenEntry.of(found[-1]) if found else None


def error_text(error: Any) -> tuple[str, str]:
    """One sentence, and what lies behind it, out of a recorded error of any shape. The innermost cause comes first."""
    if isinstance(error, str):
        first, _, rest = error.partition("\n")
        return first, rest
    if not isinstance(error, Mapping):
        return "", ""
    inner, depth = error, 0
    while isinstance(inner.get("cause"), Mapping) and depth < 20:
        inner, depth = inner["cause"], depth + 1
    kind, message = inner.get("type"), inner.get("message")
    first, _, rest = str(message or "").partition("\n")
    text = f"{kind}: {first}" if kind and first else first or str(kind or "")
    trace = next((str(inner[k]) for k in ("trace", "traceback", "stack_trace", "stackTrace") if inner.get(k)), "")
    return text, "\n".join(t for t in (rest, trace) if t)
