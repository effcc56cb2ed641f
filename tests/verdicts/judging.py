"""Compares what is said of a run with what happened: false safety, which may not be, and false alarms, which are counted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runs.gaps import Gap
from runs.states import ENDED, Confidence, Effects, Verdict
from runs.summary import StepRow, Summary
from tests.verdicts.world import Moment, Unit, World

OPEN = frozenset((Verdict.MAY_RUN_TWICE, Verdict.FAILED_MAY_HAVE_RUN, Verdict.UNKNOWN))


@dataclass(frozen=True, slots=True)
class Said:
    """One thing that was said wrongly. `kind` groups equal ones."""

    kind: str
    detail: str


@dataclass(frozen=True, slots=True)
class Judgement:
    false_safe: tuple[Said, ...]
    false_alarms: tuple[Said, ...]  # the journal could have told
    blind: tuple[Said, ...]  # alarms where the same journal may stand for a danger
    silent: tuple[Said, ...]  # doubles that the journal has no trace of, called done and not counted as one


def rows_of(world: World, summary: Summary) -> tuple[dict[int, StepRow], list[StepRow]]:
    """The row of each recorded unit (by its identity), and rows that stand for none.

    A row is found by what the runtime calls the step, else by its name: names are unique, or steps of one name come in the order
    of their first records.
    """
    found: dict[int, StepRow] = {}
    strange: list[StepRow] = []
    rows: dict[str, list[StepRow]] = defaultdict(list)
    for row in summary.steps:
        name = world.shown_name(row.step.name)
        if row.step.kind not in ("model", "tool", "child") or row.step.missing or name is None:
            continue
        known = world.unit_of(row.step)
        if known is None:
            rows[name].append(row)
        elif found.setdefault(id(known), row) is not row:
            strange.append(row)
    for unit in world.order:
        if id(unit) not in found and rows[unit.step.name]:
            found[id(unit)] = rows[unit.step.name].pop(0)
    return found, [*strange, *(row for left in rows.values() for row in left)]


def judge(world: World, moment: Moment, summary: Summary, *, whole: bool = True, old: bool = False) -> Judgement:
    """`whole`: the export was not damaged, so that every record of the world must have its row. `old`: it is
    looked at long after it was made."""
    shown, strange = rows_of(world, summary)
    safe = [*_of_the_run(world, summary), *(_long_after(world, summary) if old else ())]
    if whole and not strange and any(id(u) not in shown for u in world.order):
        lost = [u.step.name for u in world.order if id(u) not in shown]
        safe.append(Said("a record has no step", ", ".join(lost)))
    if strange and not world.may_show_more:
        safe.append(Said("a step without a record", ", ".join(str(r.step.name) for r in strange)))
    doubles = _told_doubles(summary)
    alarms: list[Said] = []
    blind: list[Said] = []
    silent: list[Said] = []
    for unit in world.units.values():
        row = shown.get(id(unit))
        if row is None:
            others = [shown[id(u)].judged for u in world.units.values() if u.step is unit.step and id(u) in shown]
            if world.repeats(unit) or not any(j.effects in (Effects.AT_LEAST_ONE, Effects.UNKNOWN) for j in others):
                safe.extend(_hidden(world, unit, summary))
            continue
        safe.extend(_visible(world, unit, row, summary))
        kind = _alarm(world, unit, row)
        if kind:
            (alarms if unit.durable and _settled(row) else blind).append(Said(kind, _about(unit, row)))
        if unit.step.write and unit.count > 1 and row.judged.verdict == Verdict.DONE and not doubles(row):
            how = "tried again inside a step" if "silent" in unit.step.outcomes else "executed again"
            silent.append(Said(f"double, {how}", _about(unit, row)))
    acted = {
        u.step.id for u in world.units.values() if u.step.kind in ("tool", "child")
    }  # a tool may be a write, for all a journal knows
    again = acted & (world.exposed | {step for step, n in world.tries.items() if n > 1})
    (blind if again else alarms).extend(_false_doubles(world, summary))
    tails = [g for g in summary.gaps if not g.entries]
    if tails and not any(_dangerous(world, u) and id(u) not in shown for u in world.units.values()):
        where = alarms if world.ended == "completed" else blind
        where.append(Said(f"gap without an entry, {'run over' if world.ended else 'run alive'}", tails[0].reason))
    if old or not whole:
        alarms, blind = [], []
    return Judgement(tuple(safe), tuple(alarms), tuple(blind), tuple(silent))


def _about(unit: Unit, row: StepRow) -> str:
    step = unit.step
    j = row.judged
    return (
        f"{step.kind} {step.name} ({step.id}): {j.verdict} {j.confidence}, effects {j.effects}; truly {unit.count} effects of "
        f"{unit.begun} executions, {'answer kept' if unit.durable else 'no answer kept'}: {j.reason}"
    )


def _dangerous(world: World, unit: Unit) -> bool:
    return unit.step.write and unit.count > 0 and world.repeats(unit)


def _of_the_run(world: World, summary: Summary) -> Iterator[Said]:
    if not world.over and (summary.status in ENDED or summary.complete):
        yield Said("a run that is alive is called over", f"{summary.status}, complete {summary.complete}")
    if world.ended and summary.status == "completed" and world.ended != "completed":
        yield Said("an end is called completed", f"{world.ended} is called {summary.status}")


def _long_after(world: World, summary: Summary) -> Iterator[Said]:
    """What may not be said days later of a run that waited for a timer of at most an hour."""
    for row in summary.steps:
        if row.step.kind == "timer" and (row.judged.verdict, row.judged.confidence) == (
            Verdict.WAITING,
            Confidence.CERTAIN,
        ):
            yield Said("waits, and its time has come", row.judged.reason)
    if any(step.kind == "timer" for step in world.parked.values()) and not world.ended and not summary.gaps:
        yield Said("no gap behind a timer that is over", str(summary.status))


def _visible(world: World, unit: Unit, row: StepRow, summary: Summary) -> Iterator[Said]:
    step, j = unit.step, row.judged
    about = _about(unit, row)
    if step.write:
        if j.effects == Effects.ONE and unit.count != 1:
            yield Said("effects one", about)
        if j.effects == Effects.NONE and unit.count and j.verdict != Verdict.WAITING:
            yield Said("effects none", about)
        if j.effects == Effects.AT_LEAST_ONE and not unit.count:
            yield Said("effects at least one", about)
        if j.verdict == Verdict.DONE and not unit.count and "error" not in step.outcomes:
            yield Said("done, and it never acted", about)
    if j.verdict == Verdict.DONE and unit.begun and world.repeats(unit) and step.kind != "child":
        yield Said("done, and it will run again", about)
    if j.verdict == Verdict.NOT_STARTED and world.repeats(unit) and unit.count and not unit.over:
        yield Said("not started, and it ran", about)
    if j.verdict == Verdict.WAITING and step.kind != "child" and unit.begun:
        yield Said("waiting, and it ran", about)
    if (
        _dangerous(world, unit)
        and step.kind != "child"
        and not any(_covers(g, row) for g in summary.gaps)
        and not _told_doubles(summary)(row)
    ):
        yield Said("no gap before a repeat", about)


def _covers(gap: Gap, row: StepRow) -> bool:
    return (gap.branch, gap.step) == (row.step.branch, row.step.number) and gap.verdict in OPEN


def _hidden(world: World, unit: Unit, summary: Summary) -> Iterator[Said]:
    """A unit without a row: what it did may not be passed over."""
    if not unit.step.write or not unit.count or unit.step.kind == "child":
        return
    told = [g for g in summary.gaps if g.effect == "write" and g.verdict in OPEN and (not g.entries or not g.kind)]
    findings = {f.code for f in summary.findings} & {"possible_double_effect", "torn_tail", "missing_entry"}
    if (
        told
        or findings
        or (not summary.steps and not summary.complete and (world.ended or summary.status == "unknown"))
    ):
        return  # without any step and not complete: only that there is such a run is known
    if world.repeats(unit):
        yield Said("a repeat that nothing tells", f"{unit.step.name} ({unit.step.id}): {unit.count} effects, no record")
    elif world.ended != "completed":
        yield Said(
            "an effect that nothing tells", f"{unit.step.name} ({unit.step.id}): {unit.count} effects, no record"
        )


def _alarm(world: World, unit: Unit, row: StepRow) -> str:
    """What is said of a step that nothing will repeat and that did not act twice; empty when no alarm or a true one."""
    j = row.judged
    if j.verdict not in OPEN or unit.count > 1:
        return ""
    if j.verdict == Verdict.FAILED_MAY_HAVE_RUN:
        return "" if "silent" in unit.step.outcomes or not unit.step.write else "a refusal is doubted"
    if world.repeats(unit) and unit.begun:
        return ""  # it will run again, and did run
    state = "answer kept" if unit.durable else "run over" if world.ended else "not begun"
    return f"{j.verdict} ({j.confidence}), {state}"


def _settled(row: StepRow) -> bool:
    """Whether the alarm is one that an answer of the journal would have settled. A recorded failure settles nothing: the same
    journal stands for a request that was carried out. Nor does a record that a step was to begin."""
    return row.judged.verdict != Verdict.FAILED_MAY_HAVE_RUN


def _told_doubles(summary: Summary) -> Any:
    """A function that tells whether a finding names a row as a possible double."""
    places: set[tuple[str, int | None]] = set()
    everywhere = False
    for finding in summary.findings:
        if finding.code != "possible_double_effect":
            continue
        named = [
            *_maps(finding.detail.get("steps")),
            *_maps([finding.detail.get("step")]),
            *_maps([finding.detail.get("earlier")]),
        ]
        places.update((str(p.get("branch", "")), p.get("step")) for p in named)
        everywhere = everywhere or not named
    return lambda row: everywhere or (row.step.branch, row.step.number) in places


def _maps(given: Any) -> Sequence[Mapping[str, Any]]:
    return [g for g in given if isinstance(g, Mapping)] if isinstance(given, (list, tuple)) else []


def _false_doubles(world: World, summary: Summary) -> Iterator[Said]:
    if any(u.step.write and (u.count > 1 or _dangerous(world, u)) for u in world.units.values()):
        return
    for finding in summary.findings:
        if finding.code == "possible_double_effect":
            where = "" if world.crashes else ", nothing crashed"
            yield Said(f"possible double ({finding.severity}), none happened{where}", finding.message)
