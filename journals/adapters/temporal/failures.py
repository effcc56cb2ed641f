"""Temporal's nested failures as one error object: `{type, message, retryable}` with what else was recorded beside it."""

from __future__ import annotations

from typing import Any, Final

from journals.adapters.temporal.values import camel, dict_of, text_of

_INFOS: Final = {
    "applicationFailureInfo": "ApplicationFailure",
    "timeoutFailureInfo": "Timeout",
    "canceledFailureInfo": "Canceled",
    "terminatedFailureInfo": "Terminated",
    "serverFailureInfo": "ServerFailure",
    "resetWorkflowFailureInfo": "ResetWorkflow",
    "activityFailureInfo": "ActivityFailure",
    "childWorkflowExecutionFailureInfo": "ChildWorkflowFailure",
    "nexusOperationExecutionFailureInfo": "NexusOperationFailure",
    "nexusHandlerFailureInfo": "NexusHandlerFailure",
}
_FINAL: Final = frozenset(("Canceled", "Terminated", "ResetWorkflow"))
_MAX_CAUSES: Final = 64


def error_of(failure: Any) -> dict[str, Any]:
    """The error of a decoded `Failure` (payloads already values).

    `type` is the application's own, or the kind of failure (`StartToCloseTimeout`, `Canceled`). `cause` nests; `root` repeats
    the type and message of the innermost cause, so that nobody has to dig for it.
    """
    made = _error(dict_of(failure), 0)
    cause = made.get("cause")
    while isinstance(cause, dict) and "type" in cause:
        made["root"] = {"type": cause["type"], "message": cause["message"]}
        cause = cause.get("cause")
    return made


def timeout_error(timeout_type: Any, *, message: str = "") -> dict[str, Any]:
    """The error of a timeout event that carries only its type."""
    name = camel(timeout_type, "TIMEOUT_TYPE_") + "Timeout"
    return {"type": name, "message": message or f"{name} of the runtime", "retryable": True}


def _error(failure: dict[str, Any], depth: int) -> dict[str, Any]:
    key = next((k for k in _INFOS if k in failure), "")
    info = dict_of(failure.get(key))
    encoded = failure.get("encodedAttributes")
    hidden = dict_of(encoded) if isinstance(encoded, dict) and "$payload" not in encoded else {}
    name = _type(key, info)
    made: dict[str, Any] = {
        "type": name,
        "message": text_of(hidden.get("message")) or text_of(failure.get("message")),
        "retryable": name not in _FINAL
        and not info.get("nonRetryable")
        and "NON_RETRYABLE" not in str(info.get("retryState", "")),
    }
    cause = failure.get("cause")
    if cause is not None:
        made["cause"] = _error(cause, depth + 1) if isinstance(cause, dict) and depth < _MAX_CAUSES else cause
    for source, target in (("source", "source"), ("stackTrace", "stack_trace")):
        if failure.get(source):
            made[target] = failure[source]
    rest = {k: v for k, v in info.items() if k not in ("type", "nonRetryable", "timeoutType")}
    return {**made, **rest, **({"encoded": encoded} if encoded is not None and not hidden else {})}


def _type(key: str, info: dict[str, Any]) -> str:
    if key == "timeoutFailureInfo":
        return camel(info.get("timeoutType"), "TIMEOUT_TYPE_") + "Timeout"
    if key == "applicationFailureInfo" and text_of(info.get("type")):
        return str(info["type"])
    return _INFOS.get(key, "Failure")
