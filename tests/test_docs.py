"""The documents say what the code has: every name in them exists, every closed list is whole, and nothing else is in the way."""

from __future__ import annotations

import ast
import gzip
import json
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from config.openapi import OPERATIONS
from journals.errors import Refused
from runs.findings import CODES
from tests.test_errors import kinds
from versioning.models import STOP_NAMES

BASE = Path(__file__).resolve().parent.parent
DOCS = BASE / "docs"
MIB = 1 << 20


@cache
def tracked() -> tuple[str, ...]:
    """Every file of the repository; of a copy without one, every file that would be in it."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=BASE, capture_output=True, check=False)
    if done.returncode == 0 and done.stdout:
        return tuple(sorted(n for n in done.stdout.decode().split("\0") if n and (BASE / n).is_file()))
    skipped = {".venv", ".git", ".drainboard", "node_modules", "__pycache__", "results"}
    found = (p.relative_to(BASE) for p in BASE.rglob("*") if p.is_file())
    return tuple(sorted(str(p) for p in found if not skipped & set(p.parts) and not p.name.startswith(".")))


def sources() -> Iterator[Path]:
    for name in tracked():
        if name.endswith((".py", ".sql")):
            yield BASE / name


MARKDOWN = [n for n in tracked() if n.endswith(".md") and not n.startswith("tests/fixtures")]


# -- ARCHITECTURE.md ------------------------------------------------------------------------------------------------


def invariants() -> list[tuple[str, str]]:
    """(number, what holds it) of every row of the table of invariants."""
    text = (BASE / "ARCHITECTURE.md").read_text("utf-8")
    return [(m[1], m[2]) for m in re.finditer(r"^\| (\d+) \|.*\| ([^|]+) \|$", text, re.MULTILINE)]


@cache
def defined() -> frozenset[str]:
    """Names that code or SQL defines: functions, classes, constraints, triggers, indexes."""
    names: set[str] = set()
    for path in sources():
        text = path.read_text("utf-8")
        if path.suffix == ".sql":
            names |= set(re.findall(r"\b(?:FUNCTION|TRIGGER|CONSTRAINT|TABLE|INDEX)\s+(\w+)", text))
            continue
        if "migrations" in path.parts:
            names |= set(re.findall(r"""name=["'](\w+)["']""", text))
        names |= {n.name for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    return frozenset(names)


def test_the_invariants_are_numbered_without_a_hole() -> None:
    assert [int(n) for n, _ in invariants()] == list(range(1, len(invariants()) + 1))
    assert len(invariants()) >= 17


@pytest.mark.parametrize(("number", "held_by"), invariants())
def test_what_holds_an_invariant_exists(number: str, held_by: str) -> None:
    names = re.findall(r"`([^`]+)`", held_by)
    assert names, f"invariant {number} names nothing that holds it"
    missing = [n for n in names if not ((BASE / n).is_file() if "/" in n else n in defined())]
    assert missing == []


def test_the_architecture_can_be_read_in_one_sitting() -> None:
    lines = (BASE / "ARCHITECTURE.md").read_text("utf-8").splitlines()
    assert len(lines) <= 300
    for heading in ("Bird's-eye view", "Reading order", "Code map", "Invariants"):
        assert f"## {heading}" in lines


# -- closed lists ---------------------------------------------------------------------------------------------------

PAGES = [("findings", code) for code in CODES] + [("stop-names", name) for name in STOP_NAMES]


@pytest.mark.parametrize(("folder", "names"), [("findings", set(CODES)), ("stop-names", set(STOP_NAMES))])
def test_a_closed_list_has_a_page_for_each_name_and_no_other(folder: str, names: set[str]) -> None:
    assert {p.stem for p in (DOCS / folder).glob("*.md")} == names


@pytest.mark.parametrize(("folder", "name"), PAGES)
def test_a_page_says_what_the_name_means_and_what_to_do(folder: str, name: str) -> None:
    text = (DOCS / folder / f"{name}.md").read_text("utf-8")
    assert text.startswith(f"# {name}\n")
    parts = dict(re.findall(r"^## ([^\n]+)\n+(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    for heading in ("What it means", "What to do"):
        assert len(parts.get(heading, "").split()) >= 8, f"{heading} of {name} says too little"


def test_the_api_reference_names_every_refusal_and_no_other() -> None:
    text = (DOCS / "worker-api.md").read_text("utf-8")
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| (\d{3})(?:, (retry))? \|", text, re.MULTILINE)
    told = {
        name: (int(status), retry == "retry") for names, status, retry in rows for name in re.findall(r"`(\w+)`", names)
    }
    assert told == {kind.code: (kind.status, kind.retry) for kind in kinds() if kind is not Refused}


def test_the_api_reference_names_every_call_and_no_other() -> None:
    text = (DOCS / "worker-api.md").read_text("utf-8")
    calls = {
        (m, re.sub(r"{\w+}", "{}", p.partition("?")[0])) for m, p in re.findall(r"`(GET|POST|PUT) (/[^`\s]*)`", text)
    }
    assert calls == {(m.upper(), re.sub(r"{\w+}", "{}", p)) for p, methods in OPERATIONS.items() for m in methods}


def test_every_setting_that_is_read_is_documented() -> None:
    """`DATABASE_URL` and its kin: what the environment may say."""
    read = set()
    for folder in ("config", "journals", "runs", "versioning"):
        for path in (BASE / folder).rglob("*.py"):
            text = path.read_text("utf-8")
            read |= set(re.findall(r"""ENV\.\w+\(\s*["']([A-Z_]+)["']""", text))
    assert read
    text = (DOCS / "operations.md").read_text("utf-8") + (BASE / "CONTRIBUTING.md").read_text("utf-8")
    assert sorted(name for name in read if f"`{name}`" not in text) == []


# -- links, paths, schemas ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MARKDOWN)
def test_every_link_leads_somewhere(name: str) -> None:
    text = (BASE / name).read_text("utf-8")
    for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", text):
        assert ((BASE / name).parent / target).exists(), f"{name} links to {target}"


PLACES = tuple(
    f"{p}/"
    for p in (
        "client",
        "config",
        "docs",
        "examples",
        "journals",
        "runs",
        "static",
        "templates",
        "tests",
        "versioning",
        "benchmarks",
    )
)
MADE = ("benchmarks/results/",)
"""Paths that a document may name although only running something makes them."""


@pytest.mark.parametrize("name", MARKDOWN)
def test_every_path_that_a_document_names_exists(name: str) -> None:
    text = (BASE / name).read_text("utf-8")
    for words in re.findall(r"`([^`\n]+)`", text):
        for path in words.split():
            plain = re.sub(r":\d+$", "", path.rstrip(".,;:"))
            if not plain.startswith(PLACES) or re.search(r"[<>*{}…]", plain) or plain.startswith(MADE):
                continue
            assert (BASE / plain.partition("::")[0]).exists(), f"{name} names {plain}"


def braces(text: str) -> Iterator[str]:
    """`a/{b,c}.py` as `a/b.py` and `a/c.py`."""
    found = re.search(r"\{([^{}]*)\}", text)
    if found is None:
        yield text
        return
    for word in found[1].split(","):
        yield from braces(text[: found.start()] + word + text[found.end() :])


def test_every_module_that_the_architecture_groups_exists() -> None:
    text = (BASE / "ARCHITECTURE.md").read_text("utf-8")
    grouped = [path for words in re.findall(r"`([\w/]+/\{[\w,]+\}\.py)`", text) for path in braces(words)]
    assert len(grouped) > 8
    assert [path for path in grouped if not (BASE / path).is_file()] == []


@pytest.mark.parametrize("path", sorted(DOCS.glob("*.schema.json")), ids=lambda p: p.name)
def test_a_schema_is_a_schema_that_a_document_names(path: Path) -> None:
    body = json.loads(path.read_text("utf-8"))
    Draft202012Validator.check_schema(body)
    assert body["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    assert any(path.name in (BASE / name).read_text("utf-8") for name in MARKDOWN), "no document names it"


@pytest.mark.parametrize("name", MARKDOWN)
def test_json_in_a_document_is_json(name: str) -> None:
    for block in re.findall(r"^```json\n(.*?)^```", (BASE / name).read_text("utf-8"), re.MULTILINE | re.DOTALL):
        try:
            json.loads(block)
        except json.JSONDecodeError:
            for line in block.splitlines():  # one value a line
                json.loads(line)


@pytest.mark.parametrize("name", MARKDOWN)
def test_commands_in_a_document_exist(name: str) -> None:
    """Each `manage.py` command that a document tells to run is one of ours or Django's."""
    from django.core.management import get_commands

    told = set(re.findall(r"manage\.py\s+([a-z_]+)", (BASE / name).read_text("utf-8")))
    assert sorted(told - get_commands().keys()) == []


# -- what must not be in any file -----------------------------------------------------------------------------------

WORDS = (
    "TO" + "DO",
    "FIX" + "ME",
    "XX" + "X:",
    "HA" + "CK:",
    "iss" + "ue #",
    "/wor" + "k/",
    "/ro" + "ot/",
    "/bri" + "ef/",
)
HOSTS = ("pypi" + ".org", "pythonhosted" + ".org", "npmjs" + ".org", "index" + "-url", "proxy.golang" + ".org")


def texts() -> Iterator[tuple[str, str]]:
    """Every tracked file as text; packed ones unpacked, as far as they can be."""
    for name in tracked():
        raw = (BASE / name).read_bytes()
        if name.endswith(".gz"):
            try:
                raw = gzip.decompress(raw)
            except (EOFError, gzip.BadGzipFile):
                continue
        yield name, raw.decode("utf-8", "replace")


def test_no_file_holds_a_note_to_ourselves_or_a_place_of_one_machine() -> None:
    found = {name: [word for word in (*WORDS, *HOSTS) if word in text] for name, text in texts()}
    assert {name: words for name, words in found.items() if words} == {}


def test_no_file_is_larger_than_a_mebibyte() -> None:
    assert [name for name in tracked() if (BASE / name).stat().st_size > MIB] == []


LONG: dict[str, str] = {}
"""Python files over 400 lines, and why each is one file."""


def test_no_module_is_longer_than_400_lines() -> None:
    counted = {
        name: len((BASE / name).read_text("utf-8").splitlines())
        for name in tracked()
        if name.endswith(".py") and "/migrations/" not in name and not name.startswith("tests/")
    }
    assert {name for name, lines in counted.items() if lines > 400} == set(LONG)


def test_no_template_is_longer_than_80_lines() -> None:
    names = [n for n in tracked() if n.startswith("templates/") and n.endswith(".html")]
    assert {
        n: len((BASE / n).read_text("utf-8").splitlines())
        for n in names
        if len((BASE / n).read_text("utf-8").splitlines()) > 80
    } == {}
