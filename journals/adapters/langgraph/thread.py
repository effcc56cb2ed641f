"""One thread as a tree of checkpoints, and the place of every task in it.

A checkpoint starts tasks; their writes make the next one. Order is by parent, never by time or id: clocks go back. The runtime
itself takes the checkpoint with the largest id, which is looked at only to tell where it would go on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from journals.adapters.langgraph.forms import NOBODY, Checkpoint, Task

Key = tuple[str, str]  # checkpoint_ns, checkpoint_id


@dataclass(frozen=True, slots=True)
class Place:
    branch: str
    step: int

    def inner(self, word: str) -> str:
        """The name of a branch that begins at this step."""
        return f"{self.branch}.{self.step}.{word}" if self.branch else f"{self.step}.{word}"


@dataclass(slots=True)
class Item:
    """A task, or a node that is due and has none."""

    name: str
    checkpoint: Checkpoint
    place: Place
    task: Task | None = None
    push: int | None = None
    passed: bool = False  # a later checkpoint was made out of what it wrote

    @property
    def done(self) -> bool:
        return self.passed or (self.task is not None and self.task.done)

    @property
    def asks(self) -> bool:
        """It is parked on a question that nobody has answered."""
        task = self.task
        return not self.done and task is not None and bool(task.interrupts) and not task.resumed


@dataclass(slots=True)
class Stage:
    """A checkpoint where it stands in its line."""

    checkpoint: Checkpoint
    branch: str
    number: int  # the step that its tasks are, within the branch
    begun: int = 0  # the step that made it: what stands there, its parent's tasks did not
    items: list[Item] = field(default_factory=list)
    updates: list[Task] = field(default_factory=list)
    children: list[Checkpoint] = field(default_factory=list)
    resumed: bool = False  # it was made by an invocation that went on from its parent
    fork: bool = False  # not the first child of its parent

    @property
    def parallel(self) -> bool:
        return len(self.items) > 1


@dataclass(slots=True)
class Thread:
    id: str
    stages: list[Stage] = field(
        default_factory=list
    )  # in order: each line of the main graph, its subgraphs where they run
    nested: dict[str, Item] = field(default_factory=dict)  # checkpoint_ns -> the step whose subgraph it is
    tip: Checkpoint | None = None  # where the main graph stands
    head: Checkpoint | None = None  # where the runtime would go on: the largest id
    begun: bool = False  # its first checkpoint is there
    again: list[Checkpoint] = field(default_factory=list)  # checkpoints behind `head` on the way to `tip`
    by_key: dict[Key, Stage] = field(default_factory=dict)
    by_task: dict[Key, Item] = field(default_factory=dict)  # (checkpoint_ns, task id)

    def stage(self, checkpoint: Checkpoint | None) -> Stage | None:
        return None if checkpoint is None else self.by_key.get((checkpoint.ns, checkpoint.id))


def thread_of(thread: str, checkpoints: Sequence[Checkpoint]) -> Thread:
    made = Thread(thread)
    by_ns: dict[str, list[Checkpoint]] = {}
    for checkpoint in checkpoints:
        by_ns.setdefault(checkpoint.ns, []).append(checkpoint)
    for ns in sorted(by_ns, key=lambda ns: (ns.count("|"), ns != "", ns)):
        _namespace(made, ns, by_ns[ns])
    _stand(made, by_ns.get("", []))
    return made


def _namespace(made: Thread, ns: str, found: list[Checkpoint]) -> None:
    """The lines of one graph: the main one, or a subgraph that one of its steps runs."""
    prefix = _prefix(made, ns, found[0]) if ns else ""
    ids = {c.id for c in found}
    children: dict[str | None, list[Checkpoint]] = {}
    for checkpoint in sorted(found, key=lambda c: c.id):
        if not checkpoint.orphan:
            children.setdefault(checkpoint.parent if checkpoint.parent in ids else None, []).append(checkpoint)
    roots = sorted(children.get(None, []), key=lambda c: (c.parent is not None, c.step, c.ts or "", c.id))
    if not ns:
        made.begun = bool(roots) and roots[0].parent is None and roots[0].step <= 0
    lines: list[tuple[Checkpoint, str, int, bool]] = [(root, prefix, 0, False) for root in reversed(roots)]
    reached: set[str] = set()
    last = -2  # the highest step of the first line
    while lines:
        checkpoint, branch, base, fork = lines.pop()
        if branch == prefix and not fork and checkpoint.step <= last:  # a second beginning, beside the first
            branch, base = _apart(prefix, "line", checkpoint), checkpoint.step
        later: list[tuple[Checkpoint, str, int, bool]] = []
        here: Checkpoint | None = checkpoint
        while here is not None and here.id not in reached:
            reached.add(here.id)
            below = children.get(here.id, [])
            stage = _stage(made, here, branch, base, below)
            stage.fork = fork
            fork = False
            last = max(last, here.step) if branch == prefix else last
            for other in below[1:]:
                name = Place(branch, max(1, stage.number)).inner(f"fork-{other.id[-6:]}")
                later.append((other, name, other.step, True))
            here = below[0] if below else None
        lines += reversed(later)
    _circles(made, children, reached, prefix)
    for orphan in sorted((c for c in found if c.orphan), key=lambda c: c.id):
        _stage(made, orphan, _apart(prefix, "lost", orphan), orphan.step, [])


def _prefix(made: Thread, ns: str, first: Checkpoint) -> str:
    """The branch of a subgraph: under the step that runs it, else by its own name."""
    owner = _owner(made, ns, first)
    if owner is None:
        return ns
    made.nested[ns] = owner
    return owner.place.inner("sub")


def _apart(prefix: str, word: str, checkpoint: Checkpoint) -> str:
    """The branch of a checkpoint that belongs to no line."""
    name = f"{word}-{checkpoint.id[-6:]}"
    return f"{prefix}.{name}" if prefix else name


def _circles(made: Thread, children: Mapping[str | None, list[Checkpoint]], reached: set[str], prefix: str) -> None:
    """Checkpoints whose parents go in a circle belong to no line; each is shown by itself."""
    for below in children.values():
        for checkpoint in below:
            if checkpoint.id not in reached:
                reached.add(checkpoint.id)
                _stage(made, checkpoint, _apart(prefix, "loose", checkpoint), checkpoint.step, [])


def _stage(made: Thread, here: Checkpoint, branch: str, base: int, below: list[Checkpoint]) -> Stage:
    stage = Stage(here, branch, max(0, here.step + 1 - base), max(1, here.step - base), children=below)
    stage.resumed = _resumed(here, made)
    made.stages.append(stage)
    made.by_key.setdefault((here.ns, here.id), stage)
    _items(stage)
    for item in stage.items:
        if item.task is not None:
            made.by_task.setdefault((here.ns, item.task.id), item)
    return stage


def _resumed(here: Checkpoint, made: Thread) -> bool:
    """Whether an invocation that went on from the parent made it. Going on marks what the parent had as seen, and each
    invocation writes its own metadata."""
    above = made.by_key.get((here.ns, here.parent or ""))
    if above is None or here.source not in ("loop", "") or here.is_input:
        return False
    mark = here.versions_seen.get("__interrupt__")
    if isinstance(mark, Mapping) and mark and mark != above.checkpoint.versions_seen.get("__interrupt__"):
        return True
    return _invocation(here) != _invocation(above.checkpoint)


def _invocation(checkpoint: Checkpoint) -> dict[str, Any]:
    """The metadata that is the same in all checkpoints of one invocation."""
    return {
        k: v
        for k, v in checkpoint.metadata.items()
        if k not in ("step", "source", "parents", "writes", "counters_since_delta_snapshot")
    }


def _items(stage: Stage) -> None:
    """The tasks of a checkpoint and the nodes that it starts, each with its place. The places depend on the checkpoint alone."""
    here = stage.checkpoint
    tasks = [t for t in here.tasks.values() if t.id != NOBODY]
    stage.updates = [t for t in tasks if t.path.startswith("~__interrupt__")]
    tasks = [t for t in tasks if t not in stage.updates and t.name != "__start__"]
    if here.step == -1 and any(not t.path.startswith("~__pregel_pull, __start__") for t in tasks):
        stage.number += 1  # a function's own tasks run from the input's checkpoint
    due = [(n, p) for n, p in here.due if n != "__start__"]
    free = dict.fromkeys(due)
    pairs: list[tuple[str, int | None, Task | None]] = []
    rest: list[Task] = []
    by_push: dict[int, tuple[str, int | None]] = {push: (name, push) for name, push in due if push is not None}
    for task in sorted(tasks, key=lambda t: (t.path, t.id)):
        spot = by_push.get(task.push) if task.push is not None else (task.name, None)
        if spot not in free and task.push is None and not task.name and len(due) == 1:
            spot = due[0]
        if spot is None or spot not in free:
            rest.append(task)
        else:
            del free[spot]
            pairs.append((spot[0] or task.name, spot[1], task))
    pairs += [(name, push, None) for name, push in free]
    order = {d: i for i, d in enumerate(due)}
    pairs.sort(key=lambda p: order.get((p[0], p[1]), len(order)))
    pairs += [(left.name, left.push, left) for left in rest]
    seen = passed(here, stage.children)
    for i, (name, push, ran) in enumerate(pairs, 1):
        place = (
            Place(stage.branch, stage.number)
            if len(pairs) == 1
            else Place(Place(stage.branch, stage.number).inner(str(i)), 1)
        )
        item = Item(name, here, place, ran, push)
        item.passed = name in seen if push is None else "" in seen
        stage.items.append(item)


def passed(here: Checkpoint, below: Sequence[Checkpoint]) -> set[str]:
    """Nodes that a child checkpoint counts as run; "" stands for the Sends. A child that a person wrote passes nothing."""
    made: set[str] = set()
    for child in below:
        if child.source not in ("loop", ""):
            continue
        made.add("")
        if not child.versions_seen:  # a history: its child came out of all that was due
            made |= {name for name, _ in here.due}
        made |= {n for n, seen in child.versions_seen.items() if seen != here.versions_seen.get(n)}
    return made


def _owner(made: Thread, ns: str, first: Checkpoint) -> Item | None:
    """The step whose subgraph a namespace is: by its task id, else by its name at the checkpoint that it was started from."""
    name, _, task_id = ns.rpartition("|")[2].partition(":")
    above = ns.rpartition("|")[0]
    if (item := made.by_task.get((above, task_id))) is not None:
        return item
    parents = first.metadata.get("parents")
    started = parents.get(above) if isinstance(parents, Mapping) else None
    stage = made.by_key.get((above, started)) if isinstance(started, str) else None
    named = [i for i in stage.items if i.name == name] if stage else []
    return named[0] if len(named) == 1 else None


def _stand(made: Thread, found: Sequence[Checkpoint]) -> None:
    """Where the thread stands, and where the runtime would go on."""
    saved = [c for c in found if not c.orphan]
    made.head = max(saved, key=lambda c: c.id, default=None)
    here = made.head
    seen: set[str] = set()
    while here is not None and here.id not in seen:
        seen.add(here.id)
        made.tip = here
        stage = made.stage(here)
        below = stage.children if stage else []
        here = max(below, key=lambda c: (c.step, c.id), default=None)
        if here is not None:
            made.again.append(here)
