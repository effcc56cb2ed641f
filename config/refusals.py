"""Answers to what no view took: the API's error object below `/api/v1/`, a page of ours elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote_plus, urlencode, urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render

from journals import errors
from journals.adapters.base import shown

API: Final = "/api/v1/"
Get = Callable[[HttpRequest], HttpResponseBase]


def told(get_response: Get) -> Get:
    """Middleware: gives every refusal that has no words of its own those of the documentation.

    It stands outside of routing, so that unknown addresses, wrong methods, refused hosts and failures of the server are
    told like the refusals of the views.
    """

    def answer(request: HttpRequest) -> HttpResponseBase:
        nul = _nul(request)
        response = (_refused_address(request, nul) if nul else None) or get_response(request)
        if _unsent(request, response):
            return _to_the_form(request)
        if response.status_code < HTTPStatus.BAD_REQUEST:
            return response
        if request.path_info.startswith(API):
            spoken = response.headers.get("Content-Type", "").startswith("application/json")
            return response if spoken else _kept(response, _object(request, response))
        wordless = isinstance(response, HttpResponse) and not response.content
        if wordless and response.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            return _kept(response, render(request, "405.html", status=405))
        return response

    return answer


def _unsent(request: HttpRequest, response: HttpResponseBase) -> bool:
    """A form was posted and answered with the sign-in page: the session had ended, and nothing was done."""
    to_sign_in = response.headers.get("Location", "").startswith(f"{settings.LOGIN_URL}?")
    return request.method == "POST" and response.status_code == HTTPStatus.FOUND and to_sign_in


def _to_the_form(request: HttpRequest) -> HttpResponse:
    """To the sign-in page, and from there back to the page with the form: many addresses take posts only."""
    came = urlsplit(request.headers.get("HX-Current-URL") or request.headers.get("Referer") or "")
    here = came.netloc == request.get_host()
    back = f"{came.path or '/'}{'?' + came.query if came.query else ''}" if here else "/"
    to = f"{settings.LOGIN_URL}?{urlencode({'next': back, 'unsent': 1})}"
    if request.headers.get("HX-Request"):
        return HttpResponse(status=204, headers={"HX-Redirect": to})
    return HttpResponseRedirect(to)


def _nul(request: HttpRequest) -> str:
    """Where the address holds U+0000, which names nothing here and which PostgreSQL has no text for; "" for nowhere."""
    if "\0" in request.path_info:
        return "path"
    query = request.META.get("QUERY_STRING", "")
    if "%00" not in query and "\0" not in query:
        return ""
    named = (part.partition("=")[0] for part in query.split("&") if "%00" in part or "\0" in part)
    return f"query parameter `{shown(unquote_plus(next(named)), 60)}`"


def _refused_address(request: HttpRequest, nul: str) -> HttpResponse | None:
    if nul == "path":
        return render(request, "404.html", status=404)
    said = f"The {nul} holds a NUL character (%00), which nothing here has in its name."
    if request.path_info.startswith(API):
        return JsonResponse(errors.MalformedRequest(said).body(), status=400)
    return render(request, "400.html", {"exception": said}, status=400)


def _kept(old: HttpResponseBase, new: HttpResponse) -> HttpResponse:
    """The new answer with what the old one allows."""
    if "Allow" in old.headers:
        new.headers["Allow"] = old.headers["Allow"]
    return new


def _object(request: HttpRequest, response: HttpResponseBase) -> HttpResponse:
    refusal = _refusal(request, response)
    return JsonResponse(refusal.body(), status=response.status_code)


def _refusal(request: HttpRequest, response: HttpResponseBase) -> errors.Refused:
    """What an answer without an error object meant."""
    where = f"{request.method} {request.path_info}"
    match response.status_code:
        case HTTPStatus.NOT_FOUND:
            return errors.UnknownCall(f"{where}: there is no such call; /api/v1/openapi.json names them all")
        case HTTPStatus.METHOD_NOT_ALLOWED:
            allowed = response.headers.get("Allow", "")
            return errors.MethodNotAllowed(f"{where}: this call takes {allowed or 'another method'}", allowed=allowed)
        case HTTPStatus.FORBIDDEN:
            return errors.NotAllowed(f"{where}: refused before the call was looked at")
        case code if code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return errors.ServerError(
                f"{where}: the server failed; its log tells why. The same request may be sent again."
            )
        case _:
            return errors.MalformedRequest(f"{where}: the request could not be read; check its host, headers and size")
