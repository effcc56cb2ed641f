"""Whether a run in flight still fits a build: pure comparison of what it recorded with what the build holds.

Nothing here knows Django, the database or the clock. `assess` compares, per component, the last value that a run recorded
with the build's value and answers a verdict and every difference. What is not known stays `unknown` and never becomes `same`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from typing import Any, Final, Literal

from drainboard import wire

Verdict = Literal["same", "compatible", "mismatch", "unknown"]
VERDICTS: Final[tuple[Verdict, ...]] = ("same", "compatible", "mismatch", "unknown")

CLASSES: Final[Mapping[str, Verdict]] = {
    "changed": "mismatch",  # a prompt, model or tool has another version, id or digest
    "removed": "mismatch",  # the run used it, the build states the component and does not have it
    "model_retired": "mismatch",  # the model's retirement date comes before the run can go on
    "code_changed": "mismatch",  # app or sdk; `compatible` when the agent's policy says so
    "added": "compatible",  # the build has one more, of a component that the run recorded
    "unknown": "unknown",  # one of the two sides does not state the component at all
}
"""Every class of difference and the verdict that it leads to."""

ANY_ROLE: Final = ""  # a model recorded as a bare id: it matches whatever role has that id


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """Versions by component. A component that is None is not stated; an empty mapping says that there are none."""

    app: str | None = None
    sdk: str | None = None
    prompts: Mapping[str, str] | None = None  # name -> version
    models: Mapping[str, str] | None = None  # role -> id; role "" is a bare id
    tools: Mapping[str, str] | None = None  # name -> digest

    def is_empty(self) -> bool:
        """Whether no component at all is stated."""
        return (
            self.app is None
            and self.sdk is None
            and self.prompts is None
            and self.models is None
            and self.tools is None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What a build holds: its versions, and what only a build can know about them."""

    versions: Versions
    retires_on: Mapping[str, date] = field(default_factory=dict)  # model id -> day from which it may not answer
    texts: Mapping[tuple[str, str], frozenset[str]] = field(default_factory=dict)
    """(prompt name, version) -> digests of every text registered under it; more than one means that the version moved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What an agent's owners said about its versions."""

    code_changes_compatible: bool = False


@dataclass(frozen=True, slots=True, order=True)
class Difference:
    """One thing that the run recorded otherwise than the build has it. None means: not stated on that side."""

    component: str  # prompt, model, tool, app, sdk
    name: str  # prompt or tool name, model role; empty for app, sdk, a bare model and a whole component
    recorded: str | None
    new: str | None
    change: str  # one of CLASSES
    detail: str = ""  # a sentence, where recorded and new do not say it all

    def as_json(self) -> dict[str, str | None]:
        """The object of `check_deploy`; `detail` only where there is one."""
        made = {
            "component": self.component,
            "name": self.name,
            "recorded": self.recorded,
            "new": self.new,
            "class": self.change,
        }
        return {**made, "detail": self.detail} if self.detail else made


def difference_of(kept: Mapping[str, Any]) -> Difference:
    """The difference that `Difference.as_json` gave."""
    return Difference(
        kept["component"], kept["name"], kept["recorded"], kept["new"], kept["class"], kept.get("detail", "")
    )


@dataclass(frozen=True, slots=True)
class Assessment:
    """The verdict over all differences, which are sorted and unique."""

    verdict: Verdict
    differences: tuple[Difference, ...]

    @property
    def group(self) -> str:
        """The name of the group of runs that share this verdict and these differences: 16 hex digits."""
        subject = {"verdict": self.verdict, "differences": [d.as_json() for d in self.differences]}
        try:
            return wire.digest(subject)[7:23]
        except wire.Ambiguous:  # a name with a lone surrogate has no canonical form
            return wire.digest_bytes(wire.encode(subject))[7:23]


def versions_of(body: Mapping[str, Any] | None) -> Versions:
    """Versions out of an entry's or a version set's object; parts of the wrong type count as not stated.

    `prompt` is `name@version` (split at the last `@`) or a mapping, `model` an id or a mapping role -> id.
    """
    body = body or {}
    prompt, model = body.get("prompt"), body.get("model")
    if isinstance(prompt, str) and prompt:
        name, at, version = prompt.rpartition("@")
        prompt = {name: version} if at and name else {prompt: prompt}
    if isinstance(model, str) and model:
        model = {ANY_ROLE: model}
    return Versions(
        app=_text(body.get("app")),
        sdk=_text(body.get("sdk")),
        prompts=_texts(prompt),
        models=_texts(model),
        tools=_texts(body.get("tools")),
    )


def overlay(base: Versions | None, recorded: Versions) -> Versions:
    """What a run stands on: what it recorded, and beneath it what the build that it runs on states."""
    if base is None:
        return recorded
    return Versions(
        app=recorded.app if recorded.app is not None else base.app,
        sdk=recorded.sdk if recorded.sdk is not None else base.sdk,
        prompts=_over(base.prompts, recorded.prompts),
        models=_over_models(base.models, recorded.models),
        tools=_over(base.tools, recorded.tools),
    )


def assess(
    recorded: Versions | Mapping[str, Any] | None,
    build: Contents,
    *,
    now: datetime,
    policy: Policy,
    base: Versions | None = None,
    wakes_at: datetime | None = None,
) -> Assessment:
    """Compares what a run recorded with a build.

    `base` is what the build that the run is on states (used where the run recorded nothing of its own), `wakes_at` the
    earliest moment at which the run can go on (None: now). The verdict is the worst of all differences: `mismatch`, then
    `unknown`, then `compatible`; `same` only when every component that the build names is recorded and equal.
    """
    own = overlay(base, recorded if isinstance(recorded, Versions) else versions_of(recorded))
    found = set(_code(own, build.versions))
    found.update(_named("prompt", own.prompts, build.versions.prompts))
    found.update(_moved(own.prompts, build))
    found.update(_models(own.models, build.versions.models))
    found.update(_retired(own.models, build, max(now, wakes_at or now)))
    found.update(_named("tool", own.tools, build.versions.tools))
    differences = tuple(sorted(found, key=_order))
    return Assessment(_verdict(own, build.versions, differences, policy), differences)


def retirement_days(recorded: Versions, build: Contents) -> list[date]:
    """The days, oldest first, on which a model that the run or the build names retires: between two of them the verdict stands still."""
    ids = {*(recorded.models or {}).values(), *(build.versions.models or {}).values()}
    return sorted({build.retires_on[i] for i in ids if i in build.retires_on})


def retires_at(day: date) -> datetime:
    """The moment from which a model with this retirement day is not counted on: its first second, UTC."""
    return datetime.combine(day, time.min, tzinfo=UTC)


_STOP_NAMES: Final[tuple[tuple[str, Callable[[Difference], bool]], ...]] = (
    ("ToolRemoved", lambda d: d.component == "tool" and d.change == "removed"),
    ("ToolSchemaChanged", lambda d: d.component == "tool" and d.change not in ("added", "unknown")),
    ("PromptChanged", lambda d: d.component == "prompt" and d.change not in ("added", "unknown")),
    ("ModelRetired", lambda d: d.change == "model_retired"),
    ("ModelChanged", lambda d: d.component == "model" and d.change not in ("added", "unknown")),
    ("CodeChanged", lambda d: d.change == "code_changed"),
    ("VersionsUnknown", lambda d: d.change == "unknown"),
)


def stop_name(differences: Iterable[Difference]) -> str:
    """The stop name that says most about these differences; `StoppedByOperator` when there is nothing to say."""
    seen = list(differences)
    return next((name for name, fits in _STOP_NAMES if any(fits(d) for d in seen)), "StoppedByOperator")


def _verdict(own: Versions, build: Versions, differences: tuple[Difference, ...], policy: Policy) -> Verdict:
    reached = {_verdict_of(d, policy) for d in differences}
    for verdict in ("mismatch", "unknown", "compatible"):
        if verdict in reached:
            return verdict
    return "unknown" if own.is_empty() or build.is_empty() else "same"


def _verdict_of(difference: Difference, policy: Policy) -> Verdict:
    if difference.change == "code_changed" and policy.code_changes_compatible:
        return "compatible"
    return CLASSES[difference.change]


def _code(own: Versions, build: Versions) -> Iterator[Difference]:
    for component, recorded, new in (("app", own.app, build.app), ("sdk", own.sdk, build.sdk)):
        if recorded == new:
            continue
        if recorded is None:
            yield Difference(component, "", None, new, "unknown")
        elif new is not None:
            yield Difference(component, "", recorded, new, "code_changed")
        elif (
            component == "app"
        ):  # a build that does not state its sdk is not compared there: most build files leave it out
            yield Difference(component, "", recorded, None, "unknown")


def _named(component: str, own: Mapping[str, str] | None, build: Mapping[str, str] | None) -> Iterator[Difference]:
    if not own:
        yield from (Difference(component, name, None, new, "unknown") for name, new in (build or {}).items())
        return
    for name, recorded in own.items():
        if build is None:
            yield Difference(component, name, recorded, None, "unknown")
        elif name not in build:
            yield Difference(component, name, recorded, None, "removed")
        elif build[name] != recorded:
            yield Difference(component, name, recorded, build[name], "changed")
    yield from (
        Difference(component, name, None, new, "added") for name, new in (build or {}).items() if name not in own
    )


def _moved(own: Mapping[str, str] | None, build: Contents) -> Iterator[Difference]:
    """An equal version is no proof when two texts are registered under it."""
    for name, version in (own or {}).items():
        if (build.versions.prompts or {}).get(name) == version and len(build.texts.get((name, version), ())) > 1:
            detail = f"version {version} of prompt {name} is registered with {len(build.texts[name, version])} texts"
            yield Difference("prompt", name, version, version, "changed", detail)


def _models(own: Mapping[str, str] | None, build: Mapping[str, str] | None) -> Iterator[Difference]:
    """As `_named`, but a bare id on either side has no role to be compared by: it matches the id in any role."""
    if not own or build is None or (ANY_ROLE not in own and ANY_ROLE not in build):
        yield from _named("model", own, build)
        return
    for role, recorded in own.items():
        new = build.get(role, build.get(ANY_ROLE))
        if new is None and role == ANY_ROLE:
            new = recorded if recorded in build.values() else ", ".join(sorted(set(build.values()))) or None
        if new != recorded:
            yield Difference("model", role, recorded, new, "removed" if new is None else "changed")


def _retired(own: Mapping[str, str] | None, build: Contents, wakes_at: datetime) -> Iterator[Difference]:
    """A retired model ends the run at its next call, on the old build as on the new one."""
    new = build.versions.models or {}
    for role, model in {**new, **(own or {})}.items():
        for used in {model, new.get(role, model)}:
            day = build.retires_on.get(used)
            if day is not None and retires_at(day) <= wakes_at:
                detail = f"{used} retires on {day.isoformat()}, before the run can go on"
                yield Difference("model", role, (own or {}).get(role), new.get(role), "model_retired", detail)


def _order(difference: Difference) -> tuple[str, ...]:
    return tuple(
        "" if v is None else "=" + v
        for v in (
            difference.component,
            difference.name,
            difference.recorded,
            difference.new,
            difference.change,
            difference.detail,
        )
    )


def _over(base: Mapping[str, str] | None, recorded: Mapping[str, str] | None) -> Mapping[str, str] | None:
    if base is None or recorded is None:
        return base if recorded is None else recorded
    return {**base, **recorded}


def _over_models(base: Mapping[str, str] | None, recorded: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """A bare id says nothing of roles, so it is not mixed with them: what the run recorded stands alone."""
    if recorded and (ANY_ROLE in recorded or ANY_ROLE in (base or {})):
        return recorded
    return _over(base, recorded)


def _text(got: Any) -> str | None:
    return got if isinstance(got, str) and got else None


def _texts(got: Any) -> Mapping[str, str] | None:
    if not isinstance(got, Mapping):
        return None
    return {name: value for name, value in got.items() if isinstance(name, str) and isinstance(value, str) and value}
