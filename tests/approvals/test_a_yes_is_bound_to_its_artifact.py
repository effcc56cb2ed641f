"""A yes holds for exactly this artifact, at this step, once."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from django.db import transaction

from journals import store
from runs.approvals import actions, policies
from runs.approvals.models import Approval
from tests.approvals.asking import PAY, Asker

pytestmark = pytest.mark.django_db


@pytest.fixture
def asker(token: Any, people: Any) -> Asker:
    asker = Asker(token("worker"))
    asker.start().open()
    return asker


def code(answer: Any) -> str:
    return str(answer.json()["error"]["code"])


def said(approval: Approval, decision: str = "approve", **more: Any) -> actions.Said:
    return actions.Said(decision=decision, fingerprint=approval.fingerprint, comment="because", **more)


def approve(asker: Asker, people: Any, name: str = "a1") -> Approval:
    approval = Approval.objects.get(key=asker.key, name=name)
    return actions.decide(approval.id, user=people["bob"], said=said(approval))


def test_a_request_is_recorded_with_its_fingerprint(asker: Asker) -> None:
    answer = asker.ask().json()
    assert (answer["state"], answer["id"], answer["problems"]) == ("requested", "a1", [])
    assert asker.kinds()[-1] == "approval.requested"
    assert answer["fingerprint"] == asker.print_of(PAY, step=1)


def test_the_same_request_again_is_one(asker: Asker) -> None:
    asker.ask()
    asker.open()
    assert asker.ask().json()["id"] == "a1"
    assert Approval.objects.count() == 1
    assert code(asker.ask({**PAY, "args": {}})) == "EntryConflict"


def test_a_wrong_fingerprint_is_refused(asker: Asker) -> None:
    assert code(asker.ask(fingerprint="sha256:" + "0" * 64)) == "ApprovalMismatch"
    assert "approval.requested" not in asker.kinds()


@pytest.mark.parametrize("text", ['{"tool":"pay","args":{"cents":1,"cents":2}}', '{"tool":"pay","args":{"cents":NaN}}',
                                  '{"tool":"pay","args":{"n":9007199254740993}}', '{"tool":"pay","args":{"s":"\\ud800"}}'])  # fmt: skip
def test_an_ambiguous_artifact_is_refused(asker: Asker, text: str) -> None:
    line = asker.line("approval.requested", step=1, artifact="HERE", fingerprint="x").replace(b'"HERE"', text.encode())
    assert code(asker.send("approvals", line)) in ("AmbiguousArtifact", "MalformedEntry")
    assert Approval.objects.count() == 0


def test_nothing_runs_before_a_yes(asker: Asker) -> None:
    asker.ask()
    assert code(asker.use()) == "ApprovalRequired"
    assert "tool.started" not in asker.kinds()


def test_a_yes_is_used_with_the_start_in_one_piece(asker: Asker, people: Any) -> None:
    asker.ask()
    approve(asker, people)
    assert asker.use().status_code == 200
    assert asker.kinds()[-2:] == ["tool.started", "approval.used"]
    assert asker.approval()["state"] == "used"


def changed(path: list[Any], value: Any) -> Any:
    artifact = copy.deepcopy(PAY)
    at: Any = artifact
    for name in path[:-1]:
        at = at[name]
    at[path[-1]] = value
    return artifact


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (["args", "iban"], "XX00SYNTHETIC0002", "args.iban"),
        (["args", "cents"], 120_001, "args.cents"),
        (["args", "cents"], "120000", "args.cents"),
        (["args", "lines"], ["b", "a"], "args.lines[0]"),
        (["args", "lines"], ["a"], "args.lines[1]"),
        (["args", "extra"], 1, "args.extra"),
        (["tool"], "pay2", "tool"),
    ],
)
def test_one_changed_field_is_named_and_nothing_runs(
    asker: Asker, people: Any, path: list[Any], value: Any, field: str
) -> None:
    asker.ask()
    approve(asker, people)
    answer = asker.use(changed(path, value))
    assert (code(answer), answer.json()["error"]["detail"]["field"]) == ("ApprovalMismatch", field)
    assert "tool.started" not in asker.kinds()
    assert asker.approval()["state"] == "approved"


def test_a_changed_tool_schema_is_named(asker: Asker, people: Any) -> None:
    asker.ask()
    approve(asker, people)
    answer = asker.use(schema="sha256:" + "b" * 64)
    assert (code(answer), answer.json()["error"]["detail"]["field"]) == ("ApprovalMismatch", "tool_schema")


def test_key_order_and_spacing_do_not_count(asker: Asker, people: Any) -> None:
    asker.ask()
    approve(asker, people)
    spaced = '{ "lines" : ["a",  "b"], "cents":120000.0, "iban":"XX00SYNTHETIC0001" }'
    assert asker.use(raw=spaced).status_code == 200


def test_another_step_may_not_use_it(asker: Asker, people: Any) -> None:
    asker.ask()
    approve(asker, people)
    asker.use(step=2)
    assert code(asker.use(step=3)) == "ApprovalAlreadyUsed"
    assert code(asker.use(step=2, key="other")) == "ApprovalAlreadyUsed"
    assert asker.kinds().count("tool.started") == 1


def test_the_same_step_gets_the_same_yes_after_a_crash_and_after_expiry(asker: Asker, people: Any) -> None:
    asker.ask()
    approve(asker, people)
    asker.use()
    Approval.objects.update(expires_at="2020-01-01T00:00:00Z")
    asker.open(worker="w-2")
    assert asker.use().status_code == 200
    assert asker.kinds().count("approval.used") == 1


def test_a_yes_that_ran_out_is_not_used(asker: Asker, people: Any) -> None:
    asker.ask()
    approve(asker, people)
    Approval.objects.update(expires_at="2020-01-01T00:00:00Z")
    assert code(asker.use()) == "ApprovalExpired"


def test_a_stopped_run_gets_nothing(asker: Asker, people: Any) -> None:
    asker.ask()
    approve(asker, people)
    with transaction.atomic():
        store.change(store.lock(asker.head.id).id, stop_name="StoppedByOperator")
    assert code(asker.use()) == "RunStopped"
    assert asker.approval()["state"] == "approved"
    assert "approval.used" not in asker.kinds()


def test_a_no_is_a_no(asker: Asker, people: Any) -> None:
    asker.ask()
    approval = Approval.objects.get()
    actions.decide(approval.id, user=people["bob"], said=said(approval, "reject"))
    assert code(asker.use()) == "ApprovalDenied"
    assert asker.approval()["decision"] == "reject"


def test_a_tool_under_policy_cannot_walk_around_the_gate(asker: Asker, people: Any) -> None:
    policies.save(agent="refund", tool="pay", actor="dora")
    plain = asker.line("tool.started", name="pay", step=2, effect="write", **{"in": PAY["args"]})
    assert code(asker.post(plain)) == "ApprovalRequired"
    asker.ask(policy=1)
    approve(asker, people)
    assert asker.use(policy=1).status_code == 200


def test_a_changed_policy_asks_again(asker: Asker) -> None:
    policies.save(agent="refund", tool="pay", actor="dora")
    assert code(asker.ask(policy=0)) == "ApprovalMismatch"


def test_ending_a_policy_opens_the_gate(asker: Asker) -> None:
    policies.save(agent="refund", tool="pay", actor="dora")
    policies.save(agent="refund", tool="pay", actor="dora", active=False)
    assert asker.post(asker.line("tool.started", name="pay", step=1)).status_code == 200
    assert policies.versions("refund") == {}


def test_delivered_is_recorded_once(asker: Asker, people: Any) -> None:
    asker.ask()
    approve(asker, people)
    for _ in range(2):
        assert asker.call("approvals/a1/deliver", {"epoch": asker.epoch}).status_code == 200
    assert asker.kinds().count("approval.delivered") == 1
    asker.open()
    assert code(asker.call("approvals/a1/deliver", {"epoch": 1})) == "LeaseLost"


def test_a_decision_wakes_the_parked_run(asker: Asker, people: Any) -> None:
    asker.ask()
    asker.post(asker.line("run.parked", reason="approval:a1"))
    assert asker.head.wake_at is None
    approve(asker, people)
    assert asker.head.wake_at is not None


def test_undecided_requests_expire_by_the_database_clock(asker: Asker, people: Any) -> None:
    asker.ask(expires_at="2020-01-01T00:00:00Z")
    assert actions.expire_due() == 1
    assert asker.kinds()[-1] == "approval.expired"
    assert actions.expire_due() == 0


def test_withdrawing_names_what_was_open(asker: Asker, people: Any) -> None:
    asker.ask()
    with transaction.atomic():
        assert actions.withdraw(asker.head.id, reason="tool changed", actor="person:alice") == ["a1"]
    asker.open()
    assert asker.ask(name="a2").json()["state"] == "requested"
