"""``make test``: linters, types, layers, then pytest with its own PostgreSQL and a Chromium if there is one.

Arguments go to pytest; with arguments only pytest runs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BASE = Path(__file__).resolve().parent.parent
BIN = BASE / ".venv" / "bin"
SYSTEM_BROWSERS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
MOST_TOGETHER = 4  # tests that start servers of their own wait for the processor beyond this
CHECKS = (
    ("ruff", ["ruff", "check", "--quiet"]),
    ("format", ["ruff", "format", "--check", "--quiet"]),
    ("types", ["mypy", "--no-error-summary"]),
    ("layers", ["lint-imports", "--no-logo"]),
)

sys.path.insert(0, str(BASE))


def main(arguments: list[str]) -> int:
    """0 if everything passed; all checks run even if one fails, so that one run says all."""
    failed = [] if arguments else [name for name, line in CHECKS if not passes(name, line)]
    chromium = find_chromium()
    if not chromium:
        say("No Chromium found: the browser tests are LEFT OUT. Install one, or name it in DRAINBOARD_CHROMIUM.")
        if in_ci():
            failed.append("browser (left out)")
    if not tests_pass(arguments, chromium=chromium):
        failed.append("pytest")
    if failed:
        say(f"FAILED: {', '.join(failed)}")
    return 1 if failed else 0


def passes(name: str, line: list[str]) -> bool:
    """Run one check and say how long it took."""
    started = time.monotonic()
    done = subprocess.run([str(BIN / line[0]), *line[1:]], cwd=BASE, check=False)
    say(f"{name}: {'ok' if done.returncode == 0 else 'FAILED'} ({time.monotonic() - started:.1f} s)")
    return done.returncode == 0


def tests_pass(arguments: list[str], *, chromium: str) -> bool:
    """Run pytest against a PostgreSQL that lives only for it."""
    from config.attach import url_of
    from config.embedded import SUPERUSER, Server
    from config.roles import prepare_cluster

    # Short: a socket's path has 107 bytes. Not below a private home: PostgreSQL's account must enter it.
    with tempfile.TemporaryDirectory(prefix="dbt-", dir="/tmp") as folder:
        server = Server(data=Path(folder), say=say, holder="make test")
        try:
            server.start()
            superuser = server.database(SUPERUSER, "postgres")
            prepare_cluster(superuser, web_role="drainboard_web")
            variables = {**os.environ, "DATABASE_URL": url_of(superuser), "DRAINBOARD_CHROMIUM": chromium}
            for name in ("DATABASE_OWNER_URL", "DRAINBOARD_DATA", "DEBUG"):
                variables.pop(name, None)  # of a shell that runs Drainboard itself
            line = [
                str(BIN / "python"),
                "-m",
                "pytest",
                *(arguments or ["-n", str(min(os.cpu_count() or 1, MOST_TOGETHER))]),
            ]
            return subprocess.run(line, cwd=BASE, env=variables, check=False).returncode == 0
        finally:
            server.stop()


def find_chromium() -> str:
    """The path of a Chromium: named, the system's, Playwright's own, or newly installed; else empty."""
    named = os.environ.get("DRAINBOARD_CHROMIUM", "")
    if named:
        return named
    return system_chromium() or playwright_chromium() or installed_chromium()


def system_chromium() -> str:
    """A browser on PATH."""
    return next((path for path in map(shutil.which, SYSTEM_BROWSERS) if path), "")


def playwright_chromium() -> str:
    """The browser that ``playwright install chromium`` put into its own folder, if anybody ran it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).exists() else ""


def installed_chromium() -> str:
    """Debian's package, where we may install it: only as root with apt."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return ""
    say("No Chromium found; installing Debian's package ...")
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for line in (["update"], ["install", "--yes", "--no-install-recommends", "chromium"]):
        done = subprocess.run(["apt-get", "-qq", *line], env=quiet, check=False, stdout=subprocess.DEVNULL)
        if done.returncode != 0:
            return ""
    return system_chromium()


def in_ci() -> bool:
    """Whether a machine waits for the answer: then nothing may be left out."""
    return os.environ.get("CI", "").lower() in {"1", "true", "yes"}


def say(text: str) -> None:
    """One line, in order with the output of the programs that we run."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
