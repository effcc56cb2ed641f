"""Several decisions in one answer: each is bound to its call, whatever the order of a screen; all are taken or none."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from typing import Any

import pytest
from django.test import Client

from journals import store
from runs.approvals import batch
from runs.approvals.models import Approval
from tests.approvals.asking import Asker

DELETE = {"tool": "delete_file", "args": {"path": "/srv/report-a.csv"}}
SEND = {"tool": "send_email", "args": {"to": "person@example.test", "subject": "Report"}}
ASKED = [
    batch.Asked(name="a1", call="delete-1", tool="delete_file", artifact=DELETE, fingerprint="sha256:d", allowed=frozenset({"approve", "reject"})),
    batch.Asked(name="a2", call="send-1", tool="send_email", artifact=SEND, fingerprint="sha256:s", allowed=frozenset({"approve", "edit", "reject"})),
]  # fmt: skip
NO: dict[str, Any] = {"call": "send-1", "type": "reject", "message": "do not send", "fingerprint": "sha256:s"}
YES: dict[str, Any] = {"call": "delete-1", "type": "approve", "fingerprint": "sha256:d"}
EDIT = {"call": "send-1", "type": "edit", "fingerprint": "sha256:s"}


def edit(name: str, **args: Any) -> dict[str, Any]:
    return {**EDIT, "edited_action": {"name": name, "args": args}}


@pytest.mark.parametrize("posted", list(itertools.permutations([NO, YES])))
@pytest.mark.parametrize("asked", list(itertools.permutations(ASKED)))
def test_no_order_of_cards_or_requests_swaps_two_decisions(posted: Any, asked: Any) -> None:
    settled = batch.settle(asked, list(posted))
    assert [s.name for s in settled] == [a.name for a in asked]  # in the order in which the runtime asked
    assert {s.name: (s.decision, s.comment) for s in settled} == {
        "a1": ("approve", ""),
        "a2": ("reject", "do not send"),
    }


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([{"type": "reject", "message": "do not send"}, {"type": "approve"}], "must name its call and the fingerprint seen"),
        ([{**NO, "fingerprint": None}, YES], "must name its call and the fingerprint seen"),
        ([NO], "2 requests are open and 1 are decided; nothing is said about delete-1"),
        ([], "one for each open request"),
        ({"0": NO, "1": YES}, "one for each open request"),
        ([NO, YES, {**YES, "call": "third-1"}], "no open request 'third-1'"),
        ([NO, YES, YES], "'delete-1' is decided twice"),
        ([NO, {**YES, "call": "a1"}, YES], "'delete-1' is decided twice"),
        ([NO, {**YES, "fingerprint": "sha256:other"}], "is not what it asks for now"),
        ([NO, {**YES, "type": "yes"}], "none of approve, reject"),
        ([YES, edit("delete_file", path="/srv/everything")], "may change arguments only: 'send-1' is send_email, not delete_file"),
        ([YES, EDIT], "must give `edited_action`"),
        ([YES, edit("send_email", to="person@example.test", subject="Report")], "changes nothing"),
        ([YES, edit("send_email", n=2**60)], "more than one way"),
        ([NO, {**YES, "type": "edit", "edited_action": {"name": "delete_file", "args": {"path": "/srv/b"}}}], "'edit' is not allowed about 'delete-1'"),
    ],
)  # fmt: skip
def test_refuses_the_whole_list(given: Any, says: str) -> None:
    with pytest.raises(batch.Unfit, match=re.escape(says)):
        batch.settle(ASKED, given)


def test_an_edit_changes_arguments_only_and_has_to_be_asked_for_again() -> None:
    settled = batch.settle(ASKED, [edit("send_email", to="other@example.test"), YES])
    assert (settled[1].decision, settled[1].edited) == (
        "send_back",
        {"tool": "send_email", "args": {"to": "other@example.test"}},
    )


def test_a_call_id_that_stands_for_two_requests_names_neither() -> None:
    twice = [dataclasses.replace(a, call="same") for a in ASKED]
    with pytest.raises(batch.Unfit, match="no open request 'same'"):
        batch.settle(twice, [{**NO, "call": "same"}, {**YES, "call": "a1"}])
    assert [s.decision for s in batch.settle(twice, [{**NO, "call": "a2"}, {**YES, "call": "a1"}])] == [
        "approve",
        "reject",
    ]


# -- the same, posted by a person about a run of ours ---------------------------------------------------------------


@pytest.fixture
def asker(token: Any) -> Any:
    asker: Any = Asker(token("worker"), run="r-14").start({}).open("41", "w1")
    asked = [(DELETE, "delete-1", ["approve", "reject"]), (SEND, "send-1", ["approve", "edit", "reject"])]
    for step, (artifact, call, allowed) in enumerate(asked, 1):
        seen = asker.print_of(artifact, step=step, schema=None)
        answer = asker.ask(artifact, step=step, name=f"a{step}", fingerprint=seen, call=call, allowed_decisions=allowed)
        assert answer.status_code == 200
    return asker


def post(people: Any, asker: Asker, decisions: Any, who: str = "bob") -> Any:
    client = Client()
    client.force_login(people[who])
    return client.post(
        f"/approvals/{asker.key}/decisions/", json.dumps({"decisions": decisions}), content_type="application/json"
    )


def seen(*decisions: dict[str, Any]) -> list[dict[str, Any]]:
    """The decisions with the fingerprints that are stored."""
    prints = {
        "delete-1": Approval.objects.get(name="a1").fingerprint,
        "send-1": Approval.objects.get(name="a2").fingerprint,
    }
    return [{**d, "fingerprint": prints[d["call"]]} for d in decisions]


def states() -> dict[str, str]:
    return dict(Approval.objects.values_list("name", "state"))


@pytest.mark.django_db
@pytest.mark.parametrize("order", [(NO, YES), (YES, NO)])
def test_two_decisions_are_stored_each_with_its_call(people: Any, asker: Asker, order: Any) -> None:
    answer = post(people, asker, seen(*order))
    assert (answer.status_code, states()) == (200, {"a1": "approved", "a2": "rejected"})
    assert [(d["id"], d["decision"], d["by"]) for d in answer.json()["decided"]] == [
        ("a1", "approve", "bob"),
        ("a2", "reject", "bob"),
    ]
    entries = [e.entry for e in store.read(store.find(key=asker.key).id) if e.kind == "approval.decided"]
    assert [(e.approval, e.decision, e.by) for e in entries] == [("a1", "approve", "bob"), ("a2", "reject", "bob")]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("decisions", "code"),
    [
        (lambda: [{"type": "reject", "message": "do not send"}, {"type": "approve"}], "MalformedRequest"),
        (lambda: [*seen(YES), {**NO, "fingerprint": "sha256:s"}], "StaleView"),
        (lambda: seen(YES, {**NO, "message": ""}), "MalformedRequest"),  # a no needs its reason, and then the yes before it is not kept
        (lambda: seen(YES, edit("delete_file", path="/srv/everything")), "MalformedRequest"),
    ],
)  # fmt: skip
def test_nothing_is_decided_when_one_of_them_cannot_be(people: Any, asker: Asker, decisions: Any, code: str) -> None:
    answer = post(people, asker, decisions())
    assert (answer.json()["error"]["code"], states()) == (code, {"a1": "requested", "a2": "requested"})
    assert not [e for e in store.read(store.find(key=asker.key).id) if e.kind.startswith("approval.decided")]


@pytest.mark.django_db
def test_an_edit_goes_back_to_the_agent_with_what_to_ask_for(people: Any, asker: Asker) -> None:
    answer = post(people, asker, seen(YES, edit("send_email", to="other@example.test")))
    assert (answer.status_code, states()) == (200, {"a1": "approved", "a2": "sent_back"})
    (back,) = [e.entry for e in store.read(store.find(key=asker.key).id) if e.kind == "approval.sent_back"]
    assert back.extra["edited"] == {"tool": "send_email", "args": {"to": "other@example.test"}}


@pytest.mark.django_db
def test_only_an_approver_decides_and_a_body_with_two_readings_is_refused(people: Any, asker: Asker) -> None:
    assert post(people, asker, seen(NO, YES), who="alice").status_code == 403
    client = Client()
    client.force_login(people["bob"])
    doubled = client.post(
        f"/approvals/{asker.key}/decisions/", '{"decisions": [], "decisions": []}', content_type="application/json"
    )
    assert (doubled.status_code, doubled.json()["error"]["code"]) == (400, "MalformedRequest")
    assert states() == {"a1": "requested", "a2": "requested"}
