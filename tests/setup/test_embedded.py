"""The embedded PostgreSQL: nothing acknowledged is lost, whatever is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from config import embedded
from config.account import choose
from config.embedded import SUPERUSER, DataFolderUnusable, Server, ServerBusy, ServerFailed

pytestmark = pytest.mark.processes
BASE = Path(__file__).resolve().parents[2]


@pytest.fixture
def server(data: Path) -> Iterator[Server]:
    server = Server(data=data, say=lambda text: None)
    yield server
    server.stop()


def connect(server: Server) -> psycopg.Connection:
    return psycopg.connect(**server.database(SUPERUSER, "postgres").conninfo(), autocommit=True)


def wait_for(condition: Callable[[], bool], *, within_s: float = 30) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.02)


def is_gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1]
    except OSError:
        return True
    return state == "Z"


def write_until_it_breaks(server: Server, acknowledged: list[int]) -> None:
    with connect(server) as connection:
        for number in range(1_000_000):
            try:
                connection.execute("INSERT INTO rows VALUES (%s)", [number])
            except psycopg.OperationalError:
                return
            acknowledged.append(number)


def test_starts_with_settings_that_keep_data(server: Server) -> None:
    server.start()
    with connect(server) as connection:
        for name in ("fsync", "data_checksums", "full_page_writes", "synchronous_commit"):
            assert connection.execute("SELECT current_setting(%s)", [name]).fetchone() == ("on",)
        assert connection.execute("SHOW listen_addresses").fetchone() == ("",)


def test_keeps_every_acknowledged_row_when_postgres_is_killed(server: Server) -> None:
    server.start()
    with connect(server) as connection:
        connection.execute("CREATE TABLE rows (number int PRIMARY KEY)")
    acknowledged: list[int] = []
    writer = threading.Thread(target=write_until_it_breaks, args=(server, acknowledged))
    writer.start()
    wait_for(lambda: len(acknowledged) >= 500)
    assert server.process is not None
    server.process.kill()
    server.process.wait()
    writer.join()

    server.start()

    with connect(server) as connection:
        kept = {number for (number,) in connection.execute("SELECT number FROM rows")}
    assert set(acknowledged) <= kept
    assert len(kept - set(acknowledged)) <= 1  # the one whose answer was cut off


def test_starts_a_second_time_on_the_same_data(server: Server) -> None:
    server.start()
    with connect(server) as connection:
        connection.execute("CREATE TABLE rows AS SELECT 7 AS number")
    server.stop()
    assert not server.answers()
    server.start()
    with connect(server) as connection:
        assert connection.execute("SELECT number FROM rows").fetchone() == (7,)


def test_refuses_a_second_start_on_one_data_folder(server: Server, data: Path) -> None:
    server.start()
    with pytest.raises(ServerBusy, match="in use by another Drainboard") as busy:
        Server(data=data).start()
    assert str(os.getpid()) in busy.value.holder
    assert server.answers()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel's parent death signal is Linux")
def test_does_not_outlive_a_killed_supervisor(data: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from config.embedded import Server; "
        "s = Server(data=Path(sys.argv[1])); s.start(); print(s.process.pid, flush=True); time.sleep(600)"
    )
    supervisor = subprocess.Popen(
        [sys.executable, "-c", program, str(data)], cwd=BASE, stdout=subprocess.PIPE, text=True
    )
    assert supervisor.stdout is not None
    postgres = int(supervisor.stdout.readline())
    supervisor.send_signal(signal.SIGKILL)
    supervisor.wait()
    supervisor.stdout.close()
    wait_for(lambda: is_gone(postgres))
    assert "database system is shut down" in (data / "postgres.log").read_text()


def test_starts_over_a_pid_file_that_names_another_program(server: Server, data: Path) -> None:
    server.start()
    server.stop()
    other = subprocess.Popen(["sleep", "600"], **choose(server.account_name).popen_arguments())
    try:
        (data / "postgres" / "data" / "postmaster.pid").write_text(f"{other.pid}\n")
        server.start()
        assert server.answers()
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_makes_a_cluster_again_after_an_interrupted_one(server: Server, data: Path) -> None:
    server.start()
    server.stop()
    cluster = data / "postgres" / "data"
    cluster.rename(cluster.with_name("data.new"))
    server.start()
    assert server.answers()
    assert not cluster.with_name("data.new").exists()


def test_goes_on_when_it_was_interrupted_before_the_cluster(server: Server, data: Path) -> None:
    (data / "postgres").mkdir(parents=True)
    server.start()
    assert server.answers()


def test_refuses_a_cluster_of_another_release(server: Server, data: Path) -> None:
    server.start()
    server.stop()
    (data / "postgres" / "data" / "PG_VERSION").write_text("11\n")
    with pytest.raises(ServerFailed, match=r"made by PostgreSQL 11.*docs/operations.md"):
        server.start()


def test_refuses_to_run_with_fsync_off(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(embedded.SERVER_SETTINGS, "fsync", "off")
    with pytest.raises(ServerFailed, match="fsync off"):
        server.start()
    assert server.process is None


def test_puts_the_socket_in_a_short_folder_when_the_data_folder_is_deep(data: Path) -> None:
    server = Server(data=data.joinpath(*["deep" * 5] * 5), say=lambda text: None)
    try:
        server.start()
        assert server.answers()
        assert len(str(server.socket_folder())) < 60
    finally:
        server.stop()


def test_says_that_the_data_folder_cannot_be_written(data: Path) -> None:
    data.parent.joinpath("file").write_text("not a folder")
    with pytest.raises(DataFolderUnusable, match=r"cannot write in the data folder .*DRAINBOARD_DATA"):
        Server(data=data.parent / "file" / "below").start()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write in a read-only folder")
def test_says_that_the_data_folder_is_read_only(data: Path) -> None:
    data.mkdir(mode=0o500)
    with pytest.raises(DataFolderUnusable, match="Permission denied"):
        Server(data=data).start()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root needs another account")
def test_keeps_the_cluster_where_its_account_can_work_below_a_private_folder(data: Path) -> None:
    private = data.parent / "private"
    private.mkdir(mode=0o700)
    server = Server(data=private / "d", say=lambda text: None)
    try:
        server.start()
        assert server.answers()
        assert (private / "d" / "postgres").is_symlink()
        assert private.stat().st_mode & 0o777 == 0o700
        assert (private / "d/postgres/data_folder").read_text() == f"{private / 'd'}\n"
    finally:
        server.stop()
        elsewhere = (private / "d" / "postgres").resolve()
        assert str(elsewhere).startswith("/var/lib/drainboard/")
        subprocess.run(["rm", "-r", str(elsewhere)], check=True)
