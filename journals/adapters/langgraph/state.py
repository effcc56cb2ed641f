"""What a LangGraph export says about a thread as a whole: the content of its `runtime.state` note.

A node leaves a record only when it has ended. What a checkpoint starts is known, so `pending` names the nodes that are due and
have no record: in flight, not begun, or dead, which the tables cannot tell apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from drainboard import wire

from journals.adapters.base import Line, Options
from journals.adapters.langgraph.asked import questions
from journals.adapters.langgraph.forms import Checkpoint, Group
from journals.adapters.langgraph.kinds import kind, shown_name, tool_calls, versions_of
from journals.adapters.langgraph.lines import Lines, build_of
from journals.adapters.langgraph.thread import Item, Place, Stage, Thread
from journals.adapters.names import said as named
from journals.adapters.values import text

_SERVER = {"idle": "completed", "busy": "running", "error": "failed"}


@dataclass(frozen=True, slots=True)
class Ground:
    """What the note is made of."""

    thread: Thread
    lines: Lines
    group: Group
    options: Options
    told: Mapping[str, Any]  # the server's word on the thread
    ids: Sequence[str]  # of the run's entries in this export

    @property
    def whole(self) -> bool:
        return self.thread.begun and not self.group.torn and not self.group.lost


def state_of(ground: Ground) -> dict[str, Any]:
    """The `out` of the note."""
    thread, told = ground.thread, ground.told
    open_items = list(_open(ground))
    waiting = [w for item in open_items if item.asks for w in _waits(ground, item)] or _told_waiting(told)
    pending = [_pending(ground, i) for i in open_items if not i.asks and not _failed(i)] + list(_following(ground))
    status = _status(ground, open_items, waiting)
    known = thread.tip is not None
    over = status in ("completed", "failed", "cancelled")
    first = min((s.number for s in thread.stages if s.branch == "" and s.items), default=1)
    made: dict[str, Any] = {
        "runtime_status": text(told, "status"),
        "status": status,
        "complete": over and ground.whole and known,
        "as_of": _as_of(ground),
        "pending": pending if known else None,
        "waiting": waiting if known or waiting else None,
        "doubles": _doubles(ground)
        or ([] if ground.group.form == "tables" else None),  # a history shows no second invocation
        "again": _again(ground),
        "tries_recorded": False,
        "clock": "in_order",
        "begins": first if first > 1 and not thread.begun else None,
        "last_step": max(
            (s.number for s in thread.stages if s.branch == "" and any(i.done for i in s.items)), default=0
        ),
        "build": build_of(versions_of(thread.tip.metadata)) if thread.tip else None,
        "checkpoint": thread.tip.id if thread.tip else None,
        "error": told.get("error") or None,
        "server_runs": [
            {k: r.get(k) for k in ("run_id", "status", "assistant_id")}
            for r in ground.group.server_runs.get(thread.id, ())
        ]
        or None,
        "held": {"form": ground.group.form, "whole": ground.whole, "ids": sorted(set(ground.ids))} if known else None,
    }
    if thread.again and thread.head is not None:
        made["resumes_from"] = {"checkpoint": thread.head.id, "latest": thread.tip.id if thread.tip else None}
    losses = [
        {"code": c, "reason": r}
        for c, r in (("torn_tail", ground.group.torn), ("missing_entry", ground.group.lost))
        if r
    ]
    if losses:
        made |= {"losses": losses, "complete": False}
    if not known:
        made["partial"] = "the export holds no checkpoint of the thread's main graph"
    return {k: v for k, v in made.items() if v is not None}


def state_line(ground: Ground, path: str, record: str) -> Line:
    out = state_of(ground)
    try:
        mark = wire.digest(out)[7:19]
    except wire.Ambiguous:
        mark = wire.digest_bytes(wire.encode(out))[7:19]
    made = {
        "run": ground.thread.id,
        "id": f"state:{mark}",
        "at": out.get("as_of"),
        "kind": "note",
        "name": "runtime.state",
        "out": out,
    }
    return Line(ground.thread.id, wire.dump({k: v for k, v in made.items() if v is not None}), record, path)


def _open(ground: Ground) -> Iterator[Item]:
    """Steps without a result that may have begun, wherever they stand. One whose subgraph tells more is left to it."""
    for stage in ground.thread.stages:
        owner = ground.thread.nested.get(stage.checkpoint.ns)
        if owner is not None and owner.done:
            continue
        for item in stage.items:
            if item.done or (item.asks and not _current(ground, stage)):
                continue
            inner = ground.lines.inner.get(id(item), ())
            if any(not i.done for s in inner for i in s.items):
                continue
            yield item


def _current(ground: Ground, stage: Stage) -> bool:
    """Whether the thread stands here: a question of a past that went on another way waits for nobody."""
    owner = ground.thread.nested.get(stage.checkpoint.ns)
    if owner is not None:
        above = ground.thread.stage(owner.checkpoint)
        return not stage.children and above is not None and _current(ground, above)
    return stage.checkpoint is ground.thread.tip


def _failed(item: Item) -> bool:
    return item.task is not None and item.task.error is not wire.MISSING


def _waits(ground: Ground, item: Item) -> Iterator[dict[str, Any]]:
    for n, question in enumerate(questions(item), 1):
        yield {
            "branch": item.place.inner("ask"),
            "step": n,
            "what": f"approval:{question['approval']}",
            "until": None,
            "since": item.checkpoint.ts,
        }


def _told_waiting(told: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Questions that only the server's thread names."""
    asked = told.get("interrupts")
    made = []
    for items in asked.values() if isinstance(asked, Mapping) else ():
        for one in items if isinstance(items, list) else ():
            name = text(one, "id") if isinstance(one, Mapping) else None
            made.append(
                {
                    "branch": "",
                    "step": None,
                    "what": f"approval:{name or '?'}",
                    "until": None,
                    "since": text(told, "state_updated_at"),
                }
            )
    return made


def _pending(ground: Ground, item: Item) -> dict[str, Any]:
    what = kind(item.name, item.task, nested=bool(ground.lines.nested(item)))
    return {
        "branch": item.place.branch,
        "step": max(1, item.place.step),
        "name": item.name or None,
        "kind": what,
        "attempt": None,
        "state": "no_record",
        "last_failure": None,
        "last_started_at": None,
    }


def _following(ground: Ground) -> Iterator[dict[str, Any]]:
    """Nodes that the writes behind the last saved checkpoint start: the checkpoint that would make them due was not saved."""
    thread = ground.thread
    last = thread.tip.step if thread.tip is not None else -2
    ends = [s for s in thread.stages if s.checkpoint.orphan and s.checkpoint.ns == "" and s.checkpoint.step > last]
    tip = thread.stage(thread.tip)
    if tip is not None and tip.items and not tip.children and all(i.done for i in tip.items):
        ends.append(tip)
    for stage in ends:
        nodes = list(dict.fromkeys(f for i in stage.items if i.task for f in i.task.follows))
        number = stage.number + 1
        for n, (name, _) in enumerate(nodes, 1):
            place = (
                Place(stage.branch, number) if len(nodes) == 1 else Place(Place(stage.branch, number).inner(str(n)), 1)
            )
            yield _pending(ground, Item(name, stage.checkpoint, place))


def _status(ground: Ground, open_items: Sequence[Item], waiting: Sequence[object]) -> str:
    """The server's word where there is one, else what the checkpoint where the thread stands says."""
    if ground.group.torn:
        return "unknown"
    told = ground.told
    word = text(told, "status")
    if word == "interrupted":
        error = told.get("error")
        cancelled = isinstance(error, Mapping) and error.get("error") == "UserInterrupt"
        return "cancelled" if cancelled and not waiting else "parked" if waiting else "unknown"
    if word in _SERVER:
        return _SERVER[word]
    tip = ground.thread.stage(ground.thread.tip)
    if tip is None or not tip.checkpoint.due_known:
        return "unknown"
    here = [i for i in open_items if _within(ground, i, tip)]
    if any(not i.asks and not _failed(i) for i in here):
        return "running"
    if any(i.asks for i in here):
        return "parked"
    if here:
        return "failed"
    if tip.checkpoint.is_input:
        return "running"  # its input was taken and nothing has come of it
    return "running" if tip.items else "completed"  # written and not yet in a checkpoint: not over


def _within(ground: Ground, item: Item, tip: Stage) -> bool:
    """Whether a step belongs to the checkpoint where the thread stands, or to a subgraph of it."""
    here: Item | None = item
    for _ in range(100):
        if here is None:
            return False
        if here.checkpoint is tip.checkpoint:
            return True
        here = ground.thread.nested.get(here.checkpoint.ns)
    return False


def _as_of(ground: Ground) -> str | None:
    """The newest time that the export tells of the thread."""
    found = [s.checkpoint.ts for s in ground.thread.stages]
    found += [text(ground.told, k) for k in ("updated_at", "state_updated_at")]
    known = [(at, t) for t in found if t and (at := _moment(t)) is not None]
    return max(known)[1] if known else None


def _moment(stamp: str) -> datetime | None:
    try:
        made = datetime.fromisoformat(stamp)
        return made.astimezone(UTC) if made.tzinfo else made.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def _doubles(ground: Ground) -> list[dict[str, Any]]:
    """Recorded steps that may have been executed more than once: before and after a crash, or on both sides of a fork."""
    made: dict[tuple[str, int], dict[str, Any]] = {}
    lost = [s for s in ground.thread.stages if s.checkpoint.orphan]
    after = _after_resume(ground) if lost else set()
    for stage in ground.thread.stages:
        why = "recovered" if _ran_before(ground, stage, lost, after) else "forked" if _forked(stage) else ""
        for item in stage.items if why else ():
            parked = item.task is not None and bool(item.task.resumed)
            if item.done and not parked and not ground.lines.nested(item):
                made[item.place.branch, item.place.step] = _double(item, why)
    return list(made.values())


def _ran_before(ground: Ground, stage: Stage, lost: Sequence[Stage], after: set[int]) -> bool:
    """Whether a crash may have cut off an execution of these tasks that was repeated: the next checkpoint was made by an
    invocation that went on from this one, or a lost one had got as far as this."""
    if any(below is not None and below.resumed for below in map(ground.thread.stage, stage.children)):
        return True
    reached = [s.checkpoint.step + 1 for s in lost if s.checkpoint.ns == stage.checkpoint.ns]
    return bool(reached) and stage.checkpoint.step <= max(reached) and id(stage) in after


def _forked(stage: Stage) -> bool:
    """Whether the thread went on from here more than once, or stands on such a second way."""
    ways = sum(child.source != "update" for child in stage.children)
    return ways > 1 or any(part.startswith("fork-") for part in stage.branch.split("."))


def _after_resume(ground: Ground) -> set[int]:
    """The stages (by `id`) made by an invocation that went on from an earlier checkpoint, up to its end."""
    made: set[int] = set()
    for stage in ground.thread.stages:  # parents come before children
        above = ground.thread.by_key.get((stage.checkpoint.ns, stage.checkpoint.parent or ""))
        if not stage.checkpoint.is_input and (stage.resumed or (above is not None and id(above) in made)):
            made.add(id(stage))
    return made


def _double(item: Item, why: str) -> dict[str, Any]:
    name = shown_name(item.name, tool_calls(item.task, item.checkpoint.values))
    return {
        "branch": item.place.branch,
        "step": max(1, item.place.step),
        "name": name or None,
        **named(name, kind(item.name, item.task, nested=False)),
        "why": why,
        "other": None,
    }


def _again(ground: Ground) -> list[dict[str, Any]] | None:
    """Recorded steps that would run again: those behind the checkpoint that the runtime would go on from, and those whose own
    checkpoint was never saved. The checkpoint made in the place of a lost one has the same step number: its tasks repeat the lost
    ones, until they have a result of their own."""
    thread = ground.thread
    stages = [s for c in _behind(thread) if (s := thread.stage(c)) is not None]
    step = thread.tip.step if thread.tip is not None else -2
    lost = [s for s in thread.stages if s.checkpoint.orphan and s.checkpoint.ns == "" and s.checkpoint.step >= step]
    tip = thread.stage(thread.tip)
    repeated = {i.name for i in tip.items if i.done} if tip is not None else set()
    made = [
        {
            "branch": i.place.branch,
            "step": max(1, i.place.step),
            "name": i.name or None,
            "why": why,
            "from": origin.id if origin else None,
        }
        for found, why, origin in (
            (stages, "older_checkpoint", thread.head),
            (lost, "checkpoint_not_saved", thread.tip),
        )
        for s in found
        for i in s.items
        if i.done and not (s.checkpoint.orphan and s.checkpoint.step == step and i.name in repeated)
    ]
    return made or None


def _behind(thread: Thread) -> list[Checkpoint]:
    return [thread.head, *thread.again[:-1]] if thread.head is not None and thread.again else []
