"""Addresses of the journal: the worker API and the pages for imports, accounts and tokens."""

from __future__ import annotations

from importlib.util import find_spec

from django.urls import URLPattern, URLResolver, include, path

from journals import access_views, api

app_name = "journals"

urlpatterns: list[URLPattern | URLResolver] = [
    path("api/v1/runs/<str:key>/entries", api.entries, name="api_entries"),
    path("api/v1/runs/<str:key>/heartbeat", api.heartbeat, name="api_heartbeat"),
    path("api/v1/runs/<str:key>/release", api.release, name="api_release"),
    path("api/v1/runs/<str:key>/held", api.held, name="api_held"),
    path("api/v1/runs/<str:key>/signals", api.signals, name="api_signals"),
    path("settings/", access_views.settings_page, name="settings"),
    path("settings/users/", access_views.users, name="users"),
    path("settings/users/<int:user_id>/", access_views.user, name="user"),
    path("settings/tokens/", access_views.tokens, name="tokens"),
    path("settings/tokens/<int:token_id>/revoke/", access_views.revoke, name="revoke_token"),
]
if find_spec("journals.imports_urls") is not None:
    urlpatterns.append(path("", include("journals.imports_urls")))
