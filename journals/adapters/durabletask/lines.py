"""Journal lines of one Durable Task history.

A line holds only what its own event and the events before it say, so that the same record gives the same line in every later
export. What the export says about the run as a whole stands in the `runtime.state` note (`state`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from drainboard import wire

from journals.adapters.base import Line, Options
from journals.adapters.durabletask.events import ACTIONS, ANSWERS, Event, Snapshot
from journals.adapters.durabletask.steps import Step, Steps
from journals.adapters.durabletask.values import (
    OVER,
    STATUSES,
    difference,
    diverged,
    encodable,
    failure_of,
    is_unset,
    mapping_of,
    snake,
    status_word,
    stored,
    trimmed,
)
from journals.adapters.durabletask.versions import said_by_model, step_versions_of, versions_of
from journals.adapters.names import KINDS, effect_of, key_of, kind_of
from journals.adapters.values import text

ENDS: Final = {s: f"run.{s}" for s in OVER}
_PLAIN: Final = frozenset(
    (
        "event_id", "event_type", "timestamp", "name", "function_name", "input", "result", "failure_details", "reason", "details", "tags",
        "version", "fire_at", "task_scheduled_id", "timer_id", "partition_key", "row_key", "etag", "instance_id", "execution_id", "is_played",
        "task_hub", "sequence_number", "scheduled_time", "trace_context", "data_payload_id", "orchestration_status",
    )
)  # fmt: skip
"""Fields that a line says in its own words, or that only say where a record was kept."""


@dataclass(slots=True)
class Made:
    """One line before the lines of all snapshots are put together."""

    id: str
    fields: dict[str, Any]
    pointer: str
    path: str
    odd: tuple[str, ...] = ()

    def line(self, run: str) -> Line:
        return Line(run, self.raw(run), self.pointer, self.path, self.odd)

    def raw(self, run: str) -> bytes:
        try:
            return wire.dump({"run": run, **self.fields})
        except wire.Ambiguous:  # NaN in a decoded value: kept as its text
            self.odd = tuple(dict.fromkeys((*self.odd, "non_standard_json")))
            return wire.dump({"run": run, **{k: encodable(v) for k, v in self.fields.items()}})


@dataclass(slots=True)
class History:
    """The lines and steps of one snapshot's history."""

    snapshot: Snapshot
    options: Options
    steps: Steps
    lines: list[Made] = field(default_factory=list)
    seqs: list[int] = field(default_factory=list)
    without_output: list[Step] = field(default_factory=list)  # finished steps whose result was not exported
    rewound: list[int] = field(default_factory=list)  # how many steps were there when the run was rewound
    open_calls: int = 0  # calls of entities, and locks, without an answer
    bad_times: int = 0

    @classmethod
    def of(cls, snapshot: Snapshot, options: Options) -> History:
        events = snapshot.events or []
        made = cls(snapshot, options, Steps.of(events, numbered=snapshot.numbered))
        for n, event in enumerate(events, 1):
            made._take(event, n)
        if snapshot.ended is None and not snapshot.torn:
            made._end_by_status()
        return made

    def _take(self, event: Event, n: int) -> None:
        self.steps.pass_by(event)
        if event.at is None:
            self.bad_times += 1
        if event.type in ACTIONS:
            self._scheduled(event, n)
        elif event.type in ANSWERS:
            self._answered(event, n)
        elif event.type == "ExecutionStarted":
            self._started(event, n)
        elif event.type in ("ExecutionCompleted", "ExecutionFailed"):
            self._completed(event, n)
        else:
            self._other(event, n)

    def _add(self, event: Event, n: int, own: str, kind: str, odd: tuple[str, ...] = (), **fields: Any) -> Made:
        """A line of this event; absent fields are dropped, `out` may be null."""
        made: dict[str, Any] = {
            "id": own,
            "seq": n if self.snapshot.numbered else None,
            "at": event.at,
            "kind": kind,
            **fields,
        }
        if event.at is None and not is_unset(event.fields.get("timestamp")):
            made["timestamp"] = event.fields.get("timestamp")
        kept = {k: v for k, v in made.items() if v is not wire.MISSING and (v is not None or k == "out")}
        line = Made(own, kept, event.pointer, event.path, tuple(dict.fromkeys((*event.odd, *odd))))
        self.lines.append(line)
        if self.snapshot.numbered:
            self.seqs.append(n)
        return line

    def _own(self, event: Event) -> str:
        """An id for an event that is no step: its type and time, to the microsecond that every form has."""
        at = trimmed(event.at) if event.at else "?"
        return self.steps.unique(
            f"{event.type}@{at if not self.snapshot.numbered or len(at) < 27 else at[:26].rstrip('0') + 'Z'}"
        )

    # -- the run ----------------------------------------------------------------------------------------------------

    def _started(self, event: Event, n: int) -> None:
        state = self.snapshot.state or {}
        given, odd = stored(event.input)
        tags = tags_of(event) or {str(k): v for k, v in mapping_of(state.get("tags")).items()}
        version = text(event.fields, "version") or text(state, "version")
        versions = versions_of({"version": version, "tags": tags, "in": given})
        parent = snake(mapping_of(snake(mapping_of(event.fields.get("parent_instance"))).get("orchestration_instance")))
        name = text(parent, "instance_id") or text(state, "parent_instance_id")
        own = self.steps.unique("ExecutionStarted")
        self._add(
            event, n, own, "run.started", odd,
            agent=self.options.agent or event.name, build=version, environment=self.options.environment or None, name=event.name,
            versions=versions or None, parent="/".join(p for p in (name, text(parent, "execution_id")) if p) or None,
            tags=tags or None, scheduled_start=event.fields.get("scheduled_start_timestamp") or event.fields.get("scheduled_start_time"),
            **{"in": given},
        )  # fmt: skip

    def _completed(self, event: Event, n: int) -> None:
        word = status_word(event.fields.get("orchestration_status", event.fields.get("runtime_status")))
        status = "failed" if event.type == "ExecutionFailed" else STATUSES.get(word, "")
        if status not in ENDS:
            self._other(event, n)
            return
        own = self.steps.unique("ExecutionCompleted")
        given, odd = stored(event.result, structured=not self.snapshot.numbered)
        if status == "failed":
            self._failed(
                event, n, own, event.error or self._told_error() or ({"message": given} if given else None), odd
            )
            return
        if given is wire.MISSING and event.result is None:
            given = None
        self._add(event, n, own, ENDS[status], odd, out=given)

    def _failed(self, event: Event, n: int, own: str, error: dict[str, Any] | None, odd: tuple[str, ...] = ()) -> None:
        told = error or {"message": "the error was not exported"}
        apart = diverged(told)
        self._add(event, n, own, "run.failed", odd, error=told, reason="NonDeterministicReplay" if apart else None)
        found = difference(told.get("message")) if apart else None
        if found is None:
            return
        number, was, asked = found
        step = next((s for s in self.steps.steps if s.event.name == was and self._is_at(s, number)), None)
        detail = {
            "branch": "",
            "step": step.number if step else None,
            "runtime_number": number,
            "differs": ["name"],
            "recorded": {"name": was},
            "this_build": {"name": asked or None},
            "message": f"at position {step.number if step else '?'} (the runtime's number {number}) the journal has {was}; the code asked for {asked or 'something else'}",
        }
        line = Made(f"{own}:difference", {}, event.pointer, event.path)
        line.fields = {"id": line.id, "at": event.at, "kind": "note", "name": "nondeterministic_replay", "out": detail}
        self.lines.append(line)

    def _is_at(self, step: Step, number: int) -> bool:
        return step.event.number == number if self.snapshot.numbered else step.number in (number, number + 1)

    def _told_error(self) -> dict[str, Any] | None:
        """The failure as the instance's state tells it."""
        state = self.snapshot.state or {}
        given = state.get("output", state.get("output_text", state.get("serialized_output")))
        return (
            failure_of(state)
            or failure_of({"failure_details": given})
            or ({"message": given} if isinstance(given, str) and given else None)
        )

    def _end_by_status(self) -> None:
        """The end of a run that only its status tells."""
        snapshot, word = self.snapshot, self.snapshot.word
        status = STATUSES.get(word, "")
        if status not in ENDS:
            return
        at = snapshot.updated
        event = Event("status", at, snapshot.pointer or "/", snapshot.path, {})
        own = f"status:{word}@{trimmed(at) if at else '?'}"
        numbers = len(self.seqs)
        if status == "failed":
            self._failed(event, 0, own, self._told_error())
        else:
            state = snapshot.state or {}
            given, odd = stored(
                state.get("output", state.get("output_text", state.get("serialized_output"))),
                structured=not snapshot.numbered,
            )
            self._add(event, 0, own, ENDS[status], odd, out=given)
        del self.seqs[numbers:]
        for line in self.lines[-2:]:
            if line.id.startswith(own):
                line.fields.pop("seq", None)

    # -- steps ------------------------------------------------------------------------------------------------------

    def _scheduled(self, event: Event, n: int) -> None:
        step = self.steps.scheduled(event)
        given, odd = stored(event.input)
        base: dict[str, Any] = {
            "name": event.name,
            "step": step.number,
            "attempt": step.attempt if step.attempt > 1 else None,
        }
        if step.what == "timer":
            step.shown = base
            self._add(event, n, step.id, "timer.started", odd, **base, until=event.until, event_id=event.number)
            return
        tags = tags_of(event)
        more: dict[str, Any] = {
            "event_id": event.number,
            "tags": tags or None,
            "task_version": text(event.fields, "version"),
        }
        if step.what == "child":
            child = text(event.fields, "instance_id") if self.snapshot.form in ("export", "grpc", "table") else None
            step.shown = {**base, "child": child, "kind": "child"}
            self._add(event, n, step.id, "child.started", odd, **base, child=child, **{"in": given}, **more)
            return
        kind = _kind(event.name or "", tags)
        key = key_of(given)
        step.shown = {
            **base,
            "kind": kind,
            "call": text(tags, "tool_call_id"),
            "effect": effect_of(event.name or ""),
        }
        said = {k: v for k, v in step.shown.items() if k != "kind"}
        request = (
            wire.request_fingerprint(kind=kind, name=event.name, in_=given, key=key)
            if given is not wire.MISSING
            else None
        )
        versions = step_versions_of(kind, event.name or "", tags, given)
        begun = f"{kind}.started" if kind != "value" else "durabletask.TaskScheduled"
        self._add(
            event,
            n,
            step.id,
            begun,
            odd,
            **said,
            key=key,
            request=request,
            versions=versions or None,
            **{"in": given},
            **more,
        )

    def _answered(self, event: Event, n: int) -> None:
        what, ok = ANSWERS[event.type]
        step = self.steps.answer(event)
        shown: dict[str, Any]
        if step is None:
            place = f"{what}:{event.ref}" if self.snapshot.numbered else event.place
            shown = {
                "name": event.name,
                "step": self.steps.number_of(event.ref) if self.snapshot.numbered else None,
                "kind": "tool" if what == "task" else what,
            }
        else:
            place, shown = step.id, step.shown
        word = "fired" if what == "timer" else "completed" if ok else "failed"
        own = self.steps.unique(f"{place.removeprefix(self.steps.prefix)}:{word}")
        said = {k: v for k, v in shown.items() if k != "kind"}
        if what == "timer":
            self._add(event, n, own, "timer.fired", **said)
            return
        kind = shown["kind"]
        if not ok:
            kind = "tool" if kind == "value" else kind
            self._add(
                event, n, own, f"{kind}.error", **said, error=event.error or {"message": "the error was not exported"}
            )
            return
        out, odd = stored(event.result, structured=not self.snapshot.numbered)
        if event.result is wire.MISSING and not self.snapshot.numbered:
            if step is not None:
                self.without_output.append(step)
        elif out is wire.MISSING:
            out = None
        model = said_by_model(out) if kind == "model" else {}
        self._add(event, n, own, f"{kind}.result", odd, **said, **model, out=out)

    # -- everything else --------------------------------------------------------------------------------------------

    def _other(self, event: Event, n: int) -> None:
        given, odd = stored(event.input)
        rest = {k: v for k, v in event.fields.items() if k not in _PLAIN and v is not None} or None
        own = self._own(event)
        if event.type == "EventRaised":
            self._add(
                event, n, own, "signal.received", odd, name=event.name, out=None if given is wire.MISSING else given
            )
        elif event.type == "ContinueAsNew":
            self._add(event, n, own, "run.continued", odd, out=given)
        elif event.type in _CONTROL:
            why = event.input if isinstance(event.input, str) and event.input else text(event.fields, "reason")
            if event.type == "ExecutionRewound":
                self.rewound.append(len(self.steps.steps))
                self.steps.prefix = f"rewound{len(self.rewound) if len(self.rewound) > 1 else ''}:"
            self._add(event, n, own, _CONTROL[event.type], odd, reason=why)
        else:
            if event.type == "GenericEvent" and str(event.fields.get("reason") or event.fields.get("data")).startswith(
                "Rewound"
            ):
                self.rewound.append(len(self.steps.steps))
            self.open_calls += _CALLS.get(event.type, 0)
            self._add(
                event,
                n,
                own,
                f"durabletask.{event.type or 'event'}",
                odd,
                name=event.name,
                event_id=event.number,
                fields=rest,
                **{"in": given},
            )


_CONTROL: Final = {
    "ExecutionTerminated": "stop.requested",
    "ExecutionSuspended": "run.held",
    "ExecutionResumed": "run.released",
    "ExecutionRewound": "run.resumed",
}
_CALLS: Final = {
    "EntityOperationCalled": 1,
    "EntityLockRequested": 1,
    "EntityOperationCompleted": -1,
    "EntityOperationFailed": -1,
    "EntityLockGranted": -1,
}


def tags_of(event: Event) -> dict[str, Any]:
    """The tags of an event, by name."""
    return {str(k): v for k, v in sorted(mapping_of(event.fields.get("tags")).items())}


def _kind(name: str, tags: Mapping[str, Any]) -> str:
    """`model`, `tool` or `value`: what a tag named `kind` says, else the name."""
    told = tags.get("kind")
    kind = told if told in KINDS else kind_of(name)
    return kind if kind in ("model", "value") else "tool"
