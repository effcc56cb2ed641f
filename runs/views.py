"""Pages about runs, for people: parse, one call, render. The partial that htmx asks for is named by its target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.cache import cache
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe
from journals import store

from runs import page, queries, sentences
from runs.forms import STATUSES, VIEW_TITLES, VIEWS, Filters
from runs.models import Run

try:  # TEMPORARY until the projection is in the tree
    from runs import projection
except ImportError:
    from types import SimpleNamespace

    projection = SimpleNamespace(catch_up=lambda head_ids=None: None)  # type: ignore[assignment]

PILL_MEANS = {"gap": "attention", "nobody": "attention", "near_limit": "attention"}


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


@login_required
@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    """What needs a person now; `?v=` answers 204 while nothing changed."""
    projection.catch_up()
    environment = request.GET.get("environment", "")
    groups = queries.attention(environment, timezone.now())
    needs = queries.needs(environment)
    agents = cache.get_or_set(f"in-flight:{environment}", lambda: queries.in_flight_by_agent(environment), 3)
    tag = queries.tag_of([(g.name, g.count, [(r.pk, r.folded_pos) for r in g.rows]) for g in groups], needs, agents)
    if _unchanged(request, tag):
        return HttpResponse(status=204)
    context = {
        "groups": groups,
        "needs": needs,
        "agents": agents,
        "counts": queries.overview_counts(environment),
        "poll_url": _poll_url(request, tag),
        "filters": Filters(environment=environment),
    }
    return render(request, "runs/overview.html#now" if _target(request) == "now" else "runs/overview.html", context)


# -- list -----------------------------------------------------------------------------------------------------------


@login_required
@require_safe
def run_list(request: HttpRequest) -> HttpResponse:
    """Runs that match the address; the whole page, its region, or its rows if they changed."""
    projection.catch_up()
    filters, refused = Filters.read(request.GET)
    found = queries.list_page(filters)
    target = _target(request)
    if target == "rows" and _unchanged(request, found.tag):
        return HttpResponse(status=204)
    context = {"page": found, "filters": filters, "refused": refused, "poll_url": _poll_url(request, found.tag), **_list_words(filters, found)}
    if target == "rows":
        return render(request, "runs/list.html#update", {**context, "out_of_band": True})
    return render(request, "runs/list.html#runs" if target == "runs" else "runs/list.html", context)


def _list_words(filters: Filters, found: queries.Page) -> dict[str, Any]:
    """What the list shows around its rows."""
    counts = queries.view_counts(filters)
    pills = [
        {"text": text, "url": filters.url(view=view), "here": filters.view == view, "count": counts[view],
         "title": VIEW_TITLES[view], "mean": PILL_MEANS.get(view, "")}
        for view, text in VIEWS.items()
        if view in counts
    ]
    differs = queries.differences(found.rows)
    for run in found.rows:
        run.differs, run.versions_text = differs.get(run.head_id, ""), queries.versions_text(run)
    return {
        "pills": pills, "counts": {**counts, "all": counts[""]}, "differences": differs, "heading": VIEWS.get(filters.view) or "Runs",
        "statuses": [("", "any status"), *((s, s) for s in STATUSES)], "agents": queries.agents(), "findings": queries.FINDINGS,
        "form_values": {"q": filters.q, "view": filters.view, "environment": filters.environment},
        "all_url": Filters(environment=filters.environment).url() if filters.view or filters.tags() else reverse("runs:list"),
    }


# -- one run --------------------------------------------------------------------------------------------------------


def _run_of(key: str) -> Run:
    run = page.find_run(key)
    if run is None:
        raise Http404(f"No run has the key {key}.")
    projection.catch_up([run.head_id])
    return page.find_run(key) or run


def _number(request: HttpRequest, name: str) -> int | None:
    value = request.GET.get(name, "")
    return int(value) if value.isascii() and value.isdigit() and len(value) < 16 else None


@login_required
@require_safe
def detail(request: HttpRequest, key: str, tab: str = "steps") -> HttpResponse:
    """One run under one of its tabs; `?open=3` opens steps, `?entry=12` goes to an entry."""
    run = _run_of(key)
    target = _target(request)
    tag = page.tag_of(run)
    if target == "run-head" and _unchanged(request, tag):
        return HttpResponse(status=204)
    if tab == "steps" and target.startswith("s") and target[1:].isdigit():
        return _step(request, run, int(target[1:]))
    context = {"run": run, "tab": tab, "head": _head(run), "poll_url": _poll_url(request, tag), "tabs": _tabs(run, tab),
               "tab_template": f"runs/{tab}.html"}
    if target == "run-head":
        return render(request, "runs/detail.html#head", context)
    context |= TABS[tab](request, run)
    return render(request, "runs/detail.html#body" if target == "run-body" else "runs/detail.html", context)


def _step(request: HttpRequest, run: Run, ord: int) -> HttpResponse:
    """One step's rows, opened or closed as the address says."""
    row = page.step_row(run, ord)
    if row is None:
        raise Http404(f"This run has no step at place {ord}.")
    if str(ord) in request.GET.getlist("open"):
        page.open_step(run, row)
    return render(request, "runs/steps.html#step", {"run": run, "row": row})


def _head(run: Run) -> dict[str, Any]:
    """Status, cause and gaps in words."""
    gaps = page.part(run, "gaps") if run.in_flight else []
    return {
        "gaps": [{"found": gap, "words": sentences.gap(gap, native=run.runtime == "native"), **page.gap_facts(run, gap)} for gap in gaps[: page.GAPS]],
        "more_gaps": max(len(gaps) - page.GAPS, 0),
        "cause": page.cause(run),
        "findings": page.part(run, "findings"),
    }


def _tabs(run: Run, here: str) -> list[dict[str, Any]]:
    counts = {
        "steps": run.steps, "entries": run.entries, "versions": None, "approvals": len(page.part(run, "approvals")),
        "decisions": len(page.part(run, "decisions")), "raw": None,
    }
    return [
        {"name": name, "title": name.capitalize(), "count": count, "here": name == here, "url": _tab_url(run, name)}
        for name, count in counts.items()
    ]


def _tab_url(run: Run, name: str) -> str:
    return reverse("runs:detail", args=[run.key]) if name == "steps" else reverse("runs:tab", args=[run.key, name])


def _steps_tab(request: HttpRequest, run: Run) -> dict[str, Any]:
    opened = [int(n) for n in request.GET.getlist("open") if n.isdigit() and len(n) < 16][:20]
    after, before, number = _number(request, "after"), _number(request, "before"), _number(request, "entry")
    if number is not None:
        place = page.place_of(run, number)
        opened += [place] if place else []
    if opened and after is None and before is None:
        after = page.page_of(min(opened))
    return {"window": page.steps(run, after=after, before=before, opened=opened), "entry_number": number}


def _entries_tab(request: HttpRequest, run: Run) -> dict[str, Any]:
    number = _number(request, "entry")
    after = _number(request, "after") or 0
    opened = page.entry(run, number) if number is not None else None
    if opened is not None:
        after = max(opened.stored.pos - 10, 0)
    return {"window": page.entries(run, after=after), "opened": opened, "asked": number}


TABS: dict[str, Callable[[HttpRequest, Run], dict[str, Any]]] = {
    "steps": _steps_tab,
    "entries": _entries_tab,
    "versions": lambda request, run: {"components": page.version_matrix(run)},
    "approvals": lambda request, run: {"approvals": page.part(run, "approvals")},
    "decisions": lambda request, run: {"decisions": page.part(run, "decisions")},
    "raw": lambda request, run: {"window": page.raw_lines(run, after=_number(request, "after") or 0)},
}


@login_required
@require_safe
def entry(request: HttpRequest, key: str, number: int) -> HttpResponse:
    """One entry among its neighbours, opened."""
    request.GET = request.GET.copy()  # type: ignore[assignment]
    request.GET["entry"] = str(number)
    return detail(request, key, tab="entries")


@login_required
@require_safe
def value(request: HttpRequest, key: str, number: int, name: str) -> HttpResponse:
    """A recorded value as it is, as plain text: what pages cut is whole here."""
    found = page.entry(_run_of(key), number)
    if found is None or (name != "line" and name not in found.values):
        raise Http404(f"Entry {number} of this run has no field {name}.")
    body = found.stored.raw if name == "line" else found.values[name]
    return HttpResponse(body, content_type="text/plain; charset=utf-8")


@login_required
@require_safe
def export(request: HttpRequest, key: str) -> StreamingHttpResponse:
    """The run's journal lines, as they were recorded; also a fixture for tests and for `drainboard replay`."""
    run = _run_of(key)

    def lines() -> Iterator[bytes]:
        for line in store.export(run.head_id, native=run.runtime == "native"):
            yield line + b"\n"

    return StreamingHttpResponse(
        lines(), content_type="application/x-ndjson", headers={"Content-Disposition": f'attachment; filename="{run.key}.jsonl"'}
    )
