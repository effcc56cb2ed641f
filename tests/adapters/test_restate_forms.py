"""The forms in which rows of Restate's tables come, damaged ones included."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from journals.adapters import restate
from journals.adapters.base import Counted, InputFile, Line, Note, Options, Partial, Refused, Unread
from journals.adapters.protobuf import MalformedProtobuf, Message
from journals.adapters.restate.runs import awakeable_id
from tests.adapters.restate_captures import capture, lines, read, rows, snapshot, state, steps
from tests.runs.journal import codes, read_files

RUN = "inv_1jIXBuEyZ9qa3yOJ3sgxuJddLg9ctuKhyX"
EXPORT = ("b_sigkill_in_send_refund", "4_after_recovery")
TABLES = ("sys_invocation", "sys_journal", "sys_journal_events", "sys_deployment")


def tables() -> dict[str, list[dict[str, Any]]]:
    export = snapshot(*EXPORT)
    return {
        name: [*export[name], *([export["GET /deployments/{id}"]] if name == "sys_deployment" else [])]
        for name in TABLES
    }


def test_answers_lines_and_one_object_give_the_same_lines() -> None:
    found = tables()
    wrapped = lines(read(json.dumps(found).encode()))
    answers = lines(read(*(rows(found[name]) for name in TABLES)))
    jsonl = b"".join(json.dumps(row).encode() + b"\n" for name in TABLES for row in found[name])
    pretty = json.dumps([row for name in TABLES for row in found[name]], indent=2).encode()
    assert len(wrapped) == 16
    assert answers == wrapped
    assert lines(read(jsonl)) == wrapped
    assert lines(read(pretty)) == wrapped


def test_payloads_come_from_entry_json_when_raw_was_not_exported() -> None:
    # A result as the bytes of its JSON, as entry_json holds it.
    result = list(b'{"refund_id":"re_1"}')
    command = {"id": RUN, "index": 1, "entry_type": "Command: Run", "name": "pay", "version": 2}
    command["entry_json"] = json.dumps({"Command": {"Run": {"completion_id": 1, "name": "pay"}}})
    notification = {"id": RUN, "index": 2, "entry_type": "Notification: Run", "version": 2}
    told = {"Notification": {"Completion": {"Run": {"completion_id": 1, "result": {"Success": result}}}}}
    notification["entry_json"] = json.dumps(told)
    _, answer = steps(read(rows([command, notification])))
    assert (answer["kind"], answer["name"], answer["step"], answer["out"]) == (
        "tool.result",
        "pay",
        1,
        {"refund_id": "re_1"},
    )


def test_ids_come_from_raw_when_nothing_else_was_exported() -> None:
    journal = [
        {k: v for k, v in row.items() if k in ("id", "index", "entry_type", "raw")} for row in tables()["sys_journal"]
    ]
    whole = [(m["kind"], m.get("step"), m.get("name")) for m in steps(read(rows(tables()["sys_journal"])))]
    assert [(m["kind"], m.get("step"), m.get("name")) for m in steps(read(rows(journal)))] == whole


def test_results_are_joined_by_completion_id_however_far_apart() -> None:
    def run(index: int, completion: int, name: str) -> dict[str, Any]:
        return {
            "id": RUN,
            "index": index,
            "entry_type": "Command: Run",
            "raw": f"58{completion:02x}62{len(name):02x}{name.encode().hex()}",
        }

    def done(index: int, completion: int) -> dict[str, Any]:
        return {"id": RUN, "index": index, "entry_type": "Notification: Run", "raw": f"08{completion:02x}2a030a0131"}

    made = steps(read(rows([run(0, 1, "a"), run(1, 2, "b"), run(2, 3, "c"), done(3, 3), done(4, 1)])))
    assert [(m["kind"], m["name"], m["step"]) for m in made[3:]] == [("tool.result", "c", 3), ("tool.result", "a", 1)]


def test_an_export_without_events_says_that_lost_executions_are_not_known() -> None:
    found = tables()
    notes = [i.text for i in read(rows(found["sys_invocation"]), rows(found["sys_journal"])) if isinstance(i, Note)]
    assert "sys_journal_events is not in this export: failed tries and lost executions are not known" in notes
    whole = [i.text for i in read(json.dumps({**found, "sys_journal_events": []}).encode()) if isinstance(i, Note)]
    assert not [text for text in whole if "not in this export" in text]


@pytest.mark.parametrize("data", [b'{"rows":[]}', b"[]\n", b""])
def test_an_empty_table_is_part_of_the_export(data: bytes) -> None:
    named = [
        InputFile.of("x/sys_journal.json", rows(tables()["sys_journal"])),
        InputFile.of("x/sys_journal_events.json", data),
    ]
    items = list(restate.read(named, Options()))
    assert restate.sniff(named[1:]) == 0.5
    assert [i for i in items if isinstance(i, Refused)] == []
    assert [i.lines for i in items if isinstance(i, Counted) and i.path.endswith("events.json")] == [0]
    assert not [i for i in items if isinstance(i, Note) and "not in this export" in i.text]


def test_an_export_without_invocations_claims_nothing_about_the_run() -> None:
    told = state(read(rows(tables()["sys_journal"][:8])))
    assert "status" not in told
    assert "pending" not in told
    (made,) = read_files("restate", {"j.json": rows(tables()["sys_journal"][:8])}).values()
    assert (made.status, made.worst_gap and made.worst_gap.name) == ("unknown", "send_refund")


def test_an_export_that_ends_before_its_count_is_not_whole() -> None:
    found = tables()
    told = state(read(rows(found["sys_invocation"]), rows(found["sys_journal"][:8])))
    assert (told["complete"], told["held"]["whole"]) == (False, False)
    assert told["losses"] == [{"code": "torn_tail", "reason": "the export has 8 of its 12 entries"}]


def test_a_purged_journal_leaves_the_end_that_the_invocation_tells() -> None:
    items = read(rows(tables()["sys_invocation"]))
    assert [m["kind"] for m in steps(items)] == ["run.started", "run.completed"]
    assert (state(items)["status"], state(items)["complete"]) == ("completed", False)


def test_a_changed_entry_is_kept_beside_the_first() -> None:
    early, late = snapshot(*EXPORT), snapshot(*EXPORT)
    late["sys_journal"][2]["raw"] = "08012a030a0131"
    late["sys_invocation"][0]["modified_at"] = "2026-11-29T13:00:00.000Z"
    two = [m for m in lines(read(rows([{"one": early}, {"two": late}]))) if m["id"] == "2"]
    assert len(two) == 2
    (made,) = read_files("restate", {"x.json": rows([{"one": early}, {"two": late}])}).values()
    assert "conflicting_entry" in codes(made)


def test_a_restarted_run_names_its_source_and_what_it_copied() -> None:
    found = tables()
    (invocation,) = found["sys_invocation"]
    invocation |= {"restarted_from": "inv_1source", "created_at": "2026-11-29T12:26:47.000Z"}
    told = state(read(rows([invocation]), rows(found["sys_journal"])))
    assert told["copied"] == {"from": "inv_1source", "steps": [1, 2, 3, 4]}
    assert [(d["step"], d["kind"]) for d in told["doubles"]] == [(5, "model")]
    invocation["created_at"] = "2026-11-29T12:26:43.557Z"
    told = state(read(rows([invocation]), rows(found["sys_journal"])))
    assert [(d["step"], d["why"], d["other"]) for d in told["doubles"] if d["kind"] == "tool"] == [
        (4, "forked", "inv_1source")
    ]


def test_a_buffered_endpoint_may_run_a_step_that_is_not_recorded_yet() -> None:
    export = snapshot("b_sigkill_in_send_refund", "1_hanging_after_side_effect_before_kill")
    export["GET /deployments/{id}"]["protocol_type"] = "RequestResponse"
    assert [(p["step"], p["state"]) for p in state(read(rows([export])))["pending"]] == [
        (4, "running"),
        (5, "no_record"),
    ]


def test_entries_of_journal_version_1_hold_their_result_themselves() -> None:
    journal = [
        {"id": RUN, "index": 0, "entry_type": "Input", "version": 1, "raw": "7203" + "0a0131"},
        {
            "id": RUN,
            "index": 1,
            "entry_type": "Run",
            "name": "pay",
            "version": 1,
            "completed": True,
            "raw": "72030a0132",
        },
        {"id": RUN, "index": 2, "entry_type": "Sleep", "version": 1, "completed": False, "raw": "08eefcfee2a234"},
        {"id": RUN, "index": 3, "entry_type": "Awakeable", "version": 1, "completed": True, "raw": "72060a0474727565"},
    ]
    made = [(m["kind"], m.get("step"), m.get("out")) for m in steps(read(rows(journal)))]
    assert made == [
        ("run.started", None, None),
        ("tool.result", 1, 2),
        ("timer.started", 2, None),
        ("approval.requested", 3, None),
        ("approval.decided", 3, True),
    ]


def test_a_torn_file_keeps_what_is_whole_and_shows_no_finished_run() -> None:
    whole = capture("e_retries_then_success")
    known = {m["id"] for m in lines(read(whole))}
    for cut in random.Random(5).sample(range(300, len(whole) - 2), 40):
        items = read(whole[:cut])
        if any(isinstance(i, Refused) for i in items):
            continue
        assert any(isinstance(i, Partial) and i.code == "torn_tail" for i in items), cut
        assert {m["id"] for m in steps(items) if m["kind"] != "run.started"} <= known
        assert state(items).get("complete") in (False, None)
        assert state(items).get("status") not in ("completed", "failed", "cancelled", "stopped")


def test_a_damaged_row_is_named_and_the_rows_behind_it_are_read() -> None:
    journal = rows(tables()["sys_journal"])
    at = journal.index(b'"index": 3')
    items = read(journal[:at] + b'"index"\x00' + journal[at + 8 :])
    assert [i.reason for i in items if isinstance(i, Unread)] == ["a damaged stretch"]
    assert [i.code for i in items if isinstance(i, Partial)] == ["missing_entry"]
    assert {m["id"] for m in steps(items)} >= {"1", "2", "4", "5", "11"}
    assert [i.lines for i in items if isinstance(i, Counted)] == [sum(isinstance(i, (Line, Unread)) for i in items)]


@pytest.mark.parametrize(
    "data",
    [
        b'{"id":' * 5_000,
        b"[" * 20_000 + b"]" * 20_000,
        b'{"rows":[{"id":"inv_1x","index":-1,"entry_type":"Command: Run"}]}',
        b'{"id":"inv_1x","index":1,"entry_type":"Command: Run","name":"\\ud800\\u0000","raw":"zz","appended_at":NaN}',
        b'{"id":"inv_1x","index":1,"entry_type":"Command: Run","entry_lite_json":"' + b"[" * 9_000 + b'"}',
        b'{"id":"inv_1x","after_journal_entry_index":9,"event_type":"TransientError","event_json":"{"}',
        b'{"id":"inv_1x","status":"suspended","target":"a/b","suspended_waiting_for_signals":[17,"x",null]}',
    ],
)
def test_hostile_rows_raise_nothing_and_are_accounted_for(data: bytes) -> None:
    items = list(restate.read([InputFile.of("x", data)], Options()))
    counted = sum(i.lines for i in items if isinstance(i, Counted))
    assert counted == sum(isinstance(i, (Line, Unread)) for i in items)
    assert items


def test_bytes_that_are_no_text_stay_closed() -> None:
    row = {"id": RUN, "index": 1, "entry_type": "Notification: Run", "raw": "08012a040a02ff00"}
    (made,) = [i for i in read(rows([row])) if isinstance(i, Line) and b"opaque" in i.raw]
    assert json.loads(made.raw)["out"]["opaque"] == "bytes"
    assert made.oddities == ("opaque_payload",)


def test_raw_that_cannot_be_taken_apart_is_named_on_its_entry() -> None:
    row = {"id": RUN, "index": 1, "entry_type": "Notification: Run", "raw": "08012a7f"}
    (made,) = steps(read(rows([row])))
    assert made["unread"] == "field 5 at byte 4 needs 127 bytes, 0 are left"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x80" * 11, "longer than 10 bytes"),
        (b"\x08", "has no end"),
        (b"\x0b", "wire type 3"),
        (b"\x00\x01", "field number 0"),
        (b"\x12\x05ab", "needs 5 bytes, 2 are left"),
        (b"\x0d\x01\x02", "needs 4 bytes, 2 are left"),
    ],
)
def test_broken_protobuf_is_named(data: bytes, why: str) -> None:
    with pytest.raises(MalformedProtobuf, match=why):
        Message(data)


def test_protobuf_gives_numbers_texts_and_messages() -> None:
    message = Message(bytes.fromhex("0896011a026869220408011203" + "2d01000000"))
    assert (message.number(1), message.text(3), message.number(5), message.number(9)) == (150, "hi", 1, None)


def test_an_awakeable_id_needs_an_invocation_id() -> None:
    assert awakeable_id("inv_10pkFP65o90Z7mq9TSQrAHfPrS1R7BUN5q", 17) == "sign_1cRix_EBfwgSE_QV1DmPraMFO0zvaZuHxAAAAEQ"
    assert awakeable_id("inv_1SYNTHETICaaaaaaaaaaaaaaaaaaaaaa", 17) == ""
