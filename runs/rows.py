"""A summary as the columns of `runs.models`. Pure: values in, values out."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any, Final

import msgspec
from drainboard import wire

from journals.binary import NULL, field, int4, int8s, timestamp
from journals.text import encode_text
from runs.facts import failure_text
from runs.safe import packed, shown, shown_id, versions_text
from runs.steps import Step
from runs.summary import StepRow, Summary
from runs.waiting import step_words, waits_for

__all__ = ["STEP_COLUMNS", "digest_of", "run_columns", "step_rows"]

STEP_COLUMNS: Final = (
    "ord", "branch", "step", "kind", "name", "status", "attempts", "effect", "key", "verdict", "confidence", "effects", "versions",
    "entries", "first_at", "last_at", "preview", "error", "said",
)  # fmt: skip
PREVIEW: Final = 160  # characters
ERROR: Final = 400


def run_columns(made: Summary, *, head: Any, closed: Mapping[str, Any], fallback_at: datetime) -> dict[str, Any]:
    """Columns of the run's row, but for its version set. `head` is the `journals.store.HeadRow`."""
    worst = made.worst_gap
    return {
        "key": head.key,
        "source": head.source,
        "runtime": head.runtime,
        "native": head.native,
        "run": shown_id(head.run),
        "agent": encode_text(head.agent),
        "environment": encode_text(head.environment),
        "status": str(made.status),
        "runtime_status": encode_text(made.runtime_status),
        "complete": made.complete,
        "in_flight": made.in_flight,
        "build": encode_text(made.build),
        "pinned_to": encode_text(made.pinned_to),
        "parked_on": encode_text(made.parked_on),
        "parked_since": made.parked_since,
        "wake_at": made.wake_at,
        "waiting_for": shown(waits_for(made, native=head.native, leased=head.leased, now=head.now), 200),
        "parent": encode_text(made.parent),
        "started_at": made.started_at,
        "ended_at": made.ended_at,
        "last_at": made.last_at or fallback_at,
        "entries": made.entries,
        "bytes": made.bytes,
        "steps": len(made.steps),
        **_current(made.current),
        "gap": str(worst.verdict) if worst else "",
        "gap_confidence": str(worst.confidence) if worst else "",
        "findings": sorted({f.code for f in made.findings}),
        "lease_until": head.lease_until,
        "worker": head.worker,
        "folded_pos": head.pos,
        "recheck_at": made.recheck_at,
        "summary": packed({**summary_of(made), "closed": closed}),
    }


def _current(step: Step | None) -> dict[str, Any]:
    return {
        "current_branch": encode_text(step.branch) if step else "",
        "current_step": _small(step.number) if step else None,
        "current_kind": step.kind if step else "",
        "current_name": shown(step.name or "", 200) if step else "",
    }


def summary_of(made: Summary) -> dict[str, Any]:
    """The parts that `show_run` gives as they are."""
    return {
        "gaps": [g.as_json() for g in made.gaps],
        "findings": [f.as_json() for f in made.findings],
        "limits": [u.as_json() for u in made.limits],
        "approvals": [a.as_json() for a in made.approvals],
        "decisions": list(made.decisions),
        "versions": made.versions,
    }


def digest_of(row: bytes) -> int:
    """64 bits that stand for a row of `step_rows`; kept beside it, so that a fold need not read what it wrote before."""
    return int.from_bytes(hashlib.blake2b(row, digest_size=8).digest(), signed=True)


def step_rows(made: Summary) -> list[bytes]:
    """One row per step: the fields of `STEP_COLUMNS` as a binary COPY takes them; `ord` counts from 1."""
    return [_step(row, n, exported=made.results_exported) for n, row in enumerate(made.steps, 1)]


def _step(row: StepRow, place: int, *, exported: bool) -> bytes:
    step, judged = row.step, row.judged
    key = next(reversed(step.keys), None)
    return b"".join((
        int4(place), _text_of(step.branch), int4(_small(step.number)), _word(step.kind), NULL if step.name is None else _text_of(step.name),
        _word(row.status), int4(_small(step.count)), _WRITE if step.write else _READ, NULL if key is None else _text_of(key),
        _word(judged.verdict), _word(judged.confidence), _word(judged.effects), NULL if row.versions is None else _jsonb(row.versions),
        int8s([s.number for s in step.entries]), timestamp(row.first_at), timestamp(row.last_at), _shown(_preview(row)), _shown(_error(row)),
        _shown(shown(step_words(row, exported=exported), ERROR)),
    ))  # fmt: skip


def _text_of(value: str) -> bytes:
    return field(encode_text(value).encode())


def _shown(value: str) -> bytes:
    return field(value.encode()) if value else _EMPTY


def _jsonb(versions: Mapping[str, Any]) -> bytes:
    return field(b"\x01" + versions_text(versions))  # version 1 of its form


@cache
def _word(value: str) -> bytes:
    """Of a closed set: a kind, a status, a verdict."""
    return field(value.encode())


_READ: Final = field(b"read")
_WRITE: Final = field(b"write")
_EMPTY: Final = field(b"")


def _small(number: int) -> int:
    """A number as its column holds it; larger ones come from files only and are shown as the largest."""
    return min(number, 2**31 - 1)


def _preview(row: StepRow) -> str:
    """The beginning of the result; empty for none and for a value that the skeleton left out."""
    results = row.step.results
    given = row.step.resolution if row.step.resolution is not None and not row.step.attempts else None
    value = results[0].entry.out if results else given.entry.out if given is not None else wire.MISSING
    if value is wire.MISSING or (isinstance(value, Mapping) and "$cut" in value):
        return ""
    text = value if isinstance(value, str) else _text(value)
    return shown(text[: PREVIEW + 1], PREVIEW)


def _text(value: Any) -> str:
    """Compact JSON; what JSON cannot hold as Python writes it."""
    try:
        return msgspec.json.encode(value).decode("utf-8")
    except (UnicodeEncodeError, TypeError, ValueError, RecursionError):
        return repr(value)


def _error(row: StepRow) -> str:
    errors = row.step.errors
    if not errors:
        return ""
    error = errors[-1].entry.error
    return shown(failure_text(error) or ("" if error is wire.MISSING else _text(error)[:ERROR]), ERROR)
