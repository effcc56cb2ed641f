"""Each finding: a journal that has it, and the nearest one that has not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from journals.adapters.base import Evidence
from runs import sentences
from runs.facts import HeadFacts, Limit
from runs.findings import CODES, Finding
from runs.summary import Summary
from tests.runs.good import ASKED, DONE, SAID, START, USED, T, V, bare, failed, model, result, started, state
from tests.runs.journal import NOW, codes, fold_import, fold_native, imported, native, numbered
from tests.runs.journal import START as BEGIN

ON_CLOSE = Evidence(write="on_close", read="on_close", attempts=False, says_end=False)
NEVER = Evidence(write="never", read="never", attempts=False, says_end=False)
PARKED = {"kind": "timer.started", "name": "wait", "step": 9, "until": "2026-10-01T00:00:00Z"}


def file(*lines: Any, **more: Any) -> Summary:
    return fold_import(imported(numbered(*lines)), **more)


def ours(*lines: Any, **head: Any) -> Summary:
    return fold_native(native(*lines), **head)


def told(**out: Any) -> dict[str, Any]:
    return state(status="running", complete=False, **out)


def versions(**changed: Any) -> dict[str, Any]:
    return {**V, **changed}


def at(line: Any, moment: str) -> dict[str, Any]:
    return {**line, "at": moment}


LIMITS = HeadFacts(limits=(Limit(what="entries", limit=5), Limit(what="bytes", limit=1_000_000)))
RETIRING = HeadFacts(retirements={"provider/model-5": "2026-09-15"})
FORKED = [{"branch": "", "step": 1, "name": "pay", "why": "forked", "other": "r0"}]
STUCK = {"cause": "WorkflowTaskTimedOut", "message": "no answer", "attempt": 7}
Case = tuple[str, Callable[[], Summary], Callable[[], Summary]]

CASES: list[Case] = [
    ("gap_open", lambda: file(started(1)), lambda: file(started(1), result(1), DONE)),
    ("gap_open", lambda: file(failed(1, "Timeout")), lambda: file(failed(1, "Declined"), DONE)),
    ("possible_double_effect", lambda: file(started(1), started(1, attempt=2), result(1, attempt=2)), lambda: file(started(1), failed(1), started(1, attempt=2), result(1, attempt=2))),
    ("possible_double_effect", lambda: file(started(1), failed(1, "Timeout"), started(1, attempt=2)), lambda: file(started(1), failed(1, "Timeout"))),
    ("possible_double_effect", lambda: file(failed(1, "Timeout"), bare(started(2, call="other"), "in")), lambda: file(failed(1, "Timeout"), {**started(2), "name": "look"})),
    ("possible_double_effect", lambda: file({**started(1), "in": 7}, failed(1, "Timeout"), {**started(2), "in": 7}), lambda: file({**started(1), "in": 7}, failed(1, "Timeout"), {**started(2), "in": 8})),
    ("possible_double_effect", lambda: file(started(1), result(1), result(1)), lambda: file(started(1), result(1))),
    ("possible_double_effect", lambda: file(result(1), told(loop={"recoveries": 2}), evidence=NEVER), lambda: file(result(1), told(loop={"recoveries": 1}), evidence=NEVER)),
    ("possible_double_effect", lambda: file(result(1), told(doubles=FORKED), evidence=NEVER), lambda: file(result(1), told(doubles=[]), evidence=NEVER)),
    ("possible_double_effect", lambda: file(result(1), told(forked_from="r0"), evidence=NEVER), lambda: file({**result(1), "copied_from": "r0"}, told(forked_from=""), evidence=NEVER)),
    ("key_unstable", lambda: ours(started(1, key="a"), {**started(1, key="b"), "epoch": 2}), lambda: ours(started(1), {**started(1), "epoch": 2})),
    ("key_missing", lambda: file(bare(started(1), "key")), lambda: file(started(1))),
    ("key_missing", lambda: file(bare(failed(1, "Timeout"), "key")), lambda: file(bare(started(1), "key"), bare(result(1), "key"))),
    ("changed_inside_run", lambda: file(START, model(1), model(2, versions=versions(prompt="refund-policy@13"))), lambda: file(START, model(1), model(2))),
    ("changed_inside_run", lambda: file(model(1), model(2, versions=versions(model="m-6"))), lambda: file(model(1), model(2, name="sum", versions=versions(model="m-6")))),
    ("changed_inside_run", lambda: file(started(1), started(2, versions={"tools": {"pay": "sha256:bbb"}})), lambda: file(started(1), started(2, versions={"tools": {"look": "sha256:bbb"}}))),
    ("silent_fallback", lambda: file(model(1, model_reported="provider/model-4")), lambda: file(model(1, model_reported="provider/model-5"))),
    ("silent_fallback", lambda: file(model(1, model_reported="model-51")), lambda: file(model(1, model_reported="model-5-2026-02-01"))),
    ("model_retired", lambda: file(model(1), PARKED, head=RETIRING), lambda: file(model(1), {**PARKED, "until": "2026-09-14T00:00:00Z"}, head=RETIRING)),
    ("model_retired", lambda: file(model(1), head=RETIRING, now=datetime(2026, 9, 16, tzinfo=UTC)), lambda: file(model(1), DONE, head=RETIRING, now=datetime(2026, 9, 16, tzinfo=UTC))),
    ("versions_missing", lambda: file(bare(START, "build"), {"kind": "model.result", "name": "decide", "step": 1}), lambda: file(START, model(1))),
    ("versions_missing", lambda: file(model(1), bare(result(2), "versions")), lambda: file(model(1), result(2))),
    ("version_moved", lambda: ours(START, {"kind": "run.resumed", "build": "41"}), lambda: ours(START, {"kind": "run.resumed", "build": "40"})),
    ("approval_mismatch", lambda: file(ASKED, SAID, {**USED, "in": {"n": 4}}), lambda: file(ASKED, SAID, USED)),
    ("approval_mismatch", lambda: file(ASKED, SAID, {**USED, "fingerprint": "sha256:other"}), lambda: file(ASKED, SAID, bare(USED, "fingerprint"))),
    ("approval_mismatch", lambda: file(ASKED, SAID, bare({**USED, "in": {"n": 4}}, "approval", "fingerprint")), lambda: file(ASKED, SAID, bare(USED, "approval", "fingerprint"))),
    ("ran_without_approval", lambda: file(ASKED, {**SAID, "decision": "reject"}, USED), lambda: file(ASKED, {**SAID, "decision": "reject"})),
    ("ran_without_approval", lambda: file(ASKED, USED, SAID), lambda: file(ASKED, SAID, USED)),
    ("ran_without_approval", lambda: file(USED), lambda: file(started(1))),
    ("ran_without_approval", lambda: file(ASKED, SAID, {"kind": "approval.withdrawn", "approval": "a1"}, USED), lambda: file(ASKED, SAID, USED, {"kind": "approval.withdrawn", "approval": "a1"})),
    ("ran_without_approval", lambda: file({**ASKED, "expires_at": "2026-09-01T08:00:03Z"}, SAID, at(USED, "2026-09-01T08:00:09Z")), lambda: file({**ASKED, "expires_at": "2026-09-01T08:00:08Z"}, SAID, USED)),
    ("ran_without_approval", lambda: file(ASKED, SAID, USED, {**USED, "step": 4}), lambda: file(ASKED, SAID, USED, {**USED, "attempt": 2})),
    ("approval_too_early", lambda: file(SAID, ASKED), lambda: file(ASKED, SAID)),
    ("approval_not_used", lambda: file(ASKED, SAID), lambda: file(ASKED, SAID, now=BEGIN + timedelta(minutes=9))),
    ("approval_not_used", lambda: file(ASKED, SAID, DONE), lambda: file(ASKED, SAID, USED, result(3), DONE)),
    ("approval_not_used", lambda: file(bare(ASKED, "artifact", "fingerprint"), bare(SAID, "fingerprint")), lambda: file(bare(ASKED, "artifact", "fingerprint"), bare(SAID, "fingerprint"), started(3))),
    ("approval_not_used", lambda: file({"kind": "signal.received", "name": "approval", "call": "m", "outcome": "not_consumed"}), lambda: file({"kind": "signal.received", "name": "approval", "call": "m", "outcome": "not_consumed"}, {"kind": "signal.received", "name": "approval", "call": "m", "outcome": "consumed"})),
    ("approval_ambiguous", lambda: file(ASKED, SAID, {**SAID, "decision": "reject"}), lambda: file(ASKED, SAID)),
    ("approval_ambiguous", lambda: file({**ASKED, "artifact": {"cents": 2**60}}), lambda: file(ASKED)),
    ("duplicate_call_id", lambda: file(started(1, call="c"), {**started(2, call="c"), "name": "look"}), lambda: file(started(1, call="c"), result(1, call="c"))),
    ("repeated_model_call", lambda: file(model(1), model(1, attempt=2, out="b")), lambda: file(model(1), model(2))),
    ("nondeterministic_replay", lambda: ours(START, {"kind": "run.held", "reason": "NonDeterministicReplay", "origin": "server"}), lambda: ours(START, {"kind": "run.held", "reason": "PromptChanged", "origin": "server"})),
    ("nondeterministic_replay", lambda: ours(START, {"kind": "note", "name": "nondeterministic_replay", "step": 1, "out": {"message": "key differs"}}), lambda: ours(START, {"kind": "note", "name": "continued_request", "step": 1, "out": {}})),
    ("nondeterministic_replay", lambda: file(model(1), told(stuck={"cause": "NonDeterministicError", "message": ""})), lambda: file(model(1), told(stuck=STUCK))),
    ("nondeterministic_replay", lambda: file(model(1), {**model(1), "name": "classify"}), lambda: file(model(1), model(1))),
    ("missing_entry", lambda: fold_import(imported([{"seq": 1, **START}, {"seq": 4, **DONE}])), lambda: fold_import(imported([{"seq": 1, **START}, {"seq": 2, **DONE}]))),
    ("missing_entry", lambda: file(START, state(complete=False, partial="line 3 not read", losses=[{"code": "missing_entry", "reason": "line 3 not read"}])), lambda: file(START, state())),
    ("parent_missing", lambda: fold_import(imported([{"id": "b1", "under": "a0", **result(1)}])), lambda: fold_import(imported([{"id": "a0", **model(1)}, {"id": "b1", "under": "a0", **result(2)}]))),
    ("torn_tail", lambda: file(START, state(complete=False, partial="cut", losses=[{"code": "torn_tail", "reason": "cut"}])), lambda: file(START, state(complete=False, partial="line 3", losses=[{"code": "missing_entry", "reason": "line 3"}]))),
    ("conflicting_entry", lambda: fold_import(imported([{"seq": 1, **result(1)}, {"seq": 1, **result(1, out="other")}])), lambda: fold_import(imported([{"seq": 1, **result(1)}, {"seq": 1, **result(1)}]))),
    ("history_rewritten", lambda: fold_import([*imported([{"seq": 1, **result(1)}]), *imported([{"seq": 1, **result(1, out="other")}], import_id=2, after=1)]), lambda: fold_import(imported([{"seq": 1, **result(1)}, {"seq": 1, **result(1, out="other")}]))),
    ("near_limit", lambda: file(*[model(n) for n in range(1, 5)], head=LIMITS), lambda: file(*[model(n) for n in range(1, 4)], head=LIMITS)),
    ("near_limit", lambda: file(*[model(n) for n in range(1, 5)], head=LIMITS), lambda: file(*[model(n) for n in range(1, 5)], DONE, head=LIMITS)),
    ("stopped_by_limit", lambda: ours(START, {"kind": "run.stopped", "reason": "JournalLimitReached", "origin": "server"}, ended="stopped"), lambda: ours(START, {"kind": "run.stopped", "reason": "PromptChanged", "origin": "server"}, ended="stopped")),
    ("stranded", lambda: file(model(1), told(stranded={"build": "7", "since": "2026-08-01T00:00:00Z"})), lambda: file(model(1), told())),
    ("stranded", lambda: ours(START, worker="w1", lease_until=NOW - timedelta(minutes=11)), lambda: ours(START, worker="w1", lease_until=NOW - timedelta(minutes=9))),
    ("stranded", lambda: ours(START, now=NOW), lambda: ours(START, parked_on="timer", now=NOW)),
    ("stuck_task", lambda: file(model(1), told(stuck=STUCK)), lambda: file(model(1), told(stuck=None))),
    ("clock_step_back", lambda: file(at(model(1), "2026-09-01T08:00:10Z"), at(model(2), "2026-09-01T08:00:06.5Z")), lambda: file(at(model(1), "2026-09-01T08:00:10Z"), at(model(2), "2026-09-01T08:00:09.5Z"))),
    ("clock_step_back", lambda: file(at(START, "2026-09-01T08:00:05Z"), at(model(1), "2026-09-01T08:00:01Z")), lambda: file(at(START, "2026-09-01T08:00:00Z"), at(model(1), "2026-09-01T08:00:10Z"), at(START, "2026-09-01T08:00:00Z"))),
    ("clock_step_back", lambda: file(at(model(1), "2026-09-01T08:00:10Z"), at(model(2), "2026-09-01T08:00:01Z")), lambda: file(at(model(1), "2026-09-01T08:00:10Z"), at(model(2), "2026-09-01T08:00:01Z"), evidence=ON_CLOSE)),
    ("clock_skew", lambda: ours(at(model(1), "2026-09-01T08:02:01Z")), lambda: ours(at(model(1), "2026-09-01T08:00:59Z"))),
    ("clock_skew", lambda: ours(at(model(1), "2026-09-01T07:00:00Z"), at(model(2), "2026-09-01T07:00:01Z")), lambda: ours(at(model(1), "2026-09-01T07:00:00Z"), model(2))),
    ("opaque_payload", lambda: file(model(1, out={"opaque": "pickle", "bytes": 3, "sha256": "aa"})), lambda: file(model(1, out={"opaque": True}))),
    ("encrypted_payload", lambda: file(model(1, out={"$payload": {"encoding": "binary/encrypted"}})), lambda: file(model(1, out={"$payload": {"encoding": "binary/plain"}}))),
    ("non_standard_json", lambda: fold_import(imported([b'{"run":"r","seq":1,"kind":"tool.result","name":"a","out":NaN}'])), lambda: fold_import(imported([b'{"run":"r","seq":1,"kind":"tool.result","name":"a","out":1.10}']))),
    ("too_deep", lambda: fold_import(imported([b'{"run":"r","seq":1,"kind":"tool.result","name":"a","out":' + b"[" * 300 + b"]" * 300 + b"}"])), lambda: fold_import(imported([b'{"run":"r","seq":1,"kind":"tool.result","name":"a","out":[[1]]}']))),
    ("attempt_overlap", lambda: file(started(1), started(1, attempt=2), result(1), result(1, attempt=2)), lambda: file(started(1), failed(1), started(1, attempt=2), result(1, attempt=2))),
    ("replay_loop", lambda: file(told(loop={"recoveries": 41}), evidence=NEVER), lambda: file(told(loop={"recoveries": 2}), evidence=NEVER)),
    ("replay_loop", lambda: ours(START, *[{"kind": "run.resumed", "build": "40"}] * 5), lambda: ours(START, *[{"kind": "run.resumed", "build": "40"}] * 4, model(1), {"kind": "run.resumed", "build": "40"})),
    ("duplicate_entry", lambda: file(model(1), state(duplicates=[1])), lambda: file(model(1), state(duplicates=[]))),
]  # fmt: skip


@pytest.mark.parametrize(("code", "with_it", "without_it"), CASES, ids=[f"{c[0]}-{n}" for n, c in enumerate(CASES)])
def test_is_there_when_it_should_and_not_otherwise(
    code: str, with_it: Callable[[], Summary], without_it: Callable[[], Summary]
) -> None:
    assert code in codes(with_it())
    assert code not in codes(without_it())


def test_every_code_has_a_case() -> None:
    assert {c[0] for c in CASES} == set(CODES)


def one(summary: Summary, code: str) -> Finding:
    return next(f for f in summary.findings if f.code == code)


def test_a_key_carried_by_every_attempt_softens_a_possible_double() -> None:
    kept = file(started(1), started(1, attempt=2), result(1, attempt=2))
    lost = file(bare(started(1), "key"), bare(started(1, attempt=2), "key"), bare(result(1, attempt=2), "key"))
    assert one(kept, "possible_double_effect").severity == "warning"
    assert one(kept, "possible_double_effect").detail["protected_by_key"] is True
    assert one(lost, "possible_double_effect").severity == "error"


def test_two_equal_calls_of_which_the_first_timed_out_are_linked() -> None:
    first = bare({**started(1), "in": 7}, "key")
    found = one(
        file(first, bare(failed(1, "Timeout"), "key"), bare({**started(2), "in": 7}, "key")), "possible_double_effect"
    )
    assert (found.detail["earlier"]["step"], found.detail["step"]["step"], found.entries) == (1, 2, (1, 2, 3))


def held(key: str | None, *, differs: str = "key") -> dict[str, Any]:
    detail = {"branch": "", "step": 1, "differs": [differs], "recorded": {"key": "a"}, "this_build": {"key": key}}
    return {"kind": "run.held", "reason": "NonDeterministicReplay", "detail": detail, "origin": "server"}


RELEASED = {"kind": "run.released", "by": "olga", "origin": "server", "actor": "person:olga"}


@pytest.mark.parametrize("after", [[], [RELEASED]], ids=["held", "released"])
def test_a_replay_that_would_send_another_key_makes_the_key_unstable_and_the_gap_says_so(after: list[Any]) -> None:
    made = ours(started(1, key="a"), held("b"), *after)
    found = one(made, "key_unstable")
    assert found.detail["keys"] == [{"key": "a", "entries": [1]}, {"key": "b", "entries": [2]}]
    (gap,) = made.gaps
    assert "would be sent with another key (b), so it can run twice outside" in gap.reason
    words = sentences.gap(gap.as_json(), native=True)
    assert "another key (b)" in words.follows
    assert "same key" not in words.follows
    assert one(made, "gap_open").severity == "error"


def test_a_start_after_the_hold_shows_what_is_really_sent() -> None:
    same = ours(started(1, key="a"), held("b"), RELEASED, {**started(1, key="a"), "epoch": 2})
    assert "key_unstable" not in codes(same)
    assert "same key" in sentences.gap(same.gaps[0].as_json(), native=True).follows
    other = ours(started(1, key="a"), held("b"), RELEASED, {**started(1, key="c"), "epoch": 2})
    assert "a, c" in sentences.gap(other.gaps[0].as_json(), native=True).follows


def test_a_replay_that_asks_for_something_else_is_not_called_the_same_request() -> None:
    made = ours(started(1, key="a"), held("a", differs="in"))
    assert "key_unstable" not in codes(made)
    assert "another request" in sentences.gap(made.gaps[0].as_json(), native=True).follows


def test_an_unstable_key_shows_both_keys() -> None:
    found = one(ours(started(1, key="a"), {**started(1, key="b"), "epoch": 2}), "key_unstable")
    assert found.detail["keys"] == [{"key": "a", "entries": [1]}, {"key": "b", "entries": [2]}]
    assert "a, b" in found.message


def test_a_mismatch_names_the_fields_that_differ_with_both_values() -> None:
    asked = {**ASKED, "artifact": {"tool": "pay", "args": {"n": 3, "iban": "1"}}}
    found = one(file(asked, SAID, {**USED, "in": {"n": 3, "iban": "2"}}), "approval_mismatch")
    assert found.detail["differences"] == [{"path": "/args/iban", "approved": "1", "ran": "2"}]
    assert "iban" in found.message


def test_key_order_and_number_form_do_not_make_a_mismatch() -> None:
    asked = b'{"run":"r","seq":1,"kind":"approval.requested","approval":"a1","artifact":{"args":{"b":1.0,"a":2},"tool":"pay"}}'
    said = b'{"run":"r","seq":2,"kind":"approval.decided","approval":"a1","decision":"approve"}'
    ran = b'{"run":"r","seq":3,"kind":"tool.started","name":"pay","approval":"a1","in":{ "a": 2, "b": 1 }}'
    assert not codes(fold_import(imported([asked, said, ran]))) & {"approval_mismatch", "ran_without_approval"}


def test_a_change_that_a_person_decided_is_told_and_no_warning() -> None:
    continued = {"kind": "deploy.continued", "build": "41", "by": "alice"}
    found = one(file(model(1), continued, model(2, versions=versions(prompt="refund-policy@13"))), "changed_inside_run")
    assert (found.severity, found.detail["decided"]) == ("info", True)


def test_a_retirement_before_the_run_wakes_names_both_times() -> None:
    found = one(file(model(1), PARKED, head=RETIRING), "model_retired")
    assert (found.detail["model"], found.detail["retires_on"], found.detail["wakes_at"]) == (
        "provider/model-5",
        "2026-09-15",
        "2026-10-01T00:00:00Z",
    )


def test_an_unused_yes_says_until_when_it_can_be_used() -> None:
    found = one(file({**ASKED, "expires_at": "2026-09-02T00:00:00Z"}, SAID), "approval_not_used")
    assert found.detail["expires_at"] == "2026-09-02T00:00:00Z"
    assert "too late after 2026-09-02T00:00:00Z" in found.message


@pytest.mark.parametrize("tool_versions", [T, {"tools": {}}])
def test_findings_come_errors_first(tool_versions: dict[str, Any]) -> None:
    summary = file(
        bare(started(1, versions=tool_versions), "key"),
        model(2, model_reported="other"),
        {**model(2), "out": {"opaque": "x", "sha256": "y"}},
    )
    ranks = [["error", "warning", "info"].index(f.severity) for f in summary.findings]
    assert ranks == sorted(ranks)
    assert len(set(ranks)) > 1


def test_an_attempt_without_an_answer_beside_one_with_a_result_is_a_possible_double() -> None:
    summary = file(started(1), started(1, attempt=2), result(1))  # the first one answered, the second one never did
    assert one(summary, "possible_double_effect").detail["unanswered"] == [2]


def test_a_gap_card_says_what_is_recorded_and_names_no_number_that_is_not_known() -> None:
    given = {
        "verdict": "may_run_twice",
        "confidence": "possible",
        "name": "pay",
        "reason": "A result is recorded, and yet.",
    }
    again = sentences.gap({**given, "step": 2, "effects": "at_least_one"}, native=False)
    assert again.facts == "A result is recorded, and yet."
    assert sentences.gap({**given, "step": None, "effects": "unknown"}, native=False).title == "pay may run twice"
    assert sentences.gap({"verdict": "unknown", "name": "Pay"}, native=False).title == "Nothing is proven about Pay"
