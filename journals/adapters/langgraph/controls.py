"""Commands for the LangGraph server's API that carry out a decision. Threads of the bare library are driven by their own code:
`graph.invoke(None, config)` goes on, and there is no call to stop or pin one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from journals.adapters.controls import Control
from journals.adapters.replies import Answer, Reply

_URL: Final = "http://SERVER/threads/{run:url}/runs"
_JSON: Final = ("-H", "content-type: application/json")

_GUESSED: Final = (
    ". What a question of the graph's own code expects as the answer is in no export: true and false are a guess there"
)

CONTROLS: Final = (
    Control(
        action="stop",
        does="interrupts the server's run; a node that runs now is cut off and may have acted. A thread of the library is stopped by ending its process",
        words=("curl", "-X", "POST", _URL + "/RUN_ID/cancel?wait=true&action=interrupt"),
    ),
    Control(
        action="release",
        does="goes on from the checkpoint with the largest id: its nodes without writes run again",
        words=("curl", "-X", "POST", _URL, *_JSON, "-d", '{"assistant_id":"ASSISTANT","input":null}'),
    ),
    Control(
        action="approve",
        does="answers what the thread waits for, in its own order; from the program that has the graph" + _GUESSED,
        words=('graph.invoke(Command(resume={resume}), {"configurable": {"thread_id": {run}}})',),
        code=True,
    ),
    Control(
        action="approve",
        does="the same for a thread of the server" + _GUESSED,
        words=("curl", "-X", "POST", _URL, *_JSON, "-d", '{"assistant_id":"ASSISTANT","command":{"resume":{resume}}}'),
    ),
)

_ID: Final = re.compile(r"[0-9a-f]{32}")


def replies(asked: Sequence[Answer]) -> list[Reply]:
    """What resumes the thread: the answers of one interrupt together, in the order of its `action_requests`; of several
    interrupts by their ids, in one call. An interrupt without ids in the export is answered alone."""
    groups: dict[str, list[Answer]] = {}
    for answer in asked:
        groups.setdefault(str(answer.told.get("interrupt") or answer.approval), []).append(answer)
    ready: dict[str, list[Answer]] = {}
    made: list[Reply] = []
    for name, answers in groups.items():
        ordered = sorted(answers, key=_place)
        missing = tuple(a.approval for a in ordered if not a.decision)
        if not missing:
            ready[name] = ordered
        elif len(missing) < len(ordered):
            about = tuple(a.approval for a in ordered if a.decision)
            made.append(Reply(action="approve", about=about, missing=missing))
    if len(groups) > 1 and all(_ID.fullmatch(name) for name in ready):
        resume = {name: _value(answers) for name, answers in ready.items()}
        return [*made, *([_reply([a for answers in ready.values() for a in answers], resume)] if ready else [])]
    return [*made, *(_reply(answers, _value(answers)) for answers in ready.values())]


def _reply(answers: Sequence[Answer], resume: Any) -> Reply:
    return Reply(action="approve", about=tuple(a.approval for a in answers), values={"resume": resume})


def _place(answer: Answer) -> int:
    number = answer.told.get("action")
    return number if isinstance(number, int) else 0


def _value(answers: Sequence[Answer]) -> Any:
    """The middleware's list; for a question of the graph's own code true or false: an object with a no in it would be true."""
    if "action" not in answers[0].told:
        return answers[0].action == "approve"
    return {"decisions": [_decision(a) for a in answers]}


def _decision(answer: Answer) -> dict[str, str]:
    if answer.action == "approve":
        return {"type": "approve"}
    return {"type": "reject", "message": answer.message} if answer.message else {"type": "reject"}
