"""A worker: claims runs of one agent, keeps their leases alive, runs several at once, and stops cleanly."""

from __future__ import annotations

import logging
import os
import random
import socket
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from drainboard import errors
from drainboard.agent import Agent
from drainboard.client import Client
from drainboard.execute import Outcome, execute
from drainboard.session import MODES, Session, lease_clock

__all__ = ["Heart", "Worker"]

log = logging.getLogger("drainboard")

_TICK_S = 0.5  # a read's start waits for its result at most this long, twice


class Heart:
    """One thread that renews the leases of all open runs and sends what waits longer than a tick."""

    def __init__(self, *, tick_s: float = _TICK_S) -> None:
        self._tick_s = tick_s
        self._sessions: dict[str, Session] = {}
        self._beat_at: dict[str, float] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="drainboard-heart", daemon=True)
        self._thread.start()

    def add(self, session: Session) -> None:
        """Keeps this run's lease alive from now on."""
        self._beat_at[session.key] = lease_clock() + session.lease_s / 3
        self._sessions[session.key] = session

    def remove(self, session: Session) -> None:
        """Lets this run's lease be."""
        self._sessions.pop(session.key, None)
        self._beat_at.pop(session.key, None)

    def close(self) -> None:
        """Ends the thread; back when it has ended."""
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(self._tick_s):
            for session in list(self._sessions.values()):
                if session.fatal is None:
                    self._serve(session)

    def _serve(self, session: Session) -> None:
        try:
            if session.waits:
                session.flush()
            if lease_clock() >= self._beat_at.get(session.key, float("inf")):
                session.beat()
                self._beat_at[session.key] = lease_clock() + session.lease_s / 3
        except errors.JournalUnavailable as e:
            log.warning(
                "run %s: the lease could not be renewed, %.1f s are left: %s", session.run, session.lease_left_s, e
            )
        except Exception:
            log.exception("run %s: the heart met an error", session.run)


class Worker:
    """Runs one agent's runs on one build. `stop()` from any thread or signal handler ends it between two steps."""

    def __init__(
        self,
        client: Client,
        agent: Agent,
        *,
        build: str,
        environment: str = "prod",
        mode: str = "hold",
        concurrency: int = 4,
        lease_s: float = 30,
        poll_s: float = 1.0,
        name: str | None = None,
        on_outcome: Callable[[Outcome], None] | None = None,
    ) -> None:
        if mode not in MODES:
            raise ValueError(f"agent mode {mode!r} is none of {', '.join(MODES)}")
        if concurrency < 1:
            raise ValueError("concurrency must be at least 1")
        self.client, self.agent, self.build, self.environment = client, agent, build, environment
        self.mode, self.concurrency, self.lease_s, self.poll_s = mode, concurrency, lease_s, poll_s
        self.name = name or f"{socket.gethostname()}:{os.getpid()}"
        self._on_outcome = on_outcome or (lambda outcome: None)
        self._stopping = threading.Event()
        self._open: set[Session] = set()
        self._lock = threading.Lock()

    def stop(self) -> None:
        """Claims nothing more; open runs finish the step in flight and give their lease back."""
        self._stopping.set()
        for session in list(self._open):
            session.releasing.set()

    def run(self, *, until_idle: bool = False) -> int:
        """Works until `stop()`, or with `until_idle` until nothing can be claimed and nothing is open. How many outcomes there were.

        While the server cannot be reached it looks again and again; with `until_idle` raises `JournalUnavailable` once nothing is open.
        """
        heart = Heart()
        done = 0
        under_way: set[Future[Outcome]] = set()
        try:
            with ThreadPoolExecutor(max_workers=self.concurrency, thread_name_prefix="drainboard-run") as pool:
                while not self._stopping.is_set():
                    free = self.concurrency - len(under_way)
                    claimed = self._claim(free, patient=bool(under_way) or not until_idle)
                    under_way |= {pool.submit(self._work, heart, asked_at, opened) for asked_at, opened in claimed}
                    if until_idle and not under_way:
                        break
                    under_way, finished = self._wait(under_way, idle=not claimed)
                    done += self._report(finished)
                done += self._report(wait(under_way).done)
        finally:
            heart.close()
        return done

    def run_one(self, key: str) -> Outcome:
        """Opens this run, as soon as nobody else has it, and works on it until it ends, parks or is taken away.

        Raises the refusal when it cannot be opened, and `LeaseHeld` when `stop()` came before the other worker's lease ran out.
        """
        opened = None
        while opened is None:
            asked_at = lease_clock()
            try:
                opened = self.client.open(
                    key,
                    build=self.build,
                    worker=self.name,
                    lease_s=self.lease_s,
                    versions=self.agent.versions.as_json(),
                )
            except errors.LeaseHeld:
                if self._stopping.wait(self.poll_s):
                    raise
        heart = Heart()
        try:
            return self._work(heart, asked_at, opened)
        finally:
            heart.close()

    def _claim(self, free: int, *, patient: bool) -> list[tuple[float, Mapping[str, Any]]]:
        if free < 1:
            return []
        asked_at = lease_clock()
        try:
            found = self.client.claim(
                agent=self.agent.name,
                environment=self.environment,
                build=self.build,
                worker=self.name,
                lease_s=self.lease_s,
                limit=free,
                versions=self.agent.versions.as_json(),
            )
        except errors.JournalUnavailable as e:
            if not patient:
                raise
            log.warning("no runs could be claimed: %s", e)
            return []
        return [(asked_at, opened) for opened in found]

    def _wait(
        self, under_way: set[Future[Outcome]], *, idle: bool
    ) -> tuple[set[Future[Outcome]], set[Future[Outcome]]]:
        """Waits for a free place, or for the next look at the queue when there is one."""
        if not idle and len(under_way) < self.concurrency:
            return under_way, set()
        pause = self.poll_s * random.uniform(0.8, 1.2)  # noqa: S311
        if not under_way:
            self._stopping.wait(pause)
            return under_way, set()
        finished, left = wait(under_way, timeout=pause, return_when=FIRST_COMPLETED)
        return left, finished

    def _report(self, finished: set[Future[Outcome]]) -> int:
        for future in finished:
            self._on_outcome(future.result())
        return len(finished)

    def _work(self, heart: Heart, asked_at: float, opened: Mapping[str, Any]) -> Outcome:
        session = Session(
            self.client, opened, build=self.build, versions=self.agent.versions, mode=self.mode, asked_at=asked_at
        )
        self._open.add(session)
        heart.add(session)
        try:
            if self._stopping.is_set():
                session.releasing.set()
            return execute(self.agent, session)
        finally:
            heart.remove(session)
            self._open.discard(session)
