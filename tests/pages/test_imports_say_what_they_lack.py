"""Pages about runs of other runtimes say what an export does not hold, and never let it look like a no."""

from __future__ import annotations

import io
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from journals import ingest
from journals.files import Found
from runs import projection, sentences, show
from runs.models import Run

pytestmark = pytest.mark.django_db
FILES = Path(__file__).parent.parent / "fixtures" / "adapters"


@pytest.fixture
def http(client: Client, people: dict[str, Any]) -> Client:
    client.force_login(people["vera"])
    return client


def bring(*paths: str, format: str = "", source: str = "there") -> list[Run]:
    """Imports the files of one runtime into one source, and answers its runs."""
    for path in paths:
        raw = (FILES / path).read_bytes()
        found = [Found(path.rpartition("/")[2], len(raw), lambda raw=raw: io.BytesIO(raw))]
        made = ingest.submit(found, actor="person:alice", format=format or path.partition("/")[0], source=source)
        ingest.run(made.id)
    projection.catch_up()
    return list(Run.objects.filter(source=source).order_by("pk"))


def text(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def attempts(html: str) -> dict[str, str]:
    """What the column of attempts says of each step."""
    rows = [re.findall(r"<td.*?</td>", row, re.DOTALL) for row in re.findall(r"<tr data-mean.*?</tr>", html, re.DOTALL)]
    return {text(r[1]): text(r[6]) for r in rows if len(r) == 8}


def test_a_runtime_without_a_record_of_repeats_claims_no_single_attempt(http: Client) -> None:
    seen = set()
    for run in [*bring("aws/b_sigkill_in_send_refund.json"), *bring("durabletask/b-crash.json", source="other")]:
        page = http.get(f"/runs/{run.key}/").text
        seen.add(attempts(page)["tool send_refund"])
        assert ("this runtime keeps no record of a repeat" in page) == (not run.in_flight)
    assert seen == {"1+", "2+"}, "the runtime's own count of tries is a least one too"


def test_what_leaves_a_record_of_each_attempt_has_a_plain_number(http: Client, token: Any) -> None:
    from tests.pages import story

    worker = story.completed(token, "done")
    page = http.get(f"/runs/{worker.key}/").text
    assert "keeps no record" not in page
    assert not any("+" in said for said in attempts(page).values())


def test_a_read_in_the_gap_is_no_alarm_about_the_outside() -> None:
    found = {"step": 3, "name": "lookup", "verdict": "may_run_twice", "confidence": "certain", "key": None}
    warned, calm = (sentences.gap({**found, "effect": effect}, native=False).follows for effect in ("write", "read"))
    assert "nothing outside can tell the repeat" in warned
    assert "It only reads" in calm
    assert "key" not in calm


def test_entries_and_the_notes_of_an_import_are_counted_by_one_rule(http: Client) -> None:
    (run,) = bring("durabletask/b-crash.json")
    page, tab = (text(http.get(f"/runs/{run.key}/{tab}").text) for tab in ("", "entries/"))
    assert f"{run.entries} entries and 1 note of the import" in page
    assert f"Entries and notes {run.folded_pos}" in page
    assert run.folded_pos == run.entries + 1 == http.get(f"/runs/{run.key}/entries/").text.count('<tr id="e')
    assert "Entries and notes" in tab
    assert f"{run.entries:,}  (" in show.as_text(show.show(run.pk))


def test_what_a_run_page_names_leads_on(http: Client) -> None:
    (run,) = bring("durabletask/b-crash.json")
    page = http.get(f"/runs/{run.key}/").text
    assert re.search(r'<dt>source</dt><dd><a href="/sources/\d+/">there</a>', page)
    assert f">{run.key[:8]}</button>" in page
    assert f"/runs/{run.key}/" in http.get("/runs/", {"q": run.key[:8]}).text
    assert f"/runs/{run.key}/" not in http.get("/runs/", {"q": run.key[:7] + "?"}).text


def test_results_that_an_export_leaves_out_are_no_empty_results(http: Client) -> None:
    (run, *_) = bring("durabletask/case-07/instance-without-output.json")
    page = http.get(f"/runs/{run.key}/").text
    assert "result not exported" in page
    assert "result not exported" not in http.get(f"/runs/{bring('durabletask/b-crash.json', source='b')[0].key}/").text
