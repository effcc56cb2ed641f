"""Steps that call no function: recorded values, timers, signals, version markers, and the opening of branches."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from drainboard import errors
from drainboard.replay import Step, Wanted
from drainboard.steps import Block, Branch, Fork, Outcome, Steps
from drainboard.values import parse_time, plain, record, rfc3339, utc_now

__all__ = ["now", "parallel", "random_number", "signal", "sleep_until", "unique_id", "version"]

_SHORT = timedelta(seconds=2)  # a sleep that is not worth giving the lease back


def now(branch: Branch) -> Steps:
    """The clock, read once; an aware datetime."""
    text = yield from _value(branch, "now", lambda: rfc3339(utc_now()))
    return parse_time(text)


def unique_id(branch: Branch) -> Steps:
    """A random UUID as text, drawn once."""
    return (yield from _value(branch, "uuid", lambda: str(uuid.uuid4())))


def random_number(branch: Branch) -> Steps:
    """A random float from 0 to below 1, drawn once."""
    return (yield from _value(branch, "random", random.random))


def _value(branch: Branch, name: str, make: Callable[[], Any]) -> Steps:
    with branch.numbered(name) as step:
        rec = _agreed(branch, step, "value", name)
        if rec is not None and rec.result is not None:
            return record(rec.result.get("out"))
        branch.session.ready()
        out = plain(make())
        fields = {"kind": "value.result", "name": name, **branch.place(step), "out": out}
        yield Block(lambda: branch.session.append(fields))
        return out


def sleep_until(branch: Branch, when: datetime) -> Steps:
    """Back when the server's clock has passed `when`. Longer sleeps park the run and cost no worker."""
    until = rfc3339(when)
    session = branch.session
    with branch.numbered("sleep_until") as step:
        rec = _agreed(branch, step, "timer", "sleep_until", until)
        if rec is not None and rec.result is not None:
            return
        session.ready()
        fields = {"name": "sleep_until", **branch.place(step), "until": until}
        if rec is None:
            yield Block(lambda: session.append({"kind": "timer.started", **fields}))
        left = when - session.now()
        if left > _SHORT:
            raise errors.Parked("timer", until=until)
        if left > timedelta():
            yield Block(lambda: session.pause(left.total_seconds()))
        yield Block(lambda: session.append({"kind": "timer.fired", **fields}))


def signal(branch: Branch, name: str) -> Steps:
    """The value of the next signal of this name that no step has taken; parks the run until there is one."""
    session = branch.session
    with branch.numbered(f"signal {name}") as step:
        rec = _agreed(branch, step, "value", f"signal:{name}")
        if rec is not None and rec.result is not None:
            return record(rec.result.get("out"))
        session.ready()
        found = session.take_signal(name)
        if found is None:
            yield Block(session.refresh)
            found = session.take_signal(name)
        if found is None:
            raise errors.Parked(f"signal:{name}")
        out = record(found.get("out"))
        fields = {
            "kind": "value.result",
            "name": f"signal:{name}",
            **branch.place(step),
            "consumes": found["seq"],
            "out": out,
        }
        yield Block(lambda: session.append(fields))
        return out


def version(branch: Branch, change: str, lowest: int, highest: int) -> int:
    """Which form of a change this run follows; takes no step number and is recorded once per change id.

    New to the run: `lowest` when later steps of this branch are recorded already, else `highest`. Raises `UnsupportedVersion`.
    """
    if lowest > highest:
        raise errors.MisusedRun(f"run.version({change!r}, {lowest}, {highest}): the lowest comes first")
    session = branch.session
    session.ready_to_replay()
    answer: Any
    with session.markers_lock:
        entry = session.recorded.markers.get(change)
        if entry is None:
            answer = lowest if session.recorded.last_step(branch.path) > branch.count else highest
            fields: dict[str, Any] = {"kind": "version.marker", "name": change, "out": answer}
            if branch.path:
                fields["branch"] = branch.path
            session.later(fields, droppable=False)
            session.recorded.markers[change] = fields
        else:
            answer = entry.get("out")
    if not isinstance(answer, int) or not lowest <= answer <= highest:
        raise errors.UnsupportedVersion(
            f"the run recorded {answer!r} for change {change!r}; this build supports {lowest} to {highest}"
        )
    return answer


def parallel(branch: Branch, fns: Sequence[Callable[[Any], Any]], limit: int | None) -> Steps:
    """Runs each function in a branch of its own; the results in branch order.

    Every branch is let to its end first. Then what ended the session is raised, else a clean stop, else a wait, else the
    first failure in branch order, so that the answer never depends on which branch was quicker.
    """
    session = branch.session
    with branch.numbered("parallel") as step:
        asked = {"branches": len(fns)}
        rec = _agreed(branch, step, "parallel", "parallel", asked)
        if rec is None:
            session.ready()
            session.later(
                {"kind": "parallel.started", "name": "parallel", **branch.place(step), "in": asked}, droppable=False
            )
        prefix = f"{branch.path}." if branch.path else ""
        branches = [Branch(session, f"{prefix}{step}.{i}") for i in range(1, len(fns) + 1)]
        outcomes: Sequence[Outcome] = yield Fork(branches, fns, limit or len(fns))
        _raise_first(branch, [o.error for o in outcomes if o.error is not None])
        return [o.value for o in outcomes]


def _raise_first(branch: Branch, found: Sequence[BaseException]) -> None:
    if branch.session.fatal is not None:
        raise branch.session.fatal
    order = (_is_foreign, lambda e: isinstance(e, errors.Refused), lambda e: isinstance(e, errors.Released))
    for first in (e for is_first in order for e in found if is_first(e)):
        raise first
    parked = [e for e in found if isinstance(e, errors.Parked)]
    if parked:
        parked[0].waits = [w for e in parked for w in e.waits]
        raise parked[0]
    if found:
        raise found[0]


def _is_foreign(error: BaseException) -> bool:
    """KeyboardInterrupt and the like."""
    return not isinstance(error, (Exception, errors.Interrupt))


def _agreed(branch: Branch, step: int, kind: str, name: str, in_: Any = None) -> Step | None:
    want = Wanted(kind=kind, name=name, branch=branch.path, step=step, in_=in_)
    rec = branch.session.recorded.visit(branch.path, step)
    branch.session.agree(rec, want)
    return rec
