"""What holds of every adapter and every capture: nothing raised, nothing lost, nothing invented, and the same again each time."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import cache

import pytest
from drainboard import wire

from journals.adapters import ADAPTERS
from journals.adapters.base import Note, Unread
from tests.conformance.captures import Capture, captures, files_of
from tests.conformance.reading import STATE, Reading, read
from tests.conformance.records import COUNTED, found, nanoseconds, zoneless

BIG = 200_000  # bytes; what is larger is the same again
AT_MOST = 20  # captures of one adapter; WHOLE=1 takes all
adapters = pytest.mark.parametrize("adapter", list(ADAPTERS))


@cache
def of(adapter: str) -> list[Capture]:
    """The captures of one adapter; of many, some of each form."""
    found = [c for c in captures() if c.adapter == adapter and c.size < BIG]
    return found if os.environ.get("WHOLE") else found[:: -(-len(found) // AT_MOST)]


def each(
    when: Callable[[Capture], bool] = lambda capture: True,
) -> Callable[[Callable[[Capture], None]], Callable[[str], None]]:
    """Makes one test an adapter of a check of one capture."""

    def wrap(check: Callable[[Capture], None]) -> Callable[[str], None]:
        @adapters
        def test(adapter: str) -> None:
            for capture in of(adapter):
                if when(capture):
                    try:
                        check(capture)
                    except AssertionError as e:
                        raise AssertionError(f"{capture}: {e}") from e

        test.__name__, test.__doc__ = check.__name__, check.__doc__
        return test

    return wrap


OF_ANOTHER = {
    "dbos:case-10/langgraph-checkpoint-row.json": "a row of LangGraph's, beside DBOS's",
    "dbos:case-10*": "a row of LangGraph's, beside DBOS's",
}
"""Captures that another adapter may rightly call its own."""

NOT_TOLD = {
    "durabletask:k-unset-times.json": r"events without a possible time",
    "langgraph:h-subgraph-parked": r"a step is made of its checkpoint and its writes",
    "dbos:captures/old.dbos": r"only carried a message",
    "temporal:f-nondet.stuck.sdk.json": r"sketch of the task that runs now",
    "lines:torn/": r"",
}
"""Captures some of whose records are no entries, and the words of the note that says so."""


@cache
def reading(capture: Capture) -> Reading:
    return read(capture.adapter, capture.inputs())


def test_every_adapter_has_captures_and_a_second_reader() -> None:
    assert {c.adapter for c in captures()} == ADAPTERS.keys() == COUNTED.keys()


@each()
def test_what_is_read_adds_up(capture: Capture) -> None:
    assert reading(capture).faults() == []


@each()
def test_only_its_own_adapter_takes_it(capture: Capture) -> None:
    sure = {name: adapter.sniff(capture.inputs()) for name, adapter in ADAPTERS.items()}
    assert all(0 <= score <= 1 for score in sure.values())
    if reading(capture).lines and capture.adapter != "lines":
        assert sure[capture.adapter] >= 0.5
    others = {name: score for name, score in sure.items() if name != capture.adapter and score >= 0.5}
    assert others == {} or str(capture) in OF_ANOTHER


@each()
def test_nothing_is_lost(capture: Capture) -> None:
    """Each record that the second reader sees is an entry, or is named as none."""
    made = reading(capture)
    missing = {key for path, data in capture.files for key in COUNTED[capture.adapter](path, data)} - found(made)
    words = next((words for name, words in NOT_TOLD.items() if str(capture).startswith(name)), None)
    if words is None or not missing:
        assert missing == set()
    else:
        assert made.of(Unread) or any(re.search(words, note.text) for note in made.of(Note))


@each()
def test_an_id_has_one_content_and_positions_rise(capture: Capture) -> None:
    for run, entries in reading(capture).entries.items():
        contents: dict[str, set[bytes]] = {}
        for entry in entries:
            contents.setdefault(entry.entry_id, set()).add(entry.digest)
        several = sorted(name for name, digests in contents.items() if len(digests) > 1)
        assert several == [] or str(capture) in REWRITTEN, f"{run}: {several}"
        if capture.adapter != "lines":
            numbers = [entry.seq for entry in entries if entry.seq is not None]
            assert numbers == sorted(numbers) or str(capture) in REWRITTEN, run


REWRITTEN = {
    "langgraph:b-crash-async-immediate.recovered.dump.sql": "writes of a checkpoint that a crash lost have no place of their own",
    "otel:odd.jsonl": "one span twice, with two outcomes",
    "lines:torn/22-same-seq-two-contents.jsonl": "made to be so",
}
"""Captures that hold two contents of one record, or records out of order, and why."""


CLOSED = {"cloudflare:local.sqlite", "langgraph:b-sqlite.recovered.tables.json"}
"""Captures whose times stand in bytes that are no text: a page of a database, a blob in base64."""

TIME = re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?")
NUMBER = re.compile(rb"(?<![\d.])\d{9,19}(?:\.\d{1,9})?(?![\d])")


def times_of(data: bytes) -> set[int]:
    """Every time that stands in a file, as a date or as a count of seconds, milli-, micro- or nanoseconds."""
    made: set[int] = set()
    for match in TIME.findall(data):
        try:
            made.add(nanoseconds(match.decode()))
        except ValueError:
            continue
    for match in NUMBER.findall(data):
        whole, _, digits = match.decode().partition(".")
        for unit in (9, 6, 3, 0):
            made.add(int(whole) * 10**unit + int((digits + "0" * unit)[:unit] or 0))
    return made


@each()
def test_no_time_is_invented(capture: Capture) -> None:
    known = set().union(*(times_of(data) for _, data in capture.files))
    for line in reading(capture).lines:
        entry = wire.parse(line.raw)
        if entry.at is None or capture.adapter == "lines" or str(capture) in CLOSED:
            continue
        assert nanoseconds(zoneless(entry.at)) in known, f"{line.record}: {entry.at}"


@each()
def test_parents_and_children_are_other_runs(capture: Capture) -> None:
    for line in reading(capture).lines:
        entry = wire.parse(line.raw)
        for other in (entry.parent, entry.child):
            assert other is None or (other.strip() and other != line.run), line.record


@each()
def test_the_same_file_gives_the_same_lines(capture: Capture) -> None:
    made = reading(capture)
    again = read(capture.adapter, capture.inputs())
    assert [line.raw for line in made.lines] == [line.raw for line in again.lines]


@each(lambda capture: len(capture.files) > 1)
def test_the_order_of_files_changes_nothing(capture: Capture) -> None:
    made = reading(capture)
    turned = read(capture.adapter, files_of(capture.files[::-1]))
    assert sorted(line.raw for line in turned.lines) == sorted(line.raw for line in made.lines)


NAMED_BY_FILE = {
    "cloudflare": "what the local engine answers does not name its instance",
    "dbos": "a list of steps is named by its file",
}


@each(lambda capture: capture.adapter not in NAMED_BY_FILE)
def test_the_name_of_the_folder_changes_nothing(capture: Capture) -> None:
    made = reading(capture)
    moved = read(capture.adapter, files_of(tuple((f"elsewhere/{path}", data) for path, data in capture.files)))
    assert [line.raw for line in moved.lines] == [line.raw for line in made.lines]


@each(lambda capture: len(capture.files) == 1 and capture.size < 20_000)
def test_a_file_given_twice_says_nothing_more(capture: Capture) -> None:
    made = reading(capture)
    ((path, data),) = capture.files
    twice = read(capture.adapter, files_of((*capture.files, (f"copy/{path}", data))))
    assert twice.faults() == []
    states = {line.raw for line in twice.lines if (e := wire.parse(line.raw)).kind == "note" and e.name == STATE}
    assert {line.raw for line in twice.lines} - states <= {line.raw for line in made.lines}
