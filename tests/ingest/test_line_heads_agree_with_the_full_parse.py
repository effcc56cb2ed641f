"""The quick look at a line never disagrees with `wire.parse`."""

from __future__ import annotations

import json

import pytest
from drainboard import wire
from hypothesis import given, settings
from hypothesis import strategies as st

from journals.adapters.heads import head_of
from tests.ingest.conftest import LINES

values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.integers(),
    st.floats(),
    st.text(),
    st.lists(st.integers(), max_size=3),
)
fields = st.fixed_dictionaries(
    {"run": st.one_of(st.text(), values), "kind": st.one_of(st.text(), values)},
    optional={
        name: values for name in ("id", "seq", "branch", "step", "attempt", "name", "agent", "environment", "out")
    },
)


def agree(raw: bytes) -> None:
    try:
        full = wire.parse(raw)
    except wire.MalformedLine:
        with pytest.raises(wire.MalformedLine):
            head_of(raw)
        return
    head = head_of(raw)
    for name in ("run", "kind", "id", "seq", "branch", "step", "attempt", "name", "agent", "environment"):
        assert getattr(head, name) == getattr(full, name), name


@settings(max_examples=300, deadline=None)
@given(fields, st.booleans())
def test_for_any_fields(given_fields: dict[str, object], escaped: bool) -> None:
    agree(json.dumps(given_fields, ensure_ascii=escaped).encode("utf-8", "surrogatepass"))


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=40), st.integers(0, 60))
def test_for_any_bytes_inside_a_line(noise: bytes, at: int) -> None:
    line = b'{"run":"r","kind":"note","seq":3,"out":{"a":[1,"x"]}}'
    agree(line[:at] + noise + line[at:])
    agree(line[:at] + noise + line[at + len(noise) :])


@pytest.mark.parametrize("number", ["1", "0", "-1", "1.0", "1e2", "1" * 30, "1" * 5_000, "true", '"1"', "01", "NaN"])
@pytest.mark.parametrize("field", ["seq", "step", "attempt"])
def test_for_any_number(field: str, number: str) -> None:
    agree(f'{{"run":"r","kind":"note","{field}":{number}}}'.encode())


def test_for_the_odd_files() -> None:
    for path in sorted(LINES.rglob("*.jsonl")):
        for line in path.read_bytes().split(b"\n"):
            agree(line)
