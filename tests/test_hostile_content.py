"""Recorded text is only ever text: in pages, downloads, command lines and logs; as it was, and visible where it hides."""

from __future__ import annotations

import io
import json
import logging
import logging.config
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.contrib.auth import get_user_model
from django.core.cache import cache
from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone

from config.logs import configuration
from config.openapi import OPERATIONS
from journals import access, ingest, store
from journals.errors import Refused
from journals.files import Found
from journals.imports_report import report
from runs import projection
from runs.approvals import actions, foreign, recording
from runs.approvals.models import Approval
from tests.approvals.asking import Asker
from tests.journals.agents import Worker
from versioning import deploying, registering
from versioning.models import Build

MARKUP = (
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    "</title><script>alert(3)</script>",
    "</textarea><script>alert(4)</script>",
    "<!--<img src=x onerror=alert(5)>",
    "<img src=x onerror=alert(6)>",
    "<svg/onload=alert(7)>",
    "<svg><animate onbegin=alert(8) attributeName=x dur=1s>",
    "<math><mtext></mtext><script>alert(9)</script></math>",
    "<iframe srcdoc='<script>parent.alert(10)</script>'></iframe>",
    '"><script>alert(11)</script>',
    "'><script>alert(12)</script>",
    '" autofocus onfocus=alert(13) x="',
    "' onmouseover='alert(14)",
    "<details open ontoggle=alert(15)>",
    "<body onload=alert(16)>",
    "<base href=//evil.example/>",
    "<meta http-equiv=refresh content='0;url=//evil.example/'>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<style>*{background:url(//evil.example/x)}</style>",
    "<form action=//evil.example><button>go</button></form>",
    "<a href=javascript:alert(17)>x</a>",
    "<object data=//evil.example></object>",
    "<div hx-get=//evil.example hx-trigger=load>",
    "&lt;script&gt;alert(18)&lt;/script&gt;",
    "&#60;script&#62;",
    "<scr\x00ipt>alert(19)</script>",
    "]]><script>alert(20)</script>",
    "\u2028</script>\u2029",
)
SCHEMES = (
    "javascript:alert(21)",
    "JaVaScRiPt:alert(22)",
    "java\tscript:alert(23)",
    "data:text/html,<script>alert(24)</script>",
    "vbscript:msgbox(25)",
    "//evil.example/x",
    "https://evil.example/x",
    "[click](javascript:alert(26))",
    "![x](//evil.example/x.png)",
)
TEMPLATES = (
    "{{7331*7}}",
    "${7331*7}",
    "#{7331*7}",
    "{% now 'Y' %}",
    "{{ request.user.password }}",
    "{% load static %}",
    "{# gone #}",
    "%(x)s %s {0}",
)
TERMINAL = (
    "\x1b[2J\x1b[H",
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\",
    "\x1b]52;c;ZXZpbA==\x07",
    "\x1bP1$r0m\x1b\\",
    "\x9b31m c1",
    "\x9d0;c1\x9c",
    "all good\rall bad",
    "a\x08\x08b\x7f",
    "bell\x07",
    "two\nlines",
)
HIDDEN = (
    "acc-\u202e1000\u202c",
    "\u2066left\u2069\u2067right\u2069",
    "zero\u200bwidth\u200c\u200d",
    "\ufeffmark",
    "tag\U000e0041\U000e007f",
    "nul\x00nul",
    "\x00",
    "\ud800lone",
    "lone\udfff\ud83d",
    "\uffff\ufffe",
    "\\x00 \\ud800 not hidden",
    "\\x6869",
)
LONG = ("n" * 5_000, "w " * 3_000, "/" * 2_000, "🧾" * 1_500)
FORMULAS = (
    "=cmd|'/c calc'!A0",
    "@SUM(1+1)",
    "+1+1",
    "-2+3",
    " ",
    "..",
    "../../etc/passwd",
    "CON",
    "%00",
    "%2e%2e%2f",
    "a/b?c#d",
    "None",
    "-",
)
pytestmark = pytest.mark.django_db
ID_BYTES = 1_024  # a longer id is not taken, and said to be so
STRINGS: Sequence[str] = (*MARKUP, *SCHEMES, *TEMPLATES, *TERMINAL, *HIDDEN, *LONG, *FORMULAS)

INVISIBLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\uffff\ud800-\udfff\U000e0000-\U000e0fff]"
)
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
OURS = frozenset(
    [
        "html",
        "head",
        "meta",
        "title",
        "link",
        "script",
        "body",
        "a",
        "div",
        "main",
        "nav",
        "header",
        "footer",
        "section",
        "aside",
        "ul",
        "ol",
        "li",
        "p",
        "h1",
        "h2",
        "h3",
        "h4",
        "table",
        "thead",
        "tbody",
        "tfoot",
        "tr",
        "th",
        "td",
        "caption",
        "colgroup",
        "col",
        "dl",
        "dt",
        "dd",
        "form",
        "label",
        "input",
        "select",
        "option",
        "optgroup",
        "textarea",
        "button",
        "fieldset",
        "legend",
        "details",
        "summary",
        "span",
        "b",
        "i",
        "em",
        "strong",
        "small",
        "code",
        "pre",
        "mark",
        "del",
        "ins",
        "time",
        "abbr",
        "kbd",
        "svg",
        "path",
        "circle",
        "rect",
        "line",
        "polyline",
        "polygon",
        "ellipse",
        "u",
        "article",
        "datalist",
        "g",
        "title",
        "br",
        "hr",
        "output",
        "progress",
        "meter",
        "sup",
        "sub",
    ]
)


class Seen(HTMLParser):
    """The elements of a page and its text."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.wrong: list[str] = []
        self.text: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag not in OURS:
            self.wrong.append(f"<{tag}>")
        if tag == "script" and not values.get("src", "").startswith("/static/"):
            self.wrong.append(f"<script {values}>")
        for name, value in values.items():
            if name.startswith("on") or name in ("style", "srcdoc", "http-equiv"):
                self.wrong.append(f"{tag} {name}={value}")
            if name in ("href", "src", "action", "formaction", "hx-get", "hx-post") and not self.local(value):
                self.wrong.append(f"{tag} {name}={value}")
            self.text.append(value)

    handle_startendtag = handle_starttag

    @staticmethod
    def local(value: str) -> bool:
        return (value == "" or re.match(r"[/?#](?!/)", value) is not None) and not re.match(r"/[/\\]", value)

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def handle_comment(self, data: str) -> None:
        self.wrong.append(f"<!--{data[:40]}-->")


@dataclass
class Stage:
    """The hostile journals, and an admin's client."""

    admin: Client
    all_key: str = ""  # the run that holds every string in its steps
    lines: bytes = b""  # its journal
    keys: dict[str, str] = field(default_factory=dict)  # string -> key of the run that is named so
    addresses: list[str] = field(default_factory=list)


def lines_of(run: str) -> list[bytes]:
    """A run with every string as name, value, key, version, error and message."""
    made = [entry(run, 0, "run.started", agent="hostile", environment="prod", **{"in": {s: s for s in STRINGS}})]
    for n, s in enumerate(STRINGS, 1):
        versions = {"app": s, "prompt": {s: s}, "model": {s: s}, "tools": {s: s}, "sdk": s}
        made += [
            entry(
                run,
                4 * n,
                "model.result",
                name=s,
                step=2 * n - 1,
                request=s,
                versions=versions,
                model_reported=s,
                **{"in": [s], "out": s},
            ),
            entry(
                run,
                4 * n + 1,
                "tool.started",
                name=s,
                step=2 * n,
                effect="write",
                key=s,
                call=s,
                versions=versions,
                **{"in": {s: [s]}},
            ),
            entry(
                run,
                4 * n + 2,
                "tool.error",
                name=s,
                step=2 * n,
                call=s,
                error={"type": s, "message": s, "trace": s, s: s},
            ),
            entry(run, 4 * n + 3, "note", name=s, out={"text": s}, **{f"x-{n}": s}),
        ]
    made.append(
        entry(
            run,
            9999,
            "run.failed",
            error={"type": STRINGS[0], "message": " ".join(STRINGS), "trace": "\n".join(STRINGS)},
        )
    )
    return made


def entry(run: str, n: int, kind: str, **fields: Any) -> bytes:
    return json.dumps({"id": f"e{n}", "run": run, "kind": kind, "at": "2026-01-02T03:04:05Z", **fields}).encode()


def imported(name: str, data: bytes, **options: str) -> Any:
    made = ingest.submit([Found(name, len(data), lambda: io.BytesIO(data))], actor="tests", **options)
    assert ingest.run(made.pk)
    made.refresh_from_db()
    told = report(made)["files"][0]
    assert told["state"] != "refused", told
    return made


@pytest.fixture(scope="module")
def stage(django_db_setup: None, django_db_blocker: Any) -> Iterator[Stage]:
    """Built once for all tests that only look; it is rolled back at the end."""
    with django_db_blocker.unblock():
        cache.clear()
        with transaction.atomic():
            yield built(get_user_model().objects.create_superuser("dora"))
            transaction.set_rollback(True)
        cache.clear()


def built(dora: Any) -> Stage:
    """The journals, approvals, builds, imports and accounts, in the database; `dora` is an admin."""
    admin = Client()
    admin.force_login(dora)
    made = Stage(admin)
    made.lines = b"".join(line + b"\n" for line in lines_of("<q>all</q>"))
    first = imported("all.jsonl", made.lines)
    made.all_key = store.find(run="<q>all</q>").key
    named = b"".join(
        entry(s, 1, "run.started", agent=s, environment=s, build=s, **{"in": s}) + b"\n"
        + entry(s, 2, "tool.started", name=s, step=1, effect="write") + b"\n"
        + entry(s, 3, "run.parked", reason=f"signal:{s}") + b"\n"
        for s in STRINGS
    )  # fmt: skip
    second = imported("named.jsonl", named)
    made.keys = {s: store.find(run=s).key for s in STRINGS if len(s.encode("utf-8", "surrogatepass")) <= ID_BYTES and s}
    third = imported(
        "<img src=x onerror=alert(30)>\x1b[31m\u202e.jsonl", b'{"id":"1","run":"r","kind":"<q>"}\nnot json <script>\n'
    )
    get_user_model().objects.create_user("<script>alert(34)</script>\u202e")
    access.create_token("<script>alert(35)</script>\u202e", scope="read", created_by="<q>", agent="</td>")
    made.addresses = [
        *run_pages(made.all_key),
        *(f"/imports/{i.pk}/" for i in (first, second, third)),
        *approval_pages(),
        *pages_of_other_runtimes(dora),
        *version_pages(),
        "/", "/runs/", "/runs/?view=gap", "/runs/?q=%3Cscript%3E", "/runs/?agent=%3Cimg+src%3Dx%3E&status=%22%3E&q=%1B%5B31m", "/imports/",
        "/approvals/", "/approvals/?view=open", "/deploys/", "/builds/", "/agents/", "/settings/", "/settings/users/", "/settings/tokens/", "/api/",
    ]  # fmt: skip
    return made


def run_pages(key: str) -> list[str]:
    steps = [
        f"/runs/{key}/?after={20 * n}&" + "&".join(f"open={m}" for m in range(20 * n + 1, 20 * n + 21))
        for n in range(len(STRINGS) // 10 + 1)
    ]
    numbers = [f"/runs/{key}/entries/{n}/" for n in range(1, 4 * len(STRINGS), 17)]
    tabs = [f"/runs/{key}/{tab}/" for tab in ("entries", "versions", "approvals", "decisions", "raw")]
    raw = [f"/runs/{key}/raw/?after={n}" for n in range(0, 4 * len(STRINGS), 50)]
    return [f"/runs/{key}/", *steps, *tabs, *raw, *numbers, f"/runs/{key}/panel/"]


def approval_pages() -> list[str]:
    """Approvals whose titles, artifacts, reasons and comments are hostile."""
    asker = Asker(
        access.create_token("asks", scope="worker", created_by="tests")[1],
        run="<q>asks</q>",
        agent="<q>agent</q>",
        environment="prod",
    )
    asker.start({"text": "<script>"}).open()
    artifact = {"tool": "pay", "args": {s: [s, {s: s}] for s in STRINGS if not has_lone(s)}}
    assert asker.ask(artifact, name="a1", reason="<script>alert(31)</script>\u202e").status_code == 200
    text = "<script>alert(32)</script>\x1b[31m"
    assert asker.ask(text, step=3, name="a2", fingerprint=asker.print_of(text, step=3, schema=None)).status_code == 200
    return [f"/approvals/{a.key}/{a.name}/" for a in Approval.objects.all()] + [
        f"/runs/{asker.key}/approvals/",
        f"/runs/{asker.key}/",
    ]


def pages_of_other_runtimes(person: Any) -> list[str]:
    """Requests of other runtimes: every string as a name, call, artifact and reason, open and decided."""
    asks = [
        {
            "approval": s,
            "name": s,
            "call": s,
            "artifact": {"tool": s, "args": {s: [s]}},
            "requested_by": s,
            "note": s,
            "expires_at": s,
        }
        for s in STRINGS
    ]
    addresses = []
    for run, step in (("<q>asks elsewhere</q>\u202e", 1), ("<q>decided elsewhere</q>\u202e", 7)):
        rows = [entry(run, 0, "run.started", agent="<q>", environment="<q>")]
        rows += [entry(run, n, "approval.requested", **ask) for n, ask in enumerate(asks[::step], 1)]
        rows.append(entry(run, 999, "note", name="runtime.state", out={"status": "parked", "complete": False}))
        imported("asks.jsonl", b"\n".join(rows), format="lines")
        head = store.find(run=run)
        found = foreign.requests(head)
        assert len(found) == len(asks[::step])
        if "decided" in run:
            for one in found:
                if not one.problem:
                    said = actions.Said(
                        decision="reject", fingerprint=one.approval.fingerprint, comment=one.name or "no"
                    )
                    with suppress(Refused):  # a blank is no reason
                        recording.decide(head.id, one.ref, user=person, said=said)
        addresses += [f"/approvals/{head.key}/decisions/", f"/runs/{head.key}/approvals/", f"/runs/{head.key}/"]
        addresses += [f"/approvals/{head.key}/foreign/{r.ref}/" for r in found[::6]]
    return addresses


def has_lone(text: str) -> bool:
    return re.search("[\ud800-\udfff]", text) is not None


def version_pages() -> list[str]:
    """Builds, a deploy and an agent's page with hostile names; what PostgreSQL cannot hold as text is refused on the way in."""
    versions = {
        "app": "<q>1</q>",
        "prompt": {s: s for s in STRINGS if not unsafe(s) and s.strip()},
        "model": {"<q>": "</td>"},
        "tools": {"<q>": "sha256:<"},
    }
    registering.opened_with(agent="hostile", label="<svg onload=alert(33)>", versions=versions, worker="<w>")
    registering.opened_with(agent="hostile", label="\u202eb2", versions={**versions, "app": "{{7331*7}}"}, worker="<w>")
    deploy = deploying.open_deploy(agent="hostile", environment="prod", label="\u202eb2", by="<q>", now=timezone.now())
    projection.catch_up()
    groups = [g.key for g in deploying.refresh(deploy, now=timezone.now()).groups]
    return [
        f"/deploys/{deploy.key}/", *(f"/deploys/{deploy.key}/groups/{g}/" for g in groups), *(f"/builds/{b.pk}/" for b in Build.objects.all()),
        "/builds/?agent=hostile", *(f"/deploys/{deploy.key}/decide/?action=pin&group={g}" for g in groups),
    ]  # fmt: skip


def unsafe(text: str) -> bool:
    return "\0" in text or has_lone(text)


# -- pages ----------------------------------------------------------------------------------------------------------


def faults_of(answer: Any) -> list[str]:
    """What is wrong with a page: everything that every page must be."""
    if answer.status_code != 200:
        return [f"status {answer.status_code}"]
    found = []
    if sorted(answer.headers["Content-Security-Policy"].split("; ")) != sorted(POLICY.split("; ")):
        found.append("its policy is not the strict one")
    html = answer.content.decode("utf-8", "strict")
    if "51317" in html:
        found.append("recorded text ran as a template")
    found += [f"raw {m[0]!a} after {html[max(m.start() - 90, 0) : m.start()]!r}" for m in INVISIBLE.finditer(html)][:3]
    return found + Seen(html).wrong[:3]


def page_of(stage: Stage, address: str, **headers: str) -> Seen:
    """A page after the looks that every page must pass."""
    answer = stage.admin.get(address, headers=headers)
    assert not faults_of(answer), address
    return Seen(answer.content.decode())


def test_every_page_shows_text_and_nothing_else(stage: Stage) -> None:
    faults = {address: faults_of(stage.admin.get(address)) for address in stage.addresses}
    assert {address: found for address, found in faults.items() if found} == {}


def test_every_run_has_a_page_whatever_its_name_is(stage: Stage) -> None:
    for text, key in stage.keys.items():
        found = page_of(stage, f"/runs/{key}/")
        if not INVISIBLE.search(text) and text.strip():
            assert text.strip()[:60] in " ".join(found.text), text


def test_fragments_are_as_harmless_as_pages(stage: Stage) -> None:
    for address, target in (
        ("/", "now"), ("/runs/", "rows"), ("/runs/", "runs"), (f"/runs/{stage.all_key}/?open=3", "s3"), (f"/runs/{stage.all_key}/", "run-head"),
        (f"/runs/{stage.all_key}/entries/", "run-body"), (f"/runs/{stage.all_key}/panel/", "run-panel"), ("/approvals/", "rows"),
    ):  # fmt: skip
        page_of(stage, address, **{"HX-Request": "true", "HX-Target": target})


def test_hidden_characters_are_named_where_they_stand(stage: Stage) -> None:
    text = " ".join(page_of(stage, f"/runs/{stage.keys[HIDDEN[0]]}/").text)
    assert "202E" in text
    assert "202C" in text


def test_refusals_are_text_too(stage: Stage) -> None:
    for address in (
        "/runs/%3Cscript%3Ealert(1)%3C/script%3E/",
        "/%1B%5B31m/",
        "/deploys/%E2%80%AE/",
        "/runs/%00/",
        "/approvals/%00/%00/",
        "/runs/%ff/",
    ):
        answer = stage.admin.get(address)
        assert answer.status_code in (400, 404), address
        html = answer.content.decode()
        assert not INVISIBLE.search(html), address
        assert not Seen(html).wrong, address


PARAMETERS = [
    "q",
    "agent",
    "environment",
    "status",
    "view",
    "source",
    "before",
    "after",
    "open",
    "entry",
    "v",
    "cursor",
    "against",
    "action",
    "group",
    "run",
]


def test_no_parameter_of_an_address_makes_a_page_fail(stage: Stage) -> None:
    for address in (
        "/",
        "/runs/",
        f"/runs/{stage.all_key}/",
        f"/runs/{stage.all_key}/entries/",
        "/approvals/",
        "/deploys/",
        "/builds/",
        "/imports/",
        "/agents/",
    ):
        for value in (HIDDEN[0], HIDDEN[5], "<script>", "9" * 30, "-1", "\x1b[31m"):
            answer = stage.admin.get(address, dict.fromkeys(PARAMETERS, value))
            assert answer.status_code < 500, (address, value)
            assert not INVISIBLE.search(answer.content.decode()), (address, value)
            for name in PARAMETERS if value == HIDDEN[5] else ():
                assert stage.admin.get(address, {name: value}).status_code < 500, (address, name)


def test_a_journal_that_cannot_be_folded_keeps_no_other_from_its_page(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            cursor.execute("ALTER TABLE runs_run ADD CONSTRAINT no_such_run CHECK (run <> 'poison')")
        imported(
            "two.jsonl",
            entry("poison", 1, "run.started") + b"\n" + entry("sound", 1, "run.started", agent="sound") + b"\n",
        )
        found = {
            path: stage.admin.get(path)
            for path in ("/", "/runs/?agent=sound", f"/runs/{stage.all_key}/", "/deploys/", "/imports/")
        }
        transaction.set_rollback(True)
    assert {path: answer.status_code for path, answer in found.items()} == dict.fromkeys(found, 200)
    assert "sound" in found["/runs/?agent=sound"].content.decode()
    assert "cannot be folded" in caplog.text


# -- downloads ------------------------------------------------------------------------------------------------------


def test_the_export_is_what_was_recorded(stage: Stage) -> None:
    answer = stage.admin.get(f"/runs/{stage.all_key}/export.jsonl")
    assert b"".join(answer) == stage.lines
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    assert re.fullmatch(r'attachment; filename="[\w.]+"', answer.headers["Content-Disposition"])
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_a_value_alone_is_plain_text_of_the_very_bytes(stage: Stage) -> None:
    for number in range(2, 8):
        line = stage.lines.splitlines()[number - 1]
        answer = stage.admin.get(f"/runs/{stage.all_key}/entries/{number}/line.txt")
        assert answer.content == line
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_an_imported_file_comes_back_under_a_harmless_name(stage: Stage) -> None:
    from journals.imports_models import Import

    made = Import.objects.get(files__path__startswith="<img")
    answer = stage.admin.get(f"/imports/{made.pk}/files/{made.files.get().n}/")
    assert b"".join(answer).startswith(b'{"id":"1","run":"r"')
    told = answer.headers["Content-Disposition"]
    assert told.startswith("attachment;")
    assert not INVISIBLE.search(told)
    assert answer.headers["Content-Type"] == "application/octet-stream"


# -- command lines and logs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"json": True}], ids=["text", "json"])
def test_show_run_moves_no_terminal(stage: Stage, options: dict[str, bool]) -> None:
    for run in ("<q>all</q>", *(s for s in stage.keys if not s.startswith("-"))):
        out = io.StringIO()
        call_command("show_run", run, stdout=out, **options)
        text = out.getvalue()
        assert not CONTROL.search(text.replace("\n", "")), run
        assert not has_lone(text), run
        if options:
            assert json.loads(text)["run"] == run


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize("command", ["import_journal", "check_deploy", "register_build", "verify_journals"])
def test_other_commands_move_no_terminal(stage: Stage, command: str, options: list[str], tmp_path: Path) -> None:
    journal = tmp_path / "a\x1b[31m\x9b\u202e.jsonl"
    journal.write_bytes(b'{"id":"9","run":"\\u001b[2J\\u009b","kind":"note"}\nnot json \x1b[31m\n')
    build = tmp_path / "build\x1b[31m.json"
    build.write_text(json.dumps({"agent": "hostile", "label": "\x1b[31m\x9b", "app": "\x1b[2J"}))
    arguments = {
        "import_journal": [str(journal)],
        "check_deploy": ["--agent", "hostile", "--build", "\u202eb2"],
        "register_build": [str(build)],
        "verify_journals": [],
    }[command]
    out, err = io.StringIO(), io.StringIO()
    with suppress(SystemExit):
        call_command(command, *arguments, *options, stdout=out, stderr=err)
    told = out.getvalue() + err.getvalue()
    assert told.strip()
    assert not CONTROL.search(told.replace("\n", ""))


@pytest.mark.parametrize("style", ["json", "text"])
def test_one_event_is_one_line_of_the_log(style: str) -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(
        logging.config.DictConfigurator(configuration(level="INFO", style=style)).configure_formatter(
            configuration(level="INFO", style=style)["formatters"][style]  # type: ignore[index]
        )
    )
    for text in STRINGS:
        handler.emit(logging.makeLogRecord({"name": "t", "levelname": "INFO", "msg": "run %s went", "args": (text,)}))
    lines = written.getvalue().split("\n")
    assert len(lines) == len(STRINGS) + 1
    assert not CONTROL.search("".join(lines))


# -- calls of the API -----------------------------------------------------------------------------------------------

ODD = (
    "\x00",
    "a\x00b",
    "\\x41",
    "\\xzz",
    "\u202e",
    "n" * 5_000,
    "🧾" * 800,
    "",
    " ",
    "\n",
    "'; --",
    "%s%(x)s",
    "../..",
    "9" * 400,
)
GOOD: dict[str, Any] = {
    "agent": "hostile", "run": "r", "environment": "prod", "in": 1, "build": "b", "parent": "p", "epoch": 1, "lease_s": 30, "reason": "r",
    "detail": None, "name": "n", "value": 1, "id": "i", "worker": "w", "limit": 1, "versions": None,
}  # fmt: skip


def bodies() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Each JSON call with one odd field at a time."""
    for path, methods in OPERATIONS.items():
        shape = methods["post"].body if "post" in methods else None
        if shape is None or isinstance(shape, str):
            continue
        fields = [f.encode_name for f in msgspec.structs.fields(shape)]
        good = {name: GOOD[name] for name in fields}
        for name in fields:
            for odd in (*ODD, -1, 2**40, 10**30, 1e308, [], {}, {"\x00": "\x00"}, True, None):
                yield path, name, {**good, name: odd}


def test_no_field_of_a_call_makes_the_server_fail(stage: Stage) -> None:
    secrets = {s: access.create_token("odd", scope=s, created_by="tests")[1] for s in access.SCOPES}
    worker = Worker(secrets["worker"], run="odd").start().open()
    failed = {}
    for path, name, body in bodies():
        scope = OPERATIONS[path]["post"].scopes[-1]
        address = "/api/v1" + path.replace("{key}", worker.key).replace("{name}", "a1")
        with transaction.atomic():
            answer = Client(raise_request_exception=False).post(
                address,
                json.dumps(body),
                content_type="application/json",
                headers={"Authorization": f"Bearer {secrets[scope]}"},
            )
            transaction.set_rollback(True)
        if answer.status_code >= 500:
            failed[f"{path} {name} {body[name]!r:.40}"] = answer.status_code
    assert failed == {}


def line_bodies() -> Iterator[dict[str, Any]]:
    """A journal line with one odd field at a time."""
    good = {
        "id": "1.7",
        "run": "odd",
        "kind": "tool.started",
        "name": "t",
        "step": 1,
        "effect": "write",
        "key": "k",
        "in": {},
        "versions": {"app": "1"},
    }
    for name in (
        "id",
        "run",
        "kind",
        "name",
        "step",
        "effect",
        "key",
        "in",
        "versions",
        "branch",
        "attempt",
        "reason",
        "until",
        "at",
        "out",
        "error",
        "approval",
    ):
        for odd in (*ODD, -1, 0, 2**40, 10**30, [], {}, {"\x00": "\x00", "\u202e": ["\\ud800"]}, True, None):
            yield {**good, name: odd}
            yield {**good, "kind": "run.parked", "reason": "timer", name: odd}
            yield {
                **good,
                "kind": "approval.requested",
                "approval": "a9",
                "artifact": {"tool": "t", "args": {}},
                "fingerprint": "x",
                name: odd,
            }


def test_no_field_of_a_line_makes_the_server_fail_or_the_run_unreadable(stage: Stage) -> None:
    secret = access.create_token("odd", scope="worker", created_by="tests")[1]
    worker = Worker(secret, run="odd").start().open()
    headers = {"Authorization": f"Bearer {secret}", "Drainboard-Epoch": "1"}
    failed = {}
    client = Client(raise_request_exception=False)
    for body in line_bodies():
        path = "approvals" if body["kind"] == "approval.requested" else "entries"
        with transaction.atomic():
            answer = client.post(
                f"/api/v1/runs/{worker.key}/{path}",
                json.dumps(body),
                content_type="application/x-ndjson",
                headers=headers,
            )
            told = client.get(f"/api/v1/runs/{worker.key}", headers=headers) if answer.status_code == 200 else None
            transaction.set_rollback(True)
        if answer.status_code >= 500 or (told is not None and told.status_code != 200):
            failed[json.dumps(body)[:300]] = (answer.status_code, told.status_code if told else 0)
    assert failed == {}


QUERIES = (
    "cursor",
    "after",
    "limit",
    "wait",
    "agent",
    "status",
    "environment",
    "build",
    "source",
    "runtime",
    "format",
    "filename",
)


def test_no_parameter_of_a_call_makes_the_server_fail(stage: Stage) -> None:
    secret = access.create_token("odd", scope="ci", created_by="tests")[1]
    failed = {}
    for path, methods in OPERATIONS.items():
        if "get" not in methods:
            continue
        address = "/api/v1" + path.replace("{key}", stage.all_key).replace("{name}", "a1").replace(
            "{import_id}", "1"
        ).replace("{n}", "1")
        for name in QUERIES:
            for odd in ("\x00", "\\x41", "-1", "9" * 30, "1e400", "nan", "x", "", "\u202e", "n" * 5_000):
                if name == "wait" and odd.startswith("9"):
                    continue
                with transaction.atomic():
                    answer = Client(raise_request_exception=False).get(
                        address, {name: odd}, headers={"Authorization": f"Bearer {secret}"}
                    )
                    whole = b"".join(answer) if answer.streaming and name in ("after", "limit") else b""
                    transaction.set_rollback(True)
                if answer.status_code >= 500 or b"Traceback" in whole:
                    failed[f"{path}?{name}={odd:.30}"] = answer.status_code
    assert failed == {}
