"""`manage.py import_journal`: exit codes, JSON, and a terminal that nothing of a journal can act on."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from tests.ingest.conftest import LINES, TORN

pytestmark = pytest.mark.django_db


def command(*paths: Path | str, **options: object) -> tuple[int, str]:
    """(exit code, what was printed)."""
    out = io.StringIO()
    try:
        call_command("import_journal", *map(str, paths), stdout=out, **options)
    except SystemExit as e:
        return int(e.code or 0), out.getvalue()
    return 0, out.getvalue()


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("00-good.jsonl", 0),
        ("05-torn-tail.jsonl", 1),
        ("01-zero-bytes.jsonl", 2),
        ("16-cut.jsonl.gz", 1),
        ("no-such-file", 2),
    ],
)
def test_exits_with_what_came_of_it(name: str, code: int) -> None:
    assert command(TORN / name)[0] == code
    found, text = command(TORN / name, json=True)
    assert found == code
    assert json.loads(text)["files"][0]["path"] == str(TORN / name)


def test_exits_with_the_worst_of_several_files() -> None:
    assert command(TORN / "00-good.jsonl", TORN / "05-torn-tail.jsonl")[0] == 1
    assert command(TORN / "05-torn-tail.jsonl", TORN / "01-zero-bytes.jsonl")[0] == 2


def test_takes_a_folder_as_one_import(tmp_path: Path) -> None:
    good = (TORN / "00-good.jsonl").read_bytes()
    (tmp_path / "sub").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / "sub" / "a.jsonl").write_bytes(good[:208])
    (tmp_path / "z.jsonl").write_bytes(good[208:])
    (tmp_path / "ledger.sql").write_bytes(b"CREATE TABLE charges (id int);\n")
    (tmp_path / ".git" / "config").write_bytes(b"x")
    code, text = command(tmp_path, json=True, agent="refund", environment="prod", source="folder")
    made = json.loads(text)
    assert code == 2
    assert [(f["path"].removeprefix(f"{tmp_path}/"), f["state"]) for f in made["files"]] == [
        ("ledger.sql", "refused"), ("z.jsonl", "complete"), ("sub/a.jsonl", "complete"),
    ]  # fmt: skip
    assert "not a journal of a known format" in made["files"][0]["reason"]
    assert {r["source"] for f in made["files"] for r in f["runs"]} == {"folder"}


def test_refuses_a_native_source_and_an_unknown_format() -> None:
    with pytest.raises(CommandError, match="native"):
        command(TORN / "00-good.jsonl", source="native:prod")
    with pytest.raises(CommandError, match="invalid choice"):
        call_command("import_journal", str(TORN / "00-good.jsonl"), "--format", "sideways")


def test_ends_with_what_came_of_it_however_much_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "wrong.txt").write_bytes(b"no entry\n" * 854)
    code, text = command(tmp_path / "wrong.txt", TORN / "00-good.jsonl", format="lines")
    lines = text.splitlines()
    assert code == 2
    assert sum(": no entry" in line for line in lines) == 20
    assert "          and 834 more not read; --json has all" in lines
    assert lines[-2].startswith("refused ")
    assert lines[-2].endswith(": no line of the file is a journal entry")
    assert lines[-1].endswith(": 1 complete, 1 refused; 5 read, 854 not read")


HOSTILE = "\x1b]0;x\x07\x1b[2K\r\x9b31m\x85\u2028\u202e\u200b\x7f\x00"


@pytest.mark.parametrize("as_json", [False, True])
def test_prints_no_control_characters(as_json: bool, tmp_path: Path) -> None:
    hostile = json.dumps({"run": f"run {HOSTILE}", "seq": 1, "kind": "note", "name": HOSTILE}).encode()
    bare = (
        HOSTILE.encode()
        + b" not a line\n"
        + hostile
        + b"\n"
        + hostile.replace(b'"note"', b'"other"')
        + b'\n{"run":"\x1b[2J'
    )
    file = tmp_path / "odd \x1b[31m name.jsonl"
    file.write_bytes(bare)
    code, text = command(file, LINES / "odd_payloads.jsonl", LINES / "awkward_ids.jsonl", json=as_json)
    assert code == 1
    assert not [c for c in text if (ord(c) < 0x20 and c != "\n") or 0x7F <= ord(c) <= 0x9F or c in "\u2028\u202e\u200b"]
    if not as_json:
        assert sum("run a\\x0ab " in line for line in text.split("\n")) == 1, "one run, one line"
    else:
        assert json.loads(text)["files"][0]["runs"][0]["run"] == f"run {HOSTILE}"
