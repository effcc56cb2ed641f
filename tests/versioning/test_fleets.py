"""Random fleets against a plain model: no run is ever given to another build than its pin, stop, hold or decision allows, and
no deploy is called drained while a run that is not over, or not understood, holds another build."""

from __future__ import annotations

import json
import os
import random
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from django.db import connection

from journals import store
from journals.access import Bearer
from tests.versioning.fleet import V40
from versioning import buildfile, deploying, opening, registering
from versioning.models import AgentPolicy, Deploy
from versioning.ruling import Rules

pytestmark = pytest.mark.django_db
FLEETS = int(os.environ.get("FLEETS", "40"))
LABELS = ("38", "39", "40", "41")


@dataclass(frozen=True)
class Sketch:
    """One run of a random fleet."""

    build: str  # the build that it is on; empty: no worker has opened it
    pin: str
    state: str  # free, asleep, due, leased, held, stopping, over, unknown
    same: bool  # recorded the same versions as every build


def sketch(rng: random.Random) -> Sketch:
    build = rng.choice((*LABELS[:3], *LABELS[:3], "41", ""))
    pin = rng.choice(("", "", build)) if build else ""
    state = rng.choice(("free", "free", "asleep", "due", "leased", "held", "stopping", "over", "unknown"))
    return Sketch(build, pin, "free" if not build else state, rng.random() < 0.3)


def insert(agent: str, runs: list[Sketch]) -> dict[str, Sketch]:
    """Writes the fleet as heads, with one entry each, and its projection."""
    made = {}
    for n, run in enumerate(runs):
        line = json.dumps({"run": f"{agent}-{n}", "id": "s.0", "kind": "run.started", "agent": agent, "in": n}).encode()
        head, _ = store.create(run=f"{agent}-{n}", agent=agent, environment="prod", line=line, actor="tests")
        made[head.key] = run
        set_head(head.id, run)
        set_projection(head, run)
    return made


def set_head(head_id: int, run: Sketch) -> None:
    columns = {
        "native": run.state != "unknown",  # only of an imported run can it be unknown whether it is over
        "epoch": 1 if run.build else 0, "open_build": run.build, "build": run.build, "pinned_build": run.pin, "dirty": False,
        "parked_on": "signal:go" if run.state in ("asleep", "due") else "",
        "hold_reason": "NonDeterministicReplay" if run.state == "held" else "",
        "stop_name": "PromptChanged" if run.state == "stopping" else "", "ended": "completed" if run.state == "over" else "",
    }  # fmt: skip
    names = ", ".join(f"{name} = %s" for name in columns)
    due = {"due": "now() - interval '1 s'"}.get(run.state, "NULL")
    lease = "now() + interval '1 h'" if run.state in ("leased", "stopping") else "NULL"
    sql = f"UPDATE journals_head SET {names}, wake_at = {due}, lease_until = {lease} WHERE id = %s"  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(sql, [*columns.values(), head_id])


def set_projection(head: store.HeadRow, run: Sketch) -> None:
    status = {"free": "running", "asleep": "parked", "due": "parked", "leased": "running", "over": "completed"}.get(
        run.state, run.state
    )
    body = V40 if run.same else {**V40, "prompt": {"policy": run.build or "none"}}
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO runs_versionset (digest, body) VALUES (%s, %s) ON CONFLICT (digest) DO UPDATE SET digest = excluded.digest RETURNING id",
            [f"t:{json.dumps(body)}", json.dumps(body)],
        )
        (versions_set,) = cursor.fetchone()
        cursor.execute(
            """INSERT INTO runs_run (head_id, key, source, runtime, native, run, agent, environment, status, runtime_status, complete, in_flight,
                build, pinned_to, parked_on, waiting_for, parent, started_at, last_at, entries, bytes, steps, current_branch, current_kind,
                current_name, gap, gap_confidence, findings, worker, versions_set_id, folded_pos, summary)
            VALUES (%s, %s, 'native:prod', 'native', %s, %s, %s, 'prod', %s, '', %s, %s, %s, %s, '', '', '', now(), now(), 1, 1, %s, '', '', '', '',
                '', '{}', %s, %s, 1, '{}')""",
            [
                head.id, head.key, run.state != "unknown", head.run, head.agent, status, run.state == "over", run.state != "over", run.build, run.pin, int(bool(run.build)),
                "w" if run.build else "", versions_set if run.build else None,
            ],
        )  # fmt: skip


def may_get(run: Sketch, label: str, *, policy: str, rolled_out: bool) -> bool:
    """The model: whether a worker of this build may be given the run."""
    if run.state not in ("free", "due"):
        return False
    if not run.build:
        return label == "41" or not rolled_out
    if run.pin:
        return run.pin == label
    return run.build == label or run.same


@pytest.mark.parametrize("seed", range(FLEETS))
def test_no_run_is_given_across_versions_and_nothing_held_is_called_drained(seed):
    rng = random.Random(seed)
    agent, policy = f"fleet-{seed}", rng.choice(AgentPolicy.OnMismatch.values)
    AgentPolicy.objects.create(agent=agent, on_mismatch=policy)
    builds = {}
    for label in LABELS:  # the prompt's version is the build's, or for runs of equal versions what all have in common
        described = buildfile.described_by_worker(
            agent=agent, label=label, versions={**V40, "prompt": {"policy": "12"}}
        )
        builds[label] = registering.register(described, seen_from="ci", by="tests")[0]
    runs = insert(agent, [sketch(rng) for _ in range(rng.randint(3, 12))])
    now = datetime.now(UTC)
    deploy = deploying.open_deploy(agent=agent, environment="prod", label="41", by="alice", now=now)
    rolled_out = rng.random() < 0.5
    if rolled_out:
        deploying.roll_out(deploy, version=deploy.version, now=datetime.now(UTC))
    holding = [r for r in runs.values() if r.state != "over" and r.build not in ("", "41")]
    left = deploying.draining(deploy, now=now)
    assert left.left == len(holding)
    assert left.drained == (not holding)
    assert (deploying.advance(deploying.find(deploy.key), now=now).state == Deploy.State.DRAINED) == (
        rolled_out and not holding
    )
    asking = opening.Asking(worker="w", lease_s=30, token=Bearer(1, "t", "worker", "", "", b""))
    given: set[str] = set()
    for label in rng.sample(LABELS, k=len(LABELS)):
        for head in opening.claim(Rules.load(builds[label], environment="prod", now=now), asking, limit=50):
            assert head.key not in given
            assert may_get(runs[head.key], label, policy=policy, rolled_out=rolled_out), (label, runs[head.key], policy)
            given.add(head.key)
    must = {
        key
        for key, run in runs.items()
        if run.state in ("free", "due") and (run.pin or (run.build in ("", *LABELS) and run.same))
    }
    assert must <= given
