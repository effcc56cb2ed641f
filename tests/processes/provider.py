"""An outside service over real HTTP, whose ledger is the truth about effects, and which answers when the test lets it.

A POST with an `Idempotency-Key` has an effect once per key; the same key again gets the stored answer. Without a key it is a
question and has none. `Sender` says which worker asks.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

WAIT_S = 120
Stage = Literal["before", "after"]


@dataclass(frozen=True)
class Request:
    """What came in."""

    what: str
    key: str | None
    body: Any
    sender: str


class Gate:
    """Keeps requests back, before their effect or before their answer, until it is opened."""

    def __init__(self, stage: Stage, wanted: Callable[[Request], bool], moved: threading.Condition) -> None:
        self.stage, self.wanted, self._moved = stage, wanted, moved
        self.waiting: list[Request] = []
        self._open = self._dropping = False

    def open(self) -> None:
        """Lets those that wait, and all later ones, go on."""
        with self._moved:
            self._open = True
            self._moved.notify_all()

    def drop(self) -> None:
        """Those that wait are forgotten, as if the network had lost them; later ones pass."""
        with self._moved:
            self._open = self._dropping = True
            self._moved.notify_all()

    def passed(self, request: Request) -> bool:
        """Waits; whether the request goes on. Under the condition's lock."""
        if self._open:
            return True
        self.waiting.append(request)
        self._moved.notify_all()
        if not self._moved.wait_for(lambda: self._open, WAIT_S):
            return False
        return not self._dropping


class Provider:
    """The service. `effects` are what it did, in order; `requests` are all that reached it."""

    def __init__(self) -> None:
        self.effects: list[Request] = []
        self.requests: list[Request] = []
        self._moved = threading.Condition()
        self._gates: list[Gate] = []
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()
        self.port: int = self._http.server_address[1]

    def gate(self, stage: Stage, wanted: Callable[[Request], bool]) -> Gate:
        """A gate for the requests that are wanted there."""
        made = Gate(stage, wanted, self._moved)
        with self._moved:
            self._gates.append(made)
        return made

    def wait(self, condition: Callable[[], bool], what: str, *, within_s: float = 60) -> None:
        """Back when the condition holds; fails the test when it does not in time."""
        with self._moved:
            assert self._moved.wait_for(condition, within_s), f"not in {within_s} s: {what}"

    def close(self) -> None:
        """Ends the service; what waits is forgotten."""
        for gate in self._gates:
            gate.drop()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def serve(self, request: Request) -> dict[str, Any] | None:
        """The answer; None when the request was lost."""
        with self._moved:
            self.requests.append(request)
            self._moved.notify_all()
            if not self._pass("before", request):
                return None
            number = self._number(request)
            self._moved.notify_all()
            return {"number": number} if self._pass("after", request) else None

    def _pass(self, stage: Stage, request: Request) -> bool:
        return all(g.passed(request) for g in list(self._gates) if g.stage == stage and g.wanted(request))

    def _number(self, request: Request) -> int:
        if request.key is None:
            return 0
        for n, old in enumerate(self.effects, 1):
            if old.key == request.key:
                assert (old.what, old.body) == (request.what, request.body), "a key was used for something else"
                return n
        self.effects.append(request)
        return len(self.effects)


def _handler(provider: Provider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
            key, sender = self.headers.get("Idempotency-Key"), self.headers.get("Sender", "")
            answer = provider.serve(Request(self.path.strip("/"), key, body, sender))
            if answer is None:
                self.close_connection = True
                return
            data = json.dumps(answer).encode()
            try:
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except ConnectionError:  # the worker was killed meanwhile
                self.close_connection = True

        def log_message(self, *_: Any) -> None:
            pass

    return Handler
