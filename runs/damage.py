"""What is wrong with the journal itself: missing, torn, conflicting or repeated entries, clocks, and values that stay closed. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from runs import spans
from runs.facts import Seen, SourceFacts, moment
from runs.findings import Finding, found
from runs.states import Severity
from runs.steps import Journal
from runs.verdicts import Ground, listed

__all__ = ["codes_of", "findings"]

STEP_BACK: Final = timedelta(seconds=1)  # clocks of one machine are corrected by less than this all the time
SKEW: Final = timedelta(seconds=60)


def findings(journal: Journal, ground: Ground, *, native: bool) -> Iterator[Finding]:
    """The findings about the record, in no order."""
    yield from _missing(journal, ground.facts)
    yield from _torn(journal, ground)
    yield from _conflicting(journal)
    yield from _rewritten(journal)
    yield from _repeated(journal, ground.facts)
    yield from _outstanding(journal, ground)
    if native:
        yield from _skewed(journal.entries)
    else:
        yield from _odd(journal.entries)
    if ground.evidence.write == "before_effect" or (ground.facts is not None and ground.facts.clock_in_order):
        yield from _stepped_back(journal.entries, copied=copied_steps(ground.facts), native=native)


def _missing(journal: Journal, facts: SourceFacts | None) -> Iterator[Finding]:
    for hole in journal.holes:
        one = hole.missing == 1
        span = f"Entry {hole.first} is missing" if one else f"Entries {hole.first} to {hole.last} are missing"
        yield found(
            "missing_entry",
            f"{span}: what stood there is not known.",
            range(hole.first, min(hole.last, hole.first + 999) + 1),
            first=hole.first,
            last=hole.last,
            missing=hole.missing,
        )
    if facts is not None and facts.lost and not journal.holes:
        yield found("missing_entry", f"Part of the file was not read: {facts.lost}.", reason=facts.lost)


def _torn(journal: Journal, ground: Ground) -> Iterator[Finding]:
    if ground.torn:
        yield found(
            "torn_tail",
            f"The end of the file is missing: {ground.torn}. The last step may be incomplete, and later ones may exist.",
            [s.number for s in journal.entries[-1:]],
            reason=ground.torn,
        )


def _conflicting(journal: Journal) -> Iterator[Finding]:
    resolved = {
        s.entry.extra.get("entry_id") or s.entry.call for s in journal.entries if s.entry.kind == "conflict.resolved"
    }
    for entry_id, entries in journal.conflicts.items():
        numbers = [s.number for s in entries]
        imports = list(dict.fromkeys(s.import_id for s in entries))
        chosen = entry_id in resolved
        yield found(
            "conflicting_entry",
            f"Entry {numbers[0]} has {len(entries)} contents; all are kept"
            + (", and a person chose one." if chosen else ", and nothing here says which one is right."),
            numbers,
            severity=Severity.INFO if chosen else None,
            entry_id=entry_id,
            positions=[s.pos for s in entries],
            imports=imports,
        )


def _rewritten(journal: Journal) -> Iterator[Finding]:
    """Entries that a later import has with other content, and entries that a later export of the whole journal lacks."""
    # A span comes once, in whichever batch: two outcomes of it are a conflict and no other past.
    told_again = [e for e in journal.conflicts.values() if not any("order" in s.entry.extra for s in e)]
    changed = [e for e in told_again if len({s.import_id for s in e}) > 1]
    if changed:
        numbers = [e[0].number for e in changed]
        yield found(
            "history_rewritten",
            f"A later export tells another past: {'entry' if len(numbers) == 1 else 'entries'} {listed(numbers)} differ{'s' if len(numbers) == 1 else ''} from what was imported before. "
            "Both are kept; the earlier one was not overwritten.",
            numbers,
            positions=[[s.pos for s in e] for e in changed],
        )
    lost = journal.rewritten.entries
    if lost:
        numbers = list(dict.fromkeys(s.number for s in lost))
        again = {s.number for s in lost if s.pos in journal.rewritten.gone}
        yield found(
            "history_rewritten",
            f"A later export no longer has entr{'ies' if len(numbers) > 1 else 'y'} {listed(numbers)}, which an earlier one had, and both held the whole journal. "
            + ("What these entries record may happen again." if again else "A still later export has them again."),
            numbers,
            missing=numbers,
            compared=[list(pair) for pair in journal.rewritten.notes],
        )


def _repeated(journal: Journal, facts: SourceFacts | None) -> Iterator[Finding]:
    times = spans.received(journal.entries)
    doubles = sorted({*(facts.duplicates if facts else ()), *times})
    if doubles:
        many = len(doubles) > 1
        often = f"received {times[doubles[0]]} times" if len(doubles) == 1 and times else "received more than once"
        yield found(
            "duplicate_entry",
            f"Entr{'ies' if many else 'y'} {listed(doubles)} {'were' if many else 'was'} {often} with the same content; it counts once.",
            doubles,
            times={str(n): t for n, t in sorted(times.items())} or None,
        )


def _outstanding(journal: Journal, ground: Ground) -> Iterator[Finding]:
    """Records that hold others and have not come: they are sent when they end."""
    absent = spans.absent(journal.entries)
    if absent:
        held = [s.number for seen in absent.values() for s in seen]
        over = "" if ground.ended else ": the run may still be going on, or have died"
        yield found(
            "parent_missing",
            f"{len(absent)} record{'s' if len(absent) > 1 else ''} that hold{'' if len(absent) > 1 else 's'} entr{'y' if len(held) == 1 else 'ies'} "
            f"{listed(sorted(set(held)))} {'have' if len(absent) > 1 else 'has'} not come ({', '.join(sorted(absent)[:5])}). Such a record is sent when it ends{over}.",
            sorted(set(held)),
            missing=sorted(absent),
        )


def _odd(entries: Sequence[Seen]) -> Iterator[Finding]:
    by_code: dict[str, list[int]] = {}
    for seen in entries:
        for code in codes_of(seen):
            by_code.setdefault(code, []).append(seen.number)
    by_code = {code: list(dict.fromkeys(numbers)) for code, numbers in by_code.items()}
    words = {
        "non_standard_json": "a number that standard JSON does not have (NaN, Infinity), a key twice, a field of the wrong type, or bytes that are not UTF-8",
        "too_deep": "a value that is nested too deeply to unfold; it is kept as text",
        "opaque_payload": "a value that is kept unopened; only your own worker may open it",
        "encrypted_payload": "a value that is encrypted; its content is not visible here",
    }
    for code, numbers in by_code.items():
        yield found(code, f"{'Entries' if len(numbers) > 1 else 'Entry'} {listed(numbers)}: {words[code]}.", numbers)


def codes_of(seen: Seen) -> set[str]:
    """Finding codes of what is odd about one line: `non_standard_json`, `too_deep`, `opaque_payload`, `encrypted_payload`."""
    entry = seen.entry
    codes = set()
    for oddity in entry.oddities:
        codes.add(oddity if oddity in _CODES else "non_standard_json")
    told = entry.extra.get("oddities")
    if isinstance(told, list):
        codes.update(c for c in told if c in _CODES)
    if b'"$payload"' in seen.raw or b'"opaque"' in seen.raw:
        for value in (entry.in_, entry.out, entry.error, entry.artifact):
            codes |= _closed(value, 3)
    return codes


_CODES: Final = frozenset(("opaque_payload", "encrypted_payload", "too_deep", "non_standard_json"))


def _closed(value: Any, depth: int) -> set[str]:
    """Marks that adapters leave where a value stays closed: `{"opaque": format, "bytes", "sha256"}`, `{"$payload": {"encoding", …}}`."""
    if isinstance(value, Mapping):
        payload = value.get("$payload")
        if isinstance(payload, Mapping):
            return {"encrypted_payload" if "encrypted" in str(payload.get("encoding")) else "opaque_payload"}
        if "opaque" in value and "sha256" in value:
            return {"opaque_payload"}
        inner = list(value.values())
    elif isinstance(value, list):
        inner = value[:50]
    else:
        return set()
    if depth == 0 or not inner:
        return set()
    return set().union(*(_closed(v, depth - 1) for v in inner if isinstance(v, (Mapping, list))))


def copied_steps(facts: SourceFacts | None) -> frozenset[int]:
    """Steps of the main line that the run took over from another one; their entries keep the times of that run."""
    told = facts.out.get("copied") if facts else None
    steps = told.get("steps") if isinstance(told, Mapping) else None
    return frozenset(n for n in steps if isinstance(n, int)) if isinstance(steps, list) else frozenset()


def _stepped_back(entries: Sequence[Seen], *, copied: frozenset[int], native: bool) -> Iterator[Finding]:
    """Neighbours in reading order whose recorded times go back. Branches run side by side, so each is looked at by itself.

    Entries that came without a position stand in the order in which they came, which is none of time.
    """
    latest: dict[tuple[str, int], tuple[datetime, Seen]] = {}
    steps_back: list[tuple[Seen, Seen, float]] = []
    for seen in entries:
        entry = seen.entry
        if seen.origin == "server" or entry.kind == "note" or (seen.seq is None and not native):
            continue
        if entry.extra.get("copied_from") or (entry.step in copied and entry.branch == ""):
            continue
        at = moment(entry.at)
        if at is None or (seen.entry.kind == "run.started" and latest):
            continue  # a start that is told anew, with another build, keeps the time of that start
        place = (seen.entry.branch, seen.epoch)
        before = latest.get(place)
        if before is not None and before[0] - at > STEP_BACK:
            steps_back.append((before[1], seen, (before[0] - at).total_seconds()))
        latest[place] = (at, seen)
    if steps_back:
        first, then, seconds = max(steps_back, key=lambda s: s[2])
        yield found(
            "clock_step_back",
            f"The recorded time goes back {seconds:g} s between entries {first.number} and {then.number}"
            + (f", and {len(steps_back) - 1} more times" if len(steps_back) > 1 else "")
            + "; durations across it are not known.",
            [n for a, b, _ in steps_back for n in (a.number, b.number)],
            seconds=seconds,
            places=[{"from": a.number, "to": b.number, "seconds": s} for a, b, s in steps_back[:100]],
        )


def _skewed(entries: Sequence[Seen]) -> Iterator[Finding]:
    """A worker whose clock is more than a minute off the database's: ahead at all, or behind at every entry of its epoch."""
    by_worker: dict[tuple[str, int], list[tuple[timedelta, Seen]]] = {}
    for seen in entries:
        if seen.origin == "worker" and (at := moment(seen.entry.at)) is not None:
            by_worker.setdefault((seen.actor, seen.epoch), []).append((at - seen.recorded_at, seen))
    for (actor, epoch), lags in by_worker.items():
        ahead, at_most = max(lags, key=lambda lag: lag[0])
        if abs(ahead) > SKEW:
            seconds = ahead.total_seconds()
            yield found(
                "clock_skew",
                f"The clock of {actor.partition(':')[2] or actor} is {abs(seconds):.0f} s {'ahead' if seconds > 0 else 'behind'} (entry {at_most.number}).",
                [s.number for _, s in lags],
                worker=actor,
                epoch=epoch,
                seconds=round(seconds, 3),
            )
