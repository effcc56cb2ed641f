"""Temporal: `temporal workflow show`, the SDK's history, the Web UI's downloads, the HTTP API, with describes and lists beside them.

A run is `workflowId/runId`, because continue-as-new, reset, retry and cron put several runs under one workflow id. An entry's
id is its event id. `docs/adapters-temporal.md` has the table of events and what the journal can prove.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from drainboard import wire

from journals.adapters import jsonscan
from journals.adapters.base import (
    AdapterInfo,
    Counted,
    Evidence,
    InputFile,
    Item,
    Line,
    Note,
    Options,
    Partial,
    Refused,
    Unread,
)
from journals.adapters.temporal import scan
from journals.adapters.temporal.controls import CONTROLS
from journals.adapters.temporal.facts import Facts, best, facts_of, state_line
from journals.adapters.temporal.history import COMMANDS, Event, History
from journals.adapters.temporal.kinds import not_a_journal, sniff_head, text_reason
from journals.adapters.temporal.lines import lines_of
from journals.adapters.temporal.runs import task_scheduled, task_started
from journals.adapters.temporal.values import dict_of, text_of
from journals.adapters.values import compact

INFO: Final = AdapterInfo(
    name="temporal",
    title="Temporal",
    chain_separator="/",
    evidence=Evidence(
        write="on_close",
        read="on_close",
        attempts=False,
        says_end=False,
        note="Temporal records that a step is scheduled before it runs, but its start only when it ends, and of several tries only the last.",
    ),
    capabilities=frozenset(("stop", "pin", "resume", "approve")),
    controls=CONTROLS,
    limits=(
        {
            "what": "entries",
            "unit": "events",
            "limit": 51_200,
            "warn": 10_240,
            "source": "Temporal Service limits",
            "as_of": "2026",
        },
        {
            "what": "bytes",
            "unit": "bytes",
            "limit": 50 * 1024 * 1024,
            "warn": 10 * 1024 * 1024,
            "source": "Temporal Service limits",
            "as_of": "2026",
        },
    ),
    how_to_export="""temporal workflow show -w "$WORKFLOW_ID" -r "$RUN_ID" --output json > run.json
temporal workflow describe -w "$WORKFLOW_ID" -r "$RUN_ID" --output json > run.describe.json
# every run in flight, with jq
temporal workflow list -q "ExecutionStatus='Running'" --output jsonl | jq -r '[.execution.workflowId, .execution.runId] | @tsv' |
while IFS=$'\\t' read -r w r; do
  temporal workflow show -w "$w" -r "$r" --output json < /dev/null > "$r.json"
  temporal workflow describe -w "$w" -r "$r" --output json < /dev/null > "$r.describe.json"
done""",
    files=("run.json", "run.describe.json"),
    versions_from="the worker's build, and the memo, search attributes and inputs that are named prompt_version, model or tool_schema.",
    together="A history and its describe: only the describe says how long the history is and what an open activity does. "
    "The SDK's and the Web UI's exports are read too.",
)

_SHORTHAND: Final = (
    "this is the HTTP API's shorthand, in which the server writes an empty list inside a value as null; for exact values ask with "
    "the header `Accept: application/json+no-payload-shorthand`"
)


@dataclass(slots=True)
class _File:
    """One file while it is read: its documents, and how it came out."""

    file: InputFile
    documents: list[scan.Document]
    lines: int = 0  # lines and unread stretches given out
    runs: list[str] = field(default_factory=list)
    facts: list[Facts] = field(default_factory=list)
    metadata: list[dict[str, Any]] = field(default_factory=list)
    used: list[str] = field(default_factory=list)  # runs that took facts out of this file
    reasons: list[str] = field(default_factory=list)  # why parts of it are no journal
    unread: list[Unread] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    losses: list[tuple[str, str]] = field(default_factory=list)  # what is missing, and its finding code


@dataclass(slots=True, kw_only=True)
class _Journal:
    """One history in one file."""

    file: _File
    document: scan.Document
    prefix: str  # in front of record pointers, when the file has several documents
    workflow_id: str
    run_id: str

    @property
    def run(self) -> str:
        return "/".join(part for part in (self.workflow_id, self.run_id) if part)

    @property
    def last(self) -> int:
        return max((e.number for e in self.document.events if e.stored), default=0)


def sniff(files: Sequence[InputFile]) -> float:
    """The surest of the files; a history anywhere among them is enough."""
    return max((sniff_head(f.head()) for f in files), default=0.0)


def read(files: Sequence[InputFile], options: Options) -> Iterator[Item]:
    """The runs of all files, each with its `runtime.state` at its end. Describes count for the histories beside them."""
    opened = [_open(f) for f in files]
    facts: dict[str, list[Facts]] = defaultdict(list)
    for found in (f for o in opened for f in o.facts):
        facts[found.run].append(found)
    journals = _journals(opened, facts)
    metadata = _metadata(opened, journals)
    for journal in journals:
        yield from _journal(journal, options, facts[journal.run], metadata.get(journal.run))
    yield from _facts_only(opened, {j.run for j in journals}, facts, options)
    for one in opened:
        yield from _close(one)


def _open(file: InputFile) -> _File:
    data = file.read()
    made = _File(file, list(scan.documents(data)))
    if data.startswith(b"\xef\xbb\xbf"):
        made.notes.append("a byte order mark at the start was skipped")
    if file.cut:
        made.losses.append((file.cut, "torn_tail"))
    for document in made.documents:
        if not document.has_events:
            _set_aside(made, document, data)
        for broken in document.broken if document.has_events or made.facts else []:
            if broken.end > broken.start:
                made.unread.append(_unread(file.path, data, broken.start, broken.reason))
            made.losses.append((broken.reason, "torn_tail" if broken.torn else "missing_entry"))
    return made


def _unread(path: str, data: bytes, at: int, reason: str) -> Unread:
    return Unread(path, scan.line_of(data, at), at, reason, scan.safe_start(data, at))


def _set_aside(made: _File, document: scan.Document, data: bytes) -> None:
    """A document without events: facts about runs, or no part of a journal at all."""
    spans = document.items or [scan.Span(document.start, document.end)]
    found = 0
    for span in spans:
        try:
            value, _ = jsonscan.loose(data[span.start : span.end])
        except wire.MalformedLine:
            reason = (
                document.broken[0].reason
                if document.broken and data[span.start : span.start + 1] in (b"{", b"[")
                else ""
            )
            made.reasons.append(reason or text_reason(scan.safe_start(data, span.start)))
            continue
        facts = facts_of(value, made.file.path)
        if facts:
            made.facts.append(facts)
            found += 1
            continue
        results = dict_of(value).get("queryResult")
        described = [dict_of(r) for r in results if "definition" in dict_of(r)] if isinstance(results, list) else []
        made.metadata += described
        if not described:
            made.reasons.append(not_a_journal(value))
    if not spans and not found:
        made.reasons.append("the file is empty")


def _journals(opened: Sequence[_File], facts: Mapping[str, list[Facts]]) -> list[_Journal]:
    """The histories of all files, the shorter export of a run before the longer one."""
    workflow_ids = {f.run_id: f.workflow_id for found in facts.values() for f in found}
    made = []
    for one in opened:
        for i, document in enumerate(one.documents):
            if not document.has_events:
                continue
            run_ids = [e.run_id for e in document.events if e.run_id]
            workflow_id = next((e.workflow_id for e in document.events if e.workflow_id), "")
            if not run_ids:
                one.reasons.append(_no_start(document))
                continue
            prefix = f"doc={i + 1}" if len(one.documents) > 1 else ""
            workflow_id = workflow_id or workflow_ids.get(run_ids[-1], "")
            made.append(
                _Journal(file=one, document=document, prefix=prefix, workflow_id=workflow_id, run_id=run_ids[-1])
            )
            one.runs.append(made[-1].run)
    return sorted(made, key=lambda j: (j.run, j.last))


def _no_start(document: scan.Document) -> str:
    if not document.events:
        return "the history holds no event that could be read"
    first = document.events[0].number
    return f"the history begins at event {first}; its first event, which names the run, is not in this file (one page of several?)"


def _metadata(opened: Sequence[_File], journals: Sequence[_Journal]) -> dict[str, Mapping[str, Any]]:
    """What a run says it waits for, by run. The answer names no run: it counts where one history only can be meant."""
    made: dict[str, Mapping[str, Any]] = {}
    for one in opened:
        stem = one.file.path.removesuffix(".gz").removesuffix(".json").removesuffix(".metadata")
        for found in one.metadata:
            named = {j.run for j in journals if j.file.file.path.startswith(stem + ".")} or {j.run for j in journals}
            if len(named) == 1:
                run = named.pop()
                made[run] = found
                one.used.append(run)
            else:
                one.reasons.append(not_a_journal({"queryResult": []}))
    return made


def _journal(
    journal: _Journal, options: Options, facts: list[Facts], metadata: Mapping[str, Any] | None
) -> Iterator[Item]:
    one, path, events = journal.file, journal.file.file.path, journal.document.events
    data = one.file.read()
    stored, transient = _split(events)
    if [e.number for e in stored] != sorted(e.number for e in stored):
        one.notes.append("the events do not stand in the order of their ids; they were read in that order")
    groups = Counter(task for _, task in {(e.number, e.task) for e in stored if e.type in COMMANDS and e.task})
    run = History(
        workflow_id=journal.workflow_id,
        run_id=journal.run_id,
        groups=groups,
        copied=_copied(journal),
    )
    for head in sorted(stored, key=lambda e: e.number):
        raw = data[head.span.start : head.span.end]
        if not head.number:
            one.unread.append(_unread(path, data, head.span.start, "an event without an eventId"))
            one.losses.append(("an event without an eventId was not read", "missing_entry"))
            continue
        for line, odd in lines_of(run, raw):
            one.lines += 1
            record = journal.prefix + head.span.pointer + (f"#{line[0][1:]}" if line[0] else "")
            yield Line(run.run, line[1], record, path, odd)
    _sketch(run, transient, data, one)
    if run.shorthand:
        one.notes.append(_SHORTHAND)
    numbers = {e.number for e in stored if e.number}
    whole = bool(numbers) and len(numbers) == max(numbers) and not journal.document.broken and not one.file.cut
    paged = _next_page(journal, data)
    held = {"form": "history", "whole": whole and not paged, "seqs": compact(numbers)}
    yield _state(journal, run, facts, metadata, held, whole=whole)
    if paged:
        one.losses.append(("this is one page of the history; the next one is missing", "torn_tail"))


def _copied(journal: _Journal) -> tuple[int, str]:
    """The last reset in the history: up to its event everything was copied from the run that it names."""
    resets = [
        (e.number, "/".join(p for p in (journal.workflow_id, e.base_id) if p))
        for e in journal.document.events
        if e.base_id
    ]
    return max(resets, default=(0, ""))


def _state(
    journal: _Journal,
    run: History,
    facts: list[Facts],
    metadata: Mapping[str, Any] | None,
    held: Mapping[str, Any],
    *,
    whole: bool,
) -> Line:
    chosen = best(facts, run.last)
    journal.file.lines += 1
    return Line(
        run.run,
        state_line(run, chosen, whole=whole, metadata=metadata, held=held),
        f"{journal.prefix}#state",
        journal.file.file.path,
    )


def _split(events: Sequence[scan.Head]) -> tuple[list[scan.Head], list[scan.Head]]:
    """Events of the history, and the sketch of the running workflow task that an API adds at its end without storing it."""
    stored = list(events)
    if not any(e.stored for e in events):
        return stored, []
    sketch: list[scan.Head] = []
    while stored and not stored[-1].stored and stored[-1].type in ("WorkflowTaskScheduled", "WorkflowTaskStarted"):
        sketch.insert(0, stored.pop())
    return stored, sketch


def _sketch(run: History, transient: Sequence[scan.Head], data: bytes, one: _File) -> None:
    for head in transient:
        event = Event.of(jsonscan.loose(data[head.span.start : head.span.end])[0])
        (task_scheduled if event.type == "WorkflowTaskScheduled" else task_started)(run, event)
    if transient:
        ids = ", ".join(str(e.number) for e in transient)
        one.notes.append(
            f"events {ids} are the runtime's sketch of the task that runs now, not stored in the history; kept as a fact of the run"
        )


def _next_page(journal: _Journal, data: bytes) -> bool:
    """Whether the file says that another page of the history follows."""
    span = journal.document.fields.get("nextPageToken")
    return span is not None and data[span.start : span.end] not in (b'""', b"null")


def _facts_only(
    opened: Sequence[_File], read_runs: set[str], facts: Mapping[str, list[Facts]], options: Options
) -> Iterator[Line]:
    """A describe without its history still says where the run stands; a list's rows do not say enough."""
    for one in opened:
        unused = 0
        for found in one.facts:
            if found.run in read_runs:
                one.used.append(found.run)
            elif found.described:
                one.lines += 1
                one.runs.append(found.run)
                run = History(workflow_id=found.workflow_id, run_id=found.run_id, groups={})
                run.workflow_type = text_of(dict_of(found.info.get("type")).get("name"))
                one.notes.append(f"no history of {found.run} beside it: where the run stands, and no step of it")
                yield Line(run.run, state_line(run, found, whole=False), "#state", one.file.path)
            else:
                unused += 1
        if unused:
            rows = (
                f"{unused} of {len(one.facts)} runs in it have no history here"
                if one.used
                else "a list of runs, not a journal"
            )
            one.reasons.append(f"{rows}; export each run with `temporal workflow show -w ID -r RUN --output json`")


def _close(one: _File) -> Iterator[Item]:
    """What is said of the file as a whole, after its lines."""
    path = one.file.path
    for text in one.notes:
        yield Note(path, text)
    if one.used:
        runs = sorted(set(one.used))
        more = f" and {len(runs) - 5} more" if len(runs) > 5 else ""
        yield Note(path, f"facts about {', '.join(runs[:5])}{more}, used beside the history")
    if not one.lines and not one.used:
        yield Refused(
            path, "; ".join(dict.fromkeys(one.reasons + [u.reason for u in one.unread])) or "no list of events in it"
        )
        return
    for reason in dict.fromkeys(one.reasons):
        yield Note(path, f"left out: {reason}")
    yield from one.unread
    for reason, code in dict.fromkeys(one.losses):
        yield Partial(path, reason, tuple(dict.fromkeys(one.runs)), code)
    yield Counted(path, one.lines + len(one.unread))
