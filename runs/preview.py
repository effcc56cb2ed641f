"""What a mapping would make of a real run: its steps before and after, and what changes for the run. Writes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from journals import store
from runs import page, projection, rows
from runs.mapping import SourceMapping
from runs.models import Run, Step
from runs.safe import unpacked
from runs.summary import StepRow

__all__ = ["Preview", "preview"]

SHOWN: Final = 200  # steps


class Cell(NamedTuple):
    """A value of a step, before and after."""

    before: str
    after: str

    @property
    def changed(self) -> bool:
        return self.before != self.after


@dataclass(frozen=True, slots=True)
class Row:
    """One step."""

    number: str
    name: str
    cells: Sequence[Cell]  # in the order of `COLUMNS`

    @property
    def changed(self) -> bool:
        return any(cell.changed for cell in self.cells)


@dataclass(frozen=True, slots=True)
class Preview:
    """The run under the mapping that it has and under another one."""

    run: Run
    rows: Sequence[Row]  # at most `SHOWN`; of a longer run those that change
    steps: int
    changed: int  # steps of which anything changes
    facts: Sequence[tuple[str, Cell]]  # of the run as a whole


COLUMNS: Final = ("kind", "effect", "verdict", "effects outside", "key", "versions that change")
_COLUMNS: Final = ("kind", "effect", "verdict", "effects", "key")


def preview(head_id: int, mapping: SourceMapping) -> Preview:
    """Folds the run under `mapping` and compares it with its rows, which are brought up to date first. Raises `UnknownRun`."""
    projection.catch_up([head_id])
    run = page.run_of(head_id)
    made, _ = projection.summarise(store.head(head_id), mapping=mapping)
    before = {(store.decode_text(s.branch), s.step): _kept(s) for s in Step.objects.filter(run=run).order_by("ord")}
    after = {(r.step.branch, r.step.number): _made(r) for r in made.steps}
    compared = [_row(place, before.get(place, {}), after.get(place, {})) for place in dict.fromkeys([*before, *after])]
    changed = [row for row in compared if row.changed]
    return Preview(
        run,
        (compared if len(compared) <= SHOWN else changed)[:SHOWN],
        len(compared),
        len(changed),
        _facts(run, rows.summary_of(made), str(made.status), made.version_set),
    )


def _kept(step: Step) -> dict[str, Any]:
    text = store.decode_text
    return {
        "name": text(step.name) if step.name is not None else None, "kind": step.kind, "effect": step.effect, "verdict": step.verdict,
        "effects": step.effects, "key": text(step.key) if step.key is not None else None, "versions": unpacked(step.versions),
    }  # fmt: skip


def _made(row: StepRow) -> dict[str, Any]:
    step, judged = row.step, row.judged
    return {
        "name": step.name, "kind": step.kind, "effect": "write" if step.write else "read", "verdict": str(judged.verdict),
        "effects": str(judged.effects), "key": next(reversed(step.keys), None), "versions": row.versions,
    }  # fmt: skip


def _row(place: tuple[str, int], before: Mapping[str, Any], after: Mapping[str, Any]) -> Row:
    cells = [Cell(_text(name, before.get(name)), _text(name, after.get(name))) for name in _COLUMNS]
    cells.append(_moved(before.get("versions") or {}, after.get("versions") or {}))
    one = after or before
    return Row(page.number_of(*place), one["name"] or one["kind"], cells)


def _moved(before: Mapping[str, Any], after: Mapping[str, Any]) -> Cell:
    """Only the components that differ: the whole set is long and mostly the same."""
    names = [name for name in dict.fromkeys([*before, *after]) if before.get(name) != after.get(name)]
    return Cell(*(_versions({n: side[n] for n in names if n in side}) for side in (before, after)))


def _text(name: str, value: Any) -> str:
    return str(value or "").replace("_", " ") if name in ("verdict", "effects") else str(value or "")


def _versions(value: Mapping[str, Any]) -> str:
    return ", ".join(f"{component} {_version(part)}".strip() for component, part in sorted(value.items()))


def _version(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_version(part)}".strip() for name, part in sorted(value.items()))
    return page.short(value) if isinstance(value, str) else str(value)


def _facts(run: Run, made: Mapping[str, Any], status: str, versions: Mapping[str, Any]) -> list[tuple[str, Cell]]:
    before = unpacked(run.versions_set.body) if run.versions_set else {}
    return [
        ("status", Cell(run.status, status)),
        ("in the gap", Cell(_gaps(page.part(run, "gaps")), _gaps(made["gaps"]))),
        ("findings", Cell(_codes(page.part(run, "findings")), _codes(made["findings"]))),
        ("versions", Cell(_versions(before) or "none", _versions(versions) or "none")),
    ]


def _gaps(found: Sequence[Mapping[str, Any]]) -> str:
    names = [f"{page.number_of(g['branch'], g['step'])} {unpacked(g['name']) or 'not known'}" for g in found[:5]]
    return f"{len(found)}: {', '.join(names)}{' …' if len(found) > 5 else ''}" if found else "none"


def _codes(found: Sequence[Mapping[str, Any]]) -> str:
    codes = sorted(f["code"] for f in found)
    return f"{len(codes)}: {', '.join(dict.fromkeys(codes))}" if codes else "none"
