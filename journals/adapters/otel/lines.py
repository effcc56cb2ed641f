"""Journal lines of one span. A line holds what its own span says and nothing of other spans, so that a trace gives the same
lines however it was cut into batches. `order` is the span's start (of an end: its end), in nanoseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from drainboard import wire
from drainboard.versions import tool_digest

from journals.adapters.base import Line, Options
from journals.adapters.names import effect_of, key_of, versions_at
from journals.adapters.otel.names import Texts, answered, asked, deferred, name_of
from journals.adapters.otel.span import Event, Span
from journals.adapters.values import utc_nanos

__all__ = ["Made", "lines_of", "run_of"]

UNTRACED: Final = "untraced"
_CONTENT: Final = ("gen_ai.client.inference.operation.details", "gen_ai.content.prompt", "gen_ai.content.completion")
"""Events that carry what later conventions put into the span's own attributes."""
_ABOUT: Final = {
    "conversation": ("gen_ai.conversation.id", "session.id", "langfuse.session.id", "traceloop.association.properties.session_id"),
    "agent_name": ("gen_ai.agent.name", "agent_name"),
    "provider": ("gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system"),
}  # fmt: skip
_MODEL: Final = ("gen_ai.request.model", "llm.request.model", "llm.model_name", "embedding.model_name")
_REPORTED: Final = ("gen_ai.response.model", "llm.response.model")
_CALL: Final = {"model": ("gen_ai.response.id",), "tool": ("gen_ai.tool.call.id", "tool_call.id", "tool.id")}
_USAGE: Final = {
    "input_tokens": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.usage.prompt_tokens", "llm.token_count.prompt"),
    "output_tokens": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.usage.completion_tokens", "llm.token_count.completion"),
    "cache_read_input_tokens": ("gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_tokens"),
    "cache_creation_input_tokens": ("gen_ai.usage.cache_creation.input_tokens",),
}  # fmt: skip
_VERSIONS: Final = {
    "prompt": ("/attributes/gen_ai.prompt.version", "/attributes/llm.prompt_template.version"),
}
_NAMED: Final = ("gen_ai.tool.name", "tool.name", "error.type")


class Made(NamedTuple):
    """A line and where it stands in its run: by time, starts of runs first and ends last among equals."""

    order: int
    rank: int
    line: Line


def run_of(span: Span) -> str:
    """The run of a span: its trace; spans without a trace id are together by service."""
    return span.trace or f"{UNTRACED}-{span.source.text('service.name') or 'unknown'}"


def lines_of(span: Span, kind: str, options: Options) -> Iterator[Made]:
    """The lines of a span: of a root the run's start and end, of a step its end (its start when it has not ended), of an agent
    inside a run the child, of other GenAI spans a note. Nothing for a span of something else that is no root. `kind` is that of
    `names.kind_of`."""
    _take_events(span)
    root = not span.parent and bool(span.id)
    if root:
        yield _line(span, _started(span, kind, options))
    if kind in ("model", "tool", "read"):
        yield _line(span, _step(span, kind, options))
    elif kind == "agent" and not root:
        yield _line(span, _agent(span, options))
    elif kind == "note" and not root:
        yield _line(span, _note(span, options))
    waits = list(_deferred(span, options)) if kind == "agent" and span.end is not None else []
    yield from (_line(span, made) for made in waits)
    if root and span.end is not None:
        yield _line(span, _ended(span, kind, options, waits=bool(waits)))


def _line(span: Span, fields: Mapping[str, Any]) -> Made:
    """The line of these fields; absent ones are dropped, payloads may be null."""
    kept = {k: v for k, v in fields.items() if v is not wire.MISSING and (v or v == 0 or k in ("in", "out"))}
    run, kind = run_of(span), str(fields["kind"])
    try:
        raw = wire.dump({"run": run, **kept})
    except wire.Ambiguous:  # NaN or an infinity in a number
        raw = wire.dump({"run": run, **{k: _standard(v) for k, v in kept.items()}})
    rank = 0 if kind == "run.started" else 2 if kind.startswith("run.") else 1
    return Made(fields.get("order") or 0, rank, Line(run, raw, span.record, span.path))


def _standard(value: Any) -> Any:
    """The value with each number that standard JSON does not have (NaN, an infinity) as its text."""
    if isinstance(value, Mapping):
        return {k: _standard(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_standard(v) for v in value]
    if isinstance(value, float):
        try:
            wire.encode(value)
        except wire.Ambiguous:
            return repr(value)
    return value


def _take_events(span: Span) -> None:
    """Lays the attributes of content events beside the span's own; what the span says itself stays."""
    for event in span.events:
        if event.name in _CONTENT:
            span.attributes = {**event.attributes, **span.attributes}


def _base(span: Span, kind: str, options: Options) -> dict[str, Any]:
    source = span.source
    return {
        "agent": options.agent or source.text("service.name") or span.text("gen_ai.agent.name", "agent_name"),
        "build": _build(span),
        "environment": options.environment or source.text("deployment.environment.name", "deployment.environment"),
        "name": name_of(span, kind),
        "under": span.parent or None,
        "span": span.name if span.name != name_of(span, kind) else None,
        **{field: span.text(*names) for field, names in _ABOUT.items()},
    }


def _build(span: Span) -> str:
    return span.source.text("service.version", "vcs.ref.head.revision") or span.text("gen_ai.agent.version")


def _started(span: Span, kind: str, options: Options) -> dict[str, Any]:
    texts = Texts(span)
    return {
        "id": f"{span.id}:start",
        "at": utc_nanos(span.start),
        "kind": "run.started",
        "order": span.start,
        **_base(span, kind, options),
        "versions": _versions(span, options) if kind in ("agent", "note", "") else None,
        "in": texts.run_input() if kind in ("agent", "note", "") else wire.MISSING,
        "cut": texts.cut,
        "scope": span.source.scope,
        "resource": dict(span.source.resource),
        "links": list(span.links),
    }


def _ended(span: Span, kind: str, options: Options, *, waits: bool) -> dict[str, Any]:
    """The end of the run. `encloses`: the span only closes what is around the work, so a parking before it stands."""
    texts = Texts(span)
    made = {
        "id": f"{span.id}:end",
        "at": utc_nanos(span.end),
        "kind": "run.failed" if span.failed else "run.completed",
        "order": span.end,
        **_base(span, kind, options),
        "encloses": waits or kind in ("note", "") or None,
    }
    if kind in ("agent", "note", ""):
        made |= {"out": texts.run_output(), "usage": _usage(span), "cut": texts.cut}
        made |= {"otel": _rest(span, texts.taken, options)}
    return made | ({"error": _error(span)} if span.failed else {})


def _times(span: Span) -> dict[str, Any]:
    """`at` is the end; a span that has not ended has only its start. An end before its start stays as it was recorded."""
    if span.end is None:
        return {"at": utc_nanos(span.start), "order": span.start}
    backwards = span.start is not None and span.end < span.start
    return {
        "at": utc_nanos(span.end),
        "started_at": utc_nanos(span.start),
        "order": span.start or span.end,
        "clock": "ends before it starts: its duration is not known" if backwards else None,
    }


def _step(span: Span, kind: str, options: Options) -> dict[str, Any]:
    """`model.*` or `tool.*`. The request gets a fingerprint only when it is whole: nothing cut, no attribute dropped."""
    texts, of = Texts(span), "model" if kind == "model" else "tool"
    ending = "started" if span.end is None else "error" if span.failed else "result"
    base = _base(span, kind, options)
    given = texts.request() if of == "model" else texts.arguments()
    if texts.cut:  # the whole parts stay among the attributes, the cut ones under `cut`
        given, texts.taken = wire.MISSING, set(texts.cut)
    out = wire.MISSING if ending == "started" else texts.answer() if of == "model" else texts.result()
    key = key_of(given) if given is not wire.MISSING else None
    made = {
        "id": _id(span, ":started" if ending == "started" else ""),
        **_times(span),
        "kind": f"{of}.{ending}",
        **base,
        "call": span.text(*_CALL[of]),
        "effect": effect_of(base["name"]) or ("read" if kind == "read" else None),
        "key": key,
        "versions": _versions(span, options),
        "in": given,
        "out": out,
        "error": _error(span) if ending == "error" else None,
        "model_reported": span.text(*_REPORTED),
        "usage": _usage(span),
    }
    if given is not wire.MISSING and not span.dropped.get("attributes"):
        made["request"] = wire.request_fingerprint(kind=of, name=base["name"], in_=given, key=key)
    if of == "model" and ending == "result":
        made |= {"asked": asked(out), "answered": answered(given)}
    return {**made, "cut": texts.cut, "otel": _rest(span, texts.taken, options)}


def _id(span: Span, ending: str) -> str | None:
    """A span without an id gets none: its line is told apart from equal ones by how many there are."""
    return f"{span.id}{ending}" if span.id else None


def _agent(span: Span, options: Options) -> dict[str, Any]:
    texts = Texts(span)
    ending = "started" if span.end is None else "error" if span.failed else "result"
    made = {
        "id": _id(span, ":started" if ending == "started" else ""),
        **_times(span),
        "kind": f"child.{ending}",
        **_base(span, "agent", options),
        "call": span.text("gen_ai.agent.call.id"),
        "versions": _versions(span, options),
        "in": texts.run_input(),
        "out": texts.run_output() if ending == "result" else wire.MISSING,
        "error": _error(span) if ending == "error" else None,
        "usage": _usage(span),
    }
    return {**made, "cut": texts.cut, "otel": _rest(span, texts.taken, options)}


def _note(span: Span, options: Options) -> dict[str, Any]:
    texts = Texts(span)
    made = {"id": _id(span, ""), **_times(span), "kind": "note", **_base(span, "note", options)}
    made |= {"in": texts.run_input(), "out": texts.run_output()}
    if span.failed:
        made["error"] = _error(span)
    return {**made, "cut": texts.cut, "otel": _rest(span, texts.taken, options)}


def _deferred(span: Span, options: Options) -> Iterator[dict[str, Any]]:
    """What an agent's result leaves open: the approvals that it asks for, and the run parked on the first of what it waits for."""
    approvals, calls = deferred(span)
    base = {k: v for k, v in _base(span, "agent", options).items() if k not in ("name", "span")}
    at = {"at": utc_nanos(span.end), "order": span.end}
    for n, call in enumerate(approvals, 1):
        name, arguments = str(call["tool_name"]), Texts(span).json("args", call.get("args"))
        yield {
            "id": f"{span.id}:approval:{n}",
            **at,
            "kind": "approval.requested",
            **base,
            "name": name,
            "call": call.get("tool_call_id"),
            "artifact": {"tool": name, "in": None if arguments is wire.MISSING else arguments},
        }
    if approvals or calls:
        first = (approvals or calls)[0]
        what = f"{'approval' if approvals else 'signal'}:{first.get('tool_call_id') or first['tool_name']}"
        yield {"id": f"{span.id}:parked", **at, "kind": "run.parked", **base, "reason": what}


def _error(span: Span) -> dict[str, Any]:
    told = next((e for e in reversed(span.events) if e.name == "exception"), Event("", None, {}))
    got = told.attributes
    made = {
        "type": span.attributes.get("error.type") or got.get("exception.type"),
        "message": span.status or got.get("exception.message"),
        "stack_trace": got.get("exception.stacktrace"),
    }
    return {k: v for k, v in made.items() if v} or {"message": "the status is an error; nothing more is recorded"}


def _usage(span: Span) -> dict[str, int] | None:
    return {name: n for name, names in _USAGE.items() if (n := span.number(*names)) is not None} or None


def _versions(span: Span, options: Options) -> dict[str, Any]:
    """Versions that the span tells: the build, the model asked for, the digest of the instructions under the agent's name, and a
    digest of each tool offered."""
    document = {"attributes": span.attributes, "resource": span.source.resource}
    found = versions_at(document, _VERSIONS)
    texts = Texts(span)
    system, tools = texts.instructions(), texts.tools()
    if "prompt" not in found and system is not wire.MISSING:
        found["prompt"] = {span.text("gen_ai.agent.name") or "system_instructions": _digest(system)}
    made = {
        "app": found.get("app") or _build(span),
        "prompt": found.get("prompt"),
        "model": found.get("model") or span.text(*_MODEL),
        "tools": found.get("tools") or _tools(tools),
        "sdk": found.get("sdk"),
    }
    return {k: v for k, v in made.items() if v}


def _tools(given: Any) -> dict[str, str]:
    made = {}
    for tool in given if isinstance(given, list) else []:
        inner = tool.get("tool", tool).get("json_schema", tool) if isinstance(tool, Mapping) and isinstance(tool.get("tool", tool), Mapping) else tool  # fmt: skip
        inner = inner.get("function", inner) if isinstance(inner, Mapping) else {}
        name = inner.get("name") if isinstance(inner, Mapping) else None
        if isinstance(name, str) and name:
            schema = next((inner[k] for k in ("parameters", "input_schema") if inner.get(k) is not None), None)
            described = inner.get("description")
            try:
                made[name] = tool_digest(schema=schema, description=described if isinstance(described, str) else None)
            except wire.Ambiguous:
                made[name] = _digest(inner)
    return made


def _digest(value: Any) -> str:
    try:
        return wire.digest(value)
    except wire.Ambiguous:
        return wire.digest_bytes(repr(value).encode("utf-8", "surrogatepass"))


def _rest(span: Span, taken: set[str], options: Options) -> dict[str, Any]:
    """What no other field took, as OpenTelemetry names it."""
    used = taken | set(_NAMED)
    for names in (*_ABOUT.values(), *_USAGE.values(), *_CALL.values(), _MODEL, _REPORTED):
        used |= set(names)
    events = [e for e in span.events if e.name not in _CONTENT]
    made = {
        "attributes": {k: v for k, v in span.attributes.items() if k not in used},
        "kind": span.kind if span.kind != "internal" else None,
        "scope": span.source.scope,
        "events": [{"name": e.name, "at": utc_nanos(e.at), **_untold(e)} for e in events],
        "links": list(span.links),
        "dropped": dict(span.dropped),
        "unknown": dict(span.unknown),
    }
    return {k: v for k, v in made.items() if v}


def _untold(event: Event) -> dict[str, Any]:
    kept = {k: v for k, v in event.attributes.items() if not (event.name == "exception" and k.startswith("exception."))}
    return {"attributes": kept} if kept else {}
