"""The API of builds, deploys and of opening runs. `docs/deploys.md` and `docs/worker-api.md` are the reference."""

from __future__ import annotations

import time
from typing import Any, Final

import msgspec
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.http import require_http_methods
from drainboard import wire

from journals import errors, store
from journals.access import Bearer, api_view, authenticate
from journals.api import LEASE_S, Owner, body_of, raw_body, visible
from runs import actions as run_actions
from runs.approvals import policies
from versioning import deploying, opening, queries, registering
from versioning.models import Build, Deploy
from versioning.opening import Asking
from versioning.ruling import Rules

PAGE: Final = 1_000  # entries in the answer to an open
PAGE_BYTES: Final = 8 << 20  # of their lines; the rest is read by GET …/entries
CLAIM_MOST: Final = 100  # runs that one claim opens

READ: Final = ("worker", "ci", "read")


class Open(msgspec.Struct):
    build: str
    worker: str
    lease_s: float = 30
    versions: dict[str, Any] | None = None


class Claim(msgspec.Struct):
    agent: str
    build: str
    worker: str
    environment: str = "prod"
    lease_s: float = 30
    limit: int = 1
    versions: dict[str, Any] | None = None


class NewDeploy(msgspec.Struct):
    agent: str
    build: str
    environment: str = "prod"


# -- opening --------------------------------------------------------------------------------------------------------


@api_view
@require_http_methods(["POST"])
def open_run(request: HttpRequest, key: str) -> HttpResponse:
    """Gives a worker one run. Raises `RunEnded`, `RunStopped`, `RunHeld`, `LeaseHeld`, `PinnedToBuild`, `BuildConflict`."""
    token = authenticate(request, scopes=("worker",))
    asked = body_of(request, Open)
    found = visible(key, token)
    if not found.native:
        raise errors.NotAllowed("an imported run cannot be opened: its own runtime runs it", key=key)
    rules = _rules(found.agent, found.environment, asked)
    opened = opening.open_run(found.id, rules, _asking(asked, token))
    return _json(_opened(opened, lease_s=_lease(asked.lease_s)))


@api_view
@require_http_methods(["POST"])
def claims(request: HttpRequest) -> HttpResponse:
    """Gives a worker up to `limit` runs that are new, woken, or whose lease ran out."""
    token = authenticate(request, scopes=("worker",))
    asked = body_of(request, Claim)
    if not token.may_see(agent=asked.agent, environment=asked.environment):
        raise errors.NotAllowed(
            "this token is for another agent or environment", agent=token.agent, environment=token.environment
        )
    rules = _rules(asked.agent, asked.environment, asked)
    limit = min(max(asked.limit, 0), CLAIM_MOST)
    opened = list(opening.claim(rules, _asking(asked, token), limit=limit))
    return _json({"runs": [_opened(head, lease_s=_lease(asked.lease_s)) for head in opened]})


@api_view
@require_http_methods(["POST"])
def stopped(request: HttpRequest, key: str) -> HttpResponse:
    """The worker obeyed a stop: the run is over. Raises `LeaseLost`, `RunEnded`."""
    token = authenticate(request, scopes=("worker",))
    owner = body_of(request, Owner)
    found = visible(key, token)
    pos = run_actions.finish_stop(found.id, actor=f"worker:{found.worker}", epoch=owner.epoch)
    return JsonResponse({"pos": pos})


def _rules(agent: str, environment: str, asked: Open | Claim) -> Rules:
    if not asked.worker:
        raise errors.MalformedRequest("`worker` must not be empty")
    now = timezone.now()
    build = registering.opened_with(agent=agent, label=asked.build, versions=asked.versions, worker=asked.worker)
    registering.touch(agent=agent, environment=environment, build=asked.build, worker=asked.worker, now=now)
    return Rules.load(build, environment=environment, now=now)


def _asking(asked: Open | Claim, token: Bearer) -> Asking:
    return Asking(worker=asked.worker, lease_s=_lease(asked.lease_s), token=token)


def _lease(lease_s: float) -> float:
    return min(max(lease_s, LEASE_S[0]), LEASE_S[1])


def _opened(head: store.HeadRow, *, lease_s: float) -> dict[str, Any]:
    """What a worker needs to replay and go on: the first entries of the journal, and from where to read the rest."""
    lines: list[bytes] = []
    size = 0
    for line in store.export(head.id, native=True, limit=PAGE):
        lines.append(line)
        size += len(line)
        if size > PAGE_BYTES:
            break
    first = wire.spans_of(lines[0]) or {}
    moved = [(n, wire.decode(line)[0]) for n, line in enumerate(lines, 1) if b'"deploy.continued"' in line]
    return {
        "key": head.key,
        "run": head.run,
        "agent": head.agent,
        "environment": head.environment,
        "epoch": head.epoch,
        "lease_s": lease_s,
        "pos": head.pos,
        "in": msgspec.Raw(lines[0][slice(*first["in"])] if "in" in first else b"null"),
        "policies": dict(policies.versions(head.agent)),
        "stop": None,
        "continued": [{"build": e.get("build"), "pos": n} for n, e in moved if e.get("kind") == "deploy.continued"],
        "entries": [msgspec.Raw(line) for line in lines],
        "next": len(lines) if len(lines) < head.pos else None,
    }


def _json(value: Any) -> HttpResponse:
    return HttpResponse(msgspec.json.encode(value), content_type="application/json")


# -- builds ---------------------------------------------------------------------------------------------------------


@api_view
@require_http_methods(["GET", "POST"])
def builds(request: HttpRequest) -> HttpResponse:
    """GET lists builds, newest first; POST registers a build file. Raises `BadBuild`, `BuildConflict`."""
    if request.method == "GET":
        return _list_builds(request)
    token = authenticate(request, scopes=("ci",))
    described = registering.read_file(raw_body(request))
    if token.agent not in ("", described.agent):
        raise errors.NotAllowed("this token is for another agent", agent=token.agent)
    build, created = registering.register(described, seen_from=Build.FirstSeen.CI, by=token.actor)
    return JsonResponse({**build_json(build), "created": created}, status=201 if created else 200)


def _list_builds(request: HttpRequest) -> HttpResponse:
    token = authenticate(request, scopes=READ)
    agent = token.agent or request.GET.get("agent", "")
    rows, following = queries.build_rows(agent=agent, before=_cursor(request), now=timezone.now())
    made = [{**build_json(r.build, body=False), "in_flight": r.in_flight, "live": r.live} for r in rows]
    return JsonResponse({"builds": made, "cursor": None if following is None else str(following)})


def build_json(build: Build, *, body: bool = True) -> dict[str, Any]:
    """A build as the API shows it; with its contents unless they were not loaded."""
    made = {
        "agent": build.agent,
        "label": build.label,
        "digest": build.digest,
        "app": build.app,
        "sdk": build.sdk,
        "replaces": build.replaces or None,
        "first_seen_from": build.first_seen_from,
        "created_by": build.created_by,
        "created_at": build.created_at.isoformat(),
    }
    return {**made, **{k: v for k, v in build.body.items() if k not in made}} if body else made


# -- deploys --------------------------------------------------------------------------------------------------------


@api_view
@require_http_methods(["GET", "POST"])
def deploys(request: HttpRequest) -> HttpResponse:
    """GET lists deploys, newest first; POST opens one for a registered build. Raises `UnknownBuild`."""
    if request.method == "GET":
        token = authenticate(request, scopes=READ)
        rows, following = queries.deploy_rows(agent=token.agent, environment=token.environment, before=_cursor(request))
        made = [deploy_json(deploy) for deploy in rows]
        return JsonResponse({"deploys": made, "cursor": None if following is None else str(following)})
    token = authenticate(request, scopes=("ci",))
    asked = body_of(request, NewDeploy)
    if not token.may_see(agent=asked.agent, environment=asked.environment):
        raise errors.NotAllowed(
            "this token is for another agent or environment", agent=token.agent, environment=token.environment
        )
    made_deploy = deploying.open_deploy(
        agent=asked.agent, environment=asked.environment, label=asked.build, by=token.actor, now=timezone.now()
    )
    return JsonResponse(whole_deploy(made_deploy), status=201)


@api_view
@require_http_methods(["GET"])
def deploy(request: HttpRequest, key: str) -> HttpResponse:
    """One deploy: the check, the decisions, and what is left to drain."""
    token = authenticate(request, scopes=READ)
    found = deploying.find(key)
    if not token.may_see(agent=found.agent, environment=found.environment):
        raise deploying.UnknownDeploy(f"no deploy has the key {key!r}")
    return JsonResponse(whole_deploy(found))


def deploy_json(found: Deploy) -> dict[str, Any]:
    """A deploy's own facts."""
    return {
        "id": found.key,
        "agent": found.agent,
        "environment": found.environment,
        "build": found.build.label,
        "state": found.state,
        "version": found.version,
        "created_by": found.created_by,
        "created_at": found.created_at.isoformat(),
        "rolled_out_at": found.rolled_out_at.isoformat() if found.rolled_out_at else None,
        "ended_at": found.ended_at.isoformat() if found.ended_at else None,
    }


def whole_deploy(found: Deploy) -> dict[str, Any]:
    """The object of `check_deploy` with the deploy's own facts, its decisions and its drain."""
    now = timezone.now()
    began = time.monotonic()
    assessed = deploying.refresh(found, now=now)
    found = deploying.advance(found, now=now)
    decisions = list(found.decisions.order_by("id"))
    applied = deploying.applied_counts(decisions)
    left = deploying.draining(found, now=now)
    elapsed_ms = (time.monotonic() - began) * 1000
    return {
        **queries.check(assessed, build=found.build.label, elapsed_ms=elapsed_ms),
        **deploy_json(found),
        "undecided": queries.undecided(assessed, decisions),
        "decisions": [d.as_json(applied=applied.get(d.pk, 0)) for d in decisions],
        "draining": {
            "left": left.left,
            "oldest": left.oldest.isoformat() if left.oldest else None,
            "stranded": left.stranded,
            "held": left.held,
            "drained": left.drained,
            "stragglers": [
                {"run": s.holder.key, "build": s.holder.build or None, "why": s.why, "text": s.text}
                for s in left.stragglers
            ],
        },
    }


def _cursor(request: HttpRequest) -> int | None:
    text = request.GET.get("cursor")
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise errors.MalformedRequest(f"cursor {text!r} is not one that a page gave") from None
