"""Our own store, and journal lines that an application wrote itself."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from drainboard import wire

from runs.summary import Summary
from tests.runs.journal import fold_native, native
from tests.verdicts.world import Fenced, Moment, Shown, Step, Unit, World

KIND = {"model": "model", "tool": "tool", "child": "child"}


class Native(World):
    """Our store: a write's start is acknowledged before its effect, epochs fence, a write without a key is never repeated unasked."""

    runtime = "native"

    def setup(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.lease_until = self.now
        self.parked_on = ""
        self.wake_at: Any = None
        self.opened = False
        self.open_writes: dict[int, int] = {}  # step -> try whose start has no answer
        self.pending_reads: dict[int, list[dict[str, Any]]] = {}

    def say(self, life: int, **fields: Any) -> None:
        self.lines.append({"epoch": max(life, 1), **fields})
        self.lease_until = self.now + timedelta(seconds=30)

    @staticmethod
    def place(step: Step, n: int = 1) -> dict[str, Any]:
        made: dict[str, Any] = {"step": step.number, "name": step.name, "effect": "write" if step.write else "read"}
        if step.branch:
            made["branch"] = step.branch
        return {**made, "attempt": n} if n > 1 else made

    def started(self) -> None:
        self.say(0, kind="run.started", agent="refund", origin="server")
        self.opened = True

    def recovered(self) -> None:
        """Somebody opens the run again; what a person has to decide first, a person decides."""
        self.say(self.life + 1, kind="run.resumed", origin="server")
        self.parked_on, self.wake_at, self.opened = "", None, True
        for step_id in [s for s in self.open_writes if not self._rerun_safe(s)]:
            self._decide(step_id)

    def _rerun_safe(self, step_id: int) -> bool:
        step = next(u.step for u in self.units.values() if u.step.id == step_id)
        return step.key or step.kind == "child"

    def _decide(self, step_id: int) -> None:
        unit = next(u for u in self.units.values() if u.step.id == step_id)
        if any(z for z in self.zombies):  # nobody decides while the old worker may still act
            return
        self.say(self.life + 1, kind="run.parked", reason=f"gap:{unit.step.branch}:{unit.step.number}")
        self.parked_on, self.opened = "gap", False
        self.observe_parked()
        outcome = "happened" if unit.count else "not_happened"
        if self.dice.random() < 0.2:
            outcome = "stop"
        place = {k: v for k, v in self.place(unit.step).items() if k in ("step", "branch")}
        self.say(self.life + 1, kind="gap.resolved", origin="server", outcome=outcome, by="alice", out=1, **place)
        self.parked_on = ""
        if outcome == "stop":
            self.say(self.life + 1, kind="run.stopped", origin="server", reason="StoppedByOperator")
            self.ended = "stopped"
            return
        del self.open_writes[step_id]
        if outcome == "happened":
            unit.durable = True
            self.answers[step_id] = "ok"
        self.say(self.life + 1, kind="run.resumed", origin="server")
        self.opened = True

    def observe_parked(self) -> None:
        self.observe(self, Moment())

    def fence(self, life: int) -> None:
        super().fence(life)
        if not self.opened:
            self.say(life, kind="run.resumed", origin="server")
            self.opened, self.parked_on, self.wake_at = True, "", None

    def settled(self, step: Step, life: int) -> bool:
        """A write without a key that was begun: the worker parks on it, and only a person goes on from here."""
        if step.id in self.open_writes and not step.key:
            self.zombies.clear()
            self._decide(step.id)
            if self.ended:
                raise Fenced
        return step.id in self.answers

    def start(self, step: Step, n: int, life: int) -> bool:
        line = {"kind": f"{KIND[step.kind]}.started", **self.place(step, n), "in": {"for": step.id}}
        if step.key:
            line["key"] = f"prod/refund/r:{step.branch}:{step.number}"
        if not step.write and self.dice.random() < 0.6:
            return False
        self.say(life, **line)
        if step.write:
            self.open_writes[step.id] = n
        return True

    def answer(self, step: Step, n: int, outcome: str, life: int, *, again: bool) -> bool:
        if life != self.life or self.ended:
            if step.write:
                words = {"out": 1} if outcome == "ok" else {"error": {"type": outcome}}
                self.say(self.life, kind="late.result", origin="server", of_epoch=life, **words, **self.place(step, n))
            return False
        self.open_writes.pop(step.id, None)
        if outcome == "ok":
            self.say(life, kind=f"{KIND[step.kind]}.result", **self.place(step, n), out=1)
            return True
        words = {"error": "CardDeclined", "silent": "TimeoutError"}[outcome]
        error = {"type": words, "message": words, "retryable": again}
        self.say(life, kind=f"{KIND[step.kind]}.error", **self.place(step, n), error=error)
        return True

    def forked(self, step: Step, life: int) -> None:
        if not any(x.get("kind") == "parallel.started" and x.get("step") == step.number for x in self.lines):
            self.say(life, kind="parallel.started", step=step.number, name="parallel")

    def waits(self, step: Step, life: int) -> None:
        place = {k: v for k, v in self.place(step).items() if k in ("step", "branch")}
        until = (self.now + timedelta(seconds=step.seconds)).isoformat()
        if step.kind == "timer":
            if not self._known("timer.started", step):
                self.say(life, kind="timer.started", name="sleep_until", until=until, **place)
        elif not self._known("approval.requested", step):
            self.say(life, kind="approval.requested", approval=f"ap{step.id}", artifact={"n": step.id}, **place)
        if not step.branch:
            what = "timer" if step.kind == "timer" else f"approval:ap{step.id}"
            self.say(life, kind="run.parked", reason=what)
            self.parked_on, self.opened = what, False
            self.wake_at = self.now + timedelta(seconds=step.seconds) if step.kind == "timer" else None

    def _known(self, kind: str, step: Step) -> bool:
        return any(
            x["kind"] == kind and x.get("step") == step.number and x.get("branch", "") == step.branch
            for x in self.lines
        )

    def woke(self, step: Step, life: int) -> None:
        place = {k: v for k, v in self.place(step).items() if k in ("step", "branch")}
        if step.kind == "timer":
            self.say(life, kind="timer.fired", name="sleep_until", **place)
        else:
            self.say(
                life,
                kind="approval.decided",
                origin="server",
                approval=f"ap{step.id}",
                decision="approve",
                by="bob",
                **place,
            )

    def child_started(self, step: Step, life: int) -> bool:
        if not self._known("child.started", step):
            self.say(life, kind="child.started", **self.place(step), child=f"c{step.id}")
        return True

    def child_ended(self, step: Step, life: int) -> None:
        self.say(life, kind="child.result", **self.place(step), child=f"c{step.id}", out=1)

    def finished(self, status: str, life: int) -> None:
        self.say(life, kind=f"run.{status}")

    def cancel(self) -> bool:
        """A stop: taken between steps, or by the server when the worker is gone."""
        self.say(self.life, kind="stop.requested", origin="server", reason="StoppedByOperator", by="alice")
        self.say(self.life, kind="run.stopped", origin="server", reason="StoppedByOperator")
        self.ended = "stopped"
        return True

    def summary(self, alive: bool) -> Summary:
        lines = self.lines
        if self.dice.random() < 0.5 and len(lines) > 2:
            lines = list(lines)
        return fold_native(
            native(*lines),
            now=self.now,
            epoch=self.life,
            worker="" if self.ended or self.parked_on else f"w{self.life}",
            lease_until=None if self.ended or self.parked_on else self.now + timedelta(seconds=20 if alive else -20),
            ended=self.ended,
            parked_on=self.parked_on,
            wake_at=self.wake_at,
        )


class Lines(World):
    """Lines of an application: starts of writes before the effect, every try recorded, two owners may both write."""

    runtime = "lines"

    def setup(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.numbered = self.dice.random() < 0.6
        self.seen: set[tuple[str, int]] = set()
        self.may_show_more = not self.numbered  # two answers to one call are two steps

    def fence(self, life: int) -> None:
        """Nothing fences; a process stops when it finds the run ended."""
        if self.ended:
            raise Fenced

    def say(self, **fields: Any) -> None:
        self.lines.append({"run": "r", "seq": len(self.lines) + 1, "at": self.now.isoformat(), **fields})

    def place(self, step: Step, n: int = 1) -> dict[str, Any]:
        made: dict[str, Any] = {"name": step.name, "effect": "write" if step.write else "read"}
        if step.branch:
            made["branch"] = step.branch
        if self.numbered:
            made["step"] = step.number
        else:
            made["call"] = f"c{step.id}"
        return {**made, "attempt": n} if n > 1 else made

    def unit_of(self, shown: Shown) -> Unit | None:
        return self.units.get(int(shown.call[1:])) if shown.call else None

    def started(self) -> None:
        self.say(kind="run.started", agent="refund")

    def start(self, step: Step, n: int, life: int) -> bool:
        if not step.write and self.dice.random() < 0.5:
            return False
        line = {"kind": f"{step.kind}.started", **self.place(step, n), "in": {"for": step.id}}
        self.say(**({**line, "key": f"k{step.id}"} if step.key else line))
        return True

    def answer(self, step: Step, n: int, outcome: str, life: int, *, again: bool) -> bool:
        if outcome == "ok":
            self.say(kind=f"{step.kind}.result", **self.place(step, n), out=1)
            return True
        words = {"error": "CardDeclined", "silent": "TimeoutError"}[outcome]
        self.say(
            kind=f"{step.kind}.error",
            **self.place(step, n),
            error={"type": words, "message": words, "retryable": again},
        )
        return True

    def _once(self, kind: str, step: Step, **fields: Any) -> None:
        if (kind, step.id) not in self.seen:
            self.seen.add((kind, step.id))
            self.say(kind=kind, **{k: v for k, v in self.place(step).items() if k != "effect"}, **fields)

    def forked(self, step: Step, life: int) -> None:
        self._once("parallel.started", step)

    def waits(self, step: Step, life: int) -> None:
        if step.kind == "timer":
            self._once("timer.started", step, until=(self.now + timedelta(seconds=step.seconds)).isoformat())
        else:
            self._once("approval.requested", step, approval=f"ap{step.id}", artifact={"n": step.id})

    def woke(self, step: Step, life: int) -> None:
        if step.kind == "timer":
            self._once("timer.fired", step)
        else:
            self._once("approval.decided", step, approval=f"ap{step.id}", decision="approve", by="bob")

    def child_started(self, step: Step, life: int) -> bool:
        self._once("child.started", step, child=f"c{step.id}")
        return True

    def child_ended(self, step: Step, life: int) -> None:
        self._once("child.result", step, child=f"c{step.id}", out=1)

    def finished(self, status: str, life: int) -> None:
        self.say(kind=f"run.{status}")

    def cancel(self) -> bool:
        self.say(kind="run.cancelled")
        self.ended = "cancelled"
        return True

    def export(self) -> dict[str, bytes]:
        return {"journal.jsonl": b"".join(wire.dump(line) + b"\n" for line in self.lines)}
