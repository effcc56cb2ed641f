"""Numbers keep their text through a line, and strings hash as RFC 8785 says."""

from __future__ import annotations

import pytest
from drainboard import wire


@pytest.mark.parametrize("text", ["1E2", "0.10", "1e400", "-0.0", "12345678901234567890", "1" * 5000])
def test_writes_a_number_as_it_was_read(text: str) -> None:
    line = b'{"run":"r","kind":"note","out":[{"n":' + text.encode() + b'},"\xc3\xa9"]}'
    assert wire.dump(wire.parse(line)) == line


def test_writes_a_number_beside_a_lone_surrogate() -> None:
    assert wire.encode([wire.Number("1E2"), "\ud800"]) == b'[1E2,"\\ud800"]'


@pytest.mark.parametrize("value", [float("nan"), wire.Number("NaN"), [wire.Number("-Infinity")]])
def test_refuses_to_write_what_is_no_json_number(value: object) -> None:
    with pytest.raises(wire.Ambiguous):
        wire.encode(value)


def test_hashes_strings_by_their_canonical_form() -> None:
    assert wire.canonical({"é\u2028\x7f": '\b\x01/"\\'}) == '{"é\u2028\x7f":"\\b\\u0001/\\"\\\\"}'.encode()
    for text in ("\ud800", "é\udfff"):
        with pytest.raises(wire.Ambiguous, match="surrogate"):
            wire.canonical(text)
