"""Every process of an installation is killed while workers append: what was acknowledged is there, once, in its place.

`DRAINBOARD_KILLS=10` kills it more often.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import pytest
from drainboard import Client

from tests.processes.installation import Installation
from tests.processes.waiting import until

pytestmark = pytest.mark.processes

KILLS = int(os.environ.get("DRAINBOARD_KILLS", "3"))
RUNS, WRITERS_PER_RUN = 4, 3
ACKNOWLEDGED_BETWEEN = 150  # entries, between a start and the next kill
IN_FLIGHT = 6  # of the 12 writers, at the moment of a kill
LEASE_S = 600
MESSAGES = 12  # a request's list grows to this many, as a transcript does


@pytest.fixture
def installation() -> Iterator[Installation]:
    folder = Path(tempfile.mkdtemp(prefix="dbk-", dir="/tmp"))  # short: a socket's path has 107 bytes
    folder.chmod(0o711)  # else root's cluster goes to /var/lib/drainboard and stays there
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    made = Installation(folder / "d", port=port)
    yield made
    made.close()
    shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Book:
    """What was acknowledged, on file before the writer goes on."""

    file: TextIO
    entries: dict[tuple[str, str], int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, run: str, ids: list[str], positions: list[int]) -> None:
        with self.lock:
            for entry, pos in zip(ids, positions, strict=True):
                assert (run, entry) not in self.entries
                self.entries[run, entry] = pos
                self.file.write(f"{run}\t{entry}\t{pos}\n")
            self.file.flush()


class Writer(threading.Thread):
    """Appends to one run under one epoch, one or two entries a request, and repeats a request until it is acknowledged."""

    def __init__(self, client: Client, opened: dict[str, Any], number: int, book: Book) -> None:
        super().__init__(daemon=True)
        self._client, self._opened, self._number, self._book = client, opened, number, book
        self._end = threading.Event()
        self.sent_at: float | None = None  # of the request in flight
        self.calls: list[tuple[float, float]] = []  # monotonic, sent and acknowledged
        self.error: BaseException | None = None

    def finish(self) -> None:
        self._end.set()
        self.join(90)
        assert not self.is_alive()
        if self.error is not None:
            raise self.error

    def run(self) -> None:
        n = 0
        try:
            while not self._end.is_set():
                count = 1 + n % 2
                self._append([self._number + WRITERS_PER_RUN * (n + i) for i in range(count)])
                n += count
        except BaseException as e:  # noqa: BLE001  raised by finish()
            self.error = e

    def _append(self, numbers: list[int]) -> None:
        run, epoch = self._opened["run"], self._opened["epoch"]
        ids = [f"{epoch}.{n}" for n in numbers]
        lines = [_line(run, entry, n) for entry, n in zip(ids, numbers, strict=True)]
        self.sent_at = time.monotonic()
        made = self._client.append(self._opened["key"], lines, epoch=epoch)
        self.calls.append((self.sent_at, time.monotonic()))
        self.sent_at = None
        self._book.note(run, ids, list(made["positions"]))


def _line(run: str, entry: str, n: int) -> bytes:
    messages = [{"role": "user", "content": f"message {m} of {run}"} for m in range(1 + n % MESSAGES)]
    fields = {"id": entry, "run": run, "at": "2026-01-01T00:00:00Z", "kind": "model.result", "name": "decide", "step": n,
              "in": messages, "out": {"text": f"answer {n}"}}  # fmt: skip
    return json.dumps(fields, separators=(",", ":")).encode()


def test_what_was_acknowledged_is_there_once(
    installation: Installation, tmp_path: Path, figures: Callable[[str], None]
) -> None:
    installation.start()
    token = installation.command("create_token", "writers", "--scope", "worker")["token"]
    with Client(installation.url, token, patience_s=150) as client, (tmp_path / "acknowledged").open("w") as file:
        book = Book(file)
        runs = [opened_run(client, f"run-{n}") for n in range(RUNS)]
        writers = [Writer(client, run, n + 1, book) for run in runs for n in range(WRITERS_PER_RUN)]
        for writer in writers:
            writer.start()
        cut = [kill_once(installation, writers, book) for _ in range(KILLS)]
        wait_for_more(writers, book)
        for writer in writers:
            writer.finish()
        check_book(client, runs, book)
    checked = installation.command("verify_journals")
    figures(f"{KILLS} kills with {cut} appends in flight, {len(book.entries)} entries acknowledged, {checked}")
    assert checked["ok"]
    assert min(cut) >= 1
    assert len(book.entries) >= 500
    assert installation.stop() == 0


def opened_run(client: Client, run: str) -> dict[str, Any]:
    key = client.start("writer", None, run_id=run).key
    return dict(client.open(key, build="1", worker="w", lease_s=LEASE_S, versions={}))


def kill_once(installation: Installation, writers: list[Writer], book: Book) -> int:
    """Kills it in the middle of the writing and starts it again; how many appends were cut off."""
    wait_for_more(writers, book)
    until(lambda: sum(w.sent_at is not None for w in writers) >= IN_FLIGHT, "appends are in flight")
    killed_at, _ = installation.kill()
    installation.start()
    wait_for_more(writers, book, by=1)
    until(lambda: all(w.calls and w.calls[-1][1] > killed_at for w in writers), "every writer goes on", within_s=150)
    return sum(any(sent < killed_at < got for sent, got in w.calls) for w in writers)


def wait_for_more(writers: list[Writer], book: Book, *, by: int = ACKNOWLEDGED_BETWEEN) -> None:
    wanted = len(book.entries) + by

    def more() -> bool:
        assert not [w.error for w in writers if w.error]
        return len(book.entries) >= wanted

    until(more, "entries are acknowledged", within_s=150)


def check_book(client: Client, runs: list[dict[str, Any]], book: Book) -> None:
    """Every acknowledged entry stands at its position, and nothing else of the writers stands anywhere."""
    for opened in runs:
        run = opened["run"]
        entries = list(client.entries(opened["key"]))
        assert [e["seq"] for e in entries] == list(range(1, len(entries) + 1))
        stored = [((run, e["id"]), e["seq"]) for e in entries if e["kind"] == "model.result"]
        assert len(dict(stored)) == len(stored), "no entry stands twice"
        assert dict(stored) == {at: pos for at, pos in book.entries.items() if at[0] == run}
        for entry in entries:
            if entry["kind"] == "model.result":
                line = json.loads(_line(run, entry["id"], entry["step"]))
                assert {name: entry[name] for name in line} == line
