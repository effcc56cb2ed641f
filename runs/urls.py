"""Addresses of the run pages."""

from __future__ import annotations

from django.urls import path, re_path, register_converter

from runs import api, source_api, source_views, views

app_name = "runs"


class EntryPlace:
    """An entry's number, with its position behind a dash where others of the run have the number too: `4`, `4-17`."""

    regex = r"[0-9]{1,19}(?:-[0-9]{1,18})?"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: int | str) -> str:
        return str(value)


register_converter(EntryPlace, "entry")
urlpatterns = [
    path("api/v1/runs", api.runs, name="api_runs"),
    path("api/v1/runs/<str:key>", api.detail, name="api_run"),
    path("api/v1/sources/<path:name>/mapping", source_api.mapping, name="api_mapping"),
    path("sources/<int:source_id>/", source_views.source, name="source"),
    path("sources/<int:source_id>/mapping/", source_views.mapping, name="mapping"),
    path("", views.overview, name="overview"),
    path("runs/", views.run_list, name="list"),
    path("runs/<str:key>/", views.detail, name="detail"),
    path("runs/<str:key>/export.jsonl", views.export, name="export"),
    path("runs/<str:key>/entries/<entry:place>/", views.entry, name="entry"),
    path("runs/<str:key>/entries/<entry:place>/<str:name>.txt", views.value, name="value"),
    path("docs/findings/", views.findings, name="findings"),
    path("docs/findings/<str:code>/", views.finding, name="finding"),
    re_path(r"^runs/(?P<key>[^/]+)/(?P<tab>entries|versions|approvals|decisions|raw)/$", views.detail, name="tab"),
]
