"""The forms of a DBOS export, and what is wrong with some of them, is said by name."""

from __future__ import annotations

import json
import random
import sqlite3
from pathlib import Path

import pytest
from drainboard import wire

from journals.adapters import dbos
from journals.adapters.base import DOUBT, InputFile
from journals.adapters.dbos.values import looks_pickled, payload
from journals.adapters.pgdump import cell
from journals.adapters.values import seconds_of, utc, utc_seconds

from .dbos_exports import Read, a_run, a_step, bytes_of, names, places, read, read_capture, table_file

SMALL = [n for n in names(".tables.json") + names(".dump.sql") + names(".json") if len(bytes_of(n)) < 20_000]


def _sound(made: Read) -> None:
    """What holds for every answer: lines parse, and lines and unread stretches are all that the report counts."""
    for line in made.lines:
        assert wire.parse(line.raw).run == line.run
    for path, count in made.counted.items():
        assert count == sum(x.path == path for x in made.lines) + sum(x.path == path for x in made.unread)


@pytest.mark.parametrize("name", SMALL)
def test_a_file_cut_anywhere_gives_what_stands_before_the_cut(name: str) -> None:
    whole = bytes_of(name)
    all_lines = {line.record for line in read_capture(name).lines}
    for size in sorted(random.Random(name).sample(range(len(whole)), 12)):
        made = read(InputFile.of(name, whole[:size]))
        _sound(made)
        # The latest value of an event is an entry of its own only while its history is cut away.
        assert {line.record for line in made.lines if not line.record.startswith("workflow_events/")} <= all_lines
        over = b"database dump complete" in whole[:size] or not whole[size:].strip()
        assert over or not any(made.state(run)["complete"] for run in made.runs)


def test_a_dump_cut_inside_its_steps_says_so_and_is_not_complete() -> None:
    whole = bytes_of("a-normal.done.dump.sql")
    made = read(InputFile.of("cut.sql", whole[: whole.index(b"refund-a\t4\tsend_refund") + 30]))
    assert [p.reason for p in made.partial] == ["the dump ends inside table operation_outputs"]
    assert [u.reason for u in made.unread] == ["operation_outputs row without its end"]
    assert made.state("refund-a")["complete"] is False
    assert [e["id"] for e in made.entries("refund-a") if "step" in e] == ["step:1", "step:2", "step:3"]


def test_torn_json_gives_its_whole_rows() -> None:
    whole = bytes_of("a-normal.done.tables.json")
    made = read(InputFile.of("cut.json", whole[: whole.index(b'"function_name": "send_refund"')]))
    assert [e["id"] for e in made.entries("refund-a") if "step" in e] == ["step:1", "step:2", "step:3"]
    assert made.partial
    assert len(made.unread) == 1
    assert made.state("refund-a")["complete"] is False


def test_mutated_bytes_never_break_the_reader() -> None:
    rng = random.Random(20261129)
    for turn in range(300):
        name = rng.choice(SMALL)
        data = bytearray(bytes_of(name))
        for _ in range(rng.randint(1, 6)):
            at = rng.randrange(len(data))
            change = rng.randrange(4)
            if change == 0:
                data[at] = rng.randrange(256)
            elif change == 1:
                del data[at : at + rng.randint(1, 200)]
            elif change == 2:
                data[at:at] = data[at : at + rng.randint(1, 200)]
            else:
                data[at:at] = rng.choice(
                    [
                        b"{",
                        b"]",
                        b'"',
                        b"\t",
                        b"\n",
                        b"\\N",
                        b"NaN",
                        b"1e999",
                        b"\xff",
                        b"-1",
                        b'"\\ud800"',
                        b"\x00",
                        b"[" * 300,
                    ]
                )
        made = read(InputFile.of(f"{turn}.{name}", bytes(data)))
        dbos.sniff([InputFile.of(name, bytes(data))])
        _sound(made)


def test_mutated_fields_never_break_the_reader() -> None:
    rng = random.Random(7)
    odd = [
        None,
        -1,
        0,
        2**70,
        1e300,
        "",
        "x",
        "9" * 40,
        True,
        [],
        {},
        [[1]],
        {"a": {"b": 1}},
        "\ud800",
        "\u202e",
        "NaN",
        1795955271822,
    ]
    for _ in range(300):
        tables = json.loads(bytes_of(rng.choice(names(".tables.json")[:6])))
        for _ in range(rng.randint(1, 5)):
            rows = rng.choice([rows for rows in tables.values() if rows])
            row = rng.choice(rows)
            row[rng.choice(list(row))] = rng.choice(odd)
        _sound(read(InputFile.of("x.json", json.dumps(tables).encode())))


def test_a_mutated_database_never_breaks_the_reader() -> None:
    rng, whole = random.Random(3), bytes_of("a-sqlite.done.sqlite")
    for _ in range(25):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 400)):
            data[rng.randrange(16, len(data))] = rng.randrange(256)
        _sound(read(InputFile.of("x.sqlite", bytes(data))))
    for size in (17, 100, 4096, 50_000, len(whole) - 4096):
        made = read(InputFile.of("x.sqlite", whole[:size]))
        _sound(made)
        assert made.refused or made.partial


def test_a_row_that_names_no_run_is_unread_with_its_line() -> None:
    dump = (
        bytes_of("a-normal.done.dump.sql")
        .replace(b"refund-a\t3\tcall_model", b"\\N\t3\tcall_model")
        .replace(b"refund-a\t4\t", b"refund-a\t4\t4\t")
    )
    made = read(InputFile.of("x.sql", dump))
    reasons = [u.reason for u in made.unread]
    assert reasons == [
        "operation_outputs row: workflow_uuid is missing",
        "operation_outputs row has 12 columns, not 11",
    ]
    assert all(dump.split(b"\n")[u.line - 1].startswith(u.start.encode()[:2]) for u in made.unread)
    assert all(dump[u.byte : u.byte + 2] == u.start.encode()[:2] for u in made.unread)
    assert (places(made.state("refund-a")["pending"]), made.state("refund-a")["complete"]) == ([3, 4], False)
    assert [p.code for p in made.partial] == ["missing_entry"]


def test_an_insert_dump_is_refused_with_what_to_do() -> None:
    made = read(InputFile.of("x.sql", b"--\nINSERT INTO dbos.workflow_status VALUES ('a', 'PENDING');\n"))
    assert [r.reason for r in made.refused] == ["dumped with --inserts: dump it again without that option"]


def test_tables_of_other_programs_in_a_dump_are_counted() -> None:
    dump = b"COPY public.users (id, name) FROM stdin;\n1\tx\n2\ty\n\\.\n" + bytes_of("a-normal.done.dump.sql")
    assert "table users (2 rows) is not one of DBOS's" in [n.text for n in read(InputFile.of("x.sql", dump)).notes]


def test_copy_escapes_are_undone() -> None:
    assert cell("\\N") is None
    assert cell("a\\tb\\nc\\\\d\\x41\\101") == "a\tb\nc\\dAA"


def test_list_and_steps_of_the_command_line_are_one_import() -> None:
    made = read_capture("h-children.done.cli-list.json", "h-children.done.cli-steps.refund-h.json")
    assert len([e for e in made.entries("refund-h") if "step" in e]) == 12
    assert made.state("refund-h")["complete"] is True
    child = made.state("refund-h-1")
    assert (child["steps_exported"], child["complete"]) == (False, False)


def test_client_output_gives_readable_values() -> None:
    made = read_capture("a-normal.done.client-list.json", "a-normal.done.client-steps.json")
    assert made.entry("refund-a", "step:4")["out"]["refund_id"] == "rf_37dab40be7"
    model = made.entry("refund-a", "step:1")
    assert (model["model_reported"], model["usage"]["input_tokens"]) == ("fake-model-2026-01", 55)


def test_a_class_that_the_command_line_could_not_load_stays_closed() -> None:
    made = read_capture("e-failed.done.cli-list.json", "e-failed.done.cli-steps.refund-e2.json")
    assert made.entry("refund-e2", "step:4")["error"]["opaque"] == "pickle"


def test_command_line_text_of_an_unexpected_step_is_known() -> None:
    failed = read_capture("f-nondet.error.cli-list.json").entries("refund-f2")[1]
    assert (failed["error"]["type"], failed["reason"]) == ("DBOSUnexpectedStepError", "NonDeterministicReplay")


def test_a_value_that_is_not_standard_json_is_closed() -> None:
    listed = b'[{"workflow_id":"r","status":"SUCCESS","name":"a","app_version":"1","created_at":1,"output":{"x":NaN},"input":[Infinity]}]'
    made = read(InputFile.of("list.json", listed))
    assert [e.get("out", e.get("in"))["opaque"] for e in made.entries("r")[:2]] == ["json with NaN"] * 2
    assert [line.oddities for line in made.lines[:2]] == [("opaque_payload",)] * 2


def test_a_torn_table_makes_every_run_of_its_export_partial() -> None:
    steps = table_file("operation_outputs", [a_step(1, run="a")]).read()[:-4]
    made = read(table_file("workflow_status", [a_run("a"), a_run("b")]), InputFile.of("operation_outputs.json", steps))
    assert [(p.path, p.runs) for p in made.partial] == [("operation_outputs.json", ("a", "b"))]


def test_what_sqlite_keeps_beside_a_database_is_claimed_with_it() -> None:
    assert dbos.sniff([InputFile.of("x.sqlite-shm", bytes(32))]) >= 0.5
    assert dbos.sniff([InputFile.of("x.sqlite-wal", b"\x37\x7f\x06\x82" + bytes(28))]) >= 0.5
    assert dbos.sniff([InputFile.of("x-wal", b"text")]) == 0


def test_runs_without_their_steps_are_never_complete() -> None:
    state = read_capture("b-crash.inflight.cli-list.json").state("refund-b")
    assert (state["complete"], state["steps_exported"], state["pending"][0]["state"]) == (False, False, "not_exported")


def test_steps_that_name_no_run_are_refused_with_what_to_do() -> None:
    made = read_capture("a-normal.done.client-steps.json")
    assert len(made.refused) == 1
    assert "steps.<workflow id>.json" in made.refused[0].reason


def test_what_the_command_line_printed_of_runs_in_the_tables_is_not_read_twice() -> None:
    both = read_capture(
        "a-normal.done.tables.json", "a-normal.done.cli-list.json", "a-normal.done.cli-steps.refund-a.json"
    )
    assert [line.raw for line in both.lines] == [line.raw for line in read_capture("a-normal.done.tables.json").lines]
    assert any("not read" in n.text for n in both.notes)


def test_equal_and_differing_rows_of_one_run_are_told() -> None:
    made = read(table_file("workflow_status", [a_run(), a_run(), a_run(status="SUCCESS", updated_at=2_000_000)]))
    assert made.state("r")["runtime_status"] == "SUCCESS"
    assert [n.text for n in made.notes][:2] == [
        "run 'r' is listed twice, both times alike", "run 'r' is listed twice with different facts; the later update counts",
    ]  # fmt: skip


def test_a_database_in_wal_mode_is_read_with_its_log(tmp_path: Path) -> None:
    path = tmp_path / "live.sqlite"
    path.write_bytes(bytes_of("a-sqlite.done.sqlite"))
    live = sqlite3.connect(path)
    live.execute("PRAGMA journal_mode=WAL")
    live.execute("DELETE FROM operation_outputs WHERE function_id = 5")
    live.commit()
    files = [InputFile.of(p.name, p.read_bytes()) for p in sorted(tmp_path.iterdir())]
    live.close()
    assert [f.path for f in files] == ["live.sqlite", "live.sqlite-shm", "live.sqlite-wal"]
    assert "step:5" not in [e["id"] for e in read(*files).entries("refund-a")]
    alone = read(files[0])
    assert "step:5" in [e["id"] for e in alone.entries("refund-a")]
    assert [n.text for n in alone.notes if DOUBT in n.text]
    assert not alone.partial
    (lacking,) = read(*files[:2]).partial
    assert "pages of the last rows are only in that" in lacking.reason


def test_an_index_that_counts_no_page_more_than_the_database_has_leaves_no_doubt(tmp_path: Path) -> None:
    path = tmp_path / "live.sqlite"
    path.write_bytes(bytes_of("a-sqlite.done.sqlite"))
    live = sqlite3.connect(path)
    live.execute("PRAGMA journal_mode=WAL")
    live.execute("DELETE FROM operation_outputs WHERE function_id = 5")
    live.commit()
    live.execute("PRAGMA wal_checkpoint(PASSIVE)")
    files = [InputFile.of(p.name, p.read_bytes()) for p in sorted(tmp_path.iterdir())]
    live.close()
    made = read(*files[:2])
    assert "step:5" not in [e["id"] for e in made.entries("refund-a")]
    assert not made.partial
    assert not [n for n in made.notes if DOUBT in n.text]
    closed = read(InputFile.of("live.sqlite", path.read_bytes()))
    assert not closed.partial, "a database that was closed is whole, and looks like one whose log was left behind"
    assert [n for n in closed.notes if DOUBT in n.text]


def test_a_view_with_the_name_of_a_table_is_not_run(tmp_path: Path) -> None:
    path = tmp_path / "evil.sqlite"
    evil = sqlite3.connect(path)
    evil.execute(
        "CREATE VIEW operation_outputs AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
    )
    evil.commit()
    evil.close()
    made = read(InputFile.of("evil.sqlite", path.read_bytes()))
    assert not made.lines
    assert [r.reason for r in made.refused] == ["no table of DBOS in it"]


def test_the_file_is_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    path.write_bytes(bytes_of("a-sqlite.done.sqlite"))
    read(InputFile(str(path), path.stat().st_size, lambda: path.open("rb")))
    assert path.read_bytes() == bytes_of("a-sqlite.done.sqlite")
    assert [p.name for p in tmp_path.iterdir()] == ["a.sqlite"]


def test_a_large_value_is_kept_or_closed_whole() -> None:
    big = json.dumps({"text": "x" * 1_300_000})
    made = read(
        table_file("workflow_status", [a_run()]),
        table_file("operation_outputs", [a_step(1, output=big), a_step(2, output=big, serialization="py_pickle")]),
    )
    assert made.entry("r", "step:1")["out"] == json.loads(big)
    assert made.entry("r", "step:2")["out"]["bytes"] == len(big)


@pytest.mark.parametrize(
    "text", ["", "   ", "hello", "\x00\x01", "[]", "{}", "[1,2]", '{"run":"a","kind":"note"}', '[{"a":1}]']
)
def test_what_is_no_export_is_refused(text: str) -> None:
    made = read(InputFile.of("x.json", text.encode()))
    assert not made.lines
    assert len(made.refused) == 1


def test_other_formats_are_not_claimed() -> None:
    assert dbos.sniff([InputFile.of("a.jsonl", b'{"run":"a","kind":"note","out":{"workflow_uuid":"x"}}\n')]) == 0
    assert dbos.sniff([InputFile.of("a.json", b'{"events":[{"eventId":"1"}]}')]) == 0


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (1785000000000, "2026-07-25T17:20:00Z"),
        (1785000003400, "2026-07-25T17:20:03.4Z"),
        (1795955275094, "2026-11-29T12:27:55.094Z"),
        (-1, None),
        (10**18, None),
    ],
)
def test_epoch_milliseconds_are_exact(ms: int, shown: str | None) -> None:
    assert utc(ms) == shown


def test_epoch_seconds_keep_their_digits() -> None:
    assert utc_seconds(seconds_of(1796041671.8386934)) == "2026-11-30T12:27:51.8386934Z"
    assert seconds_of(float("nan")) is None


@pytest.mark.parametrize(
    ("stored", "mark", "marked", "shown"),
    [
        ('{"a":1}', "portable_json", True, {"a": 1}),
        ('{"a":1}', None, False, {"a": 1}),
        ('{"a":1}', None, True, "pickle"),
        ("true", None, False, "pickle"),  # could be base64
        ("gAROLg==", None, False, "pickle"),
        ("secret", "my_codec", True, "my_codec"),
        ("{", "portable_json", True, "broken json"),
        ("[NaN]", "portable_json", True, "json with NaN"),
        ("[" * 200 + "]" * 200, "portable_json", True, "json, too deep"),
    ],
)
def test_a_value_is_parsed_only_when_its_row_says_that_it_is_json(
    stored: str, mark: str | None, marked: bool, shown: object
) -> None:
    got = payload(stored, mark=mark, marked=marked)
    assert (got.value["opaque"] if got.opaque else got.value) == shown


def test_only_the_frame_of_a_pickle_is_looked_at() -> None:
    assert looks_pickled("gAROLg==")
    assert not looks_pickled("gASV")
    assert not looks_pickled("A-1001")
