"""Torn and damaged files, and records that are hard to read: what is whole is kept, what is not is named, nobody is calmed."""

from __future__ import annotations

import json
import random

import pytest

from journals.adapters.base import Partial, Refused, Unread

from .aws_captures import ARN, Read, capture, dump, events, execution, history, read

OVER = ("completed", "failed", "stopped", "cancelled")


@pytest.mark.parametrize("name", ["a_succeeded", "c_parked_callback"])
def test_a_file_torn_anywhere_keeps_what_is_whole_and_ends_no_run(name: str) -> None:
    whole = capture(name)
    lines = set(read((name, whole)).raws)
    for cut in random.Random(7).sample(range(1, len(whole)), 80):
        made = read((name, whole[:cut]))
        assert {raw for raw in made.raws if b'"id":"described"' not in raw} <= lines
        if made.of(Refused):
            continue
        if whole[:cut].strip() != whole.strip():
            assert made.of(Partial)
        torn = {run for p in made.of(Partial) for run in p.runs}
        for run in torn:
            assert made.state(run)["status"] not in OVER
            assert made.state(run)["complete"] is False
            assert "pending" not in made.state(run)


def test_events_behind_a_damage_are_read() -> None:
    given = dump(execution("SUCCEEDED"), history(events(*[("StepStarted", f"s{n}", f"step {n}") for n in range(9)])))
    for hurt in (
        given.replace(b'"EventId": 4,', b'"EventId": 4,]]', 1),
        given.replace(b'{"EventType": "StepStarted", "EventId": 4', b"\x00\x00", 1),
    ):
        made = read(("run.json", hurt))
        ids = [e["id"] for e in made.entries()[:-1]]
        assert [n for n in ("1", "2", "3", "5", "9", "10") if n not in ids] == []
        assert made.of(Unread)
        assert {p.code for p in made.of(Partial)} == {"missing_entry"}
        assert made.state()["status"] == "unknown"


def test_bytes_of_any_kind_raise_nothing() -> None:
    source, rnd = capture("e_retries"), random.Random(11)
    for _ in range(60):
        data = bytearray(source)
        at, n = rnd.randrange(len(data)), rnd.choice([1, 6, 300])
        data[at : at + n] = bytes(rnd.choice(b'{}[]",:\x00\xff1') for _ in range(rnd.choice([0, n])))
        read(("x.json", bytes(data)))


@pytest.mark.parametrize(
    "data", [b"", b"null", b"[]", b"{}", b"\x00" * 99, b"[" * 3000, b'{"a":' * 3000, b'{"Events":[]}', b"\xff\xfe"]
)
def test_a_file_that_is_none_is_refused(data: bytes) -> None:
    (refused,) = read(("x.json", data)).of(Refused)
    assert refused.reason


def _with(payload: str) -> Read:
    told = events(("StepSucceeded", "a", "charge\x00\ud800", {"Result": {"Payload": payload}}))
    return read(("run.json", dump(execution(), history(told))))


def test_values_that_are_hard_to_keep_are_kept() -> None:
    deep = "[" * 2000 + "]" * 2000
    tagged = '{"t":"l","v":[' * 200 + '{"t":"n","v":null}' + "]}" * 200
    for payload in (deep, tagged, "\ud800", "NaN", '{"a":NaN}', "x" * 1_000_000):
        assert _with(payload).entry("2")["out"] == payload
    assert _with("1e999").raws[1].count(b'"out":1e999') == 1


def test_nan_and_depth_beside_a_payload_are_kept_as_text() -> None:
    event = '{"EventType":"StepFailed","EventId":2,"Id":"a","X":NaN,"Y":%s,"StepFailedDetails":{"Error":{"Payload":{"ErrorType":"E","ErrorData":NaN}}}}'
    start = dump(events()[0]).decode()
    text = dump(execution()).decode() + '\n{"Events":[' + start + "," + event % ("[" * 2000 + "]" * 2000) + "]}"
    entry = read(("run.json", text.encode())).entry("2")
    assert (entry["kind"], entry["error"]["type"]) == ("tool.error", "E")
    assert entry["aws"]["X"] == "NaN"


def test_events_without_a_number_or_type_are_named() -> None:
    told = events(("StepStarted", "a", "charge"))
    told.append({"EventType": "StepSucceeded", "EventTimestamp": 1, "Id": "a"})
    told.append({"EventId": 4, "EventTimestamp": 1})
    made = read(("run.json", dump(execution("SUCCEEDED"), history(told))))
    assert ["EventId" in u.reason for u in made.of(Unread)] == [True, False]
    assert made.of(Partial)[0].runs == (ARN,)
    assert json.dumps(made.state()["complete"]) == "false"
