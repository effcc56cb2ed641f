"""Addresses of imports, included by `journals.urls`."""

from __future__ import annotations

from django.urls import path

from journals import imports_api, imports_views, otlp

urlpatterns = [
    path("v1/traces", otlp.traces, name="otlp_traces"),
    path("api/v1/imports", imports_api.imports, name="api_imports"),
    path("api/v1/imports/<int:import_id>", imports_api.import_one, name="api_import"),
    path("api/v1/imports/<int:import_id>/files/<int:n>", imports_api.import_file, name="api_import_file"),
    path("imports/", imports_views.imports, name="imports"),
    path("imports/new/", imports_views.new, name="import_new"),
    path("imports/how/", imports_views.how, name="import_how"),
    path("imports/<int:import_id>/", imports_views.detail, name="import"),
    path("imports/<int:import_id>/files/<int:n>/", imports_views.file, name="import_file"),
]
