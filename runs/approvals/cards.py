"""One open request as a card: what a person sees of it and may say about it, whoever's runtime asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from journals import store
from runs.approvals import actions, foreign, queries, together
from runs.approvals.models import Approval, State, ref_of

__all__ = ["Card", "cards_of", "of_request", "words_of"]

WORDS: Final = {
    "approve": "Approve",
    "reject": "Reject",
    "send_back": "Send back",
    "edit": "Send back with other arguments",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One request."""

    approval: Approval
    ref: str  # stands for its name in the form
    name: str
    call: str
    tool: str
    words: Sequence[tuple[str, str]]  # decision and label, those that the runtime takes
    why_not: str  # why this person may not decide
    problem: str = ""  # why nobody can
    typed: Mapping[str, str] | None = None  # what was posted and refused

    @property
    def fields(self) -> Sequence[queries.Field]:
        return queries.fields_of(self.approval)

    @property
    def hidden(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(h for f in self.fields for h in f.hidden))

    @property
    def artifact(self) -> bytes:
        return bytes(self.approval.artifact)

    @property
    def gist(self) -> str:
        return queries.gist(self.approval)

    @property
    def args(self) -> str:
        """Arguments to change, as text."""
        return (self.typed or {}).get("args", "")


def cards_of(head: store.HeadRow, user: Any, typed: Mapping[str, Mapping[str, str]] | None = None) -> list[Card]:
    """The run's open requests in the order in which they were asked; `typed` by `ref`."""
    given = typed or {}
    if not head.native:
        return [of_request(r, user, given.get(r.ref)) for r in foreign.requests(head) if r.open and r.here is None]
    open_ = list(
        Approval.objects.filter(head_id=head.id, state=State.REQUESTED).select_related("policy").order_by("pos")
    )
    made = []
    for approval, asked in zip(open_, together.asked_of(head.id, open_), strict=True):
        ref = ref_of(approval.name)
        made.append(
            Card(
                approval=approval, ref=ref, name=approval.name, call=asked.call, tool=asked.tool, words=words_of(asked.allowed),
                why_not=_why_not(approval, user), typed=given.get(ref),
            )
        )  # fmt: skip
    return made


def of_request(request: foreign.Request, user: Any, typed: Mapping[str, str] | None = None) -> Card:
    """The card of another runtime's request."""
    return Card(
        approval=request.approval, ref=request.ref, name=request.name, call=request.call, tool=request.tool, words=words_of(request.allowed),
        why_not=_why_not(request.approval, user), problem=request.problem, typed=typed,
    )  # fmt: skip


def words_of(allowed: frozenset[str]) -> list[tuple[str, str]]:
    """Decisions and their labels; other arguments only where a request says that it takes them."""
    return [(w, label) for w, label in WORDS.items() if (w in allowed if allowed else w != "edit")]


def _why_not(approval: Approval, user: Any) -> str:
    voted = list(approval.votes.values_list("person", flat=True)) if approval.pk else []
    return queries.why_not(approval, actions.person_of(user), voted)
