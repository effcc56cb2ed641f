"""The conventions by which spans of agents are named, old and new, and what becomes of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from journals.adapters.base import Options
from tests.adapters.otel_spans import entries, folded, request, span

MESSAGES = [{"role": "user", "content": "hello"}]
CALL = {"id": "call_1", "type": "function", "function": {"name": "pay", "arguments": "{}"}}

MODELS: dict[str, dict[str, Any]] = {
    "current": {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "p", "gen_ai.request.model": "m", "gen_ai.response.model": "m-1",
        "gen_ai.usage.input_tokens": 3, "gen_ai.usage.output_tokens": 4, "gen_ai.input.messages": json.dumps(MESSAGES),
        "gen_ai.output.messages": '[{"role":"assistant","parts":[{"type":"tool_call","id":"call_1","name":"pay"}]}]',
    },
    "before 1.37": {
        "gen_ai.system": "p", "gen_ai.request.model": "m", "gen_ai.response.model": "m-1", "gen_ai.usage.prompt_tokens": 3,
        "gen_ai.usage.completion_tokens": 4, "gen_ai.prompt": json.dumps(MESSAGES), "gen_ai.completion": json.dumps([{"role": "assistant", "tool_calls": [CALL]}]),
    },
    "OpenLLMetry": {
        "llm.request.type": "chat", "gen_ai.system": "p", "gen_ai.request.model": "m", "gen_ai.response.model": "m-1",
        "gen_ai.usage.prompt_tokens": 3, "gen_ai.usage.completion_tokens": 4, "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "hello",
        "gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.tool_calls.0.id": "call_1", "gen_ai.completion.0.tool_calls.0.name": "pay",
    },
    "OpenInference": {
        "openinference.span.kind": "LLM", "llm.provider": "p", "llm.model_name": "m", "gen_ai.response.model": "m-1", "llm.token_count.prompt": 3,
        "llm.token_count.completion": 4, "llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": "hello",
        "llm.output_messages.0.message.role": "assistant", "llm.output_messages.0.message.tool_calls.0.tool_call.id": "call_1",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "pay",
    },
}  # fmt: skip


@pytest.mark.parametrize("convention", MODELS)
def test_a_model_call_is_read_by_every_convention(convention: str) -> None:
    (made,) = entries(request(span("call", MODELS[convention])))
    assert (made["kind"], made["provider"], made["versions"]["model"], made["model_reported"]) == (
        "model.result", "p", "m", "m-1",
    )  # fmt: skip
    assert made["usage"] == {"input_tokens": 3, "output_tokens": 4}
    assert json.dumps(made["in"]).count("hello") == 1
    assert made["asked"] == [{"call": "call_1", "name": "pay"}]
    assert made["request"].startswith("sha256:")


TOOLS: dict[str, dict[str, Any]] = {
    "current": {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "pay", "gen_ai.tool.call.id": "call_1",
        "gen_ai.tool.call.arguments": '{"cents": 1, "idempotency_key": "k"}', "gen_ai.tool.call.result": '{"ok": true}',
    },
    "OpenInference": {
        "openinference.span.kind": "TOOL", "tool.name": "pay", "tool_call.id": "call_1", "input.value": '{"cents": 1, "idempotency_key": "k"}',
        "output.value": '{"ok": true}',
    },
    "OpenLLMetry": {
        "traceloop.span.kind": "tool", "traceloop.entity.name": "pay", "gen_ai.tool.call.id": "call_1",
        "traceloop.entity.input": '{"cents": 1, "idempotency_key": "k"}', "traceloop.entity.output": '{"ok": true}',
    },
}  # fmt: skip


@pytest.mark.parametrize("convention", TOOLS)
def test_a_tool_is_read_by_every_convention(convention: str) -> None:
    (made,) = entries(request(span("run", TOOLS[convention])))
    assert (made["kind"], made["name"], made["call"], made["key"]) == ("tool.result", "pay", "call_1", "k")
    assert (made["in"], made["out"]) == ({"cents": 1, "idempotency_key": "k"}, {"ok": True})


@pytest.mark.parametrize(
    ("attributes", "kind", "effect"),
    [
        ({"gen_ai.operation.name": "retrieval"}, "tool.result", "read"),
        ({"openinference.span.kind": "RETRIEVER"}, "tool.result", "read"),
        ({"mcp.method.name": "tools/call", "gen_ai.tool.name": "pay"}, "tool.result", None),
        ({"gen_ai.operation.name": "delete_memory"}, "tool.result", None),
        ({"gen_ai.operation.name": "embeddings"}, "model.result", None),
        ({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "helper"}, "child.result", None),
        ({"traceloop.span.kind": "task"}, "note", None),
        ({"openinference.span.kind": "CHAIN"}, "note", None),
    ],
)
def test_kinds(attributes: dict[str, Any], kind: str, effect: str | None) -> None:
    (made,) = entries(request(span("x", attributes)))
    assert (made["kind"], made.get("effect")) == (kind, effect)


def test_options_of_the_import_are_obeyed() -> None:
    (made,) = entries(request(span("pay", TOOLS["current"])), options=Options(agent="a", environment="e"))
    assert (made["agent"], made["environment"]) == ("a", "e")


def test_an_error_keeps_type_message_and_trace() -> None:
    told = {"exception.type": "TimeoutError", "exception.message": "no answer", "exception.stacktrace": "Traceback"}
    event = {"name": "exception", "timeUnixNano": "1", "attributes": [{"key": k, "value": {"stringValue": v}} for k, v in told.items()]}  # fmt: skip
    (made,) = entries(request(span("pay", TOOLS["current"], status={"code": "STATUS_CODE_ERROR"}, events=[event])))
    assert (made["kind"], made["error"]) == (
        "tool.error",
        {"type": "TimeoutError", "message": "no answer", "stack_trace": "Traceback"},
    )


def test_a_request_with_dropped_attributes_has_no_fingerprint() -> None:
    (made,) = entries(request(span("run", TOOLS["current"], droppedAttributesCount=2)))
    assert "request" not in made
    assert made["otel"]["dropped"] == {"attributes": 2}


def test_a_raw_loop_knows_from_the_next_request_that_a_tool_has_run() -> None:
    """Without spans of tools, the result of a call stands at the end of the next request's messages."""
    asks = span("chat", {"gen_ai.operation.name": "chat", "gen_ai.completion": json.dumps([{"tool_calls": [CALL]}])})
    later = {"startTimeUnixNano": "1785744003000000000", "endTimeUnixNano": "1785744004000000000", "spanId": "00000000000000c2"}  # fmt: skip
    told = [*MESSAGES, {"role": "assistant", "tool_calls": [CALL]}, {"role": "tool", "tool_call_id": "call_1", "content": "{}"}]  # fmt: skip
    goes_on = span("chat", {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(told)}, **later)
    (made,) = folded(request(asks)).values()
    assert [g.name for g in made.gaps] == ["pay"]
    (made,) = folded(request(asks, goes_on)).values()
    assert [g.name for g in made.gaps] == [None]
    assert entries(request(goes_on))[0]["answered"] == ["call_1"]
    handed_over = {**goes_on, "parentSpanId": "00000000000000d0"}
    (made,) = folded(request(asks, handed_over)).values()
    assert [g.name for g in made.gaps] == [None]


def test_of_a_request_that_was_cut_nothing_is_a_request() -> None:
    given = {**MODELS["current"], "gen_ai.input.messages": '[{"role":"us', "gen_ai.system_instructions": '["be kind"]'}
    (made,) = entries(request(span("call", given)))
    assert not {"in", "request"} & set(made)
    assert made["cut"] == {"gen_ai.input.messages": '[{"role":"us'}
    assert made["otel"]["attributes"]["gen_ai.system_instructions"] == '["be kind"]'
