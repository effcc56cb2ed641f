"""Answers to what no view took: the API's error object below `/api/v1/`, a page of ours elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render

from journals import errors

API: Final = "/api/v1/"
Get = Callable[[HttpRequest], HttpResponseBase]


def told(get_response: Get) -> Get:
    """Middleware: gives every refusal that has no words of its own those of the documentation.

    It stands outside of routing, so that unknown addresses, wrong methods, refused hosts and failures of the server are
    told like the refusals of the views.
    """

    def answer(request: HttpRequest) -> HttpResponseBase:
        response = _refused_address(request) or get_response(request)
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


def _refused_address(request: HttpRequest) -> HttpResponse | None:
    """The answer to an address with U+0000, which names nothing here and which PostgreSQL has no text for; else None."""
    if "\0" in request.path_info:
        return render(request, "404.html", status=404)
    query = request.META.get("QUERY_STRING", "")
    return render(request, "400.html", status=400) if "%00" in query or "\0" in query else None


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
