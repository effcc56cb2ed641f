"""Pages about sources and imports: parse, one call, render."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from journals import access, errors, imports_queries, ingest
from journals.imports_api import answer_file
from journals.imports_forms import ImportForm
from journals.imports_how import how_to, manage_py, manage_py_needs
from journals.imports_models import Import, ImportFile
from journals.imports_received import check_size, found_upload
from journals.tasks import nudge

__all__ = ["detail", "file", "how", "imports", "new"]

STATES = {
    "queued": "Waits for a background worker; ends when one takes it.",
    "running": "A background worker reads the files now; ends with a report.",
    "failed": "The worker gave it up; the error says why. Entries that were stored before stay.",
    "complete": "Everything in the files was read.",
    "partial": "Part was read; what was not is listed with its reason.",
    "refused": "Nothing was taken; the reason is named.",
}


@access.role_required("viewer")
@require_safe
def imports(request: HttpRequest) -> HttpResponse:
    """Sources (`?find=` narrows them, `?sources=` is their page), and imports newest first: files, or with `?batches=1` what came over /v1/traces."""
    batches = request.GET.get("batches") == "1"
    rows, older = imports_queries.import_rows(before=_number(request, "before"), batches=batches)
    context = {
        "sources": imports_queries.source_page(like=request.GET.get("find", "").strip()[:200], page=_number(request, "sources") or 1), "rows": rows, "older": older, "states": STATES,
        "batches": batches, "has_batches": batches or imports_queries.has_batches(), **_how(request),
    }  # fmt: skip
    return render(request, "journals/imports.html", context)


@access.role_required("viewer")
@require_safe
def how(request: HttpRequest) -> HttpResponse:
    """How to bring runs here from each runtime."""
    return render(request, "journals/how.html", _how(request))


def _how(request: HttpRequest) -> dict[str, object]:
    here = request.build_absolute_uri("/").rstrip("/")
    return {
        "runtimes": how_to(),
        "manage_py": manage_py(),
        "manage_py_needs": manage_py_needs(),
        "connection": f"export DRAINBOARD={here}\nexport DRAINBOARD_TOKEN=    # shown once when the token is made",
        "may_import": access.has_role(request.user, "operator"),
        "may_administer": access.has_role(request.user, "admin"),
    }


@access.role_required("operator")
@require_http_methods(["GET", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    """The form for files; POST keeps them, starts the import and goes to its page."""
    try:
        check_size(request)
    except errors.Refused as e:
        return render(
            request,
            "journals/import_new.html",
            {"form": ImportForm(), "problem": e.message},
            status=413,
        )
    form = ImportForm(request.POST, request.FILES) if request.method == "POST" else ImportForm()
    if form.is_valid():
        given = form.cleaned_data
        made = ingest.submit([found_upload(f) for f in given.pop("file")], actor=access.actor_of(request), **given)
        nudge(made.pk)
        return redirect("journals:import", import_id=made.pk)
    return render(request, "journals/import_new.html", {"form": form}, status=400 if form.errors else 200)


@access.role_required("viewer")
@require_safe
def detail(request: HttpRequest, import_id: int) -> HttpResponse:
    """One import: progress while it goes on, then the report."""
    made = get_object_or_404(Import, pk=import_id)
    runs, more = imports_queries.runs_page(made, after=_number(request, "after") or 0)
    done, total = imports_queries.progress(made)
    files = list(made.files.select_related("upload").order_by("n"))
    outcome, label = _outcome(made, files)
    context = {
        "imported": made, "files": files, "runs": runs, "more": more, "outcome": outcome, "outcome_label": label,
        "bytes_done": done, "bytes_total": total, "states": STATES, "title": STATES.get(made.state, ""),
    }  # fmt: skip
    part = "#import" if request.headers.get("HX-Target") == "import" else ""
    return render(request, f"journals/import.html{part}", context)


def _outcome(made: Import, files: list[ImportFile]) -> tuple[str, str]:
    """The state and words in the heading: an import that ended well for every file is done, any other says what is missing."""
    states = [f.state for f in files]
    if not made.over or made.error or not states or set(states) == {"complete"}:
        return made.state, ""
    missing = [f"{states.count(s)} {s}" for s in ("partial", "refused") if s in states]
    return "refused" if set(states) == {"refused"} else "partial", f"done, of {len(states)} files {', '.join(missing)}"


@access.role_required("viewer")
@require_safe
def file(request: HttpRequest, import_id: int, n: int) -> HttpResponse:
    """An imported file as it came."""
    answer = answer_file(get_object_or_404(ImportFile.objects.select_related("upload"), imported_id=import_id, n=n))
    if answer is None:
        raise Http404("the bytes of this file are not kept")
    return answer


def _number(request: HttpRequest, name: str) -> int | None:
    """A position out of the address; None for anything that is none."""
    text = request.GET.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
