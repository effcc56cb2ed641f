"""Signing in, with a brake on guessing."""

from __future__ import annotations

import hashlib
from typing import Any

from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse

TRIES = 10  # wrong passwords for one name from one address, in each web process, before it has to wait
WAIT_S = 300


class SignIn(LoginView):
    """Django's sign-in; after `TRIES` wrong passwords a name at an address waits `WAIT_S` seconds, right password or not.

    Counted by name and address together, so that nobody can lock another person out from elsewhere.
    """

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if cache.get(_counter(request), 0) >= TRIES:
            form = self.get_form_class()(request)
            context = self.get_context_data(form=form, locked=f"{WAIT_S // 60} minutes")
            return self.render_to_response(context, status=429, headers={"Retry-After": str(WAIT_S)})
        return super().post(request, *args, **kwargs)

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        counter = _counter(self.request)
        cache.add(counter, 0, WAIT_S)
        cache.incr(counter)
        return super().form_invalid(form)

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        cache.delete(_counter(self.request))
        return super().form_valid(form)


def _counter(request: HttpRequest) -> str:
    who = f"{request.POST.get('username', '')}\n{request.META.get('REMOTE_ADDR', '')}"
    return "signin:" + hashlib.sha256(who.encode("utf-8", "surrogatepass")).hexdigest()
