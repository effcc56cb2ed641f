"""Recorded journals are replayed against a build's code without running or sending anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import drainboard
import pytest
from drainboard.checking import check, journals_in
from drainboard.cli import main

from tests.client.conftest import Crash, Work
from tests.client.journal_server import TOKEN, Journal, JournalServer


def code(prompt: str = "p", tool: str = "pay", *, steps: int = 3, crash: bool = False) -> drainboard.Agent:
    def never(*_: Any) -> Any:
        raise AssertionError("ran")

    def once(value: Any) -> Any:
        return value if crash else never()

    @drainboard.agent("test")
    def agent(run: drainboard.Run, task: Any) -> Any:
        run.version("newer", 1, 2)
        run.model("decide", once, [prompt, task])
        run.parallel(lambda r: r.now(), lambda r: r.uuid())
        if steps == 2:
            return
        run.tool(tool, once, {"amount": 4}, rerun_safe=True)
        if crash:
            raise Crash
        run.tool("next", never)

    return agent


@pytest.fixture
def run(server: JournalServer, work: Work) -> Journal:
    made = server.run(task="t")
    with pytest.raises(Crash):
        work(code(crash=True), made)
    return made


def test_says_clean_to_the_end_of_the_record(run: Journal) -> None:
    found = check(code(), run.entries, build="2")
    assert (found.end, found.clean, found.steps) == ("record", True, 5)


def test_names_the_first_difference(run: Journal) -> None:
    found = check(code(tool="refund"), run.entries, build="2")
    assert (found.end, found.clean) == ("difference", False)
    assert found.detail is not None
    assert (found.detail["step"], found.detail["differs"]) == (3, ["name"])


def test_leaves_inputs_out_when_only_the_shape_counts(run: Journal) -> None:
    assert check(code(prompt="other"), run.entries, build="2").end == "difference"
    assert check(code(prompt="other"), run.entries, build="2", shape_only=True).end == "record"
    assert check(code(prompt="other", tool="refund"), run.entries, build="2", shape_only=True).end == "difference"


def test_finds_steps_that_the_code_no_longer_reaches(run: Journal) -> None:
    found = check(code(steps=2), run.entries, build="2")
    assert found.detail is not None
    assert (found.detail["step"], found.detail["differs"], found.detail["entries"]) == (3, ["end"], [8, 9])


def test_reports_an_error_of_the_code_itself(run: Journal) -> None:
    @drainboard.agent("test")
    def broken(run: drainboard.Run, task: Any) -> Any:
        raise KeyError("x")

    found = check(broken, run.entries, build="2")
    assert (found.end, found.message) == ("error", "KeyError: 'x'")


def test_refuses_what_is_no_journal() -> None:
    with pytest.raises(ValueError, match=r"run\.started"):
        check(code(), [], build="1")
    with pytest.raises(ValueError, match="line 2"):
        list(journals_in(['{"run": "r", "kind": "note"}', "{"]))


MODULE = """
import drainboard

@drainboard.agent("test")
def agent(run, task):
    run.version("newer", 1, 2)
    run.model("decide", print, ["p", task])
    run.parallel(lambda r: r.now(), lambda r: r.uuid())
    run.tool(NAME, print, {"amount": 4}, rerun_safe=True)
    run.tool("next", print)
"""


def test_checks_files_and_runs_from_the_command_line(
    server: JournalServer,
    run: Journal,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "agent_that_stays.py").write_text(f"NAME = 'pay'\n{MODULE}", encoding="utf-8")
    (tmp_path / "agent_that_leaves.py").write_text(f"NAME = 'refund'\n{MODULE}", encoding="utf-8")
    journal = tmp_path / "journal.jsonl"
    journal.write_text("".join(json.dumps(e) + "\n" for e in run.entries), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("DRAINBOARD_URL", server.url)
    monkeypatch.setenv("DRAINBOARD_TOKEN", TOKEN)
    before = len(run.entries)
    assert main(["replay", "agent_that_stays:agent", str(journal), "--build", "2", "--run", run.key]) == 0
    assert capsys.readouterr().out == "r1: clean to the end of the record\n" * 2
    assert main(["replay", "agent_that_leaves:agent", str(journal), "--build", "2", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["difference"]["differs"] == ["name"]
    assert main(["replay", "agent_that_stays:agent", "--build", "2"]) == 2
    assert len(run.entries) == before
