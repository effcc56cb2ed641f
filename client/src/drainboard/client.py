"""The server's API as one object: what a program that starts and steers runs needs, and what workers are built on."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drainboard.http import PATIENCE_S, TIMEOUT_S, Http, quote_part
from drainboard.values import plain

__all__ = ["Client", "Started", "from_environment"]


@dataclass(frozen=True)
class Started:
    """A run that was started: `key` is its address on the server, `created` whether this call made it."""

    run: str
    key: str
    created: bool


class Client:
    """One server, one token. Every method raises the server's refusal by name, or `JournalUnavailable`."""

    def __init__(self, url: str, token: str, *, timeout_s: float = TIMEOUT_S, patience_s: float = PATIENCE_S) -> None:
        self.http = Http(url, token, timeout_s=timeout_s, patience_s=patience_s)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the kept connections."""
        self.http.close()

    def start(
        self,
        agent: str,
        task: Any,
        *,
        run_id: str | None = None,
        environment: str = "prod",
        build: str | None = None,
        parent: str | None = None,
    ) -> Started:
        """Starts a run, or finds it when this run id was started with the same agent and input."""
        run = run_id if run_id is not None else f"{agent}-{uuid.uuid4()}"
        body: dict[str, Any] = {"agent": agent, "run": run, "environment": environment, "in": plain(task)}
        body.update({name: got for name, got in (("build", build), ("parent", parent)) if got is not None})
        got = self.http.call("POST", "/runs", body)
        return Started(got["run"], got["key"], bool(got["created"]))

    def signal(self, key: str, name: str, value: Any = None, *, id: str | None = None) -> Mapping[str, Any]:  # noqa: A002
        """Sends a signal; the same id twice is one signal."""
        body = {"name": name, "value": plain(value), "id": id or str(uuid.uuid4())}
        return self._object("POST", f"/runs/{quote_part(key)}/signals", body)

    def show(self, key: str) -> Mapping[str, Any]:
        """The run as `show_run --json` prints it."""
        return self._object("GET", f"/runs/{quote_part(key)}")

    def runs(self, **filters: str) -> Iterator[Mapping[str, Any]]:
        """Runs that match (`agent`, `environment`, `status`, `build`, `source`), newest first; reads page by page."""
        cursor: str | None = None
        while True:
            asked = {**filters, **({"cursor": cursor} if cursor else {})}
            query = "&".join(f"{name}={quote_part(value)}" for name, value in asked.items())
            got = self._object("GET", f"/runs?{query}")
            yield from got["runs"]
            cursor = got.get("cursor")
            if not cursor:
                return

    def register_build(self, build: Mapping[str, Any]) -> Mapping[str, Any]:
        """Registers a build file's contents; the same contents under the same label again change nothing."""
        return self._object("POST", "/builds", build)

    def claim(
        self,
        *,
        agent: str,
        environment: str,
        build: str,
        worker: str,
        lease_s: float,
        limit: int,
        versions: Mapping[str, Any],
    ) -> Sequence[Mapping[str, Any]]:
        """Opens up to `limit` runs that are new, woken or whose lease ran out; each as `open` answers it."""
        body = {
            "agent": agent,
            "environment": environment,
            "build": build,
            "worker": worker,
            "lease_s": lease_s,
            "limit": limit,
            "versions": versions,
        }
        return list(self._object("POST", "/claims", body)["runs"])

    def open(
        self, key: str, *, build: str, worker: str, lease_s: float, versions: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Takes the run's next epoch. Raises `LeaseHeld`, `PinnedToBuild`, `RunHeld`, `RunStopped`, `RunEnded`."""
        body = {"build": build, "worker": worker, "lease_s": lease_s, "versions": versions}
        return self._object("POST", f"/runs/{quote_part(key)}/open", body)

    def entries(self, key: str, *, after: int = 0, limit: int = 1000) -> Iterator[Mapping[str, Any]]:
        """The journal after this position, to its present end, in order; reads pages of `limit`."""
        while True:
            path = f"/runs/{quote_part(key)}/entries?after={after}&limit={limit}"
            lines = self.http.send("GET", path, b"", {}).body.split(b"\n")
            page = [json.loads(line) for line in lines if line]
            yield from page
            if len(page) < limit:
                return
            after = int(page[-1]["seq"])

    def append(
        self, key: str, lines: Sequence[bytes], *, epoch: int, seen: int | None = None, **how: Any
    ) -> Mapping[str, Any]:
        """Appends journal lines, all or none; a repeat answers the stored positions. `how`: see `Http.send`."""
        headers = {"Drainboard-Epoch": str(epoch), "Content-Type": "application/x-ndjson"}
        if seen is not None:
            headers["Drainboard-Seen"] = str(seen)
        got = self.http.send("POST", f"/runs/{key}/entries", b"\n".join(lines), headers, **how)
        return _mapping(got.json())

    def post_line(self, key: str, path: str, line: bytes, *, epoch: int) -> Mapping[str, Any]:
        """Sends one journal line to a call that appends it under its own rules (approvals)."""
        headers = {"Drainboard-Epoch": str(epoch), "Content-Type": "application/x-ndjson"}
        return _mapping(self.http.send("POST", f"/runs/{quote_part(key)}{path}", line, headers).json())

    def run_call(
        self, key: str, path: str, body: Mapping[str, Any], *, patience_s: float | None = None
    ) -> Mapping[str, Any]:
        """POST to `/runs/{key}{path}`."""
        return _mapping(self.http.call("POST", f"/runs/{quote_part(key)}{path}", body, patience_s=patience_s))

    def run_state(self, key: str, path: str) -> Mapping[str, Any]:
        """GET of `/runs/{key}{path}`."""
        return self._object("GET", f"/runs/{quote_part(key)}{path}")

    def _object(self, method: str, path: str, body: Any = None) -> Mapping[str, Any]:
        return _mapping(self.http.call(method, path, body))


def from_environment(*, url: str | None = None, token: str | None = None) -> Client:
    """A client from what is given, else from `DRAINBOARD_URL` and `DRAINBOARD_TOKEN`. Raises `ValueError` naming what is missing."""
    url = url or os.environ.get("DRAINBOARD_URL")
    token = token or os.environ.get("DRAINBOARD_TOKEN")
    if not url:
        raise ValueError("no server is named; give url=… or set DRAINBOARD_URL")
    if not token:
        raise ValueError("no token is given; give token=… or set DRAINBOARD_TOKEN")
    return Client(url, token)


def _mapping(got: Any) -> Mapping[str, Any]:
    if not isinstance(got, dict):
        raise TypeError(f"the server answered {type(got).__name__} where an object belongs")
    return got
