"""A branch of a run: numbers its steps, answers them from the record, and runs what is not recorded.

The logic is written once, as generators that yield what may wait: a `Block` (a request to the server), an `Invoke` (the
agent's own function) or a `Pause`. `run.py` drives them for plain and for `async def` agents.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from typing import Any
from urllib.parse import quote

from drainboard import errors, wire
from drainboard.replay import Step, Wanted
from drainboard.session import Session
from drainboard.values import Answer, plain, record, rfc3339

__all__ = ["Block", "Branch", "Call", "Fork", "Invoke", "Op", "Outcome", "Steps", "takes_key"]


@dataclass(frozen=True)
class Block:
    """Something of ours that waits on the network."""

    call: Callable[[], Any]


@dataclass(frozen=True)
class Invoke:
    """The agent's function with its arguments."""

    fn: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """How a branch ended."""

    value: Any = None
    error: BaseException | None = None


@dataclass(frozen=True)
class Fork:
    """Functions to run side by side, each with its branch; answered by one `Outcome` per branch, in branch order."""

    branches: Sequence[Branch]
    fns: Sequence[Callable[[Any], Any]]
    limit: int


Op = Block | Invoke | Fork
Steps = Generator[Op, Any, Any]


@dataclass(frozen=True)
class Call:
    """A model or tool call as the agent wrote it."""

    kind: str  # model or tool
    name: str
    fn: Callable[..., Any]
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    effect: str = "read"
    key: str | None = None
    rerun_safe: bool = False
    retries: int = 0
    backoff_s: float = 0.5
    retry_on: tuple[type[Exception], ...] = (Exception,)
    approval: Any = None  # drainboard.approvals.Approval
    prompt: str | None = None
    role: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise errors.MisusedRun(f"a step's name is text, not {self.name!r}")
        if not callable(self.fn):
            raise errors.MisusedRun(f"step {self.name}: {self.fn!r} is not a function")
        if self.effect not in wire.EFFECTS:
            raise errors.MisusedRun(f"step {self.name}: effect {self.effect!r} is none of {', '.join(wire.EFFECTS)}")
        if self.key is not None and not (
            isinstance(self.key, str) and self.key and takes_key(self.fn, any_keyword=True)
        ):
            raise errors.MisusedRun(
                f"step {self.name}: key={self.key!r} is given, but the function takes no `key`, or the key is no text"
            )
        if self.approval is not None and self.effect != "write":
            raise errors.MisusedRun(f"step {self.name}: an approval is for a write")


def takes_key(fn: Callable[..., Any], *, any_keyword: bool = False) -> bool:
    """Whether the function has a parameter named `key`; with `any_keyword`, `**kwargs` counts too."""
    if isinstance(fn, types.FunctionType) and not hasattr(fn, "__wrapped__") and not hasattr(fn, "__signature__"):
        code = fn.__code__
        names = code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount]
        return "key" in names or (any_keyword and bool(code.co_flags & inspect.CO_VARKEYWORDS))
    try:
        found = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):  # a builtin without a signature
        return False
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return any((p.name == "key" and p.kind in by_name) or (any_keyword and p.kind is p.VAR_KEYWORD) for p in found)


def _request_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A call's `in`: its one positional value itself, its keywords as an object, else both."""
    if len(args) == 1 and not kwargs:
        return plain(args[0])
    if not args:
        return plain(kwargs)
    return plain({"args": list(args), "kwargs": kwargs})


class Branch:
    """Numbering and steps of one branch. One step at a time; concurrent steps belong into `parallel`."""

    def __init__(self, session: Session, path: str = "") -> None:
        self.session, self.path = session, path
        self.count = 0  # steps numbered so far
        self.interrupt: errors.Interrupt | None = None
        self._busy = ""

    def next_key(self) -> str:
        """The idempotency key of the step that comes next: environment, agent, run, branch and step, percent-encoded."""
        return self.key_of(self.count + 1)

    def key_of(self, step: int) -> str:
        """The idempotency key of this step of the branch."""
        s = self.session
        parts = "/".join(quote(part, safe="") for part in (s.environment, s.agent, s.run))
        return f"{parts}:{quote(self.path, safe='.')}:{step}"

    @contextmanager
    def numbered(self, what: str) -> Iterator[int]:
        """Gives the next step number for as long as the step lasts. Raises `MisusedRun` when another step is open."""
        if self.interrupt is not None:
            raise self.interrupt
        if self._busy:
            raise errors.MisusedRun(
                f"{what} was called while {self._busy} is still open in this branch; put concurrent steps into run.parallel"
            )
        self.count += 1
        self._busy = f"step {self.count} ({what})"
        try:
            yield self.count
        except errors.Interrupt as e:
            self.interrupt = e
            raise
        finally:
            self._busy = ""

    def place(self, step: int) -> dict[str, Any]:
        """The fields that say where an entry belongs."""
        return {"step": step, "branch": self.path} if self.path else {"step": step}

    def gap(self, step: int) -> errors.Parked:
        """What parks the run on a gap that only a person can close."""
        return errors.Parked(f"gap:{self.path}:{step}")

    # -- models and tools --------------------------------------------------------------------------------------------

    def call(self, call: Call) -> Steps:
        """One model or tool step: the recorded result, or the function's, recorded. Raises `StepFailed` and what the session raises."""
        session = self.session
        in_ = _request_of(call.args, call.kwargs)
        with self.numbered(f"{call.kind} {call.name}") as step:
            key = call.key if call.key is not None else self.key_of(step) if takes_key(call.fn) else None
            if call.kind == "model":
                versions = session.versions.for_model(prompt=call.prompt, role=call.role)
            else:
                versions = session.versions.for_tool(call.name)
            request = wire.request_fingerprint(kind=call.kind, name=call.name, in_=in_, key=key)
            want = Wanted(
                kind=call.kind,
                name=call.name,
                branch=self.path,
                step=step,
                in_=in_,
                key=key,
                request=request,
                versions=versions,
            )
            rec = session.recorded.visit(self.path, step)
            session.agree(rec, want)
            if rec is not None and rec.result is not None:
                return record(rec.result.get("out"))
            if rec is not None and rec.error is not None and not _will_retry(rec.error):
                raise self._failed(call.name, step, rec.error.get("error"), rec.attempts)
            session.ready()
            if (
                rec is not None
                and rec.open_start is not None
                and call.effect == "write"
                and key is None
                and not call.rerun_safe
            ):
                raise self.gap(step)
            return (yield from self._attempts(call, want, rec))

    def _attempts(self, call: Call, want: Wanted, rec: Step | None) -> Steps:
        attempt = rec.attempts if rec is not None else 0
        errors_so_far = rec.errors if rec is not None else 0
        while True:
            attempt += 1
            try:
                return (yield from self._attempt(call, want, attempt))
            except _Failed as e:
                errors_so_far += 1
                last = (
                    errors_so_far > call.retries
                    or not isinstance(e.error, call.retry_on)
                    or isinstance(e.error, errors.DrainboardError)
                )
                told = {"type": type(e.error).__name__, "message": str(e.error), "retryable": not last}
                fields = {**self._head(call, want, attempt, "error"), **e.unsaid, "error": told}
                yield Block(partial(self._append_error, fields))
                if last:
                    raise self._failed(call.name, want.step, told, attempt) from e.error
                seconds = call.backoff_s * 2 ** (errors_so_far - 1)
                yield Block(partial(self.session.pause, seconds))

    def _attempt(self, call: Call, want: Wanted, attempt: int) -> Steps:
        """Runs the function once and records its result. Raises `_Failed` when it, or its record, failed."""
        session = self.session
        request: dict[str, Any] = {"key": want.key} if want.key is not None else {}
        request.update({"request": want.request, "versions": want.versions, "in": want.in_})
        if not want.versions:
            del request["versions"]
        start = {**self._head(call, want, attempt, "started"), **request}
        waiting, unsent = None, {**request, "started_at": rfc3339(datetime.now(timezone.utc))}
        if call.effect == "write":
            yield Block(session.ready_to_write)
            yield Block(lambda: self._start_write(call, start))
            if session.lease_left_s < session.margin_s:
                yield Block(session.ready_to_write)
        else:
            waiting = session.later(start, droppable=True)
        kwargs = {**call.kwargs, "key": want.key} if want.key is not None else call.kwargs
        try:
            got = yield Invoke(call.fn, call.args, kwargs)
            answer = got if isinstance(got, Answer) else Answer(got)
            out = plain(answer.out)
        except Exception as e:
            raise _Failed(e, unsent if waiting and session.drop(waiting) else {}) from e
        unsaid = unsent if waiting and session.drop(waiting) else {}
        told = _told(answer, out, want) if call.kind == "model" else {}
        fields = {**self._head(call, want, attempt, "result"), **told, **unsaid, "out": out}
        try:
            yield Block(lambda: session.append(fields, closing=True))
        except (errors.TooLarge, errors.NotJournalable) as e:
            raise _Failed(e, unsaid) from e
        return out

    def _append_error(self, fields: dict[str, Any]) -> None:
        try:
            self.session.append(fields, closing=True)
        except errors.TooLarge as e:  # the request alone is over the limit; every replay would end here
            self.session.fail(e)

    def _start_write(self, call: Call, start: dict[str, Any]) -> None:
        if call.approval is None:
            self.session.append(start)
        else:
            call.approval.use(self.session, start)

    def _head(self, call: Call, want: Wanted, attempt: int, what: str) -> dict[str, Any]:
        made: dict[str, Any] = {"kind": f"{call.kind}.{what}", "name": call.name, **self.place(want.step)}
        if attempt > 1:
            made["attempt"] = attempt
        if call.effect != wire.effect_of(made["kind"], None):
            made["effect"] = call.effect
        return made

    def _failed(self, name: str, step: int, told: Any, attempts: int) -> errors.StepFailed:
        found = told if isinstance(told, Mapping) else {}
        return errors.StepFailed(
            name=name,
            branch=self.path,
            step=step,
            type=str(found.get("type", "Error")),
            message=str(found.get("message", "")),
            attempts=attempts,
        )


class _Failed(Exception):
    """An attempt failed; `unsaid` is the part of the request that no start has recorded."""

    def __init__(self, error: Exception, unsaid: dict[str, Any]) -> None:
        super().__init__(str(error))
        self.error, self.unsaid = error, unsaid


def _will_retry(error: Mapping[str, Any]) -> bool:
    found = error.get("error")
    return isinstance(found, Mapping) and found.get("retryable") is True


def _told(answer: Answer, out: Any, want: Wanted) -> dict[str, Any]:
    """What a model's result says of itself; the usual `model` and `usage` of a provider's reply are taken as they are."""
    made: dict[str, Any] = {"request": want.request}
    if want.versions:
        made["versions"] = want.versions
    reply = out if isinstance(out, Mapping) else {}
    model = answer.model_reported or reply.get("model")
    usage = answer.usage or reply.get("usage")
    if isinstance(model, str) and model:
        made["model_reported"] = model
    if isinstance(usage, Mapping):
        made["usage"] = plain(usage)
    return made
