"""Files as requests bring them, ready for `ingest.submit`."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from django.core.exceptions import TooManyFilesSent
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, UnreadablePostError
from django.http.multipartparser import MultiPartParserError

from journals import errors
from journals.files import LIMITS, Found

__all__ = ["check_size", "found_upload", "raw_body", "uploads"]

CHUNK = 1 << 20
FRAME = 1 << 20  # bytes that a form's own text may take beside its files


def check_size(request: HttpRequest) -> None:
    """Refuses a body that says that it is over the limit, or does not say its size, before a byte of it is read."""
    if not request.META.get("CONTENT_LENGTH") and "chunked" in request.META.get("HTTP_TRANSFER_ENCODING", "").lower():
        raise errors.MalformedRequest("a chunked body cannot be taken; send it with Content-Length")
    try:
        size = int(request.META.get("CONTENT_LENGTH") or 0)
    except ValueError:
        raise errors.MalformedRequest("Content-Length is not a number") from None
    if size > LIMITS.unpacked + FRAME:
        raise errors.TooLarge(
            f"the body has {size:,} bytes; the limit is {LIMITS.unpacked:,}", size=size, limit=LIMITS.unpacked
        )


def found_upload(file: UploadedFile[Any]) -> Found:
    """An uploaded file of a form; valid while the request is."""
    path = getattr(file, "temporary_file_path", None)
    if path is not None:
        return Found(file.name or "upload", file.size or 0, lambda: open(path(), "rb"))
    data = file.read()
    return Found(file.name or "upload", len(data), lambda: io.BytesIO(data))


def uploads(request: HttpRequest) -> list[Found]:
    """The files of a multipart request, in order. Raises `MalformedRequest`."""
    try:
        return [found_upload(f) for _, files in request.FILES.lists() for f in files]
    except TooManyFilesSent:
        raise errors.TooLarge("the form has more than 100 files; send them in several imports") from None
    except (MultiPartParserError, UnreadablePostError) as e:
        raise errors.MalformedRequest(f"the multipart body cannot be read: {e}") from None


@contextmanager
def raw_body(request: HttpRequest, name: str) -> Iterator[Found]:
    """The request's body as one file, spooled to disk. Raises `TooLarge` as soon as it is over the limit."""
    with tempfile.NamedTemporaryFile(prefix="drainboard-") as spool:
        size = _spool(request, spool)
        spool.flush()
        yield Found(name, size, lambda: open(spool.name, "rb"))  # noqa: SIM115


def _spool(request: HttpRequest, spool: IO[bytes]) -> int:
    size = 0
    while True:
        try:
            chunk = request.read(CHUNK)
        except (UnreadablePostError, OSError) as e:
            raise errors.MalformedRequest(f"the body broke off after {size} bytes: {e}") from None
        if not chunk:
            return size
        size += len(chunk)
        if size > LIMITS.unpacked:
            raise errors.TooLarge(f"the body has more than {LIMITS.unpacked:,} bytes", limit=LIMITS.unpacked)
        spool.write(chunk)
