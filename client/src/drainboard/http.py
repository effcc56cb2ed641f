"""HTTP to the journal server: kept-alive connections, one packet a request, retries that are safe because appends are idempotent.

A write step costs two acknowledged requests, so this is the hot path: one `sendall` for head and body, TCP_NODELAY, and a
connection that goes back to the pool only when its answer was read to the end.
"""

from __future__ import annotations

import http.client
import json
import random
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from drainboard import errors

__all__ = ["Http", "Response", "quote_part"]

TIMEOUT_S = 15.0  # one request
PATIENCE_S = 30.0  # all repeats of one request
_PAUSES_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0)
_BUSY = frozenset((429, 500, 502, 503, 504))


@dataclass(frozen=True)
class Response:
    status: int
    body: bytes
    retry_after_s: float | None = None

    def json(self) -> Any:
        """The decoded body; raises `JournalUnavailable` when a proxy answered something else."""
        try:
            return json.loads(self.body) if self.body else {}
        except ValueError:
            raise errors.JournalUnavailable(
                f"the server answered {self.status} with something that is not JSON: {self.body[:120]!r}"
            ) from None


def quote_part(text: str) -> str:
    """One path segment or query value, percent-encoded."""
    return quote(text, safe="")


class Http:
    """Requests to one server with one token. Safe for many threads; every thread in a call has a connection of its own."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout_s: float = TIMEOUT_S,
        patience_s: float = PATIENCE_S,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is no http or https address of a Drainboard server")
        self.url, self.token = url, token
        self._tls = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port
        self._prefix = parts.path.rstrip("/") + "/api/v1"
        self._timeout_s, self._patience_s, self._sleep = timeout_s, patience_s, sleep
        if not token.isascii() or any(c.isspace() for c in token):
            raise ValueError("the token holds spaces or characters outside ASCII")
        self._head = (
            f"Host: {parts.netloc.rpartition('@')[2]}\r\nAuthorization: Bearer {token}\r\nAccept: application/json\r\n"
        )
        self._idle: deque[http.client.HTTPConnection] = deque()
        self._closed = False

    def call(self, method: str, path: str, body: Any = None, *, patience_s: float | None = None) -> Any:
        """Sends JSON, returns the decoded answer. Raises the refusal by name, or `JournalUnavailable`."""
        data = (
            b""
            if body is None
            else json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
        )
        return self.send(method, path, data, {"Content-Type": "application/json"}, patience_s=patience_s).json()

    def send(
        self,
        method: str,
        path: str,
        data: bytes,
        headers: Mapping[str, str],
        *,
        patience_s: float | None = None,
        give_up: Callable[[], bool] | None = None,
    ) -> Response:
        """One request, repeated with growing pauses while the server cannot be reached or is busy.

        A refusal is raised at once. After `patience_s`, or when `give_up()` says so, raises `JournalUnavailable`.
        """
        end = time.monotonic() + (self._patience_s if patience_s is None else patience_s)
        packet = self._packet(method, path, data, headers)
        for attempt in range(1 << 30):
            got, why = self._once(packet)
            if got is not None and got.status < 400:
                return got
            if got is not None and got.status not in _BUSY:
                raise self._refusal(got)
            pause = _PAUSES_S[min(attempt, len(_PAUSES_S) - 1)] * random.uniform(0.8, 1.2)  # noqa: S311
            if got is not None:
                why, pause = f"it answered {got.status}", max(pause, got.retry_after_s or 0)
            if self._closed or time.monotonic() + pause > end or (give_up is not None and give_up()):
                raise errors.JournalUnavailable(
                    f"the journal at {self.url} did not take {method} {path}: {why} (tried {attempt + 1} times)"
                )
            self._sleep(pause)
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Closes idle connections; a call under way ends with its present attempt."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def _packet(self, method: str, path: str, data: bytes, headers: Mapping[str, str]) -> bytes:
        more = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"{method} {self._prefix}{path} HTTP/1.1\r\n{self._head}{more}Content-Length: {len(data)}\r\n\r\n"
        return head.encode("ascii") + data

    def _once(self, packet: bytes) -> tuple[Response | None, str]:
        """The answer, or None and why there is none. A connection that went stale while idle is replaced at once."""
        why = ""
        while True:
            try:
                link = self._idle.pop()
                fresh = False
            except IndexError:
                link, fresh = self._link(), True
            try:
                if fresh:
                    link.connect()
                    link.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                got, reusable = _exchange(link.sock, packet)
            except (OSError, http.client.HTTPException) as e:
                link.close()
                why = f"{type(e).__name__}: {e}"
                if fresh or isinstance(e, TimeoutError):
                    return None, why
                continue
            except BaseException:
                link.close()
                raise
            if reusable and not self._closed:
                self._idle.append(link)
            else:
                link.close()
            return got, why

    def _link(self) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._tls else http.client.HTTPConnection
        return kind(self._host, self._port, timeout=self._timeout_s)

    def _refusal(self, got: Response) -> errors.DrainboardError:
        try:
            found = json.loads(got.body)["error"]
            return errors.refusal(found)
        except (ValueError, KeyError, TypeError, AttributeError):
            return errors.Refused(f"the server answered {got.status}: {got.body[:200]!r}", code=f"HTTP{got.status}")


def _exchange(sock: socket.socket, packet: bytes) -> tuple[Response, bool]:
    sock.sendall(packet)
    answer = http.client.HTTPResponse(sock)
    try:
        answer.begin()
        body = answer.read()
        wait = answer.headers.get("Retry-After", "")
        return Response(answer.status, body, float(wait) if wait.isdigit() else None), not answer.will_close
    finally:
        answer.close()
