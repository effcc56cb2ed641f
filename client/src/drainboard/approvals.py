"""Asking a person first: the request, the wait, the answer, and its single use."""

from __future__ import annotations

import secrets
import string
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from drainboard import errors, wire
from drainboard.replay import Step, Wanted
from drainboard.session import Session
from drainboard.steps import Block, Branch, Steps
from drainboard.values import plain, rfc3339

__all__ = ["Approval", "Ask", "approve", "fingerprint_of"]

Entry = Mapping[str, Any]
_ALPHABET = string.ascii_letters + string.digits


@dataclass(frozen=True)
class Ask:
    """What is put before the approver. Either `tool` and `args`, or an `artifact` that is no tool call."""

    title: str
    tool: str | None = None
    args: Any = None
    artifact: Any = wire.MISSING
    policy: str | None = None  # the policy's name where it is not the tool's
    expires: timedelta | datetime | float | None = None  # from now (seconds as a number), or the moment
    note: str | None = None
    requested_by: str | None = None

    def subject(self) -> Any:
        """The JSON that is hashed and shown. Raises `Ambiguous` for a value with more than one reading."""
        if (self.tool is None) == (self.artifact is wire.MISSING):
            raise errors.MisusedRun("run.approve needs either tool= and args=, or artifact=")
        made = plain({"tool": self.tool, "args": self.args} if self.tool is not None else self.artifact)
        wire.canonical(made)
        return made


@dataclass(frozen=True)
class Approval:
    """A yes for one artifact, to be used once: `run.tool(…, approval=a)`."""

    id: str
    fingerprint: str
    artifact: Any
    branch: str
    step: int
    policy: int  # version of the policy under which it was asked
    by: str | None = None
    comment: str | None = None

    def use(self, session: Session, start: Mapping[str, Any]) -> None:
        """Sends a tool's start together with the use of this approval, one transaction on the server.

        Raises `ApprovalMismatch` when what is about to run is not what was approved; nothing has run then.
        """
        line = session.line({**start, "approval": self.id, "fingerprint": self._about_to_run(session, start)})
        session.locked(
            lambda: session.client.post_line(session.key, f"/approvals/{self.id}/use", line, epoch=session.epoch)
        )

    def _about_to_run(self, session: Session, start: Mapping[str, Any]) -> str:
        if not (isinstance(self.artifact, dict) and set(self.artifact) == {"tool", "args"}):
            return self.fingerprint
        artifact = {"tool": start["name"], "args": start["in"]}
        return fingerprint_of(session, artifact, branch=self.branch, step=self.step, policy=self.policy)


def fingerprint_of(session: Session, artifact: Any, *, branch: str, step: int, policy: int) -> str:
    """SHA-256 over the canonical JSON of the artifact and everything that its approval is bound to."""
    tool = artifact.get("tool") if isinstance(artifact, dict) and set(artifact) == {"tool", "args"} else None
    return wire.digest(
        {
            "artifact": artifact,
            "tool_schema": session.versions.tools.get(tool) if isinstance(tool, str) else None,
            "run": session.run,
            "branch": branch,
            "step": step,
            "environment": session.environment,
            "policy": policy,
        }
    )


def approve(branch: Branch, ask: Ask) -> Steps:
    """One approval step: asks, parks, and on the way back gives the `Approval` or raises how it ended otherwise."""
    artifact = ask.subject()
    session = branch.session
    with branch.numbered(f"approve {ask.title}") as step:
        rec = session.recorded.visit(branch.path, step)
        session.agree(rec, Wanted(kind="approval", name=ask.title, branch=branch.path, step=step, in_=artifact))
        request = _last_request(rec)
        if request is not None and not _withdrawn(session, request):
            return (yield from _answer(branch, request, artifact))
        session.ready()
        answer = yield Block(lambda: _request(branch, step, ask, artifact, attempt=rec.attempts + 1 if rec else 1))
        raise errors.Parked(f"approval:{answer['id']}")


def _request(branch: Branch, step: int, ask: Ask, artifact: Any, *, attempt: int) -> Mapping[str, Any]:
    session = branch.session
    policy = int(session.policies.get(ask.policy or ask.tool or "", 0))
    fields: dict[str, Any] = {
        "kind": "approval.requested",
        "name": ask.title,
        **branch.place(step),
        "approval": "a" + "".join(secrets.choice(_ALPHABET) for _ in range(21)),
        "artifact": artifact,
        "versions": session.versions.as_json(),
        "attempt": attempt if attempt > 1 else None,
        "expires_at": _moment(session, ask.expires),
        "requested_by": ask.requested_by,
        "note": ask.note,
        "policy_name": ask.policy,
    }
    fields = {name: got for name, got in fields.items() if got is not None}

    def post(policy: int) -> Mapping[str, Any]:
        fingerprint = fingerprint_of(session, artifact, branch=branch.path, step=step, policy=policy)
        line = session.line({**fields, "fingerprint": fingerprint, "policy": policy})
        return session.client.post_line(session.key, "/approvals", line, epoch=session.epoch)

    def ask_once_more() -> Mapping[str, Any]:
        try:
            return post(policy)
        except errors.ApprovalMismatch as e:  # the policy changed since this run was opened
            now = e.detail.get("policy")
            if not isinstance(now, int) or now == policy:
                raise
            return post(now)

    got: Mapping[str, Any] = session.locked(ask_once_more)
    return got


def _answer(branch: Branch, request: Entry, artifact: Any) -> Steps:
    session = branch.session
    approval = str(request["approval"])
    told = [e for e in session.recorded.approval(approval) if str(e["kind"]).startswith("approval.")]
    kinds = {str(e["kind"]): e for e in told}
    decided = kinds.get("approval.decided") or kinds.get("approval.sent_back")
    if decided is None and "approval.expired" in kinds:
        raise errors.ApprovalExpired(
            f"approval {approval} expired before anybody decided", approval=approval, by=None, comment=None
        )
    if decided is None:
        session.ready()
        raise errors.Parked(f"approval:{approval}")
    by, comment = decided.get("by"), decided.get("comment") or decided.get("reason")
    _raise_unless_yes(approval, decided, by, comment)
    if "approval.delivered" not in kinds and "approval.used" not in kinds:
        session.ready()
        yield Block(
            lambda: session.locked(
                lambda: session.client.run_call(session.key, f"/approvals/{approval}/deliver", {"epoch": session.epoch})
            )
        )
    return Approval(
        id=approval,
        fingerprint=str(request.get("fingerprint")),
        artifact=artifact,
        branch=branch.path,
        step=int(request["step"]),
        policy=int(request.get("policy") or 0),
        by=by,
        comment=comment,
    )


def _raise_unless_yes(approval: str, decided: Entry, by: str | None, comment: str | None) -> None:
    decision = decided.get("decision") or ("send_back" if decided["kind"] == "approval.sent_back" else "")
    if decision == "approve":
        return
    kind, word = (
        (errors.ApprovalSentBack, "sent back") if decision == "send_back" else (errors.ApprovalDenied, "denied")
    )
    message = f"approval {approval} was {word} by {by}: {comment or 'no reason given'}"
    raise kind(message, approval=approval, by=by, comment=comment)


def _last_request(rec: Step | None) -> Entry | None:
    return next((e for e in reversed(rec.entries) if e["kind"] == "approval.requested"), None) if rec else None


def _withdrawn(session: Session, request: Entry) -> bool:
    kinds = {e["kind"] for e in session.recorded.approval(str(request["approval"]))}
    return "approval.withdrawn" in kinds and "approval.used" not in kinds


def _moment(session: Session, expires: timedelta | datetime | float | None) -> str | None:
    if expires is None or isinstance(expires, datetime):
        return None if expires is None else rfc3339(expires)
    return rfc3339(session.now() + (expires if isinstance(expires, timedelta) else timedelta(seconds=expires)))
