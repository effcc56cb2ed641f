"""Journal lines of one LangGraph thread.

A line holds only what its checkpoint and its task's writes say, so that a later export gives the same lines again. LangGraph
records no time of a step: `at` is that of the checkpoint that it started from.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from drainboard import wire

from journals.adapters.base import Line, Options
from journals.adapters.langgraph.asked import answers, digest, questions
from journals.adapters.langgraph.forms import NOBODY, Checkpoint, Row
from journals.adapters.langgraph.kinds import answered, error_of, kind, said, shown_name, tool_calls, versions_of
from journals.adapters.langgraph.thread import Item, Place, Stage, Thread
from journals.adapters.langgraph.values import is_closed, value_of
from journals.adapters.names import effect_of, key_of
from journals.adapters.values import text

_OWN = ("parents", "step", "source", "thread_id", "checkpoint_ns", "checkpoint_id", "writes")


class Lines:
    """The lines of one thread, in order: each line of the main graph, a subgraph's before the step that runs it."""

    def __init__(self, thread: Thread, options: Options) -> None:
        self.thread, self.options = thread, options
        self.inner: dict[int, list[Stage]] = {}
        owned = set()
        for stage in thread.stages:
            owner = thread.nested.get(stage.checkpoint.ns)
            if owner is not None:
                self.inner.setdefault(id(owner), []).append(stage)
                owned.add(id(stage))
        self.top = [s for s in thread.stages if id(s) not in owned]

    def __iter__(self) -> Iterator[Line]:
        for stage in self.top:
            yield from self._stage(stage)

    def _stage(self, stage: Stage) -> Iterator[Line]:
        here = stage.checkpoint
        if stage.branch == "" and here.is_input and here.parent is None:
            yield self._started(here)
        elif here.is_input and stage.branch == "":
            yield from self._input(stage)
        elif here.source in ("update", "fork"):
            yield self._by_hand(stage)
        if stage.resumed:
            yield self._resumed(stage)
        waiting = here.tasks.get(NOBODY)
        if waiting is not None and waiting.resumed:
            shown = {
                "id": f"given:{here.ns}:{here.id}:{digest(waiting.resumed)}",
                "at": here.ts,
                "kind": "note",
                "name": "resume",
            }
            yield self._line(
                here, waiting.record, {**shown, "out": waiting.resumed[-1], "checkpoint": here.id}, waiting.file
            )
        if stage.parallel:
            made = {
                "id": f"parallel:{here.ns}:{here.id}",
                "at": here.ts,
                "kind": "parallel.started",
                "branch": stage.branch or None,
                "step": stage.number,
                "versions": self._versions(here),
                "nodes": [i.name for i in stage.items],
            }
            yield self._line(here, here.record, made)
        for item in stage.items:
            for inner in self.inner.get(id(item), ()):
                yield from self._stage(inner)
            yield from self._item(stage, item)
        if here.due_known and not stage.items and stage.branch == "" and not here.is_input and not self._starts(here):
            made = {"id": f"end:{here.id}", "at": here.ts, "kind": "run.completed", "checkpoint": here.id}
            yield self._line(here, here.record, made)

    def _starts(self, here: Checkpoint) -> bool:
        return any(task.id != NOBODY for task in here.tasks.values())

    def _line(
        self, here: Checkpoint, record: str, fields: Mapping[str, Any], path: str = "", *, made_it: bool = False
    ) -> Line:
        """A line about what started from a checkpoint, or about what made it."""
        return made_line(self.thread.id, {"seq": self._seq(here, made_it), **fields}, record, path or here.path)

    def _seq(self, here: Checkpoint, made_it: bool) -> int | None:
        """The super-step of the main graph, from 1, in which it happened; that of the step that runs the subgraph."""
        for _ in range(100):
            if not here.ns:
                return max(1, here.step + (0 if made_it else 1))
            owner = self.thread.nested.get(here.ns)
            if owner is None:
                return None
            here, made_it = owner.checkpoint, False
        return None

    def _versions(self, here: Checkpoint) -> dict[str, Any] | None:
        return versions_of(here.metadata) or None

    def _started(self, here: Checkpoint) -> Line:
        versions = self._versions(here)
        agent = self.options.agent or agent_of(here.metadata)
        made = {
            "id": f"start:{here.id}:{digest([agent, self.options.environment, versions])}",
            "at": here.ts,
            "kind": "run.started",
            "agent": agent or None,
            "build": build_of(versions),
            "environment": self.options.environment or None,
            "versions": versions,
            "in": here.given,
            "metadata": _about(here),
            "checkpoint": here.id,
        }
        return self._line(here, here.record, made)

    def _input(self, stage: Stage) -> Iterator[Line]:
        """The input of a later invocation of the thread, and the super-step that takes it in."""
        here, versions = stage.checkpoint, self._versions(stage.checkpoint)
        base = {"at": here.ts, "versions": versions, "checkpoint": here.id}
        made = {
            **base,
            "id": f"input:{here.id}",
            "kind": "signal.received",
            "name": "input",
            "step": 1,
            "out": here.given,
            "branch": Place(stage.branch, stage.begun).inner("input"),
            "build": build_of(versions),
            "metadata": _about(here),
        }
        yield self._line(here, here.record, made, made_it=True)
        start = next((t for t in here.tasks.values() if t.name == "__start__" and t.done), None)
        if start is not None:
            made = {
                **base,
                "id": f"task:{start.id}",
                "kind": "value.result",
                "name": "__start__",
                "step": stage.begun + 1,
            }
            yield self._line(here, start.record, made, start.file)

    def _by_hand(self, stage: Stage) -> Line:
        """A checkpoint that no node made: `update_state`, or the copy that a fork begins with."""
        here = stage.checkpoint
        above = self.thread.by_key.get((here.ns, here.parent or ""))
        given = [task.result for task in above.updates if task.done] if above else []
        made = {
            "id": f"{here.source}:{here.ns}:{here.id}",
            "at": here.ts,
            "kind": "value.result",
            "name": f"state {here.source}",
            "branch": Place(stage.branch, stage.begun).inner(here.source),
            "step": 1,
            "out": (given[0] if len(given) == 1 else given or wire.MISSING),
            "metadata": _about(here),
            "checkpoint": here.id,
            "parent_checkpoint": here.parent,
        }
        return self._line(here, here.record, made, made_it=True)

    def _resumed(self, stage: Stage) -> Line:
        here = stage.checkpoint
        versions = self._versions(here)
        made = {
            "id": f"resumed:{here.ns}:{here.id}",
            "at": here.ts,
            "kind": "run.resumed",
            "branch": stage.branch or None,
            "build": build_of(versions),
            "versions": versions,
            "checkpoint": here.parent,
            "metadata": _about(here),
        }
        return self._line(here, here.record, made, made_it=True)

    def _item(self, stage: Stage, item: Item) -> Iterator[Line]:
        here, task = stage.checkpoint, item.task
        path = (task.file if task else "") or here.path
        record = (task.record if task else "") or here.record
        asked = questions(item)
        if id(item) not in self.inner:
            yield from self._asked(item, asked, record, path)
        nested = self.nested(item)
        what = kind(item.name, task, nested=bool(nested))
        base = self._placed(stage, item, what)
        if task is not None and task.error is not wire.MISSING:
            word = what if what != "value" else "tool"
            yield self._line(
                here,
                record,
                {**base, "id": f"{base['id']}:error", "kind": f"{word}.error", "error": error_of(task.error)},
                path,
            )
        if item.done:
            made = {**base, **self._result(stage, item, what), "child": nested or None}
            yield self._line(here, record, made, path)

    def nested(self, item: Item) -> str:
        """The checkpoint_ns of the step's subgraph; empty when it has none."""
        inner = self.inner.get(id(item))
        return inner[0].checkpoint.ns if inner else item.task.nested if item.task else ""

    def _placed(self, stage: Stage, item: Item, what: str) -> dict[str, Any]:
        here, place = stage.checkpoint, item.place
        ran = stage.children[0] if not stage.parallel and len(stage.children) == 1 else None
        below = self.thread.stage(ran)
        versions = self._versions(ran if ran is not None and below is not None and below.resumed else here)
        own = (
            f"task:{item.task.id}"
            if item.task
            else f"step:{here.ns}:{here.id}:{item.name}:{'' if item.push is None else item.push}"
        )
        return {
            "id": own,
            "at": here.ts,
            "kind": f"{what}.result",
            "name": item.name or None,
            "branch": place.branch or None,
            "step": max(1, place.step),
            "versions": versions,
            "checkpoint": here.id,
        }

    def _changed(self, stage: Stage, item: Item) -> Any:
        """What a history shows of a step that it lists no task of: the values that it changed, when it was the only one."""
        if item.task is not None or stage.parallel or len(stage.children) != 1 or stage.checkpoint.channel_versions:
            return wire.MISSING
        before, after = stage.checkpoint.values, stage.children[0].values
        return {k: v for k, v in after.items() if k not in before or before[k] != v}

    def _result(self, stage: Stage, item: Item, what: str) -> dict[str, Any]:
        task = item.task
        calls = tool_calls(task, item.checkpoint.values)
        name = shown_name(item.name, calls)
        made: dict[str, Any] = {
            "out": task.result if task is not None and task.done else self._changed(stage, item),
            "name": name or None,
        }
        if name != item.name:
            made["node"] = item.name
        made["effect"] = effect_of(name)
        if what == "model":
            about = answered(said(task))
            versions = {**(self._versions(item.checkpoint) or {}), **about.pop("versions", {})}
            return {**made, **about, **({"versions": versions} if versions else {})}
        if len(calls) == 1:
            made["call"] = calls[0]["call"]
            if "in" in calls[0]:
                made["in"] = calls[0]["in"]
                made["key"] = key_of(calls[0]["in"])
                made["request"] = wire.request_fingerprint(kind="tool", name=name, in_=calls[0]["in"], key=made["key"])
        elif calls:
            made["calls"] = calls
        return made

    def _asked(self, item: Item, asked: list[dict[str, Any]], record: str, path: str) -> Iterator[Line]:
        """The questions, each a step of the branch `….ask`, and what answered them."""
        here, branch = item.checkpoint, item.place.inner("ask")
        places = {}
        for n, question in enumerate(asked, 1):
            places[question["approval"]] = n
            made = {
                **question,
                "at": here.ts,
                "kind": "approval.requested",
                "branch": branch,
                "step": n,
                "checkpoint": here.id,
            }
            yield self._line(here, record, made, path)
        decided = answers(item, asked)
        if not decided and asked and item.done:  # a state history does not hold the answer
            decided = [
                {
                    "id": f"answered:{q['id']}",
                    "approval": q["approval"],
                    "name": q["name"],
                    "reason": "the answer is not in this export",
                }
                for q in asked
            ]
        for given in decided:
            step = places.get(given.get("approval"), 1)
            yield self._line(here, record, {**given, "kind": "approval.decided", "branch": branch, "step": step}, path)
        for given in decided if item.done and len(asked) == 1 else ():
            if given.get("decision") == "approve":  # the node went on behind the yes
                made = {
                    "id": f"used:{given['id']}",
                    "kind": "approval.used",
                    "approval": given["approval"],
                    "branch": branch,
                    "step": 1,
                }
                yield self._line(here, record, made, path)


def made_line(run: str, fields: Mapping[str, Any], record: str, path: str) -> Line:
    """A line of these fields; absent ones are dropped, `in`, `out` and `artifact` may be null."""
    kept = {
        k: v for k, v in fields.items() if v is not wire.MISSING and (v is not None or k in ("in", "out", "artifact"))
    }
    odd = ("opaque_payload",) if any(is_closed(kept.get(k)) for k in ("in", "out", "error", "artifact")) else ()
    try:
        raw = wire.dump({"run": run, **kept})
    except wire.Ambiguous:  # NaN inside a value
        raw = wire.dump({"run": run, **{k: _standard(v) for k, v in kept.items()}})
        odd = ("opaque_payload",)
    return Line(run, raw, record, path, odd)


def loose_value(row: Row) -> Line:
    """A channel's value of a thread whose checkpoints are not in the export."""
    fields = row.fields
    out = value_of(text(fields, "type"), fields.get("blob"))
    ns, channel, version = text(fields, "checkpoint_ns") or "", fields["channel"], str(fields.get("version"))
    made = {"id": f"blob:{ns}:{channel}:{version}", "kind": "note", "name": f"channel {channel}", "out": out}
    return made_line(fields["thread_id"], made, row.record, row.path)


def _standard(value: Any) -> Any:
    """The value when it is standard JSON, else its text."""
    try:
        wire.encode(value)
    except wire.Ambiguous:
        return json.dumps(value, default=repr)
    return value


def _about(here: Checkpoint) -> dict[str, Any] | None:
    """What the caller told about the invocation."""
    return {k: here.metadata[k] for k in sorted(here.metadata) if k not in _OWN} or None


def agent_of(metadata: Mapping[str, Any]) -> str:
    return next(
        (found for k in ("graph_id", "agent_name", "lc_agent_name", "run_name") if (found := text(metadata, k))), ""
    )


def build_of(versions: Mapping[str, Any] | None) -> str | None:
    got = (versions or {}).get("app")
    return got if isinstance(got, str) else None
