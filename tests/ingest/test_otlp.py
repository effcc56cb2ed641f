"""`POST /v1/traces`: who may send, what is kept, and how each outcome is answered."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client
from django.urls import reverse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from journals import otlp
from journals.imports_how import how_to
from journals.imports_models import Import, ImportFile
from journals.models import Token
from runs import projection
from runs.models import Run
from tests.adapters.otel_spans import capture, protobuf, request, span

pytestmark = pytest.mark.django_db

URL = "/v1/traces"
JSON = "application/json"
PROTOBUF = "application/x-protobuf"
LINES = capture("pa_a")
Send = Callable[..., Any]


@pytest.fixture(autouse=True)
def _tasks_at_once() -> Iterator[None]:
    from config.celery import app

    app.conf.task_always_eager = app.conf.task_eager_propagates = True
    yield
    app.conf.task_always_eager = app.conf.task_eager_propagates = False


@pytest.fixture
def send(client: Client, token: Callable[..., str]) -> Send:
    """`send(body, kind, scope=…, limits=…, **headers)`."""
    secrets: dict[str, str] = {}

    def post(body: bytes, kind: str = JSON, *, scope: str = "worker", query: str = "", **headers: str) -> Any:
        secrets.setdefault(scope, token(scope))
        headers = {"Authorization": f"Bearer {secrets[scope]}", **headers}
        return client.post(URL + query, body, content_type=kind, headers=headers)

    return post


def status_of(answer: Any) -> tuple[int, str]:
    """Code and message of a `google.rpc.Status`, of either encoding."""
    if answer["Content-Type"] == JSON:
        told = answer.json()
        return told["code"], told["message"]
    body = answer.content
    assert (body[0], body[2]) == (0x08, 0x12)
    at = 4 if body[3] < 128 else 5
    return body[1], body[at:].decode()


def the_run() -> Run:
    projection.catch_up()
    return Run.objects.get()


@pytest.mark.parametrize("scope", ["worker", "ci"])
def test_a_batch_of_json_becomes_a_run(send: Send, scope: str) -> None:
    body = json.dumps({"resourceSpans": [rs for line in LINES for rs in json.loads(line)["resourceSpans"]]}).encode()
    answer = send(body, scope=scope)
    assert (answer.status_code, answer["Content-Type"], answer.json()) == (200, JSON, {})
    made = the_run()
    assert (made.status, made.agent, made.environment) == ("completed", "refund-agent", "prod")
    imported = Import.objects.get()
    assert imported.actor == f"otlp:{Token.objects.get().name}"
    assert (imported.format, imported.source) == ("otel", "otel")


def test_the_span_that_the_page_shows_becomes_a_run(send: Send) -> None:
    """The command as it is pasted, with a `curl` that prints what it would send."""
    (shown,) = (one.by_api for one in how_to() if one.name == "otel")
    made = subprocess.run(["bash", "-c", f"curl() {{ cat; }}\n{shown}"], capture_output=True, check=True)
    assert send(made.stdout).status_code == 200
    assert (the_run().agent, the_run().status) == ("refund-agent", "completed")


@pytest.mark.parametrize("packed", [False, True])
def test_batches_of_protobuf_in_the_order_in_which_spans_end(send: Send, packed: bool) -> None:
    for line in LINES:
        body = protobuf([line])
        headers = {"Content-Encoding": "gzip"} if packed else {}
        answer = send(gzip.compress(body) if packed else body, PROTOBUF, **headers)
        assert (answer.status_code, answer["Content-Type"]) == (200, PROTOBUF)
        assert ExportTraceServiceResponse.FromString(answer.content) == ExportTraceServiceResponse()
    made = the_run()
    assert (made.status, made.agent) == ("completed", "refund-agent")
    kept = ImportFile.objects.first()
    assert kept is not None
    assert kept.state == "complete"
    assert kept.upload is not None


def test_the_exporter_of_opentelemetry_is_answered_as_it_expects(send: Send, monkeypatch: Any) -> None:
    import requests
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult

    results: list[SpanExportResult] = []

    def adapted(self: Any, prepared: Any, **_: Any) -> requests.Response:
        answer = send(prepared.body, prepared.headers["Content-Type"], **{"Content-Encoding": prepared.headers["Content-Encoding"]})  # fmt: skip
        made = requests.Response()
        made.status_code, made.raw = answer.status_code, io.BytesIO(answer.content)
        made.url, made.request = prepared.url, prepared
        return made

    monkeypatch.setattr(requests.Session, "send", adapted)
    exporter = OTLPSpanExporter(endpoint="http://drainboard.test/v1/traces", compression=Compression.Gzip)
    export = exporter.export
    monkeypatch.setattr(exporter, "export", lambda spans: results.append(export(spans)) or results[-1])
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    agent = tracer.start_as_current_span("invoke_agent a", attributes={"gen_ai.operation.name": "invoke_agent"})
    with agent, tracer.start_as_current_span("execute_tool pay", attributes={"gen_ai.tool.name": "pay"}):
        pass
    provider.shutdown()
    assert results == [SpanExportResult.SUCCESS] * 2
    assert the_run().status == "completed"


def test_nothing_is_kept_of_an_empty_request(send: Send) -> None:
    for body, kind in ((b"{}", JSON), (b"\x0a\x00", PROTOBUF), (b'{"resourceSpans":[]}', JSON)):
        assert send(body, kind).status_code == 200
    assert not Import.objects.exists()


def test_what_is_no_span_is_counted_as_rejected(send: Send) -> None:
    body = request(span("chat", {"gen_ai.operation.name": "chat"}), 7)  # type: ignore[arg-type]
    told = send(body).json()["partialSuccess"]
    assert told["rejectedSpans"] == "1"
    assert told["errorMessage"]
    assert ImportFile.objects.get().state == "partial"
    assert the_run().status == "unknown"


REFUSED: list[tuple[str, bytes, str, dict[str, str], int, int]] = [
    ("no request", b'{"events":[]}', JSON, {}, 400, 3),
    ("logs", b'{"resourceLogs":[{}]}', JSON, {}, 400, 3),
    ("torn json", LINES[0][:-30], JSON, {}, 400, 3),
    ("torn protobuf", protobuf(LINES)[:-30], PROTOBUF, {}, 400, 3),
    ("not protobuf", b"hello", PROTOBUF, {}, 400, 3),
    ("json as protobuf", LINES[0], PROTOBUF, {}, 400, 3),
    ("damaged gzip", gzip.compress(LINES[0])[:-20], JSON, {"Content-Encoding": "gzip"}, 400, 3),
    ("not gzip", LINES[0], JSON, {"Content-Encoding": "gzip"}, 400, 3),
    ("a native source", LINES[0], JSON, {"Drainboard-Source": "native:prod"}, 400, 3),
    ("text", LINES[0], "text/plain", {}, 415, 3),
    ("zstd", LINES[0], JSON, {"Content-Encoding": "zstd"}, 415, 3),
    ("a gzip bomb", gzip.compress(b"0" * (20 << 20)), JSON, {"Content-Encoding": "gzip"}, 413, 3),
]


@pytest.mark.parametrize(("body", "kind", "headers", "status", "code"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])  # fmt: skip
def test_a_batch_that_cannot_be_taken_is_refused_and_not_kept(
    send: Send, body: bytes, kind: str, headers: dict[str, str], status: int, code: int
) -> None:
    answer = send(body, kind, **headers)
    assert answer.status_code == status
    assert answer["Content-Type"] == (PROTOBUF if kind == PROTOBUF else JSON)
    told, message = status_of(answer)
    assert told == code
    assert message
    assert "Retry-After" not in answer
    assert not Import.objects.exists()


def test_a_body_over_the_limit_is_refused_before_it_is_read(send: Send, monkeypatch: Any) -> None:
    monkeypatch.setattr(otlp, "LIMIT", len(LINES[0]) - 1)
    answer = send(LINES[0])
    assert answer.status_code == 413
    assert str(len(LINES[0])) in status_of(answer)[1]


def test_only_tokens_of_workers_and_of_ci_may_send(send: Send, client: Client, people: dict[str, Any]) -> None:
    assert send(LINES[0], scope="read").status_code == 403
    assert client.post(URL, LINES[0], content_type=JSON).status_code == 401
    client.force_login(people["dora"])
    answer = client.post(URL, protobuf(LINES), content_type=PROTOBUF)
    assert (answer.status_code, status_of(answer)[0]) == (401, 16)
    assert answer["WWW-Authenticate"] == "Bearer"
    assert client.get(URL).status_code == 405
    assert not Import.objects.exists()


def test_a_token_for_one_agent_and_environment_sends_for_these(client: Client, token: Callable[..., str]) -> None:
    secret = token("worker", agent="billing", environment="stage")
    client.post(URL, b"\n".join(LINES), content_type=JSON, headers={"Authorization": f"Bearer {secret}"})
    made = the_run()
    assert (made.agent, made.environment) == ("billing", "stage")


def test_the_source_is_named_by_header_or_query(send: Send) -> None:
    send(LINES[0], **{"Drainboard-Source": "a"})
    send(LINES[0], query="?source=b")
    assert [i.source for i in Import.objects.order_by("id")] == ["a", "b"]


def test_a_full_queue_and_a_database_that_is_away_ask_to_come_again(send: Send, monkeypatch: Any) -> None:
    monkeypatch.setattr(otlp, "QUEUE", 0)
    answer = send(LINES[0])
    assert (answer.status_code, answer["Retry-After"], status_of(answer)[0]) == (429, "5", 8)

    def away(*_: Any, **__: Any) -> None:
        raise OperationalError("the connection is closed")

    monkeypatch.setattr(otlp, "authenticate", away)
    answer = send(protobuf(LINES), PROTOBUF)
    assert (answer.status_code, answer["Retry-After"], status_of(answer)[0]) == (503, "5", 14)
    assert not Import.objects.exists()


def test_the_same_batch_sent_again_adds_nothing(send: Send) -> None:
    send(b"\n".join(LINES))
    before = the_run().entries
    send(b"\n".join(LINES))
    assert the_run().entries == before


def test_the_page_of_imports_leaves_batches_out_unless_asked(
    send: Send, client: Client, people: dict[str, Any]
) -> None:
    send(LINES[0])
    client.force_login(people["vera"])
    page = client.get(reverse("journals:imports")).content.decode()
    assert "traces.json" not in page
    assert "?batches=1" in page
    assert "traces.json" in client.get(reverse("journals:imports") + "?batches=1").content.decode()
