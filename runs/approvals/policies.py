"""Approval policies and the journal's gate that they keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.db import transaction

from journals import gates
from runs.approvals.models import Policy
from runs.approvals.rules import Terms


def current(agent: str, tool: str) -> Policy | None:
    """The policy that holds for a tool now; None when there is none or it was ended."""
    newest = Policy.objects.filter(agent=agent, tool=tool).order_by("-version").first()
    return newest if newest is not None and newest.active else None


def versions(agent: str) -> Mapping[str, int]:
    """Policy version by tool, for the tools of an agent that need an approval."""
    newest = Policy.objects.filter(agent=agent).order_by("tool", "-version").distinct("tool")
    return {p.tool: p.version for p in newest if p.active}


def terms(policy: Policy | None) -> Terms:
    """What a policy asks; without one, one approver who did not ask."""
    if policy is None:
        return Terms()
    return Terms(
        needed=policy.needed, groups=frozenset(policy.groups), four_eyes=policy.four_eyes, high_risk=policy.high_risk
    )


def save(
    *, agent: str, tool: str, actor: str, needed: int = 1, groups: Sequence[str] = (), four_eyes: bool = True, expires_s: int | None = None,
    high_risk: bool = False, active: bool = True,
) -> Policy:  # fmt: skip
    """The next version of a policy; closes or opens the tool's gate in the same transaction."""
    with transaction.atomic():
        gates.lock(agent)
        last = (
            Policy.objects.filter(agent=agent, tool=tool).order_by("-version").values_list("version", flat=True).first()
        )
        made = Policy.objects.create(
            agent=agent, tool=tool, version=(last or 0) + 1, active=active, needed=needed, groups=sorted(set(groups)), four_eyes=four_eyes,
            expires_s=expires_s, high_risk=high_risk, created_by=actor,
        )  # fmt: skip
        gates.keep(agent, tool, closed=active)
    return made
