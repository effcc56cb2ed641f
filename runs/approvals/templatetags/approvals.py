"""What only the approval pages write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from django import template

from journals.store import StoredEntry
from runs.approvals.models import ref_of as stands_for
from runs.consent import happened_at
from runs.safe import unpacked

register = template.Library()

_WORDS: Final = {"approve": "approved", "reject": "rejected", "send_back": "sent back", "sent_back": "sent back"}


@register.filter
def said_word(decision: str) -> str:
    """A decision as a word: `approved`."""
    return _WORDS.get(decision, decision.replace("_", " "))


@register.filter
def happened(entry: StoredEntry) -> datetime | None:
    """When what an entry says happened, by who wrote it."""
    return happened_at(entry)


@register.filter
def item(values: Mapping[str, Any], name: str) -> Any:
    """The value of this name; None for none."""
    return values.get(name)


@register.filter
def ref_of(name: str) -> str:
    """The part of an address that stands for the name of another runtime's request."""
    return stands_for(unpacked(name))


@register.filter
def and_then(first: Sequence[Any], then: Sequence[Any]) -> list[Sequence[Any]]:
    """Both lists that are not empty, one behind the other."""
    return [part for part in (first, then) if part]


@register.filter
def open_count(approvals: Sequence[Mapping[str, Any]]) -> int:
    """How many requests of a run are open."""
    return sum(
        a.get("state") == "requested" and (a.get("origin") != "imported" or bool(a.get("open"))) for a in approvals
    )
