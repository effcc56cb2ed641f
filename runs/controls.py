"""What a decision about a run of another runtime needs to come true: that runtime's own commands, and whether they were run.

Drainboard records such a decision and carries nothing out; only a later import says what became of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from drainboard import wire

from journals import store
from journals.adapters import ADAPTERS
from journals.adapters.base import AdapterInfo
from journals.adapters.controls import values_of
from journals.adapters.replies import Answer
from runs.models import Run

LOOKED_AT: Final = 200  # of a run's last entries
_ASKS: Final = {"stop.requested": "stop", "deploy.pinned": "pin", "deploy.continued": "move"}
_WORDS: Final = {"stop": "Stop asked", "pin": "Pin asked", "move": "Move asked"}


@dataclass(frozen=True, slots=True)
class Command:
    """A line to type, and what it does."""

    does: str
    line: str


@dataclass(frozen=True, slots=True)
class Asked:
    """The decision about a run of another runtime that no import has shown to be carried out."""

    action: str
    title: str
    text: str
    number: int  # its entry
    commands: Sequence[Command]


def title(runtime: str) -> str:
    """What people call the runtime."""
    return title_or_none(runtime) or "the runtime that it came from"


def title_or_none(runtime: str) -> str:
    """What people call a runtime of which commands are known; empty for another."""
    found = _info(runtime)
    return found.title if found and found.controls else ""


def commands(
    runtime: str,
    run: str,
    *,
    action: str,
    build: str = "",
    reason: str = "",
    deployment: str = "",
    awakeable: str = "",
) -> list[Command]:
    """The runtime's commands for an action on one run; none where its adapter knows none."""
    info = _info(runtime)
    if info is None:
        return []
    values = values_of(
        run,
        separator=info.chain_separator,
        build=build,
        reason=reason,
        deployment=deployment,
        awakeable=awakeable,
    )
    return [Command(c.does, c.command(values)) for c in info.controls if c.action == action]


def for_head(head: store.HeadRow, *, action: str, build: str = "", reason: str = "") -> list[Command]:
    """The commands for a run, with what its last import told about its deployment."""
    told = _told(_last_entries(head))
    known = {name: str(told.get(name) or "") for name in ("deployment", "awakeable")}
    return commands(head.runtime, head.run, action=action, build=build, reason=reason, **known)


def builds(head: store.HeadRow) -> list[str]:
    """Builds or deployments that the run's last import named: the one that it is on, then others that tried it."""
    told = _told(_last_entries(head))
    stuck = told.get("stuck")
    tried = stuck.get("build") if isinstance(stuck, Mapping) else None
    named = (*(told.get(name) for name in ("build", "pinned_to", "tried_by")), tried)
    return list(dict.fromkeys(b for b in named if isinstance(b, str) and b))


@dataclass(frozen=True, slots=True)
class Told:
    """What tells the runtime one decision, or those that it takes together."""

    about: tuple[str, ...]  # approvals
    missing: tuple[str, ...]  # approvals that must be decided first
    commands: Sequence[Command]  # none where its adapter knows none


def replies(head: store.HeadRow, answers: Sequence[Answer]) -> list[Told]:
    """The calls that tell a run's runtime what was decided about its requests (all of them, in the order in which they were asked)."""
    info = _info(head.runtime)
    if info is None:
        return [Told((a.approval,), (), ()) for a in answers if a.decision]
    base = {**values_of(head.run, separator=info.chain_separator), "event": "EVENT"}
    made = []
    for reply in info.replies(answers):
        known = [c for c in info.controls if c.action == reply.action and (not c.needs or c.needs in reply.values)]
        values = {**base, **reply.values}
        lines = () if reply.missing else tuple(Command(c.does, c.command(values)) for c in known)
        made.append(Told(reply.about, reply.missing, lines))
    return made


def asked(run: Run) -> Asked | None:
    """What was decided about a foreign run in flight and stands in no import since; a stop goes before a pin or a move."""
    if run.native or not run.in_flight:
        return None
    head = store.head(run.head_id)
    entries = _last_entries(head)
    made = [e for e in entries if e.origin == "server" and (e.kind in _ASKS or e.kind == "deploy.unpinned")]
    stops = [e for e in made if e.kind == "stop.requested"]
    last = stops[-1] if stops else made[-1] if made else None
    if last is None or last.kind == "deploy.unpinned":
        return None
    entry, action = last.entry, _ASKS[last.kind]
    before = made[-2].entry if action == "pin" and len(made) > 1 else None
    if before is not None and (before.kind, before.build) == ("deploy.continued", entry.build):
        action = "move"  # which writes both
    told = _told([e for e in entries if e.pos > last.pos])
    if action != "stop" and entry.build and entry.build in (told.get("pinned_to"), told.get("build")):
        return None
    lines = for_head(head, action=action, build=entry.build or "", reason=entry.reason or "")
    message = entry.extra.get("message")
    said = ": ".join(part for part in (entry.reason, message if isinstance(message, str) else "") if part)
    to = f" on build {entry.build}" if action != "stop" and entry.build else ""
    return Asked(
        action=action,
        title=f"{_WORDS[action]}{to}, not carried out by its runtime",
        text=f"{said} (by {entry.by}). Drainboard has only recorded this; a later import shows what became of it.",
        number=last.number,
        commands=lines,
    )


def _info(runtime: str) -> AdapterInfo | None:
    adapter = ADAPTERS.get(runtime)
    return adapter.INFO if adapter else None


def _last_entries(head: store.HeadRow) -> list[store.StoredEntry]:
    return list(store.read(head.id, after=max(head.pos - LOOKED_AT, 0)))


def _told(entries: Sequence[store.StoredEntry]) -> Mapping[str, Any]:
    """What the last import among these entries said about the run as a whole."""
    for stored in reversed(entries):
        if stored.kind == "note" and stored.origin != "server" and stored.entry.name == "runtime.state":
            out = stored.entry.out
            return out if out is not wire.MISSING and isinstance(out, Mapping) else {}
    return {}
