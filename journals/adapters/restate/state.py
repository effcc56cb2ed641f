"""What a Restate export says about a run as a whole: the content of its `runtime.state` note.

A `Run` command is durable before its action, so a command without the notification of its completion id is the gap. A second
execution leaves no record, at most an event of the first one's loss.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from journals.adapters.names import kind_of, said
from journals.adapters.restate.entries import AWAKEABLES, CANCEL, Entry
from journals.adapters.restate.events import Failed, ending, event_title, failed_step, failures
from journals.adapters.restate.line import Fields
from journals.adapters.restate.lines import awakeable_place
from journals.adapters.restate.lines import waited_awakeables as awakeables
from journals.adapters.restate.runs import (
    CODES,
    IN_FLIGHT,
    RUNS,
    Event,
    Snapshot,
    answers_of,
    moment,
)
from journals.adapters.restate.trouble import mismatch_of, stranded_of, stuck_of
from journals.adapters.restate.versions import deployment_facts
from journals.adapters.values import integer, text, utc

_STATUS: Final = {"scheduled": "parked", "suspended": "parked", "paused": "held"}


def state_of(snapshot: Snapshot) -> Fields:
    """The `out` of the note. What the export does not say is absent; without the invocation's row there is no status."""
    fields, word = snapshot.fields, snapshot.word
    stuck = stuck_of(snapshot)
    pinned = text(fields, "pinned_deployment_id")
    over = word == "completed"
    failed = failures(snapshot)
    made: Fields = {
        "runtime_status": word,
        "status": _status(snapshot, stuck),
        "complete": (over and snapshot.whole) if snapshot.invocation is not None else None,
        "as_of": snapshot.as_of(),
        "build": pinned or text(fields, "last_attempt_deployment_id"),
        "pinned_to": pinned if word in IN_FLIGHT else None,
        "tried_by": text(fields, "last_attempt_deployment_id"),
        "deployment": pinned,
        "deployment_facts": deployment_facts(snapshot),
        "stuck": stuck,
        "stranded": stranded_of(snapshot),
        "mismatch": mismatch_of(snapshot),
        "tries": integer(fields, "retry_count"),
        "next_retry_at": text(fields, "next_retry_at"),
        "last_failure": text(fields, "last_failure"),
        "lost_executions": list(_lost(snapshot, failed)),
        "tries_recorded": False,
        "doubles": _doubles(snapshot),
        "forked_from": text(fields, "restarted_from"),
        "copied": _copied(snapshot),
        "parent": text(fields, "invoked_by_id"),
        "ended": list(ending(fields)) if over else None,
        "steps": len(snapshot.numbers),
        "entries": len({e.index for e in snapshot.entries}),
        "stated_entries": snapshot.size,
        "held": _held(snapshot),
        "losses": list(_losses(snapshot)),
    }
    if snapshot.whole:
        made["last_step"] = len(snapshot.numbers)
    if snapshot.invocation is not None and (snapshot.entries or word not in IN_FLIGHT):
        made["waiting"] = list(_waiting(snapshot)) if word in IN_FLIGHT else []
        made["pending"] = list(_pending(snapshot, failed))
    waited = next((w for w in made.get("waiting", ()) if "awakeable" in w), None)
    made["awakeable"] = waited["awakeable"] if waited else None
    keep = ("pending", "waiting", "doubles")
    return {k: v for k, v in made.items() if k in keep or v not in (None, "", [], {})}


def _status(snapshot: Snapshot, stuck: Mapping[str, Any] | None) -> str | None:
    word = snapshot.word
    if snapshot.invocation is None or not word:
        return None
    if word == "completed":
        return "unknown" if snapshot.cut else ending(snapshot.fields)[0]  # a torn file shows no finished run
    if stuck:
        return "stuck"
    return _STATUS.get(word, "running") if word in IN_FLIGHT else "unknown"


# -- what is open ----------------------------------------------------------------------------------------------------


def open_commands(snapshot: Snapshot) -> list[Entry]:
    """Commands whose result has no notification of their completion id, in the order of the journal."""
    found: dict[int, Entry] = {}
    for entry in snapshot.commands:
        needs = entry.type in (
            *RUNS,
            "Sleep",
            "Call",
            "GetPromise",
            "AttachInvocation",
            "GetInvocationOutput",
            "Awakeable",
        )
        done = (
            entry.done or (not entry.v1 and entry.completion in snapshot.answered) or (entry.v1 and entry.type in RUNS)
        )
        if needs and not done:
            found.setdefault(entry.index, entry)
    return list(found.values())


def _pending(snapshot: Snapshot, failed: Sequence[Failed]) -> Iterator[Fields]:
    word, retries = snapshot.word, integer(snapshot.fields, "retry_count") or 0
    if word not in IN_FLIGHT:
        return
    last = 0
    for entry in open_commands(snapshot):
        if entry.type not in RUNS or kind_of(entry.name) == "value":
            continue
        last_failure = next((e for e, running in reversed(failed) if any(r is entry for r in running)), None)
        # Equal errors in a row are one event, so events alone would count too few.
        tries = max(retries, 1) if word == "running" else retries + 1
        last = snapshot.numbers[entry.index]
        yield {
            "branch": "",
            "step": last,
            "name": entry.name,
            "kind": kind_of(entry.name),
            "attempt": tries,
            "state": word.replace("-", "_"),
            "last_failure": _failure_words(last_failure) if last_failure else None,
            "last_started_at": text(snapshot.fields, "last_start_at") or entry.at,
        }
    if word in ("running", "backing-off", "paused") and _starts_late(snapshot):
        # The answer of a buffered endpoint, or an entry of journal version 1, comes when the action is over.
        yield {"branch": "", "step": len(snapshot.numbers) + 1, "name": None, "attempt": None, "state": "no_record"}


def _starts_late(snapshot: Snapshot) -> bool:
    buffered = "arn" in snapshot.deployment or snapshot.deployment.get("ty") == "lambda"
    return (
        buffered or snapshot.deployment.get("protocol_type") == "RequestResponse" or any(e.v1 for e in snapshot.entries)
    )


def _failure_words(event: Event) -> str:
    first = event.message.split("\n", 1)[0]
    code = f"{event.code} ({CODES[event.code]})" if event.code in CODES else event.code
    return ": ".join(part for part in (code, first) if part)


def _waiting(snapshot: Snapshot) -> Iterator[Fields]:
    """What a run waits for: awakeables and signals first, because a timer beside them is only their limit."""
    if snapshot.word == "scheduled":
        due = text(snapshot.fields, "scheduled_start_at")
        yield {
            "branch": "",
            "step": None,
            "what": "timer",
            "until": due,
            "since": text(snapshot.fields, "scheduled_at"),
        }
    since = max((e.at for e in snapshot.entries if e.at), key=lambda at: (moment(at) is not None, at), default=None)
    for index in awakeables(snapshot) if snapshot.word in IN_FLIGHT else ():
        place = awakeable_place(snapshot.run, index)
        yield {
            "branch": place["branch"],
            "step": place["step"],
            "what": f"approval:{place['approval']}",
            "since": since,
            **answers_of(snapshot.run, index),
        }
    for name in _signals(snapshot):
        yield {"branch": "", "step": None, "what": f"signal:{name}", "since": since}
    entries = {e.completion: e for e in snapshot.commands if e.completion is not None}
    opened = [e for e in open_commands(snapshot) if e.type not in RUNS]
    waited = snapshot.fields.get("suspended_waiting_for_completions")
    for number in waited if isinstance(waited, list) else ():
        if number not in entries and isinstance(number, int):
            yield {"branch": "", "step": None, "what": f"completion:{number}", "since": since}
    for entry in opened:
        yield _waits_for(snapshot, entry)


def _waits_for(snapshot: Snapshot, entry: Entry) -> Fields:
    what = f"child:{entry.child or entry.target or '?'}"
    if entry.type == "Sleep":
        what = "timer"
    elif entry.type == "GetPromise":
        what = f"approval:{entry.key}"
    elif entry.type == "Awakeable":
        what = f"approval:awakeable {entry.index}"
    until = utc(entry.wake_ms) if entry.type == "Sleep" else None
    return {
        "branch": "",
        "step": snapshot.numbers.get(entry.index),
        "what": what,
        "name": entry.name or None,
        "until": until,
        "since": entry.at,
    }


def _signals(snapshot: Snapshot) -> list[str]:
    """Signals by name, and signals by number that are neither Restate's cancel nor an awakeable."""
    names: list[str] = []
    future = text(snapshot.fields, "suspended_waiting_future_json") or ""
    for piece in future.split('"SignalName":"')[1:]:
        name = piece.split('"', 1)[0]
        if name not in names:
            names.append(name)
    listed = snapshot.fields.get("suspended_waiting_for_signals")
    numbers = listed if isinstance(listed, list) else []
    return [*names, *(str(n) for n in numbers if isinstance(n, int) and CANCEL < n < AWAKEABLES)]


# -- what may have happened twice ------------------------------------------------------------------------------------


def _lost(snapshot: Snapshot, failed: Sequence[Failed]) -> Iterator[Fields]:
    """Executions that ended without the code's own word: what was running then may have acted. Equal ones are one item."""
    groups: dict[tuple[int, str], list[Event]] = {}
    running: dict[int, list[Entry]] = {}
    for event, entries in failed:
        if entries and failed_step(snapshot, event) is None:
            groups.setdefault((event.after, event_title(event)), []).append(event)
            running[event.after] = entries
    for (after, what), events in groups.items():
        yield {
            "at": events[0].at,
            "last_at": events[-1].at,
            "events": len(events),
            "after_entry": after,
            "what": what,
            "during": [{"step": snapshot.numbers[e.index], "name": e.name} for e in running[after]],
        }


def _doubles(snapshot: Snapshot) -> list[Fields]:
    """Steps that the run which this one was restarted from did too. A second execution of one run has lines of its own."""
    source = text(snapshot.fields, "restarted_from")
    copied = set((_copied(snapshot) or {}).get("steps", ()))
    return [
        {
            "branch": "",
            "step": snapshot.numbers[e.index],
            "name": e.name,
            **said(e.name),
            "why": "forked",
            "other": source,
        }
        for e in snapshot.commands
        if source and e.type in RUNS and snapshot.numbers[e.index] not in copied
    ]


def _copied(snapshot: Snapshot) -> Fields | None:
    """Steps that a restart took over: their entries keep their old times, which lie before the run was made."""
    made = moment(text(snapshot.fields, "created_at"))
    source = text(snapshot.fields, "restarted_from")
    if not source or made is None:
        return None
    steps = [
        snapshot.numbers[e.index]
        for e in snapshot.commands
        if e.index in snapshot.numbers and (at := moment(e.at)) is not None and at < made
    ]
    return {"from": source, "steps": sorted(set(steps))} if steps else None


# -- what the export held --------------------------------------------------------------------------------------------


def _held(snapshot: Snapshot) -> Fields:
    if not snapshot.entries:
        return {"form": "sys_invocation", "whole": False, "seqs": ""}
    return {"form": "sys_journal", "whole": snapshot.whole, "seqs": ranges({e.index for e in snapshot.entries} - {0})}


def ranges(numbers: set[int]) -> str:
    """`1-16,18`."""
    made: list[list[int]] = []
    for n in sorted(numbers):
        if made and made[-1][1] == n - 1:
            made[-1][1] = n
        else:
            made.append([n, n])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in made)


def _losses(snapshot: Snapshot) -> Iterator[Fields]:
    """What the invocation's own count says is missing, and an input that is not here. Holes show by themselves."""
    have = {e.index for e in snapshot.entries}
    size = snapshot.size
    if not have and snapshot.word == "completed":
        return  # kept for a while only, then removed by Restate
    if size and len(have) < size and snapshot.last < size - 1:
        got = f"{len(have)} of its {size} entries" if have else f"none of its {size} entries"
        yield {"code": "torn_tail", "reason": f"the export has {got}"}
    elif have and 0 not in have:
        yield {"code": "missing_entry", "reason": "its first entry, the input, is not in the export"}
