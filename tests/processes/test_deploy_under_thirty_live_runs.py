"""A changed prompt is rolled out under thirty live runs: some finish on the old build, some stop by name, some go on under the new one.

Half of the runs wait for a yes, half are inside a write that the supplier has not answered; workers of both builds are killed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from django.utils import timezone
from drainboard import Client
from drainboard.errors import LeaseHeld, PinnedToBuild, RunEnded, RunStopped

from journals import store
from runs.approvals import actions
from runs.approvals.models import Approval
from tests.live import BASE, Live
from tests.processes.provider import Gate, Provider, Request, Stage
from tests.processes.waiting import until
from tests.processes.workers import WorkerProcess, Workers
from versioning import deploying
from versioning.deploying import Wish
from versioning.models import Deploy

pytestmark = pytest.mark.processes

EACH = 5  # runs of each fate in each situation
FATES = ("pinned", "stopped", "continued")
SITUATIONS = ("waiting", "ordering")
LEASE_S = 10.0  # long enough for a busy machine, short enough to wait for after a kill
MESSAGE = "the buyer's prompt was changed; ask again"


@dataclass(frozen=True)
class Buying:
    """One of the runs, and what is to become of it."""

    run: str
    key: str
    quantity: int  # tells the supplier's requests apart
    fate: str
    situation: str

    @property
    def head(self) -> store.HeadRow:
        return store.find(key=self.key)


class Runs(list[Buying]):
    """The thirty runs."""

    def of(self, fate: str, situation: str | None = None) -> list[Buying]:
        return [r for r in self if r.fate == fate and situation in (None, r.situation)]


@pytest.fixture
def pipeline(live: Live) -> Iterator[Client]:
    with Client(live.url, live.ci) as made:
        yield made


def start_all(client: Client) -> Runs:
    made = Runs()
    for fate in FATES:
        for situation in SITUATIONS:
            for n in range(EACH):
                run, quantity = f"{fate}-{situation}-{n}", len(made) + 1
                key = client.start("procurement", {"item": "chair", "quantity": quantity}, run_id=run).key
                made.append(Buying(run, key, quantity, fate, situation))
    return made


def worker(workers: Workers, build: str, name: str) -> WorkerProcess:
    arguments = ("--concurrency", "20", "--poll", "0.2")
    return workers.start(
        f"examples.procurement.agent:build_{build}", *arguments, name=name, build=build, lease_s=LEASE_S
    )


def gate_of(provider: Provider, stage: Stage, runs: Sequence[Buying]) -> Gate:
    """Keeps these runs' orders back."""
    wanted = {r.quantity for r in runs}
    return provider.gate(stage, lambda request: request.body["quantity"] in wanted)


def approve(runs: Sequence[Buying], person: Any) -> None:
    for run in runs:
        approval = Approval.objects.get(key=run.key)
        said = actions.Said(decision="approve", fingerprint=approval.fingerprint)
        actions.decide(approval.id, user=person, said=said)


def decide(deploy: Deploy, **wish: str) -> None:
    """As the deploy stands now, and written into the journals that it covers."""
    deploy = deploying.find(deploy.key)
    decision = deploying.decide(
        deploy, Wish(reason="reviewed", **wish), version=deploy.version, by="alice", now=timezone.now()
    )
    deploying.reach(decision)


def entries_of(client: Client, run: Buying) -> list[Mapping[str, Any]]:
    return list(client.entries(run.key))


def refusal_of(client: Client, run: Buying, build: str) -> Exception:
    """How a worker of this build is refused the run, once no lease stands in the way."""

    def refused() -> Exception | None:
        try:
            client.open(run.key, build=build, worker="intruder", lease_s=1, versions={})
        except LeaseHeld:
            return None
        except (PinnedToBuild, RunStopped, RunEnded) as e:
            return e
        raise AssertionError(f"build {build} was given {run.run}")

    return until(refused, f"the lease of {run.run} runs out")


def test_every_run_meets_the_fate_that_was_decided_for_it(
    client: Client, pipeline: Client, provider: Provider, workers: Workers, people: dict[str, Any]
) -> None:
    runs = start_all(client)
    old = worker(workers, "1", "old-1")
    gates = ordering(runs, old, provider, people["bob"])
    deploy = deploy_build_2(pipeline, runs)

    decide_all(deploy, runs)
    check_stopped(client, runs, old, gates["stopped"])

    old.kill()
    gates["pinned"].open()  # the orders are placed, and nobody hears of it
    gates["continued"].drop()  # the orders are lost on the way
    approve([r for fate in ("pinned", "continued") for r in runs.of(fate, "waiting")], people["bob"])
    held = gate_of(provider, "after", runs.of("continued"))
    new = worker(workers, "2", "new-1")
    provider.wait(lambda: len(held.waiting) == 2 * EACH, "the new build is inside every order that it may continue")
    check_left_alone(client, runs.of("pinned"))

    new.kill()
    held.open()
    worker(workers, "1", "old-2")
    worker(workers, "2", "new-2")
    left = [*runs.of("pinned"), *runs.of("continued")]
    until(lambda: all(r.head.ended for r in left), lambda: f"still open: {[r.run for r in left if not r.head.ended]}")
    check_pinned(client, runs.of("pinned"))
    check_continued(client, runs.of("continued"))
    check_effects(runs, provider.effects)
    assert all(store.verify(r.head.id).ok for r in runs)
    told = pipeline.http.call("GET", f"/deploys/{deploy.key}")
    assert (told["state"], told["draining"]["left"]) == ("drained", 0)


def ordering(runs: Runs, old: WorkerProcess, provider: Provider, person: Any) -> dict[str, Gate]:
    """Half of the runs wait for a yes, half are inside their order; the gates that keep the supplier's answers back."""
    until(lambda: Approval.objects.count() == len(runs), old.log)
    stages: dict[str, Stage] = {"pinned": "after", "stopped": "after", "continued": "before"}
    gates = {fate: gate_of(provider, stages[fate], runs.of(fate)) for fate in FATES}
    approve([r for r in runs if r.situation == "ordering"], person)
    provider.wait(lambda: all(len(g.waiting) == EACH for g in gates.values()), "half of the runs are ordering")
    until(lambda: all(r.head.parked_on for r in runs if r.situation == "waiting"), old.log)
    return gates


def deploy_build_2(pipeline: Client, runs: Runs) -> Deploy:
    pipeline.register_build(json.loads((BASE / "examples/procurement/build-2.json").read_text()))
    asked = {"agent": "procurement", "environment": "prod", "build": "2"}
    told = pipeline.http.call("POST", "/deploys", asked)
    (group,) = told["groups"]
    half = len(SITUATIONS[1:]) * len(FATES) * EACH
    assert (group["verdict"], group["count"], group["parked_on_approval"], group["in_step"]) == (
        "mismatch", len(runs), half, half,
    )  # fmt: skip
    assert [(d["component"], d["name"], d["recorded"], d["new"]) for d in group["differences"]] == [
        ("prompt", "buyer", "1", "2")
    ]
    return deploying.find(told["id"])


def decide_all(deploy: Deploy, runs: Runs) -> None:
    """Stops and continues run by run, pins the rest as a group, rolls out."""
    for run in runs.of("stopped"):
        decide(deploy, action="stop", run_key=run.key, name="PromptChanged", message=MESSAGE)
    for run in runs.of("continued"):
        decide(deploy, action="continue", run_key=run.key)
    (group,) = deploying.refresh(deploying.find(deploy.key), now=timezone.now()).groups
    decide(deploy, action="pin", group=group.key)
    deploying.roll_out(deploy, version=deploying.find(deploy.key).version, now=timezone.now())


def check_stopped(client: Client, runs: Runs, old: WorkerProcess, gate: Gate) -> None:
    """A waiting run is over at once; one inside a step records it, and its worker raises the error by name."""
    for run in runs.of("stopped", "waiting"):
        assert run.head.ended == "stopped"
        assert f"PromptChanged: {MESSAGE}" in str(refusal_of(client, run, "1"))
    assert not any(r.head.ended for r in runs.of("stopped", "ordering"))
    gate.open()
    ordering = runs.of("stopped", "ordering")
    raised = ("stopped", f"PromptChanged: {MESSAGE}")
    until(lambda: {old.last_word(r.run) for r in ordering} == {raised}, old.log)
    for run in ordering:
        kinds = [e["kind"] for e in entries_of(client, run)]
        assert kinds[-3:] == ["stop.requested", "tool.result", "run.stopped"]


def check_left_alone(client: Client, pinned: Sequence[Buying]) -> None:
    """The new build was refused the pinned runs, and has not touched one of them while it took all others."""
    for run in pinned:
        error = refusal_of(client, run, "2")
        assert isinstance(error, PinnedToBuild), error
        assert error.detail["pinned_to"] == "1"
        assert builds_that_opened(entries_of(client, run)) == {"1"}


def builds_that_opened(entries: Sequence[Mapping[str, Any]]) -> set[str]:
    return {e["build"] for e in entries if e["kind"] == "run.resumed"}


def check_pinned(client: Client, runs: Sequence[Buying]) -> None:
    for run in runs:
        entries = entries_of(client, run)
        assert run.head.ended == "completed"
        assert builds_that_opened(entries) == {"1"}
        assert [e["build"] for e in entries if e["kind"] == "deploy.pinned"] == ["1"]


def check_continued(client: Client, runs: Sequence[Buying]) -> None:
    """One `deploy.continued`, then the new build, twice: its first worker was killed too."""
    for run in runs:
        entries = entries_of(client, run)
        assert run.head.ended == "completed"
        assert [(e["build"], e["by"]) for e in entries if e["kind"] == "deploy.continued"] == [("2", "alice")]
        at = next(e["seq"] for e in entries if e["kind"] == "deploy.continued")
        assert builds_that_opened([e for e in entries if e["seq"] < at]) == {"1"}
        workers_after = [e["worker"] for e in entries if e["kind"] == "run.resumed" and e["seq"] > at]
        assert workers_after == ["new-1", "new-2"]
        assert not [e for e in entries if e["kind"] in ("deploy.pinned", "run.held")]


def check_effects(runs: Runs, effects: Sequence[Request]) -> None:
    """The supplier has one order of every run but those that were stopped while they waited, each under the run's own key."""
    expected = {
        r.quantity: f"prod/procurement/{r.run}::3" for r in runs if (r.fate, r.situation) != ("stopped", "waiting")
    }
    assert sorted((e.body["quantity"], e.key) for e in effects) == sorted(expected.items())
