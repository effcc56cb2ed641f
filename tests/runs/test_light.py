"""The quick way of decoding a line never disagrees with the whole one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from drainboard import wire
from hypothesis import given, settings
from hypothesis import strategies as st

from runs.light import quick

FIXTURES = Path(__file__).parent.parent / "fixtures" / "lines"
FIELDS = tuple(wire.Entry.__dataclass_fields__)


def same(raw: bytes) -> None:
    made = quick(raw)
    if made is not None:
        whole = wire.parse(raw)
        assert {f: getattr(made, f) for f in FIELDS} == {f: getattr(whole, f) for f in FIELDS}
        assert made.effect_or_default == whole.effect_or_default


def test_on_every_line_of_the_fixtures() -> None:
    seen = 0
    for path in FIXTURES.glob("*.jsonl"):
        for raw in path.read_bytes().split(b"\n"):
            if raw.strip():
                same(raw)
                seen += 1
    assert seen > 40


@pytest.mark.parametrize(
    "odd",
    [
        b'"a":1,"a":2', b'"out":{"x":1,"x":22}', b'"out":NaN', b'"out":1e400', b'"out":0.10', b'"out":1E5', b'"out":"\\ud83d"', b'"step":0',
        b'"step":true', b'"attempt":1.0', b'"branch":null', b'"versions":[]', b'"seq":-1', b'"extra":{"a":1}', b'"oddities":["too_deep"]',
        b'"out":"\\u00e9"', b'"name": "x"', b'"artifact":{"n":1},"approval":"a"', b'"name":"approval","x":"\xff"',
        b'"out":' + b"[" * 200 + b"]" * 200,
    ],
)  # fmt: skip
def test_leaves_what_is_odd_to_the_whole_parse(odd: bytes) -> None:
    assert quick(b'{"run":"r","kind":"k",' + odd + b"}") is None


def test_takes_the_quick_way_on_a_common_line() -> None:
    raw = wire.dump(
        {
            "run": "r",
            "id": "1.1",
            "kind": "tool.started",
            "name": "pay",
            "step": 4,
            "in": {"n": 1.5, "ü": None},
            "mine": [1],
        }
    )
    made = quick(raw)
    assert made is not None
    assert (made.name, made.step, made.in_, made.extra, made.out) == (
        "pay",
        4,
        {"n": 1.5, "ü": None},
        {"mine": [1]},
        wire.MISSING,
    )


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=True) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=400, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(
            ["name", "step", "seq", "branch", "attempt", "in", "out", "error", "versions", "key", "x", "usage"]
        ),
        _JSON,
        max_size=6,
    )
)
def test_on_any_line(fields: dict[str, Any]) -> None:
    text = json.dumps({"run": "r", "kind": "k", **fields}, ensure_ascii=False, separators=(",", ":"))
    try:
        raw = text.encode()
    except UnicodeEncodeError:
        return
    made = quick(raw)
    if made is not None:
        whole = wire.parse(raw)
        assert {f: repr(getattr(made, f)) for f in FIELDS} == {f: repr(getattr(whole, f)) for f in FIELDS}
