"""Versions of a run: every value that its entries recorded, which steps used it, and the set that the run stands on. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from drainboard import wire

from runs.facts import Seen

__all__ = ["COMPONENTS", "Recorded", "components", "digest_of", "record"]

COMPONENTS: Final = ("app", "prompt", "model", "tools", "sdk")


@dataclass(slots=True)
class Recorded:
    """Everything that a run recorded about its versions."""

    uses: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    """(component, name) -> values in the order of their first use, each with the entry that recorded it first. A bare model id stands under the name "" and is told apart by step name."""
    order: dict[tuple[str, str], list[tuple[int, str]]] = field(default_factory=dict)
    """(component, name) -> (entry number, value) wherever the value differs from the one before."""
    bare: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    """step name -> the same for models recorded as a bare id; step name "" is `run.started`."""

    def body(self) -> dict[str, Any]:
        """The set of last values, as `runs.models.VersionSet` keeps it; empty when nothing was recorded."""
        made: dict[str, Any] = {}
        for (component, name), values in self.order.items():
            last = values[-1][1]
            if component in ("app", "sdk"):
                made[component] = last
            elif component != "model" or name:
                made.setdefault(component, {})[name] = last
        bare = self._bare_models()
        if bare:
            made["model"] = {**made.get("model", {}), **bare}
        return made

    def _bare_models(self) -> dict[str, str]:
        """Role "" -> the id; where steps of several names ended on different ids, each under its step's name."""
        by_step = {name: values[-1][1] for name, values in self.bare.items() if name}
        last = by_step or {name: values[-1][1] for name, values in self.bare.items()}
        ids = set(last.values())
        return {"": next(iter(ids))} if len(ids) == 1 else last

    def listed(self) -> dict[str, Any]:
        """Every value by component, as `show_run` gives them."""
        made: dict[str, Any] = {"app": [], "prompt": {}, "model": [], "tools": {}, "sdk": []}
        for (component, name), uses in self.uses.items():
            values = list(uses)
            if component in ("prompt", "tools"):
                made[component][name] = values
            else:
                made[component] = list(dict.fromkeys([*made[component], *values]))
        return made


def components(versions: Mapping[str, Any] | None) -> list[tuple[str, str, str]]:
    """(component, name, value) of an entry's `versions`; parts of an unexpected type count as not recorded.

    A prompt `name@version` is split at the last `@`; without one the whole is its name and its version. A bare model has the name "".
    """
    made: list[tuple[str, str, str]] = []
    for component in COMPONENTS:
        given = (versions or {}).get(component)
        if isinstance(given, str) and given:
            if component == "prompt":
                name, at, version = given.rpartition("@")
                made.append(("prompt", name, version) if at and name else ("prompt", given, given))
            elif component != "tools":
                made.append((component, "", given))
        elif isinstance(given, Mapping) and component in ("prompt", "model", "tools"):
            made.extend((component, name, value) for name, value in given.items() if isinstance(value, str))
    return made


def record(entries: Iterable[Seen]) -> Recorded:
    """What these entries recorded, in their order."""
    made = Recorded()
    known: dict[str, list[tuple[str, str, str]]] = {}
    settled: dict[tuple[str, str], int] = {}  # what was recorded -> the count of changes when it was last looked at
    changes = 0
    for seen in entries:
        if seen.entry.versions is None:
            continue
        # Entries repeat each other; their text is a cheaper key than taking them apart again.
        text = repr(seen.entry.versions)
        step = "" if seen.entry.kind == "run.started" else seen.entry.name or seen.entry.kind
        if settled.get((text, step)) == changes:
            continue
        found = known.get(text)
        if found is None:
            found = known[text] = components(seen.entry.versions)
        for component, name, value in found:
            changes += _use(made, component, name, value, step, seen.number)
        settled[text, step] = changes
    return made


def _use(made: Recorded, component: str, name: str, value: str, step: str, number: int) -> int:
    """Takes one recorded value; returns how many series it changed."""
    made.uses.setdefault((component, name), {}).setdefault(value, number)
    changed = _change(made.order.setdefault((component, name), []), number, value)
    if component == "model" and not name:
        changed += _change(made.bare.setdefault(step, []), number, value)
    return changed


def _change(values: list[tuple[int, str]], number: int, value: str) -> int:
    if values and values[-1][1] == value:
        return 0
    values.append((number, value))
    return 1


def digest_of(body: Mapping[str, Any]) -> str:
    """The address of a set: `sha256:` over its canonical form, or over its text where it has none."""
    try:
        return wire.digest(body)
    except wire.Ambiguous:
        return wire.digest_bytes(wire.encode(body))
