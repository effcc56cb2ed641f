"""The captures of a real Restate server, and what the adapter makes of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from journals.adapters import restate
from journals.adapters.base import InputFile, Item, Line, Options

FOLDER = Path(__file__).parents[1] / "fixtures" / "adapters" / "restate"
MISMATCH = FOLDER / "mismatch"


def capture(name: str) -> bytes:
    return (FOLDER / f"{name}.json").read_bytes()


def snapshot(name: str, key: str = "") -> dict[str, Any]:
    """One export out of a capture that holds several."""
    whole: dict[str, Any] = json.loads(capture(name))
    return whole[key] if key else whole


def read(*files: bytes) -> list[Item]:
    given = [InputFile.of(f"export/{n}.json", data) for n, data in enumerate(files)]
    return list(restate.read(given, Options()))


def lines(items: Sequence[Item]) -> list[dict[str, Any]]:
    return [json.loads(item.raw) for item in items if isinstance(item, Line)]


def steps(items: Sequence[Item]) -> list[dict[str, Any]]:
    """The lines but those that say something about the run as a whole."""
    return [made for made in lines(items) if made.get("name") != "runtime.state"]


def state(items: Sequence[Item], run: str = "") -> dict[str, Any]:
    """The newest state note of the run."""
    notes = [m for m in lines(items) if m.get("name") == "runtime.state" and m["run"].startswith(run)]
    return notes[-1]["out"]


def rows(table: list[dict[str, Any]]) -> bytes:
    """The table as `POST /query` answers it."""
    return json.dumps({"rows": table}).encode()
