"""Effects that may have happened more than once, and the keys that would have prevented it. Pure.

A second execution shows in five ways: two attempts of one step of which one got no answer; a step without an answer
followed by an equal request; two answers to one write; a run that was begun again by a runtime that keeps no attempts;
a fork that copied a run which may still go on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from drainboard import wire

from runs.facts import Double, Seen, moment
from runs.failures import unanswered_error
from runs.findings import Finding, found
from runs.gaps import in_the_gap
from runs.rekeyed import Otherwise, keys_of, otherwise
from runs.states import Severity, Verdict
from runs.steps import Attempt, Journal, Step
from runs.verdicts import Ground, Judged, last_of_branch, listed

__all__ = ["findings"]


def findings(journal: Journal, judged: Sequence[Judged], ground: Ground) -> Iterator[Finding]:
    """`possible_double_effect`, `key_unstable`, `key_missing`, `attempt_overlap`, `repeated_model_call`, `duplicate_call_id`."""
    told = otherwise(journal.entries)
    for step in journal.steps:
        if step.write:
            yield from _inside(step)
        yield from _keys(step, told)
        yield from _overlap(step)
        yield from _repeated(step)
    yield from _call_ids(journal)
    yield from _across(journal)
    if ground.facts is not None and ground.facts.doubles is not None:
        yield from _told(journal, ground.facts.doubles)
    else:
        yield from _recovered(journal, ground)
        yield from _forked(journal, ground)
    yield from _without_key(journal, judged, ground)


def label(step: Step) -> str:
    """`step 4 (send_refund)`, with the branch where there is one."""
    where = f"{step.branch}:{step.number}" if step.branch else str(step.number)
    return f"step {where} ({step.name})" if step.name else f"step {where}"


def _inside(step: Step) -> Iterator[Finding]:
    """Several executions of one write step, at least one of them without an answer."""
    entries = [s.number for s in step.entries]
    if len(step.results) > 1 and not step.conflict:
        yield found(
            "possible_double_effect",
            f"{label(step)} was answered {len(step.results)} times (entry {listed(s.number for s in step.results)}): each answer is an effect.",
            entries,
            keys=list(step.keys),
            step=_place(step),
        )
        return
    silent = _silent_tries(step)
    if not silent or step.count + len(step.late) < 2:
        return
    protected = _protected(step)
    yield found(
        "possible_double_effect",
        f"{label(step)} was begun {step.count} times, and attempt{'s' if len(silent) > 1 else ''} {listed(silent)} left no answer. "
        + _protection_words(step, protected),
        entries,
        severity=Severity.WARNING if protected or not _seen_silent(step) else None,
        attempts=step.count,
        unanswered=silent,
        keys=list(step.keys),
        protected_by_key=protected,
        step=_place(step),
    )


def _silent_tries(step: Step) -> list[int]:
    """Numbers of attempts that may have acted without an answer; the newest only counts when another one has a result."""
    silent = []
    starts: dict[int, list[Attempt]] = {}
    for attempt in step.attempts:
        starts.setdefault(attempt.number, []).append(attempt)
    newest = step.attempts[-1] if step.attempts else None
    for number in range(1, step.count + 1):
        attempts = [a for a in starts.get(number, []) if a is not newest or step.results]
        if any(_no_answer(a, step) for a in attempts) or (
            number not in starts and number < max(step.tries, 1) and _unrecorded_is_silent(step, number)
        ):
            silent.append(number)
    return silent


def _no_answer(attempt: Attempt, step: Step) -> bool:
    if attempt.answer is not None:
        return not attempt.ok and unanswered_error(attempt.answer.entry.error)
    told = step.failures.get(attempt.number)
    return told is None or unanswered_error(told)


def _unrecorded_is_silent(step: Step, number: int) -> bool:
    """An attempt that only a later attempt's number speaks of: silent unless its failure is told and was an answer."""
    return number not in step.failures or unanswered_error(step.failures[number])


def _seen_silent(step: Step) -> bool:
    """At least one of the silent attempts has an entry; otherwise only a later attempt's number speaks of them."""
    earlier = step.attempts if step.conflict else step.attempts[:-1]  # two contents of one entry have no order
    return any(_no_answer(a, step) for a in earlier) or bool(step.failures)


def _protected(step: Step) -> bool:
    """Every start carried the one key, so a service that honours keys took it once."""
    return len(step.keys) == 1 and all(a.started is None or a.started.entry.key is not None for a in step.attempts)


def _protection_words(step: Step, protected: bool) -> str:
    if protected:
        return f"All carried the key {next(iter(step.keys))}: a service that honours keys took it once."
    return "They carried different keys." if len(step.keys) > 1 else "No key protects it."


def _place(step: Step) -> dict[str, Any]:
    return {"branch": step.branch, "step": step.number, "name": step.name}


def _keys(step: Step, told: Mapping[tuple[str, int], Sequence[Otherwise]]) -> Iterator[Finding]:
    keys = keys_of(step, told)
    if len(keys) > 1:
        only_told = [key for key in keys if key not in step.keys]
        what = (
            f"was sent under the key {', '.join(step.keys)}, and replay would send it under {', '.join(only_told)}"
            if only_told
            else f"was sent under {len(keys)} keys: {', '.join(keys)}"
        )
        yield found(
            "key_unstable",
            f"{label(step)} {what}. A service cannot tell the repeat from a new request.",
            [n for numbers in keys.values() for n in numbers],
            keys=[{"key": key, "entries": numbers} for key, numbers in keys.items()],
            step=_place(step),
        )


def _overlap(step: Step) -> Iterator[Finding]:
    """An answer of an earlier attempt that came after a later attempt had begun."""
    order = {id(seen): i for i, seen in enumerate(step.entries)}
    for before, after in zip(step.attempts, step.attempts[1:], strict=False):
        if before.answer is None or after.started is None or before.started is None:
            continue
        if _came_later(before.answer, after.started, order):
            yield found(
                "attempt_overlap",
                f"{label(step)}: attempt {before.number} answered (entry {before.answer.number}) after attempt {after.number} had begun "
                f"(entry {after.started.number}); both were running.",
                [before.started.number, after.started.number, before.answer.number],
                step=_place(step),
            )
            return


def _came_later(answer: Seen, start: Seen, order: Mapping[int, int]) -> bool:
    """Whether an answer came after a start: by position, or by time where the source gives no positions."""
    if answer.origin == "import" and answer.seq is None and start.seq is None:
        answered, began = moment(answer.entry.at), moment(start.entry.at)
        return answered is not None and began is not None and answered > began
    return order[id(answer)] > order[id(start)]


def _repeated(step: Step) -> Iterator[Finding]:
    if step.kind == "model" and len(step.results) > 1 and not step.conflict:
        entries = [s.number for s in step.results]
        yield found(
            "repeated_model_call",
            f"{label(step)} has {len(step.results)} answers (entry {listed(entries)}); both are kept, replay reuses the first.",
            entries,
            call=step.call,
            step=_place(step),
        )


def _call_ids(journal: Journal) -> Iterator[Finding]:
    """Steps of one kind that share a call id: the id alone does not tell them apart."""
    by_call: dict[tuple[str, str], list[Step]] = {}
    for step in journal.steps:
        if step.call and step.kind in ("model", "tool", "child"):
            by_call.setdefault((step.kind, step.call), []).append(step)
    for (_, call), steps in by_call.items():
        if len(steps) > 1:
            yield found(
                "duplicate_call_id",
                f"{len(steps)} steps share the call id {call}: {', '.join(label(s) for s in steps[:5])}{' and more' if len(steps) > 5 else ''}.",
                [s.number for step in steps for s in step.entries],
                call=call,
                steps=[_place(s) for s in steps],
            )


def _across(journal: Journal) -> Iterator[Finding]:
    """A write without an answer, then a later step that asks for the same thing."""
    waiting: dict[str | None, list[Step]] = {}
    for step in journal.steps:
        if not step.write or step.missing or step.kind == "child":
            continue
        for earlier in waiting.get(step.name, ()):
            alike = _alike(earlier, step)
            beside = earlier.branch != step.branch  # of branches that run side by side, one is no repeat of the other
            if alike is True or (alike is None and not beside):
                yield _linked(earlier, step, sure=alike is True)
        if _ended_silent(step):
            waiting.setdefault(step.name, []).append(step)


def _ended_silent(step: Step) -> bool:
    if step.results or (step.resolution is not None and not step.attempts):
        return False
    return not step.errors or step.open is not None or any(unanswered_error(e.entry.error) for e in step.errors)


def _linked(earlier: Step, later: Step, *, sure: bool) -> Finding:
    keys = list(dict.fromkeys([*earlier.keys, *later.keys]))
    protected = len(keys) == 1 and bool(earlier.keys) and bool(later.keys)
    what = "an equal request" if sure else "a request that may be equal (its input is not recorded)"
    return found(
        "possible_double_effect",
        f"{label(earlier)} has no answer, and {label(later)} sent {what} again. "
        + (f"Both carried the key {keys[0]}." if protected else "No common key protects it."),
        [*(s.number for s in earlier.entries), *(s.number for s in later.entries)],
        severity=Severity.WARNING if protected or not sure else None,
        keys=keys,
        protected_by_key=protected,
        step=_place(later),
        earlier=_place(earlier),
    )


def _alike(a: Step, b: Step) -> bool | None:
    """Whether two steps of one name ask for the same; None when a request is not recorded."""
    left, right = _request(a), _request(b)
    if left is None or right is None:
        return None
    return left == right


def _request(step: Step) -> str | None:
    """A comparable form of what the step asks for, without its key; None when its input is not recorded."""
    for seen in step.entries:
        given = seen.entry.in_
        if given is wire.MISSING or given is None:
            continue
        return wire.request_fingerprint(kind=step.kind, name=step.name, in_=given, key=None)
    return None


_WHY: Final = {
    "recovered": "The run was executed again after a crash, and its runtime keeps no record of attempts",
    "resumed": "The run was resumed or rewound, which forgets what ran before",
    "forked": "The same steps belong to two runs, a fork and its source",
}


def _told(journal: Journal, doubles: Sequence[Double]) -> Iterator[Finding]:
    """Writes that the source's own rows say may have been executed more than once: one finding per reason and other run.

    A source lists steps of every kind; those that are no write are left out.
    """
    recorded: dict[tuple[str, int | None], Step] = {(s.branch, s.number): s for s in journal.steps if not s.missing}
    groups: dict[tuple[str, str], list[Double]] = {}
    for double in doubles:
        if _may_write(double, recorded.get((double.branch, double.step))):
            groups.setdefault((double.why, double.other), []).append(double)
    for (why, other), items in groups.items():
        places = {(d.branch, d.step) for d in items}
        own = [s for s in journal.steps if (s.branch, s.number) in places and s.write]
        names = ", ".join(dict.fromkeys(d.name or "?" for d in items))
        yield found(
            "possible_double_effect",
            f"{_WHY.get(why, 'The runtime may have executed steps more than once')}{f' ({other})' if other else ''}: {names} may have happened more than once.",
            [s.number for step in own for s in step.entries],
            why=why,
            other_run=other or None,
            steps=[{"branch": d.branch, "step": d.step, "name": d.name} for d in items],
        )


def _may_write(double: Double, step: Step | None) -> bool:
    """Whether a repeat of the step costs something: as it is recorded here, else (a step of another run) as the source says.
    What nobody tells is a write."""
    if step is not None and (step.name or "") == double.name:
        return step.write
    return double.effect == "write" or (double.effect != "read" and double.kind not in ("model", "value"))


def _recovered(journal: Journal, ground: Ground) -> Iterator[Finding]:
    """A run that was begun again by a runtime that keeps no record of attempts."""
    times = ground.facts.recoveries if ground.facts else 0
    if times < 2 or ground.evidence.attempts:
        return
    steps = [s for s in journal.steps if s.write and not s.missing]
    names = ", ".join(dict.fromkeys(s.name or "?" for s in steps))
    yield found(
        "possible_double_effect",
        f"The run was begun {times} times, and this runtime keeps no record of attempts: any write may have happened more than once"
        + (f" ({names})." if names else "."),
        [s.number for step in steps for s in step.entries],
        severity=None if steps else Severity.WARNING,
        executions=times,
        steps=[_place(s) for s in steps],
    )


def _forked(journal: Journal, ground: Ground) -> Iterator[Finding]:
    """The same steps may be executed by two runs: a fork and what it was forked from."""
    if ground.facts is None:
        return
    own = [s for s in journal.steps if s.write and not s.missing and not _is_copy(s)]
    if ground.facts.forked_from and (own or ground.in_flight):
        yield found(
            "possible_double_effect",
            f"The run was forked from {ground.facts.forked_from}, which may run the same steps itself"
            + (f": {', '.join(dict.fromkeys(s.name or '?' for s in own))}." if own else "."),
            [s.number for step in own for s in step.entries],
            severity=None if own else Severity.WARNING,
            forked_from=ground.facts.forked_from,
            steps=[_place(s) for s in own],
        )
    if ground.facts.forked_to and ground.in_flight:
        yield found(
            "possible_double_effect",
            f"The run was forked into {', '.join(ground.facts.forked_to)} and is not over: if it is recovered, it runs the same steps again.",
            (),
            forked_to=list(ground.facts.forked_to),
        )


def _is_copy(step: Step) -> bool:
    return any(s.entry.extra.get("copied_from") for s in step.entries)


def _without_key(journal: Journal, judged: Sequence[Judged], ground: Ground) -> Iterator[Finding]:
    """Tools in the gap that carry no key."""
    steps = [
        s
        for s, j in zip(journal.steps, judged, strict=True)
        if s.write and s.kind == "tool" and not s.keys and j.verdict != Verdict.DONE
    ]
    ends = last_of_branch(journal.steps)
    by_step = {id(s): j for s, j in zip(journal.steps, judged, strict=True)}
    steps = [s for s in steps if in_the_gap(s, by_step[id(s)], is_last=ends[s.branch] is s, ground=ground)]
    if steps:
        many = len(steps) > 1
        yield found(
            "key_missing",
            f"{', '.join(label(s) for s in steps[:5])}{' and others' if len(steps) > 5 else ''} carr{'y' if many else 'ies'} no idempotency key: "
            "nothing outside can tell a repeat from a new request.",
            [s.number for step in steps for s in step.entries],
            steps=[_place(s) for s in steps],
        )
