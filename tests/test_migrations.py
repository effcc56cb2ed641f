"""The schema: no model without its migration, every migration goes back, and none depends on what the code is today."""

from __future__ import annotations

import ast
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, connections
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations import RunPython, RunSQL

BASE = Path(__file__).resolve().parent.parent
APPS = ("journals", "runs", "approvals", "versioning")
FILES = sorted(p for p in BASE.glob("*/**/migrations/[0-9]*.py") if ".venv" not in p.parts and "results" not in p.parts)
MAY_IMPORT = ("django", "pathlib", "datetime", "__future__")


def test_no_model_waits_for_a_migration(db: None) -> None:
    out = io.StringIO()
    call_command("makemigrations", "--check", "--dry-run", stdout=out, verbosity=1)
    assert "No changes detected" in out.getvalue()


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.parent.name}.{p.stem}")
def test_a_migration_imports_nothing_of_ours(path: Path) -> None:
    """What the code is called today must not change what a release of last year did to the database."""
    names = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import is an import of ours"
            names.append(node.module or "")
    assert [name for name in names if name.split(".")[0] not in MAY_IMPORT] == []


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.parent.name}.{p.stem}")
def test_a_migration_says_what_it_is_for(path: Path) -> None:
    assert len((ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").split()) >= 4


def test_every_operation_can_be_undone() -> None:
    loader = MigrationLoader(None)
    for (app, name), migration in loader.disk_migrations.items():
        if app in APPS:
            for operation in migration.operations:
                assert operation.reversible, f"{app}.{name}: {operation.describe()}"
                if isinstance(operation, RunSQL) and not str(operation.sql).startswith("UPDATE"):
                    assert operation.reverse_sql != RunSQL.noop, f"{app}.{name} says that there is nothing to undo"
                assert not isinstance(operation, RunPython) or operation.reverse_code is not RunPython.noop


def test_there_is_one_last_migration_of_each_app() -> None:
    assert not MigrationLoader(None).detect_conflicts()


# -- down and up again, on a database of its own --------------------------------------------------------------------


@pytest.fixture
def scratch(django_db_setup: None, django_db_blocker: Any) -> Iterator[str]:
    """An alias for an empty database beside the test database."""
    found = connection.settings_dict
    name = f"{found['NAME']}_scratch"
    with django_db_blocker.unblock():
        with connection._nodb_cursor() as cursor:  # type: ignore[attr-defined]
            cursor.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
            cursor.execute(f'CREATE DATABASE "{name}"')
        connections.settings["scratch"] = {
            **found,
            "NAME": name,
            "OPTIONS": {},
            "TEST": {**found["TEST"], "NAME": name},
        }
        try:
            yield "scratch"
        finally:
            connections["scratch"].close()
            del connections["scratch"]
            del connections.settings["scratch"]
            with connection._nodb_cursor() as cursor:  # type: ignore[attr-defined]
                cursor.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def schema(alias: str) -> dict[str, list[tuple[Any, ...]]]:
    """Tables, columns, constraints, indexes, functions and triggers of the public schema."""
    questions = {
        "columns": "SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2",
        "constraints": "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2",
        "indexes": "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1, 2",
        "functions": "SELECT p.oid::regprocedure::text, md5(prosrc) FROM pg_proc p WHERE pronamespace = 'public'::regnamespace AND NOT EXISTS"
        " (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e') ORDER BY 1",
        "triggers": "SELECT tgrelid::regclass::text, tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1, 2",
    }
    made = {}
    with connections[alias].cursor() as cursor:
        for name, question in questions.items():
            cursor.execute(question)
            made[name] = cursor.fetchall()
    return made


def ours(found: dict[str, list[tuple[Any, ...]]]) -> dict[str, list[tuple[Any, ...]]]:
    return {
        k: [r for r in rows if str(r[0]).startswith(("journal", "runs_", "approvals_", "versioning_"))]
        for k, rows in found.items()
    }


def test_the_schema_goes_down_to_nothing_and_comes_up_the_same(scratch: str) -> None:
    call_command("migrate", database=scratch, verbosity=0, interactive=False)
    whole = schema(scratch)
    assert all(ours(whole).values())
    for app in ("versioning", "approvals", "runs", "journals"):
        call_command("migrate", app, "zero", database=scratch, verbosity=0, interactive=False)
    assert ours(schema(scratch)) == {name: [] for name in whole}
    call_command("migrate", database=scratch, verbosity=0, interactive=False)
    assert schema(scratch) == whole


def test_each_migration_alone_goes_down_and_up(scratch: str) -> None:
    """From the top: take back each last step, and make it again, with what came before in place."""
    executor = MigrationExecutor(connections[scratch])
    executor.migrate(executor.loader.graph.leaf_nodes())
    plan = [
        m
        for m, _ in MigrationExecutor(connections[scratch]).migration_plan(
            executor.loader.graph.leaf_nodes(), clean_start=True
        )
    ]
    for migration in reversed([m for m in plan if m.app_label in APPS]):
        key = (migration.app_label, migration.name)
        before = schema(scratch)
        executor = MigrationExecutor(connections[scratch])
        parents = [p for p in executor.loader.graph.node_map[key].parents if p.key[0] == key[0]]
        target = parents[0].key if parents else (key[0], None)
        executor.migrate([target])
        MigrationExecutor(connections[scratch]).migrate([key])
        assert schema(scratch) == before, key
        MigrationExecutor(connections[scratch]).migrate([target])
