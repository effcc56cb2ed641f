"""Bodies that come slower than any client sends them are answered with 408, so that a few of them do not keep every thread.

granian gives headers 30 seconds and bodies all the time in the world, and a thread waits with each. A read of its input returns
when as many bytes are there as were asked for, so a piece is at most twice what came before (each costs 10 µs, which bodies of some KB
feel). A client that sends much at once and then nothing holds its thread all the same; `docs/operations.md` says what a proxy does about that.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from django.core.exceptions import BadRequest

from config.refusals import API
from journals.errors import SlowBody

PACE: Final = 1_000  # bytes a second that a body must have on the whole
GRACE_S: Final = 20.0  # that it may be behind this
SLOW_S: Final = 5.0  # behind this it counts as slow; a busy machine keeps a quick body waiting for a second or two
SLOW_AT_ONCE: Final = 4  # of a process; one more is refused as soon as it is slow
_QUICK_S: Final = 0.05  # a read that waited less may ask for more the next time
_FIRST: Final = 4  # bytes
_MOST: Final = 64 << 10

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Paced:
    """A request's body, read at the client's pace. Raises `BadRequest` when that is too slow; `gave_up` then says why."""

    _slots = threading.BoundedSemaphore(SLOW_AT_ONCE)

    def __init__(self, inner: Any, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._inner, self._clock = inner, clock
        self._ask = _FIRST
        self._received, self._waited_s = 0, 0.0
        self._slow = False
        self.gave_up = ""

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes, fewer only at the end; all that are left without it."""
        parts: list[bytes] = []
        left = size
        while left:
            asked = min(self._ask, left) if left > 0 else self._ask
            part = self._piece(asked)
            parts.append(part)
            if len(part) < asked:
                break
            left -= len(part) if left > 0 else 0
        return b"".join(parts)

    def readline(self, size: int = -1) -> bytes:
        """Up to the next newline, or `size` bytes."""
        line = bytearray()
        while (size < 0 or len(line) < size) and not line.endswith(b"\n") and (part := self._piece(1)):
            line += part
        return bytes(line)

    def release(self) -> None:
        """The request is answered."""
        if self._slow:
            self._slots.release()
            self._slow = False

    def _piece(self, asked: int) -> bytes:
        if self.gave_up:
            raise BadRequest(self.gave_up)
        began = self._clock()
        part: bytes = self._inner.read(asked)
        took_s = self._clock() - began
        self._received += len(part)
        self._waited_s += took_s
        most = min(self._received * 2, _MOST) if took_s < _QUICK_S else min(self._ask, int(len(part) / took_s))
        self._ask = max(1, most)
        if part:
            self._judge()
        return part

    def _judge(self) -> None:
        behind_s = self._waited_s - self._received / PACE
        if behind_s > SLOW_S and not self._slow:
            self._slow = self._slots.acquire(blocking=False)
        if behind_s > (GRACE_S if self._slow else SLOW_S):
            self.gave_up = (
                f"the body came too slowly ({self._received:,} bytes in {self._waited_s:.0f} seconds);"
                f" send at least {PACE:,} bytes a second"
            )
            raise BadRequest(self.gave_up)


def refusing_slow_bodies(inner: Wsgi, *, clock: Callable[[], float] = time.monotonic) -> Wsgi:
    """The application, with 408 for requests whose body it gave up to wait for. The connection is closed with that."""

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if not environ.get("CONTENT_LENGTH"):  # without it nothing here reads a body
            return inner(environ, start_response)
        body = environ["wsgi.input"] = Paced(environ["wsgi.input"], clock=clock)
        told: list[tuple[Any, ...]] = []
        try:
            answer = inner(environ, lambda *given: told.append(given))
        finally:
            body.release()
        if not body.gave_up:
            start_response(*told[0])
            return answer
        if close := getattr(answer, "close", None):
            close()
        return _refused(environ, start_response, SlowBody(body.gave_up))

    return application


def _refused(environ: dict[str, Any], start_response: Callable[..., Any], refusal: SlowBody) -> list[bytes]:
    spoken = environ.get("PATH_INFO", "").startswith(API)
    text = json.dumps(refusal.body()) if spoken else f"{refusal.message[:1].upper()}{refusal.message[1:]}.\n"
    kind = "application/json" if spoken else "text/plain; charset=utf-8"
    headers = [("Content-Type", kind), ("Content-Length", str(len(text))), ("Connection", "close")]
    start_response("408 Request Timeout", [*headers, ("X-Content-Type-Options", "nosniff")])
    return [text.encode("ascii")]
