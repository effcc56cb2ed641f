"""Rows of the journal. Only `journals` imports this module; other apps go through `journals.store`."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

__all__ = ["Entry", "Gate", "Head", "MappingChange", "Node", "Payload", "Source", "Token"]


class Source(models.Model):
    """One connected or imported place of runs. Native ones are named `native:<environment>`."""

    id = models.BigAutoField(primary_key=True)
    name = models.TextField(unique=True)
    runtime = models.TextField()  # an adapter's name, or `native`
    native = models.BooleanField(default=False)
    mapping = models.TextField(
        default="{}"
    )  # JSON as `runs.mapping` has it; text, because the order of patterns counts
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "journals_source"
        constraints = [
            models.CheckConstraint(
                condition=models.Q(native=False) | models.Q(mapping="{}"), name="journals_source_native_unmapped"
            )
        ]

    def __str__(self) -> str:
        return self.name


class MappingChange(models.Model):
    """One change of a source's mapping: the newest one of a source is what it has. The database refuses UPDATE and DELETE."""

    id = models.BigAutoField(primary_key=True)
    source = models.ForeignKey(Source, models.PROTECT)
    at = models.DateTimeField(db_default=Now())
    by = models.TextField()  # person:<name> or token:<name>
    body = models.TextField()

    class Meta:
        db_table = "journals_mapping"


class Head(models.Model):
    """A run's head row: where its journal stands, who may append, and the gate. Locked by every append."""

    id = models.BigAutoField(primary_key=True)
    key = models.TextField(unique=True)  # random opaque address, stable on re-import
    source = models.ForeignKey(Source, models.PROTECT)
    run = models.TextField()  # the run id, by store.encode_text
    agent = models.TextField(default="unnamed")
    environment = models.TextField(default="")
    native = models.BooleanField(default=False)
    created_at = models.DateTimeField(db_default=Now())
    pos = models.BigIntegerField(default=0)  # last position, dense from 1
    hash = models.BinaryField(default=b"")  # last link of the chain
    entries = models.BigIntegerField(default=0)
    bytes = models.BigIntegerField(default=0)  # of raw lines
    epoch = models.IntegerField(default=0)  # raised by every open; an append with an older one is LeaseLost
    lease_until = models.DateTimeField(null=True)
    worker = models.TextField(default="")
    open_build = models.TextField(default="")  # build of the present epoch
    open_replaces = models.TextField(default="")  # the build that the present one replaces as a hotfix
    build = models.TextField(default="")  # build of the first open
    pinned_build = models.TextField(default="")
    stop_name = models.TextField(default="")
    stop_message = models.TextField(default="")
    hold_reason = models.TextField(default="")
    ended = models.TextField(default="")
    parked_on = models.TextField(
        default=""
    )  # approval:<id> | signal:<name> | timer | gap:<branch>:<step> | child:<run>
    wake_at = models.DateTimeField(null=True)
    dirty = models.BooleanField(default=True)  # the projection is behind

    class Meta:
        db_table = "journals_head"
        constraints = [models.UniqueConstraint(fields=["source", "run"], name="journals_head_run_once")]


class Entry(models.Model):
    """One appended record. Read through `journals.store`; the database refuses UPDATE and DELETE."""

    pk = models.CompositePrimaryKey("head_id", "pos")
    head_id = models.BigIntegerField()
    pos = models.BigIntegerField()
    recorded_at = models.DateTimeField()
    epoch = models.IntegerField()
    actor = models.TextField()
    token_id = models.BigIntegerField(null=True)
    origin = models.TextField()  # worker, server, import
    entry_id = models.TextField()
    seq = models.BigIntegerField(null=True)
    kind = models.TextField()
    branch = models.TextField(default="")
    step = models.IntegerField(null=True)
    attempt = models.IntegerField(default=1)
    digest = models.BinaryField()  # of the content: decides whether a repeat is the same entry
    hash = models.BinaryField()
    versions = models.BinaryField(null=True)
    size = models.IntegerField()  # bytes of the raw line
    line = models.BinaryField()  # the raw line with large values cut out
    slots = models.JSONField(null=True)  # where the cut values go back: payloads.Slot
    record = models.TextField(default="")  # its place in the uploaded file
    import_id = models.BigIntegerField(null=True)

    class Meta:
        db_table = "journals_entry"


class Payload(models.Model):
    """A value by the SHA-256 of its bytes; body is one marker byte and the bytes, plain (0) or zstd (1)."""

    digest = models.BinaryField(primary_key=True)
    size = models.BigIntegerField()
    body = models.BinaryField()

    class Meta:
        db_table = "journals_payload"


class Node(models.Model):
    """The end of a list: SHA-256 of parent and item. A longer transcript is one more node."""

    digest = models.BinaryField(primary_key=True)
    parent = models.BinaryField(null=True)
    item = models.BinaryField()

    class Meta:
        db_table = "journals_node"


class Token(models.Model):
    """A machine's right to call the API. Stored hashed, shown once; `prefix` finds it again in lists and secret scans."""

    id = models.BigAutoField(primary_key=True)
    name = models.TextField()
    prefix = models.TextField()
    hash = models.BinaryField(unique=True)
    scope = models.TextField()  # worker: appends; ci: builds, deploys, imports, reading; read: reading
    agent = models.TextField(default="")  # empty: any
    environment = models.TextField(default="")  # empty: any
    created_by = models.TextField(default="")
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "journals_token"


class Gate(models.Model):
    """A tool of an agent that must not start without a used approval; kept in step with the approval policies."""

    id = models.BigAutoField(primary_key=True)
    agent = models.TextField()
    tool = models.TextField()

    class Meta:
        db_table = "journals_gate"
        constraints = [models.UniqueConstraint(fields=["agent", "tool"], name="journals_gate_once")]
