"""A worker in miniature: opens a run by hand and appends through the API, as the client library does."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.test import Client

from journals import store


@dataclass
class Worker:
    """Starts and owns one run; `post` sends lines under its epoch."""

    secret: str
    run: str = "run-1"
    agent: str = "refund"
    environment: str = "prod"
    key: str = ""
    epoch: int = 0
    n: int = 0
    http: Client = field(default_factory=Client)

    def start(self, in_: Any = "task") -> Worker:
        answer = self.call("", {"agent": self.agent, "run": self.run, "environment": self.environment, "in": in_})
        self.key = answer.json()["key"]
        return self

    def open(self, build: str = "1", worker: str = "w-1") -> Worker:
        """Takes the next epoch straight in the store; deploy rules are tested elsewhere."""
        with transaction.atomic():
            head = store.lock(store.find(key=self.key).id)
            self.epoch = head.epoch + 1
            store.record(
                head.id, {"kind": "run.resumed", "build": build}, actor="server",
                changes={"epoch": self.epoch, "worker": worker, "open_build": build, "parked_on": "", "lease_until": timedelta(seconds=30)},
            )  # fmt: skip
        return self

    def line(self, kind: str, **fields: Any) -> bytes:
        self.n += 1
        return json.dumps(
            {"id": f"{self.epoch}.{self.n}", "run": self.run, "kind": kind, **fields}, separators=(",", ":")
        ).encode()

    def post(self, *lines: bytes, epoch: int | None = None, **headers: str) -> Any:
        return self.http.post(
            f"/api/v1/runs/{self.key}/entries", b"\n".join(lines), content_type="application/x-ndjson",
            headers={"Authorization": f"Bearer {self.secret}", "Drainboard-Epoch": str(self.epoch if epoch is None else epoch), **headers},
        )  # fmt: skip

    def call(self, path: str, body: Any = None, *, secret: str | None = None) -> Any:
        at = f"/api/v1/runs/{self.key}/{path}" if self.key else f"/api/v1/runs{path}"
        return self.http.post(
            at,
            json.dumps(body),
            content_type="application/json",
            headers={"Authorization": f"Bearer {secret or self.secret}"},
        )

    @property
    def head(self) -> store.HeadRow:
        return store.find(key=self.key)

    def raws(self) -> list[bytes]:
        return [e.raw for e in store.read(self.head.id)]

    def kinds(self) -> list[str]:
        return [e.kind for e in store.read(self.head.id)]
