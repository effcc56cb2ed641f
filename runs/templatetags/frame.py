"""What the frame of every page needs: navigation, environments, counts."""

from __future__ import annotations

from typing import Any, NamedTuple

from django import template
from django.template import Context
from django.urls import NoReverseMatch, reverse
from django.utils.http import urlencode

from runs import queries, seams

register = template.Library()


class Place(NamedTuple):
    """One entry of the rail."""

    name: str
    title: str
    url_name: str
    prefixes: tuple[str, ...]
    second: bool = False  # under "more" on phones


PLACES = (
    Place("overview", "Overview", "runs:overview", ()),
    Place("runs", "Runs", "runs:list", ("/runs/",)),
    Place("approvals", "Approvals", "approvals:inbox", ("/approvals/",)),
    Place("deploys", "Deploys", "versioning:deploys", ("/deploys/",)),
    Place("builds", "Builds", "versioning:builds", ("/builds/", "/catalogue/"), True),
    Place("agents", "Agents", "versioning:agents", ("/agents/",), True),
    Place("sources", "Sources", "journals:imports", ("/imports/", "/sources/"), True),
    Place("settings", "Settings", "journals:settings", ("/settings/", "/users/", "/tokens/"), True),
)


def _address(name: str) -> str:
    try:
        return reverse(name)
    except NoReverseMatch:
        return ""


@register.simple_tag(takes_context=True)
def frame(context: Context) -> dict[str, Any]:
    """Links (those whose pages exist), the environments to switch between, and the counts of the top bar."""
    request = context.get("request")
    path = getattr(request, "path", "")
    environment = request.GET.get("environment", "").replace("\0", "") if request is not None else ""
    tail = f"?{urlencode({'environment': environment})}" if environment else ""
    links = []
    for place in PLACES:
        address = _address(place.url_name)
        if address:
            here = path == address or any(path.startswith(prefix) for prefix in place.prefixes)
            links.append(
                {
                    "name": place.name,
                    "title": place.title,
                    "url": address + tail,
                    "here": here,
                    "second": place.second,
                    "icon": f"components/icons/{place.name}.svg",
                }
            )
    user = getattr(request, "user", None)
    signed_in = bool(user is not None and user.is_authenticated)
    return {
        "links": links,
        "by_name": {link["name"]: link for link in links},
        "environment": environment,
        "environments": queries.environments() if signed_in else [],
        "counts": {name: read(user, environment) for name, read in seams.COUNTS.items()} if signed_in else {},
        "signed_in": signed_in,
    }
