"""The API of a source's mapping. `docs/imports.md` is the reference."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_http_methods

from journals import errors, store
from journals.access import Bearer, api_view, authenticate
from journals.api import raw_body
from runs.mapping import BadMapping, checked, read_text

__all__ = ["READ", "WRITE", "mapping"]

READ = ("ci", "read")
WRITE = ("ci",)


@api_view
@require_http_methods(["GET", "PUT"])
def mapping(request: HttpRequest, name: str) -> HttpResponse:
    """GET answers the source's mapping; PUT replaces it and says how many runs are folded again.

    `?version=` of a PUT is the version that was read: another one is refused with `MappingMoved`.
    """
    token = authenticate(request, scopes=READ if request.method == "GET" else WRITE)
    if token.agent or token.environment:
        raise errors.NotAllowed("this token is for some runs only, and a mapping is for every run of its source")
    found = store.source(name=name)
    if request.method == "GET":
        return JsonResponse(_told(found))
    behind = _put(request, found, token)
    return JsonResponse({**_told(store.source(name=name)), "folded_again": behind})


def _put(request: HttpRequest, found: store.Source, token: Bearer) -> int:
    version = request.GET.get("version")
    if version is not None and not (version.isascii() and version.isdigit() and len(version) < 19):
        raise errors.MalformedRequest(f"version {version!r} is not a number that an answer gave")
    try:
        made = checked(read_text(raw_body(request)))
    except BadMapping as e:
        raise errors.MalformedRequest(f"the mapping was not taken: {e}", path=e.path, reason=e.reason) from None
    expected = int(version) if version is not None else None
    return store.change_mapping(found.id, made.text(), by=token.actor, expected=expected)


def _told(found: store.Source) -> dict[str, Any]:
    last = next(iter(store.mapping_changes(found.id, limit=1)), None)
    return {
        "source": found.name,
        "runtime": found.runtime,
        "mapping": read_text(found.mapping).body(),
        "version": found.version,
        "changed_by": last.by if last else None,
        "changed_at": last.at.isoformat().replace("+00:00", "Z") if last else None,
    }
