"""Several decisions at once, each bound to the call that it is about and to what was seen of it. Pure.

A list in the order of a screen says nothing: a page sorts its cards, a runtime does not. So every decision names its call and
the fingerprint seen, the list covers exactly the requests that are open, and it is taken as a whole or not at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from drainboard import wire

__all__ = ["Asked", "Settled", "Unfit", "settle"]

DECISIONS: Final = ("approve", "reject", "send_back", "edit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One open request."""

    name: str  # the approval's id in its run
    call: str = ""  # the tool call's id, where the request names one
    tool: str = ""
    artifact: Any = None
    fingerprint: str
    allowed: frozenset[str] = frozenset()  # empty: every decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What was decided about one request."""

    name: str
    decision: str  # approve, reject, send_back
    fingerprint: str
    comment: str
    saw_hidden: bool = False  # of characters that do not show themselves
    edited: Any = None  # the artifact that the approver would have instead; it needs a request of its own


class Unfit(ValueError):
    """The list cannot be taken; nothing of it was. `stale`: it is about another artifact than the one asked for."""

    def __init__(self, message: str, *, stale: bool = False, **detail: Any) -> None:
        super().__init__(message)
        self.stale = stale
        self.detail = detail


def settle(asked: Sequence[Asked], given: Any) -> list[Settled]:
    """One decision per request, in the order in which they were asked. Raises `Unfit`.

    `given`: a list of `{"call" or "approval", "fingerprint", "decision", "comment", "edited_action"}`; `type` and `message` are
    taken for `decision` and `comment`.
    """
    named = _named(given)
    calls = Counter(request.call for request in asked)
    known = {
        request.call: request for request in asked if request.call and calls[request.call] == 1
    }  # a runtime may give an id twice
    known |= {request.name: request for request in asked}
    found: dict[str, Mapping[str, Any]] = {}
    for name, decision in named:
        request = known.get(name)
        if request is None:
            raise Unfit(f"there is no open request {name!r} in this run", call=name)
        if request.name in found:
            raise Unfit(f"the call {name!r} is decided twice in one list", call=name)
        found[request.name] = decision
    missing = [request.call or request.name for request in asked if request.name not in found]
    if missing:
        raise Unfit(
            f"{len(asked)} requests are open and {len(found)} are decided; nothing is said about {', '.join(missing)}",
            missing=missing,
        )
    return [_settled(request, found[request.name]) for request in asked]


def _named(given: Any) -> list[tuple[str, Mapping[str, Any]]]:
    if not isinstance(given, list) or not given or not all(isinstance(d, Mapping) for d in given):
        raise Unfit("`decisions` must be a list of objects, one for each open request")
    made = []
    for decision in given:
        name = decision.get("call") or decision.get("approval")
        if not isinstance(name, str) or not isinstance(decision.get("fingerprint"), str):
            raise Unfit("each decision must name its call and the fingerprint seen; a place in a list is no name")
        made.append((name, decision))
    return made


def _settled(request: Asked, given: Mapping[str, Any]) -> Settled:
    called = request.call or request.name
    word, comment = given.get("decision", given.get("type")), given.get("comment", given.get("message")) or ""
    if word not in DECISIONS:
        raise Unfit(f"the decision about {called!r} is none of {', '.join(DECISIONS)}", call=called)
    if request.allowed and word not in request.allowed:
        raise Unfit(f"{word!r} is not allowed about {called!r}, only {', '.join(sorted(request.allowed))}", call=called)
    if given["fingerprint"] != request.fingerprint:
        raise Unfit(
            f"what was seen of {called!r} is not what it asks for now", stale=True, call=called, fingerprint=request.fingerprint
        )  # fmt: skip
    if not isinstance(comment, str):
        raise Unfit(f"the comment about {called!r} must be text", call=called)
    if word != "edit":
        return Settled(
            name=request.name,
            decision=word,
            fingerprint=request.fingerprint,
            comment=comment,
            saw_hidden=given.get("saw_hidden") is True,
        )
    edited = _edited(request, called, given.get("edited_action"))
    return Settled(
        name=request.name,
        decision="send_back",
        fingerprint=request.fingerprint,
        comment=comment or "Ask again with the arguments that I give.",
        edited=edited,
    )


def _edited(request: Asked, called: str, action: Any) -> dict[str, Any]:
    """The artifact with other arguments. An edit never changes the tool: people who may approve one may not approve another."""
    if not request.tool or not isinstance(action, Mapping) or "args" not in action:
        raise Unfit(f"an edit of {called!r} must give `edited_action` with `name` and `args`", call=called)
    if action.get("name") != request.tool:
        raise Unfit(
            f"an edit may change arguments only: {called!r} is {request.tool}, not {action.get('name')}", call=called
        )
    made = {"tool": request.tool, "args": action["args"]}
    try:
        same = wire.canonical(made) == wire.canonical(request.artifact)
    except wire.Ambiguous as e:
        raise Unfit(f"the edit of {called!r} can be read in more than one way: {e}", call=called) from None
    if same:
        raise Unfit(f"the edit of {called!r} changes nothing; approve it instead", call=called)
    return made
