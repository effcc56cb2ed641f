"""Proposes an order, waits for a person, places it once. Builds 1 and 2 differ in their prompt only."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import drainboard

from examples.processes import ask

HERE = Path(__file__).parent
PROMPTS = {
    label: json.loads((HERE / f"build-{label}.json").read_text(encoding="utf-8"))["prompts"]["buyer"]["text"]
    for label in ("1", "2")
}
PRICES = {"chair": "200.00", "desk": "450.00"}


def ask_model(messages: list[Any]) -> dict[str, Any]:
    """A scripted model: one proposal per request."""
    wish = messages[1]
    total = f"{float(PRICES[wish['item']]) * wish['quantity']:.2f}"
    return {"why": f"{wish['quantity']} x {wish['item']} is what was asked for.", "order": {**wish, "total": total}}


def place_order(order: dict[str, Any], key: str) -> dict[str, Any]:
    """The write; the supplier takes an order once per key, however many days later it is repeated."""
    placed: dict[str, Any] = ask(int(os.environ["PROCUREMENT_SUPPLIER_PORT"]), "/orders", order, key=key)
    return {"order_number": placed["number"]}


def _buyer(label: str) -> drainboard.Agent:
    @drainboard.agent("procurement", versions=HERE / f"build-{label}.json")
    def procurement(run: drainboard.Run, wish: Any) -> dict[str, Any]:
        proposal = run.model("propose", ask_model, [PROMPTS[label], wish])
        title = f"Order {wish['quantity']} x {wish['item']}"
        try:
            yes = run.approve(title, tool="place_order", args=proposal.order, note=proposal.why)
        except (drainboard.ApprovalDenied, drainboard.ApprovalSentBack, drainboard.ApprovalExpired) as e:
            return {"placed": False, "why": str(e)}
        placed = run.tool("place_order", place_order, proposal.order, key=run.key(), approval=yes)
        return {"placed": True, "order_number": placed.order_number}

    return procurement


build_1 = _buyer("1")
build_2 = _buyer("2")
