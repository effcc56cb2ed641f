"""What a recorded step costs: `python -m benchmarks.steps [--quick]`.

Four figures from one run on one PostgreSQL with fsync on: a raw INSERT and COMMIT; our write step (two acknowledged appends) and read step
(one), through the client library and HTTP; a DBOS step. The rounds of all four are interleaved, so that a slow minute of the machine hits all.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import drainboard
import psycopg
from drainboard.worker import Worker

from benchmarks.installation import Installation, installation

DBOS_VERSION = "3.4.0"
VENV = Path(__file__).resolve().parent / "results" / "venv-dbos"
WARM_UP = 50


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer steps, under 60 seconds")
    parser.add_argument("--without-dbos", action="store_true", help="leave the DBOS step out")
    given = parser.parse_args()
    steps, rounds = (150, 2) if given.quick else (700, 3)
    kinds = ["insert", "write", "read", *([] if given.without_dbos else ["dbos"])]
    took: dict[str, list[float]] = {kind: [] for kind in kinds}
    with installation() as found:
        for _ in range(rounds):
            for kind in kinds:
                took[kind] += MEASURES[kind](found, steps)
    print(json.dumps(_told(took)))
    return 0


def _told(took: dict[str, list[float]]) -> dict[str, Any]:
    median = {kind: statistics.median(times) * 1000 for kind, times in took.items()}
    told: dict[str, Any] = {"benchmark": "steps", "steps": {k: len(v) for k, v in took.items()}}
    told["median_ms"] = {k: round(v, 3) for k, v in median.items()}
    told["p99_ms"] = {k: round(statistics.quantiles(v, n=100)[98] * 1000, 3) for k, v in took.items()}
    over = "dbos" if "dbos" in median else "insert"
    told["ratios"] = {f"{k}/{over}": round(median[k] / median[over], 3) for k in ("write", "read")}
    told["ratios"] |= {f"{k}/insert": round(median[k] / median["insert"], 2) for k in median if k != "insert"}
    return told


def insert(found: Installation, steps: int) -> list[float]:
    """Seconds of single-row INSERTs, each with its COMMIT."""
    took = []
    with psycopg.connect(found.superuser_url, autocommit=True) as c:
        c.execute("CREATE TABLE IF NOT EXISTS bench (id bigserial PRIMARY KEY, body text)")
        for i in range(steps + WARM_UP):
            began = time.perf_counter()
            c.execute("INSERT INTO bench (body) VALUES (%s)", ["x" * 200])
            if i >= WARM_UP:
                took.append(time.perf_counter() - began)
    return took


def _ours(kind: str) -> Callable[[Installation, int], list[float]]:
    def measure(found: Installation, steps: int) -> list[float]:
        took: list[float] = []

        @drainboard.agent(f"bench-{kind}", versions={"app": "bench"})
        def agent(run: Any, task: Any) -> int:
            for i in range(steps + WARM_UP):
                began = time.perf_counter()
                run.tool("noop", _noop, i, effect=kind, **({"key": run.key()} if kind == "write" else {}))
                if i >= WARM_UP:
                    took.append(time.perf_counter() - began)
            return len(took)

        client = drainboard.Client(found.url, found.worker_token)
        client.start(agent.name, None, run_id=uuid.uuid4().hex, environment="bench")
        Worker(client, agent, build="bench", environment="bench").run(until_idle=True)
        if len(took) != steps:
            raise SystemExit(f"{kind} steps: {len(took)} of {steps} were measured")
        return took

    return measure


def _noop(i: int, key: str | None = None) -> int:
    return i


_DBOS = """
import json, sys, time
from dbos import DBOS
url, n, warm = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
DBOS(config={"name": "bench", "system_database_url": url, "application_version": "bench", "log_level": "ERROR"})
@DBOS.step()
def noop(i: int) -> int: return i
took = []
@DBOS.workflow()
def work(n: int) -> int:
    for i in range(n):
        began = time.perf_counter(); noop(i); took.append(time.perf_counter() - began)
    return n
DBOS.launch(); work(warm); took.clear(); work(n)
print("RESULT " + json.dumps(took)); DBOS.destroy()
"""


def dbos(found: Installation, steps: int) -> list[float]:
    """Seconds of DBOS steps in one workflow, on the same PostgreSQL."""
    python = VENV / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
        subprocess.run(
            [str(python), "-m", "pip", "-qq", "install", f"dbos=={DBOS_VERSION}", "psycopg[binary]"], check=True
        )
    with psycopg.connect(found.superuser_url, autocommit=True) as c:
        if c.execute("SELECT 1 FROM pg_database WHERE datname = 'bench_dbos'").fetchone() is None:
            c.execute("CREATE DATABASE bench_dbos")
    url = found.superuser_url.replace("/postgres?", "/bench_dbos?")
    done = subprocess.run(
        [str(python), "-c", _DBOS, url, str(steps), str(WARM_UP)], capture_output=True, text=True, check=False
    )
    line = next((x for x in done.stdout.splitlines() if x.startswith("RESULT ")), None)
    if line is None:
        raise SystemExit(f"the DBOS baseline failed: {done.stderr[-1000:]}")
    took: list[float] = json.loads(line.removeprefix("RESULT "))
    return took


MEASURES: dict[str, Callable[[Installation, int], list[float]]] = {
    "insert": insert,
    "write": _ours("write"),
    "read": _ours("read"),
    "dbos": dbos,
}

if __name__ == "__main__":
    sys.exit(main())
