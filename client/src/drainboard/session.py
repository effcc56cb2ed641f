"""One opened run: its epoch, its lease, what is still to be sent, and whether it may go on.

Order is kept by one lock per run: everything that waits to be sent goes ahead of what is sent now. A start of a read
waits for its result or, at the latest, for the next beat of the heart, so that a quick read costs one request.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NoReturn

from drainboard import errors, wire
from drainboard.client import Client
from drainboard.replay import Recorded, Step, Wanted, compare, difference
from drainboard.values import parse_time, rfc3339, utc_now
from drainboard.versions import Versions

__all__ = ["MODES", "Session", "Waiting", "lease_clock"]

MODES = ("hold", "warn")
_MARGIN = 0.2  # of a lease; no write starts when less is left
_OPENED_PAGE = 1000  # entries that the server puts into its answer to an open
_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_GATES = (errors.RunStopped, errors.RunHeld, errors.PinnedToBuild)
_LOST = (errors.LeaseLost, errors.RunEnded)


def lease_clock() -> float:
    """Seconds that also run while the machine sleeps, where the system has such a clock; never set back."""
    return time.clock_gettime(_CLOCK) if _CLOCK is not None else time.monotonic()


_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", None)


@dataclass(eq=False)
class Waiting:
    """A line that is to be sent with the next request or the next beat."""

    line: bytes
    branch: str
    step: int
    droppable: bool  # a read's start: its result says it all


class Session:
    """A run under this worker's epoch. Steps of many threads may use it at once."""

    def __init__(
        self,
        client: Client,
        opened: Mapping[str, Any],
        *,
        build: str,
        versions: Versions,
        mode: str = "hold",
        asked_at: float | None = None,
        margin_s: float | None = None,
    ) -> None:
        if mode not in MODES:
            raise ValueError(f"mode {mode!r} is none of {', '.join(MODES)}")
        self.client, self.build, self.versions, self.mode = client, build, versions, mode
        self.key, self.run = str(opened["key"]), str(opened["run"])
        self.agent, self.environment = str(opened["agent"]), str(opened["environment"])
        self.epoch = int(opened["epoch"])
        self.task: Any = opened.get("in")
        self.policies: Mapping[str, int] = opened.get("policies") or {}
        self.lease_s = float(opened.get("lease_s") or 30)
        self.margin_s = self.lease_s * _MARGIN if margin_s is None else margin_s
        self._lease_end = (lease_clock() if asked_at is None else asked_at) + self.lease_s
        self.recorded = Recorded(opened.get("entries") or ())
        self._complete = opened.get("next") is None
        self._ahead = _server_ahead(opened.get("entries") or ())
        self.fatal: BaseException | None = None  # why no step may run any more
        self.gate: errors.Refused | None = None  # a stop or hold: no new step, results still go in
        self.releasing = threading.Event()
        self.markers_lock = threading.Lock()
        self._sending = threading.Lock()
        self._guard = threading.Lock()
        self._waiting: list[Waiting] = []
        self._ids = 0
        stop = opened.get("stop")
        if stop:
            self.gate = errors.RunStopped(str(stop.get("message", "")), detail=stop)

    def load(self) -> None:
        """Reads the rest of a journal that was too long for the answer to the open."""
        if not self._complete:
            for entry in self.client.entries(self.key, after=self.recorded.seen, limit=_OPENED_PAGE):
                self.recorded.add(entry)
            self._complete = True

    def refresh(self) -> None:
        """Reads what others appended since: signals and decisions."""
        found = list(self.client.entries(self.key, after=self.recorded.seen))
        with self._sending:  # other branches move `seen` too
            for entry in found:
                self.recorded.add(entry)

    def take_signal(self, name: str) -> Mapping[str, Any] | None:
        """The oldest signal of this name that no step has taken, now taken; None when there is none."""
        with self._guard:
            found = self.recorded.next_signal(name)
            if found is not None:
                self.recorded.consume(found)
            return found

    # -- may it go on ------------------------------------------------------------------------------------------------

    def ready(self) -> None:
        """Before a new step: raises what ended this session, a stop or hold by name, or `Released` on a clean stop."""
        if self.fatal is not None:
            raise self.fatal
        if self.gate is not None:
            raise self.gate
        if self.releasing.is_set():
            raise errors.Released("the worker is stopping")

    def ready_to_replay(self) -> None:
        """Before an answer from the record: nothing has ended this session."""
        if self.fatal is not None:
            raise self.fatal

    def ready_to_write(self) -> None:
        """Before an effect: a margin of the lease is left, else it is renewed; raises `LeaseLost` when it cannot be."""
        self.ready()
        left = self._lease_end - lease_clock()
        if left >= self.margin_s:
            return
        try:
            self.beat(patience_s=max(0.0, min(left, self.margin_s)))
        except errors.JournalUnavailable as e:
            self.fail(
                errors.LeaseLost(
                    f"{left:.1f} s of the lease were left and it could not be renewed; nothing was started. {e}"
                )
            )
        self.ready()

    def fail(self, error: BaseException) -> NoReturn:
        """Ends this session with this error; every later step raises it again."""
        if self.fatal is None:
            self.fatal = error
        raise self.fatal

    def pause(self, seconds: float) -> None:
        """Waits between attempts; a clean stop ends the wait at once."""
        self.releasing.wait(seconds)
        self.ready()

    # -- the check of the record -------------------------------------------------------------------------------------

    def agree(self, rec: Step | None, want: Wanted) -> None:
        """Raises `NonDeterministicReplay` (mode `hold`) or writes a note (mode `warn`) when the record says otherwise.

        A step of another kind cannot be answered from the record and raises in both modes.
        """
        if rec is None or rec.asked is None:
            if self.recorded.last_step(want.branch) > want.step:
                self._differ(*_hole(self.recorded, want), want, mild=False)
            return
        relaxed = self._relaxed(rec, want)
        found = compare(rec, want, relaxed=relaxed)
        if found:
            self._differ(*difference(rec, want, found), want, mild="kind" not in found)
        elif relaxed and want.kind == "model" and rec.asked.get("request") != want.request:
            self._note("continued_request", want, {"recorded": rec.asked.get("request"), "this_build": want.request})

    def agree_on_end(self) -> None:
        """At the end of the agent's code: no recorded step may be left over."""
        left = next(self.recorded.unreached(), None)
        if left is None:
            return
        asked = left.asked or {}
        want = Wanted(kind=left.family, name=str(asked.get("name")), branch=left.branch, step=left.step)
        side = {"kind": left.family, "name": asked.get("name")}
        detail = {
            "branch": left.branch,
            "step": left.step,
            "differs": ["end"],
            "recorded": side,
            "this_build": None,
            "entries": left.numbers,
            "diff": [{"path": "/end", "recorded": side, "this_build": None}],
        }
        self._differ(
            f"this build ended before recorded step {left.step} ({side['kind']} {side['name']}) at entry {left.numbers[0]}",
            detail,
            want,
            mild=True,
        )

    def _relaxed(self, rec: Step, want: Wanted) -> bool:
        asked = rec.asked or {}
        if not want.versions or asked.get("versions") == want.versions:
            return False
        return self.recorded.continued(self.build) > int(asked["seq"])

    def _differ(self, message: str, detail: Mapping[str, Any], want: Wanted, *, mild: bool) -> None:
        if self.mode == "warn" and mild:
            self._note("nondeterministic_replay", want, {"message": message, **detail})
            return
        self.fail(errors.NonDeterministicReplay(message, detail))

    def _note(self, name: str, want: Wanted, out: Mapping[str, Any]) -> None:
        if self.recorded.note_once(name, want.branch, want.step):
            self.later({"kind": "note", "name": name, **_place(want), "out": out}, droppable=False)

    def now(self) -> datetime:
        """The server's clock, as far as the answer to the open told it; timers and expiries are measured by it."""
        return utc_now() + self._ahead

    # -- sending -----------------------------------------------------------------------------------------------------

    def line(self, fields: Mapping[str, Any]) -> bytes:
        """One journal line under the next id of this epoch. Raises `NotJournalable`."""
        with self._guard:
            self._ids += 1
            number = self._ids
        whole = {"id": f"{self.epoch}.{number}", "run": self.run, "at": rfc3339(utc_now()), **fields}
        try:
            return _ENCODE(whole).encode("utf-8")
        except UnicodeEncodeError:
            return wire.encode(whole)
        except (TypeError, ValueError) as e:
            raise errors.NotJournalable(f"the {fields.get('kind')} entry cannot be written: {e}") from None

    def later(self, fields: Mapping[str, Any], *, droppable: bool) -> Waiting:
        """Queues a line for the next request; the heart sends it within a second if there is none."""
        made = Waiting(self.line(fields), str(fields.get("branch", "")), int(fields.get("step", 0)), droppable)
        with self._guard:
            self._waiting.append(made)
        return made

    def drop(self, waiting: Waiting) -> bool:
        """Takes a queued line back; False when it is already on its way."""
        with self._guard:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
                return True
        return False

    def append(self, fields: Mapping[str, Any], *, seen: int | None = None, closing: bool = False) -> None:
        """Sends one entry, and what waits ahead of it; back when the server has stored it.

        `closing` says that it ends a recorded start, so a stop or hold does not refuse it. It is sent even when the run was
        lost: the server refuses it, and keeps the late result of a write as evidence.
        """
        if self.fatal is not None and not (closing and isinstance(self.fatal, _LOST)):
            raise self.fatal
        line = self.line(fields)
        with self._sending:
            ahead = self._take() if self.fatal is None else []
            try:
                self._post([w.line for w in ahead] + [line], seen)
                return
            except _GATES as e:
                self.gate = e
                if not closing:
                    self._put_back(ahead)
                    raise
            except errors.TooLarge as e:
                self._put_back(ahead)
                if closing:
                    raise
                self.fail(e)
            own = [
                w for w in ahead if (w.branch, w.step) == (fields.get("branch", ""), fields.get("step")) and w.droppable
            ]
            self._put_back([w for w in ahead if w not in own])
            self._post([w.line for w in own] + [line], seen)

    def flush(self) -> None:
        """Sends what waits, without a result behind it; for the heart. What goes wrong is met by the next step."""
        with self._sending:
            ahead = self._take()
            if not ahead or self.fatal is not None:
                return
            try:
                self._sent(self.client.append(self.key, [w.line for w in ahead], epoch=self.epoch, patience_s=0))
            except errors.JournalUnavailable:
                self._put_back(ahead)
            except errors.Refused as e:
                self._put_back(ahead)
                self._refused(e)

    def locked(self, call: Callable[[], Any]) -> Any:
        """Runs another call that appends, in order with this run's lines, whatever waits ahead of it being sent first.

        Its answer's `positions` are those of what it has appended, the server's own entries about it too.
        """
        with self._sending:
            ahead = self._take()
            if ahead:
                self._post([w.line for w in ahead], None)
            got = self._guarded(call)
            self._sent(got)
            return got

    @property
    def waits(self) -> bool:
        """Whether lines wait to be sent."""
        return bool(self._waiting)

    def _post(self, lines: list[bytes], seen: int | None) -> None:
        self._sent(self._guarded(lambda: self.client.append(self.key, lines, epoch=self.epoch, seen=seen)))

    def _sent(self, got: Mapping[str, Any]) -> None:
        """Moves `seen` over entries of our own, never over one in between that somebody else wrote and nobody here has read."""
        for pos in got.get("positions") or ():
            if pos == self.recorded.seen + 1:
                self.recorded.seen = pos

    def _guarded(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except (*_GATES, errors.TooLarge):
            raise
        except errors.DrainboardError as e:
            self.fail(e)

    def _take(self) -> list[Waiting]:
        with self._guard:
            ahead, self._waiting = self._waiting, []
        return ahead

    def _put_back(self, lines: list[Waiting]) -> None:
        with self._guard:
            self._waiting[:0] = lines

    # -- the lease ---------------------------------------------------------------------------------------------------

    def beat(self, *, patience_s: float = 0) -> None:
        """Renews the lease and learns of a stop or hold. Raises `JournalUnavailable`; a lost lease stands in `fatal`."""
        asked_at = lease_clock()
        body = {"epoch": self.epoch, "lease_s": self.lease_s}
        try:
            got = self.client.run_call(self.key, "/heartbeat", body, patience_s=patience_s)
        except errors.JournalUnavailable:
            raise
        except errors.Refused as e:
            self._refused(e)
            return
        self._lease_end = asked_at + float(got.get("lease_s") or self.lease_s)
        if got.get("stop"):
            self.gate = errors.RunStopped(str(got["stop"].get("message", "")), detail=got["stop"])
        elif got.get("held"):
            self.gate = errors.RunHeld(f"the run is held: {got['held']}", detail={"reason": got["held"]})

    def _refused(self, error: errors.Refused) -> None:
        if isinstance(error, _GATES):
            self.gate = error
        elif self.fatal is None:
            self.fatal = error

    @property
    def lease_left_s(self) -> float:
        """Seconds until the lease runs out, by this machine's own clock."""
        return self._lease_end - lease_clock()


def _server_ahead(entries: Sequence[Mapping[str, Any]]) -> timedelta:
    """How far the server's clock is ahead of ours, from the entry that it has just made for this open."""
    last = entries[-1] if entries else {}
    stamp = last.get("recorded_at")
    if last.get("kind") != "run.resumed" or not isinstance(stamp, str):
        return timedelta()
    return parse_time(stamp) - utc_now()


def _place(want: Wanted) -> dict[str, Any]:
    return {"branch": want.branch, "step": want.step} if want.branch else {"step": want.step}


def _hole(recorded: Recorded, want: Wanted) -> tuple[str, dict[str, Any]]:
    last = recorded.steps[want.branch, recorded.last_step(want.branch)]
    mine = {"kind": want.kind, "name": want.name}
    message = f"step {want.step} ({want.kind} {want.name}) is not in the record, while step {last.step} of the same branch is (entry {last.numbers[0]})"
    return message, {
        "branch": want.branch,
        "step": want.step,
        "differs": ["missing"],
        "recorded": None,
        "this_build": mine,
        "entries": last.numbers,
        "diff": [{"path": "/missing", "recorded": None, "this_build": mine}],
    }
