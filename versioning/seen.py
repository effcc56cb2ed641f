"""What the run pages learn from here: current builds, runs that nobody can resume, differences, deploys that need a person.

`runs` may not import this app, so `versioning.apps` hands these functions to `runs.seams` when it starts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import Q
from django.urls import reverse
from django.utils import timezone

from journals import store
from runs.models import Run
from runs.seams import Need
from versioning import assessing, deploying, live, queries, ruling
from versioning.assessing import Pair
from versioning.models import Build, Deploy

WORDS = 80  # characters in a cell of the run list


def open_deploys(user: Any, environment: str) -> int:
    """Deploys that are not over; for the top bar."""
    found = Deploy.objects.open()
    return found.filter(environment=environment).count() if environment else found.count()


def nobody_resumes() -> Q:
    """Native runs in flight whose build (or pin) no live worker can run; one statement reads the live builds."""
    covered = Q(pk__in=[])
    for (agent, environment), labels in live.by_place(now=timezone.now()).items():
        own = Q(agent=store.encode_text(agent), environment=store.encode_text(environment))
        covered |= own & (Q(pinned_to="", build__in=labels) | Q(pinned_to__in=labels))
    return Q(in_flight=True, native=True) & queries.opened() & ~covered


def differences(head_ids: Sequence[int]) -> Mapping[int, str]:
    """Head id -> a few words on what differs from the build that new runs of its agent go to."""
    current = queries.current_builds()
    if not current or not head_ids:
        return {}
    rows = Run.objects.filter(pk__in=head_ids)
    by_place: dict[tuple[str, str], dict[int, Pair]] = {}
    for pk, agent, environment, versions_set, build, native in rows.values_list(
        "pk", "agent", "environment", "versions_set_id", "build", "native"
    ):
        by_place.setdefault((agent, environment), {})[pk] = Pair(versions_set or 0, build, native)
    made: dict[int, str] = {}
    for place, pairs in by_place.items():
        target = Build.objects.filter(agent=place[0], label=current.get(place, "")).first()
        if target is None:
            continue
        measure = assessing.measure_for(target, pairs=pairs.values())
        for pk, pair in pairs.items():
            found = measure.assess(pair, now=timezone.now())
            if found.differences:
                made[pk] = _cut(ruling.in_words(found.differences))
    return made


def needs(environment: str) -> list[Need]:
    """Deploys with groups that nobody decided, and drains that cannot end by themselves."""
    found = Deploy.objects.open().select_related("build").order_by("-id")
    if environment:
        found = found.filter(environment=environment)
    made: list[Need] = []
    for deploy in found[:20]:
        now = timezone.now()
        title = f"{deploy.agent} → build {deploy.build.label}"
        url = reverse("versioning:deploy", args=[deploy.key])
        assessed = assessing.assess_build(deploy.build, environment=deploy.environment, now=now)
        if waiting := queries.undecided(assessed, deploy.decisions.standing()):
            made.append(Need("attention", title, f"{waiting:,} runs wait for a decision.", url, deploy.created_at))
        elif deploy.state == Deploy.State.DRAINING:
            left = deploying.draining(deploy, now=now, shown=0)
            text = f"{left.left:,} runs are left to drain"
            text += f", {left.stranded:,} of them without a live worker." if left.stranded else "."
            made.append(Need("attention" if left.cannot_drain else "waiting", title, text, url, deploy.rolled_out_at))
    return made


def _cut(text: str) -> str:
    return text if len(text) <= WORDS else text[: WORDS - 1] + "…"
