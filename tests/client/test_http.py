"""Answers of every framing are read whole, and broken ones are repeated instead of believed."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import drainboard
import pytest
from drainboard.http import Http

OK = b'HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{"a":1}'


@contextmanager
def answering(*answers: bytes, step: int = 1 << 20) -> Iterator[tuple[str, list[bytes]]]:
    """A server that gives these bytes, one answer a request, in pieces of `step`; closes a connection after an answer without length."""
    listener = socket.create_server(("127.0.0.1", 0))
    got: list[bytes] = []
    left = list(answers)

    def serve() -> None:
        while left:
            connection, _ = listener.accept()
            with connection:
                while left and (request := connection.recv(65536)):
                    got.append(request)
                    answer = left.pop(0)
                    for at in range(0, len(answer), step):
                        connection.sendall(answer[at : at + step])
                    if b"Content-Length" not in answer and b"chunked" not in answer:
                        break

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", got
    finally:
        listener.close()
        thread.join(5)


def asked(*answers: bytes, step: int = 1 << 20) -> tuple[Any, int]:
    """The decoded answer, and how many requests it took."""
    with answering(*answers, step=step) as (url, got):
        http = Http(url, "t", patience_s=5)
        try:
            return http.call("GET", "/x"), len(got)
        finally:
            http.close()


@pytest.mark.parametrize(
    "answer",
    [
        OK,
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=1\r\n{"a\r\n4\r\n":1}\r\n0\r\nTrailer: x\r\n\r\n',
        b'HTTP/1.0 200 OK\r\n\r\n{"a":1}',
        b'HTTP/1.1 200\r\nContent-Length: 7\r\nConnection: close\r\n\r\n{"a":1}',
    ],
)
@pytest.mark.parametrize("step", [1, 3, 1 << 20])
def test_reads_every_framing_in_pieces_of_any_size(answer: bytes, step: int) -> None:
    assert asked(answer, step=step) == ({"a": 1}, 1)


@pytest.mark.parametrize(
    "broken",
    [b"SSH-2.0 hello\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: 1\r\n", b"HTTP/1.1 200 OK\r\n\r\n{"],
)
def test_never_believes_a_broken_answer(broken: bytes) -> None:
    if broken.endswith(b"{"):
        with pytest.raises(drainboard.JournalUnavailable, match="not JSON"):
            asked(broken)
    else:
        assert asked(broken, OK) == ({"a": 1}, 2)


def test_names_a_refusal_that_comes_without_the_servers_error_object() -> None:
    page = b"HTTP/1.1 404 Not Found\r\nContent-Length: 6\r\n\r\n<html>"
    with pytest.raises(drainboard.Refused, match="answered 404") as caught:
        asked(page)
    assert caught.value.refusal == "HTTP404"


@pytest.mark.parametrize("token", ["a b", "a\r\nX: y", "é"])
def test_refuses_a_token_that_would_break_a_header(token: str) -> None:
    with pytest.raises(ValueError, match="token"):
        Http("http://127.0.0.1:1", token)


def test_sends_head_and_body_at_once_under_the_servers_path() -> None:
    with answering(OK) as (url, got):
        http = Http(f"{url}/drain/", "secret")
        http.call("POST", "/x", {"k": "é"})
        http.close()
    assert got[0].startswith(b"POST /drain/api/v1/x HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"Authorization: Bearer secret\r\n" in got[0]
    assert got[0].endswith(b'Content-Length: 10\r\n\r\n{"k":"\xc3\xa9"}')


def test_opens_a_new_connection_when_the_kept_one_went_away(server: Any, client: Any) -> None:
    client.start("a", None, run_id="r")
    (link,) = client.http._idle
    link.sock.shutdown(socket.SHUT_RDWR)
    assert not client.start("a", None, run_id="r").created
