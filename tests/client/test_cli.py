"""The `drainboard` command, as a process where signals matter, in this process elsewhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from drainboard.cli import main

from tests.client.journal_server import TOKEN, JournalServer

AGENT = """
import drainboard

@drainboard.agent("slow", versions={"app": "1"})
def slow(run, task):
    run.tool("wait", lambda: open(task["fifo"]).read(), effect="write", rerun_safe=True)
    run.tool("after", lambda: 1, effect="read")
    return "done"

not_an_agent = 3
"""


@pytest.fixture
def _server_named(server: JournalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAINBOARD_URL", server.url)
    monkeypatch.setenv("DRAINBOARD_TOKEN", TOKEN)


def told(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


@pytest.mark.usefixtures("_server_named")
def test_starts_a_run_once(server: JournalServer, capsys: pytest.CaptureFixture[str]) -> None:
    for created in (True, False):
        assert main(["runs", "start", "mailer", "--run", "m1", "--in", '{"a": 1}', "--json"]) == 0
        assert told(capsys) == {"run": "m1", "key": "k1", "created": created}
    assert server.runs["k1"].task == {"a": 1}


@pytest.mark.usefixtures("_server_named")
def test_sends_a_signal(server: JournalServer, capsys: pytest.CaptureFixture[str]) -> None:
    run = server.run()
    assert main(["signal", run.key, "go", "--value", "[1]", "--json"]) == 0
    assert told(capsys) == {"pos": 2}
    assert run.entries[1]["out"] == [1]


@pytest.mark.usefixtures("_server_named")
def test_registers_a_build(server: JournalServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "build.json"
    path.write_text('{"agent": "a", "label": "1"}', encoding="utf-8")
    assert main(["build", "register", str(path)]) == 0
    assert capsys.readouterr().out == "a build 1 is registered\n"
    assert server.builds == [{"agent": "a", "label": "1"}]


@pytest.mark.usefixtures("_server_named")
@pytest.mark.parametrize(
    ("argv", "code", "says"),
    [
        (["signal", "nokey", "go"], 1, "UnknownRun"),
        (["signal", "k1", "go", "--value", "{"], 2, "--value is not JSON"),
        (["build", "register", "/nowhere"], 2, "No such file"),
        (["worker", "nomodule", "--build", "1"], 2, "write module:name"),
        (["worker", "no_such_module:x", "--build", "1"], 2, "no_such_module"),
        (["worker", "json:loads", "--build", "1"], 2, "is no agent"),
        (["runs", "start", "a", "--url", "ftp://x"], 2, "no http or https address"),
    ],
)
def test_says_what_is_wrong_and_with_which_exit_code(
    argv: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == code
    assert says in capsys.readouterr().err
    assert main([*argv, "--json"]) == code
    assert says in json.dumps(told(capsys))


def test_names_a_missing_server(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("DRAINBOARD_URL", raising=False)
    assert main(["runs", "start", "a"]) == 2
    assert "DRAINBOARD_URL" in capsys.readouterr().err


@pytest.mark.processes
@pytest.mark.usefixtures("_server_named")
def test_finishes_the_step_in_flight_on_sigterm_and_releases(server: JournalServer, tmp_path: Path) -> None:
    (tmp_path / "slow_agent.py").write_text(AGENT, encoding="utf-8")
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    run = server.run(agent="slow", task={"fifo": str(fifo)})
    client = Path(__file__).resolve().parents[2] / "client" / "src"
    arguments = ["worker", "slow_agent:slow", "--build", "1", "--poll", "0.05", "--json"]
    with subprocess.Popen(
        [sys.executable, "-m", "drainboard", *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(client)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        server.wait(lambda: bool(run.of("tool.started")))
        assert process.stderr is not None
        with fifo.open("w") as f:  # opens when the step reads
            process.send_signal(signal.SIGTERM)
            assert any("stopping" in line for line in iter(process.stderr.readline, ""))
            f.write("go")
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert {json.loads(line)["status"] for line in out.splitlines()} == {"released"}
    assert [e["name"] for e in run.of("tool.started", "tool.result")] == ["wait", "wait"]
    assert run.runnable
