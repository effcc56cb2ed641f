"""One opened run from its first line to whatever ends or interrupts it, and what the server is then told."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from drainboard import errors
from drainboard.agent import Agent
from drainboard.run import call_agent
from drainboard.session import Session
from drainboard.values import plain, rfc3339

__all__ = ["Outcome", "execute"]

_LOOK_AGAIN_S, _LOOK_AGAIN_MOST_S = 15, 3600
log = logging.getLogger("drainboard")


@dataclass(frozen=True)
class Outcome:
    """What became of a run in this worker's hands.

    `status`: completed, failed, parked, held, stopped, released (to another worker), or left (lease lost, journal unavailable, ended elsewhere).
    """

    run: str
    key: str
    status: str
    reason: str = ""
    result: Any = None

    def as_json(self) -> dict[str, Any]:
        return {"run": self.run, "key": self.key, "status": self.status, "reason": self.reason, "result": self.result}


def execute(agent: Agent, session: Session) -> Outcome:
    """Runs the agent's code against the session and tells the server how it went. Raises nothing of the agent's own."""
    try:
        ending = _run(agent, session)
        return ending(session)
    except errors.DrainboardError as e:
        log.warning("run %s: %s", session.run, e)
        return _outcome(session, "left", f"{type(e).__name__}: {e}")


Ending = Callable[[Session], Outcome]


def _run(agent: Agent, session: Session) -> Ending:
    try:
        session.load()
        result = plain(call_agent(agent.fn, session, is_async=agent.is_async))
        session.agree_on_end()
    except (errors.Parked, errors.Released) as e:
        return _refused(session.fatal) if session.fatal else _parked(e) if isinstance(e, errors.Parked) else _released
    except Exception as e:  # noqa: BLE001  whatever the agent's code raises ends its run, by name
        return _refused(session.fatal or e)
    if session.fatal is not None:  # the agent's code caught it and went on
        return _refused(session.fatal)
    if isinstance(session.gate, errors.RunStopped):
        return _refused(session.gate)
    return lambda s: _end(s, {"kind": "run.completed", "out": result}, "completed", result=result)


def _refused(error: BaseException) -> Ending:
    """What the server is told when a run cannot go on for this reason."""
    if isinstance(error, errors.RunStopped):
        return lambda s: _stopped(s, error)
    if isinstance(error, errors.NonDeterministicReplay):
        return lambda s: _held(s, "NonDeterministicReplay", str(error), error.detail)
    if isinstance(error, (errors.ApprovalRequired, errors.ApprovalMismatch)):
        return lambda s: _held(s, error.refusal, str(error), error.detail)
    if isinstance(error, (errors.RunHeld, errors.PinnedToBuild)):
        return lambda s: _let_go(s, "left", f"{error.refusal}: {error}")
    if isinstance(error, (errors.JournalUnavailable, errors.LeaseLost, errors.RunEnded)):
        return lambda s: _outcome(s, "left", f"{type(error).__name__}: {error}")
    told = {"type": type(error).__name__, "message": str(error)}
    return lambda s: _failed(s, told)


def _failed(session: Session, told: dict[str, Any]) -> Outcome:
    session.fatal = None  # the failure is the run's own; its record is still ours to write
    return _end(session, {"kind": "run.failed", "error": told}, "failed", f"{told['type']}: {told['message']}")


def _end(session: Session, fields: Mapping[str, Any], status: str, reason: str = "", result: Any = None) -> Outcome:
    try:
        session.append(fields)
    except errors.RunStopped as e:
        return _stopped(session, e)
    except errors.TooLarge as e:
        session.fatal = None
        told = {"type": "TooLarge", "message": str(e)}
        session.append({"kind": "run.failed", "error": told})
        return _outcome(session, "failed", f"TooLarge: {e}")
    return _outcome(session, status, reason, result)


def _parked(parked: errors.Parked) -> Ending:
    def ending(session: Session) -> Outcome:
        fields = _parking(parked, session)
        try:
            session.append(fields, seen=session.recorded.seen)
        except errors.RunStopped as e:
            return _stopped(session, e)
        return _outcome(session, "parked", ", ".join([fields["reason"], *fields.get("also", ())]))

    return ending


def _parking(parked: errors.Parked, session: Session) -> dict[str, Any]:
    """The `run.parked` entry.

    The server wakes a run for its first reason only, so one with several is also looked at again, ever more rarely.
    """
    reasons = list(dict.fromkeys(reason for reason, _ in parked.waits))
    untils = [until for _, until in parked.waits if until is not None]
    fields: dict[str, Any] = {"kind": "run.parked", "reason": reasons[0]}
    if len(reasons) > 1:
        fields["also"] = reasons[1:]
        before = sum(
            1 for e in session.recorded.parked if e.get("also") == fields["also"] and e.get("reason") == reasons[0]
        )
        untils.append(rfc3339(session.now() + timedelta(seconds=min(_LOOK_AGAIN_S * 2**before, _LOOK_AGAIN_MOST_S))))
    if untils:
        fields["until"] = min(untils)
    return fields


def _released(session: Session) -> Outcome:
    session.flush()
    return _let_go(session, "released", "")


def _let_go(session: Session, status: str, reason: str) -> Outcome:
    session.client.run_call(session.key, "/release", {"epoch": session.epoch})
    return _outcome(session, status, reason)


def _stopped(session: Session, error: errors.RunStopped) -> Outcome:
    session.client.run_call(session.key, "/stopped", {"epoch": session.epoch})
    return _outcome(session, "stopped", str(error))


def _held(session: Session, reason: str, message: str, detail: Mapping[str, Any]) -> Outcome:
    body = {"epoch": session.epoch, "reason": reason, "detail": {"message": message, **detail}}
    session.client.run_call(session.key, "/held", body)
    return _outcome(session, "held", f"{reason}: {message}")


def _outcome(session: Session, status: str, reason: str = "", result: Any = None) -> Outcome:
    log.info("run %s: %s %s", session.run, status, reason)
    return Outcome(session.run, session.key, status, reason, result)
