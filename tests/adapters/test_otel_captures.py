"""What captured traces of real agents become, held against what the agents did."""

from __future__ import annotations

import itertools
import json
from typing import Any

from journals.adapters.base import Counted, Line
from runs.states import Effects, RunStatus, Verdict
from runs.summary import Summary
from tests.adapters.otel_spans import capture, entries, folded, raws, read, request, span
from tests.runs.journal import codes, step


def one(name: str) -> Summary:
    (made,) = folded(b"\n".join(capture(name))).values()
    return made


def test_a_finished_agent_is_completed_and_no_write_is_called_single() -> None:
    made = one("pa_a")
    assert (made.status, made.complete, made.build) == (RunStatus.COMPLETED, True, "1.4.0+aaaa111")
    told = [(r.step.kind, r.step.name, r.judged.effects) for r in made.steps]
    assert told == [
        ("child", "refund_agent", Effects.AT_LEAST_ONE),
        ("model", "chat gpt-5-mini", Effects.NONE),
        ("tool", "lookup_order", Effects.AT_LEAST_ONE),
        ("model", "chat gpt-5-mini", Effects.NONE),
        ("tool", "send_refund", Effects.AT_LEAST_ONE),
        ("model", "chat gpt-5-mini", Effects.NONE),
    ]
    assert not made.gaps


def test_the_fields_of_a_model_call_and_of_a_tool() -> None:
    found = entries(b"\n".join(capture("pa_a")))
    model = next(e for e in found if e["kind"] == "model.result")
    assert (model["model_reported"], model["usage"], model["provider"]) == (
        "gpt-5-mini-2026-01-15",
        {"input_tokens": 140, "output_tokens": 15},
        "openai",
    )
    assert model["versions"]["model"] == "gpt-5-mini"
    assert set(model["versions"]["tools"]) == {"lookup_order", "send_refund"}
    assert model["versions"]["prompt"]["refund_agent"].startswith("sha256:")
    assert [next(iter(item)) for item in model["in"]] == ["system", "tools", "role"]
    tool = next(e for e in found if e.get("name") == "send_refund")
    assert (tool["call"], tool["in"], tool["out"]) == (
        "call_7a5b9c44b20",
        {"order_id": "A-800", "amount": 42.5},
        {"refund_id": "re_A-800", "amount": 42.5},
    )
    assert {e["environment"] for e in found} == {"prod"}
    assert {e["agent"] for e in found} == {"refund-agent"}


def test_a_killed_agent_left_no_span_of_the_refund_that_it_sent() -> None:
    """The ledger has two refunds: one under the trace that was killed, one under the trace of the rerun."""
    killed, rerun = folded(b"\n".join(capture("pa_b_2_after_rerun"))).values()
    assert (killed.status, killed.complete) == (RunStatus.UNKNOWN, False)
    assert [(g.name, g.verdict, g.effects) for g in killed.gaps] == [
        ("send_refund", Verdict.MAY_RUN_TWICE, Effects.UNKNOWN)
    ]
    assert {"gap_open", "parent_missing"} <= codes(killed)
    assert rerun.status == RunStatus.COMPLETED
    assert step(rerun, 5).judged.effects == Effects.AT_LEAST_ONE


def test_an_agent_that_waits_for_an_approval_is_parked_although_its_trace_ended() -> None:
    parked, resumed = folded(b"\n".join(capture("pa_c_approval"))).values()
    assert (parked.status, parked.parked_on) == (RunStatus.PARKED, "approval:call_7a5b9c44b20")
    assert [(a.id, a.tool, a.artifact["in"]) for a in parked.approvals] == [
        ("call_7a5b9c44b20", "send_refund", {"order_id": "A-800", "amount": 42.5})
    ]
    assert not parked.gaps
    assert resumed.status == RunStatus.COMPLETED
    state = [json.loads(r)["out"] for r in raws(read(b"\n".join(capture("pa_c_approval")))) if b"runtime.state" in r]
    assert [len(s["related"]) for s in state] == [1, 1]


def test_parallel_tools_stand_in_the_order_of_their_starts() -> None:
    made = one("pa_d_fanout")
    orders = [r.step.entries[0].entry.in_["order_id"] for r in made.steps if r.step.name == "lookup_order"]
    assert orders == ["A-900", "A-901", "A-902"]


def test_a_tool_that_failed_may_have_run() -> None:
    made = one("pa_e_retry")
    assert step(made, 3).judged.verdict == Verdict.FAILED_MAY_HAVE_RUN
    error = step(made, 3).step.errors[0].entry.error
    assert (error["type"], error["message"]) == (
        "pydantic_ai.exceptions.ToolRetryError",
        "order service 503, try again",
    )
    assert made.status == RunStatus.COMPLETED


def test_spans_without_call_ids_leave_no_open_calls() -> None:
    assert not one("oa_d_fanout").gaps


# -- odd spans --------------------------------------------------------------------------------------------------------


def test_every_order_of_the_spans_gives_the_same_journal() -> None:
    lines = capture("odd")
    made = {tuple(raws(read(b"\n".join(order)))) for order in itertools.permutations(lines)}
    assert len(made) == 1


def test_odd_spans_are_told_as_they_are() -> None:
    items = read(b"\n".join(capture("odd")))
    assert [i.lines for i in items if isinstance(i, Counted)] == [sum(isinstance(i, Line) for i in items)]
    made = one("odd")
    assert (made.status, made.complete) == (RunStatus.UNKNOWN, False)
    by_name = {(r.step.kind, r.step.name): r for r in made.steps}
    pay, mail = by_name["tool", "pay"], by_name["tool", "mail"]
    assert (pay.step.conflict, pay.judged.verdict) == (True, Verdict.FAILED_MAY_HAVE_RUN)
    assert mail.judged.verdict == Verdict.MAY_RUN_TWICE
    found = {f.code: f.message for f in made.findings}
    assert "received 2 times" in found["duplicate_entry"]
    assert "conflicting_entry" in found
    assert "may still be going on, or have died" in found["parent_missing"]


def test_the_entries_of_odd_spans() -> None:
    by_id = {e["id"]: e for e in entries(b"\n".join(capture("odd")))}
    b1, d1, e1 = by_id["00000000000000b1"], by_id["00000000000000d1"], by_id["00000000000000e1:started"]
    assert b1["cut"] == {"gen_ai.input.messages": '[{"role":"user","parts":[{"type":"text","content":"please ref'}
    assert not {"in", "request"} & set(b1)
    assert (d1["started_at"], d1["at"]) == ("2026-08-03T08:00:06Z", "2026-08-03T08:00:05.999999999Z")
    assert "duration is not known" in d1["clock"]
    assert e1["otel"]["dropped"] == {"attributes": 12}
    assert e1["at"] == "2026-08-03T08:00:07Z"
    assert "started_at" not in e1
    assert b1["provider"] == d1["provider"] == "synthetic"  # gen_ai.provider.name and gen_ai.system


def test_two_spans_without_ids_stay_two_entries() -> None:
    tool: dict[str, Any] = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "pay"}
    bare = {"spanId": "", "parentSpanId": "", "traceId": "0" * 32}
    data = request(span("pay", tool, **bare), span("pay", tool, **bare), service__name="shop")
    assert [e.get("id") for e in entries(data)] == [None, None]
    (made,) = folded(data).values()
    assert [r.step.name for r in made.steps] == ["pay", "pay"]
    open_ones = request(*(span("pay", tool, **bare, endTimeUnixNano="0") for _ in range(2)))
    assert [e.get("id") for e in entries(open_ones)] == [None, None]
