"""The database refuses changes of the past, and the chain shows them when they were forced."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from journals import store
from tests.journals.agents import Worker

pytestmark = pytest.mark.django_db
TABLES = ("journals_entry", "journals_entry_p0", "journals_entry_p1", "journals_payload", "journals_node")


@pytest.fixture
def worker(token: Any) -> Worker:
    worker = Worker(token("worker")).start({"a": "b" * 300}).open()
    worker.post(*(worker.line("tool.result", name="t", step=i, out="x" * 300) for i in range(1, 6)))
    return worker


@pytest.fixture
def web_role(db: None) -> str:
    """The web role with the privileges that migrations give it, inside this test's transaction."""
    from django.apps import apps

    from config import roles

    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_roles WHERE rolname = 'drainboard_web'")
        if cursor.fetchone() is None:
            cursor.execute("CREATE ROLE drainboard_web LOGIN")
        cursor.execute("GRANT USAGE ON SCHEMA public TO drainboard_web")
        cursor.execute("GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA public TO drainboard_web")
    roles.grant_changes(apps.get_app_config("journals"))
    return "drainboard_web"


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(
    "statement", ["UPDATE {} SET digest = ''", "DELETE FROM {}", "TRUNCATE {}", "ALTER TABLE {} DISABLE TRIGGER ALL"]
)
def test_the_web_role_may_not_change_the_past(worker: Worker, web_role: str, table: str, statement: str) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL ROLE drainboard_web")
        with pytest.raises(DatabaseError, match=r"permission denied|must be owner"), transaction.atomic():
            cursor.execute(statement.format(table))
        cursor.execute("RESET ROLE")


@pytest.mark.parametrize("table", ["journals_entry", "journals_entry_p0", "journals_payload"])
@pytest.mark.parametrize("statement", ["UPDATE {} SET digest = ''", "DELETE FROM {}"])
def test_a_trigger_refuses_even_the_owner(worker: Worker, table: str, statement: str) -> None:
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement.format(table))


def forced(statement: str, *params: Any) -> None:
    """A change by somebody who owns the database and switches the triggers off."""
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(statement, params)
        cursor.execute("SET session_replication_role = DEFAULT")


def test_a_sound_chain_verifies(worker: Worker) -> None:
    assert store.verify(worker.head.id).ok


@pytest.mark.parametrize(
    ("statement", "pos"),
    [
        ("UPDATE journals_entry SET line = overlay(line placing 'X' from 3 for 1) WHERE head_id = %s AND pos = 4", 4),
        ("UPDATE journals_entry SET actor = 'worker:x' WHERE head_id = %s AND pos = 5", 5),
        (
            "UPDATE journals_entry SET recorded_at = recorded_at + interval '1 microsecond' WHERE head_id = %s AND pos = 3",
            3,
        ),
        ("UPDATE journals_entry SET epoch = epoch + 1 WHERE head_id = %s AND pos = 3", 3),
        ("DELETE FROM journals_entry WHERE head_id = %s AND pos = 4", 4),
        ("DELETE FROM journals_entry WHERE head_id = %s AND pos = 7", 7),
    ],
)
def test_one_changed_byte_or_entry_is_found(worker: Worker, statement: str, pos: int) -> None:
    forced(statement, worker.head.id)
    found = store.verify(worker.head.id)
    assert (found.ok, found.bad_pos) == (False, pos)


def test_a_changed_payload_is_found(worker: Worker) -> None:
    forced(
        "UPDATE journals_payload SET body = '\\x00'::bytea || convert_to('\"' || repeat('y', 300) || '\"', 'UTF8') WHERE size = 302"
    )
    assert not store.verify(worker.head.id).ok
