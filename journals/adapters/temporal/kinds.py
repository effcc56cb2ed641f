"""Tells Temporal's exports apart, and says what a file is that holds no journal."""

from __future__ import annotations

import re
from typing import Any, Final

from journals.adapters.temporal.values import dict_of

_EVENT: Final = re.compile(rb'"eventType"\s*:\s*"(EVENT_TYPE_[A-Z_]+|[A-Z][A-Za-z]+)"')
_ATTRIBUTES: Final = re.compile(rb'"(workflow|activity|timer|marker)[A-Za-z]+EventAttributes"')
_SHOW_TEXT: Final = "the table that `temporal workflow show` prints for people holds no inputs and no results; export it with --output json"


def sniff_head(head: bytes) -> float:
    """How sure the first bytes of a file make one that it is Temporal's, 0 to 1."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start[:9] == b"Progress:" and b"WorkflowExecutionStarted" in head:
        return 0.8
    if start[:1] not in (b"{", b"["):
        return 0.0
    if _EVENT.search(head) and (b'"eventId"' in head or _ATTRIBUTES.search(head)):
        return 0.95
    if b'"workflowExecutionInfo"' in head or b"WORKFLOW_EXECUTION_STATUS_" in head:
        return 0.9
    if (
        b"temporal.api." in head
        or (b'"drainageInfo"' in head or b'"versionSummaries"' in head)
        or b'"pendingActivities"' in head
    ):
        return 0.8
    if b'"eventId"' in head and b'"eventTime"' in head and b'"events"' in head:
        return 0.6
    return 0.5 if b'"groupValues"' in head and b'"count"' in head else 0.0


def not_a_journal(value: Any) -> str:
    """Why this JSON value gives no entries, and what to export instead."""
    found = dict_of(value)
    show = "`temporal workflow show -w ID -r RUN --output json`"
    if "queryResult" in found:
        return f"the answer of a query (`temporal workflow metadata`) names no run; give it together with the history of {show}"
    if "count" in found:
        return f"a count of runs, not a journal; export runs with {show}"
    if "drainageInfo" in found or "versionSummaries" in found or "routingConfig" in found:
        return f"facts about a worker deployment, not a journal; export runs with {show}"
    if "execution" in found or "workflowExecutionInfo" in found:
        return f"facts about a run without its ids or status; export it with {show}"
    return f"no list of events in it; export with {show}"


def text_reason(start: str) -> str:
    """Why a text that is no JSON gives no entries."""
    if start.startswith("Progress:"):
        return _SHOW_TEXT
    return "not JSON"
