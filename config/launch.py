"""What ``manage.py up`` runs: the preparation, the programs, and the question whether they serve."""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from config.env import Environment
from config.processes import Child

BASE_DIR = Path(__file__).resolve().parent.parent
MANAGE = [sys.executable, str(BASE_DIR / "manage.py")]
SERVED_WITHIN_S = 60


class NotServing(RuntimeError):
    """The preparation failed, or the web server ended before it answered."""


def environment(data: Path) -> dict[str, str]:
    """The variables that every child gets."""
    return {
        **os.environ,
        "DRAINBOARD_DATA": str(data),
        "DRAINBOARD_STATIC": os.environ.get("DRAINBOARD_STATIC") or str(data / "static"),
        "DRAINBOARD_SUPERVISED": "1",
        "PROMETHEUS_MULTIPROC_DIR": str(data / "metrics"),
        "PYTHONUNBUFFERED": "1",
    }


def set_up(*, data: Path) -> None:
    """Migrate, make the first admin, collect static files. Raises NotServing."""
    shutil.rmtree(data / "metrics", ignore_errors=True)  # counters of processes that are gone
    (data / "metrics").mkdir()
    done = subprocess.run(  # noqa: S603
        [*MANAGE, "prepare"], cwd=BASE_DIR, env=environment(data), stdin=subprocess.DEVNULL, check=False
    )
    if done.returncode != 0:
        raise NotServing("the database could not be prepared; what failed is said above")


def children(env: Environment, *, data: Path, host: str, port: int) -> list[Child]:
    """Web server, worker, scheduler: in this order, not started. The web server never knows the owner role."""
    shared = environment(data)
    web = {name: value for name, value in shared.items() if name != "DATABASE_OWNER_URL"}
    workers = env.integer("WEB_WORKERS", 2, least=1, most=64)
    threads = env.integer("WEB_THREADS", 16, least=1, most=256)
    serve = [sys.executable, "-m", "granian", "--interface", "wsgi", "--host", host, "--port", str(port)]
    serve += ["--workers", str(workers), "--blocking-threads", str(threads), "--no-ws"]
    serve += ["--workers-kill-timeout", "10", "--respawn-failed-workers", "config.wsgi:application"]
    celery = [sys.executable, "-m", "celery", "-A", "config.celery"]
    slots = str(env.integer("WORKER_THREADS", 4, least=1, most=64))
    work = [*celery, "worker", "-P", "threads", "-c", slots, "-n", "worker@drainboard"]
    work += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    # The plain scheduler keeps nothing on disk: the persistent one would write a pickle.
    beat = [*celery, "beat", "-S", "celery.beat:Scheduler", "--pidfile="]
    programs: tuple[tuple[str, list[str], Mapping[str, str]], ...] = (
        ("web", serve, web),
        ("worker", work, shared),
        ("beat", beat, web),
    )
    logs = data / "logs"
    return [
        Child(name=name, arguments=line, environment=variables, log=logs / f"{name}.log", folder=BASE_DIR)
        for name, line, variables in programs
    ]


class Populating(Child):
    """``manage.py populate``, once, beside the server that it speaks to; a failure is tried at the next start."""

    def watch(self, *, say: Callable[[str], None]) -> None:
        """One look: note success for all later starts, or say where the failure is described."""
        if self.process is None or self.process.poll() is None:
            return
        if self.process.returncode == 0:
            (self.log.parent.parent / "populated").touch()
            say("The example runs are in.")
        else:
            say(f"The example runs are not complete (see {self.log}); the next start tries again.")
        self.end_group(signal.SIGKILL)
        self.process = None


def populating(env: Environment, *, data: Path, url: str) -> Populating | None:
    """What fills a new installation with example runs; None if it is filled or EMPTY=1 asks for none."""
    if env.flag("EMPTY", default=False) or (data / "populated").exists():
        return None
    if not (BASE_DIR / "runs" / "management" / "commands" / "populate.py").exists():
        return None
    variables = {name: value for name, value in environment(data).items() if name != "DATABASE_OWNER_URL"}
    return Populating(
        name="populate",
        arguments=[*MANAGE, "populate"],
        environment={**variables, "DRAINBOARD_URL": url},
        log=data / "logs" / "populate.log",
        folder=BASE_DIR,
    )


def address(host: str, port: int) -> str:
    """What to open in a browser on this machine."""
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    return f"http://{name}:{port}/"


def wait_until_served(web: Child, *, host: str, port: int) -> None:
    """Return when the web server answers anything at all. Raises NotServing with its last words."""
    target = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    deadline = time.monotonic() + SERVED_WITHIN_S
    while time.monotonic() < deadline:
        if web.process is not None and web.process.poll() is not None:
            break
        asking = http.client.HTTPConnection(target, port, timeout=5)
        try:
            asking.request("GET", "/healthz")
            asking.getresponse().read()
        except (OSError, http.client.HTTPException):
            time.sleep(0.05)
        else:
            return
        finally:
            asking.close()
    raise NotServing(f"the web server does not answer. Its last words:\n{web.last_words()}")
