"""Builds come in: from CI with all contents, or from a worker that opens a run with a label not seen before."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from drainboard import wire

from journals import store
from journals.errors import Refused
from runs.models import Run
from versioning import buildfile
from versioning.models import Build, Part, WorkerSeen

TOUCH_EVERY_S = 10  # how often a worker's row is written at most


class BuildConflict(Refused):
    """The label is taken by a build with other contents."""

    code = "BuildConflict"


class BadBuild(Refused):
    """The build file cannot be read."""

    code, status = "BadBuild", 400


class UnknownBuild(Refused):
    """No build of this agent has the label."""

    code, status = "UnknownBuild", 404


@transaction.atomic
def register(described: buildfile.Described, *, seen_from: str, by: str) -> tuple[Build, bool]:
    """The build of this label, and whether this call made it.

    The same contents again change nothing. What the first side left open is filled in; what it stated stays. Raises
    `BuildConflict` when the two contradict each other.
    """
    values = {
        "app": described.body.get("app"),
        "sdk": described.body.get("sdk"),
        "body": described.body,
        "digest": described.digest,
        "replaces": described.replaces,
        "first_seen_from": seen_from,
        "created_by": by,
    }
    _refuse_own_hotfix(described)
    build, created = Build.objects.get_or_create(agent=described.agent, label=described.label, defaults=values)
    if created:
        _write_parts(build)
        return build, True
    if _adds_nothing(build, described):
        return build, False
    build = Build.objects.select_for_update().get(pk=build.pk)
    _refuse_contradictions(build, described)
    build.body = buildfile.merged(build.body, described.body)
    build.app, build.sdk = build.body.get("app"), build.body.get("sdk")
    build.digest = wire.digest(build.body)
    build.replaces = build.replaces or described.replaces
    build.save(update_fields=["body", "app", "sdk", "digest", "replaces"])
    _write_parts(build)
    return build, False


def read_file(raw: bytes) -> buildfile.Described:
    """The build that these bytes describe. Raises `BadBuild`."""
    try:
        return buildfile.read(raw)
    except buildfile.BadBuildFile as e:
        raise BadBuild(f"the build file is not one: {e}; docs/build-file.schema.json describes it") from None


def opened_with(*, agent: str, label: str, versions: Mapping[str, Any] | None, worker: str) -> Build:
    """The build that a worker brings, registered on first sight. Raises `BuildConflict`, `BadBuild`."""
    try:
        described = buildfile.described_by_worker(agent=agent, label=label, versions=versions or {})
    except buildfile.BadBuildFile as e:
        raise BadBuild(str(e)) from None
    if not agent or not label:
        raise BadBuild("`agent` and `build` must not be empty")
    build, _ = register(described, seen_from=Build.FirstSeen.WORKER, by=f"worker:{worker}")
    return build


def known(*, agent: str, label: str) -> bool:
    """Whether the agent has a registered build of this label."""
    return Build.objects.filter(agent=agent, label=label).exists()


def find(*, agent: str, label: str) -> Build:
    """The registered build. Raises `UnknownBuild`."""
    found = Build.objects.filter(agent=agent, label=label).first()
    if found is None:
        known = list(Build.objects.filter(agent=agent).values_list("label", flat=True)[:10])
        if not known and (problem := unknown_agent(agent)):
            raise UnknownBuild(problem, agent=agent, build=label)
        raise UnknownBuild(
            f"agent {agent!r} has no build {label!r}; register it, or name one of: {', '.join(known) or 'none yet'}",
            agent=agent,
            build=label,
        )
    return found


def unknown_agent(agent: str) -> str:
    """That nobody knows an agent of this name, with the name that was probably meant; empty when it has builds or runs."""
    if Build.objects.filter(agent=agent).exists() or Run.objects.filter(agent=store.encode_text(agent)).exists():
        return ""
    built = Build.objects.order_by().values_list("agent", flat=True).distinct()
    ran = Run.objects.filter(in_flight=True).order_by().values_list("agent", flat=True).distinct()
    return f"no agent {agent!r}{nearest(agent, {*built, *map(store.decode_text, ran)})}"


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean …?` for the known name that is closest, else the known names, else nothing."""
    names = sorted(known)
    if close := difflib.get_close_matches(name, names, n=1):
        return f"; did you mean {close[0]!r}?"
    return f"; known are {', '.join(map(repr, names[:10]))}" if names else ""


def replaced_by(*, agent: str, label: str) -> list[str]:
    """The labels whose pinned runs a build may take, itself first: `B.2` replaces `B.1`, which replaces `B`."""
    replaces = dict(Build.objects.filter(agent=agent).exclude(replaces="").values_list("label", "replaces"))
    chain = [label]
    while (label := replaces.get(label, "")) and label not in chain:
        chain.append(label)
    return chain


def arrived_at(*, agent: str, label: str) -> list[str]:
    """The label, and those of the builds that replace it: a run on one of them is where a deploy of the label wants it."""
    replaces = list(Build.objects.filter(agent=agent).exclude(replaces="").values_list("label", "replaces"))
    found = [label]
    for one in found:
        found += [new for new, old in replaces if old == one and new not in found]
    return found


def touch(*, agent: str, environment: str, build: str, worker: str, now: datetime) -> None:
    """Notes that a worker asked for work."""
    row, created = WorkerSeen.objects.get_or_create(
        agent=agent, environment=environment, build=build, worker=worker, defaults={"seen_at": now}
    )
    if not created and (now - row.seen_at).total_seconds() >= TOUCH_EVERY_S:
        WorkerSeen.objects.filter(pk=row.pk, seen_at__lt=now).update(seen_at=now)


def _refuse_own_hotfix(described: buildfile.Described) -> None:
    if described.replaces == described.label:
        raise BadBuild(f"build {described.label!r} cannot replace itself")


def _adds_nothing(build: Build, described: buildfile.Described) -> bool:
    if described.replaces not in ("", build.replaces):
        return False
    return not buildfile.contradictions(build.body, described.body) and (
        buildfile.merged(build.body, described.body) == build.body
    )


def _refuse_contradictions(build: Build, described: buildfile.Described) -> None:
    found = buildfile.contradictions(build.body, described.body)
    if described.replaces and build.replaces not in ("", described.replaces):
        found.append(f"it replaces {build.replaces}, here it replaces {described.replaces}")
    if found:
        raise BuildConflict(
            f"build {build.label!r} of agent {build.agent!r} is registered with other contents: {'; '.join(found)}. "
            f"A label is immutable: register these contents under a new one.",
            agent=build.agent,
            build=build.label,
            contradictions=found,
        )


def _write_parts(build: Build) -> None:
    Part.objects.filter(build=build).delete()
    Part.objects.bulk_create(_parts(build))


def _parts(build: Build) -> Iterable[Part]:
    days = buildfile.retirements_in(build.body)
    stated = buildfile.versions_in(build.body)
    for component, versions in (("prompt", stated.prompts), ("model", stated.models), ("tool", stated.tools)):
        if versions is None:
            continue
        for name, version in (versions or {"": ""}).items():  # one empty row says: stated, and there are none
            text = build.body["prompts"][name].get("sha256", "") if component == "prompt" and version else ""
            day = days.get(version) if component == "model" else None
            yield Part(build=build, component=component, name=name, version=version, digest=text, retires_on=day)
