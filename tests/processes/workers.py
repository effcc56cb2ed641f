"""Real worker processes, `python -m drainboard worker …`, that can be stopped, continued and killed, and end with the test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from config.deathsignal import tied_to_parent
from tests.live import BASE, Live
from tests.processes.waiting import until


class WorkerProcess:
    """One worker; what it says of its runs goes to a file."""

    def __init__(self, name: str, folder: Path, command: list[str], variables: dict[str, str]) -> None:
        self.name = name
        self._said, self._log = folder / f"{name}.out", folder / f"{name}.log"
        with self._said.open("wb") as out, self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=BASE, env=variables, stdin=subprocess.DEVNULL, stdout=out, stderr=log,
                preexec_fn=tied_to_parent(signal.SIGKILL),  # noqa: PLW1509
            )  # fmt: skip

    def outcomes(self) -> dict[str, dict[str, Any]]:
        """The last word about each run, by run id."""
        whole, _, _ = self._said.read_text("utf-8").rpartition("\n")
        return {told["run"]: told for told in map(json.loads, filter(None, whole.split("\n")))}

    def last_word(self, run: str) -> tuple[str, str]:
        """Status and reason of this run's last outcome here; empty before it has one."""
        told = self.outcomes().get(run, {})
        return told.get("status", ""), told.get("reason", "")

    def log(self) -> str:
        return self._log.read_text("utf-8", "replace")

    def freeze(self) -> None:
        """SIGSTOP; back when the kernel has stopped it."""
        self._process.send_signal(signal.SIGSTOP)
        stat = Path(f"/proc/{self._process.pid}/stat")
        until(lambda: stat.read_text().rpartition(") ")[2][0] == "T", f"{self.name} is stopped")

    def thaw(self) -> None:
        """SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL; back when it is gone."""
        self._process.kill()
        self._process.wait()

    def terminate(self) -> int:
        """SIGTERM; its exit code."""
        self._process.terminate()
        return self._process.wait(60)

    def ended(self) -> int:
        """Waits for its end; its exit code."""
        return self._process.wait(60)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None


class Workers:
    """Starts workers of one live server and one provider; `close()` kills those that are left, by their ids."""

    def __init__(self, live: Live, folder: Path, provider_port: int) -> None:
        self._live, self._folder, self._port = live, folder, provider_port
        self._started: list[WorkerProcess] = []

    def start(self, agent: str, *arguments: str, name: str, build: str = "1", lease_s: float = 30) -> WorkerProcess:
        """A worker of this agent (`module:name`) and build; its name is in the journal and in its requests to the provider."""
        fixed = ["--build", build, "--name", name, "--lease", str(lease_s), "--environment", "prod", "--json"]
        made = WorkerProcess(
            name,
            self._folder,
            [sys.executable, "-m", "drainboard", "worker", agent, *fixed, *arguments],
            {
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(BASE), str(BASE / "client" / "src")]),
                "DRAINBOARD_URL": self._live.url,
                "DRAINBOARD_TOKEN": self._live.worker,
                "PROVIDER_PORT": str(self._port),
                "PROVIDER_SENDER": name,
                "PROCUREMENT_SUPPLIER_PORT": str(self._port),
            },
        )
        self._started.append(made)
        return made

    def close(self) -> None:
        for worker in self._started:
            if worker.alive:
                worker.kill()
