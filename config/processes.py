"""Child processes of ``manage.py up``: started, watched, started again when they die, stopped in order."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from config.deathsignal import tied_to_parent

STOP_S = 30  # what a child gets to finish what it is doing
LOG_BYTES = 20_000_000
CALM_S = 60  # a child that lived this long starts again at once; others wait longer each time
LONGEST_PAUSE_S = 30.0


@dataclass
class Child:
    """One long-lived program; its output goes to a log file, its whole process group ends with it."""

    name: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    folder: Path
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    started_at: float = field(default=0.0, init=False)
    pause_s: float = field(default=0.5, init=False)
    due_at: float | None = field(default=None, init=False)

    def start(self) -> None:
        """Start the program. Call in the main thread (see ``deathsignal``)."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603
                self.arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=dict(self.environment),
                start_new_session=True,
                # Not SIGTERM: a granian worker that is still starting misses it and keeps the port. With us the
                # database goes away anyhow, and a job that was cut off starts again.
                preexec_fn=tied_to_parent(signal.SIGKILL),  # noqa: PLW1509
            )
        self.started_at = time.monotonic()
        self.due_at = None

    def watch(self, *, say: Callable[[str], None]) -> None:
        """One look: note a death and set the time of the next start; start what is due."""
        now = time.monotonic()
        if self.due_at is not None:
            if now >= self.due_at:
                self.start()
            return
        if self.process is None or self.process.poll() is None:
            return
        code = self.process.returncode
        self.end_group(signal.SIGKILL)  # what it started must not hold the port or the queue
        lived_s = now - self.started_at
        self.pause_s = 0.5 if lived_s > CALM_S else min(self.pause_s * 2, LONGEST_PAUSE_S)
        self.due_at = now + self.pause_s
        say(f"{self.name} ended ({_ending(code)}) and starts again in {self.pause_s:.0f} s; see {self.log}")

    def last_words(self) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-12:]) if self.log.exists() else ""

    def limit_log(self) -> None:
        """Keep the log file below its limit: the old part goes to ``<name>.log.1``."""
        if self.log.exists() and self.log.stat().st_size > LOG_BYTES:
            self.log.with_suffix(".log.1").write_bytes(self.log.read_bytes())
            os.truncate(self.log, 0)  # the child appends, so it goes on at the new end

    def ask_to_stop(self) -> None:
        """Tell it to finish; returns at once."""
        self.due_at = None
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def wait_stopped(self, *, until: float, say: Callable[[str], None]) -> None:
        """Return when it has ended; it and what it started are killed at ``until`` (monotonic)."""
        if self.process is None:
            return
        try:
            self.process.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            say(f"{self.name} did not stop in {STOP_S} s and is killed; its open jobs start again next time.")
        self.end_group(signal.SIGKILL)
        self.process.wait()

    def end_group(self, number: signal.Signals) -> None:
        """Signal everything in the child's process group; an empty group is fine."""
        if self.process is None:
            return
        try:
            os.killpg(self.process.pid, number)
        except (ProcessLookupError, PermissionError):  # nobody left (macOS says EPERM for zombies)
            return


def stop_all(children: Sequence[Child], *, say: Callable[[str], None]) -> None:
    """Ask all at once, then wait for each, so that stopping takes as long as the slowest."""
    for child in children:
        child.ask_to_stop()
    until = time.monotonic() + STOP_S
    for child in children:
        child.wait_stopped(until=until, say=say)


def _ending(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"code {code}"
