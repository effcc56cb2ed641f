"""`drainboard`: the worker, and small commands for people and pipelines. Every command takes `--json`.

Exit codes: 0 done, 1 refused by the server (`replay`: a journal differs), 2 bad input, 3 the server was not reachable.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from drainboard import errors
from drainboard.agent import Agent, default_environment
from drainboard.checking import Checked, check, journals_in
from drainboard.client import Client, from_environment
from drainboard.execute import Outcome
from drainboard.session import MODES
from drainboard.worker import Worker

__all__ = ["main"]


class BadInput(Exception):
    """An argument cannot be used; the message says which and why."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    given = _parser().parse_args(argv)
    try:
        return int(given.command(given))
    except (BadInput, errors.BadVersions, ValueError) as e:
        return _fail(given, 2, type(e).__name__, str(e))
    except errors.JournalUnavailable as e:
        return _fail(given, 3, "JournalUnavailable", str(e))
    except errors.Refused as e:
        return _fail(given, 1, e.refusal, str(e))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="drainboard", description="Workers and commands for durable agent runs.")
    commands = parser.add_subparsers(required=True, metavar="command")
    _worker_arguments(_command(commands, "worker", _worker, "run an agent's runs until stopped"))
    _replay_arguments(_command(commands, "replay", _replay, "check recorded journals against this build's code"))
    build = commands.add_parser("build", help="builds").add_subparsers(required=True, metavar="command")
    register = _command(build, "register", _register, "register a build file")
    register.add_argument("file", help="the build file, or - for standard input")
    runs = commands.add_parser("runs", help="runs").add_subparsers(required=True, metavar="command")
    begin = _command(runs, "start", _start, "start a run")
    begin.add_argument("agent")
    begin.add_argument("--run", help="run id; the same id with the same input is the same run")
    begin.add_argument(
        "--in", dest="task", default="null", metavar="JSON", help="the input; - reads it from standard input"
    )
    begin.add_argument("--environment", default=default_environment())
    begin.add_argument("--build", help="the build it is meant for")
    show = _command(runs, "show", _show, "show a run")
    show.add_argument("key", help="the run's key")
    send = _command(commands, "signal", _signal, "send a signal to a run")
    send.add_argument("key", help="the run's key")
    send.add_argument("name")
    send.add_argument("--value", default="null", metavar="JSON")
    send.add_argument("--id", help="the same id twice is one signal")
    return parser


def _command(
    commands: Any, name: str, call: Callable[[argparse.Namespace], int], about: str
) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = commands.add_parser(name, help=about, description=about)
    made.set_defaults(command=call)
    made.add_argument("--url", default=None, help="the server; default: DRAINBOARD_URL")
    made.add_argument(
        "--token", default=None, help="default: DRAINBOARD_TOKEN, which other users of the machine cannot see"
    )
    made.add_argument("--json", action="store_true", help="print JSON, one object a line")
    return made


def _worker_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("agent", help="where the agent is: module:name")
    parser.add_argument("--build", required=True, help="label of the build that this worker runs")
    parser.add_argument("--environment", default=default_environment())
    parser.add_argument(
        "--agent-mode",
        choices=MODES,
        default="hold",
        help="when a replay leaves the record: hold the run, or go on with a finding",
    )
    parser.add_argument("--concurrency", type=int, default=4, metavar="N", help="runs at once")
    parser.add_argument("--lease", type=float, default=30, metavar="SECONDS")
    parser.add_argument("--poll", type=float, default=1.0, metavar="SECONDS", help="pause between two looks for runs")
    parser.add_argument("--name", help="this worker's name in the journal; default: host and process id")
    parser.add_argument("--until-idle", action="store_true", help="end when there is nothing to do")
    parser.add_argument("--run", metavar="KEY", help="work on this run only, then end")


def _replay_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("agent", help="where the agent is: module:name")
    parser.add_argument("files", nargs="*", type=Path, help="exported journals (.jsonl)")
    parser.add_argument("--build", required=True, help="label of the build whose code this is")
    parser.add_argument("--in-flight", action="store_true", help="check every run in flight on the server")
    parser.add_argument("--run", action="append", default=[], metavar="KEY", help="check this run; may be repeated")
    parser.add_argument("--environment", default=default_environment())
    parser.add_argument("--shape-only", action="store_true", help="leave every request's input out of the comparison")


def _worker(given: argparse.Namespace) -> int:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    agent = _load(given.agent)
    with _client(given) as client:
        worker = Worker(
            client,
            agent,
            build=given.build,
            environment=given.environment,
            mode=given.agent_mode,
            concurrency=given.concurrency,
            lease_s=given.lease,
            poll_s=given.poll,
            name=given.name,
            on_outcome=lambda outcome: _tell(given, outcome),
        )

        def stop(*_: object) -> None:
            os.write(
                2, b"drainboard: stopping after the steps in flight\n"
            )  # unbuffered: a handler may interrupt a print
            worker.stop()

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)
        if given.run:
            _tell(given, worker.run_one(given.run))
        else:
            worker.run(until_idle=given.until_idle)
    return 0


def _load(where: str) -> Agent:
    module, colon, name = where.partition(":")
    if not colon or not module or not name:
        raise BadInput(f"{where!r} does not say where the agent is; write module:name")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as e:
        raise BadInput(f"module {e.name} of {where!r} was not found") from None
    for part in name.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, Agent):
        raise BadInput(f"{where!r} is no agent; declare it with @drainboard.agent(name)")
    return found


def _tell(given: argparse.Namespace, outcome: Outcome) -> None:
    _print(given, outcome.as_json(), f"{outcome.run}: {outcome.status}{' ' + outcome.reason if outcome.reason else ''}")


def _replay(given: argparse.Namespace) -> int:
    agent = _load(given.agent)
    if not (given.files or given.run or given.in_flight):
        raise BadInput("name files, or --run KEY, or --in-flight")
    done = [checked for journal in _journals(given, agent) for checked in [_check(given, agent, journal)]]
    if not done:
        raise BadInput("there is no journal to check")
    return 0 if all(checked.clean for checked in done) else 1


def _check(given: argparse.Namespace, agent: Agent, journal: list[Mapping[str, Any]]) -> Checked:
    checked = check(agent, journal, build=given.build, shape_only=given.shape_only)
    words = {"record": "clean to the end of the record", "code": "clean to the end of the code"}
    _print(given, checked.as_json(), f"{checked.run}: {words.get(checked.end) or checked.end + ': ' + checked.message}")
    return checked


def _journals(given: argparse.Namespace, agent: Agent) -> Iterator[list[Mapping[str, Any]]]:
    for path in given.files:
        yield from journals_in(_read(str(path)).splitlines())
    if not (given.run or given.in_flight):
        return
    with _client(given) as client:
        for key in given.run:
            yield list(client.entries(key))
        if given.in_flight:
            source = f"native:{given.environment}"
            for status in ("running", "parked", "held", "stuck"):
                for run in client.runs(agent=agent.name, source=source, status=status):
                    yield list(client.entries(run["key"]))


def _register(given: argparse.Namespace) -> int:
    text = sys.stdin.read() if given.file == "-" else _read(given.file)
    build = _json(text, given.file)
    if not isinstance(build, dict):
        raise BadInput(f"{given.file} holds no JSON object")
    with _client(given) as client:
        got = client.register_build(build)
    _print(given, got, f"{build.get('agent')} build {build.get('label')} is registered")
    return 0


def _start(given: argparse.Namespace) -> int:
    task = _json(sys.stdin.read() if given.task == "-" else given.task, "--in")
    with _client(given) as client:
        got = client.start(given.agent, task, run_id=given.run, environment=given.environment, build=given.build)
    _print(
        given,
        {"run": got.run, "key": got.key, "created": got.created},
        f"{got.run} {got.key} {'started' if got.created else 'was started before'}",
    )
    return 0


def _show(given: argparse.Namespace) -> int:
    with _client(given) as client:
        got = client.show(given.key)
    _print(given, got, "\n".join([f"{got.get('run')}: {got.get('status')}", *_steps(got)]))
    return 0


def _steps(shown: Mapping[str, Any]) -> list[str]:
    return [
        f"  {s['branch'] + ':' if s['branch'] else ''}{s['step']} {s['kind']} {s['name']}: {s['status']}, {s['verdict']}"
        for s in shown.get("steps", ())
    ]


def _signal(given: argparse.Namespace) -> int:
    with _client(given) as client:
        got = client.signal(given.key, given.name, _json(given.value, "--value"), id=given.id)
    _print(given, got, f"signal {given.name} is in the journal")
    return 0


def _client(given: argparse.Namespace) -> Client:
    return from_environment(url=given.url, token=given.token)


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as e:
        raise BadInput(f"{path}: {e.strerror}") from None


def _json(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as e:
        raise BadInput(f"{what} is not JSON: {e}") from None


def _print(given: argparse.Namespace, fields: Any, text: str) -> None:
    sys.stdout.write((json.dumps(fields, ensure_ascii=False) if given.json else text) + "\n")
    sys.stdout.flush()


def _fail(given: argparse.Namespace, code: int, name: str, message: str) -> int:
    if given.json:
        sys.stdout.write(json.dumps({"error": {"code": name, "message": message}}) + "\n")
    else:
        sys.stderr.write(f"drainboard: {name}: {message}\n")
    return code
