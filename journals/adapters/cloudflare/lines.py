"""Journal lines of one instance in one export.

The answer of the API and the local log give byte-equal lines for what both tell, with ids made of the step's name, the attempt and
the recorded time. So one run has one set of entries whatever form it came in, and a restart, which begins the same attempts again
at other times, adds entries to those of the earlier life instead of contradicting them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from drainboard import wire

from journals.adapters.base import Line, Options
from journals.adapters.cloudflare.answer import cut
from journals.adapters.cloudflare.model import OVER, Attempt, Step, View, failure
from journals.adapters.names import effect_of, kind_of, version_shape, versions_at
from journals.adapters.values import opaque, text

ENDS: Final = {"complete": "run.completed", "errored": "run.failed", "terminated": "run.stopped"}
APPROVAL: Final = re.compile(r"approv|sign.?off|confirmation|human|review", re.IGNORECASE)
"""Names of waits that plainly wait for a person's decision; others wait for a signal."""

VERSION_PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "app": ("/versionId",),
    "prompt": ("/params/prompt_version", "/params/versions/prompt_version", "/params/versions/prompt"),
    "model": ("/params/model", "/params/versions/model"),
    "tools": ("/params/tool_schema", "/params/versions/tool_schema", "/params/versions/tools"),
}
"""Where versions of a run are looked for: JSON pointers into `{versionId, params}`."""

STEP_PLACES: Final[Mapping[str, tuple[str, ...]]] = {"prompt": ("/prompt_version",), "tools": ("/tool_schema",)}
"""The same for the output of a model step."""


@dataclass(slots=True, kw_only=True)
class Placed:
    """A line, where it stands in the order of the run, and whether the answer of the API has it too."""

    at: str
    step: int
    phase: int
    line: Line
    id: str
    shared: bool = True


def is_approval(step: Step) -> bool:
    """Whether a wait is one for a decision, by its name alone: the local answer does not tell the event's type."""
    return bool(APPROVAL.search(step.plain))


def lines_of(view: View, options: Options) -> list[Placed]:
    """The lines of an instance without its state, in the order of their times."""
    maker = _Maker(view, options)
    maker.run()
    made = maker.made
    made.sort(key=lambda placed: (placed.at, placed.step, placed.phase))
    return made


class _Maker:
    def __init__(self, view: View, options: Options) -> None:
        self.view, self.options = view, options
        self.made: list[Placed] = []
        self.last = ""

    def add(
        self, fields: Mapping[str, Any], record: str, *, phase: int, step: int = 0, shared: bool = True,
        oddities: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        """One line. Absent fields are dropped; a time that is not known takes the place of the time before it."""
        view = self.view
        kept = {k: v for k, v in fields.items() if v is not wire.MISSING and (v is not None or k in ("in", "out"))}
        odd = tuple(o for o in oddities if o in ("too_deep", "non_standard_json", "not_utf8"))
        try:
            raw = wire.dump({"run": view.run, **kept})
        except wire.Ambiguous:  # NaN
            raw, odd = wire.dump({"run": view.run, **{k: _standard(v) for k, v in kept.items()}}), ("opaque_payload",)
        at = kept.get("at") or self.last
        self.last = at
        line = Line(view.run, raw, record, view.path, odd)
        self.made.append(Placed(at=sortable(at), step=step, phase=phase, line=line, id=str(kept["id"]), shared=shared))

    def run(self) -> None:
        view = self.view
        if view.queued is not None or view.params is not wire.MISSING:
            self._started()
        if view.start is not None:
            self.add(
                {"id": f"start@{view.start}", "at": view.start, "kind": "note", "name": "workflow.start"},
                view.record,
                phase=1,
            )
        for step in view.steps:
            self.last = step.start or self.last
            if step.type == "sleep":
                self._sleep(step)
            elif step.type == "waitForEvent":
                self._wait(step)
            else:
                self._work(step)
            if step.more:
                self.add(
                    {**_at(step, "members", step.start, step.start), "kind": "note", "name": "step.members", "out": step.more},
                    step.record, phase=2, step=step.number, shared=False,
                )  # fmt: skip
        self._extras()
        if view.status in OVER and not view.torn:
            self._ended()

    def _extras(self) -> None:
        view = self.view
        for extra in view.extras:
            fields = {
                "id": extra.id,
                "at": extra.at,
                "kind": "note",
                "name": extra.name,
                "out": extra.out,
                "until": extra.until,
            }
            if extra.step is not None:
                fields |= {
                    "step": extra.step.number,
                    "branch": extra.step.branch or None,
                    "call": extra.step.name if not extra.step.branch else f"rollback:{extra.step.name}",
                }
            if extra.out is None:
                del fields["out"]
            self.add(fields, extra.record, phase=4, step=extra.step.number if extra.step else 10**6, shared=False)

    def _started(self) -> None:
        view, options = self.view, self.options
        agent = options.agent or view.agent
        document = {"versionId": view.version, "params": None if view.params is wire.MISSING else view.params}
        versions = versions_at(document, VERSION_PLACES)
        moving = [agent, view.version, options.environment, versions]
        self.add(
            {
                "id": f"run@{view.queued or '?'}:{wire.digest_bytes(wire.encode(moving))[7:15]}",
                "at": view.queued,
                "kind": "run.started",
                "agent": agent or None,
                "build": view.version,
                "environment": options.environment or None,
                "name": view.agent or None,
                "versions": versions or None,
                "in": view.params,
            },
            view.record,
            phase=0,
            oddities=view.oddities,
        )

    def _ended(self) -> None:
        view = self.view
        kind = ENDS[view.status]
        made: dict[str, Any] = {"id": f"end:{view.status}@{view.end or '?'}", "at": view.end, "kind": kind}
        if kind == "run.completed":
            made["out"] = None if view.output is wire.MISSING else view.output
            made["versions"] = _worker_version(view.output) if view.version is None else None
            made["truncated"] = True if view.cloud and cut(view.output) else None
        elif view.error is not None:
            made["error"] = failure(view.error)
        self.add(made, view.record, phase=9, step=10**7, oddities=view.oddities)

    def _sleep(self, step: Step) -> None:
        made = {**_at(step, "start", step.start, step.start), "kind": "timer.started"}
        self.add(made, step.record, phase=2, step=step.number)
        if step.done is not None:
            made = {**_at(step, "end", step.end, step.end), "kind": "timer.fired"}
            if step.error is not None:
                made |= {"outcome": "failed", "error": failure(step.error)}
            self.add(made, step.record, phase=3, step=step.number)

    def _wait(self, step: Step) -> None:
        """A wait for an event. One for a decision is an approval; another one is a signal, or a time that ran out."""
        approval = is_approval(step)
        event = step.event or None
        asked = {**_at(step, "start", step.start, step.start), "event_type": event}
        if approval:
            asked |= {"kind": "approval.requested", "approval": step.name}
        else:
            asked |= {"kind": "note", "name": "wait.started", "waits_for": step.plain}
        self.add(asked, step.record, phase=2, step=step.number)
        if step.done is None:
            return
        made = {**_at(step, "end", step.end, step.end)}
        if step.error is not None:
            kind = "approval.expired" if approval else "timer.fired"
            made |= {"kind": kind, "outcome": "timed_out", "error": failure(step.error)}
        else:
            out = _sorted(step.output) if isinstance(step.output, Mapping) else step.output
            made |= {"kind": "approval.decided" if approval else "signal.received", "out": out}
            if approval:
                made |= decision_of(out)
        if approval:
            made["approval"] = step.name
        self.add(made, step.record, phase=3, step=step.number, oddities=step.oddities)

    def _work(self, step: Step) -> None:
        kind = kind_of(step.plain) if step.type == "step" else "tool"
        kind = kind if kind in ("model", "tool", "child", "value") else "tool"
        for n, attempt in enumerate(step.attempts, 1):
            self._attempt(step, kind, n, attempt)
        attempts = len(step.attempts)
        if not attempts and step.done is None:
            self._begun(step, kind, 1, Attempt(start=step.start))
        if step.done:
            self._result(
                step, kind, next((n for n in range(attempts, 0, -1) if step.attempts[n - 1].success), attempts or 1)
            )
        elif step.done is False:
            if not attempts or step.attempts[-1].success is not False:
                given = failure(step.error) or {"message": "the step failed; its error is not recorded"}
                self._failed(step, kind, attempts or 1, Attempt(end=step.end, error=given))
            made = {
                **_at(step, "failed", step.end, step.end),
                "kind": "note",
                "name": "step.failed",
                "attempts": attempts,
            }
            self.add(made, step.record, phase=3, step=step.number)

    def _attempt(self, step: Step, kind: str, n: int, attempt: Attempt) -> None:
        if attempt.start is not None:
            self._begun(step, kind, n, attempt)
        if attempt.success is False:
            self._failed(step, kind, n, attempt)
        elif attempt.success and step.done is None:  # it acted, and what came of it is not recorded
            made = {
                **_at(step, f"{n}:succeeded", attempt.end, attempt.end),
                "kind": "note",
                "name": "attempt.succeeded",
            }
            self.add({**made, "attempt": n}, step.record, phase=3, step=step.number, shared=False)

    def _begun(self, step: Step, kind: str, n: int, attempt: Attempt) -> None:
        made = {
            **_at(step, f"{n}:start", attempt.start, attempt.start),
            "kind": "note" if kind == "value" else f"{kind}.started",
            "attempt": n,
            "effect": effect_of(step.plain) if kind != "value" else None,
            "config": _sorted(step.config) if n == 1 else None,
        }
        self.add(made, step.record, phase=2, step=step.number)

    def _failed(self, step: Step, kind: str, n: int, attempt: Attempt) -> None:
        made = {
            **_at(step, f"{n}:error", attempt.end, attempt.end),
            "kind": "note" if kind == "value" else f"{kind}.error",
            "attempt": n,
            "effect": effect_of(step.plain) if kind != "value" else None,
            "error": failure(attempt.error) or {"message": "the error is not recorded"},
        }
        self.add(made, step.record, phase=3, step=step.number)

    def _result(self, step: Step, kind: str, n: int) -> None:
        out = None if step.output is wire.MISSING else step.output
        made = {
            **_at(step, f"{n}:result", step.end, step.end),
            "kind": f"{kind}.result",
            "attempt": n,
            "effect": effect_of(step.plain) if kind != "value" else None,
            "started_at": None if step.attempts else step.start,
            "out": out,
            "truncated": True if self.view.cloud and cut(out) else None,
        }
        if kind == "model" and isinstance(out, Mapping):
            made |= {
                "model_reported": text(out, "model"),
                "usage": out.get("usage"),
                "versions": versions_at(out, STEP_PLACES) or None,
            }
        self.add(made, step.record, phase=3, step=step.number, oddities=step.oddities)


def _at(step: Step, what: str, time: str | None, at: str | None) -> dict[str, Any]:
    """Identity and place of a line of a step."""
    prefix = "rollback:" if step.branch else ""
    return {
        "id": f"{prefix}{step.name}:{what}@{time or '?'}",
        "at": at,
        "kind": "",
        "name": step.plain,
        "step": step.number,
        "branch": step.branch or None,
        "call": f"{prefix}{step.name}",
    }


def decision_of(out: Any) -> dict[str, Any]:
    """What the payload of an event says about a decision; a claim of the file. Only plain words count."""
    payload = out.get("payload") if isinstance(out, Mapping) else None
    if not isinstance(payload, Mapping):
        return {}
    approved, said = payload.get("approved"), payload.get("decision")
    made: dict[str, Any] = {}
    if isinstance(approved, bool):
        made["decision"] = "approve" if approved else "reject"
    elif said in wire.APPROVAL_DECISIONS:
        made["decision"] = said
    if by := text(payload, "by"):
        made["by"] = by
    return made


def _worker_version(out: Any) -> dict[str, Any] | None:
    """The version of the Worker that ended the run, where the code returns its CF_VERSION_METADATA (`{id, tag, timestamp}`)."""
    for value in out.values() if isinstance(out, Mapping) else ():
        if isinstance(value, Mapping) and value.keys() == {"id", "tag", "timestamp"}:
            app = version_shape("app", value["id"])
            return {"app": app} if app else None
    return None


def _sorted(value: Any) -> Any:
    """The value with the members of its objects in order of their names, two levels deep."""
    if not isinstance(value, Mapping):
        return value
    return {
        k: {n: v[n] for n in sorted(v)} if isinstance(v, Mapping) and k != "payload" else v
        for k, v in sorted(value.items())
    }


def sortable(at: str) -> str:
    """A time in UTC as text that sorts: the fraction is filled up."""
    whole, _, fraction = at.removesuffix("Z").partition(".")
    return f"{whole}.{fraction:0<9}" if at else ""


def _standard(value: Any) -> Any:
    try:
        wire.encode(value)
    except wire.Ambiguous:
        return opaque(json.dumps(value), form="json with NaN")
    return value


def unique(made: Iterator[Placed]) -> Iterator[Placed]:
    """Lines that are not the same as one before."""
    seen: set[tuple[str, bytes]] = set()
    for placed in made:
        if (placed.id, placed.line.raw) not in seen:
            seen.add((placed.id, placed.line.raw))
            yield placed
