"""AWS Lambda durable functions: the answers of GetDurableExecution and GetDurableExecutionHistory, with lists and states beside them.

A run is the execution's ARN; an entry's id is its event id. `docs/adapters-aws.md` has the table of events and what they prove.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from drainboard import wire

from journals.adapters.aws import scan
from journals.adapters.aws.controls import CONTROLS
from journals.adapters.aws.events import line_of
from journals.adapters.aws.files import FileRead, close
from journals.adapters.aws.history import History
from journals.adapters.aws.operations import events_of
from journals.adapters.aws.runs import UNNAMED, Described, Joined, Snapshot, join, newest
from journals.adapters.aws.state import state_line, state_of
from journals.adapters.aws.values import text_of, utc
from journals.adapters.base import (
    AdapterInfo,
    Evidence,
    InputFile,
    Item,
    Line,
    Options,
    Partial,
    Unread,
    shown,
)
from journals.adapters.values import integer, text

_QUOTAS: Final = "AWS Lambda quotas"

INFO: Final = AdapterInfo(
    name="aws",
    title="AWS Lambda durable functions",
    evidence=Evidence(
        write="on_close",
        read="on_close",
        attempts=False,
        says_end=False,
        note="The start of a step is recorded without the step waiting for it, so it may come late or not at all; retries are "
        "recorded, a second execution after a crash is not.",
    ),
    capabilities=frozenset(("stop", "resume", "approve")),
    controls=CONTROLS,
    limits=(
        {"what": "operations", "unit": "operations", "limit": 3_000, "source": _QUOTAS, "as_of": "2026"},
        {"what": "bytes", "unit": "bytes", "limit": 100 * 1024 * 1024, "source": _QUOTAS, "as_of": "2026"},
        {
            "what": "result_bytes",
            "unit": "bytes",
            "limit": 256 * 1024,
            "source": "aws-durable-execution-sdk-python 3.0.0",
            "as_of": "2026",
        },
    ),
    how_to_export="""(aws lambda get-durable-execution --durable-execution-arn "$ARN";
 aws lambda get-durable-execution-history --durable-execution-arn "$ARN" --include-execution-data) > run.json""",
    files=("run.json",),
    versions_from="the function's version, and the input's prompt_version, model and tool_schema.",
    together="A history does not name its execution, so the description goes in front of it, in the same file or the same import.",
)

_SIGNS: Final = (
    (
        re.compile(rb'"EventType"\s*:\s*"(?:Execution|Step|Context|Wait|Callback|ChainedInvoke|Invocation)[A-Z]'),
        b'"EventTimestamp"',
    ),
    (re.compile(rb'"DurableExecutionArn"\s*:\s*"[^"]*/durable-execution/[^"]+"'), b""),
    (re.compile(rb'"DurableExecutionArn"\s*:\s*"[^"]*/[^"]+"'), b'"Status"'),
    (re.compile(rb'"DurableExecutions"\s*:\s*\[\s*\]'), b""),
    (re.compile(rb'"Type"\s*:\s*"(?:EXECUTION|CONTEXT|STEP|WAIT|CALLBACK|CHAINED_INVOKE)"'), b'"Operations"'),
)
_OURS: Final = re.compile(rb'\s*\{\s*"(?:run|seq|recorded_at|id|at|kind)"\s*:')
_DATA: Final = frozenset(("Input", "Result"))


def sniff(files: Sequence[InputFile]) -> float:
    """How sure the adapter is about the file that it knows best."""
    return max((_sniff(file.head()) for file in files), default=0.0)


def _sniff(head: bytes) -> float:
    if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"[") or _OURS.match(head):
        return 0.0
    return 0.95 if any(sign.search(head) and beside in head for sign, beside in _SIGNS) else 0.0


@dataclass(slots=True)
class _Told:
    """Lines of one run that were given out, so that several snapshots give each record once."""

    lines: set[bytes] = field(default_factory=set)
    bare: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)  # by id: lines without what only data tells


def read(files: Sequence[InputFile], options: Options) -> Iterator[Item]:
    """The runs of all files, each with its `runtime.state` at its end."""
    opened = {file.path: FileRead(scan.scan(file)) for file in files}
    joined = join([answer for one in opened.values() for answer in one.scanned.answers])
    for answer in joined.unnamed:
        opened[answer.path].unread.append(answer.value.unread(answer.path, UNNAMED))
    for answer, record in joined.nameless:
        start = shown(repr(dict(record.fields)))
        reason = f"an execution without its DurableExecutionArn at {record.pointer}"
        opened[answer.path].unread.append(Unread(answer.path, answer.value.line, answer.value.start, reason, start))
    for found, problem in joined.problems:
        opened[found.answer.path].unread.append(found.answer.value.unread(found.answer.path, problem))
    for arn in joined.described | joined.snapshots:
        yield from _run(arn, joined, opened, options)
    for one in opened.values():
        yield from close(one, " ".join(INFO.how_to_export.split()))


def _run(arn: str, joined: Joined, opened: Mapping[str, FileRead], options: Options) -> Iterator[Item]:
    """One run: its snapshots from the oldest to the newest; without any, what is said of it."""
    described, told = joined.described.get(arn, []), _Told()
    snapshots = joined.snapshots.get(arn, [])
    full = [s for s in snapshots if not s.operations]
    states: set[bytes] = set()
    found = newest(described)
    if found is not None and not any(_begins(s) for s in full or snapshots):
        yield _begun(found, opened, options)
    for snapshot in sorted(full or snapshots, key=lambda s: not _has_data(s)):
        yield from _snapshot(snapshot, newest(described), opened, options, told)
    for snapshot in full or snapshots:
        yield from _state(snapshot, opened, options, states)
    for snapshot in snapshots if full else []:
        if snapshot.operations:
            one = opened[snapshot.answers[0].path]
            one.skipped["operations of a state whose history is here"] += len(snapshot.records())
    if described and not snapshots:
        yield from _description(arn, described, opened, options)
    for found in described:
        opened[found.answer.path].used.append(arn)


def _begins(snapshot: Snapshot) -> bool:
    """Whether the beginning of the execution is in the snapshot."""
    return any(
        text(r.fields, "EventType") == "ExecutionStarted" or text(r.fields, "Type") == "EXECUTION"
        for _, r in snapshot.records()
    )


def _begun(found: Described, opened: Mapping[str, FileRead], options: Options) -> Line:
    """The start of a run whose first event is not here, as the description tells it: whose run it is, and since when."""
    given = text(found.fields, "InputPayload")
    line = {
        "run": found.arn,
        "id": "listed" if found.listed else "described",
        "at": utc(found.fields.get("StartTimestamp")),
        "kind": "run.started",
        **_facts(found, options),
        "execution": text(found.fields, "DurableExecutionName"),
        "in": text_of(given).value if given is not None else None,
    }
    one = opened[found.answer.path]
    one.lines += 1
    if found.arn not in one.runs:
        one.runs.append(found.arn)
    raw = wire.dump({k: v for k, v in line.items() if v is not None and v != {}})
    return Line(found.arn, raw, found.answer.prefix + found.record.pointer, found.answer.path)


def _has_data(snapshot: Snapshot) -> bool:
    """Whether payloads were exported; a history that could not have any counts as with data."""
    told = [
        details
        for _, record in snapshot.records()
        for name, details in record.fields.items()
        if name.endswith("Details") and isinstance(details, Mapping) and name != "ContextStartedDetails"
    ]
    able = [d for d in told if d.keys() & _DATA]
    return any(isinstance(d[k], Mapping) and d[k].get("Payload") is not None for d in able for k in _DATA & d.keys())


def _events(
    snapshot: Snapshot, opened: Mapping[str, FileRead]
) -> Iterator[tuple[scan.Answer, scan.Record, Mapping[str, Any]]]:
    """The events of a snapshot; records that are none are named as unread."""
    for answer, record in snapshot.records():
        one = opened[answer.path]
        if snapshot.operations:
            made = list(events_of(record.fields))
            if not made:
                one.skipped["operations of no known type"] += 1
            for event in made:
                yield answer, record, event
        elif (integer(record.fields, "EventId") or 0) < 1 or not text(record.fields, "EventType"):
            reason = (
                "an event without an EventId" if text(record.fields, "EventType") else "an event without an EventType"
            )
            start = shown(repr(dict(record.fields)))
            one.unread.append(
                Unread(answer.path, answer.value.line, answer.value.start, f"{reason} at {record.pointer}", start)
            )
            answer.damaged = answer.damaged or f"{reason} was not read"
        else:
            yield answer, record, record.fields


def _facts(described: Described | None, options: Options) -> dict[str, Any]:
    """What the first event's line takes from the description: the function, its version."""
    function, qualifier = described.function if described else ("", "")
    moving = not qualifier or qualifier.startswith("$LATEST")  # follows every deployment, so it names no code
    return {
        "agent": options.agent or function or None,
        "build": qualifier or None,
        "environment": options.environment or None,
        "versions": {} if moving else {"app": qualifier},
    }


def _snapshot(
    snapshot: Snapshot,
    described: Described | None,
    opened: Mapping[str, FileRead],
    options: Options,
    told: _Told,
) -> Iterator[Line]:
    run, facts = History(run=snapshot.arn), _facts(described, options)
    with_data = _has_data(snapshot)
    for answer, record, event in _events(snapshot, opened):
        one = opened[answer.path]
        if snapshot.arn not in one.runs:
            one.runs.append(snapshot.arn)
        raw, odd = line_of(run, event, facts)
        if raw in told.lines:
            one.repeats += 1
            continue
        bare, name = _without_data(raw), text(event, "_id") or str(integer(event, "EventId"))
        if not with_data and bare in told.bare.get(name, ()):
            one.bare += 1
            continue
        told.lines.add(raw)
        told.bare.setdefault(name, []).append(bare)
        one.lines += 1
        yield Line(snapshot.arn, raw, answer.prefix + record.pointer, answer.path, (*record.oddities, *odd))


_OF_DATA: Final = ("in", "out", "usage", "model_reported", "versions", "decision", "by", "reason")


def _without_data(raw: bytes) -> Mapping[str, Any]:
    """A line without what only its payload tells; equal for the same event exported with and without data."""
    line, _ = wire.decode(raw)
    if not isinstance(line, dict):
        return {}
    rest = {k: v for k, v in line.get("aws", {}).items() if k != "payload"} if isinstance(line.get("aws"), dict) else {}
    return {**{k: v for k, v in line.items() if k not in _OF_DATA}, "aws": rest}


def _state(snapshot: Snapshot, opened: Mapping[str, FileRead], options: Options, given: set[bytes]) -> Iterator[Line]:
    """The note of one snapshot; equal notes are given once."""
    run = History(run=snapshot.arn)
    facts = _facts(snapshot.described, options)
    ids = []
    for _, _, event in _events(snapshot, {a.path: FileRead(opened[a.path].scanned) for a in snapshot.answers}):
        line_of(run, event, facts)
        ids.append(text(event, "_id") or str(integer(event, "EventId")))
    held = _held(snapshot, run, ids)
    missing, damaged = _missing(snapshot, run, opened)
    raw = state_line(snapshot.arn, state_of(run, snapshot.described, held, missing, damaged=damaged))
    if raw not in given:
        given.add(raw)
        one = opened[snapshot.answers[-1].path]
        one.lines += 1
        yield Line(snapshot.arn, raw, "#state", snapshot.answers[-1].path)


def _held(snapshot: Snapshot, run: History, ids: Sequence[str]) -> dict[str, Any]:
    """Which records this export holds, for comparing it with others of the same form."""
    cut = any(a.damaged or a.torn for a in snapshot.answers)
    if snapshot.operations:
        return {"form": "operations", "whole": False, "ids": list(ids)}
    form = "history" if _has_data(snapshot) else "history without data"
    more = all(a.more for a in snapshot.answers)
    return {
        "form": form,
        "whole": run.gapless and bool(ids) and not cut and not more,
        "seqs": _ranges(snapshot.numbers()),
    }


def _ranges(numbers: set[int]) -> str:
    made: list[list[int]] = []
    for n in sorted(numbers):
        if made and made[-1][1] == n - 1:
            made[-1][1] = n
        else:
            made.append([n, n])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in made)


def _missing(snapshot: Snapshot, run: History, opened: Mapping[str, FileRead]) -> tuple[str, bool]:
    """Why records are missing, and whether a file is damaged; each reason is told of its file too."""
    reasons = [(a.path, a.damaged, "torn_tail" if a.torn else "missing_entry") for a in snapshot.answers if a.damaged]
    damaged = bool(reasons)
    if not snapshot.operations and not damaged:
        reasons += _pages(snapshot, run)
    for path, reason, code in reasons:
        opened[path].losses.append(Partial(path, reason, (snapshot.arn,), code))
    around = [opened[a.path].scanned for a in snapshot.answers]
    told = [r for _, r, _ in reasons] + [s.torn or s.broken for s in around if s.torn or s.broken]
    return "; ".join(dict.fromkeys(told)), damaged or any(s.torn or s.broken for s in around)


def _pages(snapshot: Snapshot, run: History) -> list[tuple[str, str, str]]:
    """What pages that are not here take away: file, reason, finding code."""
    if all(a.more for a in snapshot.answers):
        ids = [integer(r.fields, "EventId") or 0 for a in snapshot.answers for r in a.records]
        older = len(ids) > 1 and ids[0] > ids[-1]
        side, code = ("before", "missing_entry") if older else ("behind", "torn_tail")
        return [(snapshot.answers[-1].path, f"a NextMarker says that more events stand {side} these", code)]
    if not run.gapless:
        return [(snapshot.answers[0].path, "event ids are left out between those that are here", "missing_entry")]
    return []


def _description(
    arn: str, described: Sequence[Described], opened: Mapping[str, FileRead], options: Options
) -> Iterator[Line]:
    """A run of which only the status is known."""
    found = newest(described)
    if found is None:
        return
    one = opened[found.answer.path]
    run = History(run=arn)
    out = state_of(
        run,
        found,
        {"form": "description", "whole": False, "seqs": ""},
        one.scanned.torn,
        damaged=bool(one.scanned.torn),
    )
    one.lines += 1
    yield Line(arn, state_line(arn, out), found.answer.prefix + found.record.pointer, found.answer.path)
