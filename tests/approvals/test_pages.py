"""The approval pages show what is hashed, and only a signed-in POST decides."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from runs.approvals.models import Approval, Policy
from tests.approvals.asking import PAY, Asker

pytestmark = pytest.mark.django_db


@pytest.fixture
def asker(token: Any, people: Any) -> Asker:
    asker = Asker(token("worker"))
    asker.start().open()
    return asker


def signed_in(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


def post(client: Client, **changes: Any) -> Any:
    approval = Approval.objects.get()
    data = {"decision": "approve", "fingerprint": approval.fingerprint, "shown": "sha256:x", "comment": "ok", **changes}
    return client.post(reverse("approvals:decision", args=[approval.key, approval.name]), data)


def page(client: Client) -> Any:
    approval = Approval.objects.get()
    return client.get(reverse("approvals:detail", args=[approval.key, approval.name]))


def test_the_page_shows_every_value_and_the_fingerprint(asker: Asker, people: Any) -> None:
    asker.ask()
    html = page(signed_in(people["bob"])).content.decode()
    for text in (
        "XX00SYNTHETIC0001",
        "120000",
        "args.lines[1]",
        Approval.objects.get().fingerprint,
        "Approve: pay(",
        'value="reject"',
    ):
        assert text in html


def test_a_post_decides_and_a_get_does_not(asker: Asker, people: Any) -> None:
    asker.ask()
    bob = signed_in(people["bob"])
    approval = Approval.objects.get()
    answer = bob.get(reverse("approvals:decision", args=[approval.key, approval.name]), {"decision": "approve"})
    assert (answer.status_code, Approval.objects.get().state) == (302, "requested")
    assert post(bob).status_code == 302
    assert Approval.objects.get().state == "approved"


@pytest.mark.parametrize(("who", "status"), [("vera", 403), ("alice", 403), ("bob", 302), ("dora", 302)])
def test_roles_are_checked_on_the_post(asker: Asker, people: Any, who: str, status: int) -> None:
    asker.ask()
    assert post(signed_in(people[who])).status_code == status


def test_strangers_get_the_sign_in_page(asker: Asker) -> None:
    asker.ask()
    assert post(Client()).headers["Location"].startswith("/login/")
    assert Approval.objects.get().state == "requested"


def test_a_post_without_a_csrf_token_is_refused(asker: Asker, people: Any) -> None:
    asker.ask()
    client = Client(enforce_csrf_checks=True)
    client.force_login(people["bob"])
    assert post(client).status_code == 403
    assert Approval.objects.get().state == "requested"


def test_a_no_needs_a_comment(asker: Asker, people: Any) -> None:
    asker.ask()
    answer = post(signed_in(people["bob"]), decision="reject", comment=" ")
    assert (answer.status_code, b"say why" in answer.content) == (400, True)


def test_the_second_is_told_who_was_first(asker: Asker, people: Any) -> None:
    asker.ask()
    post(signed_in(people["bob"]))
    answer = post(signed_in(people["dora"]), decision="reject")
    assert (answer.status_code, b"approved already by bob" in answer.content) == (409, True)


def test_hidden_characters_are_marked_and_must_be_seen(asker: Asker, people: Any) -> None:
    asker.ask({"tool": "pay", "args": {"to": "acc-\u202e1000\u202c", "memo": "\u200bhidden\U000e0041\u2066x\u2069"}})
    bob = signed_in(people["bob"])
    html = page(bob).content.decode()
    for code in ("202E", "200B", "E0041", "2066"):
        assert code in html
    assert post(bob).status_code == 403
    assert post(bob, saw_hidden="on").status_code == 302


def test_markup_in_an_artifact_stays_text(asker: Asker, people: Any) -> None:
    asker.ask({"tool": "pay", "args": {"memo": "<script>alert(1)</script>{{7*7}}"}})
    html = page(signed_in(people["bob"])).content.decode()
    assert "<script>alert(1)" not in html
    assert "&lt;script&gt;alert(1)" in html


def test_a_changed_value_is_shown_beside_the_last_request(asker: Asker, people: Any) -> None:
    asker.ask()
    asker.ask({**PAY, "args": {**PAY["args"], "cents": 7}}, step=3, name="a3")
    answer = signed_in(people["bob"]).get(reverse("approvals:detail", args=[asker.key, "a3"]))
    assert "was 120000" in answer.content.decode()


@pytest.mark.parametrize(
    ("who", "view", "seen"),
    [("bob", "mine", True), ("vera", "mine", False), ("vera", "open", True), ("bob", "decided", False)],
)
def test_the_inbox_shows_what_one_may_decide(asker: Asker, people: Any, who: str, view: str, seen: bool) -> None:
    asker.ask()
    html = signed_in(people[who]).get(reverse("approvals:inbox"), {"view": view}).content.decode()
    assert ("Pay the supplier" in html) == seen


def test_an_unchanged_inbox_answers_nothing_new(asker: Asker, people: Any) -> None:
    asker.ask()
    bob = signed_in(people["bob"])
    poll = bob.get(reverse("approvals:inbox")).context["poll_url"]
    url = reverse("approvals:inbox") + poll
    assert bob.get(url, headers={"HX-Request": "true"}).status_code == 204
    post(bob)
    assert bob.get(url, headers={"HX-Request": "true"}).status_code == 200


def test_only_admins_change_policies(people: Any) -> None:
    asked = {
        "agent": "refund",
        "tool": "pay",
        "needed": "2",
        "four_eyes": "on",
        "active": "on",
        "expires_h": "1.5",
        "groups": ["approver"],
    }
    assert signed_in(people["bob"]).post(reverse("approvals:policies"), asked).status_code == 403
    assert signed_in(people["dora"]).post(reverse("approvals:policies"), asked).status_code == 302
    made = Policy.objects.get()
    assert (made.version, made.needed, made.expires_s, made.groups) == (1, 2, 5_400, ["approver"])
    assert signed_in(people["bob"]).get(reverse("approvals:policies")).status_code == 200
