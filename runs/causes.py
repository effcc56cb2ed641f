"""Why a run is where it is, in the words of its own journal: what the top of its page says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from drainboard import wire

from journals import store
from runs import controls
from runs.approvals import foreign
from runs.models import Run, Step
from runs.page import OpenEntry, number_of, part
from runs.pretty import pretty

GAPS: Final = 3  # cards; more are counted and linked


def tag_of(run: Run) -> str:
    """Changes when anything of the run's header changes."""
    return f"{run.folded_pos}-{run.status}-{run.worker}-{int(run.lease_until.timestamp()) if run.lease_until else ''}"


def gap_facts(run: Run, gap: Mapping[str, Any]) -> dict[str, Any]:
    """When a gap's step was started, and its place in the list of steps."""
    if gap.get("step") is None:
        return {"started_at": None, "ord": None}
    found = Step.objects.filter(run=run, branch=gap.get("branch") or "", step=int(gap["step"])).order_by("-ord").first()
    return {"started_at": found.first_at if found else None, "ord": found.ord if found else None}


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a run is where it is: one sentence, and the trace or detail behind it."""

    mean: str
    title: str
    text: str
    trace: str = ""
    ord: int | None = None  # the step to look at
    step: str = ""
    entry: int | None = None
    commands: Sequence[controls.Command] = ()  # what somebody has to type elsewhere
    code: str = ""  # the finding that says it


_TOLD_BY: Final = {
    "stuck": ("stuck_task",),
    "unknown": ("torn_tail", "missing_entry", "parent_missing", "encrypted_payload"),
    "running": ("stranded",),
    "parked": ("stranded",),
}


def cause(run: Run) -> Cause | None:
    """Why a run is where it is, where that needs saying: failed, held, stopping or stopped, stuck, stranded, not understood;
    or decided on here and not carried out by its runtime."""
    if (asked := controls.asked(run)) is not None:
        return Cause(mean="attention", title=asked.title, text=asked.text, entry=asked.number, commands=asked.commands)
    if (untold := _untold(run)) is not None:
        return untold
    if run.status == "failed":
        return _failure(run)
    if run.status == "held":
        return _hold(run)
    if run.status in ("stopping", "stopped"):
        return _stop(run)
    for finding in part(run, "findings"):
        if finding.get("code") in _TOLD_BY.get(run.status, ()):
            first = next(iter(finding.get("entries") or []), None)
            return Cause(
                mean="attention",
                title=finding["code"].replace("_", " ").capitalize(),
                text=str(finding.get("message", "")),
                entry=first,
                code=finding["code"],
            )
    return None


def _untold(run: Run) -> Cause | None:
    """Decisions about the run's requests that are recorded here and that no import shows its runtime to have."""
    here = [a["here"] for a in part(run, "approvals") if (a.get("here") or {}).get("told") is False]
    if run.native or not run.in_flight or not here:
        return None
    head = store.head(run.head_id)
    calls = foreign.replies(head, foreign.requests(head))
    one = len(here) == 1
    return Cause(
        mean="attention",
        title=f"{len(here)} decision{'' if one else 's'} recorded here, not told to its runtime",
        text="Drainboard sends nothing, and no import shows that the runtime has "
        + ("it." if one else "them.")
        + (
            "" if len(calls) == 1 and not calls[0].missing else " What to tell it stands on the pages of the approvals."
        ),
        commands=calls[0].commands if len(calls) == 1 else (),
    )


def _hold(run: Run) -> Cause:
    last = _last_of(run, "run.held")
    if last is None:
        return Cause(
            mean="attention",
            title="Held",
            text=_held_until(run),
        )
    entry = last.stored.entry
    detail = entry.extra.get("detail", entry.out if entry.out is not wire.MISSING else "")
    text, trace = (detail, "") if isinstance(detail, str) else error_text(detail)
    if not isinstance(detail, str) and not trace:
        trace = "".join(piece.text for piece in pretty(wire.encode(detail), limit=None).pieces)
    return Cause(
        mean="attention",
        title=f"Held: {entry.reason or 'no reason recorded'}",
        text=text or _held_until(run),
        trace=trace,
        entry=last.stored.number,
    )


def _held_until(run: Run) -> str:
    if run.native:
        return "No worker may take this run until a person releases, moves or stops it."
    return f"Its own runtime ({run.runtime}) holds this run, and it is released there; nothing here can do it."


def _stop(run: Run) -> Cause:
    head = store.head(run.head_id)
    asked = _last_of(run, "stop.requested") or _last_of(run, "run.stopped")
    by = f" Asked for by {asked.stored.entry.by}." if asked and asked.stored.entry.by else ""
    name = head.stop_name or (asked.stored.entry.reason if asked else "") or "no name recorded"
    follows = "" if run.status == "stopped" else " It takes effect at the next step."
    return Cause(
        mean="plain" if run.status == "stopped" else "waiting",
        title=f"{'Stopped' if run.status == 'stopped' else 'Stopping'}: {name}",
        text=f"{head.stop_message or 'No message was given.'}{by}{follows}",
        entry=asked.stored.number if asked else None,
    )


def _failure(run: Run) -> Cause:
    last = _last_of(run, "run.failed")
    error = last.stored.entry.error if last else wire.MISSING
    step = Step.objects.filter(run=run, status="error").order_by("-ord").first()
    text, trace = error_text(error)
    return Cause(
        mean="broken",
        title="Failed",
        text=text or (step.error if step else "") or "The journal names no error.",
        trace=trace,
        ord=step.ord if step else None,
        step=f"step {number_of(step.branch, step.step)} {step.name}" if step else "",
        entry=last.stored.number if last else None,
    )


def _last_of(run: Run, kind: str) -> OpenEntry | None:
    """The last of the run's final 50 entries that has this kind."""
    head = store.head(run.head_id)
    found = [e for e in store.read(run.head_id, after=max(head.pos - 50, 0)) if e.kind == kind]
    return OpenEntry.of(found[-1]) if found else None


def error_text(error: Any) -> tuple[str, str]:
    """One sentence, and what lies behind it, out of a recorded error of any shape. The innermost cause comes first."""
    if isinstance(error, str):
        first, _, rest = error.partition("\n")
        return first, rest
    if not isinstance(error, Mapping):
        return "", ""
    inner, depth = error, 0
    while isinstance(inner.get("cause"), Mapping) and depth < 20:
        inner, depth = inner["cause"], depth + 1
    kind, message = inner.get("type"), inner.get("message")
    first, _, rest = str(message or "").partition("\n")
    text = f"{kind}: {first}" if kind and first else first or str(kind or "")
    trace = next((str(inner[k]) for k in ("trace", "traceback", "stack_trace", "stackTrace") if inner.get(k)), "")
    return text, "\n".join(t for t in (rest, trace) if t)
