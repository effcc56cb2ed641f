"""LangGraph: writes of a node when it has ended, a checkpoint when all nodes of a super-step have; the last of either may be lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.verdicts.world import Shown, Step, Unit, World


@dataclass
class Checkpoint:
    id: str
    step: int
    versions: dict[str, str]
    seen: dict[str, dict[str, str]]
    row: dict[str, Any] = field(default_factory=dict)
    made_by: int = -1  # the step of the plan behind which it stands


class LangGraph(World):
    runtime = "langgraph"
    kinds = ("model", "tool", "approval", "parallel")
    branch_kinds = ("model", "tool")
    branch_steps = 1
    zombie_possible = False
    leaves_out = "two processes on one thread; durability exit, where a crashed thread leaves nothing; an export between a write and its checkpoint"

    def setup(self) -> None:
        self.saved: list[Checkpoint] = []
        self.unsaved: list[Checkpoint] = []
        self.writes: list[dict[str, Any]] = []
        self.base: dict[int, str] = {}  # step -> checkpoint that its newest execution started from
        self.count = 0
        self.resumed = False
        self.later = self.dice.random() < 0.5  # durability async
        for step in self.plan:
            step.tolerant = False  # a node that swallows its failure has a result
            for line in step.branches:
                line[0].tolerant = False
                line[0].name += "" if self.unique else f"_{line[0].id}"  # one node runs once in a super-step

    @property
    def head(self) -> Checkpoint:
        return [*self.saved, *self.unsaved][-1]

    def node(self, step: Step) -> str:
        return "approve" if step.kind == "approval" else step.name

    def nodes(self, step: Step) -> list[str]:
        return [self.node(line[0]) for line in step.branches] if step.kind == "parallel" else [self.node(step)]

    def checkpoint(self, step: int, ran: list[str], due: list[str], made_by: int) -> None:
        self.count += 1
        above = self.head if self.count > 1 else None
        versions = dict(above.versions) if above else {}
        seen = {k: dict(v) for k, v in above.seen.items()} if above else {"__input__": {}}
        for node in ran:
            seen[node] = {f"branch:to:{node}": versions[f"branch:to:{node}"]}
        for node in due:
            versions[f"branch:to:{node}"] = f"{self.count + 1:032}.0.5"
        if self.resumed:
            seen["__interrupt__"] = dict(above.versions) if above else {}
            self.resumed = False
        own = f"1f{self.count:06x}-0000-6000-{0x8000 + step & 0xBFFF:04x}-{self.count * 7919:012x}"
        body = {
            "v": 4, "id": own, "ts": self.now.isoformat(), "versions_seen": seen, "channel_versions": versions,
            "channel_values": {f"branch:to:{node}": None for node in due},
        }  # fmt: skip
        about = {"source": "input" if step == -1 else "loop", "step": step, "parents": {}}
        row = {
            "thread_id": "t", "checkpoint_ns": "", "checkpoint_id": own, "parent_checkpoint_id": above.id if above else None, "type": None,
            "checkpoint": body, "metadata": about,
        }  # fmt: skip
        self.unsaved.append(Checkpoint(own, step, versions, seen, row, made_by))
        if not self.later or self.dice.random() < 0.5:
            self.save()

    def save(self) -> None:
        self.saved += self.unsaved
        self.unsaved = []

    def started(self) -> None:
        self.checkpoint(-1, [], [], -1)
        self.checkpoint(0, [], self.nodes(self.plan[0]), 0)
        self.save()

    def crashed(self) -> None:
        """What was not saved is gone; what ran from it will run again."""
        lost = {c.id for c in self.unsaved}
        self.unsaved = []
        for unit in self.units.values():
            if unit.durable and self.base.get(unit.step.id) in lost:
                unit.durable = False
                self.answers.pop(unit.step.id, None)

    def unit_of(self, shown: Shown) -> Unit | None:
        base = next((s.entry.extra.get("checkpoint") for s in shown.entries), None)
        return next((u for (_, at), u in self.units.items() if at == base and self.node(u.step) == shown.name), None)

    def expose(self, steps: list[Step]) -> bool:
        """Writes have no time: whether a node of the super-step under way wrote before or after the crash is not known."""
        if self.head.made_by < len(self.plan):
            step = self.plan[max(self.head.made_by, 0)]
            self.exposed |= {step.id, *(line[0].id for line in step.branches)}
        return super().expose(steps)

    def recovered(self) -> None:
        self.resumed = True

    def unit_key(self, step: Step) -> Any:
        return step.id, self.base.get(step.id)

    def _play(self, step: Step, life: int) -> Iterator[None]:
        failed = yield from super()._play(step, life)
        if not failed and not step.branch and self.head.made_by < step.number:
            after = self.plan[step.number :]
            self.checkpoint(self.head.step + 1, self.nodes(step), self.nodes(after[0]) if after else [], step.number)
        return failed

    def start(self, step: Step, n: int, life: int) -> bool:
        if self.unsaved and self.dice.random() < 0.5:
            self.save()
        return False

    def _execute(self, step: Step, life: int) -> Iterator[None]:
        self.rebase(step)
        return (yield from super()._execute(step, life))

    def rebase(self, step: Step) -> None:
        """The task of this execution; the one of a checkpoint that was lost is repeated by it."""
        before = self.units.get((step.id, self.base.get(step.id)))
        self.base[step.id] = self.head.id
        if before is not None and before is not self.unit(step):
            before.over = True

    def write(self, step: Step, channel: str, value: Any, idx: int = 0) -> None:
        at = self.base.get(step.id, self.head.id)
        node = self.node(step)
        row = {
            "thread_id": "t", "checkpoint_ns": "", "checkpoint_id": at, "task_id": f"{at}-{node}", "idx": idx, "channel": channel, "type": "json",
            "blob": json.dumps(value), "task_path": f"~__pregel_pull, {node}",
        }  # fmt: skip
        self.writes = [w for w in self.writes if (w["task_id"], w["idx"]) != (row["task_id"], idx)]
        self.writes.append(row)

    def answer(self, step: Step, n: int, outcome: str, life: int, *, again: bool) -> bool:
        if life != self.life or self.ended or again:
            return False
        if outcome == "ok":
            self.write(step, "out", {"n": step.id})
        else:
            self.write(
                step,
                "__error__",
                {"error": "CardDeclined('no')", "silent": "ReadTimeout('no answer')"}[outcome],
                idx=-1,
            )
        return True

    def waits(self, step: Step, life: int) -> None:
        self.base[step.id] = self.head.id
        self.save()
        self.write(step, "__interrupt__", [{"value": {"action": "refund"}, "id": f"i{step.id}"}], idx=-3)

    def woke(self, step: Step, life: int) -> None:
        self.resumed = True
        self.write(step, "__resume__", [{"approved": True}], idx=-4)
        self.write(step, "out", {"approved": True})

    def shown_name(self, name: str | None) -> str | None:
        return None if name == "approve" else name

    @property
    def over(self) -> bool:
        """An invocation ends with the failure of a node, or with a checkpoint behind which nothing is due."""
        done = bool(self.saved) and self.saved[-1].made_by == len(self.plan)
        return bool(self.ended) or done or "error" in self.answers.values()

    def finished(self, status: str, life: int) -> None:
        self.save()

    def export(self) -> dict[str, bytes]:
        self.save()
        tables = {"checkpoints": [c.row for c in self.saved], "checkpoint_writes": self.writes, "checkpoint_blobs": []}
        return {"t.tables.json": json.dumps(tables).encode()}
