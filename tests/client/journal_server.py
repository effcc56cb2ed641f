"""A journal server in memory, over real HTTP on a loopback port: the worker API's contract for tests of the client.

Strict where the real one is: ids once, epochs, kinds, gates. Tests look into `runs`, and steer through `Journal`.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from drainboard import wire
from drainboard.values import parse_time

TOKEN = "db_test"
FORBIDDEN = {"run.started", "run.released", "run.resumed", "approval.requested"}
ENDS = {
    "run.completed": "completed",
    "run.failed": "failed",
    "run.cancelled": "cancelled",
    "run.continued": "continued",
}


class Refusal(Exception):
    def __init__(self, status: int, code: str, message: str = "", **detail: Any) -> None:
        super().__init__(code)
        self.status = status
        self.body = {
            "error": {"code": code, "message": message or code, "detail": detail, "retry": code == "LeaseHeld"}
        }


class Journal:
    """One run's journal and gate."""

    def __init__(self, key: str, run: str, agent: str, environment: str, task: Any) -> None:
        self.key, self.run, self.agent, self.environment, self.task = key, run, agent, environment, task
        self.entries: list[dict[str, Any]] = []
        self.stored: dict[str, tuple[bytes, int]] = {}  # id -> (line, position)
        self.epoch = 0
        self.lease_until = 0.0
        self.ended = self.parked_on = self.hold = self.pinned = self.stop_name = self.stop_message = ""
        self.wake_at: float | None = None
        self.build = ""
        self.gated: set[str] = set()
        self.policies: dict[str, int] = {}
        self.appends = 0

    def record(self, **fields: Any) -> int:
        """The server's own entry."""
        pos = len(self.entries) + 1
        stamp = datetime.now(UTC).isoformat()
        made = {"seq": pos, "recorded_at": stamp, "run": self.run, "id": f"s.{pos}", **fields}
        self.entries.append(json.loads(wire.encode(made)))
        return pos

    def kinds(self) -> list[str]:
        return [e["kind"] for e in self.entries]

    def of(self, *kinds: str) -> list[dict[str, Any]]:
        return [e for e in self.entries if e["kind"] in kinds]

    def expire(self) -> None:
        """What a crash leaves after a while: a lease that ran out."""
        self.lease_until = 0.0

    def stop(self, name: str, message: str) -> None:
        self.stop_name, self.stop_message = name, message
        self.record(kind="stop.requested", reason=name, message=message)

    def decide(self, approval: str, decision: str, **more: Any) -> None:
        self.record(kind="approval.decided", approval=approval, decision=decision, **{"by": "bob", **more})
        self.wake_at = time.time()

    def resolve(self, step: int, outcome: str, *, branch: str = "", **more: Any) -> None:
        self.record(kind="gap.resolved", step=step, branch=branch, outcome=outcome, by="alice", **more)
        self.epoch += 1
        self.parked_on = ""

    @property
    def runnable(self) -> bool:
        awake = not self.parked_on or (self.wake_at is not None and self.wake_at <= time.time())
        return not (self.ended or self.stop_name or self.hold) and self.lease_until <= time.time() and awake

    def open(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        if self.ended:
            raise Refusal(409, "RunEnded", ended=self.ended, stop=self.stop_name, message=self.stop_message)
        if self.stop_name:
            raise Refusal(409, "RunStopped", name=self.stop_name, message=self.stop_message)
        if self.hold:
            raise Refusal(409, "RunHeld", reason=self.hold)
        if self.pinned and self.pinned != asked["build"]:
            raise Refusal(409, "PinnedToBuild", pinned_to=self.pinned)
        if self.lease_until > time.time():
            raise Refusal(409, "LeaseHeld")
        self.epoch += 1
        self.lease_until = time.time() + asked["lease_s"]
        self.parked_on, self.wake_at, self.build = "", None, asked["build"]
        pos = self.record(kind="run.resumed", build=self.build, epoch=self.epoch, worker=asked["worker"])
        page = self.entries[:1000]
        return {
            "key": self.key, "run": self.run, "agent": self.agent, "environment": self.environment, "epoch": self.epoch,
            "lease_s": asked["lease_s"], "pos": pos, "in": self.task, "policies": self.policies, "stop": None,
            "continued": [], "entries": page, "next": None if len(page) == pos else page[-1]["seq"],
        }  # fmt: skip

    def owned(self, epoch: int) -> None:
        if self.ended:
            raise Refusal(409, "RunEnded", ended=self.ended, stop=self.stop_name, message=self.stop_message)
        if epoch != self.epoch:
            raise Refusal(409, "LeaseLost", epoch=self.epoch)

    def append(self, lines: list[bytes], epoch: int, seen: int | None, *, granted: bool = False) -> dict[str, Any]:
        self.appends += 1
        before = len(self.entries)
        parsed = [self._checked(raw, granted) for raw in lines]
        known = [self.stored.get(e["id"]) for e in parsed]
        for entry, raw, old in zip(parsed, lines, known, strict=True):
            if old is not None and old[0] != raw:
                raise Refusal(409, "EntryConflict", id=entry["id"])
        if all(known):
            return {"positions": [old[1] for old in known if old], "pos": before}
        self.owned(epoch)
        self._gate(parsed, known, granted)
        positions = []
        for entry, raw, old in zip(parsed, lines, known, strict=True):
            positions.append(old[1] if old else self._insert(entry, raw, seen, before))
        return {"positions": positions, "pos": len(self.entries)}

    def _checked(self, raw: bytes, granted: bool) -> dict[str, Any]:
        if not raw.startswith(b"{"):
            raise Refusal(400, "MalformedEntry")
        if len(raw) > 4 << 20:
            raise Refusal(413, "TooLarge", size=len(raw))
        wire.parse(raw)
        entry: dict[str, Any] = json.loads(raw)
        if entry["run"] != self.run or not entry["id"].startswith(tuple("123456789")) or "seq" in entry:
            raise Refusal(400, "MalformedEntry", "run, id or seq is wrong")
        if entry["kind"] not in wire.WORKER_KINDS or (entry["kind"] in FORBIDDEN and not granted):
            raise Refusal(403, "KindNotAllowed", kind=entry["kind"])
        return entry

    def _gate(self, parsed: list[dict[str, Any]], known: list[Any], granted: bool) -> None:
        blocked = None
        if self.stop_name:
            blocked = Refusal(409, "RunStopped", name=self.stop_name, message=self.stop_message)
        elif self.hold:
            blocked = Refusal(409, "RunHeld", reason=self.hold)
        answered = {(e.get("branch", ""), e.get("step")) for e in parsed if e["kind"].endswith((".result", ".error"))}
        for entry, old in zip(parsed, known, strict=True):
            at = (entry.get("branch", ""), entry.get("step"))
            read_start = (
                entry["kind"].endswith(".started") and wire.effect_of(entry["kind"], entry.get("effect")) == "read"
            )
            closing = entry["kind"].endswith((".result", ".error")) or (read_start and at in answered)
            if blocked and not old and not closing:
                raise blocked
            if entry["kind"] == "tool.started" and entry["name"] in self.gated and not granted:
                raise Refusal(409, "ApprovalRequired", tool=entry["name"])

    def _insert(self, entry: dict[str, Any], raw: bytes, seen: int | None, before: int) -> int:
        pos = len(self.entries) + 1
        self.stored[entry["id"]] = (raw, pos)
        self.entries.append({"seq": pos, "recorded_at": datetime.now(UTC).isoformat(), **entry})
        kind = entry["kind"]
        if kind == "run.parked":
            until = parse_time(entry["until"]).timestamp() if "until" in entry else None
            self.parked_on, self.wake_at = entry["reason"], time.time() if seen is not None and seen < before else until
            self.lease_until = 0.0
        elif kind in ENDS:
            self.ended, self.lease_until = ENDS[kind], 0.0
        return pos


class JournalServer:
    """The server. `url` and `TOKEN` reach it; `fault`, when set, sees every request first and may answer for it."""

    def __init__(self) -> None:
        self.runs: dict[str, Journal] = {}
        self.builds: list[Any] = []
        self.requests: list[tuple[str, str]] = []
        self.fault: Callable[[str, str, str], str | None] | None = (
            None  # (method, path, "before"|"after") -> "drop"|a status|None
        )
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def run(self, run: str = "r1", *, agent: str = "test", task: Any = None, environment: str = "prod") -> Journal:
        """A started run, made without a request."""
        with self.lock:
            made = Journal(f"k{len(self.runs) + 1}", run, agent, environment, task)
            made.record(kind="run.started", agent=agent, environment=environment, **{"in": task})
            self.runs[made.key] = made
            return made

    def wait(self, condition: Callable[[], bool], timeout_s: float = 60) -> None:
        """Back when the condition holds after some request; fails the test when it does not in time."""
        with self.changed:
            assert self.changed.wait_for(condition, timeout_s), "the condition did not come true"

    def answer(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        with self.changed:
            self.requests.append((method, path))
            try:
                if headers.get("Authorization") != f"Bearer {TOKEN}":
                    raise Refusal(401, "NotAuthenticated")
                got = self._route(method, path.removeprefix("/api/v1"), body, headers)
            except Refusal as e:
                return e.status, json.dumps(e.body).encode()
            finally:
                self.changed.notify_all()
            return 200, got if isinstance(got, bytes) else json.dumps(got).encode()

    def _route(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Any:
        path, _, query = path.partition("?")
        parts = path.strip("/").split("/")
        if parts == ["runs"] and method == "POST":
            return self._start(json.loads(body))
        if parts == ["claims"]:
            asked = json.loads(body)
            ready = [
                r
                for r in self.runs.values()
                if r.runnable and r.agent == asked["agent"] and r.pinned in ("", asked["build"])
            ]
            return {"runs": [r.open(asked) for r in ready[: asked["limit"]]]}
        if parts == ["builds"]:
            self.builds.append(json.loads(body))
            return {"label": self.builds[-1]["label"]}
        found = self.runs.get(parts[1])
        if found is None:
            raise Refusal(404, "UnknownRun")
        return self._on_run(found, parts[2:], method, query, body, headers)

    def _start(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        old = next((r for r in self.runs.values() if r.run == asked["run"]), None)
        if old is not None and (old.agent, old.task) != (asked["agent"], asked["in"]):
            raise Refusal(409, "EntryConflict")
        made = old or self.run(asked["run"], agent=asked["agent"], task=asked["in"], environment=asked["environment"])
        return {"run": made.run, "key": made.key, "pos": len(made.entries), "created": old is None}

    def _on_run(
        self, run: Journal, rest: list[str], method: str, query: str, body: bytes, headers: Mapping[str, str]
    ) -> Any:
        if not rest:
            return {
                "run": run.run,
                "key": run.key,
                "status": run.ended or ("held" if run.hold else "running"),
                "steps": [],
            }
        if rest == ["entries"] and method == "GET":
            asked = dict(part.split("=") for part in query.split("&"))
            page = run.entries[int(asked["after"]) :][: int(asked["limit"])]
            return b"".join(json.dumps(e).encode() + b"\n" for e in page)
        epoch = int(headers.get("Drainboard-Epoch", -1))
        if rest == ["entries"]:
            seen = headers.get("Drainboard-Seen")
            return run.append(body.split(b"\n"), epoch, int(seen) if seen is not None else None)
        if rest[0] == "approvals":
            return self._approvals(run, rest[1:], body, epoch)
        asked = json.loads(body)
        if rest == ["open"]:
            return run.open(asked)
        if rest == ["signals"]:
            if run.parked_on == f"signal:{asked['name']}":
                run.wake_at = time.time()
            return {"pos": run.record(kind="signal.received", name=asked["name"], out=asked["value"])}
        run.owned(asked["epoch"])
        return self._on_owned(run, rest[0], asked)

    def _on_owned(self, run: Journal, what: str, asked: Mapping[str, Any]) -> Any:
        if what == "heartbeat":
            run.lease_until = time.time() + asked["lease_s"]
            stop = {"name": run.stop_name, "message": run.stop_message} if run.stop_name else None
            return {"lease_s": asked["lease_s"], "stop": stop, "held": run.hold or None}
        if what == "held":
            run.hold = asked["reason"]
            run.record(kind="run.held", reason=asked["reason"], detail=asked["detail"])
        elif what == "stopped":
            run.record(kind="run.stopped", reason=run.stop_name, message=run.stop_message)
            run.ended = "stopped"
        run.lease_until = 0.0
        return {"done": what}

    def _approvals(self, run: Journal, rest: list[str], body: bytes, epoch: int) -> Any:
        if not rest:
            made = run.append([body], epoch, None, granted=True)
            line = json.loads(body)
            told = {"id": line["approval"], "state": "requested", "fingerprint": line["fingerprint"], "problems": []}
            return {**told, "positions": made["positions"]}
        asked = json.loads(body)
        if rest[1] == "deliver":
            run.owned(asked["epoch"])
            pos = run.record(kind="approval.delivered", approval=rest[0])
            return {"id": rest[0], "state": "delivered", "positions": [pos]}
        request = next(e for e in run.of("approval.requested") if e["approval"] == rest[0])
        if asked["fingerprint"] != request["fingerprint"]:
            raise Refusal(409, "ApprovalMismatch", "the args differ", field="args")
        used = [e for e in run.of("approval.used") if e["approval"] == rest[0]]
        if used and used[0]["step"] != asked["step"]:
            raise Refusal(409, "ApprovalRequired", "the approval is used")
        made = [] if used else [run.record(kind="approval.used", approval=rest[0], step=asked["step"])]
        got = run.append([body], epoch, None, granted=True)
        return {**got, "positions": [*made, *got["positions"]]}


def _handler(server: JournalServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1  # head and body in one packet

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fault = server.fault(self.command, self.path, "before") if server.fault else None
            if fault is None:
                status, answer = server.answer(self.command, self.path, body, self.headers)
                fault = server.fault(self.command, self.path, "after") if server.fault else None
            if fault == "drop":
                self.close_connection = True
                return
            if fault and fault.isdigit():
                status, answer = int(fault), b"busy"
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST = _serve  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


def soon(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)
