"""Times, digests, sizes and states as every page shows them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.template import Context, Template

from runs.templatetags import board
from runs.words import GROUPS, word_for

NOW = datetime(2026, 11, 29, 14, 3, 11, 250_000, tzinfo=UTC)


def rendered(text: str, **context: object) -> str:
    return Template("{% load board %}" + text).render(Context(context))


def test_a_digest_shows_eight_characters_and_copies_whole() -> None:
    digest = "sha256:" + "ab" * 32
    html = rendered("{% digest d %}", d=digest)
    assert f'data-copy="{digest}"' in html
    assert ">abababab</button>" in html


def test_a_time_names_its_zone_and_stays_exact() -> None:
    html = rendered("{% clock t %}", t=NOW)
    assert 'datetime="2026-11-29T14:03:11.250000Z"' in html
    assert 'title="2026-11-29 14:03:11.250 UTC"' in html


@pytest.mark.parametrize("value", ["yesterday", "2026-13-40T00:00:00Z", None, ""])
def test_a_time_that_is_none_is_shown_as_it_is(value: object) -> None:
    assert "<time" not in rendered("{% time t %}", t=value)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "now"), (12, "12 s ago"), (180, "3 m ago"), (7200, "2 h ago"), (3 * 86400, "3 d ago"), (-22, "in 22 s")],
)
def test_a_relative_time_has_one_unit(seconds: float, words: str) -> None:
    assert board.relative_text(NOW - timedelta(seconds=seconds), NOW).replace(board.NARROW, " ") == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 ms"),
        (0.04, "40 ms"),
        (1.24, "1.2 s"),
        (185, "3 m 5 s"),
        (7800, "2 h 10 m"),
        (3 * 86400 + 4 * 3600, "3 d 4 h"),
        (86400, "1 d"),
        (None, board.NONE),
        (-2, f"{board.MINUS}2.0 s"),
    ],
)
def test_a_duration_has_two_units_at_most(seconds: float | None, words: str) -> None:
    assert board.duration(seconds).replace(board.NARROW, " ") == words


@pytest.mark.parametrize(
    ("value", "words"), [(812, "812 B"), (9_250, "9.2 kB"), (34_000_000, "34.0 MB"), (None, board.NONE)]
)
def test_a_size_has_a_unit(value: int | None, words: str) -> None:
    assert board.size(value).replace(board.NARROW, " ") == words


@pytest.mark.parametrize("state", sorted({state for group in GROUPS.values() for state in group}))
def test_every_state_has_one_sentence_and_a_meaning(state: str) -> None:
    word = word_for(state)
    assert word.mean in {"good", "waiting", "attention", "broken", "plain"}
    assert word.title.endswith(".")
    assert ". " not in word.title


def test_every_state_of_the_journal_has_a_word() -> None:
    from runs.states import ApprovalState, RunStatus, StepStatus, Verdict

    for group, states in (("run", RunStatus), ("step", StepStatus), ("verdict", Verdict), ("approval", ApprovalState)):
        assert {str(s) for s in states} <= set(GROUPS[group]), group


def test_a_state_nobody_described_is_shown_under_its_own_name() -> None:
    html = rendered("{% chip s %}", s="<b>odd</b>")
    assert "&lt;b&gt;odd&lt;/b&gt;</span>" in html
    assert 'data-mean="plain"' in html


def test_recorded_text_never_becomes_markup() -> None:
    html = rendered("{{ t|visible }}{{ t|gist }}{% json t %}", t='{"a":"<script>alert(1)</script>\u202e"}')
    assert "<script" not in html
    assert "U+202E RLO" in html


def test_a_long_value_links_to_the_whole() -> None:
    html = rendered("{% json t whole_url='/whole' %}", t="x" * 100_000)
    assert 'href="/whole"' in html
    assert "Show all 100.0" in html.replace(board.NARROW, " ")
