"""Real exports with one line or one field taken away: nothing becomes more certain."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from drainboard import wire

from journals.adapters import ADAPTERS
from journals.adapters.base import InputFile, Line, Options
from tests.adapters import dbos_exports, restate_captures, temporal_captures
from tests.runs.journal import fold_import, imported
from tests.runs.test_nothing_gets_calmer import calmer

TEMPORAL = (
    "b-crash.inflight",
    "b-crash.recovered",
    "e-retry.done",
    "c-signal.parked",
    "d-parallel",
    "i-cancelled",
    "f-nondet.stuck",
    "b-local.recovered",
)
DBOS = (
    "b-crash.inflight",
    "b-crash.recovered",
    "c-approval.parked",
    "d-parallel.done",
    "e-failed.done",
    "h-children.done",
    "h-sleep.sleeping",
    "i-cancelled.cancelled",
)

RESTATE = (
    "b_sigkill_in_send_refund#3_2s_after_SIGKILL",
    "b_sigkill_in_send_refund#4_after_recovery",
    "c_parked_awakeable#parked",
    "e_retries_then_success#during_backoff",
    "f_same_endpoint_changed_code_journal_mismatch#mismatch",
    "h_timer_child_calls#after",
    "i_cancelled_killed_paused#killed",
)


def files(runtime: str, capture: str) -> list[InputFile]:
    if runtime == "restate":
        name, _, key = capture.partition("#")
        return [InputFile.of(name, restate_captures.rows([restate_captures.snapshot(name, key)]))]
    if runtime == "dbos":
        name = f"{capture}.tables.json"
        return [InputFile.of(name, dbos_exports.bytes_of(name))]
    names = [
        n
        for n in temporal_captures.NAMES
        if n.startswith(f"{capture}.") and n.endswith((".show.json", ".describe.json"))
    ]
    return [InputFile.of(n, temporal_captures.data(n)) for n in names]


def less(raws: list[bytes]) -> Iterator[tuple[str, list[bytes], list[int]]]:
    """Every way to take one line, one field, or one field of the run's state away."""
    whole = list(range(len(raws)))
    for i, raw in enumerate(raws):
        yield f"line {i}", raws[:i] + raws[i + 1 :], [n for n in whole if n != i]
        fields: dict[str, Any] = json.loads(raw)
        for name in fields.keys() - {"run", "kind"}:
            yield (
                f"`{name}` of line {i}",
                [*raws[:i], wire.encode({k: v for k, v in fields.items() if k != name}), *raws[i + 1 :]],
                whole,
            )
        if fields.get("name") == "runtime.state":
            for name in fields["out"]:
                out = {k: v for k, v in fields["out"].items() if k != name}
                yield (
                    f"`out.{name}` of line {i}",
                    [*raws[:i], wire.encode({**fields, "out": out}), *raws[i + 1 :]],
                    whole,
                )


CAPTURES = [
    (runtime, c) for runtime, names in (("temporal", TEMPORAL), ("dbos", DBOS), ("restate", RESTATE)) for c in names
]


@pytest.mark.parametrize(("runtime", "capture"), CAPTURES)
def test_without_a_line_or_a_field(runtime: str, capture: str) -> None:
    adapter = ADAPTERS[runtime]
    runs: dict[str, list[bytes]] = {}
    for item in adapter.read(files(runtime, capture), Options()):
        if isinstance(item, Line):
            runs.setdefault(item.run, []).append(item.raw)
    evidence = adapter.INFO.evidence
    for run, raws in runs.items():
        before = fold_import(imported(raws), evidence=evidence)
        for what, rest, indexes in less(raws):
            after = fold_import(imported(rest), evidence=evidence)
            assert calmer(before, after, {n + 1: i + 1 for n, i in enumerate(indexes)}) == [], f"{run} without {what}"
