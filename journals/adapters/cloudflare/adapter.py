"""Reads Cloudflare Workflows: what the API and wrangler tell of an instance, and the log of wrangler's local engine (SQLite or JSON).

A run is an instance. `docs/adapters-cloudflare.md` gives the forms, the mapping, and what the record can prove.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from journals.adapters.base import (
    AdapterInfo,
    Counted,
    Evidence,
    InputFile,
    Item,
    Line,
    Note,
    Options,
    Unread,
    shown,
)
from journals.adapters.cloudflare.controls import CONTROLS
from journals.adapters.cloudflare.forms import Part, name_runs, part_of, partials, too_long
from journals.adapters.cloudflare.lines import Placed, lines_of, sortable, unique
from journals.adapters.cloudflare.model import View
from journals.adapters.cloudflare.state import state_line
from journals.adapters.sqlitefile import MAGIC, besides, mentions

_SOURCE: Final = "developers.cloudflare.com/workflows/reference/limits"
_AS_OF: Final = "2026-06-15"

INFO: Final = AdapterInfo(
    name="cloudflare",
    title="Cloudflare Workflows",
    evidence=Evidence(
        write="before_effect",
        read="before_effect",
        attempts=True,
        says_end=True,
        note="Cloudflare records that an attempt begins before the step's code runs, and keeps every attempt; but a restart of the "
        "instance deletes its record, so what ran before it may have left no trace.",
    ),
    capabilities=frozenset(("stop", "resume", "approve")),
    controls=CONTROLS,
    limits=tuple(
        {"what": what, "unit": unit, "limit": limit, "source": f"{_SOURCE}, {where}", "as_of": _AS_OF}
        for what, unit, limit, where in (
            ("steps", "steps", 10_000, "Workers Paid, the default; sleeps do not count"),
            ("steps_on_free", "steps", 1_024, "Workers Free"),
            ("steps_at_most", "steps", 25_000, "Workers Paid, the most that can be set"),
            ("result_bytes", "bytes", 1 << 20, "results of steps that are no stream"),
            ("event_payload", "bytes", 1 << 20, "all plans"),
            ("state_on_free", "bytes", 100_000_000, "Workers Free, all that an instance keeps"),
            ("state", "bytes", 1_000_000_000, "Workers Paid, all that an instance keeps"),
        )
    ),
    how_to_export='npx wrangler workflows instances describe "$WORKFLOW" "$INSTANCE_ID" --json > "$WORKFLOW@$INSTANCE_ID.json"',
    files=('"$WORKFLOW@$INSTANCE_ID.json"',),
    versions_from="versionId, and the parameters prompt_version, model and tool_schema.",
    together="One file a run, and its name counts: the answer does not say which instance it is. Use one source for each workflow. "
    "Of wrangler dev: add --local --port N.",
)

_SIGNS: Final[tuple[tuple[re.Pattern[bytes], float], ...]] = (
    (re.compile(rb'"type"\s*:\s*"(?:step|sleep|waitForEvent)"'), 0.6),
    (re.compile(rb'"step_count"\s*:|"versionId"\s*:'), 0.3),
    (
        re.compile(
            rb'"status"\s*:\s*"(?:queued|running|paused|errored|terminated|complete|waiting(?:ForPause)?|rollingBack)"'
        ),
        0.3,
    ),
    (re.compile(rb'"queued"\s*:\s*"\d{4}-\d\d-\d\dT'), 0.4),
    (re.compile(rb'"groupKey"\s*:'), 0.5),
    (re.compile(rb'"event"\s*:\s*\d+\s*[,}]'), 0.2),
    (re.compile(rb'"__LOCAL_DEV_STEP_OUTPUTS"'), 0.6),
    (re.compile(rb'"created_on"\s*:\s*"\d{4}-'), 0.3),
    (re.compile(rb'"(?:version_id|workflow_id)"\s*:'), 0.3),
)
_DATABASE: Final = re.compile(r"(?:^|/)miniflare-workflows-[^/]+/[^/]+\.sqlite(?:-wal|-shm)?$")
_OURS: Final = re.compile(rb'\s*\{\s*"(?:run|seq|recorded_at|at|kind)"\s*:')
_FOREIGN: Final = re.compile(rb'"(?:openapi|workflow_uuid|eventType|EventType|resourceSpans|function_id)"\s*:')


def sniff(files: Sequence[InputFile]) -> float:
    """How sure the adapter is about the file that it knows best."""
    return max((_sniff(file) for file in files), default=0.0)


def _sniff(file: InputFile) -> float:
    head = file.head()
    database = _DATABASE.search(file.path)
    if head.startswith(MAGIC):  # a database that was not closed has its tables in the -wal file only
        return 0.95 if mentions(file, b"groupKey") and mentions(file, b"states") else 0.6 if database else 0.0
    if file.path.endswith(("-wal", "-shm")):
        return 0.6 if database or (file.path.endswith("-wal") and mentions(file, b"groupKey")) else 0.0
    if b"Workflow Name:" in head and b"Instance Id:" in head:
        return 0.6
    if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"[") or _OURS.match(head):
        return 0.0
    found = [score for sign, score in _SIGNS if sign.search(head)]
    if max(found, default=0.0) < 0.4 and _FOREIGN.search(head):
        return 0.0
    return min(sum(found), 0.95) if sum(found) >= 0.5 else 0.0


def read(files: Sequence[InputFile], options: Options) -> Iterator[Item]:
    """The lines of every instance in the files, and one state note for each moment at which a file shows it."""
    beside = besides(files)
    paths = {file.path for file in files}
    parts: list[Part] = []
    for file in files:
        if file.path.endswith(("-wal", "-shm")) and file.path[:-4] in paths:
            yield Note(file.path, "belongs to the SQLite file beside it")
            continue
        parts.append(part_of(file, beside(file.path)))
    name_runs(parts)
    for part in parts:
        _drop_long(part)
    counts: Counter[str] = Counter()
    runs: dict[str, list[View]] = {}
    for part in parts:
        for view in part.views:
            runs.setdefault(view.run, []).append(view)
    repeated: Counter[str] = Counter()
    for views in runs.values():
        for line in _run(views, options, repeated):
            counts[line.path] += 1
            yield line
    for part in parts:
        yield from _about(part, counts[part.path], repeated[part.path])


def _about(part: Part, lines: int, repeated: int) -> Iterator[Item]:
    """What the file itself leaves to say after its lines."""
    yield from part.problems
    yield from part.unread
    if repeated:
        part.notes.append(f"records that stand in other snapshots as well, and are given once: {repeated}")
    yield from (Note(part.path, note) for note in part.notes)
    yield from partials(part)
    if part.views or part.unread:
        yield Counted(part.path, lines + len(part.unread))


def _drop_long(part: Part) -> None:
    for view in list(part.views):
        if problem := too_long(view):
            part.views.remove(view)
            part.unread.append(Unread(part.path, 1, 0, problem, shown(view.run)))


def _run(views: Sequence[View], options: Options, repeated: Counter[str]) -> Iterator[Line]:
    """The lines of one run: what all its snapshots record, each thing once, then what each moment says about the whole."""
    full = [view for view in views if view.form != "item"]
    made = {id(view): lines_of(view, options) for view in full}
    everything = [placed for view in full for placed in made[id(view)]]
    everything.sort(key=lambda placed: (placed.at, placed.step, placed.phase))
    once = list(unique(iter(everything)))
    for placed in everything:
        repeated[placed.line.path] += 1
    for placed in once:
        repeated[placed.line.path] -= 1
        yield placed.line
    notes: dict[bytes, Line] = {}
    for moment in _moments(full or views):
        line = state_line(moment, _held(moment, made))
        notes.setdefault(line.raw, line)
    if full:
        for view in views:
            repeated[view.path] += view.form == "item"
    yield from notes.values()


def _moments(views: Sequence[View]) -> list[list[View]]:
    """The views that tell of one moment: an answer and a log side by side in one object. In the order of their newest times."""
    groups: dict[object, list[View]] = {}
    for n, view in enumerate(views):
        key = (view.path, view.near, view.form == "item") if view.near else n
        group = groups.setdefault(key, [])
        if any(other.form == view.form for other in group):
            groups[n] = [view]
        else:
            group.append(view)
    for group in groups.values():
        group.sort(key=lambda view: view.form)
    return sorted(groups.values(), key=lambda group: max((sortable(t) for v in group for t in v.times()), default=""))


def _held(views: Sequence[View], made: dict[int, list[Placed]]) -> set[str]:
    """Ids of the lines that both forms give, without the run's own start, which options change."""
    return {
        placed.id
        for view in views
        for placed in made.get(id(view), ())
        if placed.shared and not placed.id.startswith(("run@", "rollback:"))
    }
