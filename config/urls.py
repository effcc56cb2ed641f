"""All addresses; each app names its own under its namespace."""

from __future__ import annotations

from importlib.util import find_spec

from django.contrib.auth.views import LogoutView
from django.urls import include, path

from config.health import healthz, readyz
from config.metrics import metrics
from config.openapi import openapi, page
from config.signin import SignIn

urlpatterns = [
    path("healthz", healthz),
    path("readyz", readyz),
    path("metrics", metrics),
    path("api/", page, name="api"),
    path("api/v1/openapi.json", openapi, name="openapi"),
    path("login/", SignIn.as_view(), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    *(
        path("", include(f"{app}.urls"))
        for app in ("journals", "runs.approvals", "runs", "versioning")
        if find_spec(f"{app}.urls") is not None
    ),
]
