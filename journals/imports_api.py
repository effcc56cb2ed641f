"""The API of imports: send files, ask what came of them, get a file back as it came. `docs/imports.md` is the reference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, cast

from django.http import HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_http_methods

from journals import errors, ingest, store
from journals.access import Bearer, api_view, authenticate
from journals.adapters.base import shown
from journals.imports_kept import open_kept
from journals.imports_models import Import, ImportFile
from journals.imports_received import check_size, raw_body, uploads
from journals.imports_report import report
from journals.tasks import nudge

__all__ = ["answer_file", "import_file", "import_one", "imports"]

WAIT_S = 10.0  # how long a POST waits for the end of the import unless it says otherwise
WAIT_MOST_S = 30.0


class UnknownImport(errors.Refused):
    """No import has this number, as far as this token may see."""

    code, status = "UnknownImport", 404


class NothingImported(errors.Refused):
    """Every file of the request was refused; the report says why for each."""

    code: ClassVar[str] = "NothingImported"
    status: ClassVar[int] = 422


@api_view
@require_http_methods(["POST"])
def imports(request: HttpRequest) -> HttpResponse:
    """Takes files (multipart, or one file as the body with `?filename=`) and answers the report.

    201 when it is done, 202 when it still goes on after `?wait=` seconds (ask again at `Location`), 422 when every file was refused.
    """
    token = authenticate(request, scopes=("ci",))
    check_size(request)
    wait_s = _wait(request)
    if request.content_type == "multipart/form-data":
        made = ingest.submit(uploads(request), **_options(request, token))
    else:
        with raw_body(request, _filename(request)) as found:
            made = ingest.submit([found], **_options(request, token))
    nudge(made.pk)
    return _answer(ingest.wait(made.pk, seconds=wait_s))


def _answer(made: Import) -> HttpResponse:
    told = report(made)
    status = 201 if made.over else 202
    body: dict[str, object] = {**told}
    if told["files"] and all(f["state"] == "refused" for f in told["files"]):
        refused = NothingImported("; ".join(f"{shown(f['path'])}: {f['reason']}" for f in told["files"][:5]))
        status, body = refused.status, {**body, **refused.body()}
    answer = JsonResponse(body, status=status)
    answer["Location"] = f"/api/v1/imports/{made.pk}"
    return answer


def _options(request: HttpRequest, token: Bearer) -> dict[str, str]:
    """Parameters of the query or the form; a token for one agent or environment imports for that one."""
    given = {
        name: request.POST.get(name) or request.GET.get(name, "")
        for name in ("format", "source", "agent", "environment")
    }
    for name, own in (("agent", token.agent), ("environment", token.environment)):
        if own and given[name] not in ("", own):
            raise errors.NotAllowed(f"this token is for {name} {own!r}", **{name: own})
        given[name] = given[name] or own
    return {**given, "format": given["format"] or "auto", "actor": token.actor}


def _filename(request: HttpRequest) -> str:
    name = request.GET.get("filename", "")
    return name.replace("\0", "")[:1_024] or "upload"


def _wait(request: HttpRequest) -> float:
    text = request.GET.get("wait", "")
    try:
        wait_s = float(text) if text else WAIT_S
    except ValueError:
        raise errors.MalformedRequest(f"`wait` must be a number of seconds, not {shown(text)!r}") from None
    if not 0 <= wait_s <= WAIT_MOST_S:
        raise errors.MalformedRequest(f"`wait` must lie between 0 and {WAIT_MOST_S:.0f} seconds")
    return wait_s


@api_view
@require_http_methods(["GET"])
def import_one(request: HttpRequest, import_id: int) -> HttpResponse:
    """The report of one import, as far as it is."""
    return JsonResponse(dict(report(_visible(import_id, authenticate(request, scopes=("ci", "read"))))))


@api_view
@require_http_methods(["GET"])
def import_file(request: HttpRequest, import_id: int, n: int) -> HttpResponse:
    """One file of an import, byte for byte as it came."""
    made = _visible(import_id, authenticate(request, scopes=("ci", "read")))
    row = made.files.select_related("upload").filter(n=n).first()
    answer = answer_file(row)
    if answer is None:
        raise UnknownImport(f"import {import_id} keeps no file {n}")
    return answer


def _visible(import_id: int, token: Bearer) -> Import:
    found = Import.objects.filter(pk=import_id).first()
    if found is None or not token.may_see(agent=found.agent, environment=found.environment):
        raise UnknownImport(f"no import has the number {import_id}")
    return found


def answer_file(row: ImportFile | None) -> HttpResponse | None:
    """The kept file as a download; None when its bytes are not here."""
    if row is None or row.upload is None or row.upload.dropped_at is not None:
        return None
    name = store.decode_text(row.path).replace("\\", "/").rsplit("/", 1)[-1]
    upload_id = row.upload.pk

    def body() -> Iterator[bytes]:
        with open_kept(upload_id) as stream:
            while chunk := stream.read(1 << 20):
                yield chunk

    answer = StreamingHttpResponse(body(), content_type="application/octet-stream")
    answer["Content-Length"] = str(row.upload.size)
    answer["Content-Disposition"] = content_disposition_header(True, shown(name, 120)) or "attachment"
    return cast(HttpResponse, answer)  # the decorators of views know no streams
