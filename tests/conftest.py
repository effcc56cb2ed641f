"""What every test shares: a Chromium that asks nobody outside, and its absence said plainly."""

from __future__ import annotations

import os
import shutil
from typing import Any

import pytest

# Playwright's synchronous API runs an event loop in this thread; Django would refuse the ORM in it.
os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")

pytest_plugins = ["tests.cast"]
CHROMIUM = os.environ.get("DRAINBOARD_CHROMIUM") or shutil.which("chromium") or ""
QUIET_CHROMIUM = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    """Playwright's arguments for the Chromium that was found, with all its own traffic off."""
    arguments = [*browser_type_launch_args.get("args", []), *QUIET_CHROMIUM]
    if os.geteuid() == 0:
        arguments.append("--no-sandbox")
    return {**browser_type_launch_args, "executable_path": CHROMIUM, "args": arguments}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without a Chromium leave the browser tests out; ``make test`` fails for that in CI."""
    if CHROMIUM:
        return
    for item in items:
        if item.get_closest_marker("browser") or "page" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.skip(reason="no Chromium: name one in DRAINBOARD_CHROMIUM"))
