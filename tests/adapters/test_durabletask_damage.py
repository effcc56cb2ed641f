"""Torn, damaged and hostile files: what is whole is kept, what is lost is named, and nothing looks finished that may not be."""

from __future__ import annotations

import json
import random

import pytest
from drainboard import wire

from journals.adapters.base import InputFile

from .durabletask_exports import HERE, capture, read, read_bytes, read_json

EXPORT = json.dumps(capture("a-completed.json")["history_export"]).encode()
HTTP = json.dumps(capture("http.json")["completed"]).encode()


@pytest.mark.parametrize(
    "data", [EXPORT, HTTP, json.dumps(capture("b-crash.json")).encode()], ids=["export", "http", "wrapped"]
)
def test_a_file_torn_at_any_byte_keeps_what_is_whole_and_shows_no_finished_run(data: bytes) -> None:
    whole = {json.loads(raw)["id"]: raw for raw in read_bytes(data).raw}
    for cut in range(7, len(data) - 3, max(1, len(data) // 41)):
        made = read_bytes(data[:cut])
        if made.refused:
            assert not made.lines
            continue
        assert made.partial, cut
        assert made.counted == {"x.json": len(made.lines) + len(made.unread)}
        for line in made.lines:
            entry = json.loads(line.raw)
            if entry.get("name") == "runtime.state":
                assert entry["out"]["complete"] is False or data not in (EXPORT, HTTP), cut
            elif not entry["id"].startswith("status:"):
                assert entry["id"] in whole
        if data not in (EXPORT, HTTP):
            continue  # a whole answer before the tear is whole; the import still calls the file's runs incomplete
        assert made.state("a-56458")["status"] in ("unknown", "running"), cut
        assert "waiting" not in made.state("a-56458")


def test_a_damaged_event_costs_itself_and_nothing_behind_it() -> None:
    at = EXPORT.index(b'"name": "lookup_order"')
    for damage in (b'"nam', b'"name": }}}]', b'"name: "lookup', b"\x00\x00\x00"):
        made = read_bytes(EXPORT[:at] + damage + EXPORT[at + 22 :])
        assert made.unread, damage
        assert "missing_entry" in [p.code for p in made.partial], damage
        assert any(e["id"] == "task:5:completed" for e in made.entries("a-56458")), damage
        state = made.state("a-56458")
        assert (state["complete"], state["status"]) == (False, "unknown"), damage
        assert state["held"]["whole"] is False
        assert made.counted == {"x.json": len(made.lines) + len(made.unread)}


def test_no_bytes_raise() -> None:
    rng = random.Random(7)
    for data in (EXPORT, HTTP, (HERE / "c-parked.json").read_bytes()):
        for _ in range(25):
            broken = bytearray(data)
            for _ in range(rng.randrange(1, 8)):
                spot = rng.randrange(len(broken))
                broken[spot : spot + rng.randrange(0, 5)] = bytes(
                    rng.randrange(256) for _ in range(rng.randrange(0, 4))
                )
            made = read_bytes(bytes(broken))
            assert made.refused or made.counted == {"x.json": len(made.lines) + len(made.unread)}


@pytest.mark.parametrize(
    "data",
    [b"", b"\n", b"null", b"{", b"[", b"[]", b"{}", b"[[[[", b"SQLite format 3\0", b"\xff\xfe{", b'"x"', b"[1,2]"],
)
def test_what_is_no_history_is_refused_with_a_reason(data: bytes) -> None:
    made = read_bytes(data)
    assert (made.lines, len(made.refused)) == ([], 1)
    assert made.refused[0].reason


def test_odd_values_are_kept_and_named() -> None:
    def given(raw: str) -> bytes:
        return EXPORT.replace(
            json.dumps(json.dumps({"order_id": "A-100"})).encode(), raw.encode("utf-8", "surrogatepass")
        )

    deep = "[" * 2_000 + "]" * 2_000
    for raw, code in ((json.dumps(deep), "too_deep"), (json.dumps('{"a": NaN}'), "non_standard_json"), (json.dumps("x" * 1_000_000), ""), ('"\\ud800"', ""), ('"a\\u0000b"', ""), (json.dumps("9" * 5_000), ""), (deep, "too_deep")):  # fmt: skip
        made = read_bytes(given(raw))
        (line,) = [x for x in made.lines if b'"id":"task:2"' in x.raw]
        assert (code in line.oddities) if code else not line.oddities, raw[:20]
        assert wire.parse(line.raw).in_ not in (None, wire.MISSING)


def test_a_custom_status_that_is_no_standard_json_costs_no_other_fact() -> None:
    made = read_bytes(HTTP.replace(b'"customStatus": null', b'"customStatus": {"waiting_for": NaN}'))
    state = made.state("a-56458")
    assert (state["status"], state["custom_status"]) == ("completed", '{"waiting_for": NaN}')


def test_a_history_that_names_no_instance_is_named_as_unread() -> None:
    events = [e for e in json.loads(EXPORT)["events"] if e["event_type"] != "ExecutionStartedEvent"]
    made = read_json(events)
    assert made.refused
    assert "names its instance" in made.refused[0].reason


def test_a_file_that_only_tells_a_state_serves_the_history_beside_it() -> None:
    whole = capture("c-parked.json")["parked"]
    events = json.dumps(whole["grpc StreamInstanceHistory (protobuf json)"]).encode()
    state = json.dumps(whole["grpc GetInstance (protobuf json)"]).encode()
    made = read(InputFile.of("h.json", events), InputFile.of("s.json", state))
    assert made.state("c-56458")["status"] == "parked"
    assert made.counted["s.json"] == 0
    assert not made.refused


def test_a_large_file_of_openings_takes_no_quadratic_time() -> None:
    made = read_bytes(b'{"instance_id":"a","events":[' + b'{"event_type":[' * 5_000)
    assert made.partial or made.refused
