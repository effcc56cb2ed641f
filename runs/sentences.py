"""Says what happened, to what, and what follows: one place for the sentences of the run page. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Sentence(NamedTuple):
    """What a card says: a title, the facts, and what follows."""

    title: str
    facts: str
    follows: str
    began: str = ""  # said before the time of the start, where that is known; `facts` then goes on


def gap(found: Mapping[str, Any], *, native: bool, over: bool = False) -> Sentence:
    """The words of a gap card. `found` is one of the summary's gaps; the start's time is shown beside, not in the words.

    `over`: the run has ended, and not well, so nothing repeats the step by itself.
    """
    what = step_name(found)
    verdict, confidence = found.get("verdict"), found.get("confidence")
    if over and verdict in ("may_run_twice", "failed_may_have_run"):
        return Sentence(
            f"{what} may have run",
            f"The run is over. {found.get('reason') or 'No result is recorded.'}",
            "Look outside before anybody repairs it: a restart, a rewind or a new run does it again.",
        )
    if verdict == "may_run_twice" and confidence == "certain":
        return Sentence(f"{what} may run twice", "and has no result.", _repeat(found, native=native), "It was started")
    if verdict == "may_run_twice":
        unseen = "Its runtime records a start late or not at all, so it may have begun without a trace."
        recorded = found.get("effects") == "at_least_one"  # an answer is there, and yet it may come again
        facts = str(found.get("reason") or unseen) if recorded else unseen
        return Sentence(f"{what} may run twice", facts, _repeat(found, native=native))
    if verdict == "failed_may_have_run":
        return Sentence(
            f"{what} failed, and may have run",
            "An error, timeout or cancel is recorded, which does not prove that nothing happened outside.",
            "Look outside before it is repeated. " + _repeat(found, native=native),
        )
    if verdict == "waiting":
        return Sentence(
            f"{what} waits", "It is parked and no worker is busy with it.", "It goes on when what it waits for arrives."
        )
    return Sentence(
        f"Nothing is proven about {'s' + what[1:] if what.startswith('Step ') else what}",
        str(found.get("reason") or "The journal has a hole, a torn end or an unreadable part here."),
        "Treat it as if it may have run; a complete export would settle it.",
    )


def _repeat(found: Mapping[str, Any], *, native: bool) -> str:
    if found.get("repeat") and found.get("effect") != "read":
        return f"If this run recovers: {str(found['repeat'])[0].lower()}{str(found['repeat'])[1:]}"
    if found.get("effect") == "read" and found.get("verdict") != "unknown":
        return "It only reads, so a repeat changes nothing outside; it may answer otherwise."
    if found.get("key"):
        return "If this run recovers, the step is sent again with the same key, so a service that honours keys takes it once."
    if native:
        return "It carries no key, so it is not repeated by itself: unless its code calls it safe to rerun, the run parks until somebody says whether it happened."
    return "It carries no key: if this run recovers, nothing outside can tell the repeat from a new request."


def step_name(found: Mapping[str, Any]) -> str:
    """`Step 4 send_refund`, `Step 3.1:2 lookup`, `send_refund` without a number, or its kind where it has no name."""
    branch, number = found.get("branch") or "", found.get("step")
    if not branch and number is None and found.get("name"):
        return str(found["name"])
    where = f"{branch}:{number}" if branch else (number if number is not None else "?")
    return f"Step {where} {found.get('name') or found.get('kind') or ''}".rstrip()
