"""Pages about runs, for people."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render


@login_required
def overview(request: HttpRequest) -> HttpResponse:
    """What needs a person now."""
    return render(request, "runs/overview.html")


@login_required
def run_list(request: HttpRequest) -> HttpResponse:
    """Runs that match the filters in the address."""
    return render(request, "runs/list.html")
