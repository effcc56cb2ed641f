"""Threads that the captures do not hold: forks, states written by hand, lost and pruned checkpoints, odd values."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest

from journals.adapters.base import Partial, Refused, Unread
from journals.adapters.langgraph.values import value_of
from tests.runs.journal import codes, read_files

from .langgraph_exports import Read, Tables, read, read_tables, straight


def told(tables: Tables) -> Any:
    (summary,) = read_files("langgraph", {"t.json": json.dumps(tables.rows).encode()}).values()
    return summary


def gaps(summary: Any) -> list[tuple[str, int | None, str | None]]:
    return [(g.branch, g.step, g.name) for g in summary.gaps]


def names(made: Read, key: str) -> list[tuple[str, int, str]]:
    return [(p["branch"], p["step"], p["name"]) for p in made.state[key]]


# -- going on from an earlier checkpoint ---------------------------------------------------------------------------


def forked() -> Tables:
    """`pay` ran from checkpoint 1; then the thread went on from there again, and `pay` a second time from its copy."""
    made = straight("plan", "pay")
    at = made.checkpoint(2, "pay", parent=made.checkpoints[2]["checkpoint_id"], n=9, source="fork")
    made.write(at, "pay", "again")
    made.checkpoint(3, parent=at, n=9, ran=["pay"])
    return made


def test_a_fork_is_a_branch_and_its_writes_may_have_happened_twice() -> None:
    summary = told(forked())
    assert [(r.step.branch, r.step.number, r.step.name) for r in summary.steps if r.step.write] == [
        ("", 1, "plan"), ("", 2, "pay"), ("2.fork-000009", 1, "pay"),
    ]  # fmt: skip
    assert {(d["branch"], d["name"], d["why"]) for d in forked().read().state["doubles"]} == {
        ("", "pay", "forked"),
        ("2.fork-000009", "pay", "forked"),
    }
    assert "possible_double_effect" in codes(summary)


def test_a_fork_leaves_the_lines_of_the_first_way_as_they_were() -> None:
    before = {line.raw for line in straight("plan", "pay").read().lines if b"runtime.state" not in line.raw}
    assert before <= {line.raw for line in forked().read().lines}


def test_a_state_written_over_a_node_in_flight_leaves_it_unknown() -> None:
    made = straight("plan")
    made.checkpoints.pop()
    at = made.checkpoint(1, "pay", ran=["plan"])
    made.write(at, "pay", {"by": "hand"}, task_id="u", task_path="~__interrupt__, 0000000000")
    made.checkpoint(2, source="update", ran=["pay"])  # written as if the node had run
    assert gaps(told(made)) == [("", 2, "pay")]
    (update,) = [e for e in made.read().entries if e.get("name") == "state update"]
    assert (update["kind"], update["out"]) == ("value.result", {"out": {"by": "hand"}})


# -- crashes -------------------------------------------------------------------------------------------------------


def parallel(*written: str) -> Tables:
    made = Tables()
    made.checkpoint(-1)
    at = made.checkpoint(0, "a", "b", "c")
    for node in written:
        made.write(at, node)
    return made


def test_of_parallel_nodes_those_with_writes_are_done_and_the_rest_may_run_again() -> None:
    summary = told(parallel("a", "c"))
    assert ("1.2", 1, "b") in gaps(summary)
    assert {r.step.name: str(r.judged.verdict) for r in summary.steps if r.step.kind == "tool"} == {
        "a": "done",
        "c": "done",
    }


def test_the_place_of_a_parallel_node_does_not_depend_on_the_others() -> None:
    assert parallel("c").read().place("1.3", 1) == parallel("a", "b", "c").read().place("1.3", 1)


def test_a_step_that_ended_behind_the_last_checkpoint_names_what_it_started() -> None:
    made = straight("plan", "pay")
    made.checkpoints = made.checkpoints[:2]
    made.write(made.checkpoints[1]["checkpoint_id"], "plan", None, channel="branch:to:pay", idx=1)
    made.checkpoint_writes = [
        w for w in made.checkpoint_writes if w["checkpoint_id"] == made.checkpoints[1]["checkpoint_id"]
    ]
    assert gaps(told(made)) == [("", 2, "pay")]


def test_writes_of_a_checkpoint_that_was_never_saved_are_kept_and_would_run_again() -> None:
    made = straight("plan", "pay")
    lost = made.checkpoints.pop(2)["checkpoint_id"]
    made.checkpoints.pop()
    summary = told(made)
    assert [(b, n) for b, _, n in gaps(summary) if b.startswith("lost-")] == [(f"lost-{lost[-6:]}", "pay")]
    assert made.read().state["again"][0]["why"] == "checkpoint_not_saved"
    assert [str(r.judged.verdict) for r in summary.steps if r.step.name == "pay"] == ["may_run_twice"]


def test_writes_of_a_lost_checkpoint_run_again_until_the_one_made_in_its_place_has_their_results() -> None:
    made = Tables()
    made.checkpoint(-1)
    first = made.checkpoint(0, "plan")
    made.write(first, "plan")
    lost = made.checkpoint(1, "a", "b", ran=["plan"])
    made.write(lost, "a")
    made.write(lost, "b")
    made.checkpoints.pop()
    again = made.checkpoint(1, "a", "b", n=2, ran=["plan"], resumed=True)
    made.write(again, "a")
    branches = {r.step.branch: str(r.judged.verdict) for r in told(made).steps if r.step.name == "b"}
    assert [verdict for branch, verdict in branches.items() if branch.startswith("lost-")] == ["may_run_twice"]
    assert [(g["name"], g["why"], g["from"]) for g in made.read().state["again"]] == [
        ("b", "checkpoint_not_saved", again),
    ]
    made.write(again, "b")
    assert "again" not in made.read().state


def test_going_on_after_a_crash_is_seen_in_the_rows() -> None:
    made = Tables()
    made.checkpoint(-1)
    made.write(made.checkpoint(0, "pay"), "pay")
    made.checkpoint(1, ran=["pay"], resumed=True)
    assert names(made.read(), "doubles") == [("", 1, "pay")]
    clean = straight("pay")
    assert clean.read().state["doubles"] == []


def test_a_yes_that_a_node_waited_for_is_no_crash() -> None:
    made = Tables()
    made.checkpoint(-1)
    at = made.checkpoint(0, "pay")
    made.write(at, "pay", [{"value": {"ask": 1}, "id": "q"}], channel="__interrupt__", idx=-3)
    made.write(at, "pay", [True], channel="__resume__", idx=-4)
    made.write(at, "pay")
    made.checkpoint(1, ran=["pay"], resumed=True)
    assert made.read().state["doubles"] == []


def test_a_node_that_failed_and_then_ended_has_both() -> None:
    made = Tables()
    made.checkpoint(-1)
    at = made.checkpoint(0, "ask")
    made.write(at, "ask", "TimeoutError('no answer')", channel="__error__", idx=-1)
    failed = {line.raw for line in made.read().lines if b".error" in line.raw}
    made.write(at, "ask", [{"type": "ai", "content": "hi"}], channel="messages")
    made.checkpoint(1, ran=["ask"], resumed=True)
    summary = told(made)
    assert failed <= {line.raw for line in made.read().lines}
    assert [len(r.step.errors) for r in summary.steps] == [1]
    assert "nondeterministic_replay" not in codes(summary)


def test_a_join_whose_value_was_not_exported_is_not_over() -> None:
    made = straight("a")
    made.checkpoints[-1]["checkpoint"]["channel_versions"]["join:a+b:c"] = "3"
    assert (made.read().state["status"], made.read().state["complete"]) == ("unknown", False)
    assert "run.completed" not in {e["kind"] for e in made.read().entries}
    value = {"thread_id": "t", "checkpoint_ns": "", "channel": "join:a+b:c", "version": "3", "type": "json"}
    made.checkpoint_blobs.append({**value, "blob": '["a"]'})
    assert made.read().state["status"] == "completed"
    made.checkpoint_blobs[0]["blob"] = '["a", "b"]'
    assert gaps(told(made)) == [("", 2, "c")]


def test_pruned_steps_are_not_known_and_are_not_called_in_flight() -> None:
    made = straight("a", "b", "c")
    made.checkpoints = made.checkpoints[3:]
    made.checkpoint_writes = made.checkpoint_writes[2:]
    summary = told(made)
    assert [str(r.judged.verdict) for r in summary.steps] == ["unknown", "unknown", "done"]
    assert made.read().state["held"]["whole"] is False


def test_what_a_whole_later_export_lacks_is_found() -> None:
    first, then = straight("a", "b"), straight("a", "b")
    first.checkpoint_writes[1]["task_id"] = "another"
    both = json.dumps({"first": first.rows, "then": then.rows}).encode()
    held = [set(s["held"]["ids"]) for s in read({"t.json": both}).states]
    assert held[0] - held[1] == {"task:another"}


def test_a_checkpoint_with_two_contents_is_given_twice() -> None:
    made = straight("a")
    twin = json.loads(json.dumps(made.checkpoints[1]))
    twin["checkpoint"]["ts"] = "2026-11-29T13:00:00+00:00"
    made.checkpoints.append(twin)
    times = [e["at"] for e in made.read().entries if e.get("name") == "a"]
    assert len(times) == 2


def test_checkpoints_whose_parents_go_in_a_circle_are_all_shown() -> None:
    made = straight("a", "b")
    made.checkpoints[1]["parent_checkpoint_id"] = made.checkpoints[2]["checkpoint_id"]
    assert {e["name"] for e in made.read().entries if e["kind"] == "tool.result"} == {"a", "b"}


def test_an_empty_line_of_time_is_compared_by_steps_as_numbers() -> None:
    made = straight(*[f"n{i}" for i in range(12)])
    made.checkpoints.reverse()
    assert [e["name"] for e in made.read().entries if e["kind"] == "tool.result"] == [f"n{i}" for i in range(12)]


# -- the source's own words ----------------------------------------------------------------------------------------


def test_the_options_of_an_import_and_the_build_of_a_thread_are_told() -> None:
    made = straight("draft", "pay")
    for row in made.checkpoints:
        row["metadata"]["release"] = "r7"
    started = made.read(agent="shop", environment="prod").entries[0]
    assert (started["agent"], started["environment"], started["build"]) == ("shop", "prod", "r7")


def test_a_tool_node_is_called_by_the_tool_that_it_ran() -> None:
    made = straight("agent", "tools")
    asked = {
        "type": "ai",
        "content": "",
        "tool_calls": [{"id": "c1", "name": "send_mail", "args": {"to": "a", "key": "k1"}}],
    }
    made.checkpoint_writes[0] |= {"channel": "messages", "blob": json.dumps([asked])}
    made.checkpoint_writes[1] |= {
        "channel": "messages",
        "blob": json.dumps([{"type": "tool", "content": "ok", "tool_call_id": "c1", "name": "send_mail"}]),
    }
    made.checkpoints[2]["checkpoint"]["channel_versions"]["messages"] = "2"
    made.checkpoint_blobs.append(
        {
            "thread_id": "t",
            "checkpoint_ns": "",
            "channel": "messages",
            "version": "2",
            "type": "json",
            "blob": json.dumps([asked]),
        }
    )
    model, tool = made.read().place("", 1), made.read().place("", 2)
    assert model["kind"] == "model.result"
    assert (tool["name"], tool["node"], tool["call"], tool["key"], tool["in"]["to"]) == (
        "send_mail",
        "tools",
        "c1",
        "k1",
        "a",
    )


def test_answers_to_several_questions_go_to_them_in_order() -> None:
    actions = [{"name": n, "args": {"x": n}} for n in ("delete", "send")]
    made = Tables()
    made.checkpoint(-1)
    at = made.checkpoint(0, "hitl")
    made.write(at, "hitl", [{"value": {"action_requests": actions}, "id": "q"}], channel="__interrupt__", idx=-3)
    made.write(
        at,
        "hitl",
        [{"decisions": [{"type": "approve"}, {"type": "reject", "message": "no"}]}],
        channel="__resume__",
        idx=-4,
    )
    made.write(at, "hitl", "went on")
    decided = [
        (e["name"], e["decision"], e.get("reason")) for e in made.read().entries if e["kind"] == "approval.decided"
    ]
    assert decided == [("delete", "approve", None), ("send", "reject", "no")]


# -- values --------------------------------------------------------------------------------------------------------


def ext(code: int, *parts: Any) -> bytes:
    return msgspec.msgpack.encode(msgspec.msgpack.Ext(code, msgspec.msgpack.encode(parts)))


def test_classes_are_named_and_never_made(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert value_of("msgpack", ext(1, "os", "mkdir", ["canary"])) == {"$class": "os.mkdir", "args": ["canary"]}
    assert value_of("msgpack", ext(3, "pathlib", "Path", ["canary"], "touch"))["method"] == "touch"
    assert value_of(
        "msgpack", ext(5, "langchain_core.messages.ai", "AIMessage", {"type": "ai", "content": "x"}, "m")
    ) == {"type": "ai", "content": "x"}
    assert value_of("msgpack", ext(0, "builtins", "set", ["a"])) == ["a"]
    assert value_of("pickle", b"\x80\x04cos\nmkdir\n(S'canary'\ntR.")["opaque"] == "pickle"
    assert value_of("msgpack+aes", b"xx")["opaque"] == "msgpack+aes"
    assert not list(tmp_path.iterdir())


def test_deep_and_broken_values_stay_closed() -> None:
    inner: Any = "x"
    for _ in range(200):
        inner = msgspec.msgpack.Ext(1, msgspec.msgpack.encode(["m", "C", inner]))
    for data in (msgspec.msgpack.encode(inner), b"\x91" * 3_000 + b"\xc0", b"\xc1", b"\xc7\xff\x01x"):
        made = json.dumps(value_of("msgpack", data))
        assert "opaque" in made
        assert len(made) < 20_000


def test_numbers_and_odd_text_are_kept() -> None:
    made = straight("a")
    made.checkpoint_writes[0] |= {
        "type": "msgpack",
        "blob": {"$b64": base64.b64encode(msgspec.msgpack.encode([float("nan"), 2**63, "\x00"])).decode()},
    }
    assert "NaN" in json.dumps(made.read().place("", 1)["out"])
    deep = json.dumps(straight("a").rows).replace('"\\"done\\""', "[" * 2_000 + "]" * 2_000)
    assert read({"t.json": deep.encode()}).balanced()


def test_rows_that_name_no_thread_are_unread_and_the_rest_is_kept() -> None:
    made = straight("a")
    del made.checkpoint_writes[0]["channel"]
    got = made.read()
    (unread,) = got.of(Unread)
    assert unread.reason == "checkpoint_writes row: channel is missing"
    assert {p.code for p in got.of(Partial)} == {"missing_entry"}
    assert got.state["complete"] is False


def test_what_a_list_holds_beside_its_records_is_unread() -> None:
    snapshot = {
        "values": {},
        "next": [],
        "checkpoint": {"thread_id": "t", "checkpoint_id": "c"},
        "metadata": {"step": 0},
    }
    for body in ([snapshot, {"x": 1}], {"history": [snapshot, {"x": 1}], "more": {"y": 2}}):
        made = read({"h.json": json.dumps(body).encode()})
        assert len(made.of(Unread)) == 1
        assert made.balanced()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "empty file"),
        (b"{}", "no table, state snapshot or thread of LangGraph in it"),
        (b'[{"assistant_id": "a", "graph_id": "g"}]', "assistants only"),
        (b'[{"run_id": "r", "thread_id": "t", "status": "success"}]', "server runs only"),
        (b"hello", "neither a SQL dump"),
    ],
)
def test_what_is_no_journal_is_refused_with_what_to_do(body: bytes, reason: str) -> None:
    (refused,) = read({"x.json": body}).of(Refused)
    assert refused.reason.startswith(reason)


def test_tables_in_files_of_their_own_are_one_export() -> None:
    rows = straight("a", "b").rows
    apart = {f"dump/{table}.json": json.dumps(found).encode() for table, found in rows.items() if found}
    assert read(apart).entries == read_tables(rows).entries


def test_the_last_line_of_a_thread_changes_its_id_with_its_content() -> None:
    one, two = straight("a").read(), straight("a", "b").read()
    assert json.loads(one.lines[-1].raw)["id"] != json.loads(two.lines[-1].raw)["id"]
    assert one.lines[-1].raw == straight("a").read().lines[-1].raw
