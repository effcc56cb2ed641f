"""What the pages say of limits: numbers with their units, and the forecast as a sentence. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from runs.limits import duration

__all__ = ["LimitWords", "fullest", "worded"]

_WHAT: Final = {
    "entries": "entries",
    "bytes": "size of the journal",
    "steps": "steps",
    "operations": "operations",
    "result_bytes": "size of one result",
    "message_bytes": "size of one entry",
}


@dataclass(frozen=True, slots=True)
class LimitWords:
    """One limit of a run as its page shows it."""

    what: str
    limit_text: str
    used_text: str
    share_text: str
    left: str  # `about 3 h`; empty without a forecast
    forecast: str
    basis: str  # what forecasts rest on, or why there is none; the same for all limits of a run
    told_by: str  # the source of the limit, with its date
    near: bool
    entry: int | None
    share: float

    @property
    def measured(self) -> bool:
        return self.share >= 0


def worded(limits: Sequence[Mapping[str, Any]]) -> list[LimitWords]:
    """The limits in words, the one that is used most first; those that nothing measures last."""
    return sorted((_worded(item) for item in limits), key=lambda w: -w.share)


def fullest(limits: Sequence[Mapping[str, Any]]) -> LimitWords | None:
    """The limit that is used most, if any is measured."""
    measured = [item for item in limits if item.get("used") is not None]
    return worded(measured)[0] if measured else None


def _worded(item: Mapping[str, Any]) -> LimitWords:
    what, unit, used = str(item["what"]), str(item.get("unit") or ""), item.get("used")
    share = item.get("share")
    hours = item.get("hours_left")
    left = f"about {duration(hours)}" if hours is not None else ""
    warns = item.get("warns_at")
    basis = str(item.get("basis") or "")
    parts = [f"reached in {left} of activity"] if left else []
    if warns:
        parts.append(f"its runtime warns from {_amount(warns, what, unit)}")
    source = str(item.get("source") or "")
    return LimitWords(
        what=_WHAT.get(what, what.replace("_", " ")),
        limit_text=_amount(int(item["limit"]), what, unit),
        used_text="not measured" if used is None else _amount(used, what, unit),
        share_text="–" if share is None else "under 1 %" if 0 < share < 0.01 else f"{share:.0%}".replace("%", "\u202f%"),
        left=left,
        forecast="; ".join(parts) or "–",
        basis=f"Forecast: {basis}." if basis else "",
        told_by=", ".join(part for part in (source, str(item.get("as_of") or "")) if part),
        near=bool(item.get("near")),
        entry=item.get("entry"),
        share=-1.0 if share is None else float(share),
    )  # fmt: skip


def _amount(number: int, what: str, unit: str) -> str:
    """`51,200 events`; sizes in binary units, which is how limits are documented: `50 MiB`."""
    if what.endswith("bytes") or unit == "bytes":
        size, at = float(number), 0
        while size >= 1024 and at < 4:
            size, at = size / 1024, at + 1
        return f"{size:.1f}".removesuffix(".0") + "\u202f" + ("B", "KiB", "MiB", "GiB", "TiB")[at]
    return f"{number:,} {unit or what}".rstrip()
