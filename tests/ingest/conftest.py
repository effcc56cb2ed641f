"""Files to import, and short ways to import them."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from journals import ingest
from journals.files import Found
from journals.imports_report import Report, report

LINES = Path(__file__).resolve().parent.parent / "fixtures" / "lines"
TORN = LINES / "torn"


def memory(name: str, data: bytes) -> Found:
    """A file that is only in memory."""
    return Found(name, len(data), lambda: io.BytesIO(data))


Importing = Callable[..., Report]


@pytest.fixture
def importing(db: None) -> Importing:
    """`importing({"name": b"…"}, source=…)`: the report of an import of these files."""

    def run(files: dict[str, bytes], **options: str) -> Report:
        made = ingest.submit([memory(n, d) for n, d in files.items()], actor="tests", **options)
        assert ingest.run(made.pk)
        made.refresh_from_db()
        return report(made)

    return run
