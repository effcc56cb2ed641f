"""Rows of imports: what was uploaded, what was asked, and what came of it. The entries themselves are in the journal."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

__all__ = ["BATCHES", "Import", "ImportFile", "ImportRun", "Upload", "UploadPart"]


BATCHES = "otlp:"
"""How the actor of a batch of spans begins; behind it stands the token's name. There are many, so lists leave them out."""


class Upload(models.Model):
    """A file by its content, kept as it came. Several imports may point at one."""

    id = models.BigAutoField(primary_key=True)
    sha256 = models.TextField(unique=True)  # hex, of the bytes as they came
    size = models.BigIntegerField()  # bytes as they came
    stored = models.BigIntegerField()  # bytes that the parts take
    created_at = models.DateTimeField(db_default=Now())
    dropped_at = models.DateTimeField(null=True)  # the parts went when they were old; the row stays

    class Meta:
        db_table = "journals_upload"

    def __str__(self) -> str:
        return self.sha256


class UploadPart(models.Model):
    """A stretch of an upload: one marker byte, then the bytes, plain (0) or zstd (1)."""

    id = models.BigAutoField(primary_key=True)
    upload = models.ForeignKey(Upload, models.CASCADE, related_name="parts")
    n = models.IntegerField()  # from 0
    body = models.BinaryField()

    class Meta:
        db_table = "journals_upload_part"
        constraints = [models.UniqueConstraint(fields=["upload", "n"], name="journals_upload_part_once")]

    def __str__(self) -> str:
        return f"part {self.n} of upload {self.upload_id}"


class State(models.TextChoices):
    """The life of an import."""

    QUEUED = "queued"  # made with its files; ended by a worker's claim. A crash leaves it; the sweep sends it again
    RUNNING = "running"  # claimed; ended by the claimant. A crash leaves it; after STALE_S without a beat it may be claimed again
    DONE = "done"  # every file has a state; final
    FAILED = "failed"  # given up, `error` says why; final


class Import(models.Model):
    """One request to import files that belong together, and how far it is. The row is the truth; a task only works on it."""

    id = models.BigAutoField(primary_key=True)
    state = models.TextField(default=State.QUEUED)
    format = models.TextField(default="auto")  # an adapter's name, or auto
    source = models.TextField(default="")  # empty: the name of the format
    agent = models.TextField(default="")
    environment = models.TextField(default="")
    actor = models.TextField()  # who asked: person:<username>, token:<name>, command, otlp:<token> for a batch of spans
    attempts = models.IntegerField(default=0)  # claims so far; a claimant whose number is not the last one stops
    lines_done = models.BigIntegerField(default=0)  # lines of the adapters that are stored, in their order
    bytes_done = models.BigIntegerField(default=0)  # of the files as they came, read in this attempt
    error = models.TextField(default="")
    created_at = models.DateTimeField(db_default=Now())
    beat_at = models.DateTimeField(null=True)  # last sign of life of the claimant
    finished_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "journals_import"
        constraints = [models.CheckConstraint(condition=Q(state__in=State.values), name="journals_import_state")]
        indexes = [
            models.Index(
                fields=["created_at"], name="journals_import_open", condition=Q(state__in=["queued", "running"])
            ),
            models.Index(fields=["id"], name="journals_import_listed", condition=~Q(actor__startswith=BATCHES)),
        ]

    def __str__(self) -> str:
        return f"import {self.pk}"

    @property
    def over(self) -> bool:
        return self.state in (State.DONE, State.FAILED)


class ImportFile(models.Model):
    """One file of an import and what came of it. Texts are safe to show (`adapters.base.shown`), the path is encoded."""

    id = models.BigAutoField(primary_key=True)
    imported = models.ForeignKey(Import, models.CASCADE, related_name="files", db_column="import_id")
    n = models.IntegerField()  # from 1
    path = models.TextField()  # as it was named, by store.encode_text
    upload = models.ForeignKey(Upload, models.PROTECT, null=True)  # null: could not be read at all
    format = models.TextField(default="")
    state = models.TextField(default="")  # complete, partial, refused; empty until it was worked on
    reason = models.TextField(default="")
    lines = models.BigIntegerField(default=0)  # records met: entries_read + unread_count
    entries_read = models.BigIntegerField(default=0)
    unread_count = models.BigIntegerField(default=0)
    notes = models.JSONField(default=list)  # [text]
    unread = models.JSONField(default=list)  # [{line, byte, reason, start}], the first UNREAD_KEPT

    class Meta:
        db_table = "journals_import_file"
        constraints = [models.UniqueConstraint(fields=["imported", "n"], name="journals_import_file_once")]

    def __str__(self) -> str:
        return f"file {self.n} of import {self.imported_id}"


class ImportRun(models.Model):
    """What one file brought to one run."""

    id = models.BigAutoField(primary_key=True)
    file = models.ForeignKey(ImportFile, models.CASCADE, related_name="runs")
    head_id = models.BigIntegerField()
    new = models.BigIntegerField(default=0)
    existing = models.BigIntegerField(default=0)
    conflicts = models.JSONField(default=list)  # [seq or pos]
    partial = models.JSONField(
        default=list
    )  # [{code, reason}]: what is missing of this run because the file is damaged
    healed = models.BooleanField(default=False)  # a later file held everything that this one brought, undamaged

    class Meta:
        db_table = "journals_import_run"
        constraints = [models.UniqueConstraint(fields=["file", "head_id"], name="journals_import_run_once")]
        indexes = [
            models.Index(
                fields=["head_id"], name="journals_import_run_damaged", condition=Q(healed=False) & ~Q(partial=[])
            ),
            models.Index(fields=["head_id"], name="journals_import_run_conflicts", condition=~Q(conflicts=[])),
        ]

    def __str__(self) -> str:
        return f"run {self.head_id} of file {self.file_id}"
