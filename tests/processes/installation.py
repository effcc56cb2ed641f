"""A whole Drainboard in a data folder of its own, as `make run` starts it, that can be killed to its last process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from config.deathsignal import tied_to_parent
from tests.live import BASE
from tests.processes.waiting import until

STARTED_WITHIN_S = 120


class Installation:
    """`manage.py up` with nothing in it, on one port."""

    def __init__(self, data: Path, *, port: int) -> None:
        self.data, self.port, self.url = data, port, f"http://127.0.0.1:{port}"
        self._output = data.parent / "output"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Back when it serves."""
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                self._command("up"), cwd=BASE, env=self._variables(), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                preexec_fn=tied_to_parent(signal.SIGKILL),  # noqa: PLW1509
            )  # fmt: skip
        until(lambda: "Drainboard is at" in self.said(), self.said, within_s=STARTED_WITHIN_S)

    def said(self) -> str:
        """What it has printed; fails the test when it has ended."""
        text = self._output.read_text("utf-8", "replace")
        assert self._process is not None
        assert self._process.poll() is None, text
        return text

    def command(self, *arguments: str) -> Any:
        """A management command beside it that answers JSON."""
        done = subprocess.run(
            self._command(*arguments, "--json"), cwd=BASE, env=self._variables(), capture_output=True, text=True, check=False
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    def kill(self) -> tuple[float, int]:
        """SIGKILL to every process, the database first; when it was (monotonic), and how many there were."""
        assert self._process is not None
        found = [*_below(self._process.pid), self._process.pid]
        at = time.monotonic()
        for pid in found:
            _kill(pid)
        self._process.wait()
        while left := [pid for pid in self._ours() if pid not in found]:  # started between the look and the kill
            found += left
            for pid in left:
                _kill(pid)
        until(lambda: not any(map(_is_alive, found)), "every process is gone")
        self._process = None
        return at, len(found)

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        assert self._process is not None
        self._process.terminate()
        try:
            return self._process.wait(90)
        finally:
            self._process = None

    def close(self) -> None:
        """Ends what a failed test left."""
        if self._process is not None:
            self.kill()

    def _command(self, *arguments: str) -> list[str]:
        return [sys.executable, str(BASE / "manage.py"), *arguments]

    def _variables(self) -> dict[str, str]:
        mine = {name: value for name, value in os.environ.items() if not name.startswith(("DATABASE_", "DJANGO_"))}
        return {**mine, "DRAINBOARD_DATA": str(self.data), "PORT": str(self.port), "EMPTY": "1"}

    def _ours(self) -> Iterator[int]:
        """Live processes that were given this data folder."""
        mark = f"DRAINBOARD_DATA={self.data}".encode()
        for folder in Path("/proc").iterdir():
            try:
                known = folder.name.isdigit() and mark in (folder / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if known and _is_alive(int(folder.name)):
                yield int(folder.name)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _is_alive(pid: int) -> bool:
    return _stat(pid)[:1] not in ([], ["Z"], ["X"])


def _stat(pid: int) -> list[str]:
    """State, parent and so on; empty when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(") ")[2].split()
    except OSError:
        return []


def _below(pid: int) -> list[int]:
    """All descendants, children before grandchildren."""
    parents = {int(f.name): _stat(int(f.name)) for f in Path("/proc").iterdir() if f.name.isdigit()}
    found, level = [], [pid]
    while level:
        level = [p for p, stat in parents.items() if stat and int(stat[1]) in level]
        found += level
    return found
