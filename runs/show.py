"""The machine-readable answer about one run: `manage.py show_run --json`, `GET /api/v1/runs/{key}`. Shape: `docs/show-run.schema.json`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from journals import store
from runs import guide, projection
from runs.models import Run, Step
from runs.safe import shown, unpacked

__all__ = ["as_text", "show"]


def show(head_id: int) -> dict[str, Any]:
    """The run as its journal stands now: it is folded first if it is behind. Raises `UnknownRun`."""
    projection.catch_up([head_id])
    run = Run.objects.filter(pk=head_id).first() or projection.fold(head_id)
    summary = unpacked(run.summary)
    return {
        "run": store.head(head_id).run,
        "source": run.source,
        "key": run.key,
        "runtime": run.runtime,
        "agent": store.decode_text(run.agent),
        "environment": store.decode_text(run.environment),
        "status": run.status,
        "runtime_status": store.decode_text(run.runtime_status) or None,
        "complete": run.complete,
        "build": store.decode_text(run.build) or None,
        "pinned_to": store.decode_text(run.pinned_to) or None,
        "parked_on": store.decode_text(run.parked_on) or None,
        "parked_since": stamp(run.parked_since),
        "wakes_at": stamp(run.wake_at),
        "parent": store.decode_text(run.parent) or None,
        "started_at": stamp(run.started_at),
        "ended_at": stamp(run.ended_at),
        "last_at": stamp(run.last_at),
        "entries": run.entries,
        "bytes": run.bytes,
        "steps": list(_steps(run)),
        "gaps": summary["gaps"],
        "findings": [{**f, "docs": guide.url_of(f["code"])} for f in summary["findings"]],
        "limits": summary.get("limits", []),
        "approvals": summary["approvals"],
        "decisions": summary["decisions"],
        "versions": summary["versions"],
    }


def stamp(at: datetime | None) -> str | None:
    """RFC 3339 in UTC, or None."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z") if at else None


def _steps(run: Run) -> Iterator[dict[str, Any]]:
    for step in Step.objects.filter(run=run).order_by("ord").iterator(chunk_size=2_000):
        yield {
            "branch": store.decode_text(step.branch),
            "step": step.step,
            "kind": step.kind or None,
            "name": store.decode_text(step.name) if step.name is not None else None,
            "status": step.status,
            "attempts": step.attempts,
            "effect": step.effect,
            "key": store.decode_text(step.key) if step.key is not None else None,
            "verdict": step.verdict,
            "confidence": step.confidence,
            "effects": step.effects,
            "versions": unpacked(step.versions),
            "entries": list(step.entries),
            "first_at": stamp(step.first_at),
            "last_at": stamp(step.last_at),
            "error": step.error or None,
        }


def as_text(made: dict[str, Any]) -> str:
    """The same for people: plain text without control characters, one line per step and finding."""
    lines = [
        f"run        {made['run']}",
        f"source     {made['source']}  ({made['runtime']}, key {made['key']})",
        f"agent      {made['agent']}{f' in {env}' if (env := made['environment']) else ''}",
        f"status     {made['status']}{_own_word(made)}{', complete' if made['complete'] else ''}{_waits(made)}",
        f"build      {made['build'] or 'not known'}{f', pinned to {pin}' if (pin := made['pinned_to']) else ''}",
        f"started    {made['started_at'] or 'not known'}   ended {made['ended_at'] or 'not yet, or not known'}",
        f"entries    {made['entries']:,}  ({made['bytes']:,} bytes){', without the notes of imports' if made['runtime'] != 'native' else ''}",
    ]
    lines += ["", "gaps"] + [_gap_line(g) for g in made["gaps"]] if made["gaps"] else []
    lines += (
        ["", "findings"] + [f"  {f['severity']:<8} {f['code']}: {f['message']}" for f in made["findings"]]
        if made["findings"]
        else []
    )
    lines += ["", "steps"] + [_step_line(s) for s in made["steps"]]
    lines += ["", "approvals"] + [_approval_line(a) for a in made["approvals"]] if made["approvals"] else []
    lines += ["", "decisions"] + [_decision_line(d) for d in made["decisions"]] if made["decisions"] else []
    return "\n".join(shown(line) for line in lines)


def _own_word(made: dict[str, Any]) -> str:
    return f" (the runtime says {made['runtime_status']})" if made["runtime_status"] else ""


def _waits(made: dict[str, Any]) -> str:
    until = f" until {made['wakes_at']}" if made["wakes_at"] else ""
    return f", waits for {made['parked_on']}{until}" if made["parked_on"] else ""


def _place(item: dict[str, Any]) -> str:
    number = "?" if item["step"] is None else item["step"]
    return f"{item['branch']}:{number}" if item["branch"] else str(number)


def _gap_line(gap: dict[str, Any]) -> str:
    return f"  {_place(gap):>6}  {gap['name'] or '(no name)'}: {gap['verdict']}, {gap['confidence']}. {gap['reason']}"


def _step_line(step: dict[str, Any]) -> str:
    tries = f" x{step['attempts']}" if step["attempts"] > 1 else ""
    name = step["name"] if step["name"] else "(no name)"
    return f"  {_place(step):>6}  {step['kind'] or '?':<8} {name:<28} {step['status']}{tries}  {step['verdict']} ({step['confidence']}), effects {step['effects']}"


def _approval_line(approval: dict[str, Any]) -> str:
    who = f" by {approval['decided_by']} at {approval['decided_at']}" if approval["decided_by"] else ""
    return f"  {approval['id']}  {approval['state']}{who}  {approval['fingerprint'] or ''}"


def _decision_line(decision: dict[str, Any]) -> str:
    return f"  {decision['at'] or ''}  {decision['kind']} by {decision['by'] or 'somebody'}: {decision['reason'] or ''}"
