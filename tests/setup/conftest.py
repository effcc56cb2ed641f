"""Data folders for tests that start their own PostgreSQL."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def data() -> Iterator[Path]:
    """A short folder (a socket's path has 107 bytes) that PostgreSQL's own account can enter."""
    folder = Path(tempfile.mkdtemp(prefix="dbs-", dir="/tmp"))
    folder.chmod(0o711)
    yield folder / "d"
    shutil.rmtree(folder, ignore_errors=True)
