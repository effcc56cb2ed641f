"""Builds, deploys and what was decided about the runs in flight. The runs' journals hold the same decisions as entries."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

STOP_NAMES: Final = (
    "PromptChanged",
    "ModelChanged",
    "ModelRetired",
    "ToolSchemaChanged",
    "ToolRemoved",
    "CodeChanged",
    "VersionsUnknown",
    "NonDeterministicReplay",
    "DrainDeadlinePassed",
    "ApprovalDenied",
    "ApprovalExpired",
    "ApprovalMismatch",
    "JournalLimitReached",
    "UnresolvedGap",
    "StoppedByOperator",
)
"""Every name that a stop can carry; docs/stop-names/ has a page for each."""

LIVE_FOR_S: Final = 60  # a worker that asked within this time can take a run


class Build(models.Model):
    """A named set of versions of one agent. A label is immutable: other contents under it are refused (`BuildConflict`).

    What a worker did not state may be filled in later by CI, never changed.
    """

    class FirstSeen(models.TextChoices):
        WORKER = "worker"  # a worker opened or claimed a run with it
        CI = "ci"  # registered before any worker ran it

    agent = models.TextField()
    label = models.TextField()
    app = models.TextField(null=True)
    sdk = models.TextField(null=True)
    body = models.JSONField()  # buildfile.Described.body: with texts and schemas, so lists defer it
    digest = models.TextField()  # sha256:… over body in canonical JSON
    replaces = models.TextField(blank=True, default="")  # label of the build whose pinned runs this one may take
    first_seen_from = models.TextField(choices=FirstSeen.choices)
    created_by = models.TextField()  # person:<username>, token:<name>, worker:<name>
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["agent", "-created_at", "-id"]
        constraints = [
            models.UniqueConstraint(fields=["agent", "label"], name="versioning_build_label"),
            models.CheckConstraint(condition=~Q(agent="") & ~Q(label=""), name="versioning_build_named"),
            models.CheckConstraint(condition=~Q(replaces=F("label")), name="versioning_build_not_own_hotfix"),
        ]

    def __str__(self) -> str:
        return f"{self.agent} {self.label}"


class Part(models.Model):
    """One prompt, model or tool of a build: the catalogue, and all that an assessment needs of a build without its texts.

    A component that a build states as empty has one row with an empty version.
    """

    build = models.ForeignKey(Build, on_delete=models.CASCADE, related_name="parts")
    component = models.TextField()  # prompt, model, tool
    name = models.TextField()  # prompt or tool name, model role
    version = models.TextField()  # prompt version, model id, tool digest
    digest = models.TextField(blank=True, default="")  # sha256:… of a prompt's text, where it is known
    retires_on = models.DateField(null=True)

    class Meta:
        ordering = ["component", "name", "id"]
        constraints = [
            models.UniqueConstraint(fields=["build", "component", "name"], name="versioning_part_once"),
            models.CheckConstraint(
                condition=Q(component__in=["prompt", "model", "tool"]), name="versioning_part_component"
            ),
        ]
        indexes = [
            models.Index(fields=["component", "name", "version"], name="versioning_part_version"),
            models.Index(fields=["version"], condition=~Q(retires_on=None), name="versioning_part_retires"),
        ]

    def __str__(self) -> str:
        return f"{self.component} {self.name} {self.version}"


class AgentPolicy(models.Model):
    """What an agent's owners want when nobody decides. An agent without a row asks, and calls no code change compatible."""

    class OnMismatch(models.TextChoices):
        FINISH_ON_OLD = "finish_on_old"  # the run is pinned to the build that it is on
        STOP = "stop"  # the run is stopped with the name that fits its differences
        ASK = "ask"  # the run is held until somebody decides

    agent = models.TextField(unique=True)
    on_mismatch = models.TextField(choices=OnMismatch.choices, default=OnMismatch.ASK)
    code_changes_compatible = models.BooleanField(default=False)
    changed_by = models.TextField(blank=True, default="")
    changed_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["agent"]

    def __str__(self) -> str:
        return f"{self.agent}: {self.on_mismatch}"


class DeployQuerySet(models.QuerySet["Deploy"]):
    """Named selections; each keeps the newest deploy first."""

    def governing(self, *, agent: str, environment: str) -> Deploy | None:
        """The deploy that says what happens to this agent's runs now: the newest that was not rolled back."""
        found = self.filter(agent=agent, environment=environment).exclude(state=Deploy.State.ROLLED_BACK)
        return found.select_related("build").order_by("-id").first()

    def open(self) -> DeployQuerySet:
        """Deploys that somebody still has to look after."""
        return self.exclude(state__in=[Deploy.State.DRAINED, Deploy.State.ROLLED_BACK])


class Deploy(models.Model):
    """One agent's runs in one environment going to a target build. `version` grows with every decision and every change of
    the groups, so that a decision taken on an older page is refused."""

    class State(models.TextChoices):
        ASSESS = "assess"  # opened; no assessment is stored yet
        DECIDE = "decide"  # assessed; new runs still go to any build
        ROLLING_OUT = "rolling_out"  # new runs go to the target; decisions are being written to the runs' journals
        DRAINING = "draining"  # every decision stands in its journals; runs still hold other builds
        DRAINED = "drained"  # no unfinished or not-understood run holds another build
        ROLLED_BACK = (
            "rolled_back"  # given up by an operator; its decisions no longer apply to runs that were not reached
        )

    key = models.TextField(unique=True)  # "d" + 12 base62 characters, used in addresses and journals
    agent = models.TextField()
    environment = models.TextField()
    build = models.ForeignKey(Build, on_delete=models.PROTECT, related_name="deploys")
    state = models.TextField(choices=State.choices, default=State.ASSESS)
    version = models.IntegerField(default=1)
    created_by = models.TextField()
    created_at = models.DateTimeField(db_default=Now())
    rolled_out_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)  # drained or rolled back

    objects = DeployQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["agent", "environment", "-id"], name="versioning_deploy_agent")]

    def __str__(self) -> str:
        return f"{self.key}: {self.agent} → {self.build.label} in {self.environment}"


class StateChange(models.Model):
    """A person sent new runs to the target, or gave the deploy up: who, when, why, and what stood open then."""

    deploy = models.ForeignKey(Deploy, on_delete=models.CASCADE, related_name="changes")
    state = models.TextField(choices=Deploy.State.choices)  # the state that it went to
    reason = models.TextField(blank=True, default="")
    by = models.TextField(blank=True, default="")
    at = models.DateTimeField(db_default=Now())
    version = models.IntegerField()  # Deploy.version that this change made
    undecided = models.IntegerField(default=0)  # runs of groups without a decision at that moment

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["deploy", "version"], name="versioning_state_change_version")]

    def __str__(self) -> str:
        return f"{self.deploy_id} to {self.state} by {self.by}"


class Assessment(models.Model):
    """The groups of a deploy at one of its versions: what a decision is checked against, and what is shown to have changed."""

    deploy = models.ForeignKey(Deploy, on_delete=models.CASCADE, related_name="assessments")
    version = models.IntegerField()  # Deploy.version from which these groups hold
    assessed_at = models.DateTimeField()
    runs = models.IntegerField()
    groups = models.JSONField()  # group key -> {"verdict", "differences", "count"}

    class Meta:
        ordering = ["deploy", "version"]
        constraints = [models.UniqueConstraint(fields=["deploy", "version"], name="versioning_assessment_version")]

    def __str__(self) -> str:
        return f"{self.deploy_id} version {self.version}"


class DecisionQuerySet(models.QuerySet["Decision"]):
    """Named selections, oldest decision first."""

    def standing(self) -> DecisionQuerySet:
        """Decisions that no later one replaced."""
        return self.filter(superseded_at=None).order_by("id")


class Decision(models.Model):
    """What a person decided for one group of a deploy or for one of its runs. A run's own decision goes before its group's.

    It holds from the moment of its commit, also for runs that come later; `Applied` says in which journals it stands.
    """

    class Action(models.TextChoices):
        PIN = "pin"  # finish on the build that the run is on
        STOP = "stop"  # end with a stop name and a message
        CONTINUE = "continue"  # go on under the target build

    deploy = models.ForeignKey(Deploy, on_delete=models.PROTECT, related_name="decisions")
    group = models.TextField(blank=True, default="")  # mismatch.Assessment.group; empty for a decision on one run
    run_key = models.TextField(blank=True, default="")  # journals_head.key; empty for a group
    action = models.TextField(choices=Action.choices)
    name = models.TextField(blank=True, default="")  # stop name
    message = models.TextField(blank=True, default="")
    reason = models.TextField()
    by = models.TextField()  # username
    at = models.DateTimeField(db_default=Now())
    verdict = models.TextField(blank=True, default="")
    differences = models.JSONField(default=list)  # as decided upon
    version = models.IntegerField(default=0)  # Deploy.version that this decision made
    expected = models.IntegerField(default=0)  # runs in the group when it was decided
    superseded_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)  # every run of that moment was reached

    objects = DecisionQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(condition=Q(group="") ^ Q(run_key=""), name="versioning_decision_one_subject"),
            models.CheckConstraint(
                condition=~Q(action="stop") | Q(name__in=STOP_NAMES), name="versioning_decision_stop_name"
            ),
            models.CheckConstraint(condition=~Q(reason=""), name="versioning_decision_reason"),
            models.UniqueConstraint(
                fields=["deploy", "group", "run_key"],
                condition=Q(superseded_at=None),
                name="versioning_decision_standing",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.group or self.run_key}"

    def as_json(self, *, applied: int | None = None) -> dict[str, Any]:
        """The object of the API."""
        made = {
            "id": self.pk,
            "group": self.group or None,
            "run": self.run_key or None,
            "action": self.action,
            "name": self.name or None,
            "message": self.message,
            "reason": self.reason,
            "by": self.by,
            "at": self.at.isoformat(),
            "verdict": self.verdict,
            "differences": self.differences,
            "count": self.expected,
            "superseded_at": _iso(self.superseded_at),
            "finished_at": _iso(self.finished_at),
        }
        return made if applied is None else {**made, "applied": applied}


class Applied(models.Model):
    """A decision that stands in a run's journal, written in the same transaction as the entry. Holds once per run."""

    decision = models.ForeignKey(Decision, on_delete=models.PROTECT, related_name="applied")
    head_id = models.BigIntegerField()  # journals_head.id
    pos = models.BigIntegerField(null=True)  # the entry; null where the run needed none
    outcome = models.TextField(blank=True, default="")  # why nothing was written: ended, foreign
    at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["decision", "head_id"], name="versioning_applied_once")]
        indexes = [models.Index(fields=["head_id"], name="versioning_applied_head")]

    def __str__(self) -> str:
        return f"{self.decision_id} on {self.head_id}"


class WorkerSeen(models.Model):
    """When a worker last asked for work with a build; touched at most every 10 s. Leases in `journals_head` tell the rest."""

    agent = models.TextField()
    environment = models.TextField()
    build = models.TextField()
    worker = models.TextField()
    seen_at = models.DateTimeField()

    class Meta:
        ordering = ["agent", "environment", "build", "worker"]
        constraints = [
            models.UniqueConstraint(fields=["agent", "environment", "build", "worker"], name="versioning_worker_once"),
        ]

    def __str__(self) -> str:
        return f"{self.worker} ({self.build})"


def _iso(at: datetime | None) -> str | None:
    return at.isoformat() if at else None
