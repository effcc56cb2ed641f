"""What a step would be sent as if it were sent again: the requests that a replay asked for instead of the recorded ones. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runs.facts import Seen
from runs.steps import Step

__all__ = ["Otherwise", "keys_of", "otherwise", "repeat_words"]


@dataclass(frozen=True, slots=True)
class Otherwise:
    """A replay that reached a recorded step and asked for something else."""

    number: int  # of the entry that tells it
    differs: tuple[str, ...]  # fields: kind, name, key, request, in
    key: str | None  # the key it would have sent


def otherwise(entries: Sequence[Seen]) -> dict[tuple[str, int], list[Otherwise]]:
    """By branch and step number, the differing requests that holds and notes of replays tell."""
    told: dict[tuple[str, int], list[Otherwise]] = {}
    for seen in entries:
        detail = difference(seen)
        differs = detail.get("differs") if detail is not None else None
        if detail is None or not isinstance(differs, list) or not isinstance(detail.get("step"), int):
            continue
        branch, mine = detail.get("branch"), detail.get("this_build")
        key = mine.get("key") if isinstance(mine, Mapping) else None
        place = (branch if isinstance(branch, str) else "", detail["step"])
        told.setdefault(place, []).append(
            Otherwise(seen.number, tuple(str(d) for d in differs), key if isinstance(key, str) else None)
        )
    return told


def difference(seen: Seen) -> Mapping[str, Any] | None:
    """Both sides of a replay that differed, as the worker told them; None for any other entry."""
    entry = seen.entry
    if entry.kind == "run.held":
        told = entry.extra.get("detail", entry.out)
    elif entry.kind == "note" and entry.name == "nondeterministic_replay":
        told = entry.out
    else:
        return None
    return told if isinstance(told, Mapping) else None


def of_step(step: Step, told: Mapping[tuple[str, int], Sequence[Otherwise]]) -> list[Otherwise]:
    """The differing requests for a step without a result, but for those before its last start: that start shows what was sent."""
    if step.results:
        return []
    started = next((a.started for a in reversed(step.attempts) if a.started is not None), None)
    return [o for o in told.get((step.branch, step.number), ()) if started is None or o.number > started.number]


def keys_of(step: Step, told: Mapping[tuple[str, int], Sequence[Otherwise]]) -> dict[str, list[int]]:
    """Every key that a step was, or would have been, sent under, with the entries that tell it."""
    keys = {key: list(numbers) for key, numbers in step.keys.items()}
    for other in of_step(step, told):
        if "key" in other.differs and other.key is not None:
            keys.setdefault(other.key, []).append(other.number)
    return keys


def repeat_words(step: Step, told: Mapping[tuple[str, int], Sequence[Otherwise]]) -> str:
    """What a repeat of a started step would be, where that is known to differ from what was sent; else empty."""
    if len(step.keys) > 1:
        return f"It was sent with {len(step.keys)} keys ({', '.join(step.keys)}), so it can run twice outside."
    found = of_step(step, told)
    if not found:
        return ""
    last = found[-1]
    if "key" in last.differs and last.key is not None:
        return f"It would be sent with another key ({last.key}), so it can run twice outside."
    if "key" in last.differs:
        return "It would be sent without its key, so it can run twice outside."
    if "missing" in last.differs or "end" in last.differs:
        return "The code that was tried last does not reach it in this place, so nothing says what a repeat would send."
    return f"The code that was tried last asks for something else here ({', '.join(last.differs)}), so a repeat is another request and can run twice outside."
