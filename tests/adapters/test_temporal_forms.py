"""One history gives the same lines in whatever form it was exported, and values that nobody can read are shown as such."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import pytest
from drainboard import wire

from journals.adapters.base import InputFile, Line, Note, Partial, Refused
from tests.adapters.temporal_captures import NAMES, data, history, items, lines, made, payload, raws, read, states

CODED = "eyJhIjoxLCJiIjpbMi41LDNdfQ=="  # {"a":1,"b":[2.5,3]}


def coded(encoding: str, body: bytes, **metadata: str) -> dict[str, Any]:
    """A payload as the CLI writes it."""
    meta = {"encoding": encoding, **metadata}
    return {
        "metadata": {k: base64.b64encode(v.encode()).decode() for k, v in meta.items()},
        "data": base64.b64encode(body).decode(),
    }


def scheduled(payloads: Any) -> dict[str, Any]:
    return {
        "type": "ActivityTaskScheduled",
        "activityId": "1",
        "activityType": {"name": "send_refund"},
        "input": payloads,
    }


def started_with(payloads: Any) -> tuple[dict[str, Any], Line]:
    found = [i for i in made(scheduled(payloads)) if isinstance(i, Line) and b"tool.started" in i.raw]
    return json.loads(found[0].raw), found[0]


SCENARIOS = sorted({n.rsplit(".", 2)[0] for n in NAMES if n.endswith(".show.json")})


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_form_of_one_history_gives_equal_lines(scenario: str) -> None:
    forms = ("show", "sdk", "ui", "ui-encoded", "ui-decoded", "ui-human-readable")
    found = {form: raws(read(f"{scenario}.{form}.json")) for form in forms if f"{scenario}.{form}.json" in NAMES}
    assert found["show"]
    assert [form for form, got in found.items() if got != found["show"]] == []


def test_the_shorthand_differs_only_where_the_server_loses_an_empty_list() -> None:
    short, full = raws(read("c-signal.approved.http-shorthand.json")), raws(read("c-signal.approved.show.json"))
    differing = [(a, b) for a, b in zip(short, full, strict=True) if a != b]
    assert [(a.replace(b'"tool_calls":null', b'"tool_calls":[]') == b) for a, b in differing] == [True]
    notes = [i.text for i in read("c-signal.approved.http-shorthand.json") if isinstance(i, Note)]
    assert "empty list" in notes[0]


@pytest.mark.parametrize(("longer", "shorter"), [("b-crash.recovered", "b-crash.inflight"), ("c-signal.approved", "c-signal.parked"),
                                            ("e-retry.done", "e-retry.between"), ("f-nondet.stuck", "f-nondet.crashed"),
                                            ("f-pinned.done", "f-pinned.parked-on-v1"), ("i-unpaused", "i-paused"),
                                            ("c-update.approved", "c-update.parked"), ("b-local.recovered", "b-local.inflight"),
                                            ("f-promptdrift.recovered", "f-promptdrift.crashed")])  # fmt: skip
def test_a_longer_export_repeats_the_lines_of_a_shorter_one(longer: str, shorter: str) -> None:
    before = raws(read(f"{shorter}.show.json"))
    assert raws(read(f"{longer}.show.json"))[: len(before)] == before


def test_reads_event_types_of_old_exports() -> None:
    def old(found: re.Match[bytes]) -> bytes:
        return b'"eventType": "' + b"".join(p.capitalize() for p in found.group(1).split(b"_")) + b'"'

    new = data("b-crash.recovered.show.json")
    was = re.sub(rb'"eventType": "EVENT_TYPE_([A-Z_]+)"', old, new)
    assert was != new
    assert raws(items([InputFile.of("old.json", was)])) == raws(read("b-crash.recovered.show.json"))


@pytest.mark.parametrize("shape", ["array", "line", "numbers", "bom", "crlf", "no-types", "two documents"])
def test_reads_other_shapes_of_the_same_history(shape: str) -> None:
    events = json.loads(data("a-normal.show.json"))["events"]
    if shape == "numbers":
        events = [{**e, "eventId": int(e["eventId"])} for e in events]
    if shape == "no-types":
        events = [{k: v for k, v in e.items() if k != "eventType"} for e in events]
    whole = json.dumps(
        events if shape == "array" else {"events": events}, indent=None if shape == "line" else 1
    ).encode()
    if shape == "bom":
        whole = b"\xef\xbb\xbf" + whole
    if shape == "crlf":
        whole = whole.replace(b"\n", b"\r\n")
    if shape == "two documents":
        whole = whole + b"\n" + data("e-failed.show.json")
    found = items([InputFile.of("x.json", whole)])
    expected = raws(read("a-normal.show.json"))
    assert raws(found)[: len(expected)] == expected
    assert not [i for i in found if isinstance(i, (Partial, Refused))]
    if shape == "two documents":
        assert raws(found)[len(expected) :] == raws(read("e-failed.show.json"))
        assert len({i.record for i in found if isinstance(i, Line)}) == len(raws(found)) + 2


@pytest.mark.parametrize("given", [
    {"payloads": [{"metadata": {"encoding": "anNvbi9wbGFpbg=="}, "data": CODED}]},
    {"payloads": [{"metadata": {"encoding": "json/plain"}, "data": {"b": [2.5, 3.0], "a": 1}}]},
    [{"b": [2.5, 3], "a": 1}],
    [{"metadata": {"encoding": "anNvbi9wbGFpbg=="}, "data": CODED}],
])  # fmt: skip
def test_detects_the_form_of_each_value_by_itself(given: Any) -> None:
    line, _ = started_with(given)
    assert line["in"] == {"a": 1, "b": [2.5, 3]}
    assert b'"in":{"a":1,"b":[2.5,3]}' in wire.dump({"in": line["in"]})
    assert line["request"] == wire.request_fingerprint(
        kind="tool", name="send_refund", in_={"a": 1, "b": [2.5, 3]}, key=None
    )


def test_a_users_value_that_resembles_a_payload_stays_what_it_is() -> None:
    value = {"metadata": {"encoding": "utf-8"}, "data": "abcd"}
    line, _ = started_with([value])
    assert line["in"] == value


def test_several_arguments_are_args_and_none_is_no_input() -> None:
    assert started_with([1, "two"])[0]["in"] == {"args": [1, "two"], "kwargs": {}}
    assert "in" not in started_with(None)[0]
    assert started_with([{"metadata": {"encoding": "YmluYXJ5L251bGw="}}])[0]["in"] is None


@pytest.mark.parametrize(("encoding", "oddity"), [("binary/plain", "opaque_payload"), ("binary/protobuf", "opaque_payload"),
                                             ("binary/encrypted", "encrypted_payload"), ("x/unknown", "opaque_payload")])  # fmt: skip
def test_shows_bytes_that_are_no_json_as_bytes(encoding: str, oddity: str) -> None:
    line, item = started_with({"payloads": [coded(encoding, b"\x80\x04\x95pickle", messageType="a.B")]})
    shown = line["in"]["$payload"]
    assert (shown["encoding"], shown["bytes"], shown["messageType"]) == (encoding, 9, "a.B")
    assert base64.b64decode(shown["base64"]) == b"\x80\x04\x95pickle"
    assert item.oddities == (oddity,)
    assert ("request" in line) == (oddity == "opaque_payload")


def test_never_guesses_at_an_encrypted_run() -> None:
    found = [i for i in read("l-codec-encrypted.show.json") if isinstance(i, Line)]
    hidden = [json.loads(i.raw) for i in found if "encrypted_payload" in i.oddities]
    assert len(hidden) == 8
    assert {e["in"]["$payload"]["encoding"] for e in hidden if "in" in e} == {"binary/encrypted"}
    assert not [e for e in hidden if "request" in e or "key" in e]
    assert not [e for e in hidden if set(e.get("versions", {})) - {"app", "sdk"}]
    failure = next(e["error"] for e in hidden if e["kind"] == "tool.error")
    assert (failure["type"], failure["message"], failure["retryable"]) == ("RefundDeclined", "Encoded failure", False)
    assert failure["encoded"]["$payload"]["encryption-key-id"] == "key-2026-01"


def test_keeps_raw_bytes_and_null_apart() -> None:
    entries = {e["name"]: e for e in lines(read("l-encodings.show.json")) if e["kind"] == "tool.result"}
    assert entries["raw_bytes"]["out"]["$payload"]["base64"] == "AQIA/w=="
    assert entries["nothing"]["out"] is None


def test_reads_a_protobuf_message_in_json_with_the_name_of_its_type() -> None:
    line, item = started_with({"payloads": [coded("json/protobuf", b'{"id":"7"}', messageType="shop.Order")]})
    assert line["in"] == {"_protoMessageType": "shop.Order", "id": "7"}
    assert not item.oddities


@pytest.mark.parametrize(("text", "shown", "odd"), [
    (b"NaN", {"$number": "NaN"}, ("non_standard_json",)), (b"1e400", {"$number": "1e400"}, ()), (b"1.0", 1, ()), (b"-0.0", 0, ()),
    (b"12345678901234567890123", 12345678901234567890123, ()), (b"0.1000000000000000000001", {"$number": "0.1000000000000000000001"}, ()),
])  # fmt: skip
def test_writes_numbers_so_that_nothing_changes_them(text: bytes, shown: Any, odd: tuple[str, ...]) -> None:
    line, item = started_with({"payloads": [coded("json/plain", text)]})
    assert line["in"] == shown
    assert item.oddities == odd


def test_keeps_text_that_is_not_the_json_it_claims_to_be() -> None:
    line, item = started_with({"payloads": [coded("json/plain", b"{not json")]})
    assert base64.b64decode(line["in"]["$payload"]["base64"]) == b"{not json"
    assert item.oddities == ("opaque_payload",)


def test_keeps_a_value_that_is_too_deep_as_text() -> None:
    deep = b"[" * 300 + b"]" * 300
    line, item = started_with({"payloads": [coded("json/plain", deep)]})
    assert line["in"]["$payload"]["text"] == deep.decode()
    assert item.oddities == ("too_deep",)
    whole = json.dumps({"payloads": "DEEP"}).replace('"DEEP"', deep.decode())
    found = items([InputFile.of("x.json", history(scheduled("HERE")).replace(b'"HERE"', whole.encode()))])
    assert [e["kind"] for e in lines(found)] == ["run.started", "tool.started"]


def test_names_a_repeated_key_inside_a_value() -> None:
    _, item = started_with({"payloads": [coded("json/plain", b'{"a":1,"a":2}')]})
    assert item.oddities == ("duplicate_key:a",)


def test_a_page_of_a_history_is_partial_and_a_page_without_its_start_is_refused() -> None:
    body = json.loads(data("c-signal.approved.http-shorthand.json"))
    first = {"history": {"events": body["history"]["events"][:9]}, "nextPageToken": "abc"}
    rest = {"history": {"events": body["history"]["events"][9:]}, "nextPageToken": ""}
    found = items([InputFile.of("1.json", json.dumps(first).encode())])
    assert [i.reason for i in found if isinstance(i, Partial)] == [
        "this is one page of the history; the next one is missing"
    ]
    assert states(found)[0]["complete"] is False
    refused = [i.reason for i in items([InputFile.of("2.json", json.dumps(rest).encode())]) if isinstance(i, Refused)]
    assert "begins at event 10" in refused[0]


def test_an_event_type_of_tomorrow_is_kept_under_its_own_name() -> None:
    found = lines(made({"type": "WorkflowExecutionTeleported", "to": payload({"place": 7})["payloads"][0]}))
    assert (found[1]["kind"], found[1]["id"]) == ("temporal.WorkflowExecutionTeleported", "2")
    assert found[1]["temporal"]["to"] == {"place": 7}
