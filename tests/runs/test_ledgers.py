"""Captures of real runs against the ledger of what really happened outside: never calmer than the truth."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping

import pytest

from runs.summary import Summary
from tests.adapters import dbos_exports, temporal_captures
from tests.runs.journal import codes, read_files

TEMPORAL = sorted({n.split(".show.")[0] for n in temporal_captures.NAMES if ".show.json" in n and "made" not in n})
DBOS = sorted(p.name.removesuffix(".gz") for p in dbos_exports.CAPTURES.iterdir() if ".tables.json" in p.name)


def temporal_ledger() -> Counter[str]:
    """Refunds sent, by run."""
    return Counter(json.loads(line)["run"] for line in temporal_captures.data("side-effects-ledger.jsonl").splitlines())


def dbos_ledger() -> Counter[str]:
    return Counter(json.loads(line)["wf"] for line in dbos_exports.bytes_of("side-effects-ledger.jsonl").splitlines())


def temporal_runs(capture: str) -> Mapping[str, Summary]:
    names = [
        n
        for n in temporal_captures.NAMES
        if n.startswith(f"{capture}.") and n.endswith((".show.json", ".describe.json"))
    ]
    return read_files("temporal", {n: temporal_captures.data(n) for n in names})


def check(summary: Summary, sent: int, *, told_of_doubles: bool) -> None:
    """`sent` refunds left this run by the end of its life."""
    refunds = [r for r in summary.steps if r.step.write and "refund" in (r.step.name or "") and r.step.kind == "tool"]
    for row in refunds:
        assert row.judged.effects not in ("one", "none") or sent == 1
        assert row.judged.verdict != "not_started"
    if sent >= 2 and told_of_doubles:
        in_the_gap = any(g.verdict in ("may_run_twice", "failed_may_have_run", "unknown") for g in summary.gaps)
        assert in_the_gap or "possible_double_effect" in codes(summary)


@pytest.mark.parametrize("capture", TEMPORAL)
def test_of_temporal(capture: str) -> None:
    ledger = temporal_ledger()
    for run, summary in temporal_runs(capture).items():
        check(summary, ledger[run.rpartition("/")[2]], told_of_doubles=True)


@pytest.mark.parametrize("capture", DBOS)
def test_of_dbos(capture: str) -> None:
    ledger = dbos_ledger()
    # The scenario a-normal was run five times into databases of their own, under one name: its ledger counts all of them.
    # And k-rewind.before was taken when only the first refund was out.
    again = {"refund-a"}
    for run, summary in read_files("dbos", {capture: dbos_exports.bytes_of(capture)}).items():
        check(summary, ledger[run], told_of_doubles=run not in again and not capture.startswith("k-rewind.before"))


@pytest.mark.parametrize(
    ("capture", "run", "expected"),
    [
        ("b-crash.inflight", "refund-b-crash", ("may_run_twice", "certain")),
        ("b-crash.recovered", "refund-b-crash", ("done", "certain")),
        ("b-once.recovered", "refund-b-once", ("failed_may_have_run", "certain")),
        ("e-retry.between", "refund-e-retry", ("may_run_twice", "possible")),
        ("i-cancelled", "refund-i-cancelled", ("failed_may_have_run", "certain")),
    ],
)
def test_of_the_refund_itself(capture: str, run: str, expected: tuple[str, str]) -> None:
    summary = next(s for name, s in temporal_runs(capture).items() if name.startswith(run))
    row = next(r for r in summary.steps if r.step.name == "send_refund")
    assert (row.judged.verdict, row.judged.confidence) == expected


def test_a_local_activity_under_way_has_no_name_and_is_in_the_gap() -> None:
    (summary,) = temporal_runs("b-local.inflight").values()
    assert [(g.name, g.verdict, g.confidence) for g in summary.gaps] == [(None, "may_run_twice", "possible")]


def test_a_normal_run_has_no_gap_and_no_double() -> None:
    for capture in ("a-normal", "d-parallel", "h-timers"):
        (summary,) = temporal_runs(capture).values()
        assert list(summary.gaps) == []
        assert "possible_double_effect" not in codes(summary)


def test_a_recovered_run_of_a_runtime_without_attempts_is_a_possible_double() -> None:
    recovered = read_files("dbos", {"t": dbos_exports.bytes_of("b-crash.recovered.tables.json")})["refund-b"]
    first = read_files("dbos", {"t": dbos_exports.bytes_of("a-normal.done.tables.json")})["refund-a"]
    assert "possible_double_effect" in codes(recovered)
    assert "possible_double_effect" not in codes(first)
    assert {r.judged.effects for s in (recovered, first) for r in s.steps if r.step.write} == {"at_least_one"}
