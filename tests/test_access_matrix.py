"""Who may open and send what: every address x every identity x every method, against one table.

A new route without a row fails. Rows hold the status of each identity, in the order of `IDENTITIES`; `POST` sends a body
that is good, so that a refusal is about the person and not about the form.
"""

from __future__ import annotations

import copy
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.cache import cache
from django.db import connection, transaction
from django.middleware.csrf import _get_new_csrf_string
from django.test import Client
from django.urls import get_resolver
from django.utils import timezone

from config.openapi import LINES, OPERATIONS
from journals import access, ingest, store
from journals.files import Found
from runs import projection
from runs.approvals import foreign
from runs.approvals.models import Approval
from tests.approvals.asking import Asker
from tests.pages import story
from tests.versioning.fleet import AGENT, V40, V41, Fleet, build
from versioning import deploying, registering
from versioning.models import Build

pytestmark = pytest.mark.django_db

IDENTITIES = ("nobody", "charlie", "vera", "alice", "bob", "dora")
"""Not signed in; signed in and then switched off; viewer; operator; approver; admin."""

OPEN = "200 200 200 200 200 200"
VIEW = "302 302 200 200 200 200"
OPERATE = "302 302 403 200 403 200"
ADMINISTER = "302 302 403 403 403 200"
NO_METHOD = "302 302 405 405 405 405"
ELSEWHERE = "302 302 302 302 302 302"  # to the sign-in page, or to the page that has the form
ACT = "302 302 403 302 403 302"

TABLE: Mapping[str, tuple[str, str]] = {
    # the process itself: no session, nothing of anybody's data
    "healthz": (OPEN, OPEN),
    "readyz": (OPEN, OPEN),
    "metrics": (OPEN, OPEN),
    "login/": (OPEN, OPEN),
    "logout/": ("405 405 405 405 405 405", "302 302 302 302 302 302"),
    "api/": (VIEW, NO_METHOD),
    # runs
    "": (VIEW, NO_METHOD),
    "runs/": (VIEW, NO_METHOD),
    "runs/<str:key>/": (VIEW, NO_METHOD),
    "^runs/(?P<key>[^/]+)/(?P<tab>entries|versions|approvals|decisions|raw)/$": (VIEW, NO_METHOD),
    "runs/<str:key>/export.jsonl": (VIEW, NO_METHOD),
    "runs/<str:key>/entries/<entry:place>/": (VIEW, NO_METHOD),
    "runs/<str:key>/entries/<entry:place>/<str:name>.txt": (VIEW, NO_METHOD),
    "docs/findings/": (VIEW, NO_METHOD),
    "docs/findings/<str:code>/": (VIEW, NO_METHOD),
    "runs/<str:key>/panel/": (VIEW, NO_METHOD),
    "runs/<str:key>/pin/": (OPERATE, ACT),
    "runs/<str:key>/unpin/": (OPERATE, "302 302 403 422 403 422"),  # it is not pinned
    "runs/<str:key>/move/": (OPERATE, ACT),
    "runs/<str:key>/stop/": (OPERATE, ACT),
    "runs/<str:key>/release/": (OPERATE, "302 302 403 422 403 422"),  # it is not held
    "runs/<str:key>/gaps/<str:branch>/<int:step>/": (OPERATE, ACT),
    # approvals
    "approvals/": (VIEW, NO_METHOD),
    "approvals/policies/": (VIEW, "302 302 403 403 403 302"),
    "approvals/<str:key>/decisions/": (VIEW, "302 302 403 403 200 200"),
    "approvals/<str:key>/foreign/<str:ref>/": (VIEW, NO_METHOD),
    "approvals/<str:key>/foreign/<str:ref>/decision/": (ELSEWHERE, "302 302 403 403 302 302"),
    "approvals/<str:key>/<str:name>/": (VIEW, NO_METHOD),
    "approvals/<str:key>/<str:name>/decision/": (ELSEWHERE, "302 302 403 403 302 302"),
    # versions
    "deploys/": (VIEW, NO_METHOD),
    "deploys/new/": ("302 302 403 405 403 405", ACT),
    "deploys/<str:key>/": (VIEW, NO_METHOD),
    "deploys/<str:key>/decide/": (OPERATE, ACT),
    "deploys/<str:key>/roll-out/": (OPERATE, ACT),
    "deploys/<str:key>/roll-back/": (OPERATE, ACT),
    "deploys/<str:key>/groups/<str:group>/": (VIEW, NO_METHOD),
    "builds/": (VIEW, NO_METHOD),
    "builds/<int:number>/": (VIEW, NO_METHOD),
    "agents/": (VIEW, NO_METHOD),
    "agents/policy/": ("302 302 403 405 403 405", ACT),
    # journals from files
    "imports/": (VIEW, NO_METHOD),
    "imports/new/": (OPERATE, ACT),
    "imports/how/": (VIEW, NO_METHOD),
    "imports/<int:import_id>/": (VIEW, NO_METHOD),
    "imports/<int:import_id>/files/<int:n>/": (VIEW, NO_METHOD),
    # sources
    "sources/<int:source_id>/": (VIEW, NO_METHOD),
    "sources/<int:source_id>/mapping/": ("302 302 403 405 403 405", ACT),
    # accounts and tokens
    "settings/": (VIEW, VIEW),
    "settings/users/": (ADMINISTER, "302 302 403 403 403 302"),
    "settings/users/<int:user_id>/": ("302 302 403 403 403 405", "302 302 403 403 403 302"),
    "settings/tokens/": (ADMINISTER, ADMINISTER),
    "settings/tokens/<int:token_id>/revoke/": ("302 302 403 403 403 405", "302 302 403 403 403 302"),
}

HELD_BY_NOBODY = frozenset({"django_session", "django_migrations"})
"""Tables that say nothing of runs, decisions or rights: a session is renewed by being used."""


@dataclass
class Board:
    """One of everything that an address can name, and the clients of the identities."""

    clients: Mapping[str, Client]
    arguments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by the first part of the address
    queries: Mapping[str, str] = field(default_factory=dict)
    bodies: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def address(self, route: str) -> str:
        first = route.lstrip("^").partition("/")[0]
        given = self.arguments.get("foreign" if "/foreign/" in route else first, {})
        path = re.sub(r"<\w+:(\w+)>|\(\?P<(\w+)>[^)]*\)", lambda m: str(given[m[1] or m[2]]), route)
        return "/" + path.lstrip("^").rstrip("$") + self.queries.get(route, "")

    def get(self, who: str, route: str) -> int:
        return int(self.clients[who].get(self.address(route)).status_code)

    def post(self, who: str, route: str) -> int:
        """The status of a good form; what it did is undone."""
        client = self.clients[who]
        cookies = copy.deepcopy(client.cookies)
        with transaction.atomic():
            status = int(client.post(self.address(route), self.body(route)).status_code)
            transaction.set_rollback(True)
        client.cookies = cookies
        return status

    def body(self, route: str) -> dict[str, Any]:
        """A form that is good; a file can be read once, so each time it is a new one."""
        return {k: v() if callable(v) else v for k, v in self.bodies.get(route, {}).items()}


@pytest.fixture
def board(token: Callable[..., str], people: dict[str, Any], settings: Any) -> Iterator[Board]:
    settings.SECURE_SSL_REDIRECT = False
    cache.clear()
    gap = story.refund_in_the_gap(token)
    story.lease_over(gap)
    for label in ("41", "42"):
        registering.opened_with(agent=gap.agent, label=label, versions={"app": label}, worker="w")
    asker = Asker(token("worker"), run="asks")
    asker.start().open()
    assert asker.ask().status_code == 200
    fleet = Fleet(token("worker"))
    build("40", V40)
    build("41", V41)
    fleet.parked("one")
    deploy = deploying.open_deploy(agent=AGENT, environment="prod", label="41", by="alice", now=timezone.now())
    projection.catch_up()
    group = next(iter(deploying.refresh(deploy, now=timezone.now()).groups)).key
    imported = ingest.submit([Found("a.jsonl", len(LINE), lambda: io.BytesIO(LINE))], actor="tests")
    assert ingest.run(imported.pk)
    elsewhere = ingest.submit([Found("b.jsonl", len(ASKS), lambda: io.BytesIO(ASKS))], actor="tests")
    assert ingest.run(elsewhere.pk)
    projection.catch_up()
    (theirs,) = foreign.requests(store.find(run="elsewhere", source="lines"))
    spare, _ = access.create_token("spare", scope="read", created_by="tests")
    approval = Approval.objects.get()
    settings_ = {"user_id": people["vera"].pk, "token_id": spare.pk}
    made = Board({who: Client() for who in IDENTITIES})
    made.arguments = {
        "runs": {"key": gap.key, "number": 2, "place": 2, "name": "line", "branch": "-", "step": 4, "tab": "entries"},
        "approvals": {"key": approval.key, "name": approval.name},
        "foreign": {"key": theirs.approval.key, "ref": theirs.ref},
        "deploys": {"key": deploy.key, "group": group},
        "builds": {"number": Build.objects.get(agent=AGENT, label="41").pk},
        "imports": {"import_id": imported.pk, "n": imported.files.get().n},
        "sources": {"source_id": store.source(name="lines").id},
        "settings": settings_,
        "docs": {"code": "gap_open"},
    }
    made.queries = {"deploys/<str:key>/decide/": f"?action=pin&group={group}"}
    why = {"reason": "the matrix asks"}
    decided = {"action": "pin", "group": group, "version": deploy.version, **why}
    made.bodies = {
        "login/": {"username": "vera", "password": "not-this"},
        "runs/<str:key>/pin/": {"build": "41", **why},
        "runs/<str:key>/unpin/": why,
        "runs/<str:key>/move/": {"build": "42", **why},
        "runs/<str:key>/stop/": {"name": "StoppedByOperator", "message": "enough", **why},
        "runs/<str:key>/release/": why,
        "runs/<str:key>/gaps/<str:branch>/<int:step>/": {"outcome": "did_not_happen", "evidence": "the ledger has none"},
        "approvals/policies/": {"agent": "a", "tool": "t", "needed": "1", "active": "on", "groups": ["approver"]},
        "approvals/<str:key>/<str:name>/decision/": {
            "decision": "approve", "fingerprint": approval.fingerprint, "shown": "sha256:x", "comment": "read it",
        },
        "approvals/<str:key>/foreign/<str:ref>/decision/": {
            "decision": "approve", "fingerprint": theirs.approval.fingerprint, "shown": "sha256:x", "comment": "read it",
        },
        "approvals/<str:key>/decisions/": {
            "decisions": json.dumps([{"approval": approval.name, "fingerprint": approval.fingerprint, "decision": "approve"}]),
        },
        "deploys/new/": {"agent": AGENT, "environment": "test", "build": "41"},
        "deploys/<str:key>/decide/": decided,
        "deploys/<str:key>/roll-out/": {"version": deploy.version, **why},
        "deploys/<str:key>/roll-back/": {"version": deploy.version, **why},
        "agents/policy/": {"agent": AGENT, "on_mismatch": "ask"},
        "sources/<int:source_id>/mapping/": {"do": "save", "pattern-0": "x", "pattern-kind-0": "model"},
        "imports/new/": {"file": lambda: io.BytesIO(LINE)},
        "settings/users/": {"username": "erin", "password": "a-long-password-of-erin", "active": "on"},
        "settings/users/<int:user_id>/": {"username": "vera", "roles": ["viewer"], "active": "on"},
        "settings/tokens/": {"name": "t", "scope": "read", "days": "1"},
    }  # fmt: skip
    for who in IDENTITIES[1:]:
        made.clients[who].force_login(people[who])
    yield made
    cache.clear()


ANYTHING = {"build": "1", "worker": "w", "epoch": 1, "reason": "r", "name": "n", "lease_s": 30}
"""Has the fields of every JSON body about a run."""
MACHINES = ("api/v1/", "v1/traces")
ASKS = (
    b'{"id":"1","run":"elsewhere","kind":"run.started"}\n'
    b'{"id":"2","run":"elsewhere","kind":"approval.requested","approval":"a","artifact":{"tool":"t","args":{}}}\n'
    b'{"id":"3","run":"elsewhere","kind":"note","name":"runtime.state","out":{"status":"parked","complete":false}}\n'
)
"""A run of another runtime that asks for a yes."""
LINE = b'{"id":"1","run":"imported","kind":"run.started","at":"2026-01-02T03:04:05Z"}\n'


def routes(resolver: Any = None, prefix: str = "") -> Iterator[str]:
    """Every address that is for people, as its pattern; `MACHINES` take a token and nothing else."""
    for pattern in (resolver or get_resolver()).url_patterns:
        path = prefix + str(pattern.pattern)
        if hasattr(pattern, "url_patterns"):
            yield from routes(pattern, path)
        elif not path.startswith(MACHINES):
            yield path


def cells(row: str) -> dict[str, int]:
    return dict(zip(IDENTITIES, map(int, row.split()), strict=True))


def fingerprint() -> dict[str, str]:
    """What every table holds, as one digest each."""
    with connection.cursor() as cursor:
        tables = [t for t in connection.introspection.table_names(cursor) if t not in HELD_BY_NOBODY]
        parts = [
            f"SELECT '{t}', count(*) || ' ' || coalesce(md5(string_agg(r::text, '|' ORDER BY r::text)), '') FROM \"{t}\" r"  # noqa: S608
            for t in tables
        ]
        cursor.execute(" UNION ALL ".join(parts))
        return dict(cursor.fetchall())


def differing(found: Mapping[str, Mapping[str, int]], method: int) -> dict[str, dict[str, tuple[int, int]]]:
    """Cells that are not as the table says: route -> identity -> (found, expected)."""
    wrong = {
        route: {
            who: (row[who], cells(TABLE[route][method])[who])
            for who in row
            if row[who] != cells(TABLE[route][method])[who]
        }
        for route, row in found.items()
    }
    return {route: row for route, row in wrong.items() if row}


def test_every_route_has_a_row() -> None:
    assert sorted(routes()) == sorted(TABLE)


def test_opening_an_address_is_as_the_table_says_and_changes_nothing(board: Board) -> None:
    found, changed = {}, {}
    before = fingerprint()
    for route in TABLE:
        found[route] = {who: board.get(who, route) for who in IDENTITIES}
        after = fingerprint()
        if after != before:
            changed[route] = sorted(t for t in after if after[t] != before.get(t))
        before = after
    assert differing(found, 0) == {}
    assert changed == {}


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PUT", "PATCH", "DELETE", "TRACE"])
def test_no_other_method_changes_anything(board: Board, method: str) -> None:
    before = fingerprint()
    statuses = {}
    for route in TABLE:
        statuses[route] = board.clients["dora"].generic(method, board.address(route)).status_code
    assert fingerprint() == before
    if method == "HEAD":
        assert not {r: s for r, s in statuses.items() if s not in (405, cells(TABLE[r][0])["dora"])}
    assert {r: s for r, s in statuses.items() if s >= 500} == {}


def test_sending_a_good_form_is_as_the_table_says(board: Board) -> None:
    found = {route: {who: board.post(who, route) for who in IDENTITIES} for route in TABLE}
    assert differing(found, 1) == {}


def test_a_refused_form_changes_nothing(board: Board) -> None:
    before = fingerprint()
    changed = {}
    for route in TABLE:
        for who in IDENTITIES:
            if (
                cells(TABLE[route][1])[who] in (302, 403, 405)
                and who in ("nobody", "charlie", "vera")
                and route != "logout/"
            ):
                board.clients[who].post(board.address(route), board.body(route))
        after = fingerprint()
        if after != before:
            changed[route] = sorted(t for t in after if after[t] != before.get(t))
        before = after
    assert changed == {}


def test_strangers_are_sent_to_the_sign_in_page_and_back(board: Board) -> None:
    for route, (opened, _) in TABLE.items():
        if cells(opened)["nobody"] == 302:
            path = board.address(route)
            to = board.clients["nobody"].get(path)["Location"]
            assert to.startswith("/login/?next=/"), route


def test_strangers_learn_nothing_of_what_exists(board: Board) -> None:
    """A known and an unknown object answer the same to who is not signed in."""
    for route in TABLE:
        if "<" in route:
            known = board.clients["nobody"].get(board.address(route))
            unknown = Board(
                {}, {k: dict.fromkeys(v, 987654) | {"tab": "raw"} for k, v in board.arguments.items()}
            ).address(route)
            assert board.clients["nobody"].get(unknown).status_code == known.status_code, route


@pytest.mark.parametrize("origin", ["", "https://evil.example", "null"])
def test_a_form_without_the_token_or_from_elsewhere_is_refused(
    board: Board, people: dict[str, Any], origin: str
) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(people["dora"])
    secret = _get_new_csrf_string()
    before = fingerprint()
    for route in TABLE:
        body, headers = board.body(route), {}
        if origin:  # the token is right; where it comes from is not
            client.cookies["csrftoken"] = secret
            body, headers = {**body, "csrfmiddlewaretoken": secret}, {"Origin": origin}
        answer = client.post(board.address(route), body, headers=headers)
        assert answer.status_code == 403, route
        plain = client.post(board.address(route), "decision=approve", content_type="text/plain", headers=headers)
        assert plain.status_code == 403, route
    assert fingerprint() == before


def test_a_machines_token_opens_no_page(board: Board, token: Callable[..., str]) -> None:
    for scope in access.SCOPES:
        headers = {"Authorization": f"Bearer {token(scope)}"}
        for route, row in TABLE.items():
            assert Client().get(board.address(route), headers=headers).status_code == cells(row[0])["nobody"], route
            assert Client().post(board.address(route), headers=headers).status_code in (cells(row[1])["nobody"], 403), (
                route
            )


def test_a_right_taken_away_between_opening_and_sending_counts(board: Board, people: dict[str, Any]) -> None:
    acts = [r for r, row in TABLE.items() if row[1] == ACT]
    assert all(board.post("alice", route) == 302 for route in acts)
    people["alice"].groups.clear()
    assert {route: board.post("alice", route) for route in acts} == dict.fromkeys(acts, 403)
    people["alice"].groups.add(Group.objects.get(name="operator"))
    people["alice"].is_active = False
    people["alice"].save(update_fields=["is_active"])
    before = fingerprint()
    for route in acts:
        answer = board.clients["alice"].post(board.address(route), board.body(route))
        assert answer["Location"].startswith("/login/"), route
    assert fingerprint() == before


def test_a_new_password_ends_the_sessions_of_the_account(board: Board, people: dict[str, Any]) -> None:
    assert board.get("bob", "runs/") == 200
    people["bob"].set_password("another-long-password")
    people["bob"].save(update_fields=["password"])
    assert board.get("bob", "runs/") == 302


def test_a_revoked_token_is_refused_by_the_next_request(board: Board, token: Callable[..., str]) -> None:
    secret = token("read")
    headers = {"Authorization": f"Bearer {secret}"}
    assert Client().get("/api/v1/runs", headers=headers).status_code == 200
    from journals.models import Token

    assert access.revoke_token(Token.objects.get(hash=access.hash_token(secret)).pk)
    assert Client().get("/api/v1/runs", headers=headers).status_code == 401


@pytest.mark.parametrize("limits", [{"agent": "another"}, {"environment": "another"}], ids=["agent", "environment"])
def test_what_is_not_of_a_token_does_not_exist_for_it(
    board: Board, token: Callable[..., str], limits: dict[str, str]
) -> None:
    """The whole answer is the one for a key that nobody has, but for the key itself."""
    secrets = {scope: token(scope, **limits) for scope in access.SCOPES}
    before = fingerprint()
    for path, methods in OPERATIONS.items():
        for method, operation in methods.items():
            if not re.search("{(key|import_id)}", path):
                continue
            headers = {"Authorization": f"Bearer {secrets[operation.scopes[0]]}", "Drainboard-Epoch": "1"}
            known = {
                "key": board.arguments["deploys" if path.startswith("/deploys") else "runs"]["key"],
                "import_id": str(board.arguments["imports"]["import_id"]), "n": "1", "name": "a1",
            }  # fmt: skip
            unknown = {"key": "r" + "0" * 21, "import_id": "987654", "n": "1", "name": "a1"}
            told = [asked(path, method, names, headers) for names in (known, unknown)]
            assert told[0][0] == 404, path
            assert told[0] == told[1]
    assert {t for t, v in fingerprint().items() if v != before[t]} <= {"journals_token"}  # when it was last used


def asked(path: str, method: str, names: Mapping[str, str], headers: Mapping[str, str]) -> tuple[int, str]:
    """Status and body of a call, the body without what the address named."""
    address = "/api/v1" + re.sub(r"{(\w+)}", lambda m: names[m[1]], path)
    if method == "get":
        answer = Client().get(address, headers=headers)
    else:
        lines = OPERATIONS[path][method].body == LINES
        sent = {"id": "1.9", "run": "x", "kind": "note"} if lines else ANYTHING
        answer = Client().post(address, json.dumps(sent), content_type="application/json", headers=headers)
    text = (b"".join(answer) if answer.streaming else answer.content).decode()
    for value in (names["key"], names["import_id"]):
        text = text.replace(value, "…")
    return answer.status_code, text
