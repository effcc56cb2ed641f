"""Operations of GetDurableExecutionState as the events that they stand for. They have no event ids and keep no failed attempts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from journals.adapters.values import integer, text

_TYPES: Final = {
    "EXECUTION": "Execution",
    "CONTEXT": "Context",
    "STEP": "Step",
    "WAIT": "Wait",
    "CALLBACK": "Callback",
    "CHAINED_INVOKE": "ChainedInvoke",
}
_ENDS: Final = {
    "SUCCEEDED": "Succeeded",
    "FAILED": "Failed",
    "CANCELLED": "Cancelled",
    "TIMED_OUT": "TimedOut",
    "STOPPED": "Stopped",
}


def events_of(operation: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The start of an operation, and its end when it has one. `_id` names the line: operation, what happened, attempt."""
    made = _TYPES.get(text(operation, "Type") or "")
    if made is None:
        return
    details = next((v for k, v in operation.items() if k.endswith("Details") and isinstance(v, Mapping)), {})
    attempt = integer(details, "Attempt")
    base = {k: operation[k] for k in ("Id", "Name", "SubType", "ParentId") if operation.get(k) is not None}
    status = text(operation, "Status") or ""
    label = f"op:{text(operation, 'Id') or '?'}" + (f":{attempt}" if attempt else "")
    started: dict[str, Any] = {k: details[k] for k in ("ScheduledEndTimestamp", "CallbackId") if k in details}
    if "InputPayload" in details:
        started["Input"] = {"Payload": details["InputPayload"]}
    if made == "Step" and attempt:
        started["RetryDetails"] = {"CurrentAttempt": attempt}
    yield {
        **base,
        "EventType": f"{made}Started",
        "EventTimestamp": operation.get("StartTimestamp"),
        f"{made}StartedDetails": started,
        "_id": f"{label}:started",
    }
    word = _ENDS.get(status, "Failed" if status in ("PENDING", "READY") and made == "Step" else "")
    if not word:
        return
    ended: dict[str, Any] = {k: {"Payload": details[k]} for k in ("Result", "Error") if details.get(k) is not None}
    if made == "Step" and (attempt or status in ("PENDING", "READY")):
        retry = {"NextAttemptDelaySeconds": 1} if status in ("PENDING", "READY") else {}
        ended["RetryDetails"] = {"CurrentAttempt": attempt or 1, **retry}
    if "NextAttemptTimestamp" in details:
        ended["NextAttemptTimestamp"] = details["NextAttemptTimestamp"]
    yield {
        **base,
        "EventType": f"{made}{word}",
        "EventTimestamp": operation.get("EndTimestamp"),
        f"{made}{word}Details": ended,
        "_id": f"{label}:{word.lower()}",
    }
