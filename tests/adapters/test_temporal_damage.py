"""Torn, damaged and odd files: what can be read is read, what cannot is named, and nothing of it looks whole or finished."""

from __future__ import annotations

import json
import random
import time

import pytest
from drainboard import wire

from journals.adapters.base import Counted, InputFile, Item, Line, Note, Partial, Refused, Unread
from tests.adapters.temporal_captures import data, event, history, items, lines, payload, raws, read, states

WHOLE = data("e-retry.done.show.json")
LINES = raws(read("e-retry.done.show.json"))


def checked(body: bytes, path: str = "x.json") -> list[Item]:
    """The items of one file, after the promises that hold for any bytes."""
    found = items([InputFile.of(path, body)])
    unread = [i for i in found if isinstance(i, Unread)]
    given = [i for i in found if isinstance(i, Line)]
    refused = [i for i in found if isinstance(i, Refused)]
    for line in given:
        assert wire.parse(line.raw).run == line.run
        assert wire.decode(line.raw)[1] == ()
    if refused:
        assert not given
    else:
        assert [i.lines for i in found if isinstance(i, Counted)] == [len(given) + len(unread)]
    for lost in unread:
        assert 0 <= lost.byte <= len(body)
        assert lost.line == body.count(b"\n", 0, lost.byte) + 1
        assert len(lost.start) <= 80
        assert lost.start.isprintable()
    return found


@pytest.mark.parametrize("cut", range(0, len(WHOLE), len(WHOLE) // 150))
def test_every_beginning_of_a_file_gives_a_beginning_of_its_lines(cut: int) -> None:
    found = checked(WHOLE[:cut])
    got = raws(found)
    assert got == LINES[: len(got)]
    assert got or [i for i in found if isinstance(i, Refused)]
    assert not [s for s in states(found) if s["complete"]]
    assert [i for i in found if isinstance(i, Refused)] or [i.code for i in found if isinstance(i, Partial)] == [
        "torn_tail"
    ]


def test_a_torn_file_names_the_event_that_it_ends_in() -> None:
    at = WHOLE.index(b'"eventId": "24"')
    found = checked(WHOLE[: at + 300])
    lost = next(i for i in found if isinstance(i, Unread))
    assert lost.reason == "the file ends inside this event"
    assert WHOLE[lost.byte : at].split() == [b"{"]
    assert [i.runs for i in found if isinstance(i, Partial)] == [
        ("refund-e-retry/01a22742-f831-7c42-ae6e-1988aff10c15",)
    ]
    assert len(lines(found)) == 23


def test_a_file_that_ends_between_two_events_is_torn_too() -> None:
    at = WHOLE.rindex(b"{", 0, WHOLE.index(b'"eventId": "24"'))
    found = checked(WHOLE[:at])
    assert [i.reason for i in found if isinstance(i, Partial)] == ["the file ends inside its list of events"]


@pytest.mark.parametrize("seed", range(300))
def test_no_mutation_stops_the_reader_or_makes_a_line_that_is_not_one(seed: int) -> None:
    rng = random.Random(seed)
    body = bytearray(
        WHOLE
        if seed % 3
        else history({"type": "TimerStarted", "timerId": "1"}, {"type": "TimerFired", "startedEventId": "2"})
    )
    for _ in range(rng.choice((1, 1, 1, 3, 12))):
        at = rng.randrange(len(body))
        what = rng.randrange(5)
        if what == 0:
            body[at] = rng.randrange(256)
        elif what == 1:
            del body[at : at + rng.choice((1, 7, 400))]
        elif what == 2:
            body[at:at] = rng.choice((b"{", b"}", b"[", b"]", b'"', b"\\", b"\0", b"\xff", b"NaN", b'"eventId":'))
        elif what == 3:
            body[at:at] = body[max(0, at - 300) : at]
        else:
            body[at : at + 3] = body[at : at + 3].swapcase()
    checked(bytes(body))


@pytest.mark.parametrize("seed", range(100))
def test_values_of_wrong_types_stop_nothing(seed: int) -> None:
    rng = random.Random(seed)
    body = json.loads(data("c-update.approved.show.json"))

    def spoil(value: object) -> object:
        if rng.random() < 0.02:
            return rng.choice(
                [None, 7, -1, "", "x", [], {}, [1], {"payloads": 3}, {"metadata": {"encoding": 5}}, True, 1.5]
            )
        if isinstance(value, dict):
            return {k: spoil(v) for k, v in value.items()}
        return [spoil(v) for v in value] if isinstance(value, list) else value

    body["events"] = [spoil(e) if rng.random() < 0.5 else e for e in body["events"]]
    checked(json.dumps(body).encode())


def test_one_damaged_event_costs_only_itself() -> None:
    at = WHOLE.index(b'"eventId": "9"') + 40
    found = checked(WHOLE[:at] + b"\x00" + WHOLE[at:])
    assert [e["id"] for e in lines(found)] == [wire.parse(raw).id for raw in LINES if wire.parse(raw).id != "9"]
    assert [(i.reason, i.code) for i in found if isinstance(i, Partial)] == [
        ("damaged: this event is not JSON", "missing_entry")
    ]
    assert states(found)[0]["complete"] is False


def test_a_lost_quote_costs_only_its_event() -> None:
    at = WHOLE.index(b'"eventId": "12"')
    found = checked(WHOLE[: at + 30] + WHOLE[at + 30 :].replace(b'"', b"", 1))
    assert len(lines(found)) == len(LINES) - 1


def test_a_hole_in_the_ids_is_not_whole() -> None:
    body = json.loads(WHOLE)
    del body["events"][10]
    told = states(checked(json.dumps(body).encode()))[0]
    assert (told["complete"], told["events"]["whole"]) == (False, False)


def test_reads_events_by_their_ids_and_says_when_they_stood_otherwise() -> None:
    body = json.loads(WHOLE)
    body["events"].reverse()
    found = checked(json.dumps(body).encode())
    assert raws(found) == LINES
    assert "order of their ids" in next(i.text for i in found if isinstance(i, Note))


def test_an_event_that_stands_twice_gives_the_same_line_twice() -> None:
    body = json.loads(WHOLE)
    body["events"].insert(24, body["events"][23])
    found = checked(json.dumps(body).encode())
    twice = [i for i in found if isinstance(i, Line) and wire.parse(i.raw).id == "24"]
    assert twice[0].raw == twice[1].raw
    assert "duplicate_entry" in twice[1].oddities
    assert list(dict.fromkeys(raws(found))) == LINES


def test_an_event_without_an_id_is_named_as_unread() -> None:
    body = json.loads(WHOLE)
    del body["events"][5]["eventId"]
    found = checked(json.dumps(body).encode())
    assert [i.reason for i in found if isinstance(i, Unread)] == ["an event without an eventId"]
    assert [i.code for i in found if isinstance(i, Partial)] == ["missing_entry"]


@pytest.mark.parametrize(("body", "reason"), [
    (b"", "no list of events"), (b"   \n", "no list of events"), (b"{}", "no list of events"), (b'{"events":[]}', "no event that could be read"),
    (b"Progress:\n ID", "prints for people"), (b"hello", "not JSON"), (b'{"events":[1,2]}', "not an event"), (b"[1,2,3]", "no list of events"),
    (b'{"events":[{"eventId":"5","eventType":"TimerFired"}]}', "begins at event 5"), (b'{"workflowExecutionInfo":{}}', "without its ids"),
    (b'\xff\xfe{\x00', "not JSON"), (b'{"history":{}}', "no list of events"), (b"{", "the file ends inside"),
])  # fmt: skip
def test_refuses_what_holds_no_history_and_says_why(body: bytes, reason: str) -> None:
    refused = [i.reason for i in checked(body) if isinstance(i, Refused)]
    assert reason in refused[0]


def test_a_file_cut_by_its_compression_is_partial() -> None:
    file = InputFile("x.json.gz", -1, InputFile.of("", WHOLE[:20_000]).open, cut="the gzip stream ends early")
    reasons = [i.reason for i in items([file]) if isinstance(i, Partial)]
    assert "the gzip stream ends early" in reasons


def test_a_file_made_to_be_slow_is_given_up_in_time() -> None:
    began = time.monotonic()
    checked(b'{"events":[' + b'{"eventId":' * 60_000)
    checked(b'{"events":[{"eventId":"1","eventType":"WorkflowExecutionStarted"},' + b'{"eventId":"2","x":"' * 60_000)
    checked(b"[" * 300_000)
    assert time.monotonic() - began < 10


def test_a_chain_of_causes_is_kept_to_its_end_or_as_text() -> None:
    deep = {"message": "root", "applicationFailureInfo": {"type": "Root"}}
    for n in range(60):
        deep = {"message": str(n), "activityFailureInfo": {}, "cause": deep}
    found = checked(history({"type": "WorkflowExecutionFailed", "failure": deep}))
    failed = next(e for e in lines(found) if e["kind"] == "run.failed")
    assert failed["error"]["root"] == {"type": "Root", "message": "root"}
    for n in range(200):
        deep = {"message": str(n), "activityFailureInfo": {}, "cause": deep}
    found = checked(history({"type": "WorkflowExecutionFailed", "failure": deep}))
    failed = next(i for i in found if isinstance(i, Line) and b'"run.failed"' in i.raw)
    assert failed.oddities == ("too_deep",)
    assert b"Root" in failed.raw


def test_awkward_ids_stay_byte_for_byte() -> None:
    name = " wf/ \u202e\u0000é\ud800 "
    events = [event(1, {"type": "WorkflowExecutionStarted", "workflowId": name, "originalExecutionRunId": "R"})]
    found = checked(json.dumps({"events": events}).encode())
    assert next(i.run for i in found if isinstance(i, Line)) == f"{name}/R"


def test_an_old_history_without_a_workflow_id_takes_it_from_a_describe_beside_it() -> None:
    body = json.loads(WHOLE)
    del body["events"][0]["workflowExecutionStartedEventAttributes"]["workflowId"]
    old = InputFile.of("old.json", json.dumps(body).encode())
    alone = {i.run for i in items([old]) if isinstance(i, Line)}
    assert alone == {"01a22742-f831-7c42-ae6e-1988aff10c15"}
    beside = items([old, InputFile.of("d.json", data("e-retry.done.describe.json"))])
    assert {i.run for i in beside if isinstance(i, Line)} == {"refund-e-retry/01a22742-f831-7c42-ae6e-1988aff10c15"}


def test_a_second_content_of_one_event_keeps_the_steps_in_place() -> None:
    step = {"type": "ActivityTaskScheduled", "activityId": "1", "activityType": {"name": "send"}, "input": payload(1)}
    body = json.loads(history(step, {**step, "activityId": "2"}))
    changed = json.loads(json.dumps(body["events"][1]).replace('"data": 1', '"data": 2'))
    body["events"].insert(2, changed)
    entries = [e for e in lines(checked(json.dumps(body).encode())) if e["kind"] == "tool.started"]
    assert [(e["id"], e["step"], e["in"]) for e in entries] == [("2", 1, 1), ("2", 1, 2), ("3", 2, 1)]
