"""`POST /v1/traces`: spans as OpenTelemetry's exporters and collector send them (OTLP/HTTP 1.9, JSON or protobuf).

A batch is kept and queued as an import, and then acknowledged; the adapter `otel` reads it in the background. Answers are of the
request's encoding: `ExportTraceServiceResponse`, or `google.rpc.Status`. `docs/adapters-otel.md` is the reference.
"""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final

from django.db import InterfaceError, OperationalError, connection
from django.http import HttpRequest, HttpResponse, UnreadablePostError
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from journals import errors, ingest
from journals.access import Bearer, authenticate
from journals.adapters.base import InputFile, shown
from journals.adapters.otel.forms import Read, is_json, read_spans
from journals.files import CannotOpen, Found, Limits, open_input
from journals.imports_models import BATCHES
from journals.tasks import nudge

__all__ = ["LIMIT", "QUEUE", "SCOPES", "traces"]

JSON: Final = "application/json"
PROTOBUF: Final = "application/x-protobuf"
SCOPES: Final = ("worker", "ci")  # an agent's process has a worker's token; the collector gets one of its own
LIMIT: Final = 64 << 20  # bytes of a body, as it comes and unpacked
QUEUE: Final = 5_000  # batches that may wait to be read before senders are asked to wait
RETRY_S: Final = 5
CHUNK: Final = 1 << 20
_LIMITS: Final = Limits(unpacked=LIMIT, ratio=200, ratio_from=8 << 20)
_RPC: Final[Mapping[int, int]] = {
    400: 3,
    401: 16,
    403: 7,
    413: 3,
    415: 3,
    429: 8,
    503: 14,
}  # HTTP status -> google.rpc.Code


class _Refusal(Exception):
    """The batch was not taken; nothing of it is kept."""

    def __init__(self, status: int, message: str, retry_s: int = 0) -> None:
        super().__init__(message)
        self.status, self.message, self.retry_s = status, message, retry_s


def _spoken(view: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Refusals as the protocol has them. 429 and 503 may be sent again, all others may not."""

    @functools.wraps(view)
    def answered(request: HttpRequest) -> HttpResponse:
        try:
            return view(request)
        except errors.Refused as e:
            return _refused(request, _Refusal(e.status, e.message))
        except _Refusal as e:
            return _refused(request, e)
        except (OperationalError, InterfaceError):
            return _refused(request, _Refusal(503, "the database does not answer; send the batch again", RETRY_S))

    return answered


@csrf_exempt  # only tokens are taken
@require_POST
@_spoken
def traces(request: HttpRequest) -> HttpResponse:
    """Keeps one batch of spans and queues it. 200 means that it is stored; spans that cannot be read are counted as rejected."""
    token = authenticate(request, scopes=SCOPES)
    if request.content_type not in (JSON, PROTOBUF):
        raise _Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Content-Type must be {PROTOBUF} or {JSON}")
    source = _source(request, token)
    body = _body(request)
    spans, rejected = _looked_at(body, _encoding(request), json_wanted=request.content_type == JSON)
    if spans:
        _room()
        found = Found(
            "traces.json" if request.content_type == JSON else "traces.pb", len(body), lambda: io.BytesIO(body)
        )
        made = ingest.submit(
            [found], actor=f"{BATCHES}{token.name}", format="otel", source=source, agent=token.agent, environment=token.environment,
        )  # fmt: skip
        nudge(made.pk)
    return _taken(request, rejected)


def _source(request: HttpRequest, token: Bearer) -> str:
    """The source that the spans go to: the header `Drainboard-Source`, `?source=`, or `otel`."""
    name = request.headers.get("Drainboard-Source") or request.GET.get("source") or "otel"
    with connection.cursor() as cursor:
        cursor.execute("SELECT runtime FROM journals_source WHERE name = %s", [name])
        found = cursor.fetchone()
    if len(name) > 100 or name.startswith("native:") or (found is not None and found[0] != "otel"):
        raise _Refusal(HTTPStatus.BAD_REQUEST, f"source {shown(name)!r} is not for spans; name another one")
    return name


def _body(request: HttpRequest) -> bytes:
    """The body as it came; a body over the limit is refused before it is read, or as soon as it is."""
    told = request.META.get("CONTENT_LENGTH") or "0"
    if told.isascii() and told.isdigit() and int(told[:19]) > LIMIT:
        raise _Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body has {told} bytes, the limit is {LIMIT}")
    made = bytearray()
    try:
        while chunk := request.read(CHUNK):
            made += chunk
            if len(made) > LIMIT:
                raise _Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body has more than {LIMIT} bytes")
    except (UnreadablePostError, OSError) as e:
        raise _Refusal(HTTPStatus.BAD_REQUEST, f"the body broke off after {len(made)} bytes: {e}") from None
    return bytes(made)


def _encoding(request: HttpRequest) -> str:
    name = request.headers.get("Content-Encoding", "identity").strip().lower()
    if name not in ("gzip", "identity"):
        raise _Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Content-Encoding must be gzip, or absent")
    return name


def _looked_at(body: bytes, encoding: str, *, json_wanted: bool) -> tuple[int, int]:
    """How many spans the body holds, and how many things in the place of one. Raises `_Refusal` for what is no request."""
    plain = _unpacked(body) if encoding == "gzip" else body
    if plain.strip() in (b"", b"{}"):
        return 0, 0
    if is_json(plain[:4_096]) != json_wanted:
        raise _Refusal(HTTPStatus.BAD_REQUEST, "the body is not of the encoding that Content-Type names")
    told = Read()
    spans = sum(1 for _ in read_spans(InputFile.of("body", plain), told))
    if told.torn or told.lost:
        raise _Refusal(HTTPStatus.BAD_REQUEST, f"the body cannot be read: {told.torn or told.lost}")
    if told.others or (told.unread and not spans):
        raise _Refusal(HTTPStatus.BAD_REQUEST, "the body is not an ExportTraceServiceRequest")
    return spans, len(told.unread)


def _unpacked(body: bytes) -> bytes:
    try:
        opened = open_input("body", len(body), lambda: io.BytesIO(body), limits=_LIMITS)
    except CannotOpen as e:
        raise _Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE if "limit" in str(e) or "times" in str(e) else 400, str(e)) from None  # fmt: skip
    if opened.cut or "gzip" not in " ".join(opened.notes):
        raise _Refusal(HTTPStatus.BAD_REQUEST, opened.cut or "the body is not gzip")
    return opened.read()


def _room() -> None:
    """Raises `_Refusal` 429 while too many batches wait to be read."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM (SELECT 1 FROM journals_import WHERE state IN ('queued', 'running') LIMIT %s) few",
            [QUEUE],
        )
        (waiting,) = cursor.fetchone()
    if waiting >= QUEUE:
        raise _Refusal(HTTPStatus.TOO_MANY_REQUESTS, f"{QUEUE} imports wait to be read; send the batch later", RETRY_S)


def _taken(request: HttpRequest, rejected: int) -> HttpResponse:
    why = f"{rejected} spans are not of the shape that OTLP gives a span" if rejected else ""
    if request.content_type == JSON:
        partial = {"partialSuccess": {"rejectedSpans": str(rejected), "errorMessage": why}} if rejected else {}
        return HttpResponse(json.dumps(partial), content_type=JSON)
    made = ExportTraceServiceResponse()
    if rejected:
        made.partial_success.CopyFrom(ExportTracePartialSuccess(rejected_spans=rejected, error_message=why))
    return HttpResponse(made.SerializeToString(), content_type=PROTOBUF)


def _refused(request: HttpRequest, refusal: _Refusal) -> HttpResponse:
    code, message = _RPC.get(refusal.status, 2), refusal.message.encode("utf-8", "replace")[:1_000]
    if request.content_type == PROTOBUF:  # google.rpc.Status: code = 1 (varint), message = 2 (text)
        size = bytes([len(message)]) if len(message) < 128 else bytes([len(message) & 127 | 128, len(message) >> 7])
        answer = HttpResponse(b"\x08" + bytes([code]) + b"\x12" + size + message, content_type=PROTOBUF)
    else:
        answer = HttpResponse(
            json.dumps({"code": code, "message": message.decode("utf-8", "replace")}), content_type=JSON
        )
    answer.status_code = refusal.status
    if refusal.retry_s:
        answer["Retry-After"] = str(refusal.retry_s)
    if refusal.status == HTTPStatus.UNAUTHORIZED:
        answer["WWW-Authenticate"] = "Bearer"
    return answer
