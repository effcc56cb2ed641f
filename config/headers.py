"""Security headers that no other middleware sets."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase

FEATURES = ("accelerometer", "camera", "geolocation", "gyroscope", "microphone", "payment", "usb")
PERMISSIONS_POLICY = ", ".join(f"{feature}=()" for feature in FEATURES)
Get = Callable[[HttpRequest], HttpResponseBase]


def sealed(get_response: Get) -> Get:
    """Middleware: no device features, and no other site may embed an answer."""

    def answer(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        response.headers.setdefault("Permissions-Policy", PERMISSIONS_POLICY)
        response.headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")
        return response

    return answer
