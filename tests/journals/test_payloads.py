"""Payloads are kept by content and come back byte for byte."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import msgspec
import pytest
from drainboard import wire
from hypothesis import given
from hypothesis import strategies as st

from journals import payloads, store
from journals.models import Node, Payload
from tests.journals.agents import Worker

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=400),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


def joined(made: payloads.Split) -> bytes:
    parents = {node: (parent, item) for node, parent, item in made.nodes}

    def items(end: bytes) -> list[bytes]:
        parent, item = parents[end]
        return [*(items(parent) if parent else []), item]

    return payloads.join(made.line, made.slots, made.bodies.__getitem__, items)


@given(json_values, json_values, st.sampled_from([(",", ":"), (", ", ": ")]), st.sampled_from([None, 1]))
def test_any_line_joins_to_its_bytes(in_: Any, out: Any, separators: Any, indent: Any) -> None:
    raw = json.dumps(
        {"run": "r", "kind": "x", "in": in_, "versions": {"app": "a" * 80}, "out": out},
        separators=separators,
        indent=indent,
    )
    made = payloads.split(raw.encode("utf-8", "surrogatepass"))
    assert joined(made) == raw.encode("utf-8", "surrogatepass")


@given(st.binary(max_size=2_000))
def test_any_bytes_join_to_themselves(raw: bytes) -> None:
    assert joined(payloads.split(raw)) == raw
    assert payloads.unpack(payloads.pack(raw)) == raw


@contextmanager
def slowly() -> Iterator[None]:
    """Only the standard-library reader looks at lines."""
    refuse = mock.Mock(side_effect=msgspec.DecodeError)
    with mock.patch.multiple(payloads, _large=refuse, _members=refuse, _elements=refuse):
        yield


WORDS = {
    "BIG": '"' + "x" * 300 + '"',
    "LIST": "[" + ", ".join('{"m": "' + "y" * 200 + '"}' for _ in range(4)) + "]",
    "DIGITS": "7" * 5_000,
    "DEEP": "[" * 3_000 + "]" * 3_000,
}
ODD = [
    '{"in":BIG,"in":1}',
    '{"in":1,"in":BIG}',
    '{"in":BIG,"\\u0069n":BIG}',
    '{"\\u0069n":BIG,"out":BIG}',
    '{"in": BIG,"out":BIG }',
    '{"in":BIG,  "out":BIG}',
    '{"in":BIG,   "out":BIG}',
    '{"a": 1,"a":2, "in": BIG}',
    '{"é":1,"in":BIG}',
    '{"\\ud83d\\ude00":1,"in":BIG}',
    '{"\\ud800":1,"in":BIG}',
    '{"in":[NaN,BIG],"out":BIG}',
    '{"in":BIG,"out":Infinity}',
    '{"in":DIGITS,"out":BIG}',
    '{"in":DEEP,"out":BIG}',
    '{"in":{"messages":LIST},"out":LIST}',
    '{"in": {"messages": LIST, "n": 1}, "out": {"a": LIST, "b": LIST}}',
    '{"in":{"messages":LIST,"messages":LIST}}',
    '{"in":[ BIG],"out":[BIG ,1]}',
    '{"in":BIG,"out":[BIG ,BIG,BIG]} ',
    ' {"in":BIG}',
    '{"in":BIG} x',
    '{"in":BIG,}',
    '[{"in":BIG}]',
    '{"in":"a\tb","out":BIG}',
]  # fmt: skip


@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
def test_the_quick_way_cuts_odd_lines_like_the_slow_one(text: str) -> None:
    for word, value in WORDS.items():
        text = text.replace(word, value)
    agrees(text.encode())
    agrees(text.encode().replace(b"xxx", b"x\xff\xc0", 1))


def agrees(raw: bytes) -> None:
    quick = payloads.split(raw)
    with slowly():
        assert payloads.split(raw) == quick
    assert payloads.spans_of(raw) == wire.spans_of(raw)
    assert joined(quick) == raw


@given(
    st.lists(
        st.tuples(st.sampled_from(["in", "out", "versions", "a", "é", "\\u0069n", "\\/"]), json_values), max_size=5
    ),
    st.sampled_from([",", ", ", " ,"]),
    st.sampled_from([":", ": ", " : "]),
    st.booleans(),
)
def test_the_quick_way_cuts_any_members_like_the_slow_one(
    members: list[tuple[str, Any]], comma: str, colon: str, escaped: bool
) -> None:
    made = [f'"{k}"{colon}{json.dumps(v, ensure_ascii=escaped, separators=(comma, colon))}' for k, v in members]
    agrees(("{" + comma.join(made) + "}").encode("utf-8", "surrogatepass"))


def transcript(n: int) -> list[dict[str, str]]:
    return [{"role": "user", "content": f"message {i} " + "word " * 60} for i in range(n)]


@pytest.mark.parametrize("wrap", [lambda m: m, lambda m: {"messages": m}])
@pytest.mark.django_db
def test_a_growing_transcript_costs_what_is_new(token: Any, wrap: Any) -> None:
    worker = Worker(token("worker")).start().open()
    worker.post(worker.line("model.result", step=1, out=1, **{"in": wrap(transcript(30))}))
    bodies, nodes = Payload.objects.count(), Node.objects.count()
    line = worker.line("model.result", step=2, out=1, **{"in": wrap(transcript(31))})
    worker.post(line)
    assert (Payload.objects.count() - bodies, Node.objects.count() - nodes) == (1, 1)
    assert worker.raws()[-1] == line


@pytest.mark.django_db
def test_a_wrong_belief_about_stored_lists_heals(token: Any) -> None:
    from journals import appending

    worker = Worker(token("worker")).start().open()
    line = worker.line("model.result", step=1, out=1, **{"in": transcript(8)})
    appending._KNOWN.add(n[0] for n in payloads.split(line).nodes[:5])
    assert worker.post(line).status_code == 200
    assert worker.raws()[-1] == line


@pytest.mark.django_db
def test_skeletons_leave_large_values_out(token: Any) -> None:
    worker = Worker(token("worker")).start().open()
    worker.post(worker.line("tool.result", step=1, out={"text": "x" * 5_000}, versions={"app": "1", "sdk": "s" * 100}))
    entry = list(store.skeleton(worker.head.id))[-1].entry
    assert entry.out["$cut"]["size"] == 5_011
    assert entry.versions == {"app": "1", "sdk": "s" * 100}
