"""Rows of Restate's tables by run and moment: what one export said about one invocation. Pure."""

from __future__ import annotations

import base64
import json
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from journals.adapters.restate.entries import Entry, entry_of
from journals.adapters.restate.rows import DEPLOYMENT, EVENTS, INVOCATION, JOURNAL, RUN_TABLES, Part, Row
from journals.adapters.values import Fields, integer, text

_BASE62: Final = {c: n for n, c in enumerate("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")}

STEPS: Final = frozenset(("Run", "Sleep", "Call", "OneWayCall", "GetPromise", "SideEffect", "Awakeable"))
"""Commands that are steps, each with a number of its own. The others only read or write Restate's own state."""

IN_FLIGHT: Final = frozenset(
    ("scheduled", "inboxed", "pending", "ready", "running", "backing-off", "suspended", "paused")
)
"""Words of `sys_invocation.status` of a run that is not over."""

RUNS: Final = ("Run", "SideEffect")
"""Commands that run the user's own code."""

CODES: Final = {
    "RT0001": "no answer in time",
    "RT0003": "message too large",
    "RT0007": "the handler failed",
    "RT0010": "connection to the endpoint lost or refused",
    "RT0011": "deployment not registered any more",
    "RT0016": "journal mismatch",
}
MISMATCH, GONE = "RT0016", "RT0011"


@dataclass(frozen=True, slots=True)
class Event:
    """One row of sys_journal_events."""

    row: Row
    after: int  # journal index that it came behind
    at: str | None
    type: str
    told: Mapping[str, Any]

    @property
    def code(self) -> str:
        return text(self.told, "restate_doc_error_code") or ""

    @property
    def message(self) -> str:
        return text(self.told, "error_message") or ""


@dataclass(slots=True)
class Snapshot:
    """What one export said about one run. Positions are journal indexes, from 0."""

    run: str
    scope: str
    captured_at: str = ""
    invocation: Row | None = None
    entries: list[Entry] = field(default_factory=list)  # by index
    events: list[Event] = field(default_factory=list)
    deployments: dict[str, dict[str, Any]] = field(default_factory=dict)
    cut: bool = False  # a file of the export is damaged
    first_hole: int = 0  # the lowest index that is not here
    numbers: dict[int, int] = field(default_factory=dict)  # index of a command -> its step number
    commands: list[Entry] = field(default_factory=list)  # by index, of each index the first
    answered: dict[int | None, Entry] = field(default_factory=dict)  # by completion id, the notification of its result
    by_completion: dict[int, Entry] = field(default_factory=dict)  # the commands, by the id of their result
    by_given: dict[int, Entry] = field(default_factory=dict)  # the calls, by the id of the invocation's id

    @property
    def fields(self) -> Fields:
        return self.invocation.fields if self.invocation else {}

    @property
    def word(self) -> str:
        return text(self.fields, "status") or ""

    @property
    def name(self) -> str:
        parts = (text(self.fields, "target_service_name"), text(self.fields, "target_handler_name"))
        return "/".join(p for p in parts if p)

    @property
    def last(self) -> int:
        return max((e.index for e in self.entries), default=-1)

    @property
    def size(self) -> int | None:
        return integer(self.fields, "journal_size")

    @property
    def whole(self) -> bool:
        """The journal from its first entry to the last one that the invocation's row counts, and nothing was damaged."""
        have = {e.index for e in self.entries}
        dense = bool(have) and have == set(range(len(have)))
        return dense and not self.cut and (self.size is None or len(have) >= self.size)

    @property
    def deployment(self) -> dict[str, Any]:
        return self.deployments.get(text(self.fields, "pinned_deployment_id") or "", {})

    def command_of(self, completion: int | None, *, given: bool = False) -> Entry | None:
        """The command that a completion id belongs to: the one rule by which results are joined."""
        if completion is None:
            return None
        return (self.by_given if given else self.by_completion).get(completion)

    def as_of(self) -> str | None:
        """The newest time among the run's own rows; planned times are none."""
        names = ("created_at", "modified_at", "running_at", "completed_at", "last_start_at", "scheduled_at")
        times = [text(self.fields, name) for name in names]
        times += [e.at for e in self.entries] + [e.at for e in self.events]
        known = [t for t in times if t and moment(t) is not None]
        return max(known, key=lambda t: (moment(t), t), default=None)


def moment(stamp: str | None) -> datetime | None:
    """An RFC 3339 time in UTC; None for anything else."""
    try:
        made = datetime.fromisoformat(stamp or "")
        return made.astimezone(UTC) if made.tzinfo else made.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def awakeable_id(run: str, index: int) -> str:
    """The id by which an awakeable is answered; empty for a run id of another form.

    `sign_1` and base64url of the invocation's two numbers (64 and 128 bits, little endian) and the signal's index.
    """
    if len(run) != 38 or not run.startswith("inv_1") or not 0 <= index < 2**32:
        return ""
    low, high = _base62(run[5:16]), _base62(run[16:38])
    if low is None or high is None or low >= 2**64 or high >= 2**128:
        return ""
    data = low.to_bytes(8, "little") + high.to_bytes(16, "little") + index.to_bytes(4, "big")
    return "sign_1" + base64.urlsafe_b64encode(data).decode().rstrip("=")


def answers_of(run: str, index: int) -> dict[str, str]:
    """The id of an awakeable and the calls that answer it, at a local server's address; empty for a run id of another form."""
    ident = awakeable_id(run, index)
    if not ident:
        return {}
    call = f"curl -X POST http://localhost:8080/restate/awakeables/{ident}"
    return {
        "awakeable": ident,
        "resolve": f"{call}/resolve --json '{{\"approved\": true}}'",
        "reject": f"{call}/reject --data REASON",
    }


def _base62(digits: str) -> int | None:
    value = 0
    for c in digits:
        if c not in _BASE62:
            return None
        value = value * 62 + _BASE62[c]
    return value


def snapshots(parts: Sequence[Part]) -> dict[str, list[Snapshot]]:
    """Per run, what each export said, the older before the newer."""
    found: dict[tuple[str, str], Snapshot] = {}
    damaged = {part.path for part in parts if part.torn or part.unread}
    for part in parts:
        for row in part.rows:
            if row.table in RUN_TABLES:
                run, scope = str(row.fields["id"]), scope_of(row)
                made = found.setdefault((run, scope), Snapshot(run, scope, part.captured.get(row.scope, "")))
                made.cut = made.cut or row.path in damaged
                _add(made, row)
    facts = _deployments(parts)
    runs: dict[str, list[Snapshot]] = {}
    for snapshot in found.values():
        snapshot.deployments = facts.get(snapshot.scope) or facts.get(_folder(snapshot)) or facts.get("", {})
        snapshot.entries.sort(key=lambda e: (e.index, e.row.order))
        snapshot.events.sort(key=lambda e: (e.after, e.at or "", e.row.order))
        _index(snapshot)
        runs.setdefault(snapshot.run, []).append(snapshot)
    for said in runs.values():
        said.sort(key=_newness)
    return runs


def _newness(snapshot: Snapshot) -> tuple[float, float]:
    at, captured = moment(snapshot.as_of()), moment(snapshot.captured_at)
    return at.timestamp() if at else 0.0, captured.timestamp() if captured else 0.0


def _folder(snapshot: Snapshot) -> str:
    path = snapshot.scope.partition("#")[0]
    return f"{posixpath.dirname(path)}/" if "#" in snapshot.scope else path


def scope_of(row: Row) -> str:
    """The snapshot of a row; rows without one belong to the export that the files of their folder make."""
    return row.scope or f"{posixpath.dirname(row.path)}/"


def _add(made: Snapshot, row: Row) -> None:
    if row.table == JOURNAL:
        made.entries.append(entry_of(row))
    elif row.table == EVENTS:
        told = row.fields.get("event_json")
        made.events.append(
            Event(
                row,
                integer(row.fields, "after_journal_entry_index") or 0,
                text(row.fields, "appended_at"),
                text(row.fields, "event_type") or "",
                _told(told),
            )
        )
    elif row.table == INVOCATION and (made.invocation is None or _modified(row) >= _modified(made.invocation)):
        made.invocation = row


def _told(given: Any) -> Mapping[str, Any]:
    try:
        found = json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        return {"error_message": given}
    return found if isinstance(found, Mapping) else {}


def _modified(row: Row) -> float:
    at = moment(text(row.fields, "modified_at"))
    return at.timestamp() if at else 0.0


def _index(snapshot: Snapshot) -> None:
    """Finds the commands, their step numbers (those that are steps, counted in the order of the journal), and what answers them."""
    for entry in snapshot.entries:
        snapshot.first_hole += entry.index == snapshot.first_hole
        if entry.notification:
            if entry.completion is not None:
                snapshot.answered[entry.completion] = entry
            continue
        if snapshot.commands and snapshot.commands[-1].index == entry.index:
            continue
        snapshot.commands.append(entry)
        if entry.type in STEPS:
            snapshot.numbers[entry.index] = len(snapshot.numbers) + 1
        if entry.completion is not None:
            snapshot.by_completion.setdefault(entry.completion, entry)
        if entry.given is not None:
            snapshot.by_given.setdefault(entry.given, entry)


def _deployments(parts: Sequence[Part]) -> dict[str, dict[str, dict[str, Any]]]:
    """Scope -> deployment id -> what its rows say together; "" has those of all files."""
    made: dict[str, dict[str, dict[str, Any]]] = {}
    for part in parts:
        for row in part.rows:
            if row.table == DEPLOYMENT and isinstance(row.fields.get("id"), str):
                for scope in {scope_of(row), f"{posixpath.dirname(row.path)}/", ""}:
                    known = made.setdefault(scope, {}).setdefault(row.fields["id"], {})
                    known.update({k: v for k, v in row.fields.items() if v is not None})
    return made


def older_invocations(parts: Sequence[Part], runs: Mapping[str, Sequence[Snapshot]]) -> Iterator[tuple[str, int]]:
    """Per file, rows of sys_invocation for which a newer one of the same run and export is used."""
    used = {id(s.invocation) for found in runs.values() for s in found}
    for part in parts:
        left = sum(row.table == INVOCATION and id(row) not in used for row in part.rows)
        if left:
            yield part.path, left
