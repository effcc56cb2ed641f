"""A deploy over real workers: 30 runs on three old builds, one group pinned, one stopped, one continued, and late starters."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from drainboard import Client

from tests.live import Live
from versioning import deploying
from versioning.deploying import Wish
from versioning.models import Deploy

pytestmark = pytest.mark.processes
BASE = Path(__file__).resolve().parents[2]
WAIT_S = 120


def until(condition: Callable[[], Any], what: str) -> Any:
    """What the condition gives once it holds."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.1)
    raise AssertionError(f"not within {WAIT_S} s: {what}")


class Workers:
    """Worker processes by build; every one ends with the test."""

    def __init__(self, live: Live, folder: Path, stack: ExitStack) -> None:
        self._live, self._folder, self._stack = live, folder, stack
        self.gate = folder / "gate"

    def start(self, label: str) -> subprocess.Popen[bytes]:
        paths = [str(BASE), str(BASE / "client" / "src")]
        log = self._stack.enter_context((self._folder / f"w-{label}.log").open("ab"))
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "drainboard", "worker", f"tests.versioning.agents:build_{label}"),
                *("--build", label, "--poll", "0.2", "--lease", "5", "--concurrency", "12", "--name", f"w-{label}"),
            ],
            cwd=BASE,
            env={
                **os.environ, "DRAINBOARD_URL": self._live.url, "DRAINBOARD_TOKEN": self._live.worker,
                "AGENTS_GATE": str(self.gate), "PYTHONPATH": os.pathsep.join(paths),
            },
            stdout=log,
            stderr=log,
        )  # fmt: skip
        self._stack.callback(self._end, process)
        return process

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        process.terminate()
        assert process.wait(30) == 0


@pytest.fixture
def workers(live: Live, tmp_path: Path) -> Iterator[Workers]:
    with ExitStack() as stack:
        yield Workers(live, tmp_path, stack)


@pytest.fixture
def client(live: Live) -> Iterator[Client]:
    with Client(live.url, live.worker) as made:
        yield made


def start_on(workers: Workers, client: Client, label: str, *, slow: int = 0) -> tuple[dict[str, str], Any]:
    """Ten runs on one build: all asleep, but for the slow ones, whose write is in flight. The worker lives on only for those."""
    process = workers.start(label)
    keys = {}
    for n in range(10):
        run = f"r{label}-{n}"
        keys[run] = client.start("fleet", {"n": run, "slow": n < slow}, run_id=run).key
    parked = [key for run, key in keys.items() if int(run.split("-")[1]) >= slow]
    until(lambda: all(client.show(key)["status"] == "parked" for key in parked), f"runs of build {label} sleep")
    until(
        lambda: all((workers.gate.parent / f"in-r{label}-{n}").exists() for n in range(slow)),
        "slow writes are in flight",
    )
    if not slow:
        workers.stop(process)
    return keys, process


def statuses(client: Client, keys: dict[str, str]) -> Counter[str]:
    return Counter(client.show(key)["status"] for key in keys.values())


def builds_that_opened(client: Client, key: str) -> list[str]:
    return [e["build"] for e in client.entries(key) if e["kind"] == "run.resumed"]


def decide(deploy: Deploy, base: str, action: str, **more: str) -> None:
    now = datetime.now(UTC)
    [group] = [g for g in deploying.refresh(deploy, now=now).groups if base in g.builds and g.verdict != "same"]
    assert group.count == 10, (base, group)
    wish = Wish(action=action, reason=f"{action} {base}", group=group.key, **more)
    deploying.reach(deploying.decide(deploy, wish, version=deploying.find(deploy.key).version, by="alice", now=now))


def test_thirty_runs_meet_a_deploy_and_each_goes_where_it_was_decided(
    live: Live, workers: Workers, client: Client
) -> None:
    stopped, _ = start_on(workers, client, "38")
    moved, _ = start_on(workers, client, "40")
    pinned, old = start_on(
        workers, client, "39", slow=3
    )  # last, because its worker goes on and would take the others' new runs
    with Client(live.url, live.ci) as ci:
        ci.register_build({
            "agent": "fleet", "label": "41", "app": "app-1", "prompts": {"policy": {"version": "41"}}, "models": {"main": {"id": "m-5"}},
            "tools": {"send": {"sha256": "sha256:a1"}},
        })  # fmt: skip
        made = ci.http.call("POST", "/deploys", {"agent": "fleet", "environment": "prod", "build": "41"})
    assert made["verdicts"] == {"same": 0, "compatible": 0, "mismatch": 30, "unknown": 0}
    by_base = {next(iter(g["builds"])): g for g in made["groups"]}
    assert {base: (g["count"], g["in_step"], g["parked"]) for base, g in by_base.items()} == {
        "38": (10, 0, 10), "39": (10, 3, 7), "40": (10, 0, 10),
    }  # fmt: skip
    deploy = deploying.find(made["id"])
    decide(deploy, "39", "pin")
    decide(deploy, "38", "stop", name="PromptChanged", message="The policy of build 38 is withdrawn.")
    decide(deploy, "40", "continue")
    deploying.roll_out(deploy, version=deploying.find(deploy.key).version, now=datetime.now(UTC))
    assert statuses(client, stopped) == {"stopped": 10}

    new_worker = workers.start("41")
    late = {f"late-{n}": client.start("fleet", {"n": f"late-{n}"}, run_id=f"late-{n}").key for n in range(5)}
    until(lambda: statuses(client, late) == {"parked": 5}, "late starters sleep")
    workers.gate.touch()
    for key in [*pinned.values(), *moved.values(), *late.values()]:
        client.signal(key, "go", {"at": "now"})
    done = {**pinned, **moved, **late}
    until(lambda: statuses(client, done) == {"completed": 25}, "every run that goes on is done")

    for key in pinned.values():
        assert set(builds_that_opened(client, key)) == {"39"}
    for key in moved.values():
        opened = builds_that_opened(client, key)
        assert (opened[0], set(opened[1:])) == ("40", {"41"})
        versions = [e["versions"]["prompt"]["policy"] for e in client.entries(key) if e["kind"] == "model.result"]
        assert versions == ["40", "41"]
    for key in late.values():
        assert set(builds_that_opened(client, key)) == {"41"}
    sent = (workers.gate.parent / "sent").read_text().split()
    assert len(sent) == len(set(sent)) == 10 + 2 * 25  # each write once: stopped runs sent one, the others two
    assert old.poll() is None
    assert new_worker.poll() is None
    left = deploying.draining(deploy, now=datetime.now(UTC))
    assert left.drained, left
    assert deploying.advance(deploying.find(deploy.key), now=datetime.now(UTC)).state == "drained"


def test_a_pinned_run_is_left_alone_until_its_own_build_is_back(live: Live, workers: Workers, client: Client) -> None:
    keys, _ = start_on(workers, client, "40")
    with Client(live.url, live.ci) as ci:
        ci.register_build({"agent": "fleet", "label": "41", "app": "app-1", "prompts": {"policy": {"version": "41"}}})
        made = ci.http.call("POST", "/deploys", {"agent": "fleet", "environment": "prod", "build": "41"})
        deploy = deploying.find(made["id"])
        decide(deploy, "40", "pin")
        with connection.cursor() as cursor:
            cursor.execute("UPDATE versioning_workerseen SET seen_at = now() - interval '1 hour'")
        workers.start("41")
        for key in keys.values():
            client.signal(key, "go", {"at": "now"})
        newcomer = client.start("fleet", {"n": "new"}, run_id="new").key
        until(lambda: client.show(newcomer)["status"] == "parked", "the worker of build 41 took the new run")
        asked = ci.http.call("GET", f"/deploys/{made['id']}")
        assert (asked["draining"]["left"], asked["draining"]["stranded"]) == (10, 10)
        assert {s["why"] for s in asked["draining"]["stragglers"]} == {"stranded"}
        assert re.search("no worker of build 40 is live", asked["draining"]["stragglers"][0]["text"])
        workers.start("40")
        until(lambda: statuses(client, keys) == {"completed": 10}, "the old build finished its runs")
        for key in keys.values():
            assert set(builds_that_opened(client, key)) == {"40"}
