"""A foreign run's entries as its source's mapping has them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from drainboard import wire

from journals.adapters.names import version_shape
from runs.facts import STATE_NOTE, Seen
from runs.light import changed
from runs.mapping import KINDS, SourceMapping, Words

__all__ = ["apply"]

S = TypeVar("S", bound=Seen)


def apply(
    entries: Sequence[S], mapping: SourceMapping, *, whole: Callable[[Sequence[int]], Iterable[S]] = lambda _: ()
) -> Sequence[S]:
    """The entries of a foreign run as the mapping has them; those that it says nothing about are the same objects.

    `whole` gives entries by position with every value that these left out (`{"$cut": …}`); it is asked for those only into
    whose values a pointer leads. What was written here about the run stays as it is.
    """
    return _Applying(entries, mapping, whole).run() if mapping else entries


_Place = tuple[str, int]


@dataclass(slots=True)
class _Pointed:
    """What the pointers found in one entry."""

    key: str | None = None
    versions: dict[str, Any] = field(default_factory=dict)


class _Applying:
    """One pass over a run: kinds by name, then what pointers find, then the entries made of both."""

    def __init__(self, entries: Sequence[Any], mapping: SourceMapping, whole: Callable[[Sequence[int]], Iterable[Any]]):
        self.entries, self.mapping, self.whole = entries, mapping, whole
        self.kinds, self.effects = Words(mapping.kinds), Words(mapping.effects)
        self.names: dict[_Place, str] = {}  # of steps: an answer may leave its name out
        self.run_versions: dict[str, Any] = {}  # found in `run.started`, the newest one that was passed
        self.known: dict[str, tuple[str | None, str | None]] = {}
        for seen in entries:
            entry = seen.entry
            if _is_step(seen) and entry.step is not None and entry.name is not None:
                self.names.setdefault((entry.branch, entry.step), entry.name)

    def run(self) -> list[Any]:
        kinds = {seen.pos: self._kind(seen) for seen in self.entries}
        found = self._pointed(kinds)
        sent = {(*place, seen.entry.attempt): told.key for seen in self.entries
                if (told := found.get(seen.pos)) and told.key and (place := _place(seen))}  # fmt: skip
        starts = [
            found[seen.pos].versions for seen in self.entries if seen.entry.kind == "run.started" and seen.pos in found
        ]
        self.run_versions = dict(starts[0]) if starts else {}
        carried: dict[_Place, dict[str, Any]] = {}
        return [self._made(seen, kinds[seen.pos], found.get(seen.pos), sent, carried) for seen in self.entries]

    def _said(self, name: str | None) -> tuple[str | None, str | None]:
        """Kind and effect that the mapping gives to a name."""
        if name is None:
            return None, None
        if name not in self.known:
            self.known[name] = self.kinds.of(name), self.effects.of(name)
        return self.known[name]

    def _name(self, seen: Any) -> str | None:
        entry = seen.entry
        return (
            entry.name if entry.name is not None or entry.step is None else self.names.get((entry.branch, entry.step))
        )

    def _kind(self, seen: Any) -> str:
        kind: str = seen.entry.kind
        mapped = self._said(self._name(seen))[0] if _is_step(seen) else None
        return f"{mapped}.{kind.partition('.')[2]}" if mapped else kind

    def _pointed(self, kinds: Mapping[int, str]) -> dict[int, _Pointed]:
        """By position, what the pointers find; entries whose values were left out are asked for once, together."""
        found: dict[int, _Pointed] = {}
        cut: list[int] = []
        for seen in self.entries:
            try:
                told = self._look(seen, kinds[seen.pos])
            except _LeftOut:
                cut.append(seen.pos)
                continue
            if told is not None:
                found[seen.pos] = told
        for seen in self.whole(cut) if cut else ():
            told = self._look(seen, kinds[seen.pos], complete=True)
            if told is not None:
                found[seen.pos] = told
        return found

    def _look(self, seen: Any, kind: str, *, complete: bool = False) -> _Pointed | None:
        keys: Sequence[str] = self.mapping.keys if _is_step(seen) else ()
        places: Mapping[str, tuple[str, ...]] = {}
        if seen.origin == "import":
            model = kind.startswith("model.")
            places = self.mapping.versions if kind == "run.started" else self.mapping.step_versions if model else {}
        if not keys and not places:
            return None
        told = _Pointed()
        for pointer in keys:
            value = _value(seen.entry, pointer, complete=complete)
            if isinstance(value, str) and value:
                told.key = value
                break
        for component, pointers in places.items():
            shapes = (version_shape(component, _text(_value(seen.entry, p, complete=complete))) for p in pointers)
            if shaped := next((s for s in shapes if s), None):
                told.versions[component] = shaped
        return told

    def _made(
        self, seen: Any, kind: str, told: _Pointed | None, sent: Mapping[tuple[str, int, int], str | None], carried: dict[_Place, dict[str, Any]]
    ) -> Any:  # fmt: skip
        entry = seen.entry
        fields: dict[str, Any] = {}
        if kind != entry.kind:
            fields["kind"] = kind
        place = _place(seen)
        if place is not None or _is_step(seen):
            effect = self._said(self._name(seen))[1]
            if effect is not None and effect != entry.effect:
                fields["effect"] = effect
            key = (told.key if told else None) or (sent.get((*place, entry.attempt)) if place and entry.key else None)
            if key is not None and key != entry.key:
                fields["key"] = key
        if entry.kind == "run.started" and told is not None:
            self.run_versions.update(told.versions)
        if versions := self._versions(seen, place, told, carried):
            fields["versions"] = {**(entry.versions or {}), **versions}
            if entry.name is None and (name := self._name(seen)) is not None:
                fields["name"] = name  # versions are told apart by the step's name
        if _is_state(seen) and (out := self._state(entry.out)) is not None:
            fields["out"] = out
        return changed(seen, **fields) if fields else seen

    def _versions(
        self, seen: Any, place: _Place | None, told: _Pointed | None, carried: dict[_Place, dict[str, Any]]
    ) -> dict[str, Any]:
        """What was found here and, for a step, in its lines before this one; else the run's, where the line records another
        value of a component that the mapping has for the run."""
        found = told.versions if told else {}
        recorded = seen.entry.versions if self.run_versions and seen.origin == "import" else None
        of_run = {c: v for c, v in self.run_versions.items() if c in recorded} if recorded else {}
        if place is None or not self.mapping.step_versions:
            return {**of_run, **found}
        before = carried.setdefault(place, {})
        before.update(found)
        return {**of_run, **before}

    def _state(self, out: Any) -> dict[str, Any] | None:
        """A source's note about its run, with the steps that it names; None when nothing changes."""
        lists = (
            {n: out[n] for n in ("pending", "doubles") if isinstance(out.get(n), list)}
            if isinstance(out, Mapping)
            else {}
        )
        made = {name: [self._named(step) for step in steps] for name, steps in lists.items()}
        return {**out, **made} if made != lists else None

    def _named(self, given: Any) -> Any:
        if not isinstance(given, Mapping) or given.get("kind") not in (None, *KINDS):
            return given
        name = given.get("name")
        kind, effect = self._said(name if isinstance(name, str) else None)
        return {**given, **({"kind": kind} if kind else {}), **({"effect": effect} if effect else {})}


def _is_step(seen: Any) -> bool:
    """An imported entry of a model call or tool."""
    return bool(seen.origin == "import" and seen.entry.kind.startswith(("model.", "tool.")))


def _place(seen: Any) -> _Place | None:
    return (seen.entry.branch, seen.entry.step) if _is_step(seen) and seen.entry.step is not None else None


def _is_state(seen: Any) -> bool:
    return bool(seen.origin == "import" and seen.entry.kind == "note" and seen.entry.name == STATE_NOTE)


class _LeftOut(Exception):
    """The pointer leads into a value that the skeleton does not hold."""


def _value(entry: Any, pointer: str, *, complete: bool) -> Any:
    """The value at a pointer into the entry's line; None when there is none. Raises `_LeftOut` unless the line is complete."""
    first, *rest = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    here = entry.extra.get(first) if first not in _FIELDS else getattr(entry, "in_" if first == "in" else first)
    for part in rest:
        if not complete and _is_cut(here):
            raise _LeftOut
        if isinstance(here, Mapping):
            here = here.get(part)
        elif isinstance(here, list) and part.isascii() and part.isdigit() and int(part[:9]) < len(here):
            here = here[int(part[:9])]
        else:
            return None
    if not complete and _is_cut(here):
        raise _LeftOut
    return here


def _text(value: Any) -> Any:
    """A number as its text, as versions are; anything else as it is."""
    if isinstance(value, wire.Number):
        return value.text
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


_FIELDS: Final = frozenset(
    "in" if name == "in_" else name for name in wire.Entry.__dataclass_fields__ if name not in ("extra", "oddities")
)


def _is_cut(value: Any) -> bool:
    return isinstance(value, Mapping) and len(value) == 1 and "$cut" in value
