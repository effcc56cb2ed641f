"""Pretty JSON is lexical: it moves white space and nothing else."""

from __future__ import annotations

import json
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.pretty import gist, marks, pretty


def text_of(raw: bytes, **options: object) -> str:
    return "".join(piece.text for piece in pretty(raw, **options).pieces)  # type: ignore[arg-type]


def bare(text: str) -> str:
    """JSON text without white space outside strings."""
    return "".join(re.findall(r'"(?:[^"\\]|\\.)*"|[^\s"]+', text))


@pytest.mark.parametrize(
    "raw",
    [
        b'{"amount":1' + b"0" * 400 + b',"rate":1E400,"zero":-0,"fraction":0.10}',
        b'{"a":NaN,"b":-Infinity}',
        b'{"cents":1,"cents":999999}',
        b'{"escape":"\\u202e\\"}{[,:","tab":"a\\tb"}',
        b"[[],{},[[]],{}]",
        b'{"torn":"no end',
        b'{"a":[1,2,{"b":null',
        b'"only text"',
        b"12345678901234567890",
    ],
)
def test_keeps_every_value_as_it_was_written(raw: bytes) -> None:
    assert bare(text_of(raw)) == bare(raw.decode())


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=30,
    )
)
def test_keeps_any_json(value: object) -> None:
    raw = json.dumps(value, separators=(",", ":"))
    assert bare(text_of(raw.encode(), limit=None)) == bare(raw)


def test_survives_two_thousand_levels() -> None:
    raw = b"[" * 2_000 + b"1" + b"]" * 2_000
    made = text_of(raw, limit=None)
    assert bare(made) == raw.decode()
    assert len(made) < 20_000, "indentation must not grow with the square of the depth"


def test_cuts_ten_megabytes_and_says_so() -> None:
    raw = b'{"text":"' + b"x" * 10_000_000 + b'"}'
    started = time.monotonic()
    made = pretty(raw)
    assert made.cut
    assert made.size_bytes == len(raw)
    assert sum(len(piece.text) for piece in made.pieces) < 20_000
    assert time.monotonic() - started < 1


def test_does_not_cut_inside_a_character() -> None:
    raw = '"äöü€"'.encode() * 4_000
    assert "\\x" not in text_of(raw)
    assert "\ufffd" not in text_of(raw)


@pytest.mark.parametrize(
    ("char", "mark"),
    [
        ("\u202e", "U+202E RLO"),
        ("\u200b", "U+200B ZWSP"),
        ("\x1b", "U+001B"),
        ("\ufeff", "U+FEFF BOM"),
        ("\U000e0041", "U+E0041 TAG LATIN CAPITAL LETTER"),
        ("\u2066", "U+2066 LRI"),
        ("\x00", "U+0000"),
    ],
)
def test_marks_a_character_that_does_not_show_itself(char: str, mark: str) -> None:
    assert [(p.role, p.text) for p in marks(f"a{char}b")] == [("", "a"), ("mark", mark), ("", "b")]


def test_leaves_ordinary_text_alone() -> None:
    assert [p.text for p in marks("Grüße, 你好, שלום, emoji 🎉\nnext line\ttab")] == [
        "Grüße, 你好, שלום, emoji 🎉\nnext line\ttab"
    ]


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        ('{"order":8812,"paid":40.00,"refunds":[]}', "order 8812, paid 40.00, refunds []"),
        ('{"call":{"tool":"send_refund","args":{"order":8812}}}', "call (tool send_refund, args (order 8812))"),
        ('"sent"', "sent"),
        ("plain words", "plain words"),
        ('{"torn":"no e', "torn no e"),
    ],
)
def test_skims_a_value_in_one_line(raw: str, line: str) -> None:
    assert "".join(p.text for p in gist(raw)) == line
