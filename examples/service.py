"""A service of somebody else: a process of its own that accepts orders, and honours idempotency keys.

    python -m examples.service LEDGER [--hold-first]

Prints `{"port": N}`. `POST /<what>` with an `Idempotency-Key` accepts once per key: the ledger line is on disk before the
answer goes out, and the same key again gets the stored answer. `GET /ledger` tells what was accepted. `GET /accepted` answers
when something was. With `--hold-first` the first accepted request gets no answer before its sender is gone: the moment in
which a worker can die with the effect done and the record missing.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

WAIT_S = 60


class Ledger:
    """What was accepted, one line each, on disk before anybody hears of it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self.accepted = threading.Event()
        self.requests = 0
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self.entries: list[dict[str, Any]] = [json.loads(line) for line in lines]

    def accept(self, key: str | None, what: str, order: Any) -> tuple[dict[str, Any], bool]:
        """The entry for this key and whether it is new. Raises `ValueError` when the key was used for another order."""
        with self._lock:
            self.requests += 1
            key = key or f"none-{self.requests}"
            old = next((e for e in self.entries if e["key"] == key), None)
            if old is not None:
                if (old["what"], old["order"]) != (what, order):
                    raise ValueError(f"key {key!r} was used for another order")
                return old, False
            entry = {"number": len(self.entries) + 1, "key": key, "what": what, "order": order}
            with self._path.open("a", encoding="utf-8") as f:
                f.write(json.dumps(entry) + "\n")
                f.flush()
                os.fsync(f.fileno())
            self.entries.append(entry)
            return entry, True


class Service(ThreadingHTTPServer):
    """The process's one server; every request is a thread of its own."""

    daemon_threads = True

    def __init__(self, ledger: Ledger, *, hold_first: bool) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.ledger, self.hold_first = ledger, hold_first


class Handler(BaseHTTPRequestHandler):
    """Accepts orders and tells what was accepted."""

    server: Service

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        ledger = self.server.ledger
        try:
            entry, new = ledger.accept(self.headers.get("Idempotency-Key"), self.path.strip("/"), json.loads(body))
        except ValueError as e:
            self._answer(422, {"error": str(e)})
            return
        ledger.accepted.set()
        if self.server.hold_first and new and entry["number"] == 1:
            self._wait_until_sender_is_gone()
        else:
            self._answer(200, entry)

    def do_GET(self) -> None:
        ledger = self.server.ledger
        if self.path == "/accepted" and not ledger.accepted.wait(WAIT_S):
            self._answer(504, {"error": f"nothing was accepted in {WAIT_S} s"})
        else:
            self._answer(200, {"entries": ledger.entries, "requests": ledger.requests})

    def _wait_until_sender_is_gone(self) -> None:
        self.close_connection = True
        try:
            while self.connection.recv(1024):
                pass
        except ConnectionError:
            return

    def _answer(self, status: int, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Says nothing: standard output carries the port only."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("ledger", type=Path)
    parser.add_argument("--hold-first", action="store_true")
    given = parser.parse_args()
    server = Service(Ledger(given.ledger), hold_first=given.hold_first)
    sys.stdout.write(json.dumps({"port": server.server_address[1]}) + "\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
