"""The refund loop, twice: as it should be, and with a mistake that shows no symptom before a crash."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import drainboard

from examples.refund.world import TOOLS, ask_model

BUILD = Path(__file__).with_name("build.json")
INSTRUCTIONS = "You refund broken orders. Look the order up first."


@drainboard.agent("refund", versions=BUILD)
def refund(run: drainboard.Run, task: Any) -> str:
    messages = [INSTRUCTIONS, task]
    while True:
        reply = run.model("decide", ask_model, messages)
        messages.append(reply)
        if reply.is_final:
            return str(reply.text)
        tool = TOOLS[reply.call.name]
        messages.append(run.tool(reply.call.name, tool.fn, reply.call.args, effect=tool.effect))


@drainboard.agent("refund", versions=BUILD)
def planted(run: drainboard.Run, task: Any) -> str:
    attempt = uuid.uuid4()  # the planted mistake: drawn outside a step, so a replay draws another
    messages, n = [INSTRUCTIONS, task], 0
    while True:
        reply = run.model("decide", ask_model, messages)
        messages.append(reply)
        if reply.is_final:
            return str(reply.text)
        tool, n = TOOLS[reply.call.name], n + 2
        key = f"{attempt}:{n}" if tool.effect == "write" else None
        messages.append(run.tool(reply.call.name, tool.fn, reply.call.args, effect=tool.effect, key=key))
