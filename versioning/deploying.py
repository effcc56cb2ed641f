"""A deploy's life: opened, assessed, decided, rolled out, drained or rolled back. Every step is conditional on its version."""

from __future__ import annotations

import secrets
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import transaction
from django.db.models import Count
from django.utils import timezone

from journals import store
from journals.errors import Refused
from runs import projection
from versioning import applying, assessing, drain, mismatch, queries, registering, ruling
from versioning.assessing import Assessed, Group
from versioning.models import STOP_NAMES, Applied, Assessment, Build, Decision, Deploy, StateChange

BATCH: Final = 50  # runs whose heads are locked in one transaction
INLINE: Final = 200  # runs that the deciding request reaches itself; the background task does the rest
_LETTERS: Final = string.digits + string.ascii_letters


class UnknownDeploy(Refused):
    """No deploy has this key."""

    code, status = "UnknownDeploy", 404


class StaleAssessment(Refused):
    """The deploy is not as the person saw it; `changes` in the detail says what changed."""

    code = "StaleAssessment"


class BadDecision(Refused):
    """The decision is not one that can be made here."""

    code, status = "BadDecision", 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a person wants for a group or a run."""

    action: str  # pin, stop, continue
    reason: str
    group: str = ""
    run_key: str = ""
    name: str = ""  # stop name
    message: str = ""


def open_deploy(*, agent: str, environment: str, label: str, by: str, now: datetime) -> Deploy:
    """The deploy of a registered build, assessed; one that is still open for the same build is answered again.

    Raises `UnknownBuild`.
    """
    build = registering.find(agent=agent, label=label)
    with transaction.atomic():
        Build.objects.select_for_update().get(pk=build.pk)  # two requests at once make one deploy
        same = Deploy.objects.open().filter(agent=agent, environment=environment, build=build).order_by("-id").first()
        deploy = same or Deploy.objects.create(
            key="d" + "".join(secrets.choice(_LETTERS) for _ in range(12)),
            agent=agent,
            environment=environment,
            build=build,
            created_by=by,
        )
    refresh(deploy, now=now)
    return find(deploy.key)


def find(key: str) -> Deploy:
    """Raises `UnknownDeploy`."""
    found = Deploy.objects.select_related("build").filter(key=key).first()
    if found is None:
        raise UnknownDeploy(f"no deploy has the key {key!r}")
    return found


def refresh(deploy: Deploy, *, now: datetime) -> Assessed:
    """The deploy assessed as of now. When its groups are not those stored last, they are stored and its version grows."""
    projection.catch_up()
    assessed = assessing.assess_build(deploy.build, environment=deploy.environment, now=now)
    groups = snapshot(assessed)
    if (last := _last(deploy)) is not None and set(last.groups) == set(groups):
        return assessed
    with transaction.atomic():
        locked = Deploy.objects.select_for_update().get(pk=deploy.pk)
        last = _last(locked)
        if last is None or set(last.groups) != set(groups):
            _grow(locked, state=Deploy.State.DECIDE if locked.state == Deploy.State.ASSESS else None)
            Assessment.objects.create(
                deploy=locked, version=locked.version, assessed_at=now, runs=assessed.runs, groups=groups
            )
        deploy.version, deploy.state = locked.version, locked.state
    return assessed


def snapshot(assessed: Assessed) -> dict[str, Any]:
    """What is kept of an assessment: its groups."""
    return {
        g.key: {"verdict": g.verdict, "differences": [d.as_json() for d in g.differences], "count": g.count}
        for g in assessed.groups
    }


def decide(deploy: Deploy, wish: Wish, *, version: int, by: str, now: datetime) -> Decision:
    """Decides for a group or a run, as the deploy stood at `version`. The runs of the moment are reached at once or by the task.

    Raises `StaleAssessment` with what changed, `BadDecision`.
    """
    _check(wish)
    assessed = refresh(deploy, now=now)
    with transaction.atomic():
        locked = Deploy.objects.select_for_update().select_related("build").get(pk=deploy.pk)
        refuse_stale(locked, version=version)
        subject = _subject(locked, assessed, wish)
        locked.decisions.standing().filter(group=wish.group, run_key=wish.run_key).update(superseded_at=now)
        _grow(locked)
        decision = Decision.objects.create(
            deploy=locked,
            group=wish.group,
            run_key=wish.run_key,
            action=wish.action,
            name=wish.name if wish.action == Decision.Action.STOP else "",
            message=wish.message,
            reason=wish.reason.strip(),
            by=by,
            at=now,
            verdict=subject.verdict,
            differences=[d.as_json() for d in subject.differences],
            version=locked.version,
            expected=subject.count,
        )
    deploy.version = locked.version
    return decision


def refuse_stale(deploy: Deploy, *, version: int) -> None:
    """Raises `StaleAssessment` unless the locked deploy is at this version, and says what happened since."""
    if deploy.version == version:
        return
    changes = changes_since(deploy, version=version)
    what = "; ".join(changes) or "it was refreshed"
    raise StaleAssessment(
        f"deploy {deploy.key} is not as you saw it (version {version}, now {deploy.version}): {what}. Look again and decide.",
        deploy=deploy.key,
        version=deploy.version,
        seen=version,
        changes=changes,
    )


def changes_since(deploy: Deploy, *, version: int) -> list[str]:
    """Sentences on what happened to a deploy after a version: decisions, groups that came and went."""
    said = [
        f"{d.by} decided to {d.action} {'run ' + d.run_key if d.run_key else f'{d.expected} runs ({_of(d.differences)})'}"
        for d in deploy.decisions.filter(version__gt=version).order_by("id")
    ]
    said += [
        f"{c.by or 'somebody'} {'sent new runs to the target' if c.state == Deploy.State.ROLLING_OUT else 'rolled it back'}"
        for c in deploy.changes.filter(version__gt=version)
    ]
    seen = deploy.assessments.filter(version__lte=version).order_by("-version").first()
    last = _last(deploy)
    before, after = (seen.groups if seen else {}), (last.groups if last else {})
    said += [f"{_named(after[key])} came up" for key in after.keys() - before.keys()]
    said += [f"no run is left in {_named(before[key])}" for key in before.keys() - after.keys()]
    said += [
        f"{_named(after[key])}: before {before[key]['count']}"
        for key in after.keys() & before.keys()
        if after[key]["count"] != before[key]["count"]
    ]
    return said


def reach(decision: Decision, *, assessed: Assessed | None = None, limit: int | None = None) -> int:
    """Writes a decision into the journals of the runs that it covers and has not reached; how many it looked at.

    Runs are taken in order of their number, 50 heads a transaction, so that a crash leaves whole entries and the next call
    goes on. `finished_at` is set when none is left.
    """
    if decision.group and assessed is None:
        projection.catch_up()
        deploy = decision.deploy
        assessed = assessing.assess_build(deploy.build, environment=deploy.environment, now=timezone.now())
    done = 0
    while limit is None or done < limit:
        heads = _unreached(decision, assessed)
        if not heads:
            Decision.objects.filter(pk=decision.pk, finished_at=None).update(finished_at=timezone.now())
            break
        with transaction.atomic():
            for head_id in heads:
                applying.apply(decision, head_id)
        done += len(heads)
    return done


def reach_standing(deploy: Deploy) -> int:
    """Every standing decision of a deploy, by one assessment; how many runs it looked at."""
    decisions = list(deploy.decisions.standing())
    if not decisions:
        return 0
    projection.catch_up()
    assessed = assessing.assess_build(deploy.build, environment=deploy.environment, now=timezone.now())
    for decision in decisions:
        decision.deploy = deploy
    return sum(reach(decision, assessed=assessed) for decision in decisions)


def roll_out(deploy: Deploy, *, version: int, now: datetime, reason: str = "", by: str = "") -> Deploy:
    """New runs go to the target from now on. Raises `StaleAssessment`, `BadDecision`."""
    change = StateChange(state=Deploy.State.ROLLING_OUT, reason=reason.strip(), by=by, at=now)
    return _move(deploy, change, version=version, rolled_out_at=now)


def roll_back(deploy: Deploy, *, version: int, now: datetime, reason: str = "", by: str = "") -> Deploy:
    """Gives the deploy up: what its decisions have not reached stays as it is. Raises `StaleAssessment`, `BadDecision`."""
    change = StateChange(state=Deploy.State.ROLLED_BACK, reason=reason.strip(), by=by, at=now)
    return _move(deploy, change, version=version, ended_at=now)


def advance(deploy: Deploy, *, now: datetime) -> Deploy:
    """Moves a deploy along by what is so: `rolling_out` to `draining` when every decision is written, then to `drained`."""
    state = Deploy.State
    if deploy.state == state.ROLLING_OUT and not deploy.decisions.standing().filter(finished_at=None).exists():
        Deploy.objects.filter(pk=deploy.pk, state=state.ROLLING_OUT).update(state=state.DRAINING)
        deploy.state = state.DRAINING
    if deploy.state not in (state.DRAINING, state.DRAINED):
        return deploy
    drained = draining(deploy, now=now, shown=0).drained
    if drained and deploy.state == state.DRAINING:
        Deploy.objects.filter(pk=deploy.pk, state=state.DRAINING).update(state=state.DRAINED, ended_at=now)
        deploy.state = state.DRAINED
    elif not drained and deploy.state == state.DRAINED:  # started on an old build meanwhile, or an import says more
        Deploy.objects.filter(pk=deploy.pk, state=state.DRAINED).update(state=state.DRAINING, ended_at=None)
        deploy.state = state.DRAINING
    return deploy


def draining(deploy: Deploy, *, now: datetime, shown: int = queries.SHOWN) -> drain.Progress:
    """What still holds another build than the deploy's target."""
    arrived = registering.arrived_at(agent=deploy.agent, label=deploy.build.label)
    return queries.draining(agent=deploy.agent, environment=deploy.environment, arrived=arrived, now=now, shown=shown)


def governing_deploys() -> list[Deploy]:
    """The deploy that governs each agent and environment, drained ones too, newest first."""
    rows = Deploy.objects.exclude(state=Deploy.State.ROLLED_BACK).select_related("build").order_by("-id")
    found: dict[tuple[str, str], Deploy] = {}
    for deploy in rows:
        found.setdefault((deploy.agent, deploy.environment), deploy)
    return list(found.values())


def applied_counts(decisions: Sequence[Decision]) -> dict[int, int]:
    """Decision id -> runs whose journal it has reached."""
    found = Applied.objects.filter(decision__in=[d.pk for d in decisions]).values_list("decision_id")
    return dict(found.annotate(n=Count("id")).order_by())


def _check(wish: Wish) -> None:
    if wish.action not in Decision.Action.values:
        raise BadDecision(f"{wish.action!r} is not a decision; decide pin, stop or continue")
    if bool(wish.group) == bool(wish.run_key):
        raise BadDecision("a decision is about one group or about one run")
    if not wish.reason.strip():
        raise BadDecision("a decision needs a reason: say why, in a few words")
    if wish.action == Decision.Action.STOP and wish.name not in STOP_NAMES:
        raise BadDecision(f"{wish.name!r} is not a stop name; docs/stop-names lists them: {', '.join(STOP_NAMES)}")
    if wish.action == Decision.Action.STOP and not wish.message.strip():
        raise BadDecision("a stop carries a message for whoever reads the run: what happened and what follows")


def _subject(deploy: Deploy, assessed: Assessed, wish: Wish) -> Group:
    """What is decided upon: the group, or the run as a group of one. Raises `BadDecision`."""
    if deploy.state == Deploy.State.ROLLED_BACK:
        raise BadDecision(f"deploy {deploy.key} was rolled back; open a new one to decide")
    if wish.group:
        if (found := assessed.group(wish.group)) is None:
            raise BadDecision(f"deploy {deploy.key} has no group {wish.group!r} now")
        return found
    head = store.find(key=wish.run_key)
    if (head.agent, head.environment) != (deploy.agent, deploy.environment):
        raise BadDecision(f"run {head.run!r} is no run of {deploy.agent} in {deploy.environment}")
    pair = assessing.pair_of(head.id)
    one = assessing.measure_for(deploy.build, pairs=[pair]).assess(pair, now=assessed.assessed_at)
    return Group(one.group, one.verdict, one.differences, count=1)


def _unreached(decision: Decision, assessed: Assessed | None) -> list[int]:
    """The next head ids, by number; runs that the target build has already are not asked again."""
    if decision.run_key:
        head = store.find(key=decision.run_key)
        return [] if Applied.objects.filter(decision=decision, head_id=head.id).exists() else [head.id]
    group = assessed.group(decision.group) if assessed else None
    target = decision.deploy.build.label
    pairs = [p for p in group.pairs if not (p.native and p.base == target)] if group else []
    if assessed is None or not pairs:
        return []
    return [head_id for head_id, _ in assessed.runs_of(pairs, limit=BATCH, without=decision.pk)]


def _move(deploy: Deploy, change: StateChange, *, version: int, **columns: Any) -> Deploy:
    """Takes the deploy to the change's state and keeps the change, with the number of runs that are undecided then."""
    state = change.state
    projection.catch_up()
    assessed = assessing.assess_build(deploy.build, environment=deploy.environment, now=change.at)
    with transaction.atomic():
        locked = Deploy.objects.select_for_update().select_related("build").get(pk=deploy.pk)
        refuse_stale(locked, version=version)
        before = _BEFORE[state]
        if locked.state not in before:
            raise BadDecision(
                f"deploy {locked.key} is {locked.get_state_display().lower()}; this needs {' or '.join(before)}"
            )
        _grow(locked, state=state, **columns)
        change.deploy, change.version = locked, locked.version
        change.undecided = queries.undecided(assessed, locked.decisions.standing())
        change.save()
    return locked


_BEFORE: Final[Mapping[str, tuple[str, ...]]] = {
    Deploy.State.ROLLING_OUT: (Deploy.State.ASSESS, Deploy.State.DECIDE),
    Deploy.State.ROLLED_BACK: (
        Deploy.State.ASSESS,
        Deploy.State.DECIDE,
        Deploy.State.ROLLING_OUT,
        Deploy.State.DRAINING,
    ),
}


def _grow(locked: Deploy, *, state: str | None = None, **columns: Any) -> None:
    """The next version of a locked deploy."""
    locked.version += 1
    changed = {**columns, **({"state": state} if state else {})}
    for name, value in changed.items():
        setattr(locked, name, value)
    locked.save(update_fields=["version", *changed])


def _last(deploy: Deploy) -> Assessment | None:
    return Assessment.objects.filter(deploy=deploy).order_by("-version").first()


def _of(differences: Sequence[Mapping[str, Any]]) -> str:
    return ruling.in_words([mismatch.difference_of(d) for d in differences])


def _named(group: Mapping[str, Any]) -> str:
    return f"{group['verdict']}: {group['count']} runs ({_of(group['differences'])})"
