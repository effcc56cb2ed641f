"""The forms in which executions are exported: three spellings of times, pages, lists, states, and which answers belong together."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from journals.adapters import aws
from journals.adapters.base import InputFile, Note, Partial, Refused, Unread

from .aws_captures import ARN, BEGUN, capture, dump, events, execution, history, read, respelled

DONE = events(
    ("StepStarted", "a", "charge"),
    ("StepSucceeded", "a", "charge", {"Result": {"Payload": '{"ok":true}', "Truncated": False}}),
    ("WaitStarted", "b", "cool off", {"Duration": 60, "ScheduledEndTimestamp": BEGUN + 64.25}),
    ("WaitSucceeded", "b", "cool off", {"Duration": 60}),
    ("InvocationCompleted", None, None, {"StartTimestamp": BEGUN, "EndTimestamp": BEGUN + 6.5, "RequestId": "r"}),
    ("ExecutionSucceeded", "0a1b2c3d", "order-9", {"Result": {"Payload": '"done"', "Truncated": False}}),
)
WHOLE = read(("run.json", dump(execution("SUCCEEDED", EndTimestamp=BEGUN + 7), history(DONE))))


@pytest.mark.parametrize("how", [{}, {"hours": 2}, {"blank": " "}])
def test_the_api_the_command_line_and_boto3_give_equal_lines(how: dict[str, Any]) -> None:
    for name in ("a_succeeded", "c_parked_callback"):
        spelled = json.dumps(respelled(json.loads(capture(name)), **how)).encode()
        assert [x.raw for x in read((name, spelled)).lines] == [x.raw for x in read((name, capture(name))).lines]


def test_a_time_without_an_offset_is_no_time() -> None:
    given = events(("StepStarted", "a", "charge"))
    given[1]["EventTimestamp"] = "2027-01-15T08:00:02"
    entry = read(("run.json", dump(execution(), history(given)))).entry("2")
    assert "at" not in entry
    assert entry["aws"]["EventTimestamp"] == "2027-01-15T08:00:02"


@pytest.mark.parametrize("shape", ["documents", "array", "wrapped", "merged", "files", "files of one name"])
def test_a_description_names_the_history_beside_it(shape: str) -> None:
    facts, told = execution("SUCCEEDED", EndTimestamp=BEGUN + 7), history(DONE)
    files = {
        "documents": [("x.json", dump(told, facts))],
        "array": [("x.json", dump([facts, told]))],
        "wrapped": [("x.json", dump({"deep": {"est": {"d": facts, "h": told}}, "by": "me"}))],
        "merged": [("x.json", dump({**facts, **told}))],
        "files": [("h.json", dump(told)), ("list.json", dump({"DurableExecutions": [facts]}))],
        "files of one name": [("r.history.json", dump(told["Events"])), ("r.execution.json", dump(facts))],
    }[shape]
    assert read(*files).raws == WHOLE.raws


def test_a_description_is_known_before_its_status_is_read() -> None:
    big = {"DurableExecutionArn": ARN, "InputPayload": "x" * 100_000, "Status": "RUNNING"}
    assert aws.sniff([InputFile.of("x.json", dump(big))]) > 0.9
    assert aws.sniff([InputFile.of("x.json", dump({"DurableExecutions": []}))]) > 0.9


def test_a_history_alone_says_what_to_add() -> None:
    (refused,) = read(("run.json", dump(history(DONE)))).of(Refused)
    assert "get-durable-execution" in refused.reason
    other = execution("SUCCEEDED", DurableExecutionArn="x/y", DurableExecutionName="another", StartTimestamp=BEGUN + 1)
    made = read(("a.json", dump(other)), ("run.json", dump(history(DONE))))
    assert [r.path for r in made.of(Refused)] == ["run.json"]
    assert made.runs == ["x/y"]
    one = read(("run.json", dump(other, history(DONE))))
    assert one.runs == ["x/y"]
    assert [u.reason for u in one.of(Unread)] == [refused.reason]


def test_pages_of_one_history_are_one_history() -> None:
    facts = execution("SUCCEEDED", EndTimestamp=BEGUN + 7)
    first, second, third = history(DONE[:3], NextMarker="m"), history(DONE[3:5], NextMarker="n"), history(DONE[5:])
    made = read(
        ("run.json", dump(facts)),
        ("run-1.json", dump(first)),
        ("run-10.json", dump(third)),
        ("run-2.json", dump(second)),
    )
    assert sorted(made.raws) == sorted(WHOLE.raws)
    assert made.state() == WHOLE.state()
    assert made.of(Partial) == []
    one = read(("run.json", dump(facts, first, second, third)))
    assert one.raws == WHOLE.raws


def test_a_page_inside_a_whole_history_takes_nothing_from_it() -> None:
    facts = execution("SUCCEEDED", EndTimestamp=BEGUN + 7)
    made = read(
        ("run.json", dump(facts)),
        ("run-1.json", dump(history(DONE[:3], NextMarker="m"))),
        ("run-2.json", dump(history(DONE))),
    )
    assert (made.of(Partial), made.states()) == ([], [WHOLE.state()])
    apart = dump({"one": [execution(), history(DONE[:3], NextMarker="m")], "two": [facts, history(DONE)]})
    first, last = read(("run.json", apart)).states()
    assert (first["held"]["seqs"], last["held"]["seqs"]) == ("1-3", "1-7")


def test_the_reverse_order_is_the_same_history() -> None:
    made = read(("run.json", dump(execution("SUCCEEDED", EndTimestamp=BEGUN + 7), history(DONE[::-1]))))
    assert made.raws == WHOLE.raws
    assert made.state()["held"]["whole"] is True


def test_a_page_that_is_missing_is_missed() -> None:
    facts = execution("SUCCEEDED", EndTimestamp=BEGUN + 7)
    behind = read(("run.json", dump(facts, history(DONE[:3], NextMarker="m"))))
    before = read(("run.json", dump(facts, history(DONE[:3:-1], NextMarker="m"))))
    middle = read(("run.json", dump(facts, history(DONE[:2]), history(DONE[4:], NextMarker="m"))))
    assert [p.code for p in behind.of(Partial)] == ["torn_tail"]
    assert [p.code for p in before.of(Partial)] == ["missing_entry"]
    assert [p.code for p in middle.of(Partial)] == ["missing_entry"]
    for made in (behind, before, middle):
        state = made.state()
        assert (state["complete"], state["held"]["whole"], "pending" in state) == (False, False, False)
        assert state["partial"]
        assert made.of(Partial)[0].runs == (ARN,)


def test_a_list_tells_only_where_runs_stand() -> None:
    rows = [
        execution("RUNNING"),
        execution("FAILED", DurableExecutionArn="x/y", DurableExecutionName="z"),
        {"Status": "RUNNING"},
    ]
    made = read(("list.json", dump({"DurableExecutions": rows, "NextMarker": "more"})))
    assert {r: made.state(r)["status"] for r in made.runs} == {ARN: "running", "x/y": "failed"}
    assert all("only the execution's status" in made.state(r)["partial"] for r in made.runs)
    assert not any(made.state(r)["complete"] or "pending" in made.state(r) for r in made.runs)
    assert (made.entry("listed")["agent"], made.entry("listed")["at"]) == ("refund", "2027-01-15T08:00:00Z")
    assert ["DurableExecutionArn" in u.reason for u in made.of(Unread)] == [True]


def test_a_history_without_data_adds_nothing_to_one_with_data() -> None:
    bare = [{**e, **{k: {} for k in e if k.endswith("Details") and k[0] in "SE"}} for e in DONE]
    facts = execution("SUCCEEDED", EndTimestamp=BEGUN + 7)
    both = read(("a.json", dump(facts, history(bare))), ("b.json", dump(facts, history(DONE))))
    assert both.raws == WHOLE.raws
    assert "3 records are here without their data" in both.notes
    alone = read(("a.json", dump(facts, history(bare))))
    assert alone.state()["held"]["form"] == "history without data"
    assert "out" not in alone.entry("3")


def test_a_later_export_repeats_the_lines_of_an_earlier_one() -> None:
    for n in range(1, len(DONE) + 1):
        early = read(("run.json", dump(execution(), history(DONE[:n]))))
        assert early.raws == WHOLE.raws[:n]


def test_a_history_that_was_changed_is_kept_beside_the_old_one() -> None:
    other = json.loads(json.dumps(DONE).replace("charge", "refund"))
    old, new = {"d": execution(), "h": history(DONE)}, {"d": execution(), "h": history(other)}
    made = read(("run.json", dump({"before": old, "after": new})))
    assert [e["name"] for e in made.entries() if e["id"] == "2"] == ["charge", "refund"]


def test_operations_of_a_state_are_steps_without_event_ids() -> None:
    state = {
        "Operations": [
            {
                "Id": "x",
                "Type": "EXECUTION",
                "Status": "STARTED",
                "StartTimestamp": BEGUN,
                "ExecutionDetails": {"InputPayload": "{}"},
            },
            {
                "Id": "a",
                "Type": "STEP",
                "Name": "charge",
                "Status": "SUCCEEDED",
                "StepDetails": {"Attempt": 2, "Result": "5"},
            },
            {
                "Id": "b",
                "Type": "STEP",
                "Name": "send",
                "Status": "STARTED",
                "StartTimestamp": BEGUN + 2,
                "StepDetails": {"Attempt": 1},
            },
            {"Id": "c", "Type": "NEW", "Status": "STARTED"},
        ]
    }
    made = read(("run.json", dump(execution(), state)))
    assert [(e["id"], e["kind"], e.get("attempt")) for e in made.entries()[:-1]] == [
        ("op:x:started", "run.started", None),
        ("op:a:2:started", "tool.started", 2),
        ("op:a:2:succeeded", "tool.result", 2),
        ("op:b:1:started", "tool.started", 1),
    ]
    assert not any("seq" in e for e in made.entries())
    assert [p["name"] for p in made.state()["pending"]] == ["send", None][:1]
    assert "1 operations of no known type" in made.notes
    with_history = read(("run.json", dump(execution(), state, history(DONE[:2]))))
    assert [e["id"] for e in with_history.entries()[:-1]] == ["1", "2"]


def test_order_of_files_and_events_does_not_matter() -> None:
    shuffled = list(DONE)
    random.Random(3).shuffle(shuffled)
    facts = execution("SUCCEEDED", EndTimestamp=BEGUN + 7)
    made = read(("b.json", dump(history(shuffled))), ("a.json", dump(facts)))
    assert made.raws == WHOLE.raws
    assert any("facts about" in n.text for n in made.of(Note) if n.path == "a.json")
