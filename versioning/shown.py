"""What the deploy pages show: groups, decisions and drains in words. Reads through `deploying` and `queries`; no request."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from journals import store
from journals.errors import UnknownRun
from runs import controls
from runs.models import Run
from versioning import assessing, deploying, drain, live, mismatch, queries, ruling
from versioning.assessing import Assessed, Group
from versioning.models import STOP_NAMES, AgentPolicy, Decision, Deploy, StateChange

STAGES: Final = (
    ("assess", "assess"),
    ("decide", "decide"),
    ("rolling_out", "roll out"),
    ("draining", "draining"),
    ("drained", "drained"),
)
RUNS_SHOWN: Final = 100  # rows of a page of a group
COMMANDS_SHOWN: Final = 20  # runs whose commands stand on the page of a decision
VERBS: Final = {"pin": "Pin and drain", "continue": "Continue", "stop": "Stop…"}


@dataclass(frozen=True, slots=True)
class Line:
    """One difference: what, from what, to what."""

    component: str
    name: str
    recorded: str | None
    new: str | None
    change: str
    text: str


@dataclass(slots=True)
class GroupRow:
    """A group with what was decided for it, or what happens when nothing is."""

    group: Group
    lines: Sequence[Line]
    decision: Decision | None
    applied: int
    left: str  # what happens when nobody decides; empty when nothing has to be decided
    verbs: Sequence[tuple[str, str]] = ()  # (action, words of its button)

    compare: Sequence[str] = ()  # registered builds that the runs are on, to be laid beside the target

    @property
    def blank(self) -> bool:
        """The runs recorded nothing at all that the build names."""
        return bool(self.lines) and all(line.change == "unknown" and line.recorded is None for line in self.lines)

    @property
    def needs(self) -> bool:
        """Somebody has to decide."""
        return self.decision is None and self.group.verdict in ("mismatch", "unknown")


@dataclass(slots=True)
class DeployView:
    """Everything on a deploy's page."""

    assessed: Assessed
    stages: Sequence[tuple[str, str]]
    rows: Sequence[GroupRow]
    progress: drain.Progress
    decisions: Sequence[Decision]
    run_decisions: Sequence[Decision]
    undecided: int
    changes: Sequence[StateChange]  # roll-outs and the roll-back, newest first
    governed_by: Deploy | None  # a newer deploy, when this one no longer decides
    tag: str = ""
    applied: Mapping[int, int] = field(default_factory=dict)


def lines_of(differences: Sequence[mismatch.Difference]) -> list[Line]:
    """Differences as the page shows them."""
    return [Line(d.component, d.name, d.recorded, d.new, d.change, ruling.words_of(d)) for d in differences]


@dataclass(frozen=True, slots=True)
class StepWords:
    """What the page that asks before a step of a deploy says."""

    name: str
    title: str
    said: str  # afterwards
    danger: bool = False


ROLL_OUT: Final = StepWords("roll_out", "Send new runs to build {build}", "New runs go to build {build} now.")
ROLL_BACK: Final = StepWords(
    "roll_back",
    "Roll back build {build}",
    "The deploy of build {build} is rolled back; new runs may go to any build again.",
    danger=True,
)


def stages(state: str, *, undecided: int = 0) -> list[tuple[str, str]]:
    """(words, done|open|now|next) for the rail; `open`: passed, and somebody still has to decide. A rolled back deploy ends there."""
    if state == Deploy.State.ROLLED_BACK:
        return [("assess", "done"), ("decide", "next" if undecided else "done"), ("rolled back", "now")]
    names = [name for name, _ in STAGES]
    at = names.index(state)
    last = state == Deploy.State.DRAINED
    made = [(words, "done" if n < at or last else "now" if n == at else "next") for n, (_, words) in enumerate(STAGES)]
    if undecided and at > names.index("decide"):
        made[names.index("decide")] = (f"decide: {undecided:,} open", "open")
    return made


def deploy_row(deploy: Deploy, *, now: datetime) -> dict[str, Any]:
    """A deploy in the list. Deploys that are over are not assessed again."""
    over = deploy.state in (Deploy.State.DRAINED, Deploy.State.ROLLED_BACK)
    if over:
        return {"deploy": deploy, "left": None, "undecided": 0}
    assessed = assessing.assess_build(deploy.build, environment=deploy.environment, now=now)
    return {
        "deploy": deploy,
        "assessed": assessed,
        "verdicts": assessed.verdicts(),
        "undecided": queries.undecided(assessed, deploy.decisions.standing()),
        "left": deploying.draining(deploy, now=now, shown=0),
    }


def deploy_page(deploy: Deploy, *, now: datetime) -> DeployView:
    """The deploy as of now; assessing it may raise its version."""
    assessed = deploying.refresh(deploy, now=now)
    deploying.advance(deploy, now=now)
    decisions = list(deploy.decisions.order_by("-id"))
    applied = deploying.applied_counts(decisions)
    policy = AgentPolicy.objects.filter(agent=deploy.agent).first()
    governing = Deploy.objects.governing(agent=deploy.agent, environment=deploy.environment)
    known = queries.registered(deploy.agent, [label for g in assessed.groups for label in g.builds])
    rows = [
        _row(group, decision, applied, policy, known - {deploy.build.label})
        for group, decision in queries.groups_with_decisions(assessed, decisions)
    ]
    undecided = queries.undecided(assessed, decisions)
    view = DeployView(
        assessed=assessed,
        stages=stages(deploy.state, undecided=undecided),
        rows=rows,
        progress=deploying.draining(deploy, now=now),
        decisions=decisions,
        run_decisions=[d for d in decisions if d.run_key and d.superseded_at is None],
        undecided=undecided,
        changes=list(deploy.changes.order_by("-id")),
        governed_by=governing if governing is not None and governing.pk != deploy.pk else None,
        applied=applied,
    )
    view.tag = _tag(deploy, view)
    return view


def group_page(deploy: Deploy, key: str, *, after: int, now: datetime) -> dict[str, Any] | None:
    """The runs of a group, by number, each with its own decision; None when no run is in it now."""
    assessed = deploying.refresh(deploy, now=now)
    found = assessed.group(key)
    if found is None:
        return None
    ids = [head_id for head_id, _ in assessed.runs_of(found.pairs, limit=RUNS_SHOWN + 1, after=after)]
    rows = list(Run.objects.filter(pk__in=ids[:RUNS_SHOWN]).order_by("pk"))
    own = {d.run_key: d for d in deploy.decisions.standing().exclude(run_key="")}
    decision = deploy.decisions.standing().filter(group=key).first()
    return {
        "group": found,
        "lines": lines_of(found.differences),
        "rows": [{"run": run, "decision": own.get(run.key)} for run in rows],
        "decision": decision,
        "older_url": f"?after={ids[RUNS_SHOWN - 1]}" if len(ids) > RUNS_SHOWN else "",
    }


def decision_page(deploy: Deploy, *, action: str, group: str, run_key: str, now: datetime) -> dict[str, Any] | None:
    """What a decision would do, and the form's first values; None when its subject is gone."""
    if action not in VERBS or bool(group) == bool(run_key):
        return None
    assessed = deploying.refresh(deploy, now=now)
    run, found = None, assessed.group(group) if group else None
    if run_key:
        run, found = _one_run(deploy, run_key, assessed)
    if found is None:
        return None
    return {
        "action": action,
        "group": found,
        "run": run,
        "lines": lines_of(found.differences),
        "button": button(action, found.count, deploy.build.label),
        "follows": follows(action, found, deploy.build.label),
        "foreign": foreign_of(deploy, action, run, found, assessed),
        "waits": waits(deploy, action, found, now=now),
        "standing": deploy.decisions.standing().filter(group=group, run_key=run_key).first(),
        "stop_names": STOP_NAMES,
        "initial": {
            "version": deploy.version,
            "action": action,
            "group": group,
            "run": run_key,
            "name": mismatch.stop_name(found.differences),
            "message": f"Build {deploy.build.label} changes: {ruling.in_words(found.differences)}.",
        },
    }


@dataclass(frozen=True, slots=True)
class Foreign:
    """The runs of a group that live in another runtime: nothing here carries a decision about them out."""

    count: int
    native: int
    titles: str  # what people call the runtimes
    commands: Sequence[tuple[Run, controls.Command]]  # of the first ones


def foreign_of(deploy: Deploy, action: str, run: Run | None, group: Group, assessed: Assessed) -> Foreign | None:
    """The foreign runs that a decision would be about, with the commands that carry it out; None when there are none."""
    if run is not None:
        ids = [] if run.native else [run.pk]
    else:
        pairs = [pair for pair in group.pairs if not pair.native]
        ids = [head_id for head_id, _ in assessed.runs_of(pairs)] if pairs else []
    if not ids:
        return None
    verb = "move" if action == "continue" else action
    rows = list(Run.objects.filter(pk__in=ids).only("key", "run", "runtime", "build").order_by("pk")[:COMMANDS_SHOWN])
    made = []
    for row in rows:
        head = store.head(row.pk)
        build = row.build if action == "pin" else deploy.build.label
        made += [(row, command) for command in controls.for_head(head, action=verb, build=build)[:1]]
    runtimes = Run.objects.filter(pk__in=ids).values_list("runtime", flat=True).distinct()
    titles = " and ".join(sorted({controls.title(runtime) for runtime in runtimes}))
    return Foreign(len(ids), max(group.count - len(ids), 0), titles, made)


def waits(deploy: Deploy, action: str, group: Group, *, now: datetime) -> list[tuple[str, int, str]]:
    """(build, runs, command that starts a worker of it) where the decision needs a worker and none is live."""
    needed = (
        dict(group.builds) if action == "pin" else {deploy.build.label: group.count} if action == "continue" else {}
    )
    if not needed or (group.pairs and not any(pair.native for pair in group.pairs)):
        return []
    alive = live.builds(agent=deploy.agent, environment=deploy.environment, now=now)
    return [
        (label, count, live.start_command(build=label, environment=deploy.environment))
        for label, count in sorted(needed.items())
        if label and label not in alive
    ]


def button(action: str, count: int, label: str) -> str:
    """The words of the button that decides: a verb with its object."""
    runs = f"{count:,} run{'' if count == 1 else 's'}"
    return {
        "pin": f"Pin {runs} to the build {'it is' if count == 1 else 'they are'} on",
        "continue": f"Continue {runs} on build {label}",
        "stop": f"Stop {runs}",
    }[action]


def follows(action: str, group: Group, label: str) -> str:
    """What happens after the decision, in a sentence or two."""
    builds = ", ".join(f"{name or 'an unknown build'} ({count:,})" for name, count in sorted(group.builds.items()))
    if action == "pin":
        return (
            f"They stay with the build that they are on: {builds}. Workers of other builds are refused. "
            f"Runs of this group that come later are pinned too."
        )
    if action == "continue":
        return (
            f"Workers of build {label} take them when they wake, and go on from what is recorded. A request that differs in more "
            f"than a model's input holds the run before anything is sent. Runs of this group that come later continue too."
        )
    return (
        f"{group.count - group.in_step:,} that nobody works on end at once with their open gaps listed; those with a worker stop "
        f"between two steps ({group.in_step:,} have a step in flight now, whose result is still taken). They do not run again."
    )


def decided(
    decision: Decision,
    reached: int,
    *,
    foreign: Foreign | None = None,
    waiting: Sequence[tuple[str, int, str]] = (),
) -> str:
    """The message after a decision."""
    subject = f"run {decision.run_key}" if decision.run_key else f"{decision.expected:,} runs"
    words = {"pin": f"{subject} pinned", "continue": f"{subject} continue", "stop": f"{subject} stopped or stopping"}
    rest = decision.expected - reached
    tail = f"; {rest:,} more are being reached" if rest > 0 else ""
    made = [f"Decided: {words[decision.action]}. It stands in {reached:,} journal{'' if reached == 1 else 's'}{tail}."]
    if foreign is not None:
        of = "None of them is" if not foreign.native else f"{foreign.count:,} of them are not"
        made.append(f"{of} carried out: they live in {foreign.titles}; each run's page has the command.")
    made += [
        f"{count:,} will not finish until a worker of build {label} runs: {line}" for label, count, line in waiting
    ]
    return " ".join(made)


def undecided_words(policy: AgentPolicy | None, group: Group) -> str:
    """What happens to a group when nobody decides."""
    if group.verdict not in ("mismatch", "unknown"):
        return ""
    on = policy.on_mismatch if policy else AgentPolicy.OnMismatch.ASK
    return {
        "ask": "held when a worker of another build wakes them (policy ask)",
        "finish_on_old": "pinned to the build that they are on (policy finish_on_old)",
        "stop": f"stopped with {mismatch.stop_name(group.differences)} when they wake (policy stop)",
    }[on]


def _row(
    group: Group, decision: Decision | None, applied: Mapping[int, int], policy: AgentPolicy | None, known: set[str]
) -> GroupRow:
    actions = ["pin", "continue", "stop"] if group.verdict == "mismatch" else ["pin", "stop"]
    if group.verdict in ("same", "compatible"):
        actions = []
    return GroupRow(
        group=group,
        lines=lines_of(group.differences),
        decision=decision,
        applied=applied.get(decision.pk, 0) if decision else 0,
        left="" if decision else undecided_words(policy, group),
        verbs=[(action, VERBS[action]) for action in actions],
        compare=sorted(known & group.builds.keys()) if group.verdict == "mismatch" else (),
    )


def _one_run(deploy: Deploy, run_key: str, assessed: Assessed) -> tuple[Run | None, Group | None]:
    try:
        head = store.find(key=run_key)
    except UnknownRun:
        return None, None
    run = Run.objects.filter(pk=head.id).first()
    if run is None or head.ended or (head.agent, head.environment) != (deploy.agent, deploy.environment):
        return None, None
    pair = assessing.pair_of(head.id)
    found = assessing.measure_for(deploy.build, pairs=[pair]).assess(pair, now=assessed.assessed_at)
    in_step = int(run.gap == "may_run_twice")
    return run, Group(found.group, found.verdict, found.differences, count=1, in_step=in_step, builds={run.build: 1})


def _tag(deploy: Deploy, view: DeployView) -> str:
    seen = (
        deploy.version, deploy.state, view.assessed.not_started, sorted(view.applied.items()),
        [(r.group.key, r.group.count, r.group.in_step, r.group.parked, r.group.stranded, r.group.held) for r in view.rows],
        view.progress.left, view.progress.stranded, view.progress.held, [(s.holder.key, s.text) for s in view.progress.stragglers],
    )  # fmt: skip
    return hashlib.blake2b(repr(seen).encode(), digest_size=8).hexdigest()
