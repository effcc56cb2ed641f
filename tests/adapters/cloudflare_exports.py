"""The captures of wrangler's local engine and the cloud's documented form, and what the adapter makes of them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from journals.adapters import cloudflare
from journals.adapters.base import Counted, InputFile, Item, Line, Options, Partial, Refused, Unread

FOLDER = Path(__file__).parents[1] / "fixtures" / "adapters" / "cloudflare"
ANSWER = "GET .../workflows/{name}/instances/{id}"
LOG = "local sqlite states"
CAPTURES = sorted(path.name for path in FOLDER.iterdir() if path.suffix == ".json")


def data(name: str) -> bytes:
    path = FOLDER / name
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def part(capture: str, moment: str, form: str = ANSWER) -> bytes:
    """One form of one moment out of a capture, as a file of its own."""
    whole = json.loads(data(f"{capture}.json"))
    return json.dumps((whole[moment] if moment else whole)[form]).encode()


def read(files: Mapping[str, bytes], **options: Any) -> list[Item]:
    return list(cloudflare.read([InputFile.of(path, raw) for path, raw in files.items()], Options(**options)))


def raws(items: Sequence[Item], *, state: bool = False) -> set[bytes]:
    """The lines, without what they say about the run as a whole unless asked for."""
    return {i.raw for i in items if isinstance(i, Line) and (state or b'"name":"runtime.state"' not in i.raw)}


def entries(items: Sequence[Item], run: str = "") -> list[dict[str, Any]]:
    return [json.loads(i.raw) for i in items if isinstance(i, Line) and i.run.startswith(run)]


def state(items: Sequence[Item], run: str = "") -> dict[str, Any]:
    """The last state note of the run."""
    out: dict[str, Any] = [e for e in entries(items, run) if e.get("name") == "runtime.state"][-1]["out"]
    return out


def check_counts(items: Sequence[Item]) -> None:
    """Every file that is not refused says how many lines it has: those that were read and those that were not."""
    counted = {i.path: i.lines for i in items if isinstance(i, Counted)}
    refused = {i.path for i in items if isinstance(i, Refused)}
    told: dict[str, int] = {}
    for item in items:
        if isinstance(item, (Line, Unread)):
            told[item.path] = told.get(item.path, 0) + 1
    assert not refused & counted.keys()
    assert {path: n for path, n in counted.items() if n} == told


def is_partial(items: Sequence[Item]) -> bool:
    return any(isinstance(item, Partial) for item in items)
