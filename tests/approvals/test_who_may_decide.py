"""Who may decide, and what becomes of two who decide at once."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from runs.approvals import actions, errors, policies, rules
from runs.approvals.models import Approval, Vote
from tests.approvals.asking import Asker


@pytest.fixture
def asker(token: Any, people: Any) -> Asker:
    asker = Asker(token("worker"))
    asker.start().open()
    return asker


def said(approval: Approval, **more: Any) -> actions.Said:
    return actions.Said(**{"decision": "approve", "fingerprint": approval.fingerprint, "comment": "ok", **more})


def decide(user: Any, **more: Any) -> Approval:
    approval = Approval.objects.get()
    return actions.decide(approval.id, user=user, said=said(approval, **more))


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("who", "may"), [("bob", True), ("dora", True), ("alice", False), ("vera", False), ("charlie", False)]
)
def test_only_approvers_decide(asker: Asker, people: Any, who: str, may: bool) -> None:
    asker.ask()
    if may:
        assert decide(people[who]).decided_by == who
    else:
        with pytest.raises(errors.MayNotDecide):
            decide(people[who])


@pytest.mark.django_db
def test_whom_the_agent_acts_for_may_not_decide(asker: Asker, people: Any) -> None:
    asker.ask(requested_by="bob")
    with pytest.raises(errors.MayNotDecide, match="four eyes"):
        decide(people["bob"])
    assert decide(people["dora"]).state == "approved"


@pytest.mark.django_db
def test_a_second_decision_names_the_first(asker: Asker, people: Any) -> None:
    asker.ask()
    decide(people["bob"])
    with pytest.raises(errors.AlreadyDecided, match="approved already by bob"):
        decide(people["dora"])


@pytest.mark.django_db
def test_two_distinct_people_when_the_policy_says_so(asker: Asker, people: Any) -> None:
    policies.save(agent="refund", tool="pay", actor="dora", needed=2)
    asker.ask(policy=1)
    assert decide(people["bob"]).state == "requested"
    with pytest.raises(errors.MayNotDecide, match="already"):
        decide(people["bob"])
    assert decide(people["dora"]).decided_by == "bob, dora"
    assert asker.kinds().count("approval.decided") == 1


@pytest.mark.django_db
def test_a_gate_that_nobody_can_open_is_reported_at_once(asker: Asker, people: Any) -> None:
    policies.save(agent="refund", tool="pay", actor="dora", needed=3)
    assert "nobody can open this gate" in asker.ask(policy=1).json()["problems"][0]


@pytest.mark.django_db
def test_a_role_taken_away_counts_at_once(asker: Asker, people: Any) -> None:
    asker.ask()
    bob = people["bob"]
    list(bob.groups.all())
    bob.groups.clear()
    with pytest.raises(errors.MayNotDecide):
        decide(bob)


@pytest.mark.django_db
def test_deciding_about_another_artifact_is_refused(asker: Asker, people: Any) -> None:
    asker.ask()
    with pytest.raises(errors.StaleView):
        decide(people["bob"], fingerprint="sha256:" + "0" * 64)


@pytest.mark.django_db
def test_high_risk_needs_a_fresh_sign_in(asker: Asker, people: Any) -> None:
    policies.save(agent="refund", tool="pay", actor="dora", high_risk=True)
    asker.ask(policy=1)
    for at in (None, timezone.now() - timedelta(minutes=6)):
        with pytest.raises(errors.MayNotDecide, match="sign in again"):
            decide(people["bob"], signed_in_at=at)
    assert decide(people["bob"], signed_in_at=timezone.now()).state == "approved"


@pytest.mark.django_db(transaction=True)
def test_fifty_at_once_have_one_winner_and_all_others_are_told_who(asker: Asker, people: Any) -> None:
    asker.ask()
    approval = Approval.objects.get()
    outcomes: list[str] = []
    gate = threading.Barrier(10)

    def worker(n: int) -> None:
        gate.wait()
        for i in range(5):
            try:
                who = people["bob" if (n + i) % 2 else "dora"]
                done = actions.decide(
                    approval.id, user=who, said=said(approval, decision="approve" if i % 2 else "reject")
                )
                outcomes.append(f"won {done.decided_by}")
            except errors.AlreadyDecided as e:
                outcomes.append(f"told {e.detail['by']}")
        connection.close()

    threads = [threading.Thread(target=worker, args=(n,)) for n in range(10)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    winners = [o for o in outcomes if o.startswith("won")]
    assert (len(outcomes), len(winners), Vote.objects.count()) == (50, 1, 1)
    assert {o for o in outcomes if o.startswith("told")} == {winners[0].replace("won", "told")}
    assert sum(k == "approval.decided" for k in asker.kinds()) == 1


people_ = st.builds(
    rules.Person, name=st.sampled_from("abcdef"), active=st.booleans(), approver=st.booleans(),
    groups=st.frozensets(st.sampled_from(["fin", "ops"])),
)  # fmt: skip
terms_ = st.builds(
    rules.Terms,
    needed=st.integers(1, 4),
    groups=st.frozensets(st.sampled_from(["fin", "ops"])),
    four_eyes=st.booleans(),
)


@given(st.lists(people_, unique_by=lambda p: p.name, max_size=6), terms_, st.sets(st.sampled_from("abcdef")))
def test_problems_are_named_exactly_when_votes_cannot_reach_the_number(
    everybody: Any, terms: rules.Terms, asked_for: set[str]
) -> None:
    voted: list[str] = []
    for person in everybody:
        if rules.why_not(person, terms, asked_for=asked_for, voted=voted) is None:
            voted.append(person.name)
    assert bool(rules.problems(everybody, terms, asked_for=asked_for)) == (len(voted) < terms.needed)
