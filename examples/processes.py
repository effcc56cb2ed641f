"""Starting the other processes of an example, and ending them with it."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from drainboard import errors

BASE = Path(__file__).resolve().parent.parent
WORK_S = 120  # seconds that a worker of an example may take


def told(story: Callable[[], tuple[int, Mapping[str, Any]]]) -> int:
    """Runs an example and prints its JSON; what goes wrong is one sentence on standard error. Returns the exit code.

    0 done, 1 refused or nothing done, 2 bad input, 3 no server: those of the `drainboard` command.
    """
    try:
        code, result = story()
    except ValueError as e:
        return _failed(2, str(e))
    except errors.JournalUnavailable as e:
        return _failed(3, str(e))
    except errors.NotAuthenticated as e:
        return _failed(1, f"{e}; give a token of scope worker with --token or DRAINBOARD_TOKEN")
    except (errors.Refused, RuntimeError) as e:
        return _failed(1, str(e))
    sys.stdout.write(json.dumps(result) + "\n")
    return code


def _failed(code: int, sentence: str) -> int:
    sys.stderr.write(f"{sentence}\n")
    return code


@contextmanager
def service(ledger: Path, *arguments: str) -> Iterator[int]:
    """The outside service on this ledger; gives its port and ends it afterwards."""
    command = [sys.executable, "-m", "examples.service", str(ledger), *arguments]
    with subprocess.Popen(command, cwd=BASE, stdout=subprocess.PIPE, text=True) as process:
        try:
            first = process.stdout.readline() if process.stdout else ""
            yield int(json.loads(first)["port"])
        finally:
            process.kill()


def worker(agent: str, *arguments: str, variables: Mapping[str, str]) -> subprocess.Popen[str]:
    """A Drainboard worker as a process; it prints its outcomes as JSON, one a line."""
    paths = [str(BASE), str(BASE / "client" / "src"), os.environ.get("PYTHONPATH", "")]
    return subprocess.Popen(
        [sys.executable, "-m", "drainboard", "worker", agent, *arguments, "--json"],
        cwd=BASE,
        env={**os.environ, **variables, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        stdout=subprocess.PIPE,
        text=True,
    )


def outcomes_of(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """What a worker said of its runs, when it has ended by itself. Raises `RuntimeError` when it failed or does not end."""
    try:
        out, _ = process.communicate(timeout=WORK_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise RuntimeError(f"the worker did not end in {WORK_S} s and was killed") from None
    if process.returncode != 0:
        raise RuntimeError(f"the worker failed with code {process.returncode}: {out.strip() or 'it said nothing'}")
    return [json.loads(line) for line in out.splitlines()]


def outcome_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What a worker said of its one run, when it has ended. Raises `RuntimeError` when it failed or said nothing."""
    found = outcomes_of(process)
    if not found:
        raise RuntimeError("the worker ended without an outcome")
    return found[-1]


def ask(port: int, path: str, body: Any = None, *, key: str | None = None, timeout_s: float = 90) -> Any:
    """A request to the service; its JSON. Raises `RuntimeError` for any answer but 200."""
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    try:
        headers = {"Idempotency-Key": key} if key is not None else {}
        link.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body), headers)
        answer = link.getresponse()
        text = answer.read().decode()
        if answer.status != 200:
            raise RuntimeError(f"the service answered {answer.status}: {text}")
        return json.loads(text)
    finally:
        link.close()
