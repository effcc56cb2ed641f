"""Sources: the connected or imported places of runs, and the addresses of runs."""

from __future__ import annotations

import secrets
import string

from django.db import connection

from journals import errors

_ALPHABET = string.ascii_letters + string.digits


def new_key() -> str:
    """A random opaque address of a run: `r` and 21 characters, 125 bits."""
    return "r" + "".join(secrets.choice(_ALPHABET) for _ in range(21))


def native_source(environment: str) -> str:
    """The name of the source that holds the native runs of an environment."""
    return f"native:{environment}"


def source_id(name: str, *, runtime: str, native: bool = False) -> int:
    """The source of this name, made when new. Raises `NotAllowed` when it exists with another runtime."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO journals_source (name, runtime, native) VALUES (%s, %s, %s) ON CONFLICT (name) DO NOTHING",
            [name, runtime, native],
        )
        cursor.execute("SELECT id, runtime, native FROM journals_source WHERE name = %s", [name])
        found, was, was_native = cursor.fetchone()
    if was_native != native or was != runtime:
        held = "native runs" if was_native else f"{was} runs"
        raise errors.NotAllowed(f"source {name!r} holds {held}; use another source name", source=name, runtime=was)
    return int(found)
