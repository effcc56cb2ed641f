"""Reads histories of Microsoft Durable Task and Azure Durable Functions: the SDK's history export, the protocol's events, the HTTP
answers of Durable Functions, and rows of the SQL and Azure Storage providers. `docs/adapters-durabletask.md` gives the mapping.

`TaskScheduled` is written before an activity can run and says only that it is due; when a worker dies, its activity runs again
and leaves no record of it. So the evidence is `on_close` and attempts are not all recorded.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from drainboard import wire

from journals.adapters.base import (
    AdapterInfo,
    Counted,
    Evidence,
    InputFile,
    Item,
    Line,
    Note,
    Options,
    Partial,
    Refused,
    Unread,
    shown,
)
from journals.adapters.durabletask.controls import CONTROLS
from journals.adapters.durabletask.events import Snapshot, snapshots
from journals.adapters.durabletask.forms import Found, find
from journals.adapters.durabletask.lines import History, Made
from journals.adapters.durabletask.state import state_of
from journals.adapters.durabletask.values import moment_key

INFO: Final = AdapterInfo(
    name="durabletask",
    title="Durable Task / Durable Functions",
    chain_separator="/",
    evidence=Evidence(
        write="on_close",
        read="on_close",
        attempts=False,
        says_end=False,
        note="Durable Task records that an activity is scheduled before it can run, not that it runs; when a worker dies the activity runs again without a record.",
    ),
    capabilities=frozenset(("stop", "resume", "approve")),
    controls=CONTROLS,
    limits=(
        {
            "what": "bytes",
            "unit": "bytes",
            "limit": 4 * 1024 * 1024,
            "source": "gRPC's default size of a message: a longer history cannot be sent to a worker and the run hangs (durabletask 1.12)",
            "as_of": "2026-11",
        },
    ),
    how_to_export="""# Durable Functions
curl -sG "https://$APP/runtime/webhooks/durabletask/instances/$INSTANCE_ID" -d showHistory=true -d showHistoryOutput=true \\
  -d showInput=true --data-urlencode code="$KEY" > run.json
# Durable Task, with the Python SDK: versions, tags and exact ids as well
python - "$SERVER" "$INSTANCE_ID" > run.json <<'EOF'
import sys
from durabletask import client
from durabletask.extensions.history_export.models import ExportFormat, ExportFormatKind
from durabletask.extensions.history_export.serialization import orchestration_state_to_dict, serialize_history
server, instance = sys.argv[1:]
c = client.TaskHubGrpcClient(host_address=server)
made = serialize_history(
    c.get_orchestration_history(instance), instance_id=instance, fmt=ExportFormat(kind=ExportFormatKind.JSON),
    metadata=orchestration_state_to_dict(c.get_orchestration_state(instance)))
sys.stdout.buffer.write(made if isinstance(made, bytes) else made.encode())
EOF""",
    files=("run.json",),
    versions_from="the instance's version, and the tags prompt_version, model and tool_schema.",
    together="One file a run. Use one form for a source: the HTTP answer has other entry ids than the history. "
    "Rows of the SQL provider's dt.vHistory and dt.vInstances, as JSON, belong together.",
)

_SIGNS: Final[tuple[tuple[re.Pattern[bytes], float], ...]] = (
    (
        re.compile(
            rb'"event_type"\s*:\s*"(?:Orchestrator|Execution|Task|Timer|SubOrchestration|Event|Entity)\w*Event"'
        ),
        0.95,
    ),
    (re.compile(rb'"(?:orchestratorStarted|executionStarted|orchestrationState)"\s*:\s*\{'), 0.95),
    (re.compile(rb'"historyEvents"\s*:'), 0.9),
    (re.compile(rb'"instanceId"\s*:.*"runtimeStatus"\s*:', re.DOTALL), 0.9),
    (re.compile(rb'"(?:InstanceID|PartitionKey)"\s*:.*"(?:EventType|RuntimeStatus)"\s*:', re.DOTALL), 0.9),
    (re.compile(rb'"(?:EventType|RuntimeStatus)"\s*:.*"(?:InstanceID|PartitionKey)"\s*:', re.DOTALL), 0.9),
    (re.compile(rb'"instance_id"\s*:.*"(?:runtime_status|schema_version)"\s*:', re.DOTALL), 0.85),
    (re.compile(rb'"eventId"\s*:\s*-?\d+\s*,\s*"timestamp"\s*:'), 0.9),
)
_OURS: Final = re.compile(rb'\s*\{\s*"(?:run|seq|recorded_at|id|at|kind)"\s*:')


def sniff(files: Sequence[InputFile]) -> float:
    """The surest of the files."""
    return max((_sniff(f.head()) for f in files), default=0.0)


def _sniff(head: bytes) -> float:
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text[:1] not in (b"{", b"[") or _OURS.match(text):
        return 0.0
    return max((sure for sign, sure in _SIGNS if sign.search(text)), default=0.0)


def read(files: Sequence[InputFile], options: Options) -> Iterator[Item]:
    """The runs of all files, each with its `runtime.state` at its end. Answers about one run are put together over all files."""
    found = [find(f) for f in files]
    lines: Counter[str] = Counter()
    used: dict[str, dict[str, None]] = {f.path: {} for f in found}
    nameless: list[Unread] = []
    groups = _runs(snapshots(found), nameless)
    for run, shots in groups.items():
        for shot in shots:
            used[shot.path][run] = None
            for event in shot.events or []:
                used[event.path][run] = None
        for item in _run(run, shots, options):
            lines[item.path] += isinstance(item, Line)
            yield item
    for one in found:
        yield from _close(one, lines[one.path], list(used[one.path]), [u for u in nameless if u.path == one.path])


def _runs(shots: Sequence[Snapshot], nameless: list[Unread]) -> dict[str, list[Snapshot]]:
    """The answers by run. A state that does not tell the execution belongs to every run of its instance."""
    made: dict[str, list[Snapshot]] = {}
    by_instance: dict[str, list[str]] = {}
    for shot in shots:
        if shot.events is None:
            continue
        if not shot.instance:
            reason = "no event of this history names its instance"
            nameless.append(Unread(shot.path, 1, 0, reason, shown(shot.pointer)))
            continue
        made.setdefault(shot.run, []).append(shot)
        by_instance.setdefault(shot.instance, []).append(shot.run)
    for shot in shots:
        if shot.events is None and shot.instance:
            runs = [shot.run] if shot.run in made else by_instance.get(shot.instance, [shot.run])
            for run in dict.fromkeys(runs):
                made.setdefault(run, []).append(shot)
    return made


def _run(run: str, shots: Sequence[Snapshot], options: Options) -> Iterator[Item]:
    """The lines of one run out of all answers about it, older ones first, and what the newest says about it as a whole."""
    states = [s for s in shots if s.state is not None]
    told = max(states, key=lambda s: moment_key(s.updated), default=None)
    whole = [s for s in shots if s.events is not None]
    if any(s.numbered for s in whole) and not all(s.numbered for s in whole):
        path = next(s.path for s in whole if not s.numbered)
        yield Note(
            path,
            f"run {shown(run)}: its HTTP answer is not read; another form of its history is in the import and says more",
        )
        whole = [s for s in whole if s.numbered]
    _share_states(whole, states)
    histories = [History.of(s, options) for s in sorted(whole, key=_fullness)]
    if not histories and told is not None:
        histories = [History.of(told, options)]
    if not histories:
        return
    for line in _merged(run, histories):
        yield line.line(run)
    newest, last = histories[-1], histories[-1].snapshot
    for history in _shortened(histories):
        yield _state(run, history.snapshot, state_of(history, history.snapshot, history.snapshot))
    newer = told is not None and moment_key(told.updated) >= moment_key(last.updated)
    yield _state(
        run,
        last,
        state_of(newest if last.events is not None else None, last, told if told is not None and newer else last),
    )
    yield from _remarks(run, newest)


def _fullness(shot: Snapshot) -> tuple[tuple[float, str], int, int]:
    """Sorts answers about one run: the newest last, of those of one moment the one that tells most."""
    events = shot.events or []
    return moment_key(shot.as_of), len(events), sum(e.result is not wire.MISSING for e in events)


def _share_states(whole: Sequence[Snapshot], states: Sequence[Snapshot]) -> None:
    """Gives a history that states nothing about its instance the state beside it in the same wrapper, else the newest."""
    for shot in whole:
        if shot.state is None and states:
            beside = [s for s in states if s.path == shot.path and _folder(s) == _folder(shot)]
            shot.state = max(beside or states, key=lambda s: moment_key(s.updated)).state


def _remarks(run: str, newest: History) -> Iterator[Item]:
    last = newest.snapshot
    if last.form in ("sql", "table") and last.lost:
        yield Partial(last.path, "rows of its history are missing, or a row was not read", (run,), "missing_entry")
    if newest.bad_times:
        yield Note(last.path, f"run {shown(run)}: {newest.bad_times} events without a possible time")


def _folder(shot: Snapshot) -> str:
    return shot.pointer.rpartition("/")[0]


def _shortened(histories: Sequence[History]) -> Iterator[History]:
    """Earlier whole histories of which the newest lacks records: their own notes say what they held."""
    if len(histories) > 1:
        last = {m.id for m in histories[-1].lines}
        for history in histories[:-1]:
            if not history.snapshot.lost and any(
                m.id not in last for m in history.lines if not m.id.startswith("status:")
            ):
                yield history


def _merged(run: str, histories: Sequence[History]) -> list[Made]:
    """The union of the lines. Of two that differ only in how much they tell, the fuller; two that contradict stay both."""
    made: dict[str, list[Made]] = {}
    for history in histories:
        for line in history.lines:
            known = made.setdefault(line.id, [])
            for n, other in enumerate(known):
                if _covers(other.fields, line.fields):
                    break
                if _covers(line.fields, other.fields):
                    known[n] = line
                    break
            else:
                known.append(line)
    every = [line for known in made.values() for line in known]
    if any("seq" in line.fields for line in every):
        last, keyed = 0, []
        for n, line in enumerate(every):
            last = line.fields.get("seq", last)
            keyed.append((last, n, line))
        every = [k[2] for k in sorted(keyed, key=lambda k: k[:2])]
    return every


def _covers(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Whether `a` says all that `b` says, times to the microsecond. A rewind moves records, so positions do not count."""
    return all(k == "seq" or (k in a and (a[k] == v or _same_time(k, a[k], v))) for k, v in b.items())


def _same_time(name: str, a: Any, b: Any) -> bool:
    if name not in ("at", "until") or not isinstance(a, str) or not isinstance(b, str):
        return False
    (seconds, digits), (others, other) = moment_key(a), moment_key(b)
    return seconds == others and digits[:6] == other[:6] and len(a) >= len(b)


def _state(run: str, shot: Snapshot, out: Mapping[str, Any]) -> Line:
    try:
        digest = wire.digest(out)
    except wire.Ambiguous:
        digest = wire.digest_bytes(repr(out).encode("utf-8", "surrogatepass"))
    own = f"state:{digest[7:19]}"
    fields = {"id": own, "at": out["as_of"], "kind": "note", "name": "runtime.state", "out": out}
    made = Made(own, {k: v for k, v in fields.items() if v is not None}, f"{shot.pointer}#state", shot.path)
    return made.line(run)


def _close(one: Found, lines: int, runs: Sequence[str], nameless: Sequence[Unread]) -> Iterator[Item]:
    """What is said of a file as a whole, after its lines."""
    unread = [*one.unread, *nameless]
    if not lines and not runs and not one.rows:
        reasons = dict.fromkeys([*one.reasons, *(u.reason for u in unread)])
        yield Refused(
            one.path,
            "; ".join(reasons) or "no history or state of an orchestration is in it; export one with showHistory=true",
        )
        return
    if one.others:
        more = f" and {len(one.others) - 5} more" if len(one.others) > 5 else ""
        yield Note(one.path, f"no part of a history: {', '.join(shown(p) for p in one.others[:5])}{more}")
    for reason in dict.fromkeys(one.reasons):
        yield Note(one.path, f"left out: {reason}")
    if one.payloads:
        yield Note(one.path, f"{len(one.payloads)} rows of Payloads, shown with the events that name them")
    if not lines:
        yield Note(one.path, f"used beside the history of {', '.join(shown(r) for r in runs[:5]) or 'no run'}")
    yield from unread
    if one.torn:
        yield Partial(one.path, one.torn, tuple(runs))
    if one.lost:
        yield Partial(one.path, one.lost, tuple(runs), "missing_entry")
    yield Counted(one.path, lines + len(unread))
