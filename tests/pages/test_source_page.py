"""The page of a source: what it is and proves, and its mapping: seen by all, previewed and saved by operators. And its API."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from drainboard import wire

from journals import store
from journals.foreign import foreign
from runs import projection
from runs.models import Run, Step
from tests.runs.test_mapping_of_a_source import BODY, LINES
from tests.runs.test_projection import begin, bring

pytestmark = pytest.mark.django_db


@pytest.fixture
def source(db: None) -> store.Source:
    bring("r1", LINES)
    projection.catch_up()
    return store.source(name="file")


@pytest.fixture
def alice(client: Client, people: dict[str, Any]) -> Client:
    client.force_login(people["alice"])
    return client


def page(client: Client, source: store.Source, **query: str) -> str:
    answer = client.get(reverse("runs:source", args=[source.id]), query)
    assert answer.status_code == 200
    return answer.content.decode()


def send(client: Client, source: store.Source, **fields: str) -> Any:
    return client.post(reverse("runs:mapping", args=[source.id]), {"version": str(source.version), **fields})


def kinds() -> list[str]:
    projection.catch_up()
    return [s.kind for s in Step.objects.order_by("run_id", "ord")]


FORM = {
    "name-0": '"ask"',
    "kind-0": "model",
    "pattern-0": "lo*",
    "pattern-effect-0": "read",
    "versions.app": "/in/build",
}


def test_says_what_the_source_is_and_proves(alice: Client, source: store.Source) -> None:
    text = page(alice, source)
    assert "The line of a start is written before the effect" in text
    assert "Save and fold 1 run again" in text
    assert 'value="&quot;ask&quot;"' in text
    assert reverse("runs:source", args=[source.id]) in alice.get(reverse("journals:imports")).content.decode()


def test_a_preview_shows_what_would_change_and_writes_nothing(alice: Client, source: store.Source) -> None:
    before = [list(m.objects.order_by("pk").values()) for m in (Run, Step)]
    answer = send(alice, source, do="preview", **FORM)
    text = answer.content.decode()
    assert answer.status_code == 200
    assert "2 of 2 steps change. Nothing is saved." in text
    assert "<del>tool</del> → <ins>model</ins>" in text
    assert "<del>write</del> → <ins>read</ins>" in text
    assert "app b7" in text
    assert 'value="lo*"' in text
    assert [list(m.objects.order_by("pk").values()) for m in (Run, Step)] == before
    assert store.source(name="file") == source
    assert not store.mapping_changes(source.id)


def test_saving_folds_the_runs_again_and_keeps_who_did_it(alice: Client, source: store.Source) -> None:
    answer = send(alice, source, do="save", **FORM)
    assert answer.status_code == 302
    text = alice.get(answer["Location"]).content.decode()
    assert "Saved. 1 run is folded again under it." in text
    assert "person:alice" in text
    assert json.loads(store.source(name="file").mapping) == {
        "kinds": {"ask": "model"}, "effects": {"lo*": "read"}, "versions": {"app": ["/in/build"]},
    }  # fmt: skip
    assert kinds() == ["model", "tool"]


def test_what_cannot_be_used_is_marked_and_nothing_changes(alice: Client, source: store.Source) -> None:
    answer = send(alice, source, do="save", **{**FORM, "keys": "in/key"})
    text = answer.content.decode()
    assert answer.status_code == 422
    assert "is no JSON pointer" in text.split('id="keys-error"')[1].split("</p>")[0]
    assert 'value="lo*"' in text
    assert store.source(name="file") == source


@pytest.mark.parametrize(
    ("pattern", "taken"), [("[", False), ("lo[o*", False), ("[]", False), ("[[]x", True), ("[!]a]*", True)]
)
def test_a_bracket_that_nothing_closes_is_marked(
    alice: Client, source: store.Source, token: Callable[..., str], pattern: str, taken: bool
) -> None:
    answer = send(alice, source, do="save", **{"pattern-0": pattern, "pattern-kind-0": "tool", "pattern-effect-0": ""})
    assert answer.status_code == (302 if taken else 422)
    if not taken:
        error = answer.content.decode().split('id="pattern-error-0"')[1].split("</span>")[0]
        assert "opens a [ that no ] closes" in error
        assert store.source(name="file") == source
    body = json.dumps({"kinds": {pattern: "tool"}})
    put = alice.put(
        "/api/v1/sources/file/mapping",
        body,
        content_type="application/json",
        headers={"Authorization": f"Bearer {token('ci')}"},
    )
    assert put.status_code == (200 if taken else 400)


def test_a_mapping_that_moved_is_not_overwritten_unseen(alice: Client, source: store.Source) -> None:
    store.change_mapping(source.id, BODY, by="person:dora")
    answer = send(alice, source, do="save", **FORM)
    assert answer.status_code == 409
    text = answer.content.decode()
    assert "Somebody has saved this mapping since you opened it" in text
    assert store.source(name="file").mapping == BODY
    assert f'name="version" value="{store.source(name="file").version}"' in text  # saving again is a decision


def test_other_pages_of_names_keep_what_was_chosen(alice: Client, db: None) -> None:
    lines = [{"kind": "tool.started", "seq": n, "step": n, "name": f"t{n:03}"} for n in range(1, 71)]
    bring("many", lines)
    projection.catch_up()
    source = store.source(name="file")
    text = page(alice, source)
    assert "page 1 of 2" in text
    assert "t070" not in text
    text = send(alice, source, page="2", **{"name-0": '"t001"', "kind-0": "model"}).content.decode()
    assert "t070" in text
    assert "{&quot;t001&quot;: [&quot;model&quot;, &quot;&quot;]}" in text
    text = send(alice, source, do="names", q="T07", rest='{"t001": ["model", ""]}').content.decode()
    assert "1 name<" in text
    send(alice, source, do="save", rest='{"t001": ["model", ""]}', **{"name-0": '"t070"', "kind-0": "model"})
    assert json.loads(store.source(name="file").mapping) == {"kinds": {"t001": "model", "t070": "model"}}


def test_a_run_page_leads_to_the_names_of_its_run(alice: Client, source: store.Source) -> None:
    bring("r2", [{"kind": "tool.started", "seq": 1, "step": 1, "name": "other"}])
    run = Run.objects.get(run="r1")
    text = alice.get(reverse("runs:detail", args=[run.key])).content.decode()
    address = f"{reverse('runs:source', args=[source.id])}?run={run.key}"
    assert f'href="{address}#mapping"' in text
    text = alice.get(address).content.decode()
    assert "&quot;ask&quot;" in text
    assert "&quot;other&quot;" not in text
    assert f'<option value="{run.key}" selected' in text


def test_a_native_source_has_nothing_to_map(alice: Client, token: Callable[..., str]) -> None:
    head = begin()
    source = store.source(source_id=head.source_id)
    assert "There is nothing to map" in page(alice, source)
    assert "wrong kind" not in alice.get(reverse("runs:detail", args=[head.key])).content.decode()
    assert send(alice, source, do="save", **FORM).status_code == 403


def test_a_viewer_sees_the_mapping_and_cannot_change_it(
    client: Client, people: dict[str, Any], source: store.Source
) -> None:
    client.force_login(people["vera"])
    text = page(client, source)
    assert "<fieldset disabled>" in text
    assert "Save and fold" not in text
    assert send(client, source, do="save", **FORM).status_code == 403
    assert client.get(reverse("runs:source", args=[987_654])).status_code == 404


def test_hostile_names_are_text_and_come_back_whole(alice: Client, db: None) -> None:
    name = '"><script>x</script>\u202e\n\ud800*'
    item = foreign(wire.dump({"run": "h", "seq": 1, "kind": "tool.started", "step": 1, "name": name}))
    store.ingest(source_name="file", runtime="lines", import_id=1, actor="import:1", items=[item])
    projection.catch_up()
    source = store.source(name="file")
    text = page(alice, source)
    assert "<script>x" not in text
    assert "\u202e" not in text
    send(alice, source, do="save", **{"name-0": json.dumps(name), "kind-0": "model"})
    assert kinds() == ["model"]
    assert "<script>x" not in page(alice, source)


# -- API ----------------------------------------------------------------------------------------------------------------


def ask(secret: str, method: str = "get", body: str = "", name: str = "file", **query: str) -> Any:
    address = f"/api/v1/sources/{name}/mapping" + (f"?version={query['version']}" if query else "")
    headers = {"Authorization": f"Bearer {secret}"}
    if method == "get":
        return Client().get(address, headers=headers)
    return Client().put(address, body, content_type="application/json", headers=headers)


def test_the_api_gives_and_takes_a_mapping(source: store.Source, token: Callable[..., str]) -> None:
    assert ask(token("read")).json()["mapping"] == {}
    made = ask(token("ci"), "put", BODY, version="0").json()
    assert (made["folded_again"], json.dumps(made["mapping"])) == (1, json.dumps(json.loads(BODY)))
    assert made["changed_by"].startswith("token:")
    assert kinds() == ["model", "tool"]
    moved = ask(token("ci"), "put", "{}", version="0")
    assert (moved.status_code, moved.json()["error"]["code"]) == (409, "MappingMoved")
    assert ask(token("read")).json()["version"] == made["version"]


def test_the_api_names_what_is_wrong(source: store.Source, token: Callable[..., str]) -> None:
    bad = ask(token("ci"), "put", '{"kinds": {"a": "robot"}}')
    assert (bad.status_code, bad.json()["error"]["detail"]["path"]) == (400, "/kinds/a")
    assert ask(token("ci"), "put", "{}", version="x").status_code == 400
    assert ask(token("ci"), name="nowhere").json()["error"]["code"] == "UnknownSource"
    assert ask(token("read"), "put", BODY).status_code == 403
    assert ask(token("ci", agent="refund"), "put", BODY).status_code == 403
    assert store.source(name="file") == source
