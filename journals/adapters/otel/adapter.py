"""Reads spans of OpenTelemetry's GenAI conventions: OTLP as JSON or protobuf, from files or from `POST /v1/traces`.
`docs/adapters-otel.md` gives the mapping.

A span is sent when it ends, so the evidence is `never`: a step that runs, and one that was lost in a crash, have no span.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from journals.adapters.base import AdapterInfo, Counted, Evidence, InputFile, Item, Note, Options
from journals.adapters.otel.forms import Read, is_json, read_spans
from journals.adapters.otel.lines import lines_of, run_of
from journals.adapters.otel.names import is_genai, kind_of
from journals.adapters.otel.proto import looks_like
from journals.adapters.otel.span import Span
from journals.adapters.otel.state import Seen

INFO = AdapterInfo(
    name="otel",
    title="OpenTelemetry GenAI",
    evidence=Evidence(
        write="never",
        read="never",
        attempts=False,
        says_end=False,
        note="A span is sent when it ends: a step in flight, and one that was lost in a crash, leaves nothing.",
    ),
    limits=(
        {
            "what": "attributes",
            "unit": "attributes of a span",
            "limit": 128,
            "source": "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT, default of the SDKs",
            "as_of": "2026-11-29",
        },
    ),
    how_to_export="""export OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="$DRAINBOARD/v1/traces"
export OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf
export OTEL_EXPORTER_OTLP_TRACES_HEADERS="authorization=Bearer%20$DRAINBOARD_TOKEN,drainboard-source=prod-agents\"""",
    versions_from="service.version, the model asked for, and digests of the instructions and tools.",
    together="Set these where the agent runs: its spans come by themselves, and make the source prod-agents. Nothing has to be uploaded. "
    "Files of the collector's file exporter (JSON or protobuf) can be imported like any other.",
)

_REQUEST: Final = re.compile(rb'"resource_?[sS]pans"\s*:')
_OTHER: Final = re.compile(rb'^\s*\{\s*"resource_?(?:[lL]ogs|[mM]etrics|[pP]rofiles)"\s*:')
_OURS: Final = re.compile(rb'\s*\{\s*"(?:run|seq|recorded_at|id|at|kind)"\s*:')


def sniff(files: Sequence[InputFile]) -> float:
    """How sure the adapter is about the file that it knows best."""
    return max((_sniff(file) for file in files), default=0.0)


def _sniff(file: InputFile) -> float:
    head = file.head()
    if is_json(head):
        if _OURS.match(head):
            return 0.0
        return 0.95 if _REQUEST.search(head) else 0.6 if _OTHER.search(head) else 0.0
    return 0.9 if looks_like(head) else 0.0


def read(files: Sequence[InputFile], options: Options) -> Iterator[Item]:
    """The lines of every run in the files, then what was not read. Spans of one trace in several files are one run."""
    runs: dict[str, Seen] = {}
    told = {file.path: Read() for file in files}
    spans: Counter[str] = Counter()
    for file in files:
        for span in read_spans(file, told[file.path]):
            spans[file.path] += 1
            _take(span, runs, options)
    taken, left = _sorted(runs, options)
    lines: Counter[str] = Counter()
    for seen in taken:
        for line in [*seen.lines(), seen.state(_related(seen, taken))]:
            lines[line.path] += 1
            yield line
    for file in files:
        yield from _account(file, told[file.path], spans[file.path], taken, left)
        if spans[file.path] or told[file.path].unread:
            yield Counted(file.path, lines[file.path] + len(told[file.path].unread))


def _take(span: Span, runs: dict[str, Seen], options: Options) -> None:
    kind = kind_of(span)
    seen = runs.setdefault(run_of(span), Seen(run_of(span)))
    seen.genai = seen.genai or bool(kind) or is_genai(span)
    seen.made.extend(made := list(lines_of(span, kind, options)))
    seen.add(span, span.source.text("service.version", "vcs.ref.head.revision"))
    if not made:
        seen.others.append(span.id)


def _sorted(runs: Mapping[str, Seen], options: Options) -> tuple[list[Seen], list[Seen]]:
    """Runs with a GenAI span and, behind them, those without one that the source knows already; and all others."""
    by_time = sorted(runs.values(), key=lambda seen: (min((m.order for m in seen.made), default=0), seen.run))
    genai = [seen for seen in by_time if seen.genai]
    rest = [seen for seen in by_time if not seen.genai]
    known = options.known([seen.run for seen in rest]) if rest else frozenset()
    return [*genai, *(s for s in rest if s.run in known)], [s for s in rest if s.run not in known]


def _related(seen: Seen, runs: Sequence[Seen]) -> list[str]:
    return sorted(o.run for o in runs if o is not seen and o.conversations & seen.conversations)


def _account(file: InputFile, told: Read, spans: int, taken: Sequence[Seen], left: Sequence[Seen]) -> Iterator[Item]:
    """Spans that are no entries, by how many, and what of the file was not read."""
    here = [seen for seen in taken if seen.others and any(m.line.path == file.path for m in seen.made)]
    if count := sum(len(seen.others) for seen in here):
        yield Note(file.path, f"{count} spans of GenAI traces are of other kinds (HTTP, database, …) and are no step")
    mine = [seen for seen in left if seen.path == file.path]
    if mine:
        count = sum(seen.spans for seen in mine)
        yield Note(file.path, f"{count} spans of {len(mine)} traces without a GenAI span are no run")
    yield from told.items(file.path, spans, file.cut)
    for text in file.notes:
        yield Note(file.path, text)


__all__ = ["INFO", "read", "sniff"]
