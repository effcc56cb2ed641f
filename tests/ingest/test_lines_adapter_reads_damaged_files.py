"""The reader of journal lines against the damaged files, and what it must never do with a torn one."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

import pytest
from drainboard import wire
from hypothesis import given, settings
from hypothesis import strategies as st

from journals.adapters import lines
from journals.adapters.base import Counted, InputFile, Line, Note, Options, Partial, Unread
from journals.files import CannotOpen, open_input
from tests.ingest.conftest import LINES, TORN, memory

GOOD = (TORN / "00-good.jsonl").read_bytes()


def items_of(data: bytes) -> list[object]:
    return list(lines.read([InputFile.of("f", data)], Options()))


def entries(found: Sequence[object]) -> list[Line]:
    return [i for i in found if isinstance(i, Line)]


def unread(found: Sequence[object]) -> list[Unread]:
    return [i for i in found if isinstance(i, Unread)]


def adds_up(found: Sequence[object]) -> bool:
    (counted,) = [i.lines for i in found if isinstance(i, Counted)]
    return counted == len(entries(found)) + len(unread(found))


def record(n: int = 1, **fields: object) -> bytes:
    return wire.dump({"run": "r", "seq": n, "kind": "tool.result", **fields})


# file: (entries, unread lines as (line, byte), words that the notes must have)
TABLE = {
    "00-good.jsonl": (5, [], []),
    "02-bom.jsonl": (5, [], ["byte order mark"]),
    "03-crlf.jsonl": (5, [], ["CR LF"]),
    "04-no-last-newline.jsonl": (5, [], []),
    "05-torn-tail.jsonl": (5, [(6, 520)], []),
    "06-torn-middle.jsonl": (4, [(3, 208)], []),
    "07-glued.jsonl": (5, [], ["more than one record"]),
    "08-torn-then-glued.jsonl": (4, [(2, 104)], []),
    "09-nul-block.jsonl": (5, [(3, 208)], []),
    "10-raw-newline-in-string.jsonl": (5, [], ["spread over lines"]),
    "11-u2028.jsonl": (5, [], []),
    "12-bad-utf8.jsonl": (5, [], ["not UTF-8"]),
    "13-cut-utf8-tail.jsonl": (5, [(6, 520)], []),
    "14-utf16.jsonl": (5, [], ["UTF-16"]),
    "15-good.jsonl.gz": (5, [], ["gzip"]),
    "16-cut.jsonl.gz": (4, [(5, 416)], ["gzip"]),
    "17-two-members.jsonl.gz": (5, [], ["gzip of 2 members"]),
    "18-gz-named-json.json": (5, [], ["gzip"]),
    "19-blank-lines.jsonl": (5, [], ["blank lines"]),
    "20-array-instead.jsonl": (5, [], ["JSON array"]),
    "21-out-of-order-and-twice.jsonl": (6, [], []),
    "22-same-seq-two-contents.jsonl": (6, [], []),
    "23-hole.jsonl": (3, [], []),
}


@pytest.mark.parametrize("name", TABLE)
def test_reads_what_is_there_and_names_what_is_not(name: str) -> None:
    data = (TORN / name).read_bytes()
    file = open_input(name, len(data), memory(name, data).open)
    assert lines.sniff([file]) >= 0.5
    found = list(lines.read([file], Options()))
    count, lost, words = TABLE[name]
    assert len(entries(found)) == count
    assert [(u.line, u.byte) for u in unread(found)] == lost
    assert adds_up(found)
    notes = " ".join(i.text for i in found if isinstance(i, Note))
    assert all(word in notes for word in words)
    assert bool(lost) <= any(isinstance(i, Partial) for i in found)


def test_every_damaged_file_is_in_the_table() -> None:
    assert set(TABLE) == {p.name for p in TORN.iterdir()} - {"01-zero-bytes.jsonl"}


def test_refuses_an_empty_file() -> None:
    with pytest.raises(CannotOpen, match="empty"):
        open_input("f", 0, memory("f", b"").open)


def test_keeps_the_exact_bytes_of_each_line() -> None:
    for path in (LINES / "odd_payloads.jsonl", TORN / "12-bad-utf8.jsonl", TORN / "11-u2028.jsonl"):
        data = path.read_bytes()
        assert b"".join(line.raw + b"\n" for line in entries(items_of(data))) == data


def test_keeps_a_raw_newline_as_part_of_the_value() -> None:
    found = entries(items_of((TORN / "10-raw-newline-in-string.jsonl").read_bytes()))
    assert wire.parse(found[1].raw).out == "one\ntwo"


def test_reads_a_record_that_was_printed_over_several_lines() -> None:
    pretty = json.dumps({"run": "r", "seq": 1, "kind": "note", "out": {"a": [1, 2]}}, indent=2).encode()
    found = items_of(pretty + b"\n" + record(2) + b"\n")
    assert [wire.parse(line.raw).seq for line in entries(found)] == [1, 2]
    assert b"\n" not in entries(found)[0].raw


def test_does_not_take_a_value_of_a_torn_record_for_an_entry() -> None:
    inner = b'{"run":"other","kind":"tool.result","out":1}'
    for torn in (
        b'{"run":"r","kind":"note","out":' + inner,
        b'{"run":"r","kind":"note","out":[1,' + inner,
        b'{"a":' + inner + b',"b":',
    ):
        found = items_of(record(1) + b"\n" + torn + b"\n" + record(2) + b"\n")
        assert [line.run for line in entries(found)] == ["r", "r"], torn
        assert adds_up(found)


def test_does_not_take_the_end_of_a_torn_record_for_an_entry() -> None:
    found = items_of(b'{"run":"other","kind":"note"},"seq":3}\n' + record(1) + b"\n")
    assert [line.run for line in entries(found)] == ["r"]
    assert len(unread(found)) == 1


def test_goes_on_after_a_line_over_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LINE_LIMIT", 1_000)
    monkeypatch.setattr(lines, "CHUNK", 256)
    found = items_of(record(1) + b"\n" + record(2, out="x" * 5_000) + b"\n" + record(3) + b"\n")
    assert [wire.parse(line.raw).seq for line in entries(found)] == [1, 3]
    assert "the limit is 1000" in unread(found)[0].reason
    assert unread(found)[0].line == 2


def test_names_a_run_id_that_is_too_long() -> None:
    found = items_of(wire.dump({"run": "x" * 5_000, "kind": "note"}) + b"\n" + record(1) + b"\n")
    assert len(entries(found)) == 1
    assert "the limit is" in unread(found)[0].reason


def test_stops_looking_when_the_file_is_no_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "GIVE_UP", 50)
    found = items_of(record(1) + b"\n" + b"hello\n" * 500)
    assert (len(entries(found)), len(unread(found))) == (1, 51)
    assert adds_up(found)
    assert "450 lines from here on" in unread(found)[-1].reason
    assert len(unread(items_of((record(1) + b"\nhello\n") * 500))) == 500, "a journal with bad lines is read to its end"


def test_names_a_line_that_would_cost_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    found = items_of(b'{"run":"r","kind":"note","out":' + b"[" * 1_100_000 + b"\n" + record(1) + b"\n")
    assert [wire.parse(line.raw).seq for line in entries(found)] == [1]
    assert "brackets" in unread(found)[0].reason


@pytest.mark.parametrize(
    "deep", [b"[" * 200 + b"]" * 200, b"{" + b",".join(b'"k%d":1' % n for n in range(201_000)) + b"}"]
)
def test_loses_nothing_behind_a_value_that_is_too_deep_or_wide(deep: bytes) -> None:
    line = b'{"run":"r","seq":1,"kind":"note","out":' + deep + b"}"
    assert len(entries(items_of(line + b"\n"))) == 1
    found = items_of(line + record(2) + b"\n" + line + b"rest\n")
    assert len(entries(found)) + len(unread(found)) >= 4
    assert adds_up(found)


def test_says_which_run_a_torn_line_was_of() -> None:
    found = items_of(record(1) + b'\n{"run":"r","seq":2,"ki')
    assert [(p.runs, p.code) for p in found if isinstance(p, Partial)] == [(("r",), "torn_tail")]
    found = items_of(record(1) + b'\n{"ru')
    assert [(p.runs, p.code) for p in found if isinstance(p, Partial)] == [((), "torn_tail")]


def test_gives_only_safe_text_of_what_it_did_not_read() -> None:
    found = items_of(b"\x1b]0;x\x07\x9b1m\xe2\x80\xae" + b"y" * 500 + b"\n" + record(1) + b"\n")
    start = unread(found)[0].start
    assert len(start) <= 80
    assert start.isprintable()
    assert "\\x1b" in start


@pytest.mark.parametrize("cut", range(len(GOOD) + 1))
def test_reads_every_prefix_without_inventing_anything(cut: int) -> None:
    if not cut:
        return
    found = items_of(GOOD[:cut])
    whole = GOOD[:cut].split(b"\n")
    assert [line.raw for line in entries(found)] == [w for w in whole if w in GOOD.split(b"\n") and w]
    assert adds_up(found)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                record(1),
                record(2, out="a{b"),
                b"\n",
                b"\r\n",
                b"\0\0\0",
                b'{"run":"r","out":"',
                b"}",
                b"[",
                b" ",
                b"\xff",
                b"\xef\xbb\xbf",
            ]
        )
    )
)
def test_counts_add_up_whatever_the_bytes(parts: list[bytes]) -> None:
    found = items_of(b"".join(parts))
    assert adds_up(found)
    for line in entries(found):
        assert wire.parse(line.raw).run == line.run
        assert b"\n" not in line.raw


def mutated(data: bytes, random: random.Random) -> bytes:
    """One of: a flipped bit, a cut, two lines glued, a block of NULs, two lines swapped."""
    what, at = random.randrange(5), random.randrange(len(data))
    if what == 0:
        return data[:at] + bytes([data[at] ^ (1 << random.randrange(8))]) + data[at + 1 :]
    if what == 1:
        return data[:at] + data[at + random.randrange(1, 60) :]
    if what == 2:
        ends = [i for i, c in enumerate(data) if c == 10]
        end = random.choice(ends)
        return data[:end] + data[end + 1 :]
    if what == 3:
        return data[:at] + bytes(random.randrange(1, 300)) + data[at + random.randrange(0, 40) :]
    parts = data.split(b"\n")
    a, b = random.randrange(len(parts)), random.randrange(len(parts))
    parts[a], parts[b] = parts[b], parts[a]
    return b"\n".join(parts)


@pytest.mark.parametrize(
    "name", ["torn/00-good.jsonl", "odd_payloads.jsonl", "awkward_ids.jsonl", "approval_mismatch.jsonl"]
)
def test_survives_seeded_damage(name: str) -> None:
    data = (LINES / name).read_bytes()
    for seed in range(250):
        damage = random.Random(seed)
        hurt = data
        for _ in range(damage.randrange(1, 4)):
            hurt = mutated(hurt or b"\n", damage)
        found = items_of(hurt)
        assert adds_up(found), seed
        for line in entries(found):
            assert wire.parse(line.raw).kind, seed
