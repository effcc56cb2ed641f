"""The pages of sources and imports, as each of the cast sees them."""

from __future__ import annotations

import gzip
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils.html import escape

from journals.adapters import ADAPTERS
from journals.imports_how import HowTo, how_to
from journals.imports_models import Import
from tests.ingest.conftest import LINES, TORN, Importing

pytestmark = pytest.mark.django_db

FIXTURES = LINES.parent
GOOD = (TORN / "00-good.jsonl").read_bytes()


@pytest.fixture(autouse=True)
def _tasks_at_once() -> Iterator[None]:
    from config.celery import app

    app.conf.task_always_eager = app.conf.task_eager_propagates = True
    yield
    app.conf.task_always_eager = app.conf.task_eager_propagates = False


def signed_in(client: Client, people: dict[str, Any], name: str) -> Client:
    client.force_login(people[name])
    return client


def test_an_empty_page_says_how_to_bring_a_file(client: Client, people: dict[str, Any]) -> None:
    text = signed_in(client, people, "alice").get(reverse("journals:imports")).content.decode()
    assert "Nothing has been imported" in text
    assert "import_journal" in text
    assert reverse("journals:import_new") in text
    for name, adapter in ADAPTERS.items():
        for shown in (adapter.INFO.title, adapter.INFO.evidence.note, *adapter.INFO.how_to_export.splitlines()):
            assert escape(shown) in text, name
    assert "http://testserver" in text


@pytest.mark.parametrize("one", how_to(), ids=lambda one: one.name)
def test_every_command_can_be_pasted_as_it_stands(one: HowTo) -> None:
    """A shell reads it, its variables are quoted, and the files that are imported are those that it makes."""
    for text in (one.commands, one.by_command, one.by_api):
        assert subprocess.run(["bash", "-n"], input=text.encode(), capture_output=True, check=False).stderr == b""
        assert "…" not in text
        assert re.findall(r"(?<![$\w])(?:[A-Z]+_)?(?:ID|HOST|TOKEN|KEY|THREAD)\b(?!=)", text) == []
    assert one.together
    for name in ADAPTERS[one.name].INFO.files if one.name in ADAPTERS else ():
        assert name in one.commands or name.removesuffix(".json") in one.commands
        assert name in one.by_command
        assert name in one.by_api


@pytest.mark.parametrize(
    ("data", "embedded", "command", "needs"),
    [
        ("", True, ".venv/bin/python manage.py import_journal", ""),
        ("/srv/my data", True, "DRAINBOARD_DATA='/srv/my data' .venv/bin/python manage.py import_journal", ""),
        ("/srv/data", False, ".venv/bin/python manage.py import_journal", "with the server's DATABASE_URL"),
    ],
)
def test_a_command_names_the_servers_database(
    data: str, embedded: bool, command: str, needs: str, client: Client, people: dict[str, Any], settings: Any
) -> None:
    settings.DRAINBOARD_DATA = Path(data) if data else settings.BASE_DIR / ".drainboard"
    settings.DATABASE_IS_EMBEDDED = embedded
    alice = signed_in(client, people, "alice")
    for page in ("/imports/how/", "/runs/"):
        text = alice.get(page).content.decode()
        assert escape(command) in text
        assert ("DRAINBOARD_DATA=" in text) is command.startswith("DRAINBOARD_DATA=")
    assert escape(needs) in alice.get("/imports/how/").content.decode()


def test_texts_hold_no_marks_of_another_language() -> None:
    assert [one.name for one in how_to() if "`" in one.title + one.proves + one.together] == []


def test_the_lines_that_the_page_shows_are_a_journal(importing: Importing) -> None:
    lines = ADAPTERS["lines"].INFO.how_to_export.split("\n", 1)[1].rpartition("\n")[0]
    (file,) = importing({"run.jsonl": lines.encode()})["files"]
    assert (file["state"], file["entries_read"], file["runs"][0]["run"]) == ("complete", 3, "refund-8812")


def test_help_stays_one_click_away(client: Client, people: dict[str, Any], importing: Importing) -> None:
    importing({"f": GOOD})
    vera = signed_in(client, people, "vera")
    address = reverse("journals:import_how")
    assert address in vera.get(reverse("journals:imports")).content.decode()
    assert "temporal workflow show" in vera.get(address).content.decode()
    assert address in signed_in(client, people, "alice").get(reverse("journals:import_new")).content.decode()


def test_an_operator_imports_and_sees_the_report(client: Client, people: dict[str, Any]) -> None:
    alice = signed_in(client, people, "alice")
    assert alice.get(reverse("journals:import_new")).status_code == 200
    torn = (TORN / "06-torn-middle.jsonl").read_bytes()
    answer = alice.post(
        reverse("journals:import_new"), {"file": [SimpleUploadedFile("torn.jsonl", torn)], "source": "here"}
    )
    made = Import.objects.get()
    assert answer["Location"] == reverse("journals:import", args=[made.pk])
    assert made.actor == "person:alice"
    text = alice.get(answer["Location"]).content.decode()
    assert "torn.jsonl" in text
    assert "line 3 not read" in text
    assert "entry 3 has not been received" in text
    assert "hx-trigger" not in text.split('id="import"')[1].split(">")[0], "a finished import is not asked again"
    assert b"".join(alice.get(reverse("journals:import_file", args=[made.pk, 1]))) == torn  # type: ignore[arg-type]
    assert "torn.jsonl" in alice.get(reverse("journals:imports")).content.decode()


def test_a_running_import_refreshes_itself(client: Client, people: dict[str, Any], importing: Importing) -> None:
    pk = importing({"f": GOOD})["id"]
    Import.objects.filter(pk=pk).update(state="running")
    address = reverse("journals:import", args=[pk])
    text = signed_in(client, people, "vera").get(address).content.decode()
    assert f'hx-get="{address}"' in text
    assert "<progress" in text
    part = client.get(address, headers={"HX-Request": "true", "HX-Target": "import"}).content.decode()
    assert part.lstrip().startswith('<div id="import"')
    assert "<html" not in part


def test_hostile_names_are_text_on_the_page(client: Client, people: dict[str, Any], importing: Importing) -> None:
    made = importing({"<script>x</script>\x1b\u202e.jsonl": (LINES / "awkward_ids.jsonl").read_bytes()})
    text = signed_in(client, people, "alice").get(reverse("journals:import", args=[made["id"]])).content.decode()
    assert "<script>x" not in text
    assert "<b>x</b>" not in text
    assert "\u202e" not in text
    assert "(no name)" in text


@pytest.mark.parametrize(("name", "may"), [("alice", True), ("dora", True), ("bob", False), ("vera", False)])
def test_only_operators_import(name: str, may: bool, client: Client, people: dict[str, Any]) -> None:
    person = signed_in(client, people, name)
    assert person.get(reverse("journals:import_new")).status_code == (200 if may else 403)
    posted = person.post(reverse("journals:import_new"), {"file": [SimpleUploadedFile("f", GOOD)]})
    assert posted.status_code == (302 if may else 403)
    assert Import.objects.exists() == may
    assert (reverse("journals:import_new") in person.get(reverse("journals:imports")).content.decode()) == may


def test_nobody_sees_anything_without_signing_in(client: Client, importing: Importing) -> None:
    pk = importing({"f": GOOD})["id"]
    for name, args in (("imports", []), ("import_new", []), ("import", [pk]), ("import_file", [pk, 1])):
        answer = client.get(reverse(f"journals:{name}", args=args))
        assert (answer.status_code, "/login/" in answer["Location"]) == (302, True)


def test_says_what_is_wrong_with_a_form(client: Client, people: dict[str, Any]) -> None:
    alice = signed_in(client, people, "alice")
    answer = alice.post(
        reverse("journals:import_new"), {"source": "native:prod", "file": [SimpleUploadedFile("f", GOOD)]}
    )
    assert (answer.status_code, "native:" in answer.content.decode()) == (400, True)
    answer = alice.post(reverse("journals:import_new"), {})
    assert (answer.status_code, "Choose at least one file" in answer.content.decode()) == (400, True)


def test_an_unknown_import_is_not_found(client: Client, people: dict[str, Any]) -> None:
    assert signed_in(client, people, "alice").get(reverse("journals:import", args=[12_345])).status_code == 404


def test_the_list_costs_as_many_queries_for_many_imports(
    client: Client, people: dict[str, Any], importing: Importing, django_assert_max_num_queries: Any
) -> None:
    for n in range(60):
        Import.objects.create(actor=f"t{n}")
    alice = signed_in(client, people, "alice")
    with django_assert_max_num_queries(16):
        text = alice.get(reverse("journals:imports")).content.decode()
    older = text.split("?before=")[1].split('"')[0]
    assert "t59" in text
    assert "t9<" in alice.get(f"{reverse('journals:imports')}?before={older}").content.decode()


def test_sources_are_paged_searched_and_counted(
    client: Client, people: dict[str, Any], importing: Importing, django_assert_max_num_queries: Any
) -> None:
    importing({"f": GOOD}, source="the-first")
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO journals_source (name, runtime, native) SELECT 'temporal-' || n, 'temporal', false FROM generate_series(1, 60) n"
        )
    alice = signed_in(client, people, "alice")
    with django_assert_max_num_queries(16):
        text = alice.get("/imports/").content.decode()
    table = text.partition("grid sources")[2].partition("</table>")[0]
    assert table.count("data-row-link") == 50
    assert "temporal-60<" in table
    assert "the-first" not in table
    assert ADAPTERS["temporal"].INFO.evidence.note not in text
    older = re.search(r'href="(\?sources=2)"', text)
    assert older is not None
    second = alice.get(f"/imports/{older[1]}").content.decode().partition("grid sources")[2].partition("</table>")[0]
    assert "the-first" in second
    assert "page 2 of 2" in alice.get("/imports/?sources=99").content.decode()
    found = alice.get("/imports/", {"find": "FIRST"}).content.decode()
    cells = re.findall(
        r'<td class="num">(?:<a [^>]*>)?(\d+)', found.partition("grid sources")[2].partition("</table>")[0]
    )
    assert ("1 source<" in found, cells) == (True, ["1", "1"])
    assert "No source&#x27;s name" in alice.get("/imports/", {"find": "<b>"}).content.decode().replace("'", "&#x27;")


def test_a_long_name_of_a_source_is_refused_by_name(
    client: Client, people: dict[str, Any], token: Callable[..., str], tmp_path: Path
) -> None:
    why = "the name of the source has 3,000 characters, the limit is 200"
    for options, told in (
        ({"source": "s" * 3_000}, why),
        ({"agent": "a\0"}, "the name of the agent holds a NUL character"),
    ):
        body = {"file": SimpleUploadedFile("f", GOOD), **options}
        answer = client.post("/api/v1/imports", body, headers={"Authorization": f"Bearer {token('ci')}"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "MalformedRequest")
        assert told in answer.json()["error"]["message"]
    form = {"source": "s" * 3_000, "file": [SimpleUploadedFile("f", GOOD)]}
    answer = signed_in(client, people, "alice").post(reverse("journals:import_new"), form)
    assert answer.status_code == 400
    assert "The name of the source has 3000 characters, the limit is 200." in answer.content.decode()
    (tmp_path / "f").write_bytes(GOOD)
    with pytest.raises(CommandError, match=why):
        call_command("import_journal", str(tmp_path / "f"), "--source", "s" * 3_000)
    assert not Import.objects.exists()


def test_a_run_page_repeats_that_nobody_can_tell_whether_the_file_was_all(
    client: Client, people: dict[str, Any], importing: Importing
) -> None:
    data = gzip.decompress((FIXTURES / "adapters" / "langgraph" / "b-sqlite.recovered.sqlite.gz").read_bytes())
    made = importing({"b.sqlite": data})["files"][0]
    assert made["state"] == "complete"
    alice = signed_in(client, people, "alice")
    text = alice.get(reverse("runs:detail", args=[made["runs"][0]["key"]])).content.decode()
    told = text.partition("as told by the import")[2].partition("</dd>")[0]
    assert "its -wal file is not here: the last rows may be missing" in told
    other = importing({"f": GOOD})["files"][0]["runs"][0]["key"]
    assert "as told by the import" not in alice.get(reverse("runs:detail", args=[other])).content.decode()
