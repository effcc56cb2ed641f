"""`run`, as an agent sees it: plain for `def` agents, awaited for `async def` agents. Both drive the same steps."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

from drainboard import errors, waits, wire
from drainboard.approvals import Approval, Ask, approve
from drainboard.facts import CURRENT, Facts, current_run
from drainboard.session import Session
from drainboard.steps import Block, Branch, Call, Fork, Invoke, Op, Outcome, Steps

__all__ = ["AsyncRun", "Run", "current_run"]


class Run(Facts):
    """Steps of a plain agent. Each method is one step and takes one number of its branch."""

    def model(
        self,
        name: str,
        fn: Callable[..., Any],
        /,
        *args: Any,
        prompt: str | None = None,
        role: str | None = None,
        effect: str = "read",
        key: str | None = None,
        rerun_safe: bool = False,
        retries: int = 0,
        backoff_s: float = 0.5,
        retry_on: tuple[type[Exception], ...] = (Exception,),
        **kwargs: Any,
    ) -> Any:
        """Asks a model: `fn(*args, **kwargs)` once, its recorded reply ever after. `prompt` and `role` name what it used of the build.

        `retries` are attempts of the same step after errors in `retry_on`, with pauses of `backoff_s`, doubled each time.
        Raises `StepFailed` when the last attempt fails, live and on replay.
        """
        return _drive(
            self._branch.call(
                Call(
                    "model",
                    name,
                    fn,
                    args,
                    kwargs,
                    effect=effect,
                    key=key,
                    rerun_safe=rerun_safe,
                    retries=retries,
                    backoff_s=backoff_s,
                    retry_on=retry_on,
                    prompt=prompt,
                    role=role,
                )
            )
        )

    def tool(
        self,
        name: str,
        fn: Callable[..., Any],
        /,
        *args: Any,
        effect: str = "write",
        key: str | None = None,
        rerun_safe: bool = False,
        retries: int = 0,
        backoff_s: float = 0.5,
        retry_on: tuple[type[Exception], ...] = (Exception,),
        approval: Approval | None = None,
        **kwargs: Any,
    ) -> Any:
        """Calls a tool. A write's start is stored before `fn` runs, its result before the next step.

        When `fn` takes `key` it gets the step's idempotency key. A write that neither takes `key` nor is `rerun_safe` runs at
        most once: a crash inside it parks the run until a person says whether it happened.
        """
        return _drive(
            self._branch.call(
                Call(
                    "tool",
                    name,
                    fn,
                    args,
                    kwargs,
                    effect=effect,
                    key=key,
                    rerun_safe=rerun_safe,
                    retries=retries,
                    backoff_s=backoff_s,
                    retry_on=retry_on,
                    approval=approval,
                )
            )
        )

    def now(self) -> datetime:
        """The clock, read once and recorded; an aware datetime in UTC."""
        found: datetime = _drive(waits.now(self._branch))
        return found

    def uuid(self) -> str:
        """A random UUID, drawn once and recorded."""
        return str(_drive(waits.unique_id(self._branch)))

    def random(self) -> float:
        """A random number from 0 to below 1, drawn once and recorded."""
        return float(_drive(waits.random_number(self._branch)))

    def sleep_until(self, when: datetime) -> None:
        """Goes on after `when` (aware). A sleep of more than two seconds parks the run and frees the worker."""
        _drive(waits.sleep_until(self._branch, when))

    def signal(self, name: str) -> Any:
        """The value of the next signal of this name; parks the run until one is there."""
        return _drive(waits.signal(self._branch, name))

    def parallel(self, *branches: Callable[[Run], Any], limit: int | None = None) -> list[Any]:
        """Calls each function with a `run` of its own branch, at most `limit` at once; results in the order given."""
        return list(_drive(waits.parallel(self._branch, branches, limit)))

    def approve(
        self,
        title: str,
        *,
        tool: str | None = None,
        args: Any = None,
        artifact: Any = wire.MISSING,
        policy: str | None = None,
        expires: timedelta | datetime | float | None = None,
        note: str | None = None,
        requested_by: str | None = None,
    ) -> Approval:
        """Asks a person, parks until there is an answer, and gives the yes for `run.tool(…, approval=…)`.

        Raises `ApprovalDenied`, `ApprovalSentBack` or `ApprovalExpired`, live and on replay.
        """
        found: Approval = _drive(
            approve(self._branch, Ask(title, tool, args, artifact, policy, expires, note, requested_by))
        )
        return found


class AsyncRun(Facts):
    """Steps of an `async def` agent; as `Run`, awaited. Plain functions given to a step run in a thread."""

    async def model(
        self,
        name: str,
        fn: Callable[..., Any],
        /,
        *args: Any,
        prompt: str | None = None,
        role: str | None = None,
        effect: str = "read",
        key: str | None = None,
        rerun_safe: bool = False,
        retries: int = 0,
        backoff_s: float = 0.5,
        retry_on: tuple[type[Exception], ...] = (Exception,),
        **kwargs: Any,
    ) -> Any:
        """As `Run.model`."""
        return await _drive_async(
            self._branch.call(
                Call(
                    "model",
                    name,
                    fn,
                    args,
                    kwargs,
                    effect=effect,
                    key=key,
                    rerun_safe=rerun_safe,
                    retries=retries,
                    backoff_s=backoff_s,
                    retry_on=retry_on,
                    prompt=prompt,
                    role=role,
                )
            )
        )

    async def tool(
        self,
        name: str,
        fn: Callable[..., Any],
        /,
        *args: Any,
        effect: str = "write",
        key: str | None = None,
        rerun_safe: bool = False,
        retries: int = 0,
        backoff_s: float = 0.5,
        retry_on: tuple[type[Exception], ...] = (Exception,),
        approval: Approval | None = None,
        **kwargs: Any,
    ) -> Any:
        """As `Run.tool`."""
        return await _drive_async(
            self._branch.call(
                Call(
                    "tool",
                    name,
                    fn,
                    args,
                    kwargs,
                    effect=effect,
                    key=key,
                    rerun_safe=rerun_safe,
                    retries=retries,
                    backoff_s=backoff_s,
                    retry_on=retry_on,
                    approval=approval,
                )
            )
        )

    async def now(self) -> datetime:
        """As `Run.now`."""
        found: datetime = await _drive_async(waits.now(self._branch))
        return found

    async def uuid(self) -> str:
        """As `Run.uuid`."""
        return str(await _drive_async(waits.unique_id(self._branch)))

    async def random(self) -> float:
        """As `Run.random`."""
        return float(await _drive_async(waits.random_number(self._branch)))

    async def sleep_until(self, when: datetime) -> None:
        """As `Run.sleep_until`."""
        await _drive_async(waits.sleep_until(self._branch, when))

    async def signal(self, name: str) -> Any:
        """As `Run.signal`."""
        return await _drive_async(waits.signal(self._branch, name))

    async def parallel(self, *branches: Callable[[AsyncRun], Awaitable[Any]], limit: int | None = None) -> list[Any]:
        """As `Run.parallel`; the functions are coroutine functions."""
        return list(await _drive_async(waits.parallel(self._branch, branches, limit)))

    async def approve(
        self,
        title: str,
        *,
        tool: str | None = None,
        args: Any = None,
        artifact: Any = wire.MISSING,
        policy: str | None = None,
        expires: timedelta | datetime | float | None = None,
        note: str | None = None,
        requested_by: str | None = None,
    ) -> Approval:
        """As `Run.approve`."""
        ask = Ask(title, tool, args, artifact, policy, expires, note, requested_by)
        found: Approval = await _drive_async(approve(self._branch, ask))
        return found


def call_agent(fn: Callable[..., Any], session: Session, *, is_async: bool) -> Any:
    """Runs the agent's code from its first line, in this thread; returns what it returns."""
    branch = Branch(session)
    if is_async:
        return asyncio.run(_call_async(fn, branch, session.task))
    return contextvars.copy_context().run(_call, fn, branch, session.task)


def _call(fn: Callable[..., Any], branch: Branch, *task: Any) -> Any:
    run = Run(branch)
    CURRENT.set(run)
    got = fn(run, *task)
    if branch.interrupt is not None:
        raise branch.interrupt  # the agent's code caught what was not meant for it
    return got


async def _call_async(fn: Callable[..., Any], branch: Branch, *task: Any) -> Any:
    run = AsyncRun(branch)
    CURRENT.set(run)
    got = await fn(run, *task)
    if branch.interrupt is not None:
        raise branch.interrupt
    return got


def _drive(steps: Steps) -> Any:
    try:
        op = next(steps)
        while True:
            try:
                got = _do(op)
            except BaseException as e:  # noqa: BLE001  it goes into the step, which decides
                op = steps.throw(e)
            else:
                op = steps.send(got)
    except StopIteration as e:
        return e.value


def _do(op: Op) -> Any:
    if isinstance(op, Block):
        return op.call()
    if isinstance(op, Invoke):
        if inspect.iscoroutinefunction(op.fn):
            raise errors.MisusedRun(
                "an async function was given to a step of a plain agent; make the agent `async def`"
            )
        return op.fn(*op.args, **op.kwargs)
    return _fork(op)


def _fork(op: Fork) -> list[Outcome]:
    if not op.fns:
        return []
    with ThreadPoolExecutor(max_workers=op.limit, thread_name_prefix="drainboard-branch") as pool:
        pairs = zip(op.fns, op.branches, strict=True)
        under_way = [pool.submit(contextvars.copy_context().run, _outcome, fn, branch) for fn, branch in pairs]
        return [f.result() for f in under_way]


def _outcome(fn: Callable[..., Any], branch: Branch) -> Outcome:
    try:
        return Outcome(_call(fn, branch))
    except BaseException as e:  # noqa: BLE001  the parent raises it, in branch order
        return Outcome(error=e)


async def _drive_async(steps: Steps) -> Any:
    try:
        op = next(steps)
        while True:
            try:
                got = await _do_async(op)
            except BaseException as e:  # noqa: BLE001  it goes into the step, which decides
                op = steps.throw(e)
            else:
                op = steps.send(got)
    except StopIteration as e:
        return e.value


async def _do_async(op: Op) -> Any:
    if isinstance(op, Block):
        return await asyncio.to_thread(op.call)
    if isinstance(op, Invoke):
        if inspect.iscoroutinefunction(op.fn):
            return await op.fn(*op.args, **op.kwargs)
        got = await asyncio.to_thread(op.fn, *op.args, **op.kwargs)
        return await got if inspect.isawaitable(got) else got
    slots = asyncio.Semaphore(max(1, op.limit))
    return list(
        await asyncio.gather(
            *(_outcome_async(fn, branch, slots) for fn, branch in zip(op.fns, op.branches, strict=True))
        )
    )


async def _outcome_async(fn: Callable[..., Any], branch: Branch, slots: asyncio.Semaphore) -> Outcome:
    async with slots:
        try:
            return Outcome(await asyncio.create_task(_call_async(fn, branch)))
        except BaseException as e:  # noqa: BLE001  the parent raises it, in branch order
            return Outcome(error=e)
