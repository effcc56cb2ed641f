"""What a run's versions tell: changes between its steps, another model than asked, retirements, and what nobody recorded. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from runs.facts import HeadFacts, Seen, moment
from runs.findings import Finding, found
from runs.states import Severity
from runs.steps import Journal
from runs.verdicts import listed
from runs.versions import Recorded

__all__ = ["findings"]


def findings(
    journal: Journal, recorded: Recorded, *, head: HeadFacts, in_flight: bool, wake_at: datetime | None, now: datetime
) -> Iterator[Finding]:
    """`changed_inside_run`, `silent_fallback`, `model_retired`, `versions_missing`, `version_moved`."""
    decided = [s for s in journal.entries if s.entry.kind == "deploy.continued"]
    yield from _changed(recorded, decided)
    yield from _fallback(journal.entries)
    if in_flight:
        yield from _retired(recorded, head.retirements, wake_at or now)
    yield from _missing(journal, recorded)
    yield from _moved(journal.entries, decided)


def _changed(recorded: Recorded, decided: Sequence[Seen]) -> Iterator[Finding]:
    """One finding per component and name that took more than one value."""
    series = {k: v for k, v in recorded.order.items() if k != ("model", "")}
    series.update({("model", step): v for step, v in _bare_series(recorded).items()})
    for (component, name), values in series.items():
        if len(values) < 2:
            continue
        told = all(any(_between(s.number, a[0], b[0]) for s in decided) for a, b in itertools.pairwise(values))
        what = f"{component} {name}".strip()
        steps = " → ".join(f"{value} (entry {number})" for number, value in values[:8])
        yield found(
            "changed_inside_run",
            f"{what} changed inside the run: {steps}{' → …' if len(values) > 8 else ''}."
            + (" A person decided to continue on the new versions." if told else ""),
            [number for number, _ in values],
            severity=Severity.INFO if told else None,
            component=component,
            name=name,
            values=[{"value": value, "from_entry": number} for number, value in values],
            decided=told,
        )


def _between(number: int, after: int, before: int) -> bool:
    return after <= number <= before


def _bare_series(recorded: Recorded) -> dict[str, list[tuple[int, str]]]:
    """Bare model ids by step name; what `run.started` said counts as the first value of the steps when none of them has it."""
    series = {step: values for step, values in recorded.bare.items() if step}
    started = recorded.bare.get("", [])
    used = {value for values in series.values() for _, value in values}
    if started and used and started[-1][1] not in used:
        first = min(series, key=lambda step: series[step][0][0])
        series[first] = [started[-1], *series[first]]
    return series


_DATED: Final = re.compile(r"[-@:._]?\d{4}-?\d{2}(-?\d{2})?$")


def same_model(asked: str, reported: str) -> bool:
    """Whether an answer of `reported` is an answer of `asked`: equal, with or without the provider's prefix or a release date."""
    left, right = (m.rpartition("/")[2].lower() for m in (asked, reported))
    return asked == reported or left == right or (right.startswith(left) and bool(_DATED.fullmatch(right[len(left) :])))


def _fallback(entries: Sequence[Seen]) -> Iterator[Finding]:
    made: dict[tuple[str, str], list[int]] = {}
    for seen in entries:
        reported = seen.entry.model_reported
        if reported is None:
            continue
        asked = _asked(seen)
        if asked and not any(same_model(a, reported) for a in asked):
            made.setdefault((", ".join(asked), reported), []).append(seen.number)
    for (asked_text, reported), numbers in made.items():
        yield found(
            "silent_fallback",
            f"{asked_text} was asked and {reported} answered (entry {listed(numbers)}).",
            numbers,
            asked=asked_text,
            reported=reported,
        )


def _asked(seen: Seen) -> list[str]:
    """The model ids that may answer this step: of its role where the map has its name, else any of them."""
    given = (seen.entry.versions or {}).get("model")
    if isinstance(given, str):
        return [given]
    if isinstance(given, Mapping):
        own = given.get(seen.entry.name or "")
        return [own] if isinstance(own, str) else [v for v in given.values() if isinstance(v, str)]
    return []


def _retired(recorded: Recorded, retirements: Mapping[str, str], wakes: datetime) -> Iterator[Finding]:
    """A model that the run holds and that retires before the run can go on."""
    if not retirements:
        return
    held: dict[str, list[int]] = {}
    for (component, name), uses in recorded.uses.items():
        if component == "model":
            last = recorded.order[component, name][-1][1]
            ids = {last} if name else {values[-1][1] for values in recorded.bare.values()}
            for value, number in uses.items():
                if value in ids:
                    held.setdefault(value, []).append(number)
    for model, numbers in held.items():
        retires = moment(retirements.get(model))
        if retires is not None and retires <= wakes:
            yield found(
                "model_retired",
                f"{model} retires {retirements[model]}, and the run cannot go on before {wakes.isoformat().replace('+00:00', 'Z')}.",
                numbers,
                model=model,
                retires_on=retirements[model],
                wakes_at=wakes.isoformat().replace("+00:00", "Z"),
            )


def _missing(journal: Journal, recorded: Recorded) -> Iterator[Finding]:
    """Components that no entry of the run recorded, of those that its steps need."""
    kinds = {s.kind for s in journal.steps}
    known = {component for component, _ in recorded.uses}
    needed = [("app", True), ("prompt", "model" in kinds), ("model", "model" in kinds), ("tools", "tool" in kinds)]
    missing = [component for component, wanted in needed if wanted and component not in known]
    if not known:
        yield found(
            "versions_missing",
            "No entry says under which versions it ran, so nothing can be said about a deploy.",
            [s.number for s in journal.entries[:1]],
            missing=["app", "prompt", "model", "tools"],
        )
    elif missing:
        yield found(
            "versions_missing",
            f"No entry records a version of: {', '.join(missing)}.",
            [],
            severity=Severity.WARNING if missing != ["app"] else Severity.INFO,
            missing=missing,
        )


def _moved(entries: Sequence[Seen], decided: Sequence[Seen]) -> Iterator[Finding]:
    """A run that was opened under more than one build."""
    builds: list[tuple[int, str]] = []
    for seen in entries:
        if (
            seen.entry.build
            and seen.entry.kind.startswith("run.")
            and (not builds or builds[-1][1] != seen.entry.build)
        ):
            builds.append((seen.number, seen.entry.build))
    if len(builds) < 2:
        return
    told = all(any(_between(s.number, a[0], b[0]) for s in decided) for a, b in itertools.pairwise(builds))
    yield found(
        "version_moved",
        f"The run went from build {' to '.join(f'{build} (entry {number})' for number, build in builds[:8])}"
        + (", as a person decided." if told else ", and no decision of that stands in the journal."),
        [number for number, _ in builds],
        severity=Severity.INFO if told else None,
        builds=[{"build": build, "from_entry": number} for number, build in builds],
        decided=told,
    )
