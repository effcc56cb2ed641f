"""Which runs in flight a build touches: a few statements, whatever the number of runs.

Runs that recorded the same versions on the same build are compared once. One statement counts the runs in flight by that
pair (and by which models will have retired when they wake); the comparison itself is `versioning.mismatch`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from django.db.models import Min

from runs.models import VersionSet
from versioning import buildfile, counting, live, mismatch
from versioning.counting import Counted, Pair, Where, pair_of
from versioning.mismatch import Contents, Difference, Versions
from versioning.models import AgentPolicy, Build, Part

__all__ = [
    "Assessed", "Group", "Measure", "Pair", "assess", "assess_build", "assess_file", "contents_of", "measure_for", "measure_of",
    "pair_of", "policy_of", "stated_of",
]  # fmt: skip

RUNS_LISTED: Final = 1_000  # keys named per group in the machine-readable answer


@dataclass(slots=True)
class Group:
    """Runs in flight with one verdict and the same differences."""

    key: str
    verdict: mismatch.Verdict
    differences: tuple[Difference, ...]
    count: int = 0
    in_step: int = 0  # a step is begun and has no result
    parked: int = 0
    parked_on_approval: int = 0
    stranded: int = 0  # no live worker for their build
    held: int = 0
    pinned: int = 0
    oldest: datetime | None = None
    pairs: list[Pair] = field(default_factory=list)
    builds: dict[str, int] = field(default_factory=dict)  # label that the runs are on -> runs

    def as_json(self, keys: Sequence[str]) -> dict[str, Any]:
        """The group of `check_deploy`."""
        return {
            "group": self.key,
            "verdict": self.verdict,
            "differences": [d.as_json() for d in self.differences],
            "runs": list(keys),
            "count": self.count,
            "in_step": self.in_step,
            "parked": self.parked,
            "parked_on_approval": self.parked_on_approval,
            "stranded": self.stranded,
            "held": self.held,
            "pinned": self.pinned,
            "oldest": self.oldest.isoformat() if self.oldest else None,
            "builds": dict(sorted(self.builds.items())),
        }


@dataclass(frozen=True, slots=True)
class Assessed:
    """An assessment: groups by urgency (mismatch, unknown, compatible, same), the largest first."""

    where: Where
    groups: Sequence[Group]
    not_started: int  # native runs that no worker has opened: they take whatever build opens them

    @property
    def agent(self) -> str:
        return self.where.agent

    @property
    def environment(self) -> str:
        """Empty: every environment."""
        return self.where.environment

    @property
    def assessed_at(self) -> datetime:
        return self.where.now

    @property
    def runs(self) -> int:
        """Runs in flight that were compared."""
        return sum(g.count for g in self.groups)

    def verdicts(self) -> dict[str, int]:
        """Runs by verdict, every verdict named."""
        return {v: sum(g.count for g in self.groups if g.verdict == v) for v in mismatch.VERDICTS}

    def group(self, key: str) -> Group | None:
        """The group of this key, if runs are in it now."""
        return next((g for g in self.groups if g.key == key), None)

    def runs_of(
        self, pairs: Sequence[Pair], *, limit: int = RUNS_LISTED, after: int = 0, without: int = 0
    ) -> list[tuple[int, str]]:
        """(head id, key) of the runs of these pairs: see `counting.runs_of`."""
        return counting.runs_of(self.where, pairs, limit=limit, after=after, without=without)


@dataclass(frozen=True, slots=True)
class Measure:
    """A build with everything that runs are held against, loaded once per assessment."""

    label: str  # empty: not registered
    contents: Contents
    policy: mismatch.Policy
    bases: Mapping[str, Versions]  # label -> what that build states
    bodies: Mapping[int, Versions]  # versions_set -> what the runs recorded
    thresholds: Sequence[datetime]

    def assess(self, pair: Pair, *, now: datetime) -> mismatch.Assessment:
        """The verdict for every run of this pair."""
        wakes_at = self.thresholds[pair.retired - 1] if pair.retired else now
        here = pair.native and pair.base == self.label  # its worker was let in with this build: that is decided
        recorded = self.contents.versions if here else self.bodies.get(pair.versions_set, Versions())
        base = None if here else self.bases.get(pair.base)
        found = mismatch.assess(recorded, self.contents, now=now, policy=self.policy, base=base, wakes_at=wakes_at)
        return mismatch.Assessment("same", ()) if here and not found.differences else found


def assess(
    *,
    agent: str,
    environment: str,
    stated: Versions,
    texts: Mapping[str, str],
    now: datetime,
    label: str = "",
    retires: Mapping[str, Any] | None = None,
) -> Assessed:
    """Every run in flight of this agent against a build's versions. `texts`: prompt name -> digest, where known."""
    contents = contents_of(stated, agent=agent, texts=texts, retires=retires)
    thresholds = sorted({mismatch.retires_at(day) for day in contents.retires_on.values()})
    where = Where(agent=agent, environment=environment, now=now, thresholds=thresholds)
    rows, unopened = counting.counted(where, live=live.builds(agent=agent, environment=environment, now=now))
    measure = measure_of(contents, label=label, agent=agent, pairs={row.pair for row in rows}, thresholds=thresholds)
    groups: dict[str, Group] = {}
    for row in rows:
        found = measure.assess(row.pair, now=now)
        group = groups.setdefault(found.group, Group(found.group, found.verdict, found.differences))
        _add(group, row)
    order = {"mismatch": 0, "unknown": 1, "compatible": 2, "same": 3}
    ranked = sorted(groups.values(), key=lambda g: (order[g.verdict], -g.count, g.key))
    return Assessed(where, ranked, unopened)


def assess_build(build: Build, *, environment: str, now: datetime) -> Assessed:
    """Every run in flight of the build's agent against a registered build."""
    stated, texts = stated_of([build.pk])[build.pk]
    return assess(agent=build.agent, environment=environment, stated=stated, texts=texts, now=now, label=build.label)


def assess_file(described: buildfile.Described, *, environment: str, now: datetime) -> Assessed:
    """Every run in flight of the agent against a build that is not registered."""
    prompts = described.body.get("prompts") or {}
    return assess(
        agent=described.agent,
        environment=environment,
        stated=buildfile.versions_in(described.body),
        texts={name: got["sha256"] for name, got in prompts.items() if got.get("sha256")},
        retires=buildfile.retirements_in(described.body),
        now=now,
    )


def measure_for(build: Build, *, pairs: Iterable[Pair]) -> Measure:
    """What the runs of these pairs, all awake now, are held against."""
    stated, texts = stated_of([build.pk])[build.pk]
    contents = contents_of(stated, agent=build.agent, texts=texts)
    return measure_of(contents, label=build.label, agent=build.agent, pairs=pairs, thresholds=())


def measure_of(
    contents: Contents, *, label: str, agent: str, pairs: Iterable[Pair], thresholds: Sequence[datetime]
) -> Measure:
    """Loads the policy, and what the runs of these pairs recorded and stand on."""
    pairs = list(pairs)
    ids = {p.versions_set for p in pairs} - {0}
    labels = {p.base for p in pairs} - {""}
    bodies = VersionSet.objects.filter(pk__in=ids).values_list("pk", "body") if ids else ()
    known = dict(Build.objects.filter(agent=agent, label__in=labels).values_list("pk", "label")) if labels else {}
    stated = stated_of(known) if known else {}
    return Measure(
        label=label,
        contents=contents,
        policy=policy_of(agent),
        bases={known[pk]: versions for pk, (versions, _) in stated.items()},
        bodies={pk: mismatch.versions_of(body) for pk, body in bodies},
        thresholds=thresholds,
    )


def policy_of(agent: str) -> mismatch.Policy:
    """What the agent's owners said about code changes; strict when they said nothing."""
    row = AgentPolicy.objects.filter(agent=agent).first()
    return mismatch.Policy(code_changes_compatible=bool(row and row.code_changes_compatible))


def contents_of(
    stated: Versions, *, agent: str, texts: Mapping[str, str], retires: Mapping[str, Any] | None = None
) -> Contents:
    """A build's versions with what all registered builds know about models that retire and prompts whose version moved."""
    retirements = (
        Part.objects.exclude(retires_on=None).values_list("version").annotate(day=Min("retires_on")).order_by()
    )
    known: dict[tuple[str, str], set[str]] = {}
    for name, version, digest in (
        Part.objects.filter(build__agent=agent, component="prompt", name__in=list(stated.prompts or {}))
        .exclude(digest="")
        .values_list("name", "version", "digest")
    ):
        known.setdefault((name, version), set()).add(digest)
    for name, digest in texts.items():
        known.setdefault((name, (stated.prompts or {})[name]), set()).add(digest)
    return Contents(
        versions=stated,
        retires_on={**dict(retirements), **(retires or {})},
        texts={key: frozenset(found) for key, found in known.items()},
    )


def stated_of(builds: Iterable[int]) -> dict[int, tuple[Versions, dict[str, str]]]:
    """Build id -> the versions that it states and the digests of its prompts, without loading texts and schemas."""
    ids = list(builds)
    made: dict[int, dict[str, dict[str, str]]] = {pk: {} for pk in ids}
    texts: dict[int, dict[str, str]] = {pk: {} for pk in ids}
    for part in Part.objects.filter(build__in=ids).only("build_id", "component", "name", "version", "digest"):
        of = made[part.build_id].setdefault(part.component, {})
        if part.version:
            of[part.name] = part.version
        if part.digest:
            texts[part.build_id][part.name] = part.digest
    code = {pk: (app, sdk) for pk, app, sdk in Build.objects.filter(pk__in=ids).values_list("pk", "app", "sdk")}
    return {
        pk: (
            Versions(
                app=code[pk][0], sdk=code[pk][1], prompts=of.get("prompt"), models=of.get("model"), tools=of.get("tool")
            ),
            texts[pk],
        )
        for pk, of in made.items()
    }


def _add(group: Group, counted: Counted) -> None:
    if counted.pair not in group.pairs:
        group.pairs.append(counted.pair)
    group.builds[counted.pair.base] = group.builds.get(counted.pair.base, 0) + counted.count
    for name in _COUNTS:
        setattr(group, name, getattr(group, name) + getattr(counted, name))
    group.oldest = min(counted.oldest, group.oldest or counted.oldest)


_COUNTS: Final = ("count", "in_step", "parked", "parked_on_approval", "stranded", "held", "pinned")
