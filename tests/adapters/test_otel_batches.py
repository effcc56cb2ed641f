"""A trace that comes in batches, in any order, says the same as one file: no batch calms or destroys what another one said."""

from __future__ import annotations

import json
import random

import pytest

from tests.adapters.otel_spans import NAMES, capture, folded, request, span, told

GENAI = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
ROOT = {"spanId": "00000000000000a0", "parentSpanId": "", "name": "POST /refund"}


def plain(name: str) -> list[bytes]:
    """The spans of a capture, each once: that a span was sent twice is only seen when one batch holds both."""
    return list(dict.fromkeys(capture(name)))


@pytest.mark.parametrize("name", NAMES)
def test_any_split_says_the_same_as_one_file(name: str) -> None:
    lines = plain(name)
    expected = {run: told(summary) for run, summary in folded(b"\n".join(lines)).items()}
    rng = random.Random(18)
    for _ in range(12):
        rng.shuffle(lines)
        cuts = sorted(rng.sample(range(1, len(lines)), rng.randint(1, len(lines) - 1)))
        batches = [b"\n".join(lines[a:b]) for a, b in zip([0, *cuts], [*cuts, len(lines)], strict=True)]
        assert {run: told(summary) for run, summary in folded(*batches).items()} == expected


def test_a_batch_that_comes_again_changes_nothing() -> None:
    whole = b"\n".join(plain("pa_a"))
    once, twice = folded(whole), folded(whole, whole)
    assert {r: told(s) for r, s in once.items()} == {r: told(s) for r, s in twice.items()}


def test_until_the_root_has_come_nothing_is_finished() -> None:
    lines = plain("pa_a")
    for n in range(1, len(lines)):
        (made,) = folded(b"\n".join(lines[:n])).values()
        assert made.status == "unknown"
        assert "parent_missing" in {f.code for f in made.findings}


def test_a_root_of_another_kind_ends_a_run_that_is_known() -> None:
    child, root = request(span("chat m", GENAI)), request(span(**ROOT))
    (made,) = folded(child, root).values()
    assert made.status == "completed"
    (made,) = folded(b"\n".join([child, root])).values()
    assert made.status == "completed"


def test_a_trace_without_a_genai_span_is_no_run() -> None:
    assert folded(request(span(**ROOT), span("SELECT", {"db.system.name": "postgresql"}))) == {}


def test_an_entry_below_a_span_of_another_kind_misses_no_parent() -> None:
    between = span("running tools", {"thread.id": 7}, spanId="00000000000000b0")
    inner = span("pay", {"gen_ai.tool.name": "pay"}, parentSpanId="00000000000000b0")
    root = span("agent", {"gen_ai.operation.name": "invoke_agent"}, spanId="00000000000000a0", parentSpanId="")
    for batches in ([request(between, inner, root)], [request(inner), request(root), request(between)]):
        (made,) = folded(*batches).values()
        assert made.complete
        assert not made.gaps


def test_a_span_that_began_after_the_root_ended_leaves_the_run_open() -> None:
    late = span("pay", {"gen_ai.tool.name": "pay"}, startTimeUnixNano="1785744003000000000", endTimeUnixNano="1785744004000000000")  # fmt: skip
    (made,) = folded(request(span("chat m", GENAI | {"x": 1}, **{k: v for k, v in ROOT.items() if k != "name"}), late)).values()  # fmt: skip
    assert made.status == "unknown"


def test_a_root_agent_that_asks_for_an_approval_is_parked() -> None:
    asks = json.dumps({"calls": [], "approvals": [{"tool_name": "pay", "args": "{}", "tool_call_id": "call_1"}]})
    agent = {"gen_ai.operation.name": "invoke_agent", "final_result": asks}
    (made,) = folded(request(span("agent", agent, spanId="00000000000000a0", parentSpanId=""))).values()
    assert (made.status, made.parked_on, made.complete) == ("parked", "approval:call_1", False)
