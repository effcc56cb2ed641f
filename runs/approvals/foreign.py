"""Requests of other runtimes as people decide them: read from the journal, recorded here, and told to nobody by us.

The row of such a request is made with its first decision; until then it is put together from what the export shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from drainboard import wire

from journals import store
from journals.adapters.replies import Answer
from runs import controls, projection
from runs.approvals import fingerprint, policies, records
from runs.approvals.models import Approval, State, ref_of
from runs.elsewhere import waits_for
from runs.facts import is_state_note, moment, newness
from runs.models import Run
from runs.safe import unpacked

__all__ = ["Request", "find", "replies", "requests"]

_CLOSED: Final = frozenset(("opaque_payload", "encrypted_payload"))
_OWN: Final = frozenset(
    ("run", "id", "seq", "at", "kind", "step", "branch", "checkpoint", "resolve", "reject", "oddities")
)
_OUTCOMES: Final = ("approval.decided", "approval.sent_back", "approval.expired", "approval.withdrawn", "approval.delivered", "approval.used", "signal.received")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request of another runtime."""

    name: str
    approval: Approval  # not saved before somebody decides
    open: bool  # waits for an answer, as far as the last export says
    call: str = ""
    allowed: frozenset[str] = frozenset()  # decisions that the runtime takes; empty: not told
    tool: str = ""  # of the call, where the artifact is one
    args: Any = None
    told: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""  # why a yes or no would not be about one thing
    here: store.StoredEntry | None = None  # the decision that is recorded here
    there: str | None = None  # what the runtime records of its outcome; empty: that there is one; None: nothing
    theirs: store.StoredEntry | None = None  # its entry that names who decided

    @property
    def ref(self) -> str:
        return ref_of(self.name)

    @property
    def artifact(self) -> Any:
        """What an edit is compared with."""
        return {"tool": self.tool, "args": self.args} if self.tool else None

    @property
    def differs(self) -> bool | None:
        """Whether the runtime got another answer than was decided here; None while that cannot be said."""
        if self.here is None or not self.there:
            return None
        return (self.there == "approve") != (self.here.entry.decision == "approve")


def requests(head: store.HeadRow) -> list[Request]:
    """The requests of a foreign run that are open or decided here, in the order in which they were asked; the journal is folded first."""
    projection.catch_up([head.id])
    run = Run.objects.filter(pk=head.id).only("summary").first()
    items = (
        [a for a in unpacked((run.summary or {}).get("approvals") or []) if a.get("open") or a.get("here")]
        if run
        else []
    )
    if head.native or not items:
        return []
    numbers = sorted({n for a in items for n in a["entries"]})
    entries = store.entries_at(head.id, store.positions_of(head.id, numbers)) if numbers else []
    rows = {store.decode_text(r.name): r for r in Approval.objects.filter(head_id=head.id, foreign=True)}
    waits = _waits(head)
    made = [_request(head, item, entries, waits.get(item["id"], {}), rows.get(item["id"])) for item in items]
    return sorted(made, key=lambda r: r.approval.pos)


def find(head: store.HeadRow, ref: str) -> Request | None:
    """The request with this part of an address."""
    return next((r for r in requests(head) if r.ref == ref), None)


def replies(head: store.HeadRow, asked: Sequence[Request]) -> list[controls.Told]:
    """What tells the runtime the decisions that no import has shown it to have, in its own order."""
    return controls.replies(head, [_answer(r) for r in asked if r.there is None])


def _answer(request: Request) -> Answer:
    if request.here is None:
        return Answer(approval=request.name, told=request.told)
    said = request.here.entry
    return Answer(
        approval=request.name, decision=said.decision or "send_back", comment=said.reason or "", by=said.by or "",
        edited=said.extra.get("edited"), told=request.told,
    )  # fmt: skip


def _waits(head: store.HeadRow) -> dict[str, Mapping[str, Any]]:
    """What the newest export says of each wait for an answer, by the approval's id."""
    notes = [e for e in store.read(head.id, after=max(head.pos - controls.LOOKED_AT, 0)) if is_state_note(e)]
    out = max(notes, key=newness).entry.out if notes else {}
    told = out.get("waiting") if isinstance(out, Mapping) else None
    made: dict[str, Mapping[str, Any]] = {}
    for wait in told if isinstance(told, list) else []:
        what = wait.get("what") if isinstance(wait, Mapping) else None
        if isinstance(what, str) and (name := waits_for(what)):
            made[name] = {"event_type": name, **wait} if what.startswith("signal:") else wait
    return made


def _request(
    head: store.HeadRow, item: Mapping[str, Any], entries: Sequence[store.StoredEntry], wait: Mapping[str, Any], row: Approval | None
) -> Request:  # fmt: skip
    name = item["id"]
    own = [
        e for e in entries if name in (e.entry.approval or e.entry.call or e.entry_id, e.entry_id) or _answers(e, name)
    ]
    asked = [e for e in own if e.kind == "approval.requested" and e.origin == "import"]
    last = asked[-1] if asked else None
    told = {**(_told(last) if last else {}), **{k: v for k, v in wait.items() if v is not None}}
    artifact, problem = _artifact(last, name, wait)
    tool, args = _tool_of(artifact)
    if len({bytes(_shown(e, name, {})) for e in asked}) > 1:
        problem = problem or "it was asked for more than once, with different artifacts"
    approval = _approval(head, item, last, wait, tool)
    problem = _fill(approval, head, last, artifact, problem)
    if row is not None and row.state == State.REQUESTED and row.fingerprint != approval.fingerprint:
        problem = problem or "what is asked for, or its policy, has changed since the first yes"
    made_here = [e for e in own if e.origin == "server" and e.kind in ("approval.decided", "approval.sent_back")]
    there = [e for e in own if e.origin == "import" and e.kind in _OUTCOMES]
    allowed = told.get("allowed_decisions")
    return Request(
        name=name, approval=row or approval, open=bool(item.get("open")), call=(last.entry.call or "") if last else "",
        allowed=frozenset(w for w in allowed if isinstance(w, str)) if isinstance(allowed, list) else frozenset(),
        tool=tool, args=args, told=told, problem=problem, here=made_here[-1] if made_here else None, there=_outcome(there),
        theirs=next((e for e in reversed(there) if e.entry.by), None),
    )  # fmt: skip


def _answers(seen: store.StoredEntry, name: str) -> bool:
    return seen.kind == "signal.received" and seen.entry.name == name


def _outcome(there: Sequence[store.StoredEntry]) -> str | None:
    if not there:
        return None
    words = [e.entry.decision or e.kind.partition(".")[2] for e in there]
    return next((w for w in reversed(words) if w not in ("decided", "delivered", "used", "received")), "")


def _told(seen: store.StoredEntry) -> dict[str, Any]:
    return {**seen.entry.extra, **({"call": seen.entry.call} if seen.entry.call else {})}


def _artifact(seen: store.StoredEntry | None, name: str, wait: Mapping[str, Any]) -> tuple[Any, str]:
    """What the export shows of what is asked for, and why it cannot be decided on."""
    if seen is None or seen.entry.artifact is wire.MISSING:
        return _described(seen, name, wait), ""
    odd = {*seen.entry.oddities, *(o for o in _list(seen.entry.extra.get("oddities")) if isinstance(o, str))}
    try:
        artifact = fingerprint.artifact_of(seen.raw)
    except fingerprint.AmbiguousArtifact as e:
        return seen.entry.artifact, str(e)
    return artifact, "the artifact holds a value that cannot be read here" if odd & _CLOSED else ""


def _described(seen: store.StoredEntry | None, name: str, wait: Mapping[str, Any]) -> dict[str, Any]:
    """A request without an artifact: what is told of it at all."""
    told = {**(wire.fields_of(seen.entry) if seen else {}), **wait}
    kept = {k: v for k, v in told.items() if k not in _OWN and isinstance(v, (str, int, float, bool))}
    return {"request": {**kept, "approval": name}}


def _shown(seen: store.StoredEntry, name: str, wait: Mapping[str, Any]) -> bytes:
    """The bytes of what is asked for; the line's own where they have no canonical form."""
    artifact, problem = _artifact(seen, name, wait)
    try:
        return wire.canonical(artifact) if not problem else seen.raw
    except wire.Ambiguous:
        return seen.raw


def _tool_of(artifact: Any) -> tuple[str, Any]:
    """Tool and arguments, where the artifact is a call or holds just one."""
    found = artifact
    if isinstance(artifact, Mapping) and len(artifact) == 1:
        (found,) = artifact.values()
    if not isinstance(found, Mapping):
        return "", None
    name = next((found[k] for k in ("tool", "name") if isinstance(found.get(k), str)), "")
    args = next((found[k] for k in ("args", "in") if k in found), wire.MISSING)
    return (name, args) if name and args is not wire.MISSING else ("", None)


def _approval(
    head: store.HeadRow, item: Mapping[str, Any], seen: store.StoredEntry | None, wait: Mapping[str, Any], tool: str
) -> Approval:  # fmt: skip
    entry = seen.entry if seen else None
    since = moment(wait["since"]) if isinstance(wait.get("since"), str) else None
    until = wait.get("until") or (entry.until if entry else None)
    step = item.get("step") or wait.get("step") or 0
    note = next((v for v in ((entry.extra.get("note"), entry.reason) if entry else ()) if isinstance(v, str)), "")
    return Approval(
        head_id=head.id, key=head.key, name=store.encode_text(item["id"]), branch=store.encode_text(item.get("branch") or ""),
        step=min(step if isinstance(step, int) else 0, 2**31 - 1), pos=seen.pos if seen else head.pos, agent=store.encode_text(head.agent),
        environment=store.encode_text(head.environment), run=store.encode_text(head.run), title=store.encode_text(item.get("title") or ""),
        tool=store.encode_text(tool), requested_by=store.encode_text(item.get("requested_by") or ""), asked_by="", note=store.encode_text(note),
        requested_at=moment(item.get("requested_at")) or since or (seen.recorded_at if seen else head.now),
        expires_at=moment(item.get("expires_at")) or (moment(until) if isinstance(until, str) else None), state=State.REQUESTED, foreign=True,
    )  # fmt: skip


def _fill(approval: Approval, head: store.HeadRow, seen: store.StoredEntry | None, artifact: Any, problem: str) -> str:
    """Puts the bytes and the fingerprint in; answers why there is none."""
    tool = store.decode_text(approval.tool)
    policy = policies.current(head.agent, tool) if tool and approval.tool == tool else None
    schema = records.schema_of(seen.entry, tool) if seen else None
    approval.policy, approval.needed, approval.tool_schema = (
        policy,
        policy.needed if policy else 1,
        store.encode_text(schema or ""),
    )
    place = fingerprint.Place(
        run=head.run, branch=store.decode_text(approval.branch), step=approval.step, environment=head.environment,
        policy=policy.version if policy else 0,
    )  # fmt: skip
    try:
        approval.artifact = fingerprint.canonical(artifact)
        if not problem:
            approval.fingerprint = fingerprint.fingerprint(artifact, tool_schema=schema, place=place)
    except (fingerprint.AmbiguousArtifact, wire.Ambiguous) as e:
        spans = (wire.spans_of(seen.raw) if seen else None) or {}
        approval.artifact = seen.raw[slice(*spans["artifact"])] if seen and "artifact" in spans else b"null"
        return problem or str(e)
    return problem


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
