"""Rules over the whole repository that no linter knows."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

BASE = Path(__file__).resolve().parent.parent
LOCKS = ("requirements.lock", "requirements-test.lock")
CODE = ("config", "journals", "runs", "versioning", "client/src", "examples", "benchmarks")

# Each turns bytes of a payload into objects, or text into code.
BANNED_MODULES = frozenset(
    {
        "pickle", "_pickle", "cPickle", "pickletools", "dill", "cloudpickle", "marshal", "shelve", "jsonpickle", "joblib", "msgpack", "yaml",
        "ruamel", "runpy", "code", "codeop",
    }
)  # fmt: skip
BANNED_CALLS = frozenset({"eval", "exec", "compile", "__import__"})
BANNED_METHODS = frozenset(
    {("numpy", "load"), ("builtins", "eval"), ("builtins", "exec"), ("builtins", "compile"), ("builtins", "__import__")}
)
BANNED_HOOKS = frozenset({"ext_hook", "object_hook", "find_class", "persistent_load"})
"""Arguments that hand a part of a payload to code while it is decoded."""
IMPORTS_BY_NAME = {
    "config/celery.py": "task modules of our own apps",
    "journals/adapters/__init__.py": "the adapters in this folder",
    "client/src/drainboard/cli.py": "the agent's module that the caller names on the command line",
}


def sources() -> Iterator[Path]:
    for folder in CODE:
        yield from (p for p in sorted((BASE / folder).rglob("*.py")) if "site-packages" not in p.parts)


def breaches(source: str) -> list[str]:
    """What in this source could turn a payload into an object or into code."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] in BANNED_MODULES]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in BANNED_MODULES:
            found.append(node.module or "")
        elif isinstance(node, ast.Call):
            found += banned_call(node.func)
            found += [word.arg for word in node.keywords if word.arg in BANNED_HOOKS]
        elif isinstance(node, ast.FunctionDef) and node.name in BANNED_HOOKS:
            found.append(node.name)
    return found


def imports_by_name(source: str) -> bool:
    """Whether this source imports a module whose name it computes."""
    return any(
        (isinstance(node, ast.Attribute) and node.attr == "import_module")
        or (isinstance(node, ast.Name) and node.id == "import_module")
        for node in ast.walk(ast.parse(source))
    )


def banned_call(called: ast.expr) -> list[str]:
    if isinstance(called, ast.Name) and called.id in BANNED_CALLS:
        return [called.id]
    if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
        pair = (called.value.id, called.attr)
        return [".".join(pair)] if pair in BANNED_METHODS else []
    return []


def unescaped(source: str) -> list[str]:
    """What in this source could put recorded text into a page as markup."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module == "django.utils.safestring":
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.Attribute) and node.attr in {"mark_safe", "SafeString", "SafeText"}:
            found.append(node.attr)
        elif isinstance(node, ast.FunctionDef) and node.name == "__html__":
            found.append(node.name)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            told = {"format_html": 0, "format_html_join": 1}.get(node.func.id)
            if told is not None and not isinstance(node.args[told], ast.Constant):
                found.append(f"{node.func.id} of what is not written here")
    return found


def test_no_recorded_text_becomes_markup() -> None:
    found = {str(path.relative_to(BASE)): unescaped(path.read_text("utf-8")) for path in sources()}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "source",
    [
        "from django.utils.safestring import mark_safe",
        "safestring.mark_safe(x)",
        "format_html(x)",
        "format_html_join('', f'<b>{x}', y)",
    ],
)
def test_sees_what_would_make_markup_of_text(source: str) -> None:
    assert unescaped(source)


def test_nothing_that_is_kept_or_sent_is_a_pickle() -> None:
    assert settings.CELERY_ACCEPT_CONTENT == ["json"]
    assert settings.CELERY_TASK_SERIALIZER == "json"
    assert settings.SESSION_SERIALIZER.endswith(".JSONSerializer")
    assert {cache["BACKEND"] for cache in settings.CACHES.values()} == {"django.core.cache.backends.locmem.LocMemCache"}


@pytest.mark.parametrize(
    "path", sorted([*(BASE / "templates").rglob("*.svg"), *(BASE / "static").rglob("*.svg")]), ids=lambda p: p.name
)
def test_a_drawing_is_only_a_drawing(path: Path) -> None:
    text = path.read_text("utf-8")
    assert not re.search(
        r"<(script|style|foreignObject|use|image|a)\b|\bon\w+\s*=|\bstyle\s*=|href", text, re.IGNORECASE
    )


@pytest.mark.parametrize("path", sorted((BASE / "static").rglob("*.js")), ids=lambda p: p.name)
def test_a_script_makes_no_markup_and_no_code_of_text(path: Path) -> None:
    text = path.read_text("utf-8")
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|set(Timeout|Interval)\(\s*['\"`]",
        text,
    )


def test_no_payload_is_turned_into_an_object() -> None:
    found = {str(path.relative_to(BASE)): breaches(path.read_text("utf-8")) for path in sources()}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "import marshal as m",
        "eval('1')",
        "import yaml\nyaml.load(x)",
        "__import__('pickle')",
        "import msgpack",
        "from ruamel.yaml import YAML",
        "msgspec.msgpack.decode(x, ext_hook=build)",
        "json.loads(x, object_hook=build)",
        "builtins.eval(x)",
        "class Loader:\n    def find_class(self, module, name): ...",
    ],
)
def test_sees_what_would_turn_a_payload_into_an_object(source: str) -> None:
    assert breaches(source)


def test_only_named_places_import_by_name() -> None:
    found = {str(path.relative_to(BASE)) for path in sources() if imports_by_name(path.read_text("utf-8"))}
    assert found == IMPORTS_BY_NAME.keys()


@pytest.mark.parametrize("name", LOCKS)
def test_lock_names_no_address(name: str) -> None:
    assert "://" not in (BASE / name).read_text("utf-8")


@pytest.mark.parametrize("name", LOCKS)
def test_lock_pins_every_package_with_a_hash(name: str) -> None:
    requirements = re.split(r"\n(?=\S)", (BASE / name).read_text("utf-8").strip())
    assert len(requirements) > 30
    for requirement in requirements:
        assert re.match(r"^[a-z0-9-]+==\S+", requirement), requirement
        assert "--hash=sha256:" in requirement, requirement


def pins(name: str) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9-]+)==([^\s;]+)", (BASE / name).read_text("utf-8"), re.MULTILINE))


def test_tests_run_on_the_packages_that_are_shipped() -> None:
    run, test = (pins(name) for name in LOCKS)
    assert run.items() <= test.items()


def test_each_required_package_is_in_its_lock() -> None:
    for source, lock in zip(("requirements.in", "requirements-test.in"), LOCKS, strict=True):
        wanted = re.findall(r"^([A-Za-z0-9_.-]+)", (BASE / source).read_text("utf-8"), re.MULTILINE)
        names = {re.sub(r"[-_.]+", "-", name).lower() for name in wanted if not name.startswith("-")}
        assert names <= pins(lock).keys()


def test_client_needs_nothing_but_python() -> None:
    project = tomllib.loads((BASE / "client" / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["dependencies"] == []


def test_every_document_that_is_linked_exists() -> None:
    for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"):
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", (BASE / name).read_text("utf-8")):
            assert (BASE / target).exists(), f"{name} links to {target}"
