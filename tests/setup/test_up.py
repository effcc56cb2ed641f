"""``manage.py up`` starts everything, doubles nothing, and survives being killed."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection

from config.attach import url_of
from config.env import Database

pytestmark = pytest.mark.processes
BASE = Path(__file__).resolve().parents[2]
STARTED_WITHIN_S = 120


class Up:
    """One ``manage.py up`` in a data folder of its own."""

    def __init__(self, data: Path, *, port: int) -> None:
        self.data, self.port = data, port
        self.output = data.parent / "output"
        self.process: subprocess.Popen[bytes] | None = None

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, str(BASE / "manage.py"), *arguments]

    def variables(self) -> dict[str, str]:
        mine = {name: value for name, value in os.environ.items() if not name.startswith(("DATABASE_", "DJANGO_"))}
        return {**mine, "DRAINBOARD_DATA": str(self.data), "PORT": str(self.port), "EMPTY": "1"}

    def start(self) -> str:
        """Start it and return what it printed once its address is there."""
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                self.command("up"), cwd=BASE, env=self.variables(), stdout=output, stderr=output
            )
        deadline = time.monotonic() + STARTED_WITHIN_S
        while "Drainboard is at" not in self.output.read_text():
            assert self.process.poll() is None, self.output.read_text()
            assert time.monotonic() < deadline, self.output.read_text()
            time.sleep(0.05)
        return self.output.read_text()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(90)

    def ready(self) -> dict[str, object]:
        """What ``/readyz`` says, or an empty answer while nobody answers."""
        asking = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            asking.request("GET", "/readyz")
            answer: dict[str, object] = json.loads(asking.getresponse().read())
        except (OSError, http.client.HTTPException):
            return {}
        finally:
            asking.close()
        return answer

    def wait_ready(self) -> None:
        deadline = time.monotonic() + STARTED_WITHIN_S
        while not self.ready().get("ready"):
            assert time.monotonic() < deadline, self.output.read_text()
            time.sleep(0.1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@pytest.fixture
def up(data: Path) -> Iterator[Up]:
    started = Up(data, port=free_port())
    yield started
    if started.process is not None and started.process.poll() is None:
        started.stop()


def processes_of(data: Path) -> dict[str, int]:
    """Program name to process id, for every live process that was given this data folder."""
    found = {}
    for folder in Path("/proc").iterdir():
        try:
            variables = (folder / "environ").read_bytes()
            line = (folder / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        if folder.name.isdigit() and f"DRAINBOARD_DATA={data}".encode() in variables.split(b"\0"):
            name = next((word for word in ("granian", "worker", "beat", "up") if word in line), line[0])
            found[f"{name}-{folder.name}"] = int(folder.name)
    return found


def one(processes: dict[str, int], name: str) -> int:
    return min(pid for key, pid in processes.items() if key.startswith(f"{name}-"))


def test_shows_the_password_once_and_survives_being_killed(up: Up, data: Path) -> None:
    first = up.start()
    password = re.search(r"Sign in as 'admin' with the password (\S+)", first)
    assert password is not None
    assert up.ready() == {"ready": True, "database": "ok", "migrations": "ok"}
    key = (data / "secret_key").read_text()
    assert (data / "secret_key").stat().st_mode & 0o077 == 0

    for pid in processes_of(data).values():
        os.kill(pid, signal.SIGKILL)
    assert up.process is not None
    up.process.wait()

    second = up.start()
    assert "Sign in as" not in second
    assert "manage.py changepassword admin" in second
    assert password[1] not in second
    assert (data / "secret_key").read_text() == key
    up.wait_ready()
    counted = subprocess.run(
        up.command("shell", "-v", "0", "-c", COUNT_ADMINS),
        cwd=BASE, env=up.variables(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert counted.stdout.split() == ["1", "drainboard_web"]

    assert up.stop(signal.SIGINT) == 0
    assert "database system is shut down" in (data / "postgres.log").read_text().splitlines()[-1]
    assert processes_of(data) == {}


WEB_RIGHTS = """
import json
from django.db import connection
rights = ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE")
tables = ("auth_user", "journals_entry", "journals_entry_p0", "journals_payload")
cursor = connection.cursor()
def has(table, right):
    cursor.execute("SELECT has_table_privilege(%s, %s)", [table, right])
    return cursor.fetchone()[0]
print(json.dumps({table: " ".join(right for right in rights if has(table, right)) for table in tables}))
"""

COUNT_ADMINS = """
from django.contrib.auth.models import User
from django.db import connection
print(User.objects.count(), connection.settings_dict["USER"])
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds processes in /proc")
def test_starts_again_what_was_killed(up: Up, data: Path) -> None:
    up.start()
    before = processes_of(data)
    for name in ("granian", "worker", "beat"):
        os.kill(one(before, name), signal.SIGKILL)
    os.kill(int((data / "postgres/data/postmaster.pid").read_text().split()[0]), signal.SIGKILL)
    deadline = time.monotonic() + STARTED_WITHIN_S
    while True:
        after = processes_of(data)
        if all(any(key.startswith(f"{name}-") for key in after.keys() - before.keys()) for name in
               ("granian", "worker", "beat")) and up.ready().get("ready"):  # fmt: skip
            break
        assert time.monotonic() < deadline, up.output.read_text()
        time.sleep(0.1)
    assert "PostgreSQL ended and starts again" in up.output.read_text()
    assert up.stop() == 0


def test_says_that_the_port_is_taken_before_it_starts_anything(data: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        up = Up(data, port=taken.getsockname()[1])
        data.parent.mkdir(exist_ok=True)
        tried = subprocess.run(
            up.command("up"), cwd=BASE, env=up.variables(), capture_output=True, text=True, check=False
        )
    assert tried.returncode != 0
    assert f"cannot serve on 127.0.0.1 port {up.port}" in tried.stderr
    assert f"PORT={up.port + 1} make run" in tried.stderr
    assert "Traceback" not in tried.stderr
    assert not data.exists()


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("PORT", "http", "PORT: is 'http'; give a whole number from 1 to 65535"),
        ("DATABASE_URL", "mysql://x/y", "DATABASE_URL: starts with 'mysql'"),
        ("SECRET_KEY", "short", "SECRET_KEY: is shorter than 32 characters"),
        ("LOG_LEVEL", "LOUD", "LOG_LEVEL: is 'LOUD'; give one of"),
        ("DRAINBOARD_DATA", "/dev/null/x", "cannot write in the data folder /dev/null/x"),
    ],
)
def test_refuses_a_bad_setting_by_its_name(data: Path, variable: str, value: str, sentence: str) -> None:
    up = Up(data, port=free_port())
    variables = {**up.variables(), variable: value}
    tried = subprocess.run(up.command("up"), cwd=BASE, env=variables, capture_output=True, text=True, check=False)
    assert tried.returncode != 0
    assert sentence in tried.stderr
    assert "Traceback" not in tried.stderr


def test_commands_start_the_database_for_themselves_and_stop_it(data: Path) -> None:
    up = Up(data, port=free_port())
    done = subprocess.run(
        up.command("migrate", "-v", "0"), cwd=BASE, env=up.variables(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    shown = subprocess.run(
        up.command("showmigrations", "auth"), cwd=BASE, env=up.variables(), capture_output=True, text=True, check=True
    )
    assert "[X] 0001_initial" in shown.stdout
    rights = subprocess.run(
        up.command("shell", "-v", "0", "-c", WEB_RIGHTS),
        cwd=BASE,
        env=up.variables(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(rights.stdout) == {
        "auth_user": "SELECT INSERT UPDATE DELETE",
        "journals_entry": "SELECT INSERT",
        "journals_entry_p0": "SELECT INSERT",
        "journals_payload": "SELECT INSERT",
    }
    assert not (data / "postgres/data/postmaster.pid").exists()
    shutil.rmtree(data)


def test_a_first_command_finds_a_database_that_it_can_work_on(data: Path, tmp_path: Path) -> None:
    up = Up(data, port=free_port())
    file = tmp_path / "run.jsonl"
    file.write_bytes(b'{"run":"r-1","seq":1,"kind":"run.started"}\n')
    done = subprocess.run(
        up.command("import_journal", str(file), "--json"), cwd=BASE, env=up.variables(), capture_output=True, text=True, check=False
    )  # fmt: skip
    assert json.loads(done.stdout)["files"][0]["entries_read"] == 1
    assert f"a new database in {data}" in done.stderr
    assert "Traceback" not in done.stderr
    shutil.rmtree(data)


def test_a_database_without_tables_is_named() -> None:
    known = connection.settings_dict
    empty = url_of(Database("postgres", known["USER"], known["PASSWORD"], known["HOST"], int(known["PORT"] or 5432)))
    tried = subprocess.run(
        [sys.executable, str(BASE / "manage.py"), "show_run", "r-1"], cwd=BASE, env={**os.environ, "DATABASE_URL": empty},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert tried.returncode == 2
    assert "manage.py prepare" in tried.stderr
    assert "Traceback" not in tried.stderr
