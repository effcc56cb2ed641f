"""The installation says in one sentence what keeps it from working."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BASE = Path(__file__).resolve().parents[2]


def checkout(tmp_path: Path) -> Path:
    """A folder with what the installation reads, and no environment."""
    (tmp_path / "config").mkdir()
    for name in ("Makefile", "requirements.lock", "requirements-test.lock", "config/bootstrap.py"):
        shutil.copy(BASE / name, tmp_path / name)
    return tmp_path


def python_that(tmp_path: Path, line: str) -> str:
    """A Python that runs ``line`` before anything else."""
    path = tmp_path / "python"
    path.write_text(
        "#!/bin/sh\n"
        f"exec {sys.executable} -c 'import runpy, sys; sys.argv = sys.argv[1:]; {line}; "
        'runpy.run_path(sys.argv[0], run_name="__main__")\' "$@"\n'
    )
    path.chmod(0o755)
    return str(path)


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    variables = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    return subprocess.run(
        ["make", *arguments], cwd=folder, env=variables, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("target", ["run", "test"])
def test_names_the_python_that_is_too_old(tmp_path: Path, target: str) -> None:
    old = python_that(tmp_path, "sys.version_info = (3, 9, 2)")
    made = make(checkout(tmp_path), target, f"PYTHON={old}")
    assert made.returncode != 0
    assert "Drainboard needs Python 3.11 or newer" in made.stderr
    assert "is 3.9.2" in made.stderr
    assert "Traceback" not in made.stderr
    assert not (tmp_path / ".venv").exists()


def test_names_the_python_that_is_not_there(tmp_path: Path) -> None:
    made = make(checkout(tmp_path), "run", "PYTHON=python3.99")
    assert made.returncode != 0
    assert "python3.99 is not there" in made.stderr


def test_says_which_package_brings_the_venv_module(tmp_path: Path) -> None:
    bare = python_that(tmp_path, 'sys.modules["ensurepip"] = None')
    made = make(checkout(tmp_path), "run", f"PYTHON={bare}")
    assert made.returncode != 0
    assert re.search(r"apt install python3\.\d+-venv", made.stderr)
    assert "Traceback" not in made.stderr


def test_leaves_no_stamp_when_the_packages_cannot_be_installed(tmp_path: Path) -> None:
    folder = checkout(tmp_path)
    (folder / "requirements.lock").write_text("a line that is no requirement\n")
    made = make(folder, "run")
    assert made.returncode != 0
    assert "could not be installed" in made.stderr
    assert not (folder / ".venv" / "stamp").exists()


def test_is_read_by_old_pythons() -> None:
    source = (BASE / "config" / "bootstrap.py").read_text("utf-8")
    assert not re.search(r"""\b[fF]["']""", source)
    assert ":=" not in source
    assert not re.search(r"def \w+\([^)]*:", source)
