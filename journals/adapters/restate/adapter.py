"""Restate: rows of its SQL tables as the admin API, `restate sql --jsonl` or a capture around them gives them.

A run is an invocation, an entry's id is its journal index. `docs/adapters-restate.md` has the mapping and what can be known.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
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
    Partial,
    Refused,
)
from journals.adapters.restate.controls import CONTROLS
from journals.adapters.restate.line import digest, line
from journals.adapters.restate.lines import lines_of
from journals.adapters.restate.rows import EVENTS, JOURNAL, RUN_TABLES, Part, Row, empty_table, read_rows
from journals.adapters.restate.runs import Snapshot, older_invocations, snapshots
from journals.adapters.restate.state import state_of

INFO: Final = AdapterInfo(
    name="restate",
    title="Restate",
    evidence=Evidence(
        write="before_effect",
        read="before_effect",
        attempts=False,
        says_end=False,
        note="Restate records a step before its action runs, but a second execution after a crash leaves at most an event, "
        "and none when the server itself died.",
    ),
    capabilities=frozenset(("stop", "pin", "resume", "approve")),
    controls=CONTROLS,
    limits=(
        {
            "what": "message_bytes",
            "unit": "bytes",
            "limit": 33_816_576,
            "source": "RT0003 of restate-server 1.7.12: a larger result is refused, and its step runs again at every retry",
            "as_of": "2026",
        },
    ),
    how_to_export=r"""for t in sys_invocation sys_journal sys_journal_events; do
  curl -s http://localhost:9070/query -H 'accept: application/json' -H 'content-type: application/json' \
    -d "{\"query\": \"select * from $t\"}" > $t.json
done
curl -s http://localhost:9070/deployments > deployments.json""",
    files=("sys_invocation.json", "sys_journal.json", "sys_journal_events.json", "deployments.json"),
    versions_from="the metadata of the deployment or the service: git_sha, prompt_version, model, tool_schema.",
    together="The three tables and the deployments: events tell of lost executions, deployments of the versions. "
    "Ask the admin port, 9070 unless you chose another.",
)

_SIGNS: Final[tuple[tuple[re.Pattern[bytes], float], ...]] = (
    (re.compile(rb'"(?:entry_type"\s*:\s*"(?:Command|Notification): |after_journal_entry_index"\s*:)'), 0.95),
    (re.compile(rb'"target_(?:service|handler)_name"\s*:'), 0.9),
    (re.compile(rb'"(?:pinned_deployment_id|sys_invocation|sys_journal|sys_journal_events)"\s*:'), 0.9),
    (re.compile(rb'"id"\s*:\s*"(?:inv_1|dp_1)[0-9A-Za-z]{20,40}"'), 0.8),
    (re.compile(rb'"service_name"\s*:.*"service_key"\s*:', re.DOTALL), 0.6),
    (re.compile(rb'"deployment_id"\s*:\s*"dp_'), 0.6),
)
_OURS: Final = re.compile(rb'\s*\{\s*"(?:run|seq|recorded_at)"\s*:')


def sniff(files: Sequence[InputFile]) -> float:
    """How sure the adapter is about the file that it knows best."""
    return max((_sniff(file.path, file.head()) for file in files), default=0.0)


def _sniff(path: str, head: bytes) -> float:
    if empty_table(path, head):
        return 0.5
    if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"[") or _OURS.match(head):
        return 0.0
    return max((score for sign, score in _SIGNS if sign.search(head)), default=0.0)


def read(files: Sequence[InputFile], options: Options) -> Iterator[Item]:
    """The runs of all files. Rows of the files of one folder belong together; a wrapped capture stands by itself."""
    parts = [read_rows(file) for file in files]
    runs = snapshots(parts)
    counts: Counter[str] = Counter()
    again: Counter[str] = Counter()
    for found in runs.values():
        for item in _run(found, options, again):
            counts[item.path] += 1
            yield item
    older = Counter(dict(older_invocations(parts, runs)))
    touched = _touched(runs)
    told = {table for part in parts for table in (*part.named, *(row.table for row in part.rows))}
    if JOURNAL in told and EVENTS not in told:
        yield Note(parts[0].path, f"{EVENTS} is not in this export: failed tries and lost executions are not known")
    for part in parts:
        if not runs and part.rows and not part.unread:
            yield Refused(part.path, "facts beside runs, and no run: export sys_invocation and sys_journal with it")
            continue
        yield from _close(part, counts[part.path], again[part.path], older[part.path], touched.get(part.path, ()))


def _run(found: Sequence[Snapshot], options: Options, again: Counter[str]) -> Iterator[Line]:
    """The lines of one run: of each snapshot what the ones before it did not say, and its state."""
    given: set[bytes] = set()
    for snapshot in found:
        own: list[Line] = []
        for made in lines_of(snapshot, options):
            if made.raw in given:
                again[made.path] += 1
                continue
            own.append(made)
            yield made
        given.update(made.raw for made in own)
        yield _state(snapshot)


def _state(snapshot: Snapshot) -> Line:
    out = state_of(snapshot)
    row = snapshot.invocation or _any_row(snapshot)
    made = {"id": f"state:{digest(out)}", "at": out.get("as_of"), "kind": "note", "name": "runtime.state", "out": out}
    return line(snapshot, row, f"{row.record}#state", made)


def _any_row(snapshot: Snapshot) -> Row:
    return snapshot.entries[0].row if snapshot.entries else snapshot.events[0].row


def _touched(runs: Mapping[str, Sequence[Snapshot]]) -> dict[str, tuple[str, ...]]:
    """File -> the runs that have rows in it or in the export that it is a part of."""
    paths: dict[str, set[str]] = {}
    for run, found in runs.items():
        for snapshot in found:
            rows = [e.row for e in snapshot.entries] + [e.row for e in snapshot.events]
            for row in (*rows, snapshot.invocation):
                if row is not None:
                    paths.setdefault(row.path, set()).add(run)
    return {path: tuple(sorted(found)) for path, found in paths.items()}


def _close(part: Part, lines: int, again: int, older: int, runs: tuple[str, ...]) -> Iterator[Item]:
    """What is said of a file as a whole, after its lines."""
    for problem in part.problems:
        yield replace(problem, runs=runs) if isinstance(problem, Partial) else problem
    if any(isinstance(p, Refused) for p in part.problems):
        return
    tables = Counter(row.table for row in part.rows)
    if not tables:
        yield Counted(part.path, 0)
        return
    told = ", ".join(f"{table} {n}" for table, n in sorted(tables.items()))
    yield Note(part.path, f"rows: {told}")
    facts = [f"{n} of {table}" for table, n in sorted(tables.items()) if table not in RUN_TABLES]
    if facts:
        yield Note(
            part.path, f"{', '.join(facts)} are no steps; what they say about a run stands in its start and its state"
        )
    if again:
        yield Note(part.path, f"{again} entries stand in an earlier snapshot of the same run with the same content")
    if older:
        yield Note(
            part.path, f"{older} rows of sys_invocation are repeated or older than another of the same export; not used"
        )
    if part.aside:
        aside = ", ".join(f"{n} {what}" for what, n in sorted(part.aside.items()))
        yield Note(part.path, f"{aside} around the rows are no rows of Restate's tables")
    yield from part.unread
    yield Counted(part.path, lines + len(part.unread))
