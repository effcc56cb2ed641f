"""What a span's attributes mean: OpenTelemetry's GenAI conventions as they are and as they were, OpenInference, Traceloop. Pure.

Names: semantic-conventions-genai v0.1.0 and semantic-conventions 1.28 to 1.41 (`gen_ai.*`), OpenLLMetry (`traceloop.*`,
`llm.*`), OpenInference (`openinference.span.kind`, `llm.*`, `tool.*`), pydantic-ai (`final_result`, `pydantic_ai.*`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from drainboard import wire

from journals.adapters.jsonscan import loose
from journals.adapters.otel.span import Span

__all__ = ["Texts", "answered", "asked", "deferred", "is_genai", "kind_of", "name_of"]

_OPERATIONS: Final = {
    **dict.fromkeys(("chat", "generate_content", "text_completion", "embeddings", "fetch_response"), "model"),
    **dict.fromkeys(("execute_tool", "create_agent"), "tool"),
    **dict.fromkeys(("create_memory", "update_memory", "upsert_memory", "delete_memory"), "tool"),
    **dict.fromkeys(("create_memory_store", "delete_memory_store"), "tool"),
    **dict.fromkeys(("retrieval", "search_memory"), "read"),
    **dict.fromkeys(("invoke_agent", "invoke_workflow"), "agent"),
    "plan": "note",
}
_OPENINFERENCE: Final = {
    "LLM": "model", "EMBEDDING": "model", "RERANKER": "model", "TOOL": "tool", "RETRIEVER": "read", "AGENT": "agent",
}  # fmt: skip
_TRACELOOP: Final = {"workflow": "agent", "agent": "agent", "tool": "tool"}
_PREFIXES: Final = ("gen_ai.", "llm.", "openinference.", "traceloop.", "mcp.", "langfuse.observation.")

_SYSTEM: Final = ("gen_ai.system_instructions",)
_TOOLS: Final = ("gen_ai.tool.definitions", "gen_ai.request.tools")
_MESSAGES: Final = ("gen_ai.input.messages", "gen_ai.prompt", "traceloop.entity.input", "input.value")
_ANSWERS: Final = ("gen_ai.output.messages", "gen_ai.completion", "traceloop.entity.output", "output.value")
_FLAT_IN: Final = ("gen_ai.prompt", "llm.prompts", "llm.input_messages")
_FLAT_OUT: Final = ("gen_ai.completion", "llm.completions", "llm.output_messages")
_FLAT_TOOLS: Final = ("llm.request.functions", "llm.tools")
_ARGUMENTS: Final = (
    "gen_ai.tool.call.arguments", "gen_ai.tool.arguments", "tool_arguments", "tool.parameters", "traceloop.entity.input",
    "input.value",
)  # fmt: skip
_RESULTS: Final = (
    "gen_ai.tool.call.result", "gen_ai.tool.result", "tool_response", "traceloop.entity.output", "output.value",
)  # fmt: skip
_OF_RUN_IN: Final = ("gen_ai.input.messages", "gen_ai.prompt", "traceloop.entity.input", "input.value")
_OF_RUN_OUT: Final = ("final_result", "gen_ai.output.messages", "gen_ai.completion", "traceloop.entity.output", "output.value")  # fmt: skip
_LEVELS: Final = 12


def kind_of(span: Span) -> str:
    """`model`, `tool`, `read` (a tool that only looks something up), `agent`, `note` (GenAI, and no step), or "" for a span
    of something else."""
    operation = span.text("gen_ai.operation.name")
    if operation in _OPERATIONS:
        return _OPERATIONS[operation]
    for attribute, kinds in (("openinference.span.kind", _OPENINFERENCE), ("traceloop.span.kind", _TRACELOOP)):
        if found := span.text(attribute):
            return kinds.get(found, "note")
    if span.text("gen_ai.tool.name", "gen_ai.tool.call.id") or span.text("mcp.method.name") == "tools/call":
        return "tool"
    if span.text("llm.request.type", "gen_ai.request.model", "llm.request.model", "gen_ai.response.model"):
        return "model"
    return "note" if is_genai(span) else ""


def is_genai(span: Span) -> bool:
    """Whether the span carries any attribute of the GenAI conventions."""
    return any(name.startswith(_PREFIXES) for name in span.attributes)


def name_of(span: Span, kind: str) -> str:
    """How people call the step: the tool's or agent's name, else the span's."""
    if kind in ("tool", "read"):
        named = span.text("gen_ai.tool.name", "tool.name", "traceloop.entity.name")
        return named or re.sub(r"^(?:execute_tool|running tool:?|tool) ", "", span.name)
    if kind == "agent":
        named = span.text("gen_ai.workflow.name", "gen_ai.agent.name", "traceloop.entity.name", "traceloop.workflow.name", "agent_name")  # fmt: skip
        return named or re.sub(r"^(?:invoke_agent|invoke_workflow) ", "", span.name)
    return span.name


@dataclass(slots=True)
class Texts:
    """Reads payloads out of attributes, and remembers which it took and which were cut by a length limit."""

    span: Span
    taken: set[str] = field(default_factory=set)
    cut: dict[str, str] = field(default_factory=dict)  # attribute -> its text, where the JSON in it ends early
    closed: bool = False  # a value that is no standard JSON stands as text

    def arguments(self) -> Any:
        return self._first(_ARGUMENTS)

    def result(self) -> Any:
        return self._first(_RESULTS)

    def run_input(self) -> Any:
        return self._first(_OF_RUN_IN)

    def run_output(self) -> Any:
        return self._first(_OF_RUN_OUT)

    def request(self) -> Any:
        """What was sent to a model, as one list: instructions, tools, then the messages; so that a transcript that grows shares
        its beginning. MISSING when nothing of it is recorded."""
        system, tools = self.instructions(), self.tools()
        messages = self._first(_MESSAGES)
        if messages is wire.MISSING:
            messages = self._flat(_FLAT_IN)
        made = [{"system": system}] if system is not wire.MISSING else []
        made += [{"tools": tools}] if tools is not wire.MISSING else []
        if messages is not wire.MISSING:
            made += messages if isinstance(messages, list) else [messages]
        return made or wire.MISSING

    def answer(self) -> Any:
        found = self._first(_ANSWERS)
        return self._flat(_FLAT_OUT) if found is wire.MISSING else found

    def instructions(self) -> Any:
        return self._first(_SYSTEM)

    def tools(self) -> Any:
        found = self._first(_TOOLS)
        return self._flat(_FLAT_TOOLS) if found is wire.MISSING else found

    def _first(self, names: Iterable[str]) -> Any:
        for name in names:
            if name in self.span.attributes:
                self.taken.add(name)
                return self.json(name, self.span.attributes[name])
        return wire.MISSING

    def json(self, name: str, given: Any) -> Any:
        """The value of a text that is JSON, else the text; a text that was cut is kept in `cut` and gives MISSING."""
        if not isinstance(given, str) or given.lstrip()[:1] not in ("{", "["):
            return given
        try:
            value, odd = loose(given.encode("utf-8", "surrogatepass"))
        except wire.MalformedLine:
            if _ends_early(given):
                self.cut[name] = given
                return wire.MISSING
            return given
        if "non_standard_json" in odd or any(o.startswith("duplicate_key") for o in odd):
            self.closed = True
            return given
        return value

    def _flat(self, prefixes: Iterable[str]) -> Any:
        """`llm.input_messages.0.message.role` and the like as the list that they stand for; MISSING when there is none."""
        for prefix in prefixes:
            keys = [
                k for k in self.span.attributes if k.startswith(f"{prefix}.") and k[len(prefix) + 1 :][:1].isdigit()
            ]
            if keys:
                self.taken.update(keys)
                tree: dict[str, Any] = {}
                for key in keys:
                    _plant(tree, key[len(prefix) + 1 :].split("."), self.json(key, self.span.attributes[key]))
                return _grown(tree)
        return wire.MISSING


def _ends_early(text: str) -> bool:
    """Whether a text that begins as JSON ends inside a string, an object or an array."""
    depth, quoted, i = 0, False, 0
    while i < len(text):
        c = text[i]
        if quoted:
            i += c == "\\"
            quoted = c != '"'
        elif c == '"':
            quoted = True
        elif c in "[{":
            depth += 1
        elif c in "]}":
            depth -= 1
            if depth == 0:
                return False
        i += 1
    return True


def _plant(tree: dict[str, Any], path: list[str], value: Any) -> None:
    for part in path[:-1]:
        below = tree.get(part)
        if not isinstance(below, dict):
            below = tree[part] = {} if below is None else {"": below}
        tree = below
    tree[path[-1]] = None if value is wire.MISSING else value


def _grown(tree: Any, levels: int = _LEVELS) -> Any:
    if not isinstance(tree, dict) or not levels:
        return tree
    if tree and all(k.isascii() and k.isdigit() and len(k) < 9 for k in tree):
        return [_grown(tree[k], levels - 1) for k in sorted(tree, key=int)]
    return {k: _grown(v, levels - 1) for k, v in tree.items()}


# -- calls of tools in messages ---------------------------------------------------------------------------------------


def asked(answer: Any) -> list[dict[str, str]]:
    """The tool calls that a model's answer asks for: `{"call", "name"}`, as far as they have an id or a name."""
    made = []
    for call in _calls(answer, _LEVELS):
        function = call.get("function") if isinstance(call.get("function"), Mapping) else {}
        named = {
            "call": call.get("id") or call.get("tool_call_id"),
            "name": call.get("name") or (function or {}).get("name") or call.get("tool_name"),
        }
        told = {k: v for k, v in named.items() if isinstance(v, str) and v}
        if told and told not in made:
            made.append(told)
    return made


def _calls(value: Any, levels: int) -> Iterator[Mapping[str, Any]]:
    if not levels:
        return
    if isinstance(value, list):
        for item in value:
            yield from _calls(item, levels - 1)
    elif isinstance(value, Mapping):
        if value.get("type") in ("tool_call", "tool_use", "function_call"):
            yield value
            return
        listed = value.get("tool_calls")
        for item in listed if isinstance(listed, list) else []:
            call = item.get("tool_call", item) if isinstance(item, Mapping) else None
            if isinstance(call, Mapping):
                yield _dotted(call)
        for key in ("parts", "message", "content", "messages", "output"):
            yield from _calls(value.get(key), levels - 1)


def _dotted(call: Mapping[str, Any]) -> Mapping[str, Any]:
    """OpenInference writes `function.name` as nested or as one key."""
    return {**call, "function": {"name": call["function.name"]}} if "function.name" in call else call


def answered(request: Any) -> list[str]:
    """Ids of the tool calls whose results stand at the end of a model's messages: those since its last answer."""
    made: list[str] = []
    for message in reversed(request if isinstance(request, list) else []):
        message = message.get("message", message) if isinstance(message, Mapping) else {}
        if not isinstance(message, Mapping) or message.get("role") not in ("tool", "user", "function", None):
            break
        made.extend(_responses(message, _LEVELS))
    return sorted(set(made))


def _responses(value: Any, levels: int) -> Iterator[str]:
    if isinstance(value, list) and levels:
        for item in value:
            yield from _responses(item, levels - 1)
    elif isinstance(value, Mapping) and levels:
        if (
            value.get("type") in ("tool_call_response", "tool_result", "function_call_output")
            or value.get("role") == "tool"
        ):
            found = value.get("id") or value.get("tool_call_id") or value.get("tool_use_id") or value.get("call_id")
            if isinstance(found, str) and found:
                yield found
        for key in ("parts", "content"):
            yield from _responses(value.get(key), levels - 1)


def deferred(span: Span) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Tool calls that an agent's result leaves to others: those that wait for an approval, and those done outside
    (pydantic-ai's `DeferredToolRequests` in `final_result`)."""
    told = span.attributes.get("final_result")
    if not isinstance(told, str) or '"approvals"' not in told:
        return [], []
    found = Texts(span).json("final_result", told)
    if not isinstance(found, Mapping):
        return [], []
    lists = [found.get(k) or [] for k in ("approvals", "calls")]
    approvals, calls = (_with_tool(each) for each in lists)
    return approvals, calls


def _with_tool(given: Any) -> list[Mapping[str, Any]]:
    return [c for c in given if isinstance(c, Mapping) and c.get("tool_name")] if isinstance(given, list) else []
