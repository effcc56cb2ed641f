"""Who gets which run: a worker opens one by its key, or claims whatever is runnable.

Opening gives the run's next epoch and a lease, and appends `run.resumed`. What stands in the way is answered by name; what an
undecided mismatch leads to by policy (pin, stop, hold) is written first, so that a refusal always has its entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.db import connection, transaction

from journals import store
from journals.access import Bearer
from journals.errors import LeaseHeld, PinnedToBuild, Refused, RunEnded, RunHeld, RunStopped
from runs import actions as run_actions
from runs import projection
from versioning import applying, assessing, mismatch
from versioning.assessing import Pair
from versioning.ruling import UNDECIDED, Rules, Ruling

ROUND: Final = 100  # candidates looked at by one statement of a claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """The worker that wants runs."""

    worker: str
    lease_s: float
    token: Bearer

    @property
    def actor(self) -> str:
        """How the journal names it."""
        return f"worker:{self.worker}"


def open_run(head_id: int, rules: Rules, asking: Asking) -> store.HeadRow:
    """The run, opened: the head row with its new epoch.

    Raises `RunEnded`, `RunStopped`, `RunHeld`, `LeaseHeld`, `PinnedToBuild`.
    """
    projection.catch_up([head_id])
    with transaction.atomic():
        opened, refusal = _try(store.lock(head_id), rules, asking)
    if opened is None:
        raise refusal or AssertionError("neither opened nor refused")
    return opened


def claim(rules: Rules, asking: Asking, *, limit: int) -> Iterator[store.HeadRow]:
    """Opens up to `limit` runnable runs, the longest waiting first; each is committed when it is given."""
    _fold_runnable(rules)
    passed = _pairs_to_pass(rules)
    after = given = 0
    while given < limit:
        found = _candidates(rules, passed, after=after)
        for head_id in found:
            after = head_id
            with transaction.atomic():
                opened = _try_free(head_id, rules, asking)
            if opened is not None:
                given += 1
                yield opened
            if given >= limit:
                return
        if len(found) < ROUND:
            return


def _try_free(head_id: int, rules: Rules, asking: Asking) -> store.HeadRow | None:
    """Opens a candidate unless somebody else has it or is about to."""
    with connection.cursor() as cursor:
        cursor.execute(_TAKE, [head_id])
        if cursor.fetchone() is None:
            return None
    return _try(store.lock(head_id), rules, asking)[0]


def _try(head: store.HeadRow, rules: Rules, asking: Asking) -> tuple[store.HeadRow | None, Refused | None]:
    """The opened run or why not; the head is locked. A decision or policy that was written makes the rules be asked again."""
    for _ in range(4):
        refusal = _closed(head)
        if refusal is not None:
            return None, refusal
        ruling = rules.ruling(head)
        if ruling.act == "go":
            return _take(head, rules, ruling, asking), None
        if ruling.act == "refuse":
            return None, PinnedToBuild(ruling.why, pinned_to=ruling.refers_to, build=rules.build.label, key=head.key)
        _settle(head, rules, ruling)
        head = store.lock(head.id)
    raise AssertionError(f"run {head.key}: rules and journal do not come to rest")


def _closed(head: store.HeadRow) -> Refused | None:
    """Why nobody may have the run now, whatever the build."""
    if head.stop_name:
        if not head.ended and not head.leased:
            run_actions.finish_stop(head.id, actor="server")
        message = f"the run was stopped: {head.stop_name}: {head.stop_message}"
        return RunStopped(message, name=head.stop_name, message=head.stop_message, key=head.key)
    if head.ended:
        return RunEnded(f"the run is over ({head.ended}); it takes no more entries", ended=head.ended, key=head.key)
    if head.hold_reason:
        return RunHeld(f"the run is held: {head.hold_reason}", reason=head.hold_reason, key=head.key)
    if head.leased:
        until = head.lease_until.isoformat() if head.lease_until else None
        return LeaseHeld(
            f"worker {head.worker} holds the run until {until}", worker=head.worker, until=until, key=head.key
        )
    return None


def _settle(head: store.HeadRow, rules: Rules, ruling: Ruling) -> None:
    """Writes what the rules found: a decision of a person, or the agent's policy."""
    if ruling.decision is not None:
        applying.apply(ruling.decision, head.id)
        return
    found = ruling.assessment
    more = {**applying.named_differences(found), "policy": rules.on_mismatch, "to": rules.build.label}
    if ruling.act == "pin":
        applying.pin(head, build=head.open_build, reason=ruling.why, by="policy", actor="server", more=more)
    elif ruling.act == "stop":
        name = mismatch.stop_name(found.differences if found else ())
        applying.stop(head, build=rules.build, name=name, message=ruling.why, by="policy", actor="server", more=more)
    else:
        entry = {"kind": "run.held", "reason": UNDECIDED, "by": "policy", "detail": {"message": ruling.why, **more}}
        store.record(head.id, entry, actor="server", changes={"hold_reason": f"{UNDECIDED}: {ruling.why}"})


def _take(head: store.HeadRow, rules: Rules, ruling: Ruling, asking: Asking) -> store.HeadRow:
    label = rules.build.label
    if ruling.why and head.epoch > 0 and _must_continue(head, label):
        tools = applying.changed_tools(rules.assess(rules.build, assessing.pair_of(head.id)).differences)
        more = {"at_open": True}
        applying.go_on(head, build=label, reason=ruling.why, by=ruling.by, actor="server", tools=tools, more=more)
    store.change(
        head.id,
        epoch=head.epoch + 1,
        lease_until=timedelta(seconds=asking.lease_s),
        worker=asking.worker,
        open_build=label,
        open_replaces=head.pinned_build if head.pinned_build != label else "",
        build=head.build or label,
        parked_on="",
        wake_at=None,
    )
    entry = {"kind": "run.resumed", "build": label, "epoch": head.epoch + 1, "worker": asking.worker}
    store.record(head.id, entry, actor=asking.actor, token_id=asking.token.id)
    return store.head(head.id)


def _must_continue(head: store.HeadRow, label: str) -> bool:
    """Whether steps of another build stand after the last `deploy.continued` to this one."""
    if head.open_build == label:
        return False
    decided = worked = 0
    for stored in store.skeleton(head.id):
        if stored.kind == "deploy.continued" and stored.origin == "server" and stored.entry.build == label:
            decided = stored.pos
        elif stored.origin == "worker":
            worked = stored.pos
    return worked > decided


# -- claims ---------------------------------------------------------------------------------------------------------

_HERE: Final = "h.agent = %(agent)s AND h.environment = %(environment)s"
_OPEN: Final = """h.native AND h.ended = '' AND h.stop_name = '' AND h.hold_reason = ''
    AND (h.lease_until IS NULL OR h.lease_until <= statement_timestamp())"""
_FREE: Final = f"{_OPEN} AND (h.parked_on = '' OR h.wake_at <= statement_timestamp())"
# Two arms, each with its own partial index: most runs in flight sleep, and are not looked at.
_RUNNABLE: Final = f"""(SELECT * FROM journals_head h WHERE {_HERE} AND {_OPEN} AND h.parked_on = ''
    UNION ALL SELECT * FROM journals_head h WHERE {_HERE} AND {_OPEN} AND h.parked_on <> '' AND h.wake_at <= statement_timestamp())"""  # noqa: S608 - constants only, here and below
_TAKE: Final = f"SELECT 1 FROM journals_head h WHERE h.id = %s AND {_FREE} FOR UPDATE SKIP LOCKED"  # noqa: S608
_STALE: Final = f"SELECT h.id FROM {_RUNNABLE} h WHERE h.dirty AND h.epoch > 0"  # noqa: S608
_PAIRS: Final = f"""SELECT DISTINCT coalesce(r.versions_set_id, 0), r.build FROM {_RUNNABLE} h JOIN runs_run r ON r.head_id = h.id
    WHERE h.pinned_build = '' AND h.epoch > 0"""  # noqa: S608
_CANDIDATES: Final = f"""SELECT h.id FROM {_RUNNABLE} h LEFT JOIN runs_run r ON r.head_id = h.id
    WHERE h.id > %(after)s AND CASE
        WHEN h.pinned_build <> '' THEN h.pinned_build = ANY(%(chain)s)
        WHEN h.key = ANY(%(decided)s) THEN true
        WHEN h.epoch = 0 THEN %(new)s
        ELSE NOT EXISTS (SELECT 1 FROM unnest(%(sets)s::bigint[], %(bases)s::text[]) AS p(s, b)
            WHERE p.s = coalesce(r.versions_set_id, 0) AND p.b = r.build)
            OR EXISTS (SELECT 1 FROM versioning_applied a JOIN versioning_decision d ON d.id = a.decision_id
                JOIN versioning_deploy y ON y.id = d.deploy_id JOIN versioning_build b ON b.id = y.build_id
                WHERE a.head_id = h.id AND d.action = 'continue' AND b.label = ANY(%(chain)s))
    END ORDER BY h.id LIMIT %(limit)s"""  # noqa: S608


def _place(rules: Rules) -> dict[str, Any]:
    return {
        "agent": store.encode_text(rules.build.agent),
        "environment": store.encode_text(rules.environment),
    }


def _fold_runnable(rules: Rules) -> None:
    """The comparison reads the projection, so the runs that may be given are folded first."""
    with connection.cursor() as cursor:
        cursor.execute(_STALE, _place(rules))
        stale = [head_id for (head_id,) in cursor.fetchall()]
    if stale:
        projection.catch_up(stale)


def _pairs_to_pass(rules: Rules) -> list[Pair]:
    """Pairs whose runs this build gets nothing of, so that they do not stand in front of those that it may have."""
    with connection.cursor() as cursor:
        cursor.execute(_PAIRS, _place(rules))
        pairs = [Pair(row[0], row[1], True) for row in cursor.fetchall()]
    foreign = [p for p in pairs if p.base != rules.build.label]
    if not foreign and not rules.by_group:
        return []
    rules.learn(pairs)
    return [p for p in pairs if rules.leaves(p)]


def _candidates(rules: Rules, passed: list[Pair], *, after: int) -> list[int]:
    params = {
        **_place(rules),
        "after": after,
        "chain": rules.chain,
        "decided": list(rules.by_run),
        "new": not rules.leaves_new(),
        "sets": [p.versions_set for p in passed],
        "bases": [p.base for p in passed],
        "limit": ROUND,
    }
    with connection.cursor() as cursor:
        cursor.execute(_CANDIDATES, params)
        return [head_id for (head_id,) in cursor.fetchall()]
