"""Agents that the worker processes of these tests run."""

from __future__ import annotations

import http.client
import json
import os
from typing import Any

import drainboard

VERSIONS = {"app": "payer-1", "tools": {"pay": "pay-1", "tell": "tell-1"}}


def ask_provider(what: str, body: Any, key: str | None = None) -> Any:
    """A request to the provider, in this worker's name."""
    link = http.client.HTTPConnection("127.0.0.1", int(os.environ["PROVIDER_PORT"]), timeout=120)
    try:
        headers = {"Sender": os.environ["PROVIDER_SENDER"], **({"Idempotency-Key": key} if key else {})}
        link.request("POST", f"/{what}", json.dumps(body), headers)
        return json.loads(link.getresponse().read())
    finally:
        link.close()


def quote(task: Any) -> dict[str, Any]:
    """A read."""
    ask_provider("quote", task)
    return {"run": task["run"], "amount": "40.00"}


def pay(order: Any, key: str) -> Any:
    """A write."""
    return ask_provider("pay", order, key)


def tell(order: Any, key: str) -> Any:
    """A second write."""
    return ask_provider("tell", order, key)


@drainboard.agent("payer", versions=VERSIONS)
def payer(run: drainboard.Run, task: Any) -> Any:
    """Asks for a price, pays it, tells somebody."""
    order = run.tool("quote", quote, task, effect="read")
    paid = run.tool("pay", pay, order)
    run.tool("tell", tell, {"run": order["run"]})
    return paid
