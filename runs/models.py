"""The projection of journals: runs, steps and distinct sets of versions, as lists and pages read them.

Every row is made by `runs.projection` out of the journal and can be made again (`manage.py rebuild_runs`); nothing is
decided here and nothing else writes here. Texts hold no NUL and no lone surrogate: `Run.run` shows such characters by a
mark, names and keys are kept by `journals.store.encode_text`.
"""

from __future__ import annotations

from datetime import datetime

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.utils import timezone

__all__ = ["Run", "Step", "VersionSet"]


class VersionSet(models.Model):
    """A distinct set of versions, stored once. `body`: {"app", "prompt": {name: version}, "model": {role: id}, "tools": {name: digest}, "sdk"}.

    A component that was not recorded is absent. Role "" is a model recorded as a bare id; where steps of several names
    recorded different bare ids, each stands under its step's name instead.
    """

    id = models.BigAutoField(primary_key=True)
    digest = models.TextField(unique=True)  # sha256:<hex> over the canonical form of body
    body = models.JSONField()

    class Meta:
        db_table = "runs_versionset"

    def __str__(self) -> str:
        return self.digest


class Run(models.Model):
    """One run as lists show it. Statuses, verdicts and finding codes: `docs/states.md`, `docs/findings/`."""

    head = models.OneToOneField(
        "journals.Head", models.DO_NOTHING, primary_key=True, related_name="+", db_constraint=False
    )
    key = models.TextField(unique=True)
    source = models.TextField()
    runtime = models.TextField()
    native = models.BooleanField(default=False)
    run = models.TextField()  # the run id as it can be shown; the exact id is the head's
    agent = models.TextField()
    environment = models.TextField(default="")
    status = models.TextField()  # states.RunStatus
    runtime_status = models.TextField(default="")  # the source's own word, verbatim
    complete = models.BooleanField(default=False)  # the run is over and the journal has its end
    in_flight = models.BooleanField(default=True)  # not over, or not known to be
    build = models.TextField(default="")  # the build that has or had it last; empty: not known
    pinned_to = models.TextField(default="")
    parked_on = models.TextField(
        default=""
    )  # approval:<id> | signal:<name> | timer | gap:<branch>:<step> | child:<run>
    parked_since = models.DateTimeField(null=True)
    wake_at = models.DateTimeField(null=True)  # when what it waits for is due or, for native runs, came
    waiting_for = models.TextField(default="")  # what it waits for in words, `runs.waiting`
    parent = models.TextField(default="")
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    last_at = models.DateTimeField()  # of the last entry: ours for native runs, the sender's for imported ones
    entries = models.BigIntegerField(default=0)
    bytes = models.BigIntegerField(default=0)
    steps = models.IntegerField(default=0)
    current_branch = models.TextField(default="")
    current_step = models.IntegerField(null=True)
    current_kind = models.TextField(default="")
    current_name = models.TextField(default="")
    gap = models.TextField(default="")  # the worst verdict of a step in the gap; empty: none of a write
    gap_confidence = models.TextField(default="")
    findings = ArrayField(models.TextField(), default=list)  # codes, sorted, once each
    lease_until = models.DateTimeField(null=True)
    worker = models.TextField(default="")
    versions_set = models.ForeignKey(VersionSet, models.PROTECT, null=True, related_name="runs")
    folded_pos = models.BigIntegerField(default=0)  # the journal's length at the fold
    recheck_at = models.DateTimeField(null=True)  # when time alone changes the answer: a lease ends, a yes stays unused
    summary = models.JSONField(default=dict)  # {"gaps", "findings", "approvals", "decisions", "versions"}: runs.show

    class Meta:
        db_table = "runs_run"
        indexes = [
            models.Index(fields=["-last_at", "-head"], name="runs_run_last"),
            models.Index(fields=["status", "head"], name="runs_run_status"),
            models.Index(fields=["agent", "environment", "head"], name="runs_run_agent"),
            models.Index(fields=["environment", "head"], name="runs_run_environment"),
            models.Index(fields=["source", "head"], name="runs_run_source"),
            models.Index(fields=["build", "head"], name="runs_run_build"),
            models.Index(fields=["status", "ended_at"], name="runs_run_ended"),
            models.Index(
                fields=["agent", "environment", "build"], name="runs_run_flight", condition=models.Q(in_flight=True)
            ),
            models.Index(fields=["head"], name="runs_run_in_flight", condition=models.Q(in_flight=True)),
            models.Index(fields=["head"], name="runs_run_gap", condition=models.Q(in_flight=True) & ~models.Q(gap="")),
            models.Index(
                fields=["head"],
                name="runs_run_approval",
                condition=models.Q(status="parked", parked_on__startswith="approval:"),
            ),
            models.Index(
                fields=["head"],
                name="runs_run_asks",
                condition=models.Q(native=False, in_flight=True, summary__contains={"approvals": [{"open": True}]}),
            ),
            models.Index(fields=["recheck_at"], name="runs_run_recheck", condition=models.Q(recheck_at__isnull=False)),
            models.Index(fields=["parent"], name="runs_run_parent", condition=~models.Q(parent="")),
            GinIndex(fields=["findings"], name="runs_run_findings", fastupdate=False),
        ]

    def __str__(self) -> str:
        return self.run

    @property
    def notes(self) -> int:
        """What imports said about the run as a whole: journal lines that are no entries of the source."""
        return max(self.folded_pos - self.entries, 0)

    @property
    def idle(self) -> bool:
        """It could go on, and no worker has it: native, neither parked nor held, without a live lease."""
        if not self.native or self.status != "running":
            return False
        return self.lease_until is None or self.lease_until <= timezone.now()

    @property
    def waiting_since(self) -> datetime | None:
        """Since when it waits for what `waiting_for` names: the decision or message that came last, else when it parked."""
        came = self.native and self.wake_at is not None and self.wake_at <= timezone.now()
        return self.wake_at if came else self.lease_until if self.idle else self.parked_since


class Step(models.Model):
    """One step of a run. `ord` numbers the steps of a run by first appearance, from 1; a page is a range of it."""

    pk = models.CompositePrimaryKey("run_id", "ord")
    run = models.ForeignKey(Run, models.CASCADE, related_name="step_rows", db_constraint=False, db_index=False)
    ord = models.IntegerField()
    branch = models.TextField(default="")
    step = models.IntegerField()
    kind = models.TextField(
        default=""
    )  # model, tool, child, value, timer, signal, approval, parallel; empty: not known
    name = models.TextField(null=True)
    status = models.TextField()  # states.StepStatus
    attempts = models.IntegerField(default=0)
    effect = models.TextField(default="read")
    key = models.TextField(null=True)  # the newest idempotency key
    verdict = models.TextField()
    confidence = models.TextField()
    effects = models.TextField()
    versions = models.JSONField(null=True)  # as recorded, the step's last
    entries = ArrayField(models.BigIntegerField(), default=list)  # numbers, in reading order
    first_at = models.DateTimeField(null=True)
    last_at = models.DateTimeField(null=True)
    preview = models.TextField(default="")  # the beginning of its result
    error = models.TextField(default="")  # `type: message` of the last error
    said = models.TextField(default="")  # its decision, its resolution or what it waits for, in words
    digest = models.BigIntegerField(
        default=0
    )  # of the other columns: tells the next fold whether the row is still right

    class Meta:
        db_table = "runs_step"
        indexes = [models.Index(fields=["run", "branch", "step"], name="runs_step_place")]

    def __str__(self) -> str:
        return f"{self.branch}:{self.step} {self.name or ''}"
