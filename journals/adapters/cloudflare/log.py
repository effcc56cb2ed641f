"""The event log of wrangler's local engine (table `states` of an instance's Durable Object) as a `View`.

The API answers from this log, so both give the same facts; only the log has the rows of `Extra`, sleep times and rollbacks.
Row ids are given again after a restart, so they order the rows and identify none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from drainboard import wire

from journals.adapters.cloudflare.answer import number
from journals.adapters.cloudflare.model import Attempt, Extra, Step, View, instant
from journals.adapters.values import integer, text, utc

EVENTS: Final = (
    "WORKFLOW_QUEUED",
    "WORKFLOW_START",
    "WORKFLOW_SUCCESS",
    "WORKFLOW_FAILURE",
    "WORKFLOW_TERMINATED",
    "STEP_START",
    "STEP_SUCCESS",
    "STEP_FAILURE",
    "SLEEP_START",
    "SLEEP_COMPLETE",
    "ATTEMPT_START",
    "ATTEMPT_SUCCESS",
    "ATTEMPT_FAILURE",
    "__INTERNAL_PROD",
    "WAIT_START",
    "WAIT_COMPLETE",
    "WAIT_TIMED_OUT",
    "ROLLBACK_START",
    "ROLLBACK_STEP_START",
    "ROLLBACK_ATTEMPT_START",
    "ROLLBACK_ATTEMPT_SUCCESS",
    "ROLLBACK_ATTEMPT_FAILURE",
    "ROLLBACK_STEP_SUCCESS",
    "ROLLBACK_STEP_FAILURE",
    "ROLLBACK_COMPLETE",
    "ROLLBACK_FAILED",
    "WORKFLOW_RUNNING",
    "WORKFLOW_PAUSED",
    "WORKFLOW_WAITING_FOR_PAUSE",
    "WORKFLOW_WAITING",
)
"""By number, as wrangler 4.164.0 has them."""

_STATUS: Final = {
    "WORKFLOW_QUEUED": "queued",
    "WORKFLOW_START": "running",
    "WORKFLOW_SUCCESS": "complete",
    "WORKFLOW_FAILURE": "errored",
    "WORKFLOW_TERMINATED": "terminated",
    "WORKFLOW_RUNNING": "running",
    "WORKFLOW_PAUSED": "paused",
    "WORKFLOW_WAITING_FOR_PAUSE": "waitingForPause",
    "WORKFLOW_WAITING": "waiting",
    "ROLLBACK_START": "rollingBack",
}
_TOLD: Final = {
    "WORKFLOW_QUEUED": frozenset(("params", "versionId")),
    "WORKFLOW_SUCCESS": frozenset(("result",)),
    "WORKFLOW_FAILURE": frozenset(("error",)),
    "STEP_START": frozenset(("config",)),
    "STEP_SUCCESS": frozenset(("result",)),
    "ATTEMPT_START": frozenset(("attempt",)),
    "ATTEMPT_SUCCESS": frozenset(("attempt",)),
    "ATTEMPT_FAILURE": frozenset(("attempt", "error")),
    "WAIT_COMPLETE": frozenset(("payload", "type", "timestamp")),
    "WAIT_TIMED_OUT": frozenset(("name", "message", "isUserError")),
    "ROLLBACK_STEP_START": frozenset(("config",)),
    "ROLLBACK_ATTEMPT_START": frozenset(("attempt",)),
    "ROLLBACK_ATTEMPT_SUCCESS": frozenset(("attempt",)),
    "ROLLBACK_ATTEMPT_FAILURE": frozenset(("attempt", "error")),
}
"""Members of a row's metadata that the lines of steps and runs hold; what is beyond them becomes a note of its own."""

_OWN: Final = frozenset(
    (*(name for name in EVENTS if name.startswith("WORKFLOW_") and name not in _TOLD), "ROLLBACK_START",
     "ROLLBACK_COMPLETE",
     "ROLLBACK_FAILED")
) - {"WORKFLOW_START"}  # fmt: skip
"""Events that are always a note: the answer of the API has none of them."""

_TYPES: Final = {"STEP": "step", "ATTEMPT": "step", "SLEEP": "sleep", "WAIT": "waitForEvent", "ROLLBACK": "rollback"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRow:
    """One row of `states`. `metadata` is decoded."""

    id: int
    event: str
    at: str | None
    target: str | None
    group: str | None
    metadata: Mapping[str, Any]
    record: str
    oddities: tuple[str, ...] = ()


def is_row(fields: Any) -> bool:
    """Whether an object is a row of `states`."""
    return isinstance(fields, Mapping) and {"id", "event", "metadata"} <= fields.keys()


def follows(fields: Any, last: int) -> bool | None:
    """Whether an object is a later row of the log whose newest row is `last`; None for a row of another log."""
    if not is_row(fields):
        return False
    return True if (integer(fields, "id") or 0) > last and integer(fields, "event") != 0 else None


def row_of(fields: Mapping[str, Any], record: str) -> LogRow | str:
    """The row, or why it is none."""
    number_ = integer(fields, "id")
    event = integer(fields, "event")
    if number_ is None or number_ < 1:
        return "a row of states without a number"
    if event is None or event < 0:
        return "a row of states without an event"
    metadata, odd = _metadata(fields.get("metadata"))
    if metadata is None:
        return "the metadata of the row is damaged"
    return LogRow(
        id=number_,
        event=EVENTS[event] if event < len(EVENTS) else f"EVENT_{event}",
        at=instant(fields.get("timestamp")),
        target=text(fields, "target"),
        group=text(fields, "groupKey"),
        metadata=metadata,
        record=record,
        oddities=odd,
    )


def _metadata(given: Any) -> tuple[Mapping[str, Any] | None, tuple[str, ...]]:
    if given is None:
        return {}, ()
    if isinstance(given, str):
        try:
            given, odd = wire.decode(given.encode("utf-8", "surrogatepass"))
        except wire.MalformedLine:
            return None, ()
        if given is wire.MISSING:
            return {"metadata": "nested too deeply to unfold"}, odd
        return (given, odd) if isinstance(given, Mapping) else (None, ())
    return (given, ()) if isinstance(given, Mapping) else (None, ())


def log(rows: Sequence[LogRow], path: str, record: str) -> View:
    """The instance that its log shows. Of rows with one number the first counts; the others are named as lost."""
    made = _Made(View(form="log", path=path, record=record))
    for row in sorted(rows, key=lambda row: row.id):
        made.take(row)
    number([step for step in made.view.steps if step.type != "rollback"])
    number([step for step in made.view.steps if step.type == "rollback"])
    _gaps(made.view, [row for row in sorted(rows, key=lambda row: row.id)])
    return made.view


class _Made:
    """A view while its rows are taken."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.steps: dict[tuple[str, str], Step] = {}
        self.status: str = ""

    def take(self, row: LogRow) -> None:
        view = self.view
        view.status = _STATUS.get(row.event, view.status)
        view.oddities += row.oddities
        view.bad_times += row.at is None
        head, _, what = row.event.removeprefix("ROLLBACK_").partition("_")
        rollback = row.event.startswith("ROLLBACK_")
        step: Step | None = None
        if row.target is not None and (head in _TYPES):
            kind = "rollback" if rollback else _TYPES[head]
            step = self._step(kind, row)
            if head == "ATTEMPT":
                _attempt(step, what, row)
            elif row.event == "WAIT_TIMED_OUT":
                step.done, step.end, step.error = True, row.at, {"message": "", **row.metadata}
            else:
                _mark(step, what, row)
        elif row.event.startswith("WORKFLOW_"):
            _workflow(view, row)
        self._rest(row, step)
        self._until(row, step)

    def _step(self, kind: str, row: LogRow) -> Step:
        name = row.target or ""
        step = self.steps.get((kind, name))
        if step is None:
            step = self.steps[kind, name] = Step(type=kind, name=name, record=row.record)
            self.view.steps.append(step)
        return step

    def _rest(self, row: LogRow, step: Step | None) -> None:
        """What of the row no line of a step or of the run holds."""
        told = _TOLD.get(row.event, frozenset())
        rest = {k: v for k, v in row.metadata.items() if k not in told}
        unplaced = step is None and not row.event.startswith("WORKFLOW_")
        if rest or row.event in _OWN or row.event not in EVENTS or unplaced:
            until = _later(row.at, rest.get("durationMs", rest.get("retryDelayMs")))
            self.view.extras.append(
                Extra(
                    id=f"{row.event}:{row.target or ''}@{row.at or row.id}",
                    name=row.event,
                    record=row.record,
                    at=row.at,
                    out=rest or None,
                    step=step,
                    until=until,
                )
            )

    def _until(self, row: LogRow, step: Step | None) -> None:
        if step is None:
            return
        if row.event == "WAIT_START" and (event := text(row.metadata, "event")):
            self.view.events[step.name] = event
        until = _later(row.at, row.metadata.get("durationMs", row.metadata.get("retryDelayMs")))
        if until is not None:
            self.view.until[step.name] = until
        elif row.event == "ATTEMPT_START":
            self.view.until.pop(step.name, None)


def _attempt(step: Step, what: str, row: LogRow) -> None:
    at = integer(row.metadata, "attempt") or len(step.attempts) + (what == "START")
    if what == "START":
        while len(step.attempts) < at - 1:  # rows that are not here
            step.attempts.append(Attempt())
        step.attempts.append(Attempt(start=row.at))
        step.start = step.start or row.at
        return
    while len(step.attempts) < at:
        step.attempts.append(Attempt())
    attempt = step.attempts[at - 1]
    attempt.end, attempt.success = row.at, what == "SUCCESS"
    attempt.error = row.metadata.get("error")


def _mark(step: Step, what: str, row: LogRow) -> None:
    """START, SUCCESS, FAILURE of a step, COMPLETE of a sleep or wait."""
    if what == "START":
        step.start = row.at
        step.config = row.metadata.get("config")
        return
    step.end, step.done = row.at, what in ("SUCCESS", "COMPLETE")
    if step.type == "waitForEvent":
        step.output = dict(row.metadata)
    elif what == "SUCCESS":
        step.output = row.metadata.get("result", wire.MISSING)


def _workflow(view: View, row: LogRow) -> None:
    if row.event == "WORKFLOW_QUEUED":
        view.queued = row.at
        view.params = row.metadata.get("params", wire.MISSING)
        view.version = text(row.metadata, "versionId")
    elif row.event == "WORKFLOW_START":
        view.start = row.at
    elif row.event in ("WORKFLOW_SUCCESS", "WORKFLOW_FAILURE", "WORKFLOW_TERMINATED"):
        view.end = row.at
        view.output = row.metadata.get("result")
        view.error = row.metadata.get("error")


def _later(at: str | None, ms: Any) -> str | None:
    """A time so many milliseconds after another one; of times in UTC with a Z only."""
    milliseconds = integer({"ms": ms}, "ms")
    if at is None or milliseconds is None or not at.endswith("Z") or not 0 <= milliseconds < 10**12:
        return None
    try:
        moment = datetime.fromisoformat(at) + timedelta(milliseconds=milliseconds)
    except (ValueError, OverflowError):
        return None
    return utc(int((moment - datetime.fromisoformat("1970-01-01T00:00:00Z")) / timedelta(milliseconds=1)))


def _gaps(view: View, rows: Sequence[LogRow]) -> None:
    """Rows that are not here. A restart from a step deletes the rows of that step and of later ones, and every row of the
    instance itself but QUEUED and START: then the first row of the instance after those two stands behind a hole."""
    numbers = [row.id for row in rows]
    missing = [(a + 1, b - 1) for a, b in zip([0, *numbers], numbers, strict=False) if b - a > 1]
    if not missing:
        return
    running = next((row for row in rows if row.event == "WORKFLOW_RUNNING"), None)
    own = [row for row in rows if row.group is None and row.event not in ("WORKFLOW_QUEUED", "WORKFLOW_START")]
    before = [row for row in own if row.id < missing[-1][1]]
    if running is not None and not before and missing[0][0] > 2:
        view.rewound = running.at or ""
        return
    holes = ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in missing[:20])
    view.lost = view.lost or f"rows {holes} of states are not here"


_ID: Final = re.compile(rb'instanceo"\x02id"([\x01-\x64])([A-Za-z0-9_][A-Za-z0-9_-]{0,99})')


def instance_in(blob: Any) -> str:
    """The instance id that stands in the engine's closed INSTANCE_METADATA value; empty when none does. Only these letters
    are looked at; the value (V8's own format) stays closed."""
    found = _ID.search(blob[:2_000]) if isinstance(blob, bytes) else None
    return found[2][: found[1][0]].decode("ascii") if found and len(found[2]) >= found[1][0] else ""


def queue_times(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """When sleeps and waits are over: the engine's queue, by the group key of their step."""
    made: dict[str, str] = {}
    for row in rows:
        key, until = text(row, "hash"), utc(integer(row, "target_timestamp"))
        if key is None or until is None:
            continue
        if integer(row, "action") == 1:
            made[key] = until
        else:
            made.pop(key, None)
    return made
