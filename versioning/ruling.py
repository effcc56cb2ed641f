"""What happens when a worker of some build wants a run: read-only, so that opening, claiming and pages say the same.

In this order: the run's pin, the decision of the governing deploy (the run's own before its group's), where new runs go, the
build that the run is on, a move that was decided before, what the comparison says, and at last the agent's policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from journals import store
from versioning import assessing, live, mismatch, registering
from versioning.assessing import Measure, Pair
from versioning.models import AgentPolicy, Applied, Build, Decision, Deploy

Act = Literal["go", "apply", "pin", "stop", "hold", "refuse"]
ROLLED_OUT = (Deploy.State.ROLLING_OUT, Deploy.State.DRAINING, Deploy.State.DRAINED)
UNDECIDED = "undecided"  # hold_reason of a run that waits for a decision about a build


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a worker's wish for a run leads to.

    `go`: it may have it, after a `deploy.continued` entry when `why` says why; `apply`: write `decision` into the journal and
    ask again; `pin`, `stop`, `hold`: the agent's policy, to be written; `refuse`: nothing is written, `why` is told.
    """

    act: Act
    why: str = ""
    by: str = ""
    decision: Decision | None = None
    assessment: mismatch.Assessment | None = None
    refers_to: str = ""  # the build that the refusal names


@dataclass(slots=True)
class Rules:
    """All that holds for one build of an agent in one environment, loaded once for any number of runs."""

    build: Build
    environment: str
    now: datetime
    chain: list[str]  # labels whose pinned runs the build may take, itself first
    deploy: Deploy | None
    by_group: dict[str, Decision]
    by_run: dict[str, Decision]
    on_mismatch: str
    _measures: dict[tuple[int, Pair], mismatch.Assessment] = field(default_factory=dict)
    _live: set[str] | None = None

    @staticmethod
    def load(build: Build, *, environment: str, now: datetime) -> Rules:
        """The rules as they stand now."""
        deploy = Deploy.objects.governing(agent=build.agent, environment=environment)
        standing = list(deploy.decisions.standing()) if deploy else []
        policy = AgentPolicy.objects.filter(agent=build.agent).first()
        return Rules(
            build=build,
            environment=environment,
            now=now,
            chain=registering.replaced_by(agent=build.agent, label=build.label),
            deploy=deploy,
            by_group={d.group: d for d in standing if d.group},
            by_run={d.run_key: d for d in standing if d.run_key},
            on_mismatch=policy.on_mismatch if policy else AgentPolicy.OnMismatch.ASK,
        )

    def ruling(self, head: store.HeadRow) -> Ruling:
        """What happens when the build's worker takes this run, which is neither over, stopped, held nor leased."""
        if head.pinned_build:
            return self._pinned(head)
        decision = self.decision_for(head)
        if decision is not None:
            if not Applied.objects.filter(decision=decision, head_id=head.id).exists():
                return Ruling("apply", decision=decision)
            if decision.action == Decision.Action.CONTINUE:
                return self._continued(decision)
        if head.epoch == 0:
            return self._new()
        if head.open_build == self.build.label:
            return Ruling("go")
        if last_continued(head.id) in self.chain:
            return Ruling("go", f"the run was moved to build {last_continued(head.id)}", by="policy")
        return self._by_verdict(assessing.pair_of(head.id))

    def decision_for(self, head: store.HeadRow) -> Decision | None:
        """The standing decision of the governing deploy that covers this run."""
        if self.deploy is None or head.key in self.by_run:
            return self.by_run.get(head.key)
        if not self.by_group or head.epoch == 0 or head.open_build == self.deploy.build.label:
            return None
        return self.by_group.get(self.assess(self.deploy.build, assessing.pair_of(head.id)).group)

    def leaves(self, pair: Pair) -> bool:
        """Whether asking for runs of this pair would change nothing and give nothing, so that a claim passes them by."""
        decision = None
        if self.deploy is not None and self.by_group and pair.base != self.deploy.build.label:
            decision = self.by_group.get(self.assess(self.deploy.build, pair).group)
        if decision is not None:
            return decision.action == Decision.Action.CONTINUE and self._continued(decision).act != "go"
        if pair.base == self.build.label or self._by_verdict(pair).act != "hold":
            return False
        return (
            pair.base in self.live
        )  # a worker of its own build will take it; else it is held, so that somebody sees it

    def leaves_new(self) -> bool:
        """Whether runs that no worker has opened yet go to another build."""
        return self._new().act != "go"

    @property
    def live(self) -> set[str]:
        """Labels that a live worker can run."""
        if self._live is None:
            self._live = live.builds(agent=self.build.agent, environment=self.environment, now=self.now)
        return self._live

    def assess(self, build: Build, pair: Pair) -> mismatch.Assessment:
        """The runs of a pair, awake now, against a build; compared once."""
        key = build.pk, pair
        if key not in self._measures:
            self._measures[key] = self._measure(build, [pair]).assess(pair, now=self.now)
        return self._measures[key]

    def learn(self, pairs: Sequence[Pair]) -> None:
        """Compares many pairs at once with the build and with the deploy's target."""
        for build in {b.pk: b for b in (self.build, self.deploy.build if self.deploy else None) if b}.values():
            measure = self._measure(build, pairs)
            self._measures.update({(build.pk, pair): measure.assess(pair, now=self.now) for pair in pairs})

    def _measure(self, build: Build, pairs: Sequence[Pair]) -> Measure:
        return assessing.measure_for(build, pairs=pairs)

    def _pinned(self, head: store.HeadRow) -> Ruling:
        if head.pinned_build == self.build.label:
            return Ruling(
                "go", "" if head.open_build in ("", self.build.label) else "the run is pinned to it", by="pin"
            )
        if head.pinned_build in self.chain:
            return Ruling("go", f"build {self.build.label} replaces {head.pinned_build}", by=self.build.created_by)
        why = f"run {head.run!r} is pinned to build {head.pinned_build}; this worker runs build {self.build.label}"
        return Ruling("refuse", why, refers_to=head.pinned_build)

    def _continued(self, decision: Decision) -> Ruling:
        target = self.deploy.build.label if self.deploy else ""
        if target in self.chain:
            return Ruling("go", decision.reason, by=decision.by, decision=decision)
        return Ruling("refuse", f"the run continues on build {target}, as {decision.by} decided", refers_to=target)

    def _new(self) -> Ruling:
        deploy = self.deploy
        if deploy is None or deploy.state not in ROLLED_OUT or deploy.build.label in self.chain:
            return Ruling("go")
        if deploy.rolled_out_at is not None and self.build.created_at > deploy.rolled_out_at:
            return Ruling("go")  # a build that came after the roll-out is not an old one
        target = deploy.build.label
        return Ruling(
            "refuse", f"new runs of {deploy.agent} go to build {target} since deploy {deploy.key}", refers_to=target
        )

    def _by_verdict(self, pair: Pair) -> Ruling:
        found = self.assess(self.build, pair)
        if found.verdict == "same":
            return Ruling("go", assessment=found)
        if found.verdict == "compatible":
            return Ruling(
                "go", f"the agent's policy calls the differences to build {self.build.label} compatible", by="policy"
            )
        act: Act = "hold"
        if self.on_mismatch == AgentPolicy.OnMismatch.FINISH_ON_OLD and pair.base:
            act = "pin"
        elif self.on_mismatch == AgentPolicy.OnMismatch.STOP:
            act = "stop"
        return Ruling(act, self.in_words(found), by="policy", assessment=found)

    def in_words(self, found: mismatch.Assessment) -> str:
        """What the build changes for a run, in one line."""
        if found.verdict == "unknown":
            return (
                f"what the run recorded cannot be compared with build {self.build.label}: {in_words(found.differences)}"
            )
        return f"build {self.build.label} differs: {in_words(found.differences)}"


def in_words(differences: Sequence[mismatch.Difference]) -> str:
    """Differences in one line: `prompt refund-policy 12 → 14, tool lookup removed`."""
    return ", ".join(words_of(d) for d in differences) or "no versions are recorded"


def words_of(d: mismatch.Difference) -> str:
    """One difference in a few words; digests by their first 8 characters."""
    subject = f"{d.component} {d.name}".strip()
    if d.change == "unknown":
        return f"{subject} not recorded" if d.recorded is None else f"{subject} not stated by the build"
    if d.change == "model_retired":
        return d.detail
    if d.change == "removed":
        return f"{subject} removed"
    if d.change == "added":
        return f"{subject} added"
    return d.detail or f"{subject} {short(d.recorded)} → {short(d.new)}"


def short(version: str | None) -> str:
    """A version as people read it."""
    version = version or "–"
    return version[7:15] if version.startswith("sha256:") and len(version) > 15 else version


def last_continued(head_id: int) -> str:
    """The build of the newest `deploy.continued` entry that was written here; empty when there is none."""
    label = ""
    for stored in store.skeleton(head_id):
        if stored.kind == "deploy.continued" and stored.origin == "server":
            label = stored.entry.build or ""
    return label
