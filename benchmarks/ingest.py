"""What an import costs: `python -m benchmarks.ingest [--quick]`.

Three files: journal lines of many runs, a Temporal history of 51,200 events as `temporal workflow show --output json` prints it, and
a transcript that grows from step to step. Each is imported, and the rows that came of it, with their whole lines, are written by one
raw COPY into a table with the same columns, constraints and indexes. `import_s` and `entries_per_s` count until the entries are stored
and the import is closed; `fold_s` is what making the runs' rows of pages took after that. Ratios above 1 are quicker than COPY.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg

from benchmarks.installation import installation

EVENTS = 51_200


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round and fewer runs, under 60 seconds")
    given = parser.parse_args()
    files: dict[str, Callable[[], bytes]] = {
        "lines": lambda: b"".join(lines(500 if given.quick else 4_000)),
        "temporal": history,
        "transcript": lambda: b"".join(transcripts(12)),
    }
    with installation() as found:
        url = found.superuser_url.replace("/postgres?", "/drainboard?")
        os.environ |= {"DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "config.settings"}
        import django

        django.setup()
        took = {
            name: [_round(f"{name}-{n}", make(), url) for n in range(1 if given.quick else 3)]
            for name, make in files.items()
        }
    print(json.dumps(_told(took)))
    return 0


def _told(took: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    told: dict[str, Any] = {"benchmark": "ingest", "load": round(os.getloadavg()[0], 1), "files": {}}
    for name, rounds in took.items():
        median = {key: statistics.median(r[key] for r in rounds) for key in rounds[0]}
        told["files"][name] = {
            "runs": int(median["runs"]),
            "entries": int(median["entries"]),
            "mb": round(median["bytes"] / 1e6, 1),
            "import_s": round(median["import_s"], 2),
            "fold_s": round(median["fold_s"], 2),
            "fold_ms_per_run": round(median["fold_s"] * 1_000 / median["runs"], 2),
            "entries_per_s": round(median["entries"] / median["import_s"]),
            "copy_per_s": round(median["entries"] / median["copy_s"]),
        }
    told["ratios"] = {}
    for name, rounds in took.items():
        for what, parts in (("import", ("import_s",)), ("import+fold", ("import_s", "fold_s"))):
            ratio = statistics.median(r["copy_s"] / sum(r[part] for part in parts) for r in rounds)
            told["ratios"][f"{name} {what}/copy"] = round(ratio, 3)
    return told


def _round(source: str, data: bytes, url: str) -> dict[str, float]:
    """Seconds of one import of this file, of the folds after it, and of one COPY of its rows."""
    from journals import ingest, signals
    from journals.files import Found
    from journals.imports_models import ImportRun
    from runs import projection

    signals.entries_appended.disconnect(dispatch_uid="runs.fold")  # folds are measured by themselves
    made = ingest.submit([Found("file", len(data), lambda: io.BytesIO(data))], actor="benchmark", source=source)
    import_s = _seconds(lambda: ingest.run(made.pk))
    heads = list(ImportRun.objects.filter(file__imported=made).values_list("head_id", flat=True))
    fold_s = _seconds(lambda: projection.catch_up(heads))
    file = made.files.get()
    if file.state != "complete":
        raise SystemExit(f"{source} was not read whole: {file.reason}")
    rows = list(_rows(heads))
    copy_s = _copy(rows, url)
    return {
        "runs": len(heads), "entries": len(rows), "bytes": len(data), "import_s": import_s, "fold_s": fold_s, "copy_s": copy_s,
    }  # fmt: skip


def _rows(heads: list[int]) -> Iterator[tuple[Any, ...]]:
    from journals import store

    for head_id in heads:
        for e in store.read(head_id):
            yield (
                e.head_id, e.pos, e.recorded_at, e.epoch, e.actor, e.token_id, e.origin, store.encode_text(e.entry_id), e.seq, e.kind,
                store.encode_text(e.branch), e.step, e.attempt, e.digest, e.hash, None, e.size, e.raw, None, e.record, e.import_id,
            )  # fmt: skip


def _copy(rows: list[tuple[Any, ...]], url: str) -> float:
    with psycopg.connect(url, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS bench_copy")
        cursor.execute("CREATE TABLE bench_copy (LIKE journals_entry INCLUDING ALL)")

        def copy() -> None:
            with cursor.copy("COPY bench_copy FROM STDIN") as into:
                for row in rows:
                    into.write_row(row)

        return _seconds(copy)


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


# -- the files ------------------------------------------------------------------------------------------------------


def _text(order: random.Random, size: int) -> str:
    words = (
        "refund",
        "order",
        "the",
        "customer",
        "asked",
        "for",
        "yesterday",
        "card",
        "again",
        "receipt",
        "wrong",
        "and",
    )
    return " ".join(f"{order.choice(words)}{order.randrange(1_000)}" for _ in range(size // 10))


def lines(runs: int) -> Iterator[bytes]:
    """Runs of 20 entries of about 500 bytes: a start, six times a model's answer and a write, an end."""
    order = random.Random(1)
    versions = {"app": "refund@7", "prompt": "decide@4", "model": "m-large-2", "tools": {"send_refund": "a" * 64}}
    for i in range(runs):
        run, seq = f"refund-{i:06d}", 0

        def line(run: str = run, **fields: Any) -> bytes:
            nonlocal seq
            seq += 1
            front = {"run": run, "id": f"1.{seq}", "seq": seq, "at": f"2026-03-01T10:{seq:02d}:00Z"}
            return json.dumps({**front, **fields}, separators=(",", ":")).encode() + b"\n"

        yield line(kind="run.started", agent="refund", build="7", versions=versions, **{"in": {"order": i}})
        for step in range(1, 13, 2):
            asked, key = {"prompt": _text(order, 500)}, f"{run}:{step}"
            yield line(kind="model.result", name="decide", step=step, out={"text": _text(order, 300)}, **{"in": asked})
            write = {"name": "send_refund", "step": step + 1, "key": key}
            yield line(kind="tool.started", **write, **{"in": {"cents": order.randrange(10_000), "order": i}})
            yield line(kind="tool.result", **write, out={"receipt": _text(order, 120)})
        yield line(kind="run.completed", out={"ok": True})


def transcripts(runs: int, steps: int = 50) -> Iterator[bytes]:
    """Runs whose every step sends all messages so far: 36 MB of which 2 MB are new."""
    order = random.Random(2)
    for i in range(runs):
        messages = [json.dumps({"role": "system", "content": _text(order, 2_000)})]
        for step in range(1, steps + 1):
            messages.append(json.dumps({"role": "user", "content": _text(order, 1_000)}))
            out = json.dumps({"role": "assistant", "content": _text(order, 1_500)})
            front = f'{{"run":"chat-{i}","id":"1.{step}","seq":{step},"kind":"model.result","name":"chat","step":{step}'
            yield f'{front},"in":{{"messages":[{", ".join(messages)}]}},"out":{out}}}\n'.encode()
            messages.append(out)


def history() -> bytes:
    """A workflow of 51,200 events: activities one after the other, each with its workflow task."""
    events: list[dict[str, Any]] = []

    def add(words: str, **attributes: Any) -> str:
        n = len(events) + 1
        name = "".join(words.title().split("_"))
        events.append({
            "eventId": str(n), "eventTime": f"2026-03-01T10:{n // 60 % 60:02d}:{n % 60:02d}.{n:06d}Z", "eventType": f"EVENT_TYPE_{words}",
            "taskId": str(1_048_576 + n), f"{name[0].lower()}{name[1:]}EventAttributes": attributes,
        })  # fmt: skip
        return str(n)

    def payload(value: Any) -> dict[str, Any]:
        data = base64.b64encode(json.dumps(value).encode()).decode()
        return {"payloads": [{"metadata": {"encoding": "anNvbi9wbGFpbg=="}, "data": data}]}

    def task() -> str:
        scheduled = add("WORKFLOW_TASK_SCHEDULED", taskQueue=queue, startToCloseTimeout="10s", attempt=1)
        started = add("WORKFLOW_TASK_STARTED", scheduledEventId=scheduled, identity="worker@1", requestId="0" * 36)
        return add("WORKFLOW_TASK_COMPLETED", scheduledEventId=scheduled, startedEventId=started, identity="worker@1")

    order, queue, run = (
        random.Random(3),
        {"name": "refunds", "kind": "TASK_QUEUE_KIND_NORMAL"},
        "0190a0b0-0000-7000-8000-000000000001",
    )
    add(
        "WORKFLOW_EXECUTION_STARTED", workflowType={"name": "Refund"}, taskQueue=queue, input=payload({"order": 1}), workflowId="refund-1",
        originalExecutionRunId=run, firstExecutionRunId=run, attempt=1,
    )  # fmt: skip
    completed = task()
    while len(events) + 6 <= EVENTS:
        scheduled = add(
            "ACTIVITY_TASK_SCHEDULED", activityId=str(len(events)), activityType={"name": "send_refund"}, taskQueue=queue,
            input=payload({"order": len(events), "text": _text(order, 200)}), workflowTaskCompletedEventId=completed,
        )  # fmt: skip
        started = add("ACTIVITY_TASK_STARTED", scheduledEventId=scheduled, identity="worker@1", attempt=1)
        result = payload({"receipt": _text(order, 60)})
        add("ACTIVITY_TASK_COMPLETED", result=result, scheduledEventId=scheduled, startedEventId=started)
        completed = task()
    while len(events) < EVENTS:
        add("WORKFLOW_EXECUTION_SIGNALED", signalName="go", input=payload(1))
    return json.dumps({"events": events}, indent=2).encode()


if __name__ == "__main__":
    sys.exit(main())
