"""How each file of an import comes out: its counts, notes and losses, and where its records went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from journals.adapters.aws import scan
from journals.adapters.base import Counted, Item, Note, Partial, Refused, Unread, shown


@dataclass(slots=True)
class FileRead:
    """How one file comes out."""

    scanned: scan.Scanned
    lines: int = 0
    repeats: int = 0  # records that stand elsewhere in the import with the same content
    bare: int = 0  # records without their data, of which another answer has the data
    runs: list[str] = field(default_factory=list)
    used: list[str] = field(default_factory=list)  # runs that took facts out of this file
    notes: list[str] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    unread: list[Unread] = field(default_factory=list)
    losses: list[Partial] = field(default_factory=list)


def close(one: FileRead, how_to_export: str) -> Iterator[Item]:
    """What is said of a file as a whole, after its lines."""
    path, scanned = one.scanned.path, one.scanned
    unread = [*scanned.unread, *one.unread]
    if not one.lines and not one.repeats and not one.bare and not one.used and not one.skipped:
        yield Refused(path, _why_not(one, how_to_export))
        return
    for told in [*one.notes, *_accounts(one)]:
        yield Note(path, told)
    yield from unread
    losses = list(one.losses)
    if scanned.torn:
        losses.append(Partial(path, scanned.torn))
    if scanned.broken and not losses:
        losses.append(Partial(path, scanned.broken, code="missing_entry"))
    if unread and not losses:
        losses.append(Partial(path, "records of it were not read", code="missing_entry"))
    yield from dict.fromkeys(losses)
    yield Counted(path, one.lines + len(unread))


def _accounts(one: FileRead) -> Iterator[str]:
    """Where records went that became no line of their own."""
    if one.repeats:
        yield f"{one.repeats} records stand more than once in this import with the same content; each is one entry"
    if one.bare:
        yield f"{one.bare} records are here without their data, and with it in another answer of this import; that one was read"
    for what, n in one.skipped.items():
        yield f"{n} {what}, not read"
    if one.used:
        runs = list(dict.fromkeys(one.used))
        yield f"facts about {', '.join(runs[:3])}{f' and {len(runs) - 3} more' if len(runs) > 3 else ''}"
    if others := one.scanned.others:
        more = f" and {len(others) - 8} more" if len(others) > 8 else ""
        yield f"no answers of Lambda and not read: {', '.join(shown(o, 60) for o in others[:8])}{more}"


def _why_not(one: FileRead, how_to_export: str) -> str:
    """Why nothing of a file was taken, and what to export instead."""
    head = one.scanned.file.head(65_536)
    if not head.strip():
        return "empty file"
    if one.unread:
        return one.unread[0].reason
    if one.scanned.answers:
        return "an answer of Lambda's durable execution API without any record in it"
    if b'"DurableExecutionArn"' in head or b'"EventType"' in head:
        return (
            f"it describes or mentions durable executions and holds no answer of the API. Export with: {how_to_export}"
        )
    return f"no answer of Lambda's durable execution API. Export with: {how_to_export}"
