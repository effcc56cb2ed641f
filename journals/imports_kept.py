"""Keeps uploaded files as they came, by content hash, in PostgreSQL: web and worker need no folder in common."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from datetime import timedelta
from typing import BinaryIO, Final

from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from journals import payloads
from journals.imports_models import ImportFile, Upload, UploadPart

__all__ = ["Kept", "drop_older", "keep", "open_kept"]

PART: Final = 1 << 20  # bytes of a part, before compression


def keep(opener: Callable[[], BinaryIO]) -> Upload:
    """The upload that holds these bytes, made when new. Reads the stream twice; one that changes meanwhile is read again."""
    for _ in range(3):
        digest, size = _measure(opener)
        found = Upload.objects.filter(sha256=digest).first()
        if found is not None and found.dropped_at is None:
            return found
        try:
            with transaction.atomic():
                made = _store(opener, digest, size, found)
        except IntegrityError:  # the same file at the same time: theirs is as good
            continue
        if made is not None:
            return made
    raise OSError("the file changed each time that it was read")


def _measure(opener: Callable[[], BinaryIO]) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    with opener() as stream:
        while chunk := stream.read(PART):
            digest.update(chunk)
            size += len(chunk)
    return digest.hexdigest(), size


def _store(opener: Callable[[], BinaryIO], digest: str, size: int, dropped: Upload | None) -> Upload | None:
    """The stored upload; None, with nothing stored, when the bytes are not those that were measured."""
    made = dropped or Upload.objects.create(sha256=digest, size=size, stored=0)
    again, stored, n = hashlib.sha256(), 0, 0
    with opener() as stream:
        while chunk := stream.read(PART):
            again.update(chunk)
            body = payloads.pack(chunk)
            UploadPart.objects.create(upload=made, n=n, body=body)
            n, stored = n + 1, stored + len(body)
    if again.hexdigest() != digest:
        transaction.set_rollback(True)
        return None
    Upload.objects.filter(pk=made.pk).update(stored=stored, dropped_at=None)
    made.stored = stored
    return made


class Kept(io.RawIOBase):
    """The bytes of an upload, forward only. `on_read` is told the size of every stretch that was fetched."""

    def __init__(self, upload_id: int, on_read: Callable[[int], None] | None = None) -> None:
        super().__init__()
        self._upload_id, self._on_read = upload_id, on_read
        self._next = 0
        self._out = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._out:
            body = (
                UploadPart.objects.filter(upload_id=self._upload_id, n=self._next)
                .values_list("body", flat=True)
                .first()
            )
            if body is None:
                return 0
            self._next += 1
            self._out = memoryview(payloads.unpack(bytes(body)))
            if self._on_read:
                self._on_read(len(self._out))
        size = min(len(buffer), len(self._out))
        buffer[:size] = self._out[:size]
        self._out = self._out[size:]
        return size


def open_kept(upload_id: int, on_read: Callable[[int], None] | None = None) -> BinaryIO:
    """A fresh stream over the upload's bytes, as they came."""
    return io.BufferedReader(Kept(upload_id, on_read), PART)


def drop_older(*, days: int) -> int:
    """Forgets the bytes of files whose last import ended more than `days` ago; returns of how many. What they brought stays."""
    since = Now() - timedelta(days=days)
    needed = ImportFile.objects.filter(upload=OuterRef("pk")).filter(
        Q(imported__finished_at=None) | Q(imported__finished_at__gt=since)
    )
    old = Upload.objects.filter(~Exists(needed), dropped_at=None, created_at__lt=since).order_by("pk")
    for upload in old:
        with transaction.atomic():
            UploadPart.objects.filter(upload=upload).delete()
            Upload.objects.filter(pk=upload.pk).update(dropped_at=Now(), stored=0)
    return len(old)
