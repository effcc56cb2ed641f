"""Who may do what: roles of signed-in people, scopes of tokens. Checked on every request, never cached."""

from __future__ import annotations

import functools
import hashlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Concatenate, ParamSpec

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase

from journals import errors
from journals.models import Token

ROLES = ("viewer", "operator", "approver", "admin")
"""Django groups. Every signed-in account views; operators decide about runs and deploys; approvers decide approvals; admins do all and keep accounts."""

SCOPES = {
    "worker": "starts and claims runs, appends entries, sends spans",
    "ci": "registers builds, makes deploys, imports, sends spans, reads",
    "read": "reads",
}
MAX_AGE = timedelta(days=90)

P = ParamSpec("P")


def has_role(user: Any, role: str) -> bool:
    """Whether an account has this role now; admins and superusers have every role."""
    if not user.is_authenticated or not user.is_active:
        return False
    if role == "viewer" or user.is_superuser:
        return True
    return bool(user.groups.filter(name__in=(role, "admin")).exists())


def role_required(
    role: str,
) -> Callable[
    [Callable[Concatenate[HttpRequest, P], HttpResponse]], Callable[Concatenate[HttpRequest, P], HttpResponse]
]:
    """A view for signed-in people of this role; others get the sign-in page or 403."""

    def wrap(
        view: Callable[Concatenate[HttpRequest, P], HttpResponse],
    ) -> Callable[Concatenate[HttpRequest, P], HttpResponse]:
        @login_required
        @functools.wraps(view)
        def checked(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
            if not has_role(request.user, role):
                raise PermissionDenied(f"this needs the role {role}")
            return view(request, *args, **kwargs)

        return checked  # type: ignore[return-value]

    return wrap


def actor_of(request: HttpRequest) -> str:
    """The actor string of a signed-in person."""
    return f"person:{request.user.get_username()}"


# -- tokens ---------------------------------------------------------------------------------------------------------


def hash_token(secret: str) -> bytes:
    """How a token is stored: SHA-256. The secret is 190 random bits, so no slow hash is needed."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()


def create_token(
    name: str, *, scope: str, created_by: str, agent: str = "", environment: str = "", days: int | None = 90
) -> tuple[Token, str]:
    """A new token and its secret, which is not kept. Raises `MalformedRequest` for an unknown scope or a life over 90 days."""
    if scope not in SCOPES:
        raise errors.MalformedRequest(f"scope {scope!r} is not one of {', '.join(SCOPES)}")
    if days is not None and not 0 < days <= MAX_AGE.days:
        raise errors.MalformedRequest(f"a token lives 1 to {MAX_AGE.days} days, not {days}")
    secret = f"db_{scope}_{secrets.token_urlsafe(32)}"
    from django.utils import timezone

    made = Token.objects.create(
        name=name, prefix=secret[: len(scope) + 9], hash=hash_token(secret), scope=scope, agent=agent, environment=environment,
        created_by=created_by, expires_at=timezone.now() + timedelta(days=days) if days else None,
    )  # fmt: skip
    return made, secret


def revoke_token(token_id: int) -> bool:
    """Ends a token at once; False when it was revoked before."""
    from django.db.models.functions import Now

    return bool(Token.objects.filter(id=token_id, revoked_at=None).update(revoked_at=Now()))


def revoke_named(name: str) -> int:
    """Ends every live token of this name; answers how many."""
    from django.db.models.functions import Now

    return Token.objects.filter(name=name, revoked_at=None).update(revoked_at=Now())


@dataclass(frozen=True, slots=True)
class Bearer:
    """The token behind a request."""

    id: int
    name: str
    scope: str
    agent: str
    environment: str
    hash: bytes

    @property
    def actor(self) -> str:
        return f"token:{self.name}"

    def may_see(self, *, agent: str, environment: str) -> bool:
        """Whether a run of this agent and environment exists for this token."""
        return self.agent in ("", agent) and self.environment in ("", environment)


def bearer_hash(request: HttpRequest) -> bytes:
    """The hash of the request's bearer token; raises `NotAuthenticated` when there is none."""
    header = request.META.get("HTTP_AUTHORIZATION", "")
    if header[:7].lower() != "bearer ":
        raise errors.NotAuthenticated("send the header `Authorization: Bearer <token>`")
    return hash_token(header[7:].strip())


def authenticate(request: HttpRequest, *, scopes: Sequence[str]) -> Bearer:
    """The live token of a request. Raises `NotAuthenticated`, or `NotAllowed` when its scope is not one of `scopes`."""
    digest = bearer_hash(request)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE journals_token SET last_used_at = now() WHERE hash = %s AND (last_used_at IS NULL OR last_used_at < now() - interval '1 minute')",
            [digest],
        )
        cursor.execute(
            "SELECT id, name, scope, agent, environment FROM journals_token"
            " WHERE hash = %s AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())",
            [digest],
        )
        row = cursor.fetchone()
    if row is None:
        raise errors.NotAuthenticated("the token is unknown, expired or revoked")
    if row[2] not in scopes:
        raise errors.NotAllowed(f"a {row[2]} token may not do this; it needs {' or '.join(scopes)}", scope=row[2])
    token_id, name, scope, agent, environment = row
    return Bearer(token_id, name, scope, agent, environment, digest)


def api_view(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """An API view: refusals become the documented error object with their status; no CSRF, since only tokens are taken."""

    @functools.wraps(view)
    def answered(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            return view(request, *args, **kwargs)
        except errors.Refused as e:
            return JsonResponse(e.body(), status=e.status)

    answered.csrf_exempt = True  # type: ignore[attr-defined]
    return answered
