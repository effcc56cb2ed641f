"""Two database roles and the queue's schema.

The owner role makes tables (``migrate``). The web role, under which pages, API and worker run, may read
and add rows everywhere; changing or removing rows is granted table by table, except on an app's
``append_only`` tables, which so refuse UPDATE and DELETE by privilege, their future partitions included.
"""

from __future__ import annotations

from typing import Any

import psycopg
from django.apps import AppConfig, apps
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections
from pgmq.install import get_embedded_install_sql
from psycopg import sql

from config.env import Database

OWNER_ROLE = "drainboard_owner"
DATABASE_NAME = "drainboard"


def prepare_cluster(superuser: Database, *, web_role: str) -> None:
    """Make the roles and the database of an embedded cluster; changes nothing that is there."""
    with psycopg.connect(**superuser.conninfo(), autocommit=True) as connection:
        roles = {name for (name,) in connection.execute("SELECT rolname FROM pg_roles")}
        for role, rights in ((OWNER_ROLE, "LOGIN CREATEDB"), (web_role, "LOGIN")):
            if role not in roles:
                connection.execute(sql.SQL("CREATE ROLE {} {}").format(sql.Identifier(role), sql.SQL(rights)))
        present = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE_NAME])
        if present.fetchone() is None:
            connection.execute(
                sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(DATABASE_NAME), sql.Identifier(OWNER_ROLE))
            )


def install_queue(owner: Database, *, web: Database) -> bool:
    """Install PGMQ's tables and functions, owned by the web role. False if they are there already.

    The queue belongs to the web role because its tables are made, emptied and dropped at run time; the role
    gets no right on any other schema by that. The installation itself is one transaction.
    """
    with psycopg.connect(**owner.conninfo(), autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(hashtext('drainboard queue'))")  # until we disconnect
        if connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'pgmq'").fetchone():
            return False
        names = {"database": sql.Identifier(owner.name), "role": sql.Identifier(web.user or owner.user)}
        connection.execute(sql.SQL("GRANT CREATE ON DATABASE {database} TO {role}").format(**names))
        try:
            with psycopg.connect(**web.conninfo()) as installing:
                installing.execute(get_embedded_install_sql().encode())
        finally:
            if web.user != owner.user:
                connection.execute(sql.SQL("REVOKE CREATE ON DATABASE {database} FROM {role}").format(**names))
    return True


def make_partitions(owner: Database) -> int:
    """Make the journal's partitions ahead of need; returns how many were made.

    A partition belongs to the owner role, so that the web role can neither change its rows nor drop it.
    """
    with psycopg.connect(**owner.conninfo(), autocommit=True) as connection:
        row = connection.execute("SELECT journals_make_partitions()").fetchone()
    return int(row[0]) if row else 0


def default_privileges(sender: AppConfig, using: str = DEFAULT_DB_ALIAS, **_: Any) -> None:
    """Before migrations: what the web role may do with every table that this owner will make."""
    role = _role_to_grant(using)
    if role is None:
        return
    _execute(
        using,
        "GRANT USAGE ON SCHEMA public TO {role}",
        "ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT, INSERT ON TABLES TO {role}",
        "ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT USAGE, SELECT ON SEQUENCES TO {role}",
        role=role,
    )


def grant_changes(sender: AppConfig, using: str = DEFAULT_DB_ALIAS, **_: Any) -> None:
    """After migrations: UPDATE and DELETE on every table of the app that is not append-only."""
    role = _role_to_grant(using)
    if role is None:
        return
    present = set(connections[using].introspection.table_names())
    tables = {
        model._meta.db_table
        for model in apps.get_app_config(sender.label).get_models(include_auto_created=True)
        if model._meta.managed and not model._meta.proxy
    }
    for table in sorted((tables & present) - set(getattr(sender, "append_only", ()))):
        _execute(using, "GRANT UPDATE, DELETE ON {table} TO {role}", role=role, table=table)


def _role_to_grant(using: str) -> str | None:
    """The web role, if it exists in this cluster and is not the role that migrates."""
    role: str = settings.DRAINBOARD_WEB_ROLE
    with connections[using].cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_roles WHERE rolname = %s AND rolname <> current_user", [role])
        return role if cursor.fetchone() else None


def _execute(using: str, *statements: str, **names: str) -> None:
    identifiers = {key: sql.Identifier(value) for key, value in names.items()}
    with connections[using].cursor() as cursor:
        for statement in statements:
            cursor.execute(sql.SQL(statement).format(**identifiers))
