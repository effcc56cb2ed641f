"""Requests of other runtimes: decided here, recorded in the run, and told to the runtime by a person, in its own order."""

from __future__ import annotations

import dataclasses
import gzip
import io
import itertools
import json
import re
import shlex
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from journals import ingest, store
from journals.files import Found
from runs import controls, overview, projection
from runs.approvals import foreign, queries
from runs.approvals.models import Approval, Policy, ref_of
from runs.models import Run
from tests.adapters.langgraph_exports import data

pytestmark = pytest.mark.django_db

NO: dict[str, Any] = {"call": "send-1", "type": "reject", "message": "do not send"}
YES: dict[str, Any] = {"call": "delete-1", "type": "approve"}


def bring(text: bytes | str, *, format: str = "langgraph", path: str = "export.json") -> store.HeadRow:
    """Imports a file and answers the head of its one run."""
    raw = text.encode() if isinstance(text, str) else text
    made = ingest.submit(
        [Found(path, len(raw), lambda: io.BytesIO(raw))], actor="person:alice", format=format, source="there"
    )
    ingest.run(made.id)
    projection.catch_up()
    return store.head(Run.objects.get(native=False).head_id)


def thread(**changes: Any) -> bytes:
    return json.dumps({**json.loads(data("case-14.thread.json")), **changes}).encode()


@pytest.fixture
def asks(people: Any) -> store.HeadRow:
    return bring(data("case-14.thread.json"))


def signed_in(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


def prints(head: store.HeadRow) -> dict[str, str]:
    return {r.call or r.name: r.approval.fingerprint for r in foreign.requests(head)}


def seen(head: store.HeadRow, *decisions: dict[str, Any]) -> list[dict[str, Any]]:
    """The decisions with the fingerprints of the cards."""
    return [{**d, "fingerprint": prints(head)[d["call"]]} for d in decisions]


def post(user: Any, head: store.HeadRow, decisions: Any) -> Any:
    return signed_in(user).post(
        f"/approvals/{head.key}/decisions/", json.dumps({"decisions": decisions}), content_type="application/json"
    )


def decided(head: store.HeadRow) -> list[tuple[str | None, ...]]:
    """The server's decisions in the journal."""
    entries = [e.entry for e in store.read(head.id) if e.origin == "server"]
    return [(e.call, e.decision, e.by, e.reason, e.fingerprint) for e in entries if e.kind.startswith("approval.")]


def text(answer: Any) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", answer.content.decode())).split())


def page(user: Any, head: store.HeadRow, name: str) -> str:
    return text(signed_in(user).get(reverse("approvals:foreign", args=[head.key, ref_of(name)])))


def commands(head: store.HeadRow) -> list[str]:
    return [c.line for told in foreign.replies(head, foreign.requests(head)) for c in told.commands]


DELETE, SEND = (f"aaaa1111bbbb2222cccc3333dddd4444:{call}" for call in ("delete-1", "send-1"))
RESUME = {"decisions": [{"type": "approve"}, {"type": "reject", "message": "do not send"}]}


# -- a list of decisions, as a screen posts it ----------------------------------------------------------------------


@pytest.mark.parametrize("order", list(itertools.permutations([NO, YES])))
@pytest.mark.parametrize("sorting", ["name", "time", "risk"])
def test_no_order_of_the_cards_swaps_two_decisions_and_the_runtime_is_told_in_its_own(
    people: Any, asks: store.HeadRow, order: Any, sorting: str
) -> None:
    keys = {
        "name": lambda d: d["call"],
        "time": lambda d: list(prints(asks)).index(d["call"]),
        "risk": lambda d: d["type"],
    }
    listed = sorted(order, key=keys[sorting])
    for cards in (listed, listed[::-1]):
        if decided(asks):
            continue
        answer = post(people["bob"], asks, seen(asks, *cards))
        assert answer.status_code == 200, answer.content
    shown = prints(asks)
    assert decided(asks) == [
        ("delete-1", "approve", "bob", None, shown["delete-1"]),
        ("send-1", "reject", "bob", "do not send", shown["send-1"]),
    ]
    code, curl = commands(store.head(asks.id))
    assert code == f'graph.invoke(Command(resume={RESUME!r}), {{"configurable": {{"thread_id": \'t-14\'}}}})'
    assert json.loads(shlex.split(curl)[-1]) == {"assistant_id": "ASSISTANT", "command": {"resume": RESUME}}


@pytest.mark.parametrize(
    ("given", "code", "says"),
    [
        (lambda h: [{"type": "reject", "message": "do not send"}, {"type": "approve"}], "MalformedRequest", "must name its call and the fingerprint seen"),
        (lambda h: [NO, YES], "MalformedRequest", "must name its call and the fingerprint seen"),
        (lambda h: seen(h, NO), "MalformedRequest", "nothing is said about delete-1"),
        (lambda h: [*seen(h, NO, YES), {**YES, "call": "third-1", "fingerprint": "sha256:x"}], "MalformedRequest", "no open request 'third-1'"),
        (lambda h: seen(h, NO, YES, YES), "MalformedRequest", "'delete-1' is decided twice"),
        (lambda h: seen(h, YES, {**NO, "type": "edit", "edited_action": {"name": "delete_file", "args": {"path": "/srv/everything"}}}), "MalformedRequest", "may change arguments only"),
        (lambda h: seen(h, NO, {**YES, "type": "edit", "edited_action": {"name": "delete_file", "args": {}}}), "MalformedRequest", "'edit' is not allowed about 'delete-1'"),
        (lambda h: seen(h, YES, {**NO, "type": "send_back"}), "MalformedRequest", "'send_back' is not allowed about 'send-1'"),
        (lambda h: [*seen(h, NO), {**YES, "fingerprint": "sha256:old"}], "StaleView", "is not what it asks for now"),
        (lambda h: seen(h, YES, {**NO, "message": ""}), "MalformedRequest", "say why"),
    ],
)  # fmt: skip
def test_a_list_that_does_not_fit_stores_nothing(
    people: Any, asks: store.HeadRow, given: Any, code: str, says: str
) -> None:
    answer = post(people["bob"], asks, given(asks)).json()["error"]
    assert (answer["code"], decided(asks), Approval.objects.count()) == (code, [], 0)
    assert says in answer["message"]


def test_an_edit_is_told_as_a_no_with_what_to_ask_for(people: Any, asks: store.HeadRow) -> None:
    edit = {"name": "send_email", "args": {"to": "other@example.test"}}
    posted = seen(asks, YES, {"call": "send-1", "type": "edit", "edited_action": edit, "message": "to her"})
    assert post(people["bob"], asks, posted).status_code == 200
    assert [d[:2] for d in decided(asks)] == [("delete-1", "approve"), ("send-1", "send_back")]
    told = json.loads(shlex.split(commands(store.head(asks.id))[1])[-1])["command"]["resume"]["decisions"]
    assert told[0] == {"type": "approve"}
    assert told[1] == {
        "type": "reject",
        "message": f"to her {json.dumps({'tool': 'send_email', 'args': edit['args']})}",
    }


def test_two_requests_with_one_call_id_are_told_apart_by_their_names(people: Any) -> None:
    made = json.loads(thread())
    for call in made["values"]["messages"][0]["tool_calls"]:
        call["id"] = "same"
    made["tasks"][0]["interrupts"][0]["value"]["action_requests"][1]["name"] = "delete_file"
    made["values"]["messages"][0]["tool_calls"][1]["name"] = "delete_file"
    head = bring(json.dumps(made))
    asked = foreign.requests(head)
    assert len({r.name for r in asked}) == len({r.approval.fingerprint for r in asked}) == len(asked)
    posted = [{"call": "same", "type": "approve", "fingerprint": r.approval.fingerprint} for r in asked]
    assert post(people["bob"], head, posted).json()["error"]["code"] == "MalformedRequest"
    assert decided(head) == []


# -- pages ----------------------------------------------------------------------------------------------------------


def test_an_open_request_stands_in_the_inbox_and_on_the_run_as_of_another_runtime(
    people: Any, asks: store.HeadRow
) -> None:
    bob = signed_in(people["bob"])
    inbox = text(bob.get("/approvals/"))
    assert "delete_file of LangGraph" in inbox
    assert "mine to decide 2" in inbox
    assert "all 2 together" in inbox
    assert queries.count_for(people["bob"]) == 2
    assert queries.count_for(people["vera"]) == 0
    run = bob.get(f"/runs/{asks.key}/approvals/")
    assert reverse("approvals:foreign", args=[asks.key, ref_of(DELETE)]) in run.content.decode()
    assert "Decide 2 open requests together" in text(run)
    shown = page(people["bob"], asks, DELETE)
    for words in ("/srv/report-a.csv", "This run lives in LangGraph", "Drainboard sends nothing", "tool schema not in the export", "What its runtime asks for is not known", "Record approve: delete_file("):  # fmt: skip
        assert words in shown
    assert "Record send back" not in shown  # the runtime does not take it


def test_one_decision_is_recorded_and_waits_for_the_others_that_the_runtime_takes_with_it(
    people: Any, asks: store.HeadRow
) -> None:
    bob = signed_in(people["bob"])
    at = reverse("approvals:foreign_decision", args=[asks.key, ref_of(DELETE)])
    told = text(
        bob.post(at, {"decision": "approve", "fingerprint": prints(asks)["delete-1"], "shown": "x"}, follow=True)
    )
    assert "Still undecided: send_email" in told
    assert commands(store.head(asks.id)) == []
    at = reverse("approvals:foreign_decision", args=[asks.key, ref_of(SEND)])
    told = text(
        bob.post(
            at,
            {"decision": "reject", "comment": "do not send", "fingerprint": prints(asks)["send-1"], "shown": "x"},
            follow=True,
        )
    )
    assert "Now tell LangGraph" in told
    assert '"decisions":[{"type":"approve"},{"type":"reject","message":"do not send"}]' in told
    run = text(bob.get(f"/runs/{asks.key}/"))
    assert "its runtime to be told: delete_file approved by bob" in run
    assert "2 decisions recorded here, not told to its runtime" in run
    assert "Command(resume=" in run
    assert "its runtime is to be told: rejected by bob: do not send" in run  # the step waits on


def test_a_decision_that_the_runtime_does_not_take_is_refused(people: Any, asks: store.HeadRow) -> None:
    at = reverse("approvals:foreign_decision", args=[asks.key, ref_of(DELETE)])
    form = {"decision": "send_back", "comment": "later", "fingerprint": prints(asks)["delete-1"], "shown": "x"}
    answer = signed_in(people["bob"]).post(at, form)
    assert (answer.status_code, decided(asks)) == (400, [])
    assert "does not take 'send_back' about" in text(answer)


def test_the_second_person_is_told_who_was_first(people: Any, asks: store.HeadRow) -> None:
    post(people["bob"], asks, seen(asks, NO, YES))
    shown = {"decision": "reject", "comment": "no", "fingerprint": prints(asks)["delete-1"], "shown": "x"}
    answer = signed_in(people["dora"]).post(
        reverse("approvals:foreign_decision", args=[asks.key, ref_of(DELETE)]), shown
    )
    assert answer.status_code == 409
    assert "Somebody was first; your decision was not recorded" in text(answer)
    assert "approved already by bob at" in text(answer)
    again = post(people["dora"], asks, seen(asks, NO, YES)).json()["error"]
    assert (again["code"], again["detail"]["by"]) == ("AlreadyDecided", "bob")
    assert len(decided(asks)) == 2


def test_the_form_of_all_cards_posts_without_javascript(people: Any, asks: store.HeadRow) -> None:
    bob = signed_in(people["bob"])
    at = f"/approvals/{asks.key}/decisions/"
    form = bob.get(at).content.decode()
    cards = re.findall(r'name="card" value="(\w+)"', form)
    assert cards == [ref_of(DELETE), ref_of(SEND)]
    fields = {"card": cards[::-1]} | {n: v for n, v in re.findall(r'name="(fingerprint-\w+)" value="([^"]+)"', form)}
    half = bob.post(at, {**fields, f"decision-{ref_of(SEND)}": "reject", f"comment-{ref_of(SEND)}": "do not send"})
    assert half.status_code == 400
    assert "nothing is said about delete-1" in text(half)
    assert "do not send</textarea>" in half.content.decode()  # what was typed is kept
    assert 'value="reject" required checked' in half.content.decode()
    both = {
        **fields,
        f"decision-{ref_of(SEND)}": "reject",
        f"comment-{ref_of(SEND)}": "do not send",
        f"decision-{ref_of(DELETE)}": "approve",
    }
    done = text(bob.post(at, both, follow=True))
    assert "2 decisions recorded here. Now tell LangGraph." in done
    assert "Command(resume=" in done
    assert [d[:2] for d in decided(asks)] == [("delete-1", "approve"), ("send-1", "reject")]


def test_the_form_refuses_other_arguments_that_are_no_plain_json(people: Any, asks: store.HeadRow) -> None:
    at, delete, send = f"/approvals/{asks.key}/decisions/", ref_of(DELETE), ref_of(SEND)
    fields = {
        "card": [delete, send],
        **{f"fingerprint-{ref_of(r.name)}": r.approval.fingerprint for r in foreign.requests(asks)},
    }
    marked = {f"decision-{delete}": "approve", f"decision-{send}": "edit"}
    for args, says in (('{"to": 1, "to": 2}', "more than one way"), ("{", "is not JSON")):
        answer = signed_in(people["bob"]).post(at, {**fields, **marked, f"args-{send}": args})
        assert (answer.status_code, decided(asks)) == (400, [])
        assert says in text(answer)
    answer = signed_in(people["bob"]).post(
        at, {**fields, **marked, f"args-{send}": '{"to": "other@example.test"}'}, follow=True
    )
    assert [d[:2] for d in decided(asks)] == [("delete-1", "approve"), ("send-1", "send_back")]


def test_who_may_not_decide_is_told_why_and_nothing_is_recorded(people: Any, asks: store.HeadRow) -> None:
    form = {"decision": "approve", "fingerprint": prints(asks)["delete-1"], "shown": "x"}
    answer = signed_in(people["alice"]).post(
        reverse("approvals:foreign_decision", args=[asks.key, ref_of(DELETE)]), form
    )
    assert (answer.status_code, decided(asks)) == (403, [])
    assert post(people["alice"], asks, seen(asks, NO, YES)).status_code == 403
    assert "You cannot decide this: this needs the role approver" in page(people["vera"], asks, DELETE)
    assert "Record these decisions" not in text(signed_in(people["vera"]).get(f"/approvals/{asks.key}/decisions/"))


def test_a_policy_here_holds_for_requests_of_other_runtimes_too(people: Any, asks: store.HeadRow) -> None:
    Policy.objects.create(agent=asks.agent, tool="delete_file", version=1, needed=2, created_by="dora")
    at = reverse("approvals:foreign_decision", args=[asks.key, ref_of(DELETE)])
    form = {"decision": "approve", "fingerprint": prints(asks)["delete-1"], "shown": "x"}
    assert "it needs 1 more" in text(signed_in(people["bob"]).post(at, form, follow=True))
    assert decided(asks) == []
    assert "have decided about this already" in text(signed_in(people["bob"]).post(at, form))
    signed_in(people["dora"]).post(at, form)
    assert [d[:2] for d in decided(asks)] == [("delete-1", "approve")]


def test_the_inbox_asks_as_often_for_ten_runs_as_for_one(people: Any, django_assert_max_num_queries: Any) -> None:
    rows = []
    for n in range(10):
        state = {"id": "s", "kind": "note", "name": "runtime.state", "out": {"status": "parked", "complete": False}}
        rows += [
            {"run": f"r-{n}", **e}
            for e in ({"seq": 1, "kind": "run.started", "agent": f"a{n}"}, {**ASKED, "artifact": n}, state)
        ]
    raw = "\n".join(map(json.dumps, rows)).encode()
    made = ingest.submit(
        [Found("r.jsonl", len(raw), lambda: io.BytesIO(raw))], actor="person:alice", format="lines", source="x"
    )
    ingest.run(made.id)
    projection.catch_up()
    bob = signed_in(people["bob"])
    with django_assert_max_num_queries(24):
        assert "mine to decide 10" in text(bob.get("/approvals/"))


# -- what cannot be decided -----------------------------------------------------------------------------------------


def lines(*entries: dict[str, Any] | str) -> store.HeadRow:
    """A run of plain journal lines that asks for an approval."""
    start = {"run": "r-1", "seq": 1, "kind": "run.started", "agent": "payer", "build": "1"}
    state = {
        "run": "r-1",
        "id": "state",
        "kind": "note",
        "name": "runtime.state",
        "out": {"status": "parked", "complete": False},
    }
    rows = [e if isinstance(e, str) else json.dumps({"run": "r-1", **e}) for e in (start, *entries, state)]
    return bring("\n".join(rows), format="lines", path="r.jsonl")


ASKED = {
    "seq": 2,
    "kind": "approval.requested",
    "approval": "a1",
    "name": "Pay",
    "step": 1,
    "artifact": {"tool": "pay", "args": {"cents": 1}},
}


@pytest.mark.parametrize(
    ("artifact", "says"),
    [
        ('{"tool":"pay","args":{"cents":1,"cents":2}}', "cents"),
        ('{"tool":"pay","args":{"cents":NaN}}', "ambiguous"),
        ('{"tool":"pay","args":{"cents":1e999}}', "ambiguous"),
        ('{"tool":"pay","args":{"cents":9007199254740993}}', "ambiguous"),
        ('{"tool":"pay","args":{"to":"\\ud800"}}', "ambiguous"),
    ],
)
def test_a_request_with_two_readings_is_shown_and_not_decided(people: Any, artifact: str, says: str) -> None:
    raw = json.dumps({"run": "r-1", **ASKED, "artifact": "HERE"}).replace('"HERE"', artifact)
    head = lines(raw)
    shown = page(people["bob"], head, "a1")
    assert "Nobody can decide this here" in shown
    assert says in shown
    form = {"decision": "approve", "fingerprint": "sha256:x", "shown": "x"}
    answer = signed_in(people["bob"]).post(reverse("approvals:foreign_decision", args=[head.key, ref_of("a1")]), form)
    assert (answer.status_code, decided(head)) == (400, [])
    listed = post(people["bob"], head, [{"approval": "a1", "type": "approve", "fingerprint": ""}]).json()["error"]
    assert listed["code"] == "AmbiguousArtifact"


def test_hidden_characters_are_marked_and_must_be_seen(people: Any) -> None:
    head = lines({**ASKED, "artifact": {"tool": "pay", "args": {"to": "bob\u202e"}}})
    assert "U+202E" in page(people["bob"], head, "a1").upper() or "202E" in page(people["bob"], head, "a1").upper()
    at = reverse("approvals:foreign_decision", args=[head.key, ref_of("a1")])
    form = {"decision": "approve", "fingerprint": prints(head)["a1"], "shown": "x"}
    assert signed_in(people["bob"]).post(at, form).status_code == 403
    assert decided(head) == []
    assert signed_in(people["bob"]).post(at, {**form, "saw_hidden": "on"}).status_code == 302


def test_a_request_whose_time_is_over_by_its_source_is_not_decided(people: Any) -> None:
    head = lines({**ASKED, "until": "2026-01-01T00:00:00Z"})
    at = reverse("approvals:foreign_decision", args=[head.key, ref_of("a1")])
    answer = signed_in(people["bob"]).post(at, {"decision": "approve", "fingerprint": prints(head)["a1"], "shown": "x"})
    assert "by its source the time to decide ended at 2026-01-01" in text(answer)
    assert decided(head) == []


def test_the_person_whom_the_agent_acts_for_does_not_decide(people: Any) -> None:
    head = lines({**ASKED, "requested_by": "bob"})
    assert "cannot approve (four eyes)" in page(people["bob"], head, "a1")
    assert queries.count_for(people["bob"]) == 0
    assert queries.count_for(people["dora"]) == 1


def test_a_wait_that_only_the_state_names_can_be_decided(people: Any) -> None:
    state = {"id": "s1", "kind": "note", "name": "runtime.state", "out": {"status": "parked", "complete": False, "pending": [], "waiting": [{"what": "approval:pay/1", "step": 2}]}}  # fmt: skip
    start = {"seq": 1, "kind": "run.started", "agent": "payer", "build": "1"}
    head = bring("\n".join(json.dumps({"run": "r-1", **e}) for e in (start, state)), format="lines", path="r.jsonl")
    (asked,) = foreign.requests(head)
    assert (asked.name, asked.open, asked.artifact) == ("pay/1", True, None)
    at = reverse("approvals:foreign_decision", args=[head.key, asked.ref])
    form = {"decision": "approve", "fingerprint": asked.approval.fingerprint, "shown": "x"}
    assert "No command is known that answers it" in text(signed_in(people["bob"]).post(at, form, follow=True))
    assert Run.objects.get().findings == ["versions_missing"] or "approval_too_early" not in Run.objects.get().findings


@pytest.mark.parametrize(
    ("runtime", "capture", "waits", "word", "no"),
    [
        (
            "restate",
            "c_parked_awakeable.json",
            "awakeable 17 of refund",
            "awakeables/sign_1cRix_EBfwgSE_QV1DmPraMFO0zvaZuHxAAAAEQ/resolve",
            "/reject",
        ),
        (
            "aws",
            "c_parked_callback.json",
            "human approval of refund",
            "send-durable-execution-callback-success --callback-id eyJh",
            "callback-failure",
        ),
        (
            "cloudflare",
            "approval.json",
            "wait for human approval of refund (event_type refund-appr",
            "send-event WORKFLOW approval-55739 --type refund-approval",
            '"approved":false',
        ),
    ],
)
def test_a_captured_run_that_waits_has_its_request_and_its_call(
    people: Any, runtime: str, capture: str, waits: str, word: str, no: str
) -> None:
    head = parked(runtime, capture)
    (asked,) = foreign.requests(head)
    assert asked.open
    at = reverse("approvals:foreign_decision", args=[head.key, asked.ref])
    shown = signed_in(people["bob"]).get(at.removesuffix("decision/")).content.decode()
    button = shown.partition('value="approve">')[2].partition("</button>")[0]
    assert button.startswith(f"Record approve: {waits}")
    assert "sign_1" not in button
    form = {"decision": "approve", "fingerprint": asked.approval.fingerprint, "shown": "x"}
    assert signed_in(people["bob"]).post(at, form).status_code == 302
    (line,) = commands(store.head(head.id))
    assert word in line
    (refused,) = controls.replies(head, [dataclasses.replace(foreign._answer(asked), decision="reject", comment="no")])
    assert no in refused.commands[0].line
    Approval.objects.all().delete()
    (asked,) = foreign.requests(store.head(head.id))
    assert (asked.open, asked.here is not None) == (False, True)  # the journal says so, whatever rows there are
    second = signed_in(people["dora"]).post(at, {**form, "decision": "reject", "comment": "no"})
    assert (second.status_code, len(decided(head))) == (409, 1)
    assert "a decision already: approve by bob" in text(second)


def parked(runtime: str, capture: str) -> store.HeadRow:
    """The captured run up to the state in which it waits for an answer."""
    from journals.adapters import ADAPTERS
    from journals.adapters.base import InputFile, Line, Options

    folder = Path(__file__).parent.parent / "fixtures" / "adapters" / runtime
    path = next(p for p in folder.rglob(f"{capture}*"))
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    made = [x for x in ADAPTERS[runtime].read([InputFile.of(capture, raw)], Options()) if isinstance(x, Line)]
    state = next(x for x in made if x.raw.count(b'"approval:') and b'"runtime.state"' in x.raw)
    ends = (b'"approval.decided"', b'"approval.delivered"', b'"run.completed"', b'"runtime.state"')
    items = [
        store.Foreign(
            run=x.run,
            id=json.loads(x.raw)["id"],
            seq=json.loads(x.raw).get("seq"),
            kind=json.loads(x.raw)["kind"],
            raw=x.raw,
            record=x.record,
        )
        for x in made
        if x.run == state.run and (x is state or not any(e in x.raw for e in ends))
    ]
    store.ingest(
        source_name="there",
        runtime=runtime,
        import_id=None,
        actor="import:1",
        agent="refund",
        environment="prod",
        items=items,
    )
    projection.catch_up()
    return store.head(Run.objects.get(native=False).head_id)


def test_a_wait_for_a_signal_that_asks_for_an_approval_is_a_request_and_the_signal_its_answer(people: Any) -> None:
    wait = {"what": "signal:RefundApproval", "step": 4, "until": "2999-01-01T00:00:00Z"}
    out = {"status": "parked", "complete": False, "pending": [], "waiting": [wait, {"what": "signal:paid"}]}
    start = {"id": "1", "kind": "run.started", "agent": "refund"}
    state = {"id": "s1", "kind": "note", "name": "runtime.state", "out": {**out, "as_of": "2026-01-01T00:00:00Z"}}
    came = {"id": "2", "kind": "signal.received", "name": "RefundApproval", "step": 4, "out": True}
    after = {
        "id": "s2",
        "kind": "note",
        "name": "runtime.state",
        "out": {**out, "waiting": [], "status": "running", "as_of": "2026-01-02T00:00:00Z"},
    }

    def bring_task(*entries: dict[str, Any]) -> store.HeadRow:
        items = [
            store.Foreign(
                run="t-1",
                id=e["id"],
                seq=None,
                kind=e["kind"],
                raw=json.dumps({"run": "t-1", **e}).encode(),
                record="r",
            )
            for e in entries
        ]
        store.ingest(
            source_name="hub",
            runtime="durabletask",
            import_id=None,
            actor="import:1",
            agent="refund",
            environment="",
            items=items,
        )
        projection.catch_up()
        return store.head(Run.objects.get(native=False).head_id)

    head = bring_task(start, state)
    (asked,) = foreign.requests(head)
    assert (asked.name, asked.open) == ("RefundApproval", True)
    at = reverse("approvals:foreign_decision", args=[head.key, asked.ref])
    form = {"decision": "approve", "fingerprint": asked.approval.fingerprint, "shown": "x"}
    assert "instances/t-1/raiseEvent/RefundApproval?code=KEY" in text(
        signed_in(people["bob"]).post(at, form, follow=True)
    )
    bring_task(came, after)
    (asked,) = foreign.requests(store.head(head.id))
    assert (asked.open, asked.there, asked.differs) == (False, "", None)
    assert not {"approval_not_used", "approval_too_early", "approval_mismatch"} & set(Run.objects.get().findings)


# -- what the runtime did -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("here", "there", "severity"),
    [
        ("reject", {"kind": "approval.decided", "decision": "approve", "by": "carl"}, "error"),
        ("approve", {"kind": "approval.decided", "decision": "reject"}, "warning"),
        ("approve", {"kind": "approval.expired"}, "warning"),
        ("approve", {"kind": "approval.decided", "decision": "approve"}, None),
        ("reject", {"kind": "approval.decided", "decision": "reject"}, None),
        ("send_back", {"kind": "approval.decided", "decision": "reject"}, None),
        ("reject", {"kind": "approval.expired"}, None),
        ("reject", {"kind": "approval.decided"}, None),  # an answer, and the export does not say which
    ],
)
def test_a_later_import_shows_whether_the_runtime_got_the_same(
    people: Any, here: str, there: dict[str, Any], severity: str | None
) -> None:
    head = lines(ASKED)
    at = reverse("approvals:foreign_decision", args=[head.key, ref_of("a1")])
    form = {"decision": here, "comment": "because", "fingerprint": prints(head)["a1"], "shown": "x"}
    assert signed_in(people["bob"]).post(at, form).status_code == 302
    lines(ASKED, {"seq": 3, "approval": "a1", "step": 1, **there})
    run = Run.objects.get()
    found = {f["code"]: f["severity"] for f in run.summary["findings"]}
    assert found.get("approval_mismatch") == severity
    assert "approval_ambiguous" not in found
    assert ("approval_not_used" in found) == (
        there.get("decision") == "approve"
    )  # the runtime records no use of its yes
    shown = page(people["bob"], head, "a1")
    assert ("here it was decided otherwise" in shown) == (severity is not None)
    assert "Now tell" not in shown  # the runtime has its answer


def test_what_the_runtime_answered_itself_is_no_longer_open(people: Any) -> None:
    head = lines(ASKED)
    print_ = prints(head)["a1"]
    lines(
        ASKED, {"seq": 3, "kind": "approval.decided", "approval": "a1", "step": 1, "decision": "approve", "by": "carl"}
    )
    at = reverse("approvals:foreign_decision", args=[head.key, ref_of("a1")])
    answer = signed_in(people["bob"]).post(
        at, {"decision": "reject", "comment": "no", "fingerprint": print_, "shown": "x"}
    )
    assert (answer.status_code, decided(head)) == (302, [])  # to the run's page, where the runtime's word stands
    assert "No request is open" in text(signed_in(people["bob"]).get("/approvals/?view=open"))


def test_who_decided_here_and_whom_the_runtime_names_both_stand_on_the_pages(people: Any) -> None:
    head = bring(data("c-approval.parked.tables.json"))
    (asked,) = foreign.requests(head)
    at = reverse("approvals:foreign_decision", args=[head.key, asked.ref])
    print_ = asked.approval.fingerprint
    form = {"decision": "approve", "fingerprint": print_, "shown": print_}
    groups = [g.name for g in overview.attention("", timezone.now())]
    assert ("approval" in groups, "to_tell" in groups) == (True, False)
    assert signed_in(people["bob"]).post(at, form).status_code == 302
    projection.catch_up()
    groups = [g.name for g in overview.attention("", timezone.now())]
    assert ("approval" in groups, "to_tell" in groups) == (False, True), "nobody is asked again"
    bring(data("c-approval.approved.tables.json"))
    http = signed_in(people["bob"])
    for address in (f"/runs/{head.key}/approvals/", asked.approval.get_absolute_url(), f"/runs/{head.key}/decisions/"):
        answer = http.get(address)
        shown = text(answer)
        assert "bob" in shown.partition("Sign out")[2], address
        assert re.search(r"alice@example\.com.{0,60}says its runtime", shown), address
        assert print_ in answer.content.decode(), address
