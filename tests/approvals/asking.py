"""A worker that asks for approvals, through the API as the client does."""

from __future__ import annotations

import json
from typing import Any

from drainboard import wire

from tests.journals.agents import Worker

SCHEMA = "sha256:" + "a" * 64
PAY = {"tool": "pay", "args": {"iban": "XX00SYNTHETIC0001", "cents": 120_000, "lines": ["a", "b"]}}


class Asker(Worker):
    """Adds the approval calls to a worker."""

    def print_of(self, artifact: Any, *, step: int, policy: int = 0, schema: str | None = SCHEMA) -> str:
        return wire.digest({
            "artifact": artifact, "tool_schema": schema, "run": self.run, "branch": "", "step": step, "environment": self.environment, "policy": policy,
        })  # fmt: skip

    def ask(
        self,
        artifact: Any = PAY,
        *,
        step: int = 1,
        policy: int = 0,
        name: str = "a1",
        fingerprint: str | None = None,
        **more: Any,
    ) -> Any:
        line = self.line(
            "approval.requested", name="Pay the supplier", step=step, approval=name, artifact=artifact, versions={"tools": {"pay": SCHEMA}},
            fingerprint=fingerprint or self.print_of(artifact, step=step, policy=policy), **more,
        )  # fmt: skip
        return self.send("approvals", line)

    def use(
        self,
        artifact: Any = PAY,
        *,
        step: int = 2,
        name: str = "a1",
        key: str = "k",
        policy: int = 0,
        schema: str = SCHEMA,
        raw: str | None = None,
    ) -> Any:
        line = self.line(
            "tool.started", name=artifact["tool"], step=step, effect="write", key=key, approval=name, versions={"tools": {"pay": schema}},
            fingerprint=self.print_of(artifact, step=1, policy=policy, schema=schema), **{"in": artifact["args"]},
        )  # fmt: skip
        if raw is not None:
            line = line.replace(json.dumps(artifact["args"], separators=(",", ":")).encode(), raw.encode())
        return self.send(f"approvals/{name}/use", line)

    def send(self, path: str, line: bytes) -> Any:
        return self.http.post(
            f"/api/v1/runs/{self.key}/{path}", line, content_type="application/x-ndjson",
            headers={"Authorization": f"Bearer {self.secret}", "Drainboard-Epoch": str(self.epoch)},
        )  # fmt: skip

    def approval(self, name: str = "a1") -> Any:
        return self.http.get(
            f"/api/v1/runs/{self.key}/approvals/{name}", headers={"Authorization": f"Bearer {self.secret}"}
        ).json()
