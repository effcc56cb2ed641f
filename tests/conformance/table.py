"""`python -m tests.conformance.table`: writes docs/adapters.md, what each adapter proves and what it makes of each capture."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from journals.adapters import ADAPTERS, NATIVE
from journals.adapters.base import AdapterInfo
from tests.conformance.captures import Capture, captures
from tests.conformance.reading import Reading, read

__all__ = ["PATH", "document"]

PATH = Path(__file__).resolve().parents[2] / "docs" / "adapters.md"
BIG = 500_000  # bytes; larger captures are left out, since they take seconds
MOST = 3  # of a kind named in one cell

HEAD = """# What is read of other runtimes

Written by `python -m tests.conformance.table`; a test holds that it is up to date. Each runtime has a document of its own:
{links}.

## What their journals prove

`before_effect`: a start stands in the journal before the effect can happen. `on_close`: it is written late, or says only that a step
is due. `never`: a step leaves a record only at its end. Only where starts come first and every attempt is recorded can a step be
known to have happened once.
"""

CAPTURES = """
## What is made of each capture

The captures in `tests/fixtures/adapters`, read as one import each: entries, runs, how they stand, what is on the gap card, what was
found. Files that are exported together are one row (`name*`); those that give nothing by themselves, and those over 500 kB, are left out.
"""


def document() -> str:
    """The whole file."""
    names = [name for name in ADAPTERS if (PATH.parent / f"adapters-{name}.md").exists()]
    links = ", ".join(f"[{ADAPTERS[name].INFO.title}](adapters-{name}.md)" for name in names)
    infos = [NATIVE, *(adapter.INFO for adapter in ADAPTERS.values())]
    parts = [HEAD.format(links=links), *_evidence(infos), *_can(infos), *_limits(infos), CAPTURES]
    for name in ADAPTERS:
        parts += _captures(name)
    return "\n".join(parts).rstrip() + "\n"


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> Iterator[str]:
    """The lines of a Markdown table."""
    columns = list(head)
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for row in rows:
        yield f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in row)} |"


def _evidence(infos: Iterable[AdapterInfo]) -> Iterator[str]:
    yield from table(
        ("runtime", "start of a write", "start of a read", "every attempt", "says its end", "in a sentence"),
        (
            (i.title, f"`{i.evidence.write}`", f"`{i.evidence.read}`", _yes(i.evidence.attempts), _yes(i.evidence.says_end), i.evidence.note)
            for i in infos
        ),
    )  # fmt: skip


def _yes(fact: bool) -> str:
    return "yes" if fact else "no"


def _can(infos: Iterable[AdapterInfo]) -> Iterator[str]:
    words = ("stop", "pin", "resume", "approve")
    yield "\n## What their own controls can do\n"
    yield from table(("runtime", *words), ((i.title, *(_yes(w in i.capabilities) for w in words)) for i in infos))


def _limits(infos: Iterable[AdapterInfo]) -> Iterator[str]:
    yield "\n## Their documented limits\n"
    yield from table(
        ("runtime", "what", "limit", "warns at", "source", "as of"),
        (
            (i.title, of["what"], f"{of['limit']:,} {of['unit']}", f"{of['warn']:,}" if "warn" in of else "", of["source"], of["as_of"])
            for i in infos
            for of in i.limits
        ),
    )  # fmt: skip


def _captures(adapter: str) -> Iterator[str]:
    found = [c for c in captures() if c.adapter == adapter and c.size < BIG]
    together = {path for c in found if len(c.files) > 1 for path, _ in c.files}
    rows = []
    for capture in found:
        if len(capture.files) == 1 and capture.files[0][0] in together:
            continue
        made = read(adapter, capture.inputs())
        if made.lines:
            rows.append(_row(capture, made))
    yield f"\n### {ADAPTERS[adapter].INFO.title}\n"
    yield from table(("capture", "entries", "runs", "status", "in the gap", "findings"), rows)


def _row(capture: Capture, made: Reading) -> tuple[object, ...]:
    summaries = list(made.summaries.values())
    words = [str(s.status) + ("" if s.complete or s.in_flight else " (incomplete)") for s in summaries]
    gaps = [f"{g.name or 'a step without a name'}: {g.verdict}" for s in summaries for g in s.gaps]
    codes = [f.code for s in summaries for f in s.findings]
    return (
        f"`{capture.name}`",
        sum(s.entries for s in summaries),
        len(summaries),
        _counted(words),
        _counted(gaps),
        _counted(codes, 99),
    )


def _counted(words: list[str], most: int = MOST) -> str:
    """`completed 3, parked`: the commonest first."""
    counts = Counter(words).most_common()
    told = [f"{word} {n}" if n > 1 else word for word, n in sorted(counts, key=lambda c: (-c[1], c[0]))]
    return ", ".join(told[:most]) + (f" and {len(told) - most} more" if len(told) > most else "")


if __name__ == "__main__":
    PATH.write_text(document(), "utf-8")
    sys.stdout.write(f"{PATH}\n")
