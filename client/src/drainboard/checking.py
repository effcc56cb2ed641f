"""Replays recorded journals against this build's code, with every live step refused: does the code stay on the record?

Nothing runs and nothing is sent: the first step that is not recorded ends the check of that journal.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from drainboard import errors
from drainboard.agent import Agent
from drainboard.client import Client
from drainboard.replay import Step, Wanted, compare, difference
from drainboard.run import call_agent
from drainboard.session import Session, Waiting
from drainboard.versions import Versions

__all__ = ["Checked", "check", "journals_in"]

Entry = Mapping[str, Any]


class EndOfRecord(errors.Interrupt):
    """The code asked for a step that is not in the journal."""


@dataclass(frozen=True)
class Checked:
    """How one journal went.

    `end`: `record` (clean to the end of what is recorded), `code` (the agent's code came to its own end, cleanly),
    `difference`, or `error` (the agent's code raised something of its own).
    """

    run: str
    end: str
    steps: int  # recorded steps that the code reached
    message: str = ""
    detail: Mapping[str, Any] | None = None

    @property
    def clean(self) -> bool:
        return self.end in ("record", "code")

    def as_json(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "clean": self.clean,
            "end": self.end,
            "steps": self.steps,
            "message": self.message,
            "difference": dict(self.detail) if self.detail is not None else None,
        }


def check(agent: Agent, entries: Iterable[Entry], *, build: str, shape_only: bool = False) -> Checked:
    """Replays one run's journal. `shape_only` leaves every `in` out and compares kinds, names, numbers and keys.

    Raises `ValueError` when the entries are not one native run's journal from its start.
    """
    session = _Playback(list(entries), build=build, versions=agent.versions, shape_only=shape_only)
    try:
        call_agent(agent.fn, session, is_async=agent.is_async)
        if session.fatal is None:
            session.agree_on_end()
    except errors.NonDeterministicReplay:
        pass  # it stands in `fatal`, as it does when the agent's code swallows it
    except errors.Interrupt:
        return session.checked("record") if session.fatal is None else session.differs()
    except Exception as e:  # noqa: BLE001  whatever the agent's code raises is the answer
        if session.fatal is None:
            return session.checked("error", f"{type(e).__name__}: {e}")
    return session.checked("code") if session.fatal is None else session.differs()


class _Playback(Session):
    """A run as its journal left it; whatever would add to the journal ends the check."""

    def __init__(self, entries: list[Entry], *, build: str, versions: Versions, shape_only: bool) -> None:
        first = entries[0] if entries else {}
        if first.get("kind") != "run.started":
            raise ValueError("a journal to check begins with its `run.started` entry")
        numbered = [e if "seq" in e else {**e, "seq": n} for n, e in enumerate(entries, 1)]
        opened = {
            "key": "",
            "run": first["run"],
            "agent": first.get("agent", ""),
            "environment": first.get("environment", ""),
            "epoch": 0,
            "in": first.get("in"),
            "entries": numbered,
        }
        super().__init__(Client("http://replay.invalid", "none"), opened, build=build, versions=versions)
        self._shape_only = shape_only
        self.reached = 0

    def checked(self, end: str, message: str = "", detail: Mapping[str, Any] | None = None) -> Checked:
        """The answer for this journal."""
        return Checked(self.run, end, self.reached, message, detail)

    def differs(self) -> Checked:
        """The answer when the code left the record."""
        if isinstance(self.fatal, errors.NonDeterministicReplay):
            return self.checked("difference", str(self.fatal), self.fatal.detail)
        return self.checked("error", f"{type(self.fatal).__name__}: {self.fatal}")

    def agree(self, rec: Step | None, want: Wanted) -> None:
        if rec is not None and rec.asked is not None:
            self.reached += 1
            if self._shape_only:
                found = [f for f in compare(rec, want, relaxed=False) if f not in ("in", "request")]
                if found:
                    self.fail(errors.NonDeterministicReplay(*difference(rec, want, found)))
                return
        super().agree(rec, want)

    def ready(self) -> None:
        self.ready_to_replay()
        self._end()

    def later(self, fields: Mapping[str, Any], *, droppable: bool) -> Waiting:
        if fields["kind"] in ("note", "version.marker"):
            return Waiting(b"", "", 0, droppable)
        self._end()

    def append(self, fields: Mapping[str, Any], *, seen: int | None = None, closing: bool = False) -> None:
        self._end()

    def refresh(self) -> None:
        self._end()

    def locked(self, call: Callable[[], Any]) -> Any:
        self._end()

    def _end(self) -> NoReturn:
        raise EndOfRecord("the record ends here")


def journals_in(lines: Iterable[str]) -> Iterator[list[Entry]]:
    """The journals in exported lines, one list per run, in order of first appearance. Raises `ValueError` for a bad line."""
    found: dict[str, list[Entry]] = {}
    for n, line in enumerate(lines, 1):
        if line.strip():
            try:
                entry = json.loads(line)
                found.setdefault(entry["run"], []).append(entry)
            except (ValueError, KeyError, TypeError) as e:
                raise ValueError(f"line {n} is no journal line: {e}") from None
    return iter(found.values())
