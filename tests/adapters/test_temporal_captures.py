"""Every captured export comes out as what it is: a journal with its state, facts about a run, or a refusal that says why."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass

import pytest
from drainboard import wire

from journals.adapters import temporal
from journals.adapters.base import Counted, InputFile, Line, Partial, Refused, Unread
from tests.adapters.temporal_captures import NAMES, data, items, lines, read, states


@dataclass(frozen=True)
class Outcome:
    lines: int = 0  # without the note of state
    steps: int = 0  # by their starts; local activities have none
    status: str = ""  # with a question mark: only what the last event looks like, the status itself is `unknown`
    complete: bool = False
    refused: str = ""  # words of the reason


def kept(lines: int, steps: int, status: str, complete: bool) -> Outcome:
    return Outcome(lines, steps, status, complete)


def refused(reason: str) -> Outcome:
    return Outcome(refused=reason)


OUTCOMES = {
    "a-normal.describe.json": kept(0, 0, "completed", False),
    "a-normal.sdk.json": kept(36, 5, "completed", True),
    "a-normal.show.json": kept(36, 5, "completed", True),
    "a-normal.show.txt": refused("prints for people"),
    "a-normal.ui.json": kept(36, 5, "completed", True),
    "b-crash.inflight.describe.json": kept(0, 0, "running", False),
    "b-crash.inflight.sdk.json": kept(24, 4, "running?", False),
    "b-crash.inflight.show.json": kept(24, 4, "running?", False),
    "b-crash.recovered.describe.json": kept(0, 0, "completed", False),
    "b-crash.recovered.sdk.json": kept(39, 5, "completed", True),
    "b-crash.recovered.show.json": kept(39, 5, "completed", True),
    "b-local.inflight.describe.json": kept(0, 0, "running", False),
    "b-local.inflight.sdk.json": kept(22, 3, "running?", False),
    "b-local.inflight.show.json": kept(22, 3, "running?", False),
    "b-local.recovered.describe.json": kept(0, 0, "completed", False),
    "b-local.recovered.sdk.json": kept(35, 4, "completed", True),
    "b-local.recovered.show.json": kept(35, 4, "completed", True),
    "b-once.inflight.describe.json": kept(0, 0, "running", False),
    "b-once.inflight.sdk.json": kept(24, 4, "running?", False),
    "b-once.inflight.show.json": kept(24, 4, "running?", False),
    "b-once.recovered.describe.json": kept(0, 0, "failed", False),
    "b-once.recovered.sdk.json": kept(32, 4, "failed", True),
    "b-once.recovered.show.json": kept(32, 4, "failed", True),
    "c-signal.approved.describe.json": kept(0, 0, "completed", False),
    "c-signal.approved.http-shorthand.json": kept(44, 6, "completed", True),
    "c-signal.approved.sdk.json": kept(44, 6, "completed", True),
    "c-signal.approved.show.json": kept(44, 6, "completed", True),
    "c-signal.approved.ui-decoded.json": kept(44, 6, "completed", True),
    "c-signal.approved.ui-encoded.json": kept(44, 6, "completed", True),
    "c-signal.approved.ui-human-readable.json": kept(44, 6, "completed", True),
    "c-signal.parked.describe.json": kept(0, 0, "parked", False),
    "c-signal.parked.metadata.json": refused("names no run"),
    "c-signal.parked.sdk.json": kept(25, 4, "parked?", False),
    "c-signal.parked.show.json": kept(25, 4, "parked?", False),
    "c-update.approved.describe.json": kept(0, 0, "completed", False),
    "c-update.approved.sdk.json": kept(45, 6, "completed", True),
    "c-update.approved.show.json": kept(45, 6, "completed", True),
    "c-update.parked.describe.json": kept(0, 0, "parked", False),
    "c-update.parked.metadata.json": refused("names no run"),
    "c-update.parked.show.json": kept(25, 4, "parked?", False),
    "count-by-status.json": refused("a count of runs"),
    "d-parallel.describe.json": kept(0, 0, "completed", False),
    "d-parallel.sdk.json": kept(46, 7, "completed", True),
    "d-parallel.show.json": kept(46, 7, "completed", True),
    "e-failed.describe.json": kept(0, 0, "failed", False),
    "e-failed.sdk.json": kept(30, 4, "failed", True),
    "e-failed.show.json": kept(30, 4, "failed", True),
    "e-failed.ui-decoded.json": kept(30, 4, "failed", True),
    "e-failed.ui-encoded.json": kept(30, 4, "failed", True),
    "e-failed.ui-human-readable.json": kept(30, 4, "failed", True),
    "e-retry.between.describe.json": kept(0, 0, "running", False),
    "e-retry.between.sdk.json": kept(24, 4, "running?", False),
    "e-retry.between.show.json": kept(24, 4, "running?", False),
    "e-retry.done.describe.json": kept(0, 0, "completed", False),
    "e-retry.done.sdk.json": kept(37, 5, "completed", True),
    "e-retry.done.show.json": kept(37, 5, "completed", True),
    "f-auto.done.describe.json": kept(0, 0, "completed", False),
    "f-auto.done.sdk.json": kept(44, 6, "completed", True),
    "f-auto.done.show.json": kept(44, 6, "completed", True),
    "f-buildonly.describe.json": kept(0, 0, "completed", False),
    "f-buildonly.show.json": kept(36, 5, "completed", True),
    "f-deployment.describe.json": refused("worker deployment"),
    "f-deployment.list.json": refused("worker deployment"),
    "f-deployment.version1.drained.json": refused("worker deployment"),
    "f-deployment.version1.draining.json": refused("worker deployment"),
    "f-list-by-version.json": refused("a list of runs"),
    "f-new-on-v2.show.json": kept(44, 6, "completed", True),
    "f-nondet.crashed.show.json": kept(24, 4, "running?", False),
    "f-nondet.list.json": refused("a list of runs"),
    "f-nondet.rolledback.describe.json": kept(0, 0, "completed", False),
    "f-nondet.rolledback.show.json": kept(42, 5, "completed", True),
    "f-nondet.stuck.describe.json": kept(0, 0, "stuck", False),
    "f-nondet.stuck.sdk.json": kept(32, 4, "stuck", False),
    "f-nondet.stuck.show.json": kept(32, 4, "stuck", False),
    "f-override.done.describe.json": kept(0, 0, "completed", False),
    "f-override.done.show.json": kept(45, 6, "completed", True),
    "f-patched.describe.json": kept(0, 0, "completed", False),
    "f-patched.sdk.json": kept(44, 6, "completed", True),
    "f-patched.show.json": kept(44, 6, "completed", True),
    "f-pinned.done.describe.json": kept(0, 0, "completed", False),
    "f-pinned.done.show.json": kept(44, 6, "completed", True),
    "f-pinned.parked-on-v1.describe.json": kept(0, 0, "parked", False),
    "f-pinned.parked-on-v1.show.json": kept(25, 4, "parked?", False),
    "f-promptdrift.crashed.describe.json": kept(0, 0, "running", False),
    "f-promptdrift.crashed.show.json": kept(24, 4, "running?", False),
    "f-promptdrift.recovered.show.json": kept(39, 5, "completed", True),
    "g-long.describe.json": kept(0, 0, "completed", False),
    "g-long.show.json": kept(13205, 2200, "completed", True),
    "h-child-signalled.show.json": kept(44, 6, "completed", True),
    "h-child.describe.json": kept(0, 0, "completed", False),
    "h-child.show.json": kept(36, 5, "completed", True),
    "h-childfail.show.json": kept(14, 1, "completed", True),
    "h-list.json": refused("a list of runs"),
    "h-list.jsonl": refused("a list of runs"),
    "h-parent.run1.describe.json": kept(0, 0, "continued", False),
    "h-parent.run1.show.json": kept(33, 3, "continued", True),
    "h-parent.run2.describe.json": kept(0, 0, "completed", False),
    "h-parent.run2.show.json": kept(33, 3, "completed", True),
    "h-timers.sdk.json": kept(46, 7, "completed", True),
    "h-timers.show.json": kept(46, 7, "completed", True),
    "i-activity-paused.describe.json": kept(0, 0, "running", False),
    "i-activity-paused.show.json": kept(24, 4, "running?", False),
    "i-cancelled-parked.show.json": kept(31, 4, "cancelled", True),
    "i-cancelled.describe.json": kept(0, 0, "cancelled", False),
    "i-cancelled.show.json": kept(22, 2, "cancelled", True),
    "i-heartbeat.inflight.describe.json": kept(0, 0, "running", False),
    "i-heartbeat.inflight.show.json": kept(24, 4, "running?", False),
    "i-paused.describe.json": kept(0, 0, "held", False),
    "i-paused.show.json": kept(27, 4, "held?", False),
    "i-reset.newrun.describe.json": kept(0, 0, "completed", False),
    "i-reset.newrun.show.json": kept(39, 5, "completed", True),
    "i-terminated.describe.json": kept(0, 0, "stopped", False),
    "i-terminated.show.json": kept(26, 4, "stopped", True),
    "i-timedout.describe.json": kept(0, 0, "failed", False),
    "i-timedout.show.json": kept(26, 4, "failed", True),
    "i-unpaused.describe.json": kept(0, 0, "completed", False),
    "i-unpaused.show.json": kept(46, 6, "completed", True),
    "j-large.describe.json": kept(0, 0, "completed", False),
    "j-large.show.json": kept(11, 1, "completed", True),
    "k-openai-agents.show.json": kept(35, 5, "completed", True),
    "l-codec-encrypted.show.json": kept(29, 4, "failed", True),
    "l-encodings.show.json": kept(23, 3, "completed", True),
    "list.json": refused("a list of runs"),
    "list.jsonl": refused("a list of runs"),
    "made/diverged-describe.json": kept(0, 0, "stuck", False),
    "made/diverged-recorded.json": kept(20, 3, "stuck", False),
    "made/done-on-second-try.json": kept(8, 1, "running?", False),
    "made/pending-describe.json": kept(0, 0, "running", False),
    "made/pending.json": kept(11, 2, "running?", False),
    "made/timed-out-then-again.json": kept(13, 2, "running?", False),
    "side-effects-ledger.jsonl": refused("no list of events"),
}
STARTS = ("model.started", "tool.started", "child.started", "timer.started")


def test_names_every_capture() -> None:
    assert sorted(OUTCOMES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_reads_it_as_what_it_is(name: str) -> None:
    found, expected = read(name), OUTCOMES[name]
    reasons = [i.reason for i in found if isinstance(i, Refused)]
    if expected.refused:
        assert expected.refused in reasons[0]
        assert not [i for i in found if isinstance(i, (Line, Counted))]
        return
    entries, told = lines(found), states(found)
    assert not reasons
    assert len(told) == 1
    status = told[0]["status"] if told[0]["status"] != "unknown" else f"{told[0]['seen']['status']}?"
    got = (len(entries), sum(e["kind"] in STARTS for e in entries), status, told[0]["complete"])
    assert got == (expected.lines, expected.steps, expected.status, expected.complete)
    assert not [i for i in found if isinstance(i, (Unread, Partial))]


@pytest.mark.parametrize("name", [n for n in NAMES if OUTCOMES[n].lines])
def test_gives_every_event_a_line_and_every_line_the_shape_of_the_format(name: str) -> None:
    body = json.loads(data(name))
    events = body.get("events") or body["history"]["events"]
    stored = [e for e in events if "taskId" in e]
    found = read(name)
    made = [wire.parse(i.raw) for i in found if isinstance(i, Line)]
    assert [e.id for e in made if e.id and e.id.isdigit()] == [e["eventId"] for e in stored]
    assert [e.seq for e in made] == sorted(e.seq or 0 for e in made)
    assert not [e.oddities for e in made if e.oddities]
    assert len({e.id for e in made}) == len(made)
    assert [i.lines for i in found if isinstance(i, Counted)] == [len(made)]
    assert len({(i.record) for i in found if isinstance(i, Line)}) == len(made)


@pytest.mark.parametrize("name", [n for n in NAMES if OUTCOMES[n].lines and "long" not in n])
def test_numbers_steps_of_a_branch_from_one_without_holes(name: str) -> None:
    branches: dict[str, set[int]] = {}
    for entry in lines(read(name)):
        if "step" in entry:
            branches.setdefault(entry.get("branch", ""), set()).add(entry["step"])
    assert all(sorted(steps) == list(range(1, len(steps) + 1)) for steps in branches.values())


@pytest.mark.parametrize("name", NAMES)
def test_knows_its_own_files_by_their_beginning(name: str) -> None:
    sure = temporal.sniff([InputFile.of(name, data(name))])
    assert sure == 0 if "ledger" in name else sure >= 0.5


def test_does_not_claim_files_of_others() -> None:
    for other in (
        b'{"run":"a","kind":"note"}',
        b'{"resourceSpans":[]}',
        b"",
        b"\x1f\x8b",
        b'{"workflow_uuid":"x","status":"PENDING"}',
        b"plain text",
    ):
        assert temporal.sniff([InputFile.of("x", other)]) == 0.0


def test_reads_a_whole_folder_at_once_without_a_conflict() -> None:
    found = read(*NAMES)
    contents: dict[tuple[str, str], set[bytes]] = {}
    for entry in (i for i in found if isinstance(i, Line)):
        contents.setdefault((entry.run, wire.parse(entry.raw).id or ""), set()).add(entry.raw)
    assert len({run for run, _ in contents}) == 40
    # The HTTP shorthand wrote one empty list as null; nothing else differs between any two exports of one run.
    assert [key for key, raws in contents.items() if len(raws) > 1] == [
        ("refund-c-signal/01a22742-e7ef-785a-a56c-aaaeb765535a", "40")
    ]
    newest = {i.run: json.loads(i.raw)["out"] for i in found if isinstance(i, Line) and b'"runtime.state"' in i.raw}
    assert newest["refund-b-crash/01a22742-7952-72cd-a0db-bc21029aa218"]["status"] == "completed"


def test_keeps_a_value_of_more_than_a_megabyte() -> None:
    body = json.loads(data("j-large.show.json"))
    result = next(e for e in body["events"] if e["eventType"].endswith("ACTIVITY_TASK_COMPLETED"))
    big = base64.b64encode(b'"' + b"5feceb66" * 160_000 + b'"').decode()
    result["activityTaskCompletedEventAttributes"]["result"]["payloads"][0]["data"] = big
    found = items([InputFile.of("big.json", json.dumps(body).encode())])
    out = [e["out"] for e in lines(found) if e["kind"] == "tool.result"]
    assert len(out[0]) > 1_200_000
