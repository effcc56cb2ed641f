"""Many worlds of one runtime: each export is read by the real adapter, folded, and judged."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from drainboard import wire

from journals.adapters import ADAPTERS
from journals.adapters.base import InputFile, Line, Options, Partial, Refused, Unread
from runs.facts import STATE_NOTE
from runs.summary import Summary
from tests.runs.journal import Entry, fold_import, imported
from tests.verdicts.aws import Aws
from tests.verdicts.cloudflare import Cloudflare
from tests.verdicts.dbos import Dbos
from tests.verdicts.durabletask import DurableTask
from tests.verdicts.judging import Said, judge
from tests.verdicts.langgraph import LangGraph
from tests.verdicts.otel import Otel
from tests.verdicts.ours import Lines, Native
from tests.verdicts.restate import Restate
from tests.verdicts.temporal import Temporal
from tests.verdicts.world import Moment, World

WORLDS: dict[str, type[World]] = {
    w.runtime: w for w in (Native, Lines, Temporal, Dbos, Restate, Aws, Otel, DurableTask, Cloudflare, LangGraph)
}


@dataclass
class Tally:
    """What came out for one runtime."""

    runtime: str
    runs: int = 0
    points: int = 0  # crashes, each with its export before the recovery
    exports: int = 0
    safe: Counter[str] = field(default_factory=Counter)
    alarms: Counter[str] = field(default_factory=Counter)
    blind: Counter[str] = field(default_factory=Counter)
    silent: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)  # kind -> the first one, with its seed

    def add(self, where: Counter[str], said: tuple[Said, ...], world: World, moment: Moment) -> None:
        for one in said:
            where[one.kind] += 1
            key = f"{'' if where is not self.blind else 'unavoidable: '}{one.kind}"
            self.examples.setdefault(
                key, f"{world.seed} export {self.exports} life {world.life} {moment}: {one.detail}"
            )


def run(runtime: str, *, points: int, seed: str, until: str = "") -> Tally:
    """Worlds until there were this many crash points, or until something of this kind was called safe and was not."""
    tally = Tally(runtime)
    while tally.points < points and not (until and until in tally.safe):
        tally.runs += 1
        one(runtime, f"{seed}/{runtime}/{tally.runs}", tally)
    return tally


def one(runtime: str, seed: str, tally: Tally) -> World:
    """One world; each moment of it is judged."""
    held: list[Entry] = []

    def observe(world: World, moment: Moment) -> None:
        tally.points += moment.dead
        if moment.dead and world.dice.random() < 0.3:
            return
        tally.exports += 1
        found = summary_of(world, moment, held)
        if found is None:
            return
        summary, whole, old = found
        said = judge(world, moment, summary, whole=whole, old=old)
        tally.add(tally.safe, said.false_safe, world, moment)
        tally.add(tally.alarms, said.false_alarms, world, moment)
        tally.add(tally.blind, said.blind, world, moment)
        tally.add(tally.silent, said.silent, world, moment)

    world = WORLDS[runtime](seed, observe)
    world.live()
    return world


def summary_of(world: World, moment: Moment, held: list[Entry]) -> tuple[Summary, bool, bool] | None:
    """What is said of the run, whether the export was whole, and whether it is long ago; None when nothing of it could be read,
    which says nothing of a run. `held`: what earlier imports brought, which may be kept."""
    if isinstance(world, Native):
        return world.summary(alive=not moment.dead), True, False
    dice = random.Random(f"{world.seed}/{world.ticks}/{world.life}/{len(held)}")
    files = world.export()
    if not any(files.values()):
        return None
    whole = True
    if world.unique and world.may_be_torn and dice.random() < 0.15:
        name = dice.choice(sorted(files))
        files[name] = files[name][: dice.randint(0, len(files[name]))]
        whole = False
    adapter = ADAPTERS[world.runtime]
    read = read_run(world.runtime, files, whole=whole)
    if not read:
        return None
    entries = imported(read, import_id=len(held) + 1, after=len(held))
    if dice.random() < 0.5:
        known = {(e.entry_id, e.digest) for e in held}
        # What an earlier import said of a damaged file is put right by a whole one; here it is not kept at all.
        held += [e for e in entries if (e.entry_id, e.digest) not in known]
        for pos, entry in enumerate(held, 1):
            entry.pos = pos
        if whole:  # of a damaged file nobody knows whether it is newer than what was there
            entries = list(held)
        held[:] = [e for e in held if not is_damage(e)]
    old = dice.random() < 0.1
    now = world.now + (timedelta(days=2) if old else timedelta(seconds=1))
    return fold_import(entries, evidence=adapter.INFO.evidence, now=now), whole, old


def read_run(runtime: str, files: Mapping[str, bytes], *, whole: bool) -> list[bytes]:
    """The lines of the one run, with the state note that an import adds for a damaged file."""
    lines: list[bytes] = []
    missing: list[Partial] = []
    for item in ADAPTERS[runtime].read([InputFile.of(path, data) for path, data in files.items()], Options()):
        if isinstance(item, Line):
            lines.append(item.raw)
        elif isinstance(item, Partial):
            missing.append(item)
        elif isinstance(item, (Refused, Unread)) and whole:
            raise AssertionError(f"{runtime}: {item}")
    return [*lines, damage_note(lines, missing)] if missing else lines


def is_damage(entry: Entry) -> bool:
    return entry.entry.name == STATE_NOTE and entry.entry.id == DAMAGE


DAMAGE: Final = "state:damage"


def damage_note(lines: Sequence[bytes], missing: Sequence[Partial]) -> bytes:
    """What an import adds to the newest state of a run whose file is damaged."""
    told = [wire.parse(raw) for raw in lines]
    out = next((e.out for e in reversed(told) if e.name == STATE_NOTE and isinstance(e.out, dict)), {})
    losses = [{"code": p.code, "reason": p.reason} for p in missing]
    out = {
        "runtime_status": None,
        "status": None,
        **out,
        "complete": False,
        "partial": "the file is damaged",
        "losses": losses,
    }
    return wire.dump({"run": "r", "id": DAMAGE, "kind": "note", "name": STATE_NOTE, "out": out})
