"""The database backend that `DATABASES` names.

Django's own health check asks PostgreSQL once per request, which is a second round trip on every append. A connection that
the server has closed shows it on its socket; only one with something to read while it is idle is asked.
"""

from __future__ import annotations

import select
from typing import Any

from django.db.backends.postgresql import base
from psycopg import Connection, OperationalError
from psycopg_pool import ConnectionPool


def check_quietly(connection: Connection[Any]) -> None:
    """Raises `OperationalError` for a connection that cannot be used; silent, and without a round trip, for one that can."""
    if connection.closed:
        raise OperationalError("the connection is closed")
    readable = select.poll()
    readable.register(connection.fileno(), select.POLLIN | select.POLLHUP | select.POLLERR)
    if readable.poll(0):
        ConnectionPool.check_connection(connection)


class DatabaseWrapper(base.DatabaseWrapper):
    """As Django's, but pooled connections are checked by their socket."""

    @property
    def pool(self) -> Any:
        found = super().pool
        if found is not None and found._check is not check_quietly:
            found._check = check_quietly  # Django passes its own check only, and the pool has no setter
        return found
