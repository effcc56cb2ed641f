"""Spans for the tests of the OpenTelemetry adapter: captures, spans made here, and what is folded of them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from journals.adapters import otel
from journals.adapters.base import InputFile, Item, Line, Options
from runs.summary import Summary
from tests.runs.journal import Entry, fold_import, imported

FOLDER = Path(__file__).parent.parent / "fixtures/adapters/otel"
NAMES = sorted(p.stem for p in FOLDER.glob("*.jsonl"))
TRACE = "5b8efff798038103d269b633813fc60c"
_IDS = ("traceId", "spanId", "parentSpanId")


def capture(name: str) -> list[bytes]:
    """The lines of a capture, one span each."""
    return (FOLDER / f"{name}.jsonl").read_bytes().splitlines()


def request(*spans: dict[str, Any], **resource: str) -> bytes:
    """One line with these spans of one resource."""
    told = [{"key": k.replace("__", "."), "value": {"stringValue": v}} for k, v in resource.items()]
    return json.dumps(
        {"resourceSpans": [{"resource": {"attributes": told}, "scopeSpans": [{"spans": list(spans)}]}]}
    ).encode()


def span(name: str = "chat m", attributes: dict[str, Any] | None = None, **given: Any) -> dict[str, Any]:
    """A span from second 1 to second 2 with these attributes, as OTLP JSON writes them."""
    forms = {str: "stringValue", bool: "boolValue", int: "intValue", float: "doubleValue"}
    listed = [{"key": k, "value": {forms[type(v)]: v}} for k, v in (attributes or {}).items()]
    made = {"traceId": TRACE, "spanId": "00000000000000c1", "parentSpanId": "00000000000000a0", "name": name}
    times = {"startTimeUnixNano": "1785744001000000000", "endTimeUnixNano": "1785744002000000000"}
    return {**made, **times, "attributes": listed, **given}


def read(*files: bytes, options: Options | None = None) -> list[Item]:
    return list(otel.read([InputFile.of(f"f{n}", data) for n, data in enumerate(files)], options or Options()))


def raws(items: Iterable[Item]) -> list[bytes]:
    return [i.raw for i in items if isinstance(i, Line)]


def entries(*files: bytes, options: Options | None = None) -> list[dict[str, Any]]:
    """The decoded lines, without the notes of state."""
    made = [json.loads(raw) for raw in raws(read(*files, options=options))]
    return [e for e in made if e.get("name") != "runtime.state"]


def folded(*batches: bytes) -> dict[str, Summary]:
    """Runs of these batches, each one import, in the order in which they came."""
    runs: dict[str, list[Entry]] = {}
    for n, batch in enumerate(batches, 1):
        known = Options(known=lambda wanted: frozenset(r for r in wanted if r in runs))
        lines: dict[str, list[bytes]] = {}
        for item in read(batch, options=known):
            if isinstance(item, Line):
                lines.setdefault(item.run, []).append(item.raw)
        for run, found in lines.items():
            had = runs.setdefault(run, [])
            new = imported(found, import_id=n, after=len(had))
            seen = {(e.entry_id, e.digest) for e in had}
            had.extend(e for e in new if (e.entry_id, e.digest) not in seen)
            for pos, entry in enumerate(had, 1):
                entry.pos = pos
    return {run: fold_import(found, evidence=otel.INFO.evidence) for run, found in runs.items()}


def told(summary: Summary) -> dict[str, Any]:
    """What a page says of a run, without the numbers by which entries happened to be stored."""
    steps = [(r.step.number, r.step.kind, r.step.name, str(r.status), r.judged.verdict, r.judged.confidence, r.judged.effects) for r in summary.steps]  # fmt: skip
    gaps = [(g.step, g.kind, g.name, g.verdict, g.confidence, g.effects) for g in summary.gaps]
    return {
        "status": summary.status,
        "complete": summary.complete,
        "build": summary.build,
        "parked": summary.parked_on,
        "steps": steps,
        "gaps": gaps,
        "findings": sorted((f.code, str(f.severity)) for f in summary.findings),
        "versions": summary.version_set,
    }


def protobuf(lines: Sequence[bytes]) -> bytes:
    """The same spans as one `ExportTraceServiceRequest`."""
    made = ExportTraceServiceRequest()
    for line in lines:
        one = ExportTraceServiceRequest()
        json_format.ParseDict(_base64(json.loads(line)), one)
        made.resource_spans.extend(one.resource_spans)
    return made.SerializeToString()


def _base64(value: Any) -> Any:
    """Ids in base64, as protobuf's own JSON has them."""
    if isinstance(value, dict):
        return {k: base64.b64encode(bytes.fromhex(v)).decode() if k in _IDS else _base64(v) for k, v in value.items()}
    return [_base64(v) for v in value] if isinstance(value, list) else value


def base64_ids(line: bytes) -> bytes:
    return json.dumps(_base64(json.loads(line))).encode()
