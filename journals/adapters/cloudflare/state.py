"""What one export says about an instance as a whole: the content of its `runtime.state` note."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from drainboard import wire

from journals.adapters.base import Line
from journals.adapters.cloudflare.lines import is_approval, sortable
from journals.adapters.cloudflare.model import OVER, STATUSES, Step, View, failure
from journals.adapters.names import kind_of, said

FORM = "instance"
"""Answer and log list the same records of the main line, so what they held can be compared."""


def state_line(views: Sequence[View], held: Iterable[str]) -> Line:
    """The note of one moment: an instance in one export, or in two forms that stand side by side (the answer comes first)."""
    out = state_of(views, held)
    made = {"id": f"state:{wire.digest_bytes(wire.encode(out))[7:19]}", "at": out["as_of"], "kind": "note",
            "name": "runtime.state", "out": out}  # fmt: skip
    view = views[0]
    return Line(
        view.run,
        wire.dump({"run": view.run, **{k: v for k, v in made.items() if v is not None}}),
        view.record,
        view.path,
    )


def state_of(views: Sequence[View], held: Iterable[str]) -> dict[str, Any]:
    """The `out` of the note."""
    view = views[0]
    whole = view.whole
    over = view.status in OVER
    going = [step for step in view.main if step.done is None] if not over else []
    waiting = [_waiting(step, views) for step in going if step.type != "step"]
    pending = [_pending(step, views) for step in going if step.type == "step"]
    status = STATUSES.get(view.status, "unknown")
    if view.torn and over:
        status = "unknown"
    elif status == "running" and whole and waiting and not pending and view.status in ("running", "waiting"):
        status = "parked"
    elif status == "parked" and pending and not waiting:
        status = "running"
    made: dict[str, Any] = {
        "runtime_status": view.status or None,
        "status": status,
        "complete": over and whole,
        "as_of": max((t for v in views for t in v.times()), key=sortable, default=None),
        "pending": pending if whole else None,
        "waiting": waiting if whole or view.form != "item" else None,
        "loop": None,
        "stranded": None,
        "stuck": None,
        "build": next((v.version for v in views if v.version), None),
        "tries_recorded": whole,
        "steps": len(view.main),
        "last_step": None if whole else max([view.count or 0, *(step.number for step in view.main)]),
        "used": {"steps": max(sum(step.type != "sleep" for step in view.main), 0 if whole else view.count or 0)},
        "held": None,
        "doubles": None,
        **_about(views),
    }
    if not whole and not over:
        made["pending"] = None
        made["steps_exported"] = bool(view.main)
    if view.form != "item":
        made["held"] = {"form": FORM, "whole": whole, "ids": sorted(held)}
    if view.form == "item":
        del made["tries_recorded"], made["used"], made["steps"], made["last_step"], made["waiting"]
        made["steps_exported"] = False
    rewound = next((v.rewound for v in views if v.rewound is not None), None)
    if rewound is not None:
        made["restarted"] = {"at": rewound or None}
        made["doubles"] = [_double(step) for step in view.main if _again(step, rewound)]
    return made


def _about(views: Sequence[View]) -> dict[str, Any]:
    """Trigger, schedule, rollback and what else the forms say about the instance."""
    made: dict[str, Any] = {}
    for view in reversed(views):
        made.update(view.about)
    return made


def _pending(step: Step, views: Sequence[View]) -> dict[str, Any]:
    """A step that has begun and has no result. Between two attempts it backs off; the next one has not begun then."""
    failed = [a for a in step.attempts if a.success is False]
    last = failed[-1] if failed else None
    attempts = len(step.attempts)
    backing = bool(step.attempts) and step.attempts[-1].success is False
    made = {
        "branch": step.branch,
        "step": step.number,
        "name": step.plain,
        "kind": kind_of(step.plain),
        "attempt": attempts + 1 if backing else max(attempts, 1),
        "state": "backing_off" if backing else "started",
        "last_failure": failure(last.error) if last else None,
        "last_started_at": next((a.start for a in reversed(step.attempts) if a.start), step.start),
    }
    if backing:
        made["retry_at"] = _until(step, views)
        made["retries_limit"] = _limit(step)
    return made


def _limit(step: Step) -> Any:
    retries = step.config.get("retries") if isinstance(step.config, Mapping) else None
    return retries.get("limit") if isinstance(retries, Mapping) else None


def _waiting(step: Step, views: Sequence[View]) -> dict[str, Any]:
    event = step.event or next((v.events[step.name] for v in views if step.name in v.events), "")
    until = _until(step, views)
    if step.type == "sleep" and views[0].status == "paused":  # a pause stops its clock, so no time ends it
        what, until = f"timer:{step.plain}", None
    elif step.type == "sleep":
        what = "timer"
    elif is_approval(step):
        what = f"approval:{step.name}"
    else:
        what = f"signal:{event or '?'}"
    return {
        "branch": step.branch,
        "step": step.number,
        "what": what,
        "name": step.plain,
        "event_type": event or None,
        "until": until,
        "since": step.start,
    }


def _until(step: Step, views: Sequence[View]) -> str | None:
    return next((v.until[step.name] for v in views if step.name in v.until), None)


def _again(step: Step, since: str) -> bool:
    """Whether a step began after the instance was restarted: it may have run in the earlier life too."""
    if step.type != "step":
        return False
    return step.start is None or sortable(step.start) >= sortable(since)


def _double(step: Step) -> dict[str, Any]:
    return {"branch": "", "step": step.number, "name": step.plain, **said(step.plain), "why": "resumed", "other": None}
