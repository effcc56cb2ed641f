"""Addresses of approvals: pages for people, calls for workers."""

from __future__ import annotations

from django.urls import path

from runs.approvals import api, foreign_views, together_views, views

app_name = "approvals"
urlpatterns = [
    path("approvals/", views.inbox, name="inbox"),
    path("approvals/policies/", views.policy_list, name="policies"),
    path("approvals/<str:key>/decisions/", together_views.decisions, name="decisions"),
    path("approvals/<str:key>/<str:name>/decision/", views.decision, name="decision"),
    path("approvals/<str:key>/foreign/<str:ref>/", foreign_views.detail, name="foreign"),
    path("approvals/<str:key>/foreign/<str:ref>/decision/", foreign_views.decision, name="foreign_decision"),
    path("approvals/<str:key>/<str:name>/", views.detail, name="detail"),
    path("api/v1/runs/<str:key>/approvals", api.ask, name="api_ask"),
    path("api/v1/runs/<str:key>/approvals/<str:name>", api.look, name="api_look"),
    path("api/v1/runs/<str:key>/approvals/<str:name>/deliver", api.deliver, name="api_deliver"),
    path("api/v1/runs/<str:key>/approvals/<str:name>/use", api.use, name="api_use"),
]
