"""Questions of a graph to people: interrupts and what resumed them. Interrupts of the human-in-the-loop middleware hold one
question a tool call, each with its own answer, in the runtime's order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from drainboard import wire

from journals.adapters.langgraph.kinds import calls_in
from journals.adapters.langgraph.thread import Item
from journals.adapters.values import text

_YES: Final = frozenset(("approve", "approved", "accept", "yes", "true", "ok"))
_NO: Final = frozenset(("reject", "rejected", "deny", "denied", "no", "false", "ignore"))


def digest(value: Any) -> str:
    """12 hex digits that stand for a value."""
    try:
        return wire.digest(value)[7:19]
    except wire.Ambiguous:
        return wire.digest_bytes(repr(value).encode("utf-8", "surrogatepass"))[7:19]


def questions(item: Item) -> list[dict[str, Any]]:
    """The fields of one `approval.requested` each, in the runtime's order.

    An artifact has `tool` and `args`, which are compared with what ran, only where the export will hold the answer as well:
    a state history does not.
    """
    made: list[dict[str, Any]] = []
    task = item.task
    for n, interrupt in enumerate(task.interrupts if task else (), 1):
        known = interrupt if isinstance(interrupt, Mapping) else {}
        value = known.get("value", interrupt)
        told = text(known, "id") or text(known, "interrupt_id")
        own = task.id if task else ""
        number = told or f"{own}{f'#{n}' if n > 1 else ''}"
        actions = value.get("action_requests") if isinstance(value, Mapping) else None
        if isinstance(actions, list) and actions and all(isinstance(a, Mapping) for a in actions):
            made += _actions(item, own, number, value, actions)
        else:
            name = text(value, "tool") if isinstance(value, Mapping) else None
            made.append(
                {
                    "id": f"interrupt:{own}:{number}:{digest(value)}",
                    "approval": number,
                    "name": name or item.name or None,
                    "artifact": {"interrupt": value},
                }
            )
    return made


def _actions(
    item: Item, own: str, number: str, value: Mapping[str, Any], actions: list[Any]
) -> Iterator[dict[str, Any]]:
    allowed = value.get("review_configs")
    rules = (
        {r.get("action_name"): r.get("allowed_decisions") for r in allowed if isinstance(r, Mapping)}
        if isinstance(allowed, list)
        else {}
    )
    free = list(calls_in(item.checkpoint.values))
    taken = set[str]()
    for n, action in enumerate(actions, 1):
        name = text(action, "name") or text(action, "action")
        args = action.get("args", action.get("arguments"))
        call = next((c for c in free if c.get("name") == name and c.get("args") == args), None)
        if call is not None:
            free.remove(call)
        named = call.get("id") if call else None
        own_name = named if isinstance(named, str) and named not in taken else str(n)  # a model may give an id twice
        taken.add(own_name)
        made = {
            "id": f"interrupt:{own}:{number}:{n}:{digest(action)}",
            "approval": f"{number}:{own_name}",
            "call": named if isinstance(named, str) else None,
            "name": name,
            "artifact": {"tool": name, "args": args} if item.checkpoint.channel_versions else {"action": action},
            "allowed_decisions": rules.get(name),
            "interrupt": number,
            "action": n,
            "description": action.get("description"),
        }
        yield {k: v for k, v in made.items() if v is not None}


def answers(item: Item, asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The fields of one `approval.decided` each, for what resumed the task."""
    task = item.task
    given = task.resumed if task else []
    decisions = given[-1].get("decisions") if given and isinstance(given[-1], Mapping) else None
    if isinstance(decisions, list) and len(decisions) == len(asked):
        given = decisions
    made = []
    for n, value in enumerate(given):
        about = asked[n] if n < len(asked) else asked[-1] if asked else {}
        said = _said(value)
        made.append(
            {
                "id": f"resume:{task.id if task else ''}:{n + 1}:{digest(value)}",
                "approval": about.get("approval"),
                "call": about.get("call"),
                "name": about.get("name"),
                "decision": said,
                "by": _who(value),
                "reason": text(value, "message") or text(value, "reason") if isinstance(value, Mapping) else None,
                "edited": value.get("edited_action") if isinstance(value, Mapping) else None,
                "out": value,
            }
        )
    return made


def _who(value: Any) -> str | None:
    names = ("by", "user", "approver", "reviewer") if isinstance(value, Mapping) else ()
    return next((found for name in names if (found := text(value, name))), None)


def _said(value: Any) -> str | None:
    """`approve` or `reject`, where the value plainly says so."""
    if isinstance(value, Mapping):
        for key in ("approved", "approve", "type", "decision", "action"):
            if key in value:
                return _said(value[key])
        return None
    word = str(value).lower() if isinstance(value, (str, bool)) else ""
    return "approve" if word in _YES else "reject" if word in _NO else None
