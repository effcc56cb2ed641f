"""The worker API that needs only the journal: start, append, read, heartbeat, signals, release.

Opening and claiming runs need deploy decisions and live in `versioning.api`; approvals in `runs.approvals.api`.
`docs/worker-api.md` is the reference.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec
from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_http_methods

from journals import errors, lines, store
from journals.access import Bearer, api_view, authenticate, bearer_hash

MAX_BODY = 32 << 20  # bytes of one request
LEASE_S = (1, 600)  # seconds: the shortest and longest lease

NAMES = ("agent", "environment", "build", "worker", "reason")  # a run's id may be any text; these may not

T = TypeVar("T", bound=msgspec.Struct)


class Start(msgspec.Struct):
    agent: str
    run: str
    environment: str = "prod"
    in_: msgspec.Raw = msgspec.field(name="in", default=msgspec.Raw(b"null"))
    build: str | None = None
    parent: str | None = None


class Beat(msgspec.Struct):
    epoch: int
    lease_s: float = 30


class Owner(msgspec.Struct):
    epoch: int


class Hold(msgspec.Struct):
    epoch: int
    reason: str
    detail: Any = None


class Signal(msgspec.Struct):
    name: str
    value: msgspec.Raw = msgspec.Raw(b"null")
    id: str | None = None


def body_of(request: HttpRequest, shape: type[T]) -> T:
    """The request's JSON body in this shape. Raises `MalformedRequest`, `TooLarge`."""
    try:
        body = msgspec.json.decode(raw_body(request), type=shape)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError) as e:
        raise errors.MalformedRequest(f"the body is not what this call takes: {e}") from None
    except RecursionError:
        raise errors.MalformedRequest("the body is nested too deep to be read; send a deep value as text") from None
    for name in NAMES:
        if "\0" in (getattr(body, name, None) or ""):
            raise errors.MalformedRequest(f"`{name}` holds U+0000, which no name here may")
    return body


def raw_body(request: HttpRequest) -> bytes:
    """The body's bytes; raises `TooLarge` before reading one that says that it is over the limit."""
    try:
        size = int(request.META.get("CONTENT_LENGTH") or 0)
    except ValueError:
        raise errors.MalformedRequest("Content-Length is not a number") from None
    if size > MAX_BODY:
        raise errors.TooLarge(f"the body has {size:,} bytes; the limit is {MAX_BODY:,}", size=size, limit=MAX_BODY)
    raw: bytes = request.read(MAX_BODY + 1)
    if len(raw) > MAX_BODY:
        raise errors.TooLarge(f"the body has more than {MAX_BODY:,} bytes", limit=MAX_BODY)
    return raw


def header_int(request: HttpRequest, name: str, *, required: bool = True) -> int | None:
    """An integer header, such as `Drainboard-Epoch`; None when it is absent and not required."""
    text = request.headers.get(name)
    if text is None and not required:
        return None
    try:
        value = int(text or "")
    except ValueError:
        raise errors.MalformedRequest(f"header {name} must be a whole number, not {text!r}") from None
    if not 0 <= value < 1 << 31:
        raise errors.MalformedRequest(f"header {name} must lie between 0 and 2147483647")
    return value


def visible(key: str, token: Bearer) -> store.HeadRow:
    """The run with this key, if this token may see it; else `UnknownRun`, the same as for a key that nobody has."""
    found = store.find(key=key)
    if not token.may_see(agent=found.agent, environment=found.environment):
        raise errors.UnknownRun(f"no run has the key {key!r}")
    return found


@api_view
@require_http_methods(["POST"])
def start(request: HttpRequest) -> HttpResponse:
    """Starts a run; the same run id, agent and input again answer the run that is there."""
    token = authenticate(request, scopes=("worker", "ci"))
    asked = body_of(request, Start)
    if not asked.run or not asked.agent:
        raise errors.MalformedRequest("`run` and `agent` must not be empty")
    if not token.may_see(agent=asked.agent, environment=asked.environment):
        raise errors.NotAllowed(
            "this token is for another agent or environment", agent=token.agent, environment=token.environment
        )
    line = lines.started(
        asked.run, asked.agent, asked.environment, bytes(asked.in_), build=asked.build, parent=asked.parent
    )
    made, created = store.create(
        run=asked.run, agent=asked.agent, environment=asked.environment, line=line, actor=token.actor, token_id=token.id
    )
    answer = {"run": made.run, "key": made.key, "pos": made.pos, "created": created}
    return JsonResponse(answer, status=201 if created else 200)


@api_view
@require_http_methods(["GET", "POST"])
def entries(request: HttpRequest, key: str) -> HttpResponseBase:
    """POST appends a worker's lines; GET streams the run's lines after a position."""
    if request.method == "GET":
        return _stream(request, visible(key, authenticate(request, scopes=("worker", "ci", "read"))))
    token_hash = bearer_hash(request)
    raw = raw_body(request)
    epoch = header_int(request, "Drainboard-Epoch")
    seen = header_int(request, "Drainboard-Seen", required=False)
    sent = [line for line in raw.split(b"\n") if line.strip()]
    try:
        made = store.append(key, sent, token_hash=token_hash, epoch=epoch or 0, seen=seen)
    except (errors.LeaseLost, errors.RunEnded) as e:
        lines.keep_late(key, sent, token_hash=token_hash, epoch=epoch or 0, why=e)
        raise
    return HttpResponse(
        msgspec.json.encode({"positions": made.positions, "pos": made.pos}), content_type="application/json"
    )


def _stream(request: HttpRequest, found: store.HeadRow) -> StreamingHttpResponse:
    try:
        after = int(request.GET.get("after", "0"))
        limit = int(request.GET["limit"]) if "limit" in request.GET else None
    except ValueError:
        raise errors.MalformedRequest("`after` and `limit` must be whole numbers") from None

    def body() -> Iterator[bytes]:
        for line in store.export(found.id, native=found.native, after=after, limit=limit):
            yield line + b"\n"

    return StreamingHttpResponse(body(), content_type="application/x-ndjson")


@api_view
@require_http_methods(["POST"])
def heartbeat(request: HttpRequest, key: str) -> HttpResponse:
    """Renews the lease and tells what was decided meanwhile. Raises `LeaseLost`, `RunEnded`."""
    token = authenticate(request, scopes=("worker",))
    beat = body_of(request, Beat)
    found = visible(key, token)
    lease = min(max(beat.lease_s, LEASE_S[0]), LEASE_S[1])
    with transaction.atomic():
        owned = owned_head(found.id, beat.epoch)
        if not owned.parked_on:
            store.renew(owned.id, lease_s=lease)
    stop = {"name": owned.stop_name, "message": owned.stop_message} if owned.stop_name else None
    return JsonResponse({"lease_s": lease, "pos": owned.pos, "stop": stop, "held": owned.hold_reason or None})


def owned_head(head_id: int, epoch: int) -> store.HeadRow:
    """The locked head, if this epoch still owns the run. Raises `LeaseLost`, `RunEnded`."""
    found = store.lock(head_id)
    if found.ended:
        raise errors.RunEnded(
            f"the run is over ({found.ended})", ended=found.ended, stop=found.stop_name, message=found.stop_message
        )
    if found.epoch != epoch:
        raise errors.LeaseLost(
            f"the run was opened again since (epoch {found.epoch})", epoch=found.epoch, worker=found.worker
        )
    return found


@api_view
@require_http_methods(["POST"])
def release(request: HttpRequest, key: str) -> HttpResponse:
    """Gives the lease back, so that another worker may go on at once."""
    token = authenticate(request, scopes=("worker",))
    owner = body_of(request, Owner)
    found = visible(key, token)
    with transaction.atomic():
        store.change(owned_head(found.id, owner.epoch).id, lease_until=None)
    return JsonResponse({"released": True})


@api_view
@require_http_methods(["POST"])
def held(request: HttpRequest, key: str) -> HttpResponse:
    """The worker found that it must not go on (`NonDeterministicReplay`); the run waits for a person."""
    token = authenticate(request, scopes=("worker",))
    asked = body_of(request, Hold)
    found = visible(key, token)
    with transaction.atomic():
        owned = owned_head(found.id, asked.epoch)
        entry = {"kind": "run.held", "reason": asked.reason, "detail": asked.detail, "build": owned.open_build}
        changes = {"hold_reason": asked.reason, "lease_until": None}
        pos = store.record(owned.id, entry, actor=f"worker:{owned.worker}", changes=changes, token_id=token.id)
    return JsonResponse({"pos": pos})


@api_view
@require_http_methods(["POST"])
def signals(request: HttpRequest, key: str) -> HttpResponse:
    """Delivers a signal; the same `id` again is the same signal. Wakes a run that waits for it."""
    token = authenticate(request, scopes=("worker", "ci"))
    asked = body_of(request, Signal)
    found = visible(key, token)
    with transaction.atomic():
        pos = lines.signal(found.id, name=asked.name, value=bytes(asked.value), id=asked.id, token=token)
    return JsonResponse({"pos": pos})
