"""A worker's append: idempotent, fenced, gated, byte-exact."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

from journals import store
from journals.models import Gate
from tests.journals.agents import Worker

pytestmark = pytest.mark.django_db


@pytest.fixture
def worker(token: Any) -> Worker:
    return Worker(token("worker")).start().open()


def code(answer: Any) -> str:
    return str(answer.json()["error"]["code"])


def gate(worker: Worker, **changes: Any) -> None:
    with transaction.atomic():
        store.change(store.lock(worker.head.id).id, **changes)


def test_starting_twice_is_one_run(token: Any) -> None:
    first = Worker(token("worker")).start()
    again = Worker(first.secret).start()
    assert first.key == again.key
    assert again.kinds() == ["run.started"]


def test_starting_again_with_another_input_is_a_conflict(worker: Worker) -> None:
    worker.key = ""
    answer = worker.call("", {"agent": "refund", "run": "run-1", "environment": "prod", "in": "other"})
    assert (answer.status_code, code(answer)) == (409, "EntryConflict")


def test_gives_dense_positions_and_keeps_the_bytes(worker: Worker) -> None:
    lines = [worker.line("tool.started", name="send", step=1, **{"in": {"n": i}}) for i in range(3)]
    assert worker.post(*lines).json() == {"positions": [3, 4, 5], "pos": 5}
    assert worker.raws()[2:] == lines


def test_a_repeat_answers_the_stored_position_even_under_a_lost_epoch(worker: Worker) -> None:
    line = worker.line("tool.started", name="send", step=1)
    worker.post(line)
    worker.open(worker="w-2")
    answer = worker.post(line, epoch=1)
    assert (answer.status_code, answer.json()["positions"]) == (200, [3])


def test_refuses_an_old_epoch(worker: Worker) -> None:
    late = worker.line("tool.started", name="send", step=1)
    worker.open(worker="w-2")
    assert code(worker.post(late, epoch=1)) == "LeaseLost"
    assert "tool.started" not in worker.kinds()


def test_keeps_a_late_result_of_a_write_as_evidence(worker: Worker) -> None:
    worker.post(worker.line("tool.started", name="send", step=1))
    late = worker.line("tool.result", name="send", step=1, out={"id": 7})
    worker.open(worker="w-2")
    assert code(worker.post(late, epoch=1)) == "LeaseLost"
    assert code(worker.post(late, epoch=1)) == "LeaseLost"
    found = [e.entry for e in store.read(worker.head.id) if e.kind == "late.result"]
    assert [(e.step, e.out, e.reason) for e in found] == [(1, {"id": 7}, "LeaseLost")]


def test_the_same_id_with_other_content_is_refused(worker: Worker) -> None:
    worker.post(worker.line("tool.started", name="send", step=1))
    worker.n -= 1
    assert code(worker.post(worker.line("tool.started", name="send", step=2))) == "EntryConflict"


@pytest.mark.parametrize("kind", ["stop.requested", "deploy.pinned", "approval.decided", "approval.used", "gap.resolved", "run.stopped",
                                  "run.released", "signal.received", "approval.requested", "made.up"])  # fmt: skip
def test_a_worker_may_not_append_decisions(worker: Worker, kind: str) -> None:
    answer = worker.post(worker.line(kind))
    assert (answer.status_code, code(answer)) == (403, "KindNotAllowed")


@pytest.mark.parametrize("scope", ["ci", "read"])
def test_only_worker_tokens_append(worker: Worker, token: Any, scope: str) -> None:
    line = worker.line("note")
    worker.secret = token(scope)
    assert code(worker.post(line)) == "NotAllowed"


def test_a_token_of_another_agent_sees_no_run(worker: Worker, token: Any) -> None:
    line = worker.line("note")
    worker.secret = token("worker", agent="other")
    assert code(worker.post(line)) == "UnknownRun"


def test_a_revoked_token_is_refused_at_once(worker: Worker) -> None:
    from journals import access
    from journals.models import Token

    line = worker.line("note")
    access.revoke_token(Token.objects.get().id)
    assert (worker.post(line).status_code, code(worker.post(line))) == (401, "NotAuthenticated")


def test_a_stop_takes_results_and_refuses_new_writes(worker: Worker) -> None:
    worker.post(worker.line("tool.started", name="send", step=1))
    gate(worker, stop_name="PromptChanged", stop_message="prompt 14 is out")
    assert worker.post(worker.line("tool.result", name="send", step=1, out=1)).status_code == 200
    read = (
        worker.line("model.started", name="ask", step=2, effect="read"),
        worker.line("model.result", name="ask", step=2, out=1),
    )
    assert worker.post(*read).status_code == 200
    refused = worker.post(worker.line("tool.started", name="send", step=3))
    assert (code(refused), refused.json()["error"]["detail"]["name"]) == ("RunStopped", "PromptChanged")
    assert code(worker.post(worker.line("model.started", name="ask", step=3))) == "RunStopped"
    assert code(worker.post(worker.line("run.completed"))) == "RunStopped"


def test_a_held_run_waits(worker: Worker) -> None:
    gate(worker, hold_reason="NonDeterministicReplay")
    assert code(worker.post(worker.line("tool.started", name="send", step=1))) == "RunHeld"


def test_a_run_pinned_elsewhere_refuses_new_steps_only(worker: Worker) -> None:
    worker.post(worker.line("tool.started", name="send", step=1))
    gate(worker, pinned_build="0")
    assert code(worker.post(worker.line("tool.started", name="send", step=2))) == "PinnedToBuild"
    assert worker.post(worker.line("tool.result", name="send", step=1)).status_code == 200


def test_a_hotfix_of_the_pinned_build_goes_on(worker: Worker) -> None:
    gate(worker, pinned_build="0", open_replaces="0")
    assert worker.post(worker.line("tool.started", name="send", step=1)).status_code == 200


@pytest.mark.parametrize("lines", [[("tool.started", {})], [("tool.result", {"effect": "read", "out": 1})]])
def test_a_gated_tool_needs_an_approval_with_or_without_a_start(worker: Worker, lines: Any) -> None:
    Gate.objects.create(agent="refund", tool="send")
    refused = worker.post(*(worker.line(kind, name="send", step=1, **more) for kind, more in lines))
    assert code(refused) == "ApprovalRequired"
    assert worker.post(worker.line("tool.started", name="other", step=1)).status_code == 200


def test_an_ended_run_takes_nothing(worker: Worker) -> None:
    assert worker.post(worker.line("run.completed", out="done")).status_code == 200
    assert code(worker.post(worker.line("note"))) == "RunEnded"
    assert worker.head.lease_until is None


def test_parking_frees_the_lease_and_keeps_the_reason(worker: Worker) -> None:
    pos = worker.head.pos
    worker.post(worker.line("run.parked", reason="signal:go"), **{"Drainboard-Seen": str(pos)})
    assert (worker.head.parked_on, worker.head.lease_until, worker.head.wake_at) == ("signal:go", None, None)


def test_parking_behind_an_unseen_signal_wakes_at_once(worker: Worker) -> None:
    pos = worker.head.pos
    worker.call("signals", {"name": "go", "value": 1})
    worker.post(worker.line("run.parked", reason="signal:go"), **{"Drainboard-Seen": str(pos)})
    assert worker.head.wake_at is not None


def test_a_signal_wakes_the_run_that_waits_for_it_once(worker: Worker) -> None:
    worker.post(worker.line("run.parked", reason="signal:go"))
    first = worker.call("signals", {"name": "go", "value": {"a": 1}, "id": "x"}).json()
    again = worker.call("signals", {"name": "go", "value": {"a": 1}, "id": "x"}).json()
    assert first == again
    assert worker.head.wake_at is not None
    assert worker.kinds().count("signal.received") == 1


@pytest.mark.parametrize(
    "line",
    [b"[]", b"{", b'{"id":"1.1","run":"run-1"}', b'{"run":"run-1","kind":"note"}', b'{"id":"1.1","run":"run-1","kind":"note","seq":4}',
     b'{"id":"1.1","run":"run-1","kind":"note","step":0}', b'{"id":"1.1","run":"run-1","kind":"note","a":"\xff"}', b" {}"],
)  # fmt: skip
def test_refuses_what_is_no_line_and_keeps_nothing(worker: Worker, line: bytes) -> None:
    before = worker.head.pos
    assert code(worker.post(line)) == "MalformedEntry"
    assert worker.head.pos == before


@pytest.mark.parametrize("levels", [2_000, 100_000])
def test_a_line_nested_too_deep_is_refused_by_name(worker: Worker, levels: int) -> None:
    line = worker.line("note", out=0).replace(b'"out":0', b'"out":' + b"[" * levels + b"]" * levels)
    assert code(worker.post(line)) == "MalformedEntry"
    body = b'{"agent":"a","run":"deep","in":' + b"[" * levels + b"]" * levels + b"}"
    answer = worker.http.post(
        "/api/v1/runs", body, content_type="application/json", headers={"Authorization": f"Bearer {worker.secret}"}
    )
    assert code(answer) == "MalformedRequest"


def test_an_empty_body_is_named(worker: Worker) -> None:
    assert code(worker.post(b"")) == "MalformedRequest"


def test_a_line_over_the_limit_is_named(worker: Worker) -> None:
    assert code(worker.post(worker.line("note", out="x" * (4 << 20)))) == "TooLarge"


def test_a_refused_batch_leaves_nothing_behind(worker: Worker) -> None:
    gate(worker, hold_reason="wait")
    before = worker.head
    worker.post(
        worker.line("tool.result", name="a", step=1, out="x" * 900), worker.line("tool.started", name="send", step=2)
    )
    assert (worker.head.pos, worker.head.bytes) == (before.pos, before.bytes)


def test_heartbeats_renew_and_tell_of_a_stop(worker: Worker) -> None:
    gate(worker, stop_name="CodeChanged", stop_message="m")
    answer = worker.call("heartbeat", {"epoch": worker.epoch, "lease_s": 5}).json()
    assert (answer["lease_s"], answer["stop"]) == (5, {"name": "CodeChanged", "message": "m"})
    worker.open()
    assert code(worker.call("heartbeat", {"epoch": 1})) == "LeaseLost"


def test_release_frees_the_run(worker: Worker) -> None:
    assert worker.head.leased
    worker.call("release", {"epoch": worker.epoch})
    assert not worker.head.leased


def test_a_run_that_waits_for_several_things_is_woken_by_each(worker: Worker) -> None:
    worker.post(worker.line("run.parked", reason="signal:go", also=["signal:stay", "approval:a1"]))
    worker.call("signals", {"name": "other"})
    assert worker.head.wake_at is None
    worker.call("signals", {"name": "stay"})
    assert worker.head.wake_at is not None
