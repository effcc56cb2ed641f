"""Addresses of the run pages."""

from __future__ import annotations

from django.urls import path

from runs import views

app_name = "runs"
urlpatterns = [
    path("", views.overview, name="overview"),
    path("runs/", views.run_list, name="list"),
]
