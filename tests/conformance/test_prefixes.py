"""Files that end early, at any byte: nothing breaks, everything is counted, and no run is over before its end is there."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from drainboard import wire

from runs.states import ENDED
from tests.conformance.captures import Capture, captures, files_of
from tests.conformance.reading import STATE, Reading, read

SMALL = {
    "aws": "f_code_changed_in_flight.json",
    "cloudflare": "refund-workflow@rollback-89468.json",
    "dbos": "captures/i-cancelled.cancelled.tables.json",
    "durabletask": "case-07/instance-with-output.json",
    "langgraph": "case-14.thread.json",
    "lines": "approval_mismatch.jsonl",
    "otel": "odd.jsonl",
    "restate": "mismatch/sys_journal.json",
    "temporal": "made/done-on-second-try.json",
}
"""Of which `make fuzz` tries every length."""

LARGER = {
    "aws": "a_succeeded.json",
    "cloudflare": "cloud_form.json",
    "durabletask": "a-completed.json",
    "restate": "a_completed_virtual_object.json",
    "temporal": "i-cancelled.show.json",
}

ENDS = {
    "aws": rb"SUCCEEDED|FAILED|STOPPED|TIMED_OUT|Execution(?:Succeeded|Failed|TimedOut|Stopped)",
    "cloudflare": rb'"(?:complete|errored|terminated)"',
    "dbos": rb"SUCCESS|ERROR|CANCELLED|MAX_RECOVERY",
    "durabletask": rb"(?i:completed|failed|terminated|execution_?completed)|\"orchestration_status\": ?[135]",
    "langgraph": rb'"next": ?\[\]|"status": ?"(?:idle|success|error)"',
    "lines": rb'"run\.(?:completed|failed|stopped|cancelled|continued)"',
    "otel": rb'"endTimeUnixNano"',
    "restate": rb'"completed"|Command: Output',
    "temporal": rb"WORKFLOW_EXECUTION_(?:COMPLETED|FAILED|TIMED_OUT|CANCELED|TERMINATED|CONTINUED)",
}
"""What a record that ends a run holds."""

OTHERWISE = {
    # adapter: (ids of lines that a torn file may have and the whole one has not, why)
    "aws": (r"described|listed", "the first event, which tells the start better, comes behind the description"),
    "cloudflare": (r".*", "the id of the instance may stand behind its steps; until then the run has the file's name"),
    "dbos": (r"(?:run|end|event):.*", "inputs, outputs and events of a run stand in tables of their own"),
    "durabletask": (r"status:.*|.*", "an end that only the state tells stands for the event that is lost"),
    "langgraph": (r".*", "the names of steps stand in other rows than what they wrote"),
    "restate": (r"(?:run|mismatch):.*", "the row of the invocation may come behind its journal"),
    "temporal": (
        r"\d+:parallel|\d+",
        "how many commands ran side by side, and the run id after a reset, stand further behind",
    ),
}
STEPS = 30  # lengths that are tried of each file


def ended_whole(adapter: str, data: bytes) -> bool:
    """Whether an object, or a line, that holds the word of an end is whole here. Looks at brackets only."""
    wanted = re.compile(ENDS[adapter])
    return any(wanted.search(data, start, end) for start, end in _objects(data))


def _objects(data: bytes) -> Iterator[tuple[int, int]]:
    opened: list[int] = []
    for token in re.finditer(rb'"(?:[^"\\]|\\.)*"|[{}]', data, re.DOTALL):
        if token.group() == b"{":
            opened.append(token.start())
        elif token.group() == b"}" and opened:
            yield opened.pop(), token.end()


def check(adapter: str, path: str, data: bytes, cut: int, whole: Reading) -> list[str]:
    """What does not hold of the first `cut` bytes of a file."""
    made = read(adapter, files_of(((path, data[:cut]),)))
    found = made.faults()
    known = {line.raw for line in whole.lines}
    allowed = OTHERWISE.get(adapter, ("", ""))[0]
    for line in made.lines:
        entry = wire.parse(line.raw)
        new = line.raw not in known and not (entry.kind == "note" and entry.name == STATE)
        if new and not re.fullmatch(allowed, entry.id or ""):
            found.append(f"the torn file has {entry.kind} {entry.id}, the whole one has not")
    for run, summary in made.summaries.items():
        if summary.complete and cut < len(data.rstrip(b"\n")) and made.partials.get(run):
            found.append(f"{run} is complete")
        if summary.status in ENDED and not ended_whole(adapter, data[:cut]):
            found.append(f"{run} is {summary.status}, and no end of a run is in the file")
    return found


def lengths(capture: Capture, steps: int) -> Iterator[int]:
    """Lengths spread over the file, others for each capture; the last byte is always missing once."""
    end = len(capture.files[0][1].rstrip())
    stride = max(1, end // steps)
    yield from range(len(capture.name) % stride, end, stride)
    yield end - 1


def test_every_adapter_is_tried() -> None:
    assert SMALL.keys() == {c.adapter for c in captures()}


@pytest.mark.parametrize(("adapter", "name"), [*SMALL.items(), *LARGER.items()])
def test_a_file_that_ends_early(adapter: str, name: str) -> None:
    (capture,) = (c for c in captures() if (c.adapter, c.name) == (adapter, name))
    ((path, data),) = capture.files
    whole = read(adapter, capture.inputs())
    assert whole.lines
    for cut in lengths(capture, STEPS):
        assert check(adapter, path, data, cut, whole) == [], f"the first {cut} bytes of {path}"
