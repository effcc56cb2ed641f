"""What the refund agent works with: a scripted model that counts its calls, and two tools."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

from examples.processes import ask

SCRIPT: list[dict[str, Any]] = [
    {"is_final": False, "call": {"name": "lookup_order", "args": {"order": 8812}}},
    {"is_final": False, "call": {"name": "send_refund", "args": {"order": 8812, "amount": "40.00"}}},
    {"is_final": True, "text": "Order 8812 is refunded: 40.00."},
]


class Tool(NamedTuple):
    fn: Callable[..., Any]
    effect: str


def ask_model(messages: list[Any]) -> dict[str, Any]:
    """The next reply of the script; leaves one line in the file named by REFUND_MODEL_CALLS for every call."""
    with open(os.environ["REFUND_MODEL_CALLS"], "a", encoding="utf-8") as f:
        f.write("call\n")
    return SCRIPT[sum(1 for m in messages if isinstance(m, dict) and "is_final" in m)]


def lookup_order(args: dict[str, Any]) -> dict[str, Any]:
    """A read: it may be repeated at will."""
    return {"order": args["order"], "paid": "40.00", "refunds": []}


def send_refund(args: dict[str, Any], key: str) -> dict[str, Any]:
    """A write at the payment provider, which pays once per key."""
    accepted: dict[str, Any] = ask(int(os.environ["REFUND_PROVIDER_PORT"]), "/refunds", args, key=key)
    return {"refund": accepted["number"], "amount": args["amount"]}


TOOLS = {"lookup_order": Tool(lookup_order, "read"), "send_refund": Tool(send_refund, "write")}
