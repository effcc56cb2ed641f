"""What asking, deciding and using have in common."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from drainboard import wire

from journals import errors as journal_errors
from runs.approvals import errors
from runs.approvals.models import Approval


def parsed(line: bytes, kind: str) -> tuple[wire.Entry, int]:
    """The entry of one line and its step. Raises `MalformedEntry`, `KindNotAllowed`."""
    try:
        entry = wire.parse(line)
    except wire.MalformedLine as e:
        raise journal_errors.MalformedEntry(str(e)) from None
    if entry.kind != kind:
        raise journal_errors.KindNotAllowed(f"this call takes {kind} entries, not {entry.kind}", kind=entry.kind)
    if entry.step is None:
        raise journal_errors.MalformedEntry(f"{kind} needs `step`, the number of the step that asks")
    if "\0" in entry.branch or not 0 < entry.step < 1 << 31:
        raise journal_errors.MalformedEntry(f"{kind}: `step` counts from 1 to 2147483647, `branch` holds no U+0000")
    return entry, entry.step


def schema_of(entry: wire.Entry, tool: str) -> str | None:
    tools = (entry.versions or {}).get("tools")
    found = tools.get(tool) if isinstance(tools, dict) else None
    return found if isinstance(found, str) else None


def text(at: datetime | None) -> str | None:
    return at.isoformat().replace("+00:00", "Z") if at else None


def one(*, lock: bool = False, **where: Any) -> Approval:
    rows = Approval.objects.select_for_update() if lock else Approval.objects
    found = rows.filter(**where).first()
    if found is None:
        raise errors.UnknownApproval(f"there is no approval {where.get('name', where.get('id'))!r} here")
    return found
