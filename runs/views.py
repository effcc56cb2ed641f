"""Pages about runs, for people: parse, one call, render. The partial that htmx asks for is named by its target."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from django.contrib.auth.views import redirect_to_login
from django.core.cache import cache
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from journals import store
from journals.access import has_role
from journals.errors import UnknownRun
from runs import causes, guide, limit_words, matrix, page, projection, queries, sentences
from runs import overview as overviews
from runs.concerns import LEFT_OPEN
from runs.findings import CODES
from runs.forms import STATUSES, VIEW_TITLES, VIEWS, Filters
from runs.models import Run

CATCH_UP_S = 0.4  # a page waits this long for runs that have news; the rest is said to be behind
PILL_MEANS = {"gap": "attention", "nobody": "attention", "double": "broken", "near_limit": "attention"}


def signed_in(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """A page for every account that is signed in. A part that refreshes itself takes its whole page to the sign-in page."""

    @functools.wraps(view)
    def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.user.is_authenticated:
            return view(request, *args, **kwargs)
        if request.headers.get("HX-Request"):
            here = urlsplit(request.headers.get("HX-Current-URL", ""))
            answer = redirect_to_login(f"{here.path or '/'}{'?' + here.query if here.query else ''}")
            return HttpResponse(status=204, headers={"HX-Redirect": answer.url})
        return redirect_to_login(request.get_full_path())

    return checked


def _target(request: HttpRequest) -> str:
    """The id of the element that htmx will swap; '' for a whole page."""
    return request.headers.get("HX-Target", "") if request.headers.get("HX-Request") else ""


def _unchanged(request: HttpRequest, tag: str) -> bool:
    return request.GET.get("v") == tag


def _poll_url(request: HttpRequest, tag: str) -> str:
    query = request.GET.copy()
    query["v"] = tag
    return f"{request.path}?{query.urlencode()}"


# -- overview -------------------------------------------------------------------------------------------------------


@signed_in
@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    """What needs a person now; `?v=` answers 204 while nothing changed."""
    behind = projection.catch_up(within_s=CATCH_UP_S)
    environment = Filters.read(request.GET)[0].environment
    groups = overviews.attention(environment, timezone.now())
    needs = overviews.needs(environment)
    key = f"in-flight:{queries.tag_of(environment)}"
    agents = cache.get_or_set(key, lambda: overviews.in_flight_by_agent(environment), 3)
    tag = queries.tag_of(
        [(g.name, g.count, [(r.run.pk, r.run.folded_pos) for r in g.rows]) for g in groups], needs, agents
    )
    if _unchanged(request, tag):
        return HttpResponse(status=204)
    context = {
        "groups": groups,
        "needs": needs,
        "agents": agents,
        "counts": overviews.counts(environment),
        "behind": behind,
        "poll_url": _poll_url(request, tag),
        "filters": Filters(environment=environment),
    }
    return render(request, "runs/overview.html#now" if _target(request) == "now" else "runs/overview.html", context)


# -- list -----------------------------------------------------------------------------------------------------------


@signed_in
@require_safe
def run_list(request: HttpRequest) -> HttpResponse:
    """Runs that match the address; the whole page, its region, or its rows if they changed."""
    behind = projection.catch_up(within_s=CATCH_UP_S)
    filters, refused = Filters.read(request.GET)
    found = queries.list_page(filters)
    counts = queries.counted(filters)
    tag = queries.tag_of(found.tag, counts, behind)
    target = _target(request)
    if target == "rows" and _unchanged(request, tag):
        return HttpResponse(status=204)
    context = {
        "page": found,
        "filters": filters,
        "refused": refused,
        "behind": behind,
        "poll_url": _poll_url(request, tag),
        **_list_words(filters, found, counts),
    }
    if target == "rows":
        return render(request, "runs/list.html#update", {**context, "out_of_band": True})
    return render(request, "runs/list.html#runs" if target == "runs" else "runs/list.html", context)


def _list_words(filters: Filters, found: queries.Page, counts: Mapping[str, queries.Capped]) -> dict[str, Any]:
    """What the list shows around its rows."""
    pills = [
        {
            "text": text,
            "url": filters.url(view=view),
            "here": filters.view == view,
            "count": counts[view],
            "title": VIEW_TITLES[view],
            "mean": PILL_MEANS.get(view, ""),
        }
        for view, text in VIEWS.items()
        if view in counts
    ]
    return {
        "pills": pills,
        "counts": {**counts, "all": counts[""]},
        "rows": queries.listed(found.rows),
        "heading": VIEWS.get(filters.view) or "Runs",
        "statuses": [("", "any status"), *((s, s) for s in STATUSES)],
        "agents": queries.agents(),
        "findings": sorted({*queries.finding_codes(), *([filters.finding] if filters.finding else [])}),
        "form_values": {"q": filters.q, "view": filters.view, "environment": filters.environment, "gap": filters.gap},
        "live_search": True,
        "all_url": Filters(environment=filters.environment).url()
        if filters.view or filters.tags()
        else reverse("runs:list"),
    }


# -- what findings mean ---------------------------------------------------------------------------------------------


@signed_in
@require_safe
def findings(request: HttpRequest) -> HttpResponse:
    """Every finding, with its severity and its page."""
    return render(request, "runs/finding_index.html", {"findings": guide.index()})


@signed_in
@require_safe
def finding(request: HttpRequest, code: str) -> HttpResponse:
    """What one finding means and what to do."""
    if code not in CODES:
        raise Http404("There is no finding of this name.")
    return render(request, "runs/finding.html", {"page": guide.page_of(code)})


# -- one run --------------------------------------------------------------------------------------------------------


def _run_of(key: str) -> Run:
    """The run of an address, folded up to its last entry."""
    if not (key.isascii() and key.isalnum()):
        raise Http404("A run's key has letters and digits only.")
    try:
        head = store.find(key=key)
    except UnknownRun as e:
        raise Http404(e.message) from None
    projection.catch_up([head.id])
    return page.run_of(head.id)


def _number(request: HttpRequest, name: str) -> int | None:
    value = request.GET.get(name, "")
    return int(value) if value.isascii() and value.isdigit() and len(value) < 16 else None


@signed_in
@require_safe
def detail(request: HttpRequest, key: str, tab: str = "steps", place: str = "") -> HttpResponse:
    """One run under one of its tabs; `?open=3` opens steps, `?entry=12` goes to an entry."""
    run = _run_of(key)
    target = _target(request)
    tag = causes.tag_of(run)
    if target == "run-head" and _unchanged(request, tag):
        return HttpResponse(status=204)
    if tab == "steps" and target.startswith("s") and target[1:].isdigit():
        return _step(request, run, int(target[1:]))
    context = {
        "run": run,
        "run_url": _tab_url(run, "steps"),
        "may_decide": has_role(request.user, "operator"),
        "tab": tab,
        "head": _head(run),
        "poll_url": _poll_url(request, tag),
        "tabs": _tabs(run, tab),
        "tab_template": f"runs/{tab}.html",
    }
    if target == "run-head":
        changed = {"HX-Trigger": "run-changed"}  # the last page of steps listens and fetches itself
        return HttpResponse(
            render(request, "runs/detail.html#news", {**context, "out_of_band": True}).content, headers=changed
        )
    context |= _entries_tab(request, run, place) if place else TABS[tab](request, run)
    return render(
        request,
        {"run-body": "runs/detail.html#body", "steps-live": "runs/steps.html#live"}.get(target, "runs/detail.html"),
        context,
    )


def _step(request: HttpRequest, run: Run, place: int) -> HttpResponse:
    """One step's rows, opened or closed as the address says."""
    row = page.step_row(run, place)
    if row is None:
        raise Http404(f"This run has no step at place {place}.")
    if str(place) in request.GET.getlist("open"):
        page.open_step(run, row)
    return render(request, "runs/steps.html#step", {"run": run, "row": row, "run_url": _tab_url(run, "steps")})


def _head(run: Run) -> dict[str, Any]:
    """Status, cause and gaps in words."""
    native, over = run.runtime == "native", not run.in_flight
    gaps = [gap for gap in page.part(run, "gaps") if not over or gap.get("verdict") in LEFT_OPEN]
    return {
        "gaps": [
            {"found": gap, "words": sentences.gap(gap, native=native, over=over), **causes.gap_facts(run, gap)}
            for gap in gaps[: causes.GAPS]
        ],
        "more_gaps": max(len(gaps) - causes.GAPS, 0),
        "cause": causes.cause(run),
        "repeats_unseen": page.repeats_unseen(run),
        "source_url": reverse("runs:source", args=[store.head(run.head_id).source_id]),
        "findings": (findings := page.part(run, "findings")),
        "limits": limit_words.worded(page.part(run, "limits")),
        "open_findings": any(f.get("severity") == "error" for f in findings),
    }


def _tabs(run: Run, here: str) -> list[dict[str, Any]]:
    counts = {
        "steps": run.steps,
        "entries": run.folded_pos,
        "versions": None,
        "approvals": len(page.part(run, "approvals")),
        "decisions": sum((d.get("detail") or {}).get("made_by") != "worker" for d in page.part(run, "decisions")),
        "raw": None,
    }
    return [
        {
            "name": name,
            "title": "Entries and notes" if name == "entries" and run.notes else name.capitalize(),
            "count": count,
            "here": name == here,
            "url": _tab_url(run, name),
        }
        for name, count in counts.items()
    ]


def _tab_url(run: Run, name: str) -> str:
    return reverse("runs:detail", args=[run.key]) if name == "steps" else reverse("runs:tab", args=[run.key, name])


def _steps_tab(request: HttpRequest, run: Run) -> dict[str, Any]:
    opened = [int(n) for n in request.GET.getlist("open") if n.isascii() and n.isdigit() and len(n) < 10][:20]
    after, number = _number(request, "after"), _number(request, "entry")
    if number is not None:
        place = page.place_of(run, number)
        opened += [place] if place else []
    if opened and after is None:
        after = page.page_of(min(opened))
    source_id = None if run.native else store.head(run.head_id).source_id
    return {
        "window": page.steps(run, after=after or 0, opened=opened),
        "page_after": after or 0,
        "mapping_url": f"{reverse('runs:source', args=[source_id])}?run={run.key}#mapping" if source_id else "",
    }


def _entries_tab(request: HttpRequest, run: Run, place: str = "") -> dict[str, Any]:
    number = _number(request, "entry")
    place = place or ("" if number is None else str(number))
    after = _number(request, "after") or 0
    opened = page.entry(run, place) if place else None
    if opened is not None:
        after = max(opened.stored.pos - 10, 0)
    several = opened is not None and place != opened.place
    return {
        "window": page.entries(run, after=after),
        "opened": opened,
        "asked": place,
        "several": several,
        "what": "entries and notes" if run.notes else "entries",
    }


TABS: dict[str, Callable[[HttpRequest, Run], dict[str, Any]]] = {
    "steps": _steps_tab,
    "entries": _entries_tab,
    "versions": lambda request, run: {"components": matrix.version_matrix(run)},
    "approvals": lambda request, run: {"approvals": page.part(run, "approvals")},
    "decisions": lambda request, run: {"decisions": page.part(run, "decisions")},
    "raw": lambda request, run: {"window": page.raw_lines(run, after=_number(request, "after") or 0)},
}


@signed_in
@require_safe
def entry(request: HttpRequest, key: str, place: str) -> HttpResponseBase:
    """One entry among its neighbours, opened."""
    return detail(request, key, tab="entries", place=place)


@signed_in
@require_safe
def value(request: HttpRequest, key: str, place: str, name: str) -> HttpResponse:
    """A recorded value as it is, as plain text: what pages cut is whole here."""
    found = page.entry(_run_of(key), place)
    if found is None or (name != "line" and name not in found.values):
        raise Http404(f"Entry {place} of this run has no field {name}.")
    body = found.stored.raw if name == "line" else found.values[name]
    return HttpResponse(body, content_type="text/plain; charset=utf-8")


@signed_in
@require_safe
def export(request: HttpRequest, key: str) -> StreamingHttpResponse:
    """The run's journal lines, as they were recorded; also a fixture for tests and for `drainboard replay`."""
    run = _run_of(key)

    def lines() -> Iterator[bytes]:
        for line in store.export(run.head_id, native=run.runtime == "native"):
            yield line + b"\n"

    return StreamingHttpResponse(
        lines(),
        content_type="application/x-ndjson",
        headers={"Content-Disposition": f'attachment; filename="{run.key}.jsonl"'},
    )
