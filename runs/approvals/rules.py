"""Who may decide, and whether anybody can. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

FRESH = timedelta(minutes=5)  # age of the sign-in that a high-risk decision needs


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """A policy's terms, or the default: one approver, four eyes."""

    needed: int = 1
    groups: frozenset[str] = frozenset()
    four_eyes: bool = True
    high_risk: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    name: str
    active: bool
    approver: bool  # has the role approver or admin
    groups: frozenset[str]


def why_not(person: Person, terms: Terms, *, asked_for: Iterable[str], voted: Iterable[str] = ()) -> str | None:
    """Why this person may not decide, as a sentence; None when they may. `asked_for`: who asked, and whom the agent acts for."""
    if not person.active:
        return "this account is switched off"
    if not person.approver:
        return "this needs the role approver"
    if terms.groups and not terms.groups & person.groups:
        return f"the policy names the group {' or '.join(sorted(terms.groups))}"
    if terms.four_eyes and person.name in set(asked_for):
        return "who asks, or is acted for, cannot approve (four eyes)"
    if person.name in set(voted):
        return "you have decided about this already"
    return None


def problems(people: Iterable[Person], terms: Terms, *, asked_for: Iterable[str]) -> list[str]:
    """Why this gate cannot be opened by the people there are; empty when it can."""
    asked = set(asked_for)
    able = [p for p in people if why_not(p, terms, asked_for=asked) is None]
    if len(able) >= terms.needed:
        return []
    who = f"{len(able)} {'person' if len(able) == 1 else 'people'}"
    return [f"nobody can open this gate: it needs {terms.needed} distinct approvers and {who} may decide"]


def fresh(signed_in_at: datetime | None, *, now: datetime) -> bool:
    """Whether the sign-in is young enough for a high-risk decision."""
    return signed_in_at is not None and now - signed_in_at < FRESH
