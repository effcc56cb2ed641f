"""Payloads are kept by content and come back byte for byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
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
