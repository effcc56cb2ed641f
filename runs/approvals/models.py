"""Rows beside the journal: what is asked, who said what, under which policy. The journal holds the same as entries."""

from __future__ import annotations

import hashlib

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.urls import reverse

from journals.text import decode_text


class Policy(models.Model):
    """What a yes for one tool of one agent needs. A change is a new row with the next version; the newest counts."""

    agent = models.TextField()
    tool = models.TextField()
    version = models.PositiveIntegerField()  # from 1; in the fingerprint, so a changed policy asks again
    active = models.BooleanField(default=True)  # False: the tool needs no approval any more
    needed = models.PositiveSmallIntegerField(default=1)  # distinct people
    groups = ArrayField(
        models.TextField(), default=list
    )  # Django groups whose members may decide; empty: every approver
    four_eyes = models.BooleanField(default=True)  # who asked, and whom the agent acts for, may not decide
    expires_s = models.PositiveIntegerField(null=True)  # seconds until an undecided request expires; null: never
    high_risk = models.BooleanField(default=False)  # deciding needs a sign-in younger than 5 minutes
    created_by = models.TextField()
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["agent", "tool", "version"], name="approvals_policy_version_once"),
            models.CheckConstraint(condition=Q(version__gte=1, needed__gte=1), name="approvals_policy_counts_from_one"),
        ]

    def __str__(self) -> str:
        return f"{self.agent}/{self.tool} version {self.version}"


class State(models.TextChoices):
    """The life of an approval. A crash leaves it as it is: every change is one transaction with its journal entry."""

    REQUESTED = "requested", "requested"  # by the agent; ended by a decision, expiry or withdrawal
    APPROVED = "approved", "approved"  # enough people said yes; delivered_at and used_at tell what became of it
    REJECTED = "rejected", "rejected"
    SENT_BACK = "sent_back", "sent back"  # to the agent, with a message; a changed artifact is a new request
    EXPIRED = "expired", "expired"  # nobody decided in time
    WITHDRAWN = "withdrawn", "withdrawn"  # the run stopped, or a deploy changed the tool
    USED = "used", "used"  # the one step that it was given for has started


def ref_of(name: str) -> str:
    """16 hex digits that stand for the name of another runtime's request."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]


class Approval(models.Model):
    """One request for a yes, at one step of one run."""

    head_id = models.BigIntegerField()  # journals.Head
    key = models.TextField()  # the run's key, for addresses
    name = models.TextField()  # the approval's id inside its run
    branch = models.TextField(default="")
    step = models.PositiveIntegerField()  # 0: another runtime's, which numbers none
    pos = models.BigIntegerField()  # of its `approval.requested` entry
    agent = models.TextField()
    environment = models.TextField()
    run = models.TextField()  # for people
    title = models.TextField(default="")
    tool = models.TextField(default="")  # empty when the artifact is no tool call
    tool_schema = models.TextField(default="")  # digest, or empty
    artifact = models.BinaryField()  # canonical JSON: the bytes that are hashed and shown
    fingerprint = models.TextField()
    policy = models.ForeignKey(Policy, models.PROTECT, null=True)  # null: no policy for this tool, one approver decides
    needed = models.PositiveSmallIntegerField(default=1)
    requested_by = models.TextField(default="")  # the person whom the agent acts for
    asked_by = models.TextField()  # the worker's token
    note = models.TextField(default="")
    requested_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(null=True)
    state = models.TextField(choices=State.choices, default=State.REQUESTED)
    decided_at = models.DateTimeField(null=True)
    decided_by = models.TextField(default="")
    comment = models.TextField(default="")
    delivered_at = models.DateTimeField(null=True)
    used_at = models.DateTimeField(null=True)
    used_branch = models.TextField(default="")
    used_step = models.PositiveIntegerField(null=True)
    used_request = models.TextField(default="")  # request fingerprint of the step that used it
    used_key = models.TextField(default="")
    foreign = models.BooleanField(
        default=False, db_default=False
    )  # of another runtime: a row from the first decision on

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["head_id", "name"], name="approvals_approval_once"),
            models.UniqueConstraint(
                fields=["head_id", "branch", "step"],
                condition=~Q(state="withdrawn") & Q(foreign=False),
                name="approvals_approval_step_once",
            ),
            models.CheckConstraint(
                condition=~Q(state="used") | Q(used_at__isnull=False, used_step__isnull=False),
                name="approvals_approval_used_by_a_step",
            ),
        ]
        indexes = [
            models.Index(
                fields=["requested_at", "id"], condition=Q(state="requested"), name="approvals_approval_inbox"
            ),
            models.Index(fields=["expires_at"], condition=Q(state="requested"), name="approvals_approval_expiry"),
        ]

    def __str__(self) -> str:
        return f"{self.title or self.tool} ({self.run})"

    def get_absolute_url(self) -> str:
        """The page of the request."""
        return (
            reverse("approvals:foreign", args=[self.key, self.ref])
            if self.foreign
            else reverse("approvals:detail", args=[self.key, self.name])
        )

    @property
    def ref(self) -> str:
        """The name as a part of an address: another runtime's may hold any character."""
        return ref_of(decode_text(self.name))


class Vote(models.Model):
    """What one person said about one request, once."""

    approval = models.ForeignKey(Approval, models.CASCADE, related_name="votes")
    person = models.TextField()  # username
    signed_in_by = models.TextField()  # how: password
    decision = models.TextField()
    comment = models.TextField(default="")
    shown = models.TextField()  # digest of what was shown
    address = models.TextField(default="")  # network address
    at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["approval", "person"], name="approvals_vote_once")]
