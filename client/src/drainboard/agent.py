"""Declaring agents and starting runs."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from drainboard.client import Client, Started, from_environment
from drainboard.errors import MisusedRun
from drainboard.versions import Versions

__all__ = ["Agent", "agent", "default_environment", "start"]


class Agent:
    """An agent: its name, its code, and the versions that its steps run under. Calling it calls the code."""

    def __init__(self, name: str, fn: Callable[..., Any], *, versions: Versions) -> None:
        self.name, self.fn, self.versions = name, fn, versions
        self.is_async = inspect.iscoroutinefunction(fn)
        functools.update_wrapper(self, fn)

    def __call__(self, run: Any, task: Any) -> Any:
        return self.fn(run, task)


def agent(
    name: str, *, versions: Versions | Mapping[str, Any] | str | Path | None = None
) -> Callable[[Callable[..., Any]], Agent]:
    """Declares `def code(run, task)` or `async def code(run, task)` as the agent of this name.

    `versions`: a build file's path or contents, or a short form (see `drainboard.versions`). Raises `BadVersions`.
    """
    if not isinstance(name, str) or not name:
        raise MisusedRun('an agent needs its name: @drainboard.agent("refund")')
    found = Versions.of(versions)
    return lambda fn: Agent(name, fn, versions=found)


def default_environment() -> str:
    """`DRAINBOARD_ENVIRONMENT`, else `prod`."""
    return os.environ.get("DRAINBOARD_ENVIRONMENT") or "prod"


def start(
    agent: Agent | str,
    task: Any,
    *,
    run_id: str | None = None,
    environment: str | None = None,
    build: str | None = None,
    client: Client | None = None,
) -> Started:
    """Starts a run; a worker takes it up. The same run id with the same input is the same run.

    Without `client`, the server and token are `DRAINBOARD_URL` and `DRAINBOARD_TOKEN`. Raises `EntryConflict` when the run id
    was started with another agent or input.
    """
    name = agent.name if isinstance(agent, Agent) else agent
    where = environment if environment is not None else default_environment()
    if client is not None:
        return client.start(name, task, run_id=run_id, environment=where, build=build)
    with from_environment() as own:
        return own.start(name, task, run_id=run_id, environment=where, build=build)
