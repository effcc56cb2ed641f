"""The API's own description: OpenAPI 3.1 at `/api/v1/openapi.json`, a page at `/api/`. Sentences are the views' docstrings.

`tests/test_openapi.py` holds it against the routes: one that is missing here fails there.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from journals import api as journal_api
from journals import errors, otlp
from journals.access import role_required
from runs import source_api
from versioning import api as versioning_api

LINES = "application/x-ndjson"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one route."""

    summary: str
    scopes: tuple[str, ...]
    body: type[msgspec.Struct] | str | None = None  # a JSON shape, a file under docs/, or a content type
    answer: str = "application/json"  # a file under docs/, or a content type
    status: int = 200
    parameters: Mapping[str, str] = field(default_factory=dict)  # name -> what it says; `Drainboard-…` are headers


_ALL = ("worker", "ci", "read")
_EPOCH = {"Drainboard-Epoch": "the epoch that opening the run gave"}
_RUN = "/runs/{key}"
OPERATIONS: Mapping[str, Mapping[str, Operation]] = {
    "/runs": {
        "get": Operation(
            summary="A page of runs, newest first.",
            scopes=_ALL,
            parameters={n: f"only this {n}" for n in ("agent", "status", "environment", "build", "source", "runtime")}
            | {"cursor": "continues after a page"},
        ),
        "post": Operation(summary="Starts a run; the same again answers the run that is there.", scopes=("worker", "ci"), body=journal_api.Start, status=201),
    },
    "/claims": {"post": Operation(summary="Gives a worker runs that are new, woken or abandoned.", scopes=("worker",), body=versioning_api.Claim)},
    _RUN: {"get": Operation(summary="One run, as `manage.py show_run --json` gives it.", scopes=_ALL, answer="show-run.schema.json")},
    f"{_RUN}/open": {"post": Operation(summary="Gives a worker this run: its next epoch, a lease and its journal.", scopes=("worker",), body=versioning_api.Open)},
    f"{_RUN}/entries": {
        "get": Operation(summary="The run's journal lines after a position.", scopes=_ALL, answer=LINES, parameters={"after": "position", "limit": "at most so many lines"}),
        "post": Operation(
            summary="Appends journal lines, all or none.", scopes=("worker",), body=LINES,
            parameters=_EPOCH | {"Drainboard-Seen": "with run.parked: the last position that the worker has read"},
        ),
    },
    f"{_RUN}/heartbeat": {"post": Operation(summary="Renews the lease; tells of a stop or hold.", scopes=("worker",), body=journal_api.Beat)},
    f"{_RUN}/release": {"post": Operation(summary="Gives the lease back.", scopes=("worker",), body=journal_api.Owner)},
    f"{_RUN}/held": {"post": Operation(summary="The worker must not go on; a person decides.", scopes=("worker",), body=journal_api.Hold)},
    f"{_RUN}/stopped": {"post": Operation(summary="The worker obeyed a stop; the run is over.", scopes=("worker",), body=journal_api.Owner)},
    f"{_RUN}/signals": {"post": Operation(summary="Delivers a signal; the same id again is the same signal.", scopes=("worker", "ci"), body=journal_api.Signal)},
    f"{_RUN}/approvals": {"post": Operation(summary="Asks for an approval: one approval.requested line.", scopes=("worker",), body=LINES, parameters=_EPOCH)},
    f"{_RUN}/approvals/{{name}}": {"get": Operation(summary="The approval; with `wait` as soon as it is decided.", scopes=_ALL, parameters={"wait": "seconds, at most 20"})},
    f"{_RUN}/approvals/{{name}}/deliver": {"post": Operation(summary="The worker has read the decision.", scopes=("worker",), body=journal_api.Owner)},
    f"{_RUN}/approvals/{{name}}/use": {
        "post": Operation(summary="A tool's start and the use of its approval, in one transaction.", scopes=("worker",), body=LINES, parameters=_EPOCH)
    },
    "/builds": {
        "get": Operation(summary="A page of builds, newest first.", scopes=_ALL, parameters={"agent": "only this agent", "cursor": "continues after a page"}),
        "post": Operation(summary="Registers a build; a label's contents never change.", scopes=("ci",), body="build-file.schema.json", status=201),
    },
    "/deploys": {
        "get": Operation(summary="A page of deploys, newest first.", scopes=_ALL, parameters={"cursor": "continues after a page"}),
        "post": Operation(summary="Opens a deploy and assesses the runs in flight.", scopes=("ci",), body=versioning_api.NewDeploy, answer="check-deploy.schema.json", status=201),
    },
    "/deploys/{key}": {"get": Operation(summary="The check, the decisions, and what is left to drain.", scopes=_ALL, answer="check-deploy.schema.json")},
    "/imports": {
        "post": Operation(
            summary="Imports files: multipart, or one file as the body.", scopes=("ci",), body="application/octet-stream",
            answer="import-report.schema.json", status=201,
            parameters={"filename": "of a raw body", "source": "name of the source", "agent": "of the runs", "environment": "of the runs",
                        "format": "auto, or one adapter", "wait": "seconds, at most 30"},
        )
    },
    "/sources/{name}/mapping": {
        "get": Operation(summary="The source's mapping: what its steps are, and where keys and versions stand.", scopes=source_api.READ),
        "put": Operation(
            summary="Replaces the mapping; the source's runs are folded again.", scopes=source_api.WRITE, body="application/json",
            parameters={"version": "of the mapping that was read; another one is refused"},
        ),
    },
    "/imports/{import_id}": {"get": Operation(summary="An import's report, as far as it is.", scopes=("ci", "read"), answer="import-report.schema.json")},
    "/imports/{import_id}/files/{n}": {"get": Operation(summary="A file of an import, byte for byte.", scopes=("ci", "read"), answer="application/octet-stream")},
}  # fmt: skip


SPANS: Mapping[str, Operation] = {
    "/v1/traces": Operation(
        summary="Takes spans as OpenTelemetry's exporters send them (OTLP/HTTP, JSON or protobuf, gzip).", scopes=otlp.SCOPES,
        body="application/x-protobuf", answer="application/x-protobuf", parameters={"source": "name of the source, also as the header Drainboard-Source"},
    )
}  # fmt: skip
"""Calls whose addresses others have laid down; they stand beside `/api/v1`."""


@functools.cache
def document() -> dict[str, Any]:
    """The OpenAPI document."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "Drainboard", "version": "1", "description": "Reference: docs/worker-api.md"},
        "servers": [{"url": "/api/v1"}],
        "security": [{"token": []}],
        "paths": {path: {m: _operation(path, o) for m, o in methods.items()} for path, methods in OPERATIONS.items()}
        | {path: {"servers": [{"url": "/"}], "post": _operation(path, o)} for path, o in SPANS.items()},
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {"Refused": {"description": "Refused; nothing was written.", "content": {"application/json": {"schema": _REFUSED}}}},
        },
    }  # fmt: skip


_REFUSED = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "detail", "retry"],
            "properties": {
                "code": {"type": "string", "examples": sorted(errors.BY_CODE)},
                "message": {"type": "string"},
                "detail": {"type": "object"},
                "retry": {"type": "boolean"},
            },
        }
    },
}


def _operation(path: str, o: Operation) -> dict[str, Any]:
    names = re.findall(r"{(\w+)}", path)
    made: dict[str, Any] = {
        "summary": o.summary,
        "description": f"Token scopes: {', '.join(o.scopes)}.",
        "parameters": [
            *({"name": n, "in": "path", "required": True, "schema": {"type": "string"}} for n in names),
            *(
                {"name": n, "in": "header" if "-" in n else "query", "description": told, "schema": {"type": "string"}}
                for n, told in o.parameters.items()
            ),
        ],
        "responses": {
            str(o.status): {"description": "Done.", "content": _content(o.answer)},
            "default": {"$ref": "#/components/responses/Refused"},
        },
    }
    if o.body is not None:
        made["requestBody"] = {"required": True, "content": _content(o.body)}
    return made


def _content(shape: type[msgspec.Struct] | str) -> dict[str, Any]:
    if not isinstance(shape, str):
        return {"application/json": {"schema": _schema(shape)}}
    if shape.endswith(".json"):
        return {
            "application/json": {"schema": json.loads((settings.BASE_DIR / "docs" / shape).read_text(encoding="utf-8"))}
        }
    return {shape: {}}


_TYPES = {str: "string", int: "integer", float: "number"}


def _schema(shape: type[msgspec.Struct]) -> dict[str, Any]:
    """JSON Schema of a body's fields; what is no plain string or number may be any JSON."""
    found = msgspec.structs.fields(shape)
    properties = {f.encode_name: {"type": _TYPES[f.type]} if f.type in _TYPES else {} for f in found}
    return {"type": "object", "required": [f.encode_name for f in found if f.required], "properties": properties}


@require_safe
def openapi(request: HttpRequest) -> HttpResponse:
    """The document. It holds no data, so it needs no token."""
    return JsonResponse(document())


@role_required("viewer")
@require_safe
def page(request: HttpRequest) -> HttpResponse:
    """Every call with its scopes, parameters and body, as a page."""
    rows = [
        {"method": method.upper(), "path": f"/api/v1{path}", "o": o, "body": _shown(o.body)}
        for path, methods in OPERATIONS.items()
        for method, o in methods.items()
    ] + [{"method": "POST", "path": path, "o": o, "body": _shown(o.body)} for path, o in SPANS.items()]
    return render(request, "config/api.html", {"rows": rows, "document": reverse("openapi"), "errors": _codes()})


def _shown(body: type[msgspec.Struct] | str | None) -> str:
    if body is None or isinstance(body, str):
        return body or ""
    return ", ".join(f.encode_name + ("" if f.required else "?") for f in msgspec.structs.fields(body))


def _codes() -> list[tuple[str, dict[str, Any]]]:
    kinds = {c.code: c for c in _below(errors.Refused)}
    return [(code, {"status": kind.status, "doc": kind.__doc__}) for code, kind in sorted(kinds.items())]


def _below(kind: type[errors.Refused]) -> list[type[errors.Refused]]:
    return [x for sub in kind.__subclasses__() for x in (sub, *_below(sub))]
