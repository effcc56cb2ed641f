"""Refusals are named: one code each, a sentence that says what and what to do, the same shape at every call, and never a stack trace."""

from __future__ import annotations

import ast
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection, transaction
from django.test import Client

from config.openapi import OPERATIONS
from journals import ingest, store
from journals.api import MAX_BODY
from journals.errors import Refused
from journals.files import Found
from runs import actions as run_actions
from tests.journals.agents import Worker
from tests.pages import story
from versioning import actions

BASE = Path(__file__).resolve().parent.parent
SANE = {400, 401, 403, 404, 405, 408, 409, 413, 422, 500}
NAMED_OTHERWISE = {"AmbiguousArtifactRefused": "AmbiguousArtifact"}
"""Classes whose code is another word: a pure module has an `AmbiguousArtifact` of its own."""


def below(kind: type[Refused]) -> Iterator[type[Refused]]:
    for sub in kind.__subclasses__():
        yield sub
        yield from below(sub)


def kinds() -> list[type[Refused]]:
    """Every refusal; the routes have imported every app by then."""
    from django.urls import get_resolver

    assert get_resolver().url_patterns
    return sorted(below(Refused), key=lambda kind: kind.code)


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.code)
def test_a_refusal_has_a_code_a_status_and_a_meaning(kind: type[Refused]) -> None:
    assert "code" in vars(kind), "an inherited code says what something else says"
    assert kind.code == NAMED_OTHERWISE.get(kind.__name__, kind.__name__)
    assert kind.status in SANE
    assert isinstance(kind.retry, bool)
    assert (kind.__doc__ or "").strip().endswith(".")
    assert kind("said", a=1).body() == {
        "error": {"code": kind.code, "message": "said", "detail": {"a": 1}, "retry": kind.retry}
    }


def test_no_two_refusals_share_a_code() -> None:
    codes = [kind.code for kind in kinds()]
    assert sorted(set(codes)) == codes


def raised() -> Iterator[tuple[str, str, ast.Call]]:
    """Where refusals are made: place, class name, call."""
    names = {kind.__name__ for kind in kinds()}
    for app in ("journals", "runs", "versioning", "config"):
        for path in sorted((BASE / app).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Call):
                    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                    if called in names and "adapters" not in path.parts:
                        yield f"{path.relative_to(BASE)}:{node.lineno}", called, node


def words(node: ast.expr) -> str:
    """A message with words in the place of its values."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "a value" for part in node.values)  # type: ignore[misc]
    return ""


def test_every_message_names_its_subject_and_says_more_than_no() -> None:
    found = list(raised())
    assert len(found) > 60
    thin = {
        place: words(call.args[0])
        for place, _, call in found
        if call.args and isinstance(call.args[0], ast.Constant | ast.JoinedStr) and len(words(call.args[0])) <= 20
    }
    assert thin == {}
    assert [place for place, _, call in found if not call.args] == []


def test_every_code_is_reached_by_a_test() -> None:
    """A code that no test names may be a code that nothing can reach."""
    told = "\n".join(p.read_text("utf-8") for p in (BASE / "tests").rglob("*.py"))
    assert [kind.code for kind in kinds() if not re.search(rf"\b({kind.code}|{kind.__name__})\b", told)] == []


# -- the API --------------------------------------------------------------------------------------------------------


def told(answer: Any) -> Mapping[str, Any]:
    """The error object of an answer, after a look at its shape."""
    assert answer.headers["Content-Type"] == "application/json"
    body = json.loads(answer.content)
    assert set(body) == {"error"}
    error: dict[str, Any] = body["error"]
    assert {name: type(value) for name, value in error.items()} == {
        "code": str,
        "message": str,
        "detail": dict,
        "retry": bool,
    }
    assert error["code"] in {kind.code for kind in kinds()}
    assert len(error["message"]) > 20
    assert not re.search(r"Traceback|psycopg|django\.|\.py\b|SELECT ", answer.content.decode())
    return error


@pytest.fixture
def worker(token: Callable[..., str]) -> Worker:
    return Worker(token("worker")).start().open()


@pytest.mark.django_db
def test_a_body_that_is_not_json_is_malformed(worker: Worker) -> None:
    answer = worker.http.post(
        "/api/v1/runs", b"{", content_type="application/json", headers={"Authorization": f"Bearer {worker.secret}"}
    )
    assert (answer.status_code, told(answer)["code"]) == (400, "MalformedRequest")
    assert told(worker.post(b"not a line"))["code"] == "MalformedEntry"


@pytest.mark.django_db
def test_without_a_token_nobody_is_known() -> None:
    answer = Client().get("/api/v1/runs")
    assert (answer.status_code, told(answer)["code"]) == (401, "NotAuthenticated")


@pytest.mark.django_db
def test_a_token_of_another_scope_is_refused(token: Callable[..., str]) -> None:
    headers = {"Authorization": f"Bearer {token('read')}"}
    answer = Client().post("/api/v1/runs", {}, content_type="application/json", headers=headers)
    assert (answer.status_code, told(answer)["code"]) == (403, "NotAllowed")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("runs/nothing", "UnknownRun"),
        ("runs/nothing/approvals/a", "UnknownRun"),
        ("deploys/nothing", "UnknownDeploy"),
        ("imports/987654", "UnknownImport"),
    ],
)
def test_what_does_not_exist_is_unknown_by_name(token: Callable[..., str], path: str, code: str) -> None:
    answer = Client().get(f"/api/v1/{path}", headers={"Authorization": f"Bearer {token('read')}"})
    assert (answer.status_code, told(answer)["code"]) == (404, code)


@pytest.mark.django_db
def test_an_approval_that_nobody_asked_for_is_unknown(worker: Worker) -> None:
    answer = worker.http.get(
        f"/api/v1/runs/{worker.key}/approvals/none", headers={"Authorization": f"Bearer {worker.secret}"}
    )
    assert (answer.status_code, told(answer)["code"]) == (404, "UnknownApproval")


@pytest.mark.django_db
@pytest.mark.parametrize(
    "path", ["", "nothing", "runs/", "runs/x/y/z", "imports/no-number", "../v1/x", "%00", "runs/x/entries/"]
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_an_unknown_address_below_the_api_is_told_as_json(path: str, method: str) -> None:
    answer = Client().generic(method, f"/api/v1/{path}")
    assert (answer.status_code, told(answer)["code"]) == (404, "UnknownCall")


@pytest.mark.django_db
@pytest.mark.parametrize(("path", "methods"), [(p, set(m)) for p, m in OPERATIONS.items()], ids=list(OPERATIONS))
def test_a_method_that_a_call_does_not_take_is_told_as_json(path: str, methods: set[str]) -> None:
    address = "/api/v1" + re.sub(r"{(\w+)}", lambda m: "1", path)
    for method in {"get", "post", "put", "patch", "delete"} - methods:
        answer = Client().generic(method.upper(), address)
        assert (answer.status_code, told(answer)["code"]) == (405, "MethodNotAllowed")
        assert {m.lower() for m in answer.headers["Allow"].split(", ")} >= methods


@pytest.mark.django_db
def test_a_conflict_says_whether_to_try_again(worker: Worker) -> None:
    line = worker.line("note")
    worker.open()
    answer = worker.post(line, epoch=1)
    assert (answer.status_code, told(answer)["code"], told(answer)["retry"]) == (409, "LeaseLost", False)
    assert told(answer)["detail"]["epoch"] == 2


@pytest.mark.django_db
def test_a_body_over_the_limit_is_refused_before_it_is_read(worker: Worker) -> None:
    headers = {"Authorization": f"Bearer {worker.secret}", "Drainboard-Epoch": "1"}
    for path in ("entries", "signals", "heartbeat"):
        answer = worker.http.post(
            f"/api/v1/runs/{worker.key}/{path}", b"x", content_type="application/json", headers=headers, CONTENT_LENGTH=str(MAX_BODY + 1)
        )  # fmt: skip
        assert (answer.status_code, told(answer)["code"]) == (413, "TooLarge")


@pytest.mark.django_db
def test_a_host_that_is_not_ours_is_told_as_json() -> None:
    answer = Client().get("/api/v1/runs", headers={"Host": "evil.example"})
    assert answer.status_code in (400, 401)
    told(answer)


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["runs", "builds", "deploys", "runs/x", "runs/x/entries", "imports/1"])
def test_a_failure_of_the_server_is_told_as_json_and_without_its_inside(path: str, token: Callable[..., str]) -> None:
    headers = {"Authorization": f"Bearer {token('read')}"}
    with broken_database():
        answer = Client(raise_request_exception=False).get(f"/api/v1/{path}", headers=headers)
    assert (answer.status_code, told(answer)["code"], told(answer)["retry"]) == (500, "ServerError", True)


@contextmanager
def broken_database() -> Iterator[None]:
    """In this block the tables of tokens and runs are not there, as after a failed release; it is undone."""
    cache.clear()
    with transaction.atomic():
        with connection.cursor() as cursor:
            for table in ("journals_token", "journals_head", "runs_run", "versioning_deploy"):
                cursor.execute(f"ALTER TABLE {table} RENAME TO gone_{table}")
        yield
        transaction.set_rollback(True)


@pytest.mark.django_db
def test_a_file_that_describes_no_build_is_a_bad_build(token: Callable[..., str]) -> None:
    headers = {"Authorization": f"Bearer {token('ci')}"}
    for body in (b"[]", b"{", b'{"agent":"a"}', b'{"agent":"","label":"1"}'):
        answer = Client().post("/api/v1/builds", body, content_type="application/json", headers=headers)
        assert (answer.status_code, told(answer)["code"]) == (400, "BadBuild")


# -- what the pages' actions refuse ---------------------------------------------------------------------------------


@pytest.mark.django_db
def test_an_action_that_does_not_fit_the_run_is_refused_by_name(worker: Worker) -> None:
    by = {"by": "alice", "actor": "person:alice"}
    head_id = worker.head.id
    with pytest.raises(actions.NotPinned, match="is not pinned"):
        actions.unpin_run(head_id, reason="why", **by)
    with pytest.raises(run_actions.NotHeld, match="is not held"):
        run_actions.release(head_id, reason="why", **by)
    with pytest.raises(actions.ReasonMissing, match="needs a reason"):
        actions.pin_run(head_id, reason=" ", **by)
    story.lease_over(worker)
    with pytest.raises(run_actions.NoOpenGap, match="no open gap"):
        run_actions.resolve_gap(head_id, branch="", step=9, outcome="did_not_happen", evidence="e", **by)


@pytest.mark.django_db
def test_a_run_that_nobody_opened_cannot_be_pinned_to_its_build(token: Callable[..., str]) -> None:
    worker = Worker(token("worker")).start()
    with pytest.raises(actions.NothingToPinTo, match="name the build"):
        actions.pin_run(worker.head.id, reason="why", by="alice", actor="person:alice")


@pytest.mark.django_db
def test_a_gap_of_another_runtime_is_resolved_there() -> None:
    line = b'{"id":"1","run":"elsewhere","kind":"tool.started","name":"pay","step":1,"effect":"write"}'
    imported = ingest.submit([Found("a.jsonl", len(line), lambda: io.BytesIO(line))], actor="tests")
    assert ingest.run(imported.pk)
    head = store.find(run="elsewhere")
    with pytest.raises(run_actions.ForeignRun, match="resolve the step there"):
        run_actions.resolve_gap(
            head.id, branch="", step=1, outcome="did_not_happen", evidence="e", by="alice", actor="person:alice"
        )


# -- pages ----------------------------------------------------------------------------------------------------------


def ours(answer: Any, status: int) -> str:
    """A page in our look that shows nothing of our inside."""
    html: str = answer.content.decode()
    assert answer.status_code == status
    assert 'href="/static/css/tokens.css"' in html
    assert "<h1>" in html
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert not re.search(r"<style|<script(?! src)|Traceback|psycopg|\.py\b|DEBUG", html)
    return html


@pytest.mark.django_db
def test_an_unknown_page_has_our_look(people: dict[str, Any]) -> None:
    client = Client()
    assert "nothing at this address" in ours(client.get("/nothing/"), 404)
    client.force_login(people["vera"])
    for path in ("/runs/nothing/", "/deploys/nothing/", "/approvals/no/thing/", "/builds/987654/", "/imports/987654/"):
        ours(client.get(path), 404)


@pytest.mark.django_db
def test_a_forbidden_page_has_our_look(people: dict[str, Any]) -> None:
    client = Client()
    client.force_login(people["vera"])
    assert "this needs the role admin" in ours(client.get("/settings/users/"), 403)


@pytest.mark.django_db
def test_a_form_without_its_token_gets_a_page_that_says_what_to_do(people: dict[str, Any]) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(people["dora"])
    assert "Open the page again" in ours(client.post("/settings/tokens/", {}), 403)


@pytest.mark.django_db
def test_opening_what_only_takes_a_form_gets_a_page(people: dict[str, Any]) -> None:
    client = Client()
    client.force_login(people["dora"])
    for path in ("/deploys/new/", "/logout/", "/settings/tokens/1/revoke/"):
        assert "only takes a form" in ours(client.get(path), 405)


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/", "/runs/", "/deploys/", "/runs/x/"])
def test_a_failed_page_has_our_look_and_says_nothing_of_its_inside(people: dict[str, Any], path: str) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(people["vera"])
    with broken_database():
        assert "This page failed" in ours(client.get(path), 500)
