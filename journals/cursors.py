"""A psycopg cursor beside Django's: parameters are bound by the server, statements can be prepared, bytes go as bytes."""

from __future__ import annotations

from typing import Any

import psycopg
from django.db import connection
from psycopg.rows import tuple_row


def plain_cursor(row_factory: Any = tuple_row) -> psycopg.Cursor[Any]:
    """A cursor on Django's present connection, inside its present transaction if there is one."""
    connection.ensure_connection()
    return psycopg.Cursor(connection.connection, row_factory=row_factory)
