"""What a fold is told besides the entries: the head row's columns, and what an import said about the run as a whole. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from drainboard.wire import Entry

STATE_NOTE: Final = "runtime.state"


class Seen(Protocol):
    """One entry as the fold sees it; `journals.store.StoredEntry` is one."""

    @property
    def pos(self) -> int: ...  # our append order, dense from 1
    @property
    def seq(self) -> int | None: ...  # the source's position
    @property
    def number(self) -> int: ...  # how people name the entry: seq, else pos
    @property
    def recorded_at(self) -> datetime: ...  # the database's clock
    @property
    def epoch(self) -> int: ...
    @property
    def actor(self) -> str: ...
    @property
    def origin(self) -> str: ...  # worker, server, import
    @property
    def entry_id(self) -> str: ...
    @property
    def digest(self) -> bytes: ...
    @property
    def import_id(self) -> int | None: ...
    @property
    def size(self) -> int: ...  # bytes of the raw line
    @property
    def raw(self) -> bytes: ...  # the line, large values left out
    @property
    def entry(self) -> Entry: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One documented limit of a runtime."""

    what: str  # entries, bytes, steps, operations; result_bytes, message_bytes: of one value; any other is shown and not measured
    limit: int
    warn: int | None = None  # where the runtime itself begins to warn
    unit: str = ""
    source: str = ""
    as_of: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadFacts:
    """The head row, as far as it matters here. The defaults are those of an imported run."""

    pos: int = 0  # length of the journal; 0: not told
    epoch: int = 0
    lease_until: datetime | None = None
    worker: str = ""
    open_build: str = ""
    build: str = ""
    pinned_build: str = ""
    stop_name: str = ""
    stop_message: str = ""
    hold_reason: str = ""
    ended: str = ""
    parked_on: str = ""
    wake_at: datetime | None = None
    created_at: datetime | None = None
    runtime: str = ""
    limits: tuple[Limit, ...] = ()
    retirements: Mapping[str, str] = field(
        default_factory=dict
    )  # model id -> date or time, RFC 3339, from registered builds


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A step that the source calls unfinished."""

    branch: str
    step: int | None
    name: str | None
    attempt: int | None
    state: str
    last_failure: str
    last_started_at: str
    kind: str | None = None
    effect: str = ""  # read or write, where the source's mapping says it

    @property
    def doubtful(self) -> bool:
        """Whether the source only may try it again: it failed, and nothing says that this was the last try."""
        return self.state == "may_be_retried"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A step that the source calls parked."""

    branch: str
    step: int | None
    what: str  # signal:x | timer | child:x | approval:x
    until: str
    since: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Double:
    """A recorded step that the source may have executed more than once."""

    branch: str
    step: int | None
    name: str
    why: str  # recovered, resumed, forked
    other: str  # the other run of a fork
    kind: str = ""  # as in the journal; empty: not told
    effect: str = ""  # read or write, where it is known


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """A recorded step that the source would execute again when the run goes on."""

    branch: str
    step: int | None
    why: str  # older_checkpoint, checkpoint_not_saved
    origin: str  # where it would go on from


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFacts:
    """The `runtime.state` note of an import: run-level facts, one per run and import; the newest holds."""

    runtime_status: str = ""
    status: str | None = None
    complete: bool | None = None
    as_of: str = ""
    pending: tuple[Pending, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    passed: tuple[Waiting, ...] = ()  # of `waiting`: timers whose time has come since, or is not told
    recoveries: int = 0  # executions begun again, by the runtime's count
    stranded: Mapping[str, Any] | None = None
    stuck: Mapping[str, Any] | None = None
    forked_from: str = ""
    forked_to: tuple[str, ...] = ()
    doubles: tuple[Double, ...] | None = None  # None: the adapter does not look for them
    again: tuple[Again, ...] = ()
    begins: int = 0  # the first step of the main line that the export reaches back to; those before it were finished
    clock_in_order: bool = (
        False  # the source writes entries of a branch one after the other, so their times may not go back
    )
    build: str = ""
    tries_recorded: bool | None = None
    partial: str = ""  # why part of the file is missing
    torn: str = ""  # why its end is missing
    lost: str = ""  # why something in its middle is missing
    duplicates: tuple[int, ...] = ()  # numbers of entries that the file held more than once
    out: Mapping[str, Any] = field(default_factory=dict)

    @property
    def says_what_is_open(self) -> bool:
        """The source lists what is under way and what waits, so that what it does not list is neither."""
        return isinstance(self.out.get("pending"), list) and isinstance(self.out.get("waiting"), list)


def is_state_note(seen: Seen) -> bool:
    """Whether an import says something about the run as a whole here; no entry of the file."""
    return seen.entry.kind == "note" and seen.entry.name == STATE_NOTE and seen.origin == "import"


def source_facts(entries: Sequence[Seen]) -> SourceFacts | None:
    """The newest `runtime.state` note of an import, or None. Values of unexpected types count as not told.

    Newest is what the source said last (`as_of`), so that an older export imported later turns nothing back; a note that
    does not say when it was true counts as newest, and among equals the one that came last.
    """
    found = [s for s in entries if is_state_note(s)]
    if not found:
        return None
    return read_note(max(found, key=newness).entry.out)


def newness(seen: Seen) -> tuple[bool, float, int]:
    """Sorts `runtime.state` notes by when the source said it; one that does not say comes last, and equals in our order."""
    out = seen.entry.out
    said = moment(out.get("as_of")) if isinstance(out, Mapping) and isinstance(out.get("as_of"), str) else None
    return said is None, said.timestamp() if said else 0.0, seen.pos


def read_note(out: Any) -> SourceFacts:
    """The facts of one note's `out`."""
    if not isinstance(out, Mapping):
        return SourceFacts()
    loop = out.get("loop")
    partial = _text(out.get("partial")) or (_text(out.get("reason")) if out.get("complete") is False else "")

    losses = [(_text(loss.get("code")), _text(loss.get("reason"))) for loss in _objects(out.get("losses"))]
    partial = partial or "; ".join(why or code for code, why in losses)
    return SourceFacts(
        runtime_status=_text(out.get("runtime_status")),
        status=out["status"] if isinstance(out.get("status"), str) else None,
        complete=out["complete"] if isinstance(out.get("complete"), bool) else None,
        as_of=_text(out.get("as_of")),
        pending=tuple(_pending(p) for p in _objects(out.get("pending"))),
        waiting=tuple(_waiting(w) for w in _objects(out.get("waiting"))),
        recoveries=_count(loop.get("recoveries")) if isinstance(loop, Mapping) else 0,
        stranded=out["stranded"] if isinstance(out.get("stranded"), Mapping) else None,
        stuck=out["stuck"] if isinstance(out.get("stuck"), Mapping) else None,
        forked_from=_text(out.get("forked_from")),
        forked_to=tuple(t for t in _items(out.get("forks")) if isinstance(t, str)),
        doubles=tuple(_double(d) for d in _objects(out["doubles"])) if isinstance(out.get("doubles"), list) else None,
        again=tuple(_again(a) for a in _objects(out.get("again"))),
        begins=_count(out.get("begins")),
        clock_in_order=out.get("clock") == "in_order",
        build=_text(out.get("build")),
        tries_recorded=out["tries_recorded"] if isinstance(out.get("tries_recorded"), bool) else None,
        partial=partial,
        torn=next((why for code, why in losses if code != "missing_entry"), "") if losses else partial,
        lost=next((why for code, why in losses if code == "missing_entry"), ""),
        duplicates=tuple(n for n in _items(out.get("duplicates")) if isinstance(n, int) and not isinstance(n, bool)),
        out=out,
    )


def as_of_now(facts: SourceFacts | None, now: datetime) -> SourceFacts | None:
    """The facts with the timers marked that are over by now, or that do not say when they are over.

    An export was true when it was made; what its run did when the time had come is not in it. A wait for a message that has
    a time limit too is left as the source tells it: it is answered by a person, not by the clock.
    """
    if facts is None:
        return None
    return replace(facts, passed=tuple(w for w in facts.waiting if _is_over(w, now)))


def _is_over(waiting: Waiting, now: datetime) -> bool:
    until = moment(waiting.until)
    return waiting.what == "timer" and (until is None or until <= now)


def _pending(given: Mapping[str, Any]) -> Pending:
    return Pending(
        branch=_text(given.get("branch")),
        step=_count(given.get("step")) or None,
        name=given["name"] if isinstance(given.get("name"), str) else None,
        attempt=_count(given.get("attempt")) or None,
        state=_text(given.get("state")),
        last_failure=failure_text(given.get("last_failure")),
        last_started_at=_text(given.get("last_started_at")),
        kind=given["kind"] if isinstance(given.get("kind"), str) else None,
        effect=_text(given.get("effect")),
    )


def _waiting(given: Mapping[str, Any]) -> Waiting:
    return Waiting(
        branch=_text(given.get("branch")),
        step=_count(given.get("step")) or None,
        what=_text(given.get("what")),
        until=_text(given.get("until")),
        since=_text(given.get("since")),
    )


def _double(given: Mapping[str, Any]) -> Double:
    return Double(
        branch=_text(given.get("branch")),
        step=_count(given.get("step")) or None,
        name=_text(given.get("name")),
        why=_text(given.get("why")),
        other=_text(given.get("other")),
        kind=_text(given.get("kind")),
        effect=_text(given.get("effect")),
    )


def _again(given: Mapping[str, Any]) -> Again:
    return Again(
        branch=_text(given.get("branch")),
        step=_count(given.get("step")) or None,
        why=_text(given.get("why")),
        origin=_text(given.get("from")),
    )


def failure_text(given: Any) -> str:
    """`type: message` of a recorded failure, or its text; empty when there is none."""
    if isinstance(given, str):
        return given
    if isinstance(given, Mapping):
        return ": ".join(str(given[k]) for k in ("type", "message") if given.get(k))
    return ""


def moment(text: str | None) -> datetime | None:
    """An RFC 3339 time as a datetime in UTC; None for anything else. A time without a zone counts as UTC."""
    if not text:
        return None
    try:
        made = datetime.fromisoformat(text)
        return made.astimezone(UTC) if made.tzinfo else made.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def _text(given: Any) -> str:
    return given if isinstance(given, str) else ""


def _count(given: Any) -> int:
    return given if isinstance(given, int) and not isinstance(given, bool) and given > 0 else 0


def _items(given: Any) -> list[Any]:
    return given if isinstance(given, list) else []


def _objects(given: Any) -> list[Mapping[str, Any]]:
    return [g for g in _items(given) if isinstance(g, Mapping)]
