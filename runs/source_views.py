"""The page of one source: what it is, what its journal proves, and its mapping with a preview on a real run."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from journals import imports_queries, store
from journals.access import actor_of, has_role, role_required
from runs import preview, source_queries
from runs.mapping import SourceMapping, read_text
from runs.mapping_form import SPARE, Draft, Pattern
from runs.models import Run
from runs.versions import COMPONENTS

__all__ = ["mapping", "source"]

UNUSABLE = "Part of the form cannot be used as it is; it is marked below. Nothing was changed."
RUN_VERSIONS = {
    "app": "the application's build",
    "prompt": "name@version, or names to versions",
    "model": "an id, or roles to ids",
    "tools": "names to digests, or name@version",
    "sdk": "the runtime's library",
}


@role_required("viewer")
@require_safe
def source(request: HttpRequest, source_id: int) -> HttpResponse:
    """One source; `?run=` takes the names of that run and previews on it, `?q=` and `?page=` choose names."""
    found = _source(source_id)
    asked = {name: request.GET.get(name, "") for name in ("q", "page", "run")}
    return _page(request, found, Draft.of(read_text(found.mapping)), asked)


@role_required("operator")
@require_POST
def mapping(request: HttpRequest, source_id: int) -> HttpResponse:
    """The form of the mapping: `do` is save, preview, or names (another page of them); only save changes anything."""
    found = _source(source_id)
    if found.native:
        raise PermissionDenied("native runs have no mapping; their workers say what a step is")
    data = request.POST
    draft = Draft.posted(data)
    asked = {name: data.get(name, "") for name in ("q", "page", "run")}
    if data.get("do", "") == "names" or ("do" not in data and "page" in data):
        return _page(request, found, draft, asked)
    made = draft.mapping()
    if made is None:
        return _page(request, found, draft, asked, status=422)
    if data.get("do") != "save":
        return _page(request, found, draft, asked, previewed=made)
    version = data.get("version", "")
    try:
        expected = int(version) if version.isascii() and version.isdigit() and len(version) < 19 else None
        behind = store.change_mapping(found.id, made.text(), by=actor_of(request), expected=expected)
    except store.MappingMoved:
        draft.errors[""] = (
            "Somebody has saved this mapping since you opened it. What you see is your own; "
            "save again to replace theirs, or open the page again to see it."
        )
        return _page(request, _source(source_id), draft, asked, status=409)
    if behind:
        messages.success(request, f"Saved. {behind:,} run{'s are' if behind != 1 else ' is'} folded again under it.")
    else:
        messages.info(request, "Nothing was changed, so nothing is folded again.")
    return redirect(_url(found, asked))


def _source(source_id: int) -> store.Source:
    try:
        return store.source(source_id=source_id)
    except store.UnknownSource as e:
        raise Http404(e.message) from None


def _url(found: store.Source, asked: dict[str, str]) -> str:
    run = asked["run"]
    chosen = f"?run={run}" if run.isascii() and run.isalnum() else ""
    return reverse("runs:source", args=[found.id]) + chosen


def _page(
    request: HttpRequest,
    found: store.Source,
    draft: Draft,
    asked: dict[str, str],
    *,
    previewed: SourceMapping | None = None,
    status: int = 200,
) -> HttpResponse:
    runs, chosen = source_queries.preview_runs(found.name, asked=asked["run"])
    number = int(asked["page"]) if asked["page"].isdecimal() and len(asked["page"]) < 9 else 1
    only = chosen.pk if asked["run"] and chosen is not None and request.method == "GET" else None
    listed = source_queries.names(found.name, like=asked["q"][:200], run=only, page=number)
    counts = source_queries.counts(found.name)
    (about,) = imports_queries.source_rows([found.id])
    context = {
        "source": found,
        "about": about,
        "info": imports_queries.info_of(found.runtime, native=found.native),
        "counts": counts.texts,
        "may_change": has_role(request.user, "operator") and not found.native,
        "names": listed,
        "rows": _name_rows(listed, draft),
        "rest": draft.rest([n.name for n in listed.rows]),
        "patterns": [*draft.patterns, *(Pattern() for _ in range(SPARE))],
        "fields": _fields(draft),
        "keys": draft.pointers.get("keys", ""),
        "keys_error": draft.errors.get("keys", ""),
        "problem": draft.errors.get("") or (UNUSABLE if status == 422 else ""),
        "asked": asked,
        "only_run": chosen if only else None,
        "runs": runs,
        "chosen": chosen,
        "preview": _preview(chosen, previewed),
        "columns": preview.COLUMNS,
        "changes": store.mapping_changes(found.id, limit=10),
    }
    return render(request, "runs/source.html", context, status=status)


def _preview(chosen: Run | None, wanted: SourceMapping | None) -> preview.Preview | None:
    return preview.preview(chosen.pk, wanted) if chosen is not None and wanted is not None else None


def _name_rows(listed: source_queries.Names, draft: Draft) -> list[dict[str, Any]]:
    return [
        {"seen": name, "packed": json.dumps(name.name), "kind": draft.names.get(name.name, ("", ""))[0], "effect": draft.names.get(name.name, ("", ""))[1]}
        for name in listed.rows
    ]  # fmt: skip


def _fields(draft: Draft) -> list[dict[str, str]]:
    """The pointers of each component: of the run, and of its model steps."""
    return [
        {
            "component": component,
            "hint": RUN_VERSIONS[component],
            "run": draft.pointers.get(f"versions.{component}", ""),
            "run_error": draft.errors.get(f"versions.{component}", ""),
            "step": draft.pointers.get(f"step_versions.{component}", ""),
            "step_error": draft.errors.get(f"step_versions.{component}", ""),
        }
        for component in COMPONENTS
    ]
