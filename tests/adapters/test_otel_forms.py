"""Every form of the same spans gives the same lines; torn and damaged files give what is whole in them."""

from __future__ import annotations

import json
import random
import sys

import pytest

from journals.adapters import otel
from journals.adapters.base import Counted, InputFile, Item, Line, Note, Partial, Refused, Unread
from tests.adapters.otel_spans import base64_ids, capture, entries, protobuf, raws, read, request, span

LINES = capture("pa_a")
WHOLE = b"\n".join(LINES)
GENAI = {"gen_ai.operation.name": "chat"}


def one_document(lines: list[bytes]) -> bytes:
    found = [rs for line in lines for rs in json.loads(line)["resourceSpans"]]
    return json.dumps({"resourceSpans": found}, indent=2).encode()


def old_names(line: bytes) -> bytes:
    for new, old in (
        (b'"resourceSpans"', b'"resource_spans"'), (b'"scopeSpans"', b'"instrumentationLibrarySpans"'), (b'"scope"', b'"instrumentationLibrary"'),
        (b'"traceId"', b'"trace_id"'), (b'"spanId"', b'"span_id"'), (b'"parentSpanId"', b'"parent_span_id"'),
        (b'"startTimeUnixNano"', b'"start_time_unix_nano"'), (b'"endTimeUnixNano"', b'"end_time_unix_nano"'),
        (b'"stringValue"', b'"string_value"'), (b'"intValue"', b'"int_value"'), (b'"arrayValue"', b'"array_value"'), (b'"kind":3', b'"kind":"SPAN_KIND_CLIENT"'),
        (b'"kind":1', b'"kind":"SPAN_KIND_INTERNAL"'),
    ):  # fmt: skip
        line = line.replace(new, old)
    return line


def numbers(line: bytes) -> bytes:
    """Times and integers as JSON numbers instead of text."""
    made = json.loads(line)
    for rs in made["resourceSpans"]:
        for ss in rs["scopeSpans"]:
            for one in ss["spans"]:
                for name in ("startTimeUnixNano", "endTimeUnixNano"):
                    one[name] = int(one[name])
                for attribute in one["attributes"]:
                    if "intValue" in attribute["value"]:
                        attribute["value"]["intValue"] = int(attribute["value"]["intValue"])
    return json.dumps(made).encode()


def varint(n: int) -> bytes:
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)


FORMS = {
    "one document over many lines": one_document(LINES),
    "ids in base64": b"\n".join(map(base64_ids, LINES)),
    "snake_case and the names before 2022": b"\n".join(map(old_names, LINES)),
    "numbers as numbers": b"\n".join(map(numbers, LINES)),
    "an array of requests": b"[" + b",".join(LINES) + b"]",
    "wrapped": b'{"taken":"today","spans":' + one_document(LINES) + b"}",
    "protobuf": protobuf(LINES),
    "protobuf with lengths of four bytes": b"".join(len(m).to_bytes(4, "big") + m for m in (protobuf([x]) for x in LINES)),
    "protobuf with varint lengths": b"".join(varint(len(m)) + m for m in (protobuf([x]) for x in LINES)),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_lines(form: str) -> None:
    assert raws(read(FORMS[form])) == raws(read(WHOLE))
    if form != "wrapped":
        assert otel.sniff([InputFile.of("f", FORMS[form])]) >= 0.9


def counts(items: list[Item]) -> None:
    """Every line and unread stretch is counted, unless the file was refused."""
    found = sum(isinstance(i, (Line, Unread)) for i in items)
    counted = [i.lines for i in items if isinstance(i, Counted)]
    assert counted == ([] if any(isinstance(i, Refused) for i in items) else [found])


@pytest.mark.parametrize("form", ["lines", "one document over many lines", "protobuf", "protobuf with lengths of four bytes"])  # fmt: skip
def test_a_file_that_is_torn_gives_what_is_whole_and_says_so(form: str) -> None:
    data = FORMS.get(form, WHOLE)
    whole = {r for r in raws(read(data)) if b"runtime.state" not in r}
    for at in random.Random(7).sample(range(100, len(data) - 10), 25):
        items = read(data[:at])
        counts(items)
        assert {r for r in raws(items) if b"runtime.state" not in r} <= whole
        if any(isinstance(i, Unread) for i in items):
            assert any(isinstance(i, Partial) and i.code == "torn_tail" for i in items)


@pytest.mark.parametrize("form", ["lines", "protobuf"])
def test_damage_raises_nothing_and_is_counted(form: str) -> None:
    rng, data = random.Random(8), FORMS.get(form, WHOLE)
    for _ in range(25):
        damaged = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(data))] = rng.randrange(256)
        counts(read(bytes(damaged)))


def test_a_damaged_line_loses_only_itself() -> None:
    items = read(b"\n".join([LINES[0], LINES[1][:-40] + b"\0" * 10, *LINES[2:]]))
    assert [i.code for i in items if isinstance(i, Partial)] == ["missing_entry"]
    assert len([i for i in items if isinstance(i, Unread)]) == 1
    assert len(raws(items)) == len(raws(read(WHOLE))) - 1
    counts(items)


def test_logs_and_metrics_are_named_and_refused() -> None:
    (refused,) = [i for i in read(b'{"resourceLogs":[]}\n{"resourceMetrics":[]}') if isinstance(i, Refused)]
    assert "logs, metrics" in refused.reason
    assert "/v1/traces" in refused.reason
    items = read(b'{"resourceLogs":[]}\n' + WHOLE)
    assert [i.text for i in items if isinstance(i, Note)] == ["1 records of logs are no spans"]


def test_values_that_json_readers_stumble_over() -> None:
    value: object = {"stringValue": "a"}
    for _ in range(2_000):
        value = {"arrayValue": {"values": [value]}}
    odd = [
        {"key": "deep", "value": value},
        {"key": "nan", "value": {"doubleValue": float("nan")}},
        {"key": "text", "value": {"stringValue": "\ud800\x00" + "x" * 1_000_000}},
        {"key": "big", "value": {"intValue": "123456789012345678901234567890"}},
    ]
    sys.setrecursionlimit(20_000)
    try:
        data = request(span(parentSpanId=""), span(spanId="00000000000000c2", attributes=[])).replace(
            b'"attributes": []', b'"attributes": [' + b",".join(json.dumps(a).encode() for a in [*odd, {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}]) + b"]", 3,
        )  # fmt: skip
    finally:
        sys.setrecursionlimit(1_000)
    counts(read(data))
    made = [e for e in entries(data) if e["kind"] == "model.result"]
    assert len(made) == 2
    told = made[1]["otel"]["attributes"]
    assert told["big"] == "123456789012345678901234567890"
    assert len(told["text"]) == 1_000_002
    assert told["deep"].count("arrayValue") == 1_999


def test_a_file_of_ours_or_of_another_runtime_is_not_taken() -> None:
    for data in (b'{"run":"r","kind":"note","out":{"resourceSpans":[]}}', b'{"events":[]}', b"\n{}", bytes(range(256))):
        assert otel.sniff([InputFile.of("f", data)]) == 0
