"""The calls that tell a runtime what was decided: its own ids and order, and nothing that a stranger wrote runs in a shell."""

from __future__ import annotations

import ast
import itertools
import json
import subprocess
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import pytest

from journals.adapters import ADAPTERS
from journals.adapters.controls import quoted
from journals.adapters.replies import Answer
from runs import controls

HOSTILE = 'o\'1; rm -rf $HOME `id` "x"\n--yes\u202e@/etc/passwd?a=1&b[1]{2}'
IDS = ("a" * 32, "b" * 32)


def told(runtime: str, *answers: Answer, run: str = "run-1") -> list[controls.Told]:
    head: Any = SimpleNamespace(runtime=runtime, run=run)
    return controls.replies(head, answers)


def lines(runtime: str, *answers: Answer, run: str = "run-1") -> list[str]:
    return [c.line for t in told(runtime, *answers, run=run) for c in t.commands]


def said(decision: str, **fields: Any) -> Answer:
    return Answer(
        approval="a1", decision=decision, by="bob", comment="" if decision == "approve" else "too dear", told=fields
    )


@pytest.mark.parametrize(
    ("runtime", "fields", "yes", "no"),
    [
        (
            "restate",
            {"awakeable": "sign_1abc"},
            """curl -X POST http://localhost:8080/restate/awakeables/sign_1abc/resolve --json '{"approved":true,"by":"bob"}'""",
            "curl -X POST http://localhost:8080/restate/awakeables/sign_1abc/reject --data-raw 'too dear'",
        ),
        (
            "aws",
            {"call": "eyJh+/=="},
            (
                "aws lambda send-durable-execution-callback-success --callback-id eyJh+/== --result "
                """'{"approved":true,"by":"bob"}' --cli-binary-format raw-in-base64-out"""
            ),
            (
                "aws lambda send-durable-execution-callback-failure --callback-id eyJh+/== --error "
                """'{"ErrorType":"Rejected","ErrorMessage":"too dear"}'"""
            ),
        ),
        (
            "cloudflare",
            {"event_type": "refund-approval"},
            (
                "npx wrangler workflows instances send-event WORKFLOW run-1 --type refund-approval --payload "
                """'{"approved":true,"by":"bob"}'"""
            ),
            (
                "npx wrangler workflows instances send-event WORKFLOW run-1 --type refund-approval --payload "
                """'{"approved":false,"by":"bob","reason":"too dear"}'"""
            ),
        ),
        (
            "durabletask",
            {"event_type": "Refund Approval"},
            (
                "curl -X POST -H 'content-type: application/json' -d true "
                "'https://APP/runtime/webhooks/durabletask/instances/run-1/raiseEvent/Refund%20Approval?code=KEY'"
            ),
            (
                "curl -X POST -H 'content-type: application/json' -d false "
                "'https://APP/runtime/webhooks/durabletask/instances/run-1/raiseEvent/Refund%20Approval?code=KEY'"
            ),
        ),
        (
            "temporal",
            {"event_type": "approve"},
            """temporal workflow signal -w run-1 --name approve --input '{"approved":true,"by":"bob"}'""",
            """temporal workflow signal -w run-1 --name approve --input '{"approved":false,"by":"bob","reason":"too dear"}'""",
        ),
    ],
)
def test_a_runtime_has_its_call_for_yes_and_for_no(runtime: str, fields: dict[str, Any], yes: str, no: str) -> None:
    assert lines(runtime, said("approve", **fields)) == [yes]
    assert lines(runtime, said("reject", **fields)) == [no]
    assert lines(runtime, said("send_back", **fields)) == [no]
    assert lines(runtime, said("", **fields)) == []


def test_without_the_id_that_a_call_needs_there_is_none() -> None:
    assert lines("restate", said("approve")) == []  # a promise is resolved by a handler of its workflow
    assert lines("aws", said("reject")) == []
    assert told("lines", said("approve"))[0].commands == ()


def asked(*decisions: str, group: str = IDS[0], first: int = 1) -> list[Answer]:
    return [
        Answer(
            approval=f"{group}:c{n}",
            decision=word,
            comment="no",
            told={"interrupt": group, "action": n, "call": f"c{n}"},
        )
        for n, word in enumerate(decisions, first)
    ]


def resumed(*answers: Answer) -> list[Any]:
    return [
        json.loads(line.split(" -d ")[1].strip("'"))["command"]["resume"] for line in lines("langgraph", *answers)[1::2]
    ]


def test_the_middlewares_list_is_in_its_own_order_whatever_that_of_the_answers() -> None:
    answers = asked("approve", "reject", "approve")
    for order in itertools.permutations(answers):
        assert resumed(*order) == [
            {"decisions": [{"type": "approve"}, {"type": "reject", "message": "no"}, {"type": "approve"}]}
        ]


def test_a_list_with_a_hole_is_not_told() -> None:
    (one,) = told("langgraph", *asked("approve", ""))
    assert (one.about, one.missing, one.commands) == ((f"{IDS[0]}:c1",), (f"{IDS[0]}:c2",), ())


def test_several_interrupts_are_answered_by_their_ids() -> None:
    answers = [*asked("approve", group=IDS[0]), *asked("reject", group=IDS[1])]
    by_id = {IDS[0]: {"decisions": [{"type": "approve"}]}, IDS[1]: {"decisions": [{"type": "reject", "message": "no"}]}}
    assert resumed(*answers) == [by_id]
    assert resumed(asked("approve")[0], *asked("", group=IDS[1])) == [{IDS[0]: by_id[IDS[0]]}]


def test_a_question_of_the_graphs_own_code_gets_true_or_false() -> None:
    """An object with a no in it would be true to code that asks `if answer:`."""
    for decision, value in (("approve", True), ("reject", False), ("send_back", False)):
        assert resumed(Answer(approval=IDS[0], decision=decision, comment="no")) == [value]


@pytest.mark.parametrize(
    "runtime", sorted(r for r, a in ADAPTERS.items() if any(c.action in ("approve", "reject") for c in a.INFO.controls))
)
def test_nothing_that_a_stranger_wrote_is_more_than_a_word_of_the_command(runtime: str) -> None:
    fields = dict.fromkeys(("awakeable", "call", "event_type", "interrupt"), HOSTILE) | {"action": 1}
    for decision in ("approve", "reject"):
        answer = Answer(
            approval=HOSTILE,
            decision=decision,
            by=HOSTILE,
            comment=HOSTILE,
            edited={"tool": "t", "args": HOSTILE},
            told=fields,
        )
        made = [c for t in told(runtime, answer, run=HOSTILE) for c in t.commands]
        assert made
        for command in made:
            assert "\n" not in command.line
            assert "\u202e" not in command.line
            if command.line.startswith("graph."):
                assert HOSTILE in {n.value for n in ast.walk(ast.parse(command.line)) if isinstance(n, ast.Constant)}
                continue
            script = f"printf '%s\\0' {command.line}"
            done = subprocess.run(["bash", "-c", script], capture_output=True, check=True)
            words = done.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]
            assert words[0] in ("curl", "aws", "npx", "temporal")
            assert {"rm", "-rf", "id", "--yes", "uid"}.isdisjoint(words)
            assert any("rm -rf $HOME `id`" in unquote(w) for w in words)  # as it was written, in one word


def test_an_event_name_is_one_part_of_its_address() -> None:
    (line,) = lines("durabletask", said("approve", event_type="../../terminate?x"), run="a b")
    assert (
        quoted("https://APP/runtime/webhooks/durabletask/instances/a%20b/raiseEvent/..%2F..%2Fterminate%3Fx?code=KEY")
        in line
    )
