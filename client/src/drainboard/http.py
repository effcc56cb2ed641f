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
_HEAD_BYTES = 65536
_BUSY = frozenset((408, 429, 500, 502, 503, 504))


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
            except OSError as e:
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


class _Broken(OSError):
    """The answer is no HTTP, or ended early."""


class _Reader:
    """One answer's bytes. `http.client` reads the same, and takes fifteen times as long over it."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock, self._have = sock, b""

    def until(self, mark: bytes) -> bytes:
        """What comes before the mark, which is taken too."""
        while (at := self._have.find(mark)) < 0:
            if len(self._have) > _HEAD_BYTES:
                raise _Broken("the head of the answer has no end")
            self._more()
        got, self._have = self._have[:at], self._have[at + len(mark) :]
        return got

    def exactly(self, size: int) -> bytes:
        """The next `size` bytes."""
        if len(self._have) < size:
            parts, left = [self._have], size - len(self._have)
            while left > 0:
                parts.append(self._received())
                left -= len(parts[-1])
            self._have = b"".join(parts)
        got, self._have = self._have[:size], self._have[size:]
        return got

    def chunks(self) -> bytes:
        """A chunked body."""
        parts = []
        while size := int(self.until(b"\r\n").partition(b";")[0], 16):
            parts.append(self.exactly(size + 2)[:-2])
        while self.until(b"\r\n"):
            continue
        return b"".join(parts)

    def rest(self) -> bytes:
        """Everything up to the end of the connection."""
        parts = [self._have]
        while got := self._sock.recv(65536):
            parts.append(got)
        return b"".join(parts)

    def _more(self) -> None:
        self._have += self._received()

    def _received(self) -> bytes:
        got = self._sock.recv(65536)
        if not got:
            raise _Broken("the server closed the connection")
        return got


def _exchange(sock: socket.socket, packet: bytes) -> tuple[Response, bool]:
    """The answer to one request, and whether the connection can take another."""
    sock.sendall(packet)
    reader = _Reader(sock)
    try:
        status, headers = _head(reader)
        while status == 100:
            status, headers = _head(reader)
        keep = headers.get(b"connection", b"").lower() != b"close"
        if status == 204 or status == 304:
            body = b""
        elif headers.get(b"transfer-encoding", b"").lower() == b"chunked":
            body = reader.chunks()
        elif b"content-length" in headers:
            body = reader.exactly(int(headers[b"content-length"]))
        else:
            body, keep = reader.rest(), False
    except ValueError as e:
        raise _Broken(f"the answer is no HTTP: {e}") from None
    wait = headers.get(b"retry-after", b"")
    return Response(status, body, float(wait) if wait.isdigit() else None), keep


def _head(reader: _Reader) -> tuple[int, dict[bytes, bytes]]:
    first, *lines = reader.until(b"\r\n\r\n").split(b"\r\n")
    version, status = first.split(None, 2)[:2]
    if not version.startswith(b"HTTP/1."):
        raise _Broken(f"the answer begins with {first[:40]!r}")
    parts = [line.partition(b":") for line in lines]
    headers = {name.lower(): value.strip() for name, _, value in parts}
    if version == b"HTTP/1.0":
        headers.setdefault(b"connection", b"close")
    return int(status), headers
