"""A body that comes too slowly is refused, whoever sends it; others are read as they are."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from django.core.exceptions import BadRequest

from config.slowbody import SLOW_AT_ONCE, Paced, refusing_slow_bodies


class Line:
    """A client that sends so many bytes a second, on a clock of its own; a read waits until all that it asks for is there."""

    def __init__(self, body: bytes, pace: float) -> None:
        self.body, self.pace, self.now = io.BytesIO(body), pace, 0.0

    def read(self, size: int) -> bytes:
        part = self.body.read(size)
        self.now += len(part) / self.pace
        return part


def send(app: Any, line: Line, path: str, length: int) -> tuple[str, dict[str, str], bytes]:
    told: list[Any] = []
    environ = {"REQUEST_METHOD": "POST", "PATH_INFO": path, "CONTENT_LENGTH": str(length), "wsgi.input": line}
    answer = refusing_slow_bodies(app, clock=lambda: line.now)(environ, lambda *given: told.extend(given))
    return told[0], dict(told[1]), b"".join(answer)


def reader(seen: list[bytes]) -> Callable[..., Iterable[bytes]]:
    """An application that reads the body in pieces, as Django does, and answers 400 when it cannot."""

    def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        try:
            while part := environ["wsgi.input"].read(10_000):
                seen.append(part)
        except BadRequest:
            start_response("400 Bad Request", [])
            return [b"bad"]
        start_response("200 OK", [])
        return [b"good"]

    return app


@pytest.mark.parametrize("path", ["/api/v1/runs", "/imports/"])
def test_a_body_of_one_byte_a_second_is_refused_within_half_a_minute(path: str) -> None:
    line = Line(b"x" * 100_000, pace=1)
    status, headers, body = send(reader([]), line, path, 100_000)
    assert status == "408 Request Timeout"
    assert headers["Connection"] == "close"
    assert "too slowly" in body.decode()
    assert (path == "/imports/") or json.loads(body)["error"]["code"] == "SlowBody"
    assert line.now <= 30


@pytest.mark.parametrize("pace", [1_100, 50_000, 1e9])
def test_a_body_at_an_ordinary_pace_is_read_as_it_is(pace: float) -> None:
    body = bytes(range(256)) * 1_000
    seen: list[bytes] = []
    assert send(reader(seen), Line(body, pace), "/imports/", len(body))[0] == "200 OK"
    assert b"".join(seen) == body


def test_few_slow_bodies_are_waited_for_at_once() -> None:
    lines = [Line(b"x" * 100, pace=1) for _ in range(SLOW_AT_ONCE + 1)]
    bodies = [Paced(line, clock=lambda line=line: line.now) for line in lines]  # type: ignore[misc]
    for body in bodies[:-1]:
        assert body.read(10) == b"x" * 10
    with pytest.raises(BadRequest):
        bodies[-1].read(10)
    assert lines[-1].now < 10
    for body in bodies:
        body.release()
    late = Paced(Line(b"x" * 100, pace=1), clock=lambda: 0.0)
    assert late.read(10) == b"x" * 10


def test_lines_are_lines() -> None:
    body = Paced(io.BytesIO(b"one\ntwo\n\nrest"))
    assert [body.readline(), body.readline(2), body.readline(), body.readline(), body.read(), body.read()] == [
        b"one\n", b"tw", b"o\n", b"\n", b"rest", b"",
    ]  # fmt: skip
