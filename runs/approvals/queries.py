"""What the approval pages show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from drainboard import wire

from journals import store
from runs import controls, pretty
from runs.approvals import actions, policies, rules
from runs.approvals.models import Approval, Policy, State
from runs.facts import moment
from runs.models import Run
from runs.queries import nobody_resumes

VIEWS = ("mine", "open", "decided")
PAGE = 50  # requests a page
LONG = 400  # characters from which a value is folded until somebody opens it


@dataclass(frozen=True, slots=True)
class Row:
    """One request in the inbox."""

    approval: Approval
    may: bool  # this person may decide
    why_not: str
    gist: str  # the artifact in one line
    have: int  # people who said yes so far
    of: str = ""  # the other runtime that asks
    together: int = 0  # requests of the run that are open, where there are several


def waiting(view: str, *, agent: str = "", environment: str = "") -> QuerySet[Approval]:
    """Requests of a view: undecided ones oldest first, decided ones newest first."""
    rows = Approval.objects.select_related("policy").prefetch_related("votes")
    if agent:
        rows = rows.filter(agent=agent)
    if environment:
        rows = rows.filter(environment=environment)
    if view == "decided":
        return rows.exclude(state=State.REQUESTED).order_by("-id")
    return rows.filter(foreign=False, state=State.REQUESTED).order_by("requested_at", "id")


def inbox(
    view: str, user: Any, *, agent: str = "", environment: str = "", after: int = 0
) -> tuple[list[Row], int | None]:
    """A page of rows for this person, and where the next begins. `mine` leaves out what they may not decide."""
    person = actions.person_of(user)
    rows = waiting(view, agent=agent, environment=environment)
    if after:
        rows = rows.filter(id__lt=after) if view == "decided" else rows.filter(id__gt=after).order_by("id")
    made = []
    for approval in rows[: PAGE * 10]:
        row = _row(approval, person)
        if view != "mine" or row.may:
            made.append(row)
        if len(made) > PAGE:
            return made[:PAGE], made[PAGE - 1].approval.id
    return made, None


def _row(approval: Approval, person: rules.Person) -> Row:
    votes = list(approval.votes.all())
    why = why_not(approval, person, [v.person for v in votes])
    of = "another runtime" if approval.foreign else ""
    return Row(approval, why == "", why, gist(approval), sum(v.decision == "approve" for v in votes), of)


def why_not(approval: Approval, person: rules.Person, voted: Sequence[str]) -> str:
    """Why this person may not decide; empty when they may."""
    if approval.state != State.REQUESTED:
        return f"it is {State(approval.state).label} already"
    asked = actions.asked_for(approval)
    return rules.why_not(person, policies.terms(approval.policy), asked_for=asked, voted=voted) or ""


def count_for(user: Any, environment: str = "") -> int:
    """How many requests this person may decide now; counted up to 100."""
    person = actions.person_of(user)
    if not person.approver:
        return 0
    found = waiting("open", environment=environment)[:200]
    theirs, _ = of_other_runtimes("mine", user, environment=environment)
    return min(100, sum(_row(a, person).may for a in found) + len(theirs))


def of_other_runtimes(
    view: str, user: Any, *, agent: str = "", environment: str = "", after: int = 0
) -> tuple[list[Row], int | None]:
    """Open requests of other runtimes, of up to `PAGE` runs in the order in which they came, and behind which run the next begin.

    They are read from the runs' rows; what exactly is asked for stands on the request's page.
    """
    if view == "decided":
        return [], None
    runs = _asking(agent=agent, environment=environment).filter(pk__gt=after).order_by("pk")
    values = runs.values_list("pk", "key", "run", "agent", "environment", "runtime", "summary__approvals", "last_at")[
        : PAGE + 1
    ]
    found, person = list(values), actions.person_of(user)
    rows = {(r.head_id, r.name): r for r in _begun([v[0] for v in found])}
    terms = _Terms()
    made = [
        _their_row(value, item, rows.get((value[0], item["id"])), person, terms)
        for value in found[:PAGE]
        for item in value[6] or []
        if item.get("open")
    ]
    return [r for r in made if view != "mine" or r.may], found[PAGE - 1][0] if len(found) > PAGE else None


def count_of_other_runtimes() -> int:
    """Open requests of other runtimes, of the first 200 runs."""
    listed = _asking().values_list("summary__approvals", flat=True)[:200]
    return sum(bool(item.get("open")) for items in listed for item in items or [])


def _asking(*, agent: str = "", environment: str = "") -> QuerySet[Run]:
    runs = Run.objects.filter(native=False, in_flight=True, summary__contains={"approvals": [{"open": True}]})
    runs = runs.filter(agent=agent) if agent else runs
    return runs.filter(environment=environment) if environment else runs


def _begun(head_ids: Sequence[int]) -> QuerySet[Approval]:
    return Approval.objects.filter(foreign=True, head_id__in=head_ids).prefetch_related("votes")


class _Terms:
    """Terms by agent and tool, each asked for once."""

    def __init__(self) -> None:
        self.newest = {
            (p.agent, p.tool): p for p in Policy.objects.order_by("agent", "tool", "-version").distinct("agent", "tool")
        }

    def of(self, agent: str, tool: str) -> Policy | None:
        found = self.newest.get((agent, tool))
        return found if found is not None and found.active else None


def _their_row(
    value: tuple[Any, ...], item: Mapping[str, Any], begun: Approval | None, person: rules.Person, terms: _Terms
) -> Row:  # fmt: skip
    head_id, key, run, agent, environment, runtime, items, last_at = value
    tool = item.get("tool") or item.get("title") or ""
    approval = begun or Approval(
        head_id=head_id, key=key, name=item["id"], run=run, agent=agent, environment=environment, title=item.get("title") or "", tool=tool, step=0,
        pos=0, requested_by=item.get("requested_by") or "", requested_at=moment(item.get("requested_at")) or last_at, expires_at=moment(item.get("expires_at")),
        policy=terms.of(agent, tool), foreign=True,
    )  # fmt: skip
    if begun is None and approval.policy is not None:
        approval.needed = approval.policy.needed
    votes = list(begun.votes.all()) if begun else []
    why = why_not(approval, person, [v.person for v in votes])
    several = sum(bool(i.get("open")) for i in items)
    have = sum(v.decision == "approve" for v in votes)
    return Row(
        approval,
        why == "",
        why,
        "",
        have,
        controls.title_or_none(runtime) or "another runtime",
        several if several > 1 else 0,
    )


_ITS_IDS = frozenset(f"request.{name}" for name in ("approval", "awakeable", "call", "name", "what"))


def gist(approval: Approval) -> str:
    """The artifact in one line: `pay(cents 120000, iban XX00…)`; of a request of which its export tells no artifact, what waits."""
    fields = [f for f in fields_of(approval) if f.path != "tool"]
    if approval.foreign and not approval.tool and fields and all(f.path.startswith("request.") for f in fields):
        told = [f"{f.path.removeprefix('request.')} {f.text[:40]}" for f in fields if f.path not in _ITS_IDS]
        waits = f"{approval.title or 'a request'} of {approval.agent or approval.run}"
        return f"{waits} ({', '.join(told[:6])}{', …' if len(told) > 6 else ''})" if told else waits
    inner = ", ".join(f"{f.path.removeprefix('args.')} {f.text[:40]}" for f in fields[:6])
    return f"{approval.tool or 'artifact'}({inner}{', …' if len(fields) > 6 else ''})"


@dataclass(frozen=True, slots=True)
class Field:
    """One value of the artifact, as it is hashed."""

    path: str
    text: str
    hidden: tuple[str, ...]  # code points that do not show themselves
    was: str | None = None  # in the last request for this tool, when it differs

    @property
    def long(self) -> bool:
        return len(self.text) > LONG


def fields_of(approval: Approval, before: Approval | None = None) -> list[Field]:
    """Every value of the artifact by its path, the tool first, then in the order of the hashed bytes; `before` marks what changed."""
    old = dict(_leaves(wire.decode(bytes(before.artifact))[0], "")) if before else {}
    made = []
    leaves = _leaves(wire.decode(bytes(approval.artifact))[0], "")
    for path, text in sorted(leaves, key=lambda leaf: leaf[0] != "tool"):
        was = old.get(path)
        made.append(Field(path or "artifact", text, hidden_in(path + text), was if before and was != text else None))
    return made


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list) and value:
        for i, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{i}]")
    else:
        yield path, value if isinstance(value, str) else _literal(value)


def _literal(value: Any) -> str:
    try:
        return wire.canonical(value).decode()
    except wire.Ambiguous:  # shown, never decided on
        return str(getattr(value, "text", value))


def hidden_in(text: str) -> tuple[str, ...]:
    """Code points in `text` that a reader would not see: controls, bidirectional and invisible characters."""
    return tuple(dict.fromkeys(p.text for p in pretty.marks(text) if p.role == "mark"))


@dataclass(frozen=True, slots=True)
class Led:
    """The model's message that led to the request."""

    pos: int
    number: int
    name: str
    raw: bytes
    model: str
    prompt: str


def led_to(approval: Approval) -> Led | None:
    """The last model answer before the request; None when the run recorded none."""
    for entry in reversed(
        list(store.skeleton(approval.head_id, after=max(0, approval.pos - 200), limit=min(200, approval.pos - 1)))
    ):
        if entry.kind == "model.result" and entry.pos < approval.pos:
            whole = store.entries_at(approval.head_id, [entry.pos])[0]
            spans = wire.spans_of(whole.raw) or {}
            versions = whole.entry.versions or {}
            raw = whole.raw[slice(*spans["out"])] if "out" in spans else b""
            model = whole.entry.model_reported or _named(versions.get("model"))
            return Led(entry.pos, entry.number, entry.entry.name or "", raw, model, _named(versions.get("prompt"), "@"))
    return None


def _named(version: Any, joined_by: str = "") -> str:
    """A recorded prompt or model in words: `policy@12`, `m-5`; of a map every value, with its name where `joined_by` says how."""
    if isinstance(version, dict):
        return ", ".join(f"{name}{joined_by}{value}" if joined_by else str(value) for name, value in version.items())
    return "" if version is None else str(version)


def last_like(approval: Approval) -> Approval | None:
    """The run's own request for the same tool before this one: what the agent changed since. Other runs ask for other things."""
    if not approval.tool:
        return None
    return (
        Approval.objects.filter(head_id=approval.head_id, tool=approval.tool, id__lt=approval.id)
        .order_by("-id")
        .first()
    )


def nobody_can_go_on(approval: Approval) -> bool:
    """Whether no live worker could take the run on after a decision."""
    return Run.objects.filter(nobody_resumes(), pk=approval.head_id).exists()


def earlier(approval: Approval) -> QuerySet[Approval]:
    """What was asked before in this run, newest first."""
    return Approval.objects.filter(head_id=approval.head_id).exclude(id=approval.id).order_by("-id")[:20]
