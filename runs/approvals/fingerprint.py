"""What a yes is bound to. Pure.

The fingerprint is SHA-256 over canonical JSON of the artifact, the tool's schema digest, and where it runs: run, branch and
step of the approval, environment, policy version. Key order and spacing do not count, everything else does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drainboard import wire


class AmbiguousArtifact(ValueError):
    """The artifact can be read in more than one way, so nobody can say yes to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the approved thing will run."""

    run: str
    branch: str
    step: int  # of the approval
    environment: str
    policy: int  # version; 0 without a policy


def artifact_of(line: bytes) -> Any:
    """The artifact of an `approval.requested` line. Raises `AmbiguousArtifact` for duplicate keys, NaN, too deep or unsafe values."""
    spans = wire.spans_of(line)
    if spans is None:
        raise AmbiguousArtifact("a key stands twice in the line")
    if "artifact" not in spans:
        raise AmbiguousArtifact("the line has no artifact")
    value, odd = wire.decode(line[slice(*spans["artifact"])])
    if odd:
        raise AmbiguousArtifact(f"the artifact is ambiguous: {', '.join(odd)}")
    canonical(value)
    return value


def tool_of(artifact: Any) -> str:
    """The tool of an artifact that is a tool call, exactly `{"tool": name, "args": …}`; else empty."""
    if isinstance(artifact, dict) and set(artifact) == {"tool", "args"} and isinstance(artifact["tool"], str):
        return artifact["tool"]
    return ""


def canonical(artifact: Any) -> bytes:
    """The bytes that are hashed and shown. Raises `AmbiguousArtifact`."""
    try:
        return wire.canonical(artifact)
    except wire.Ambiguous as e:
        raise AmbiguousArtifact(f"the artifact is ambiguous: {e}") from None


def fingerprint(artifact: Any, *, tool_schema: str | None, place: Place) -> str:
    """`sha256:…` of the artifact at its place."""
    return wire.digest(
        {
            "artifact": artifact, "tool_schema": tool_schema or None, "run": place.run, "branch": place.branch, "step": place.step,
            "environment": place.environment, "policy": place.policy,
        }
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Difference:
    """The first field in which two artifacts differ."""

    field: str  # path: args.iban, args.items[2]
    approved: Any
    found: Any

    def sentence(self) -> str:
        return f"{self.field}: approved {_shown(self.approved)}, about to run {_shown(self.found)}"


def _shown(value: Any) -> str:
    return "nothing" if value is wire.MISSING else wire.encode(value).decode()[:200]


def first_difference(approved: Any, found: Any, path: str = "") -> Difference | None:
    """Where two JSON values first differ, depth first by key order; None when they are equal."""
    if isinstance(approved, Mapping) and isinstance(found, Mapping):
        for name in sorted({*approved, *found}):
            at = f"{path}.{name}" if path else name
            if name not in approved or name not in found:
                return Difference(at, approved.get(name, wire.MISSING), found.get(name, wire.MISSING))
            if differs := first_difference(approved[name], found[name], at):
                return differs
        return None
    if isinstance(approved, list) and isinstance(found, list):
        for i in range(max(len(approved), len(found))):
            one = approved[i] if i < len(approved) else wire.MISSING
            other = found[i] if i < len(found) else wire.MISSING
            if one is wire.MISSING or other is wire.MISSING:
                return Difference(f"{path}[{i}]", one, other)
            if differs := first_difference(one, other, f"{path}[{i}]"):
                return differs
        return None
    same = wire.canonical(approved) == wire.canonical(found)
    return None if same else Difference(path or "artifact", approved, found)
