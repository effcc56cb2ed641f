"""Addresses of builds, deploys and the actions on runs that concern versions."""

from __future__ import annotations

from django.urls import path

from versioning import api, build_views, run_views, views

app_name = "versioning"
urlpatterns = [
    path("api/v1/runs/<str:key>/open", api.open_run, name="api_open"),
    path("api/v1/runs/<str:key>/stopped", api.stopped, name="api_stopped"),
    path("api/v1/claims", api.claims, name="api_claims"),
    path("api/v1/builds", api.builds, name="api_builds"),
    path("api/v1/deploys", api.deploys, name="api_deploys"),
    path("api/v1/deploys/<str:key>", api.deploy, name="api_deploy"),
    path("deploys/", views.deploys, name="deploys"),
    path("deploys/new/", views.new_deploy, name="new_deploy"),
    path("deploys/<str:key>/", views.deploy, name="deploy"),
    path("deploys/<str:key>/decide/", views.decide, name="decide"),
    path("deploys/<str:key>/roll-out/", views.roll_out, name="roll_out"),
    path("deploys/<str:key>/roll-back/", views.roll_back, name="roll_back"),
    path("deploys/<str:key>/groups/<str:group>/", views.group, name="group"),
    path("builds/", build_views.builds, name="builds"),
    path("builds/<int:number>/", build_views.build, name="build"),
    path("agents/", build_views.agents, name="agents"),
    path("agents/policy/", build_views.policy, name="policy"),
    path("runs/<str:key>/panel/", run_views.panel, name="run_panel"),
    *(path(f"runs/<str:key>/{name}/", run_views.act, {"name": name}, name=f"run_{name}") for name in run_views.ACTS),
    path("runs/<str:key>/gaps/<str:branch>/<int:step>/", run_views.resolve_gap, name="resolve_gap"),
]
