"""A fleet in miniature: runs that are started, opened, claimed and worked through the API, as workers do it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db import connection, transaction
from django.test import Client

from journals import store
from runs import projection
from runs.models import Run
from versioning import buildfile, registering
from versioning.models import Build

AGENT = "procure"
V40 = {
    "app": "app-40",
    "prompt": {"policy": "12"},
    "model": {"main": "m-5"},
    "tools": {"send": "sha256:a1", "look": "sha256:b1"},
}
V41 = {**V40, "prompt": {"policy": "13"}}


@dataclass
class Fleet:
    """One agent's runs in one environment."""

    secret: str
    environment: str = "prod"
    http: Client = field(default_factory=Client)
    steps: dict[str, int] = field(default_factory=dict)

    def api(self, path: str, body: Any = None, *, secret: str | None = None, epoch: int | None = None) -> Any:
        headers = {"Authorization": f"Bearer {secret or self.secret}"}
        if epoch is not None:
            headers["Drainboard-Epoch"] = str(epoch)
        raw = body if isinstance(body, bytes) else json.dumps(body)
        return self.http.post(f"/api/v1/{path}", raw, content_type="application/json", headers=headers)

    def start(self, run: str, **more: Any) -> str:
        answer = self.api(
            "runs", {"agent": AGENT, "run": run, "environment": self.environment, "in": {"n": run}, **more}
        )
        assert answer.status_code in (200, 201), answer.content
        return answer.json()["key"]

    def open(self, key: str, build: str = "40", versions: Mapping[str, Any] | None = V40, worker: str = "w-1") -> Any:
        return self.api(f"runs/{key}/open", {"build": build, "worker": worker, "lease_s": 30, "versions": versions})

    def claim(
        self, build: str = "40", versions: Mapping[str, Any] | None = V40, *, limit: int = 50, worker: str = "w-1"
    ) -> list[Any]:
        body = {
            "agent": AGENT,
            "environment": self.environment,
            "build": build,
            "worker": worker,
            "lease_s": 30,
            "limit": limit,
            "versions": versions,
        }
        answer = self.api("claims", body)
        assert answer.status_code == 200, answer.content
        return answer.json()["runs"]

    def post(self, opened: Mapping[str, Any], *entries: Mapping[str, Any]) -> Any:
        """Appends entries under the epoch of an open's answer."""
        lines = []
        for entry in entries:
            self.steps[opened["key"]] = n = self.steps.get(opened["key"], 0) + 1
            lines.append(json.dumps({"id": f"{opened['epoch']}.{n}", "run": opened["run"], **entry}).encode())
        return self.api(f"runs/{opened['key']}/entries", b"\n".join(lines), epoch=opened["epoch"])

    def work(self, opened: Mapping[str, Any], versions: Mapping[str, Any] = V40, *, step: int = 1) -> None:
        """One model and one tool step with their versions."""
        model = {k: v for k, v in versions.items() if k != "tools"}
        tool = {k: v for k, v in versions.items() if k in ("app", "tools", "sdk")}
        answer = self.post(
            opened,
            {"kind": "model.result", "name": "decide", "step": step, "versions": model, "in": [], "out": "x"},
            {"kind": "tool.started", "name": "send", "step": step + 1, "key": f"k{step}", "versions": tool, "in": {}},
            {"kind": "tool.result", "name": "send", "step": step + 1, "key": f"k{step}", "versions": tool, "out": 1},
        )
        assert answer.status_code == 200, answer.content

    def begin_write(self, opened: Mapping[str, Any], step: int = 3) -> None:
        """A write whose result is not there yet."""
        assert (
            self.post(opened, {"kind": "tool.started", "name": "send", "step": step, "key": "k", "in": {}}).status_code
            == 200
        )

    def park(self, opened: Mapping[str, Any], on: str = "signal:go", until: str | None = None) -> None:
        entry = {"kind": "run.parked", "reason": on, **({"until": until} if until else {})}
        assert self.post(opened, entry).status_code == 200

    def parked(self, run: str, build: str = "40", versions: Mapping[str, Any] = V40, *, on: str = "signal:go") -> str:
        """A run that worked two steps and sleeps."""
        key = self.start(run)
        opened = self.open(key, build, versions).json()
        self.work(opened, versions)
        self.park(opened, on)
        return key

    def wake(self, *keys: str) -> None:
        """What the runs wait for has come."""
        with transaction.atomic():
            for key in keys:
                head = store.lock(store.find(key=key).id)
                store.change(head.id, wake_at=timedelta(0))

    def lapse(self, *keys: str) -> None:
        """The leases of these runs have run out: their workers are gone."""
        with transaction.atomic():
            for key in keys:
                head = store.lock(store.find(key=key).id)
                store.change(head.id, lease_until=timedelta(seconds=-1))

    def forget_workers(self) -> None:
        """No worker has asked for work for a long time."""
        with connection.cursor() as cursor:
            cursor.execute("UPDATE versioning_workerseen SET seen_at = now() - interval '1 hour'")

    @staticmethod
    def head(key: str) -> store.HeadRow:
        return store.find(key=key)

    @staticmethod
    def run(key: str) -> Run:
        head = store.find(key=key)
        projection.catch_up([head.id])
        return Run.objects.get(pk=head.id)

    @staticmethod
    def kinds(key: str) -> list[str]:
        return [e.kind for e in store.read(store.find(key=key).id)]

    @staticmethod
    def last(key: str, kind: str) -> dict[str, Any]:
        """The fields of the newest entry of this kind."""
        found = [e for e in store.read(store.find(key=key).id) if e.kind == kind]
        assert found, f"no {kind} entry"
        return json.loads(found[-1].raw)


def build(label: str, versions: Mapping[str, Any], *, replaces: str = "") -> Build:
    """A build registered by CI."""
    described = buildfile.describe(
        {
            "agent": AGENT,
            "label": label,
            "app": versions.get("app"),
            "prompts": {name: {"version": v} for name, v in versions["prompt"].items()},
            "models": {role: {"id": m} for role, m in versions["model"].items()},
            "tools": {name: {"sha256": d} for name, d in versions["tools"].items()},
            **({"replaces": replaces} if replaces else {}),
        }
    )
    return registering.register(described, seen_from="ci", by="tests")[0]
