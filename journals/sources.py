"""Sources: the connected or imported places of runs, and the addresses of runs."""

from __future__ import annotations

import secrets
import string
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection, transaction

from journals import errors, signals
from journals.cursors import plain_cursor

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


# -- mappings -----------------------------------------------------------------------------------------------------------

UNMAPPED = "{}"


class UnknownSource(errors.Refused):
    """No source has this name, as far as this token may see."""

    code, status = "UnknownSource", 404


class MappingMoved(errors.Refused):
    """Somebody has changed the source's mapping since it was read."""

    code, status = "MappingMoved", 409


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One source and the mapping that it has."""

    id: int
    name: str
    runtime: str
    native: bool
    created_at: datetime
    mapping: str  # JSON text
    version: int  # of the mapping: the number of its newest change, 0 for none


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of a mapping."""

    version: int
    at: datetime
    by: str
    body: str


_SOURCE = """SELECT s.id, s.name, s.runtime, s.native, s.created_at, s.mapping,
    coalesce((SELECT max(m.id) FROM journals_mapping m WHERE m.source_id = s.id), 0) FROM journals_source s WHERE """


def source(*, name: str | None = None, source_id: int | None = None, lock: bool = False) -> Source:
    """The source of this name or number. `lock` keeps its mapping until the transaction ends. Raises `UnknownSource`."""
    where, given = ("s.name = %s", name) if name is not None else ("s.id = %s", source_id)
    with plain_cursor() as cursor:
        cursor.execute(_SOURCE + where + (" FOR NO KEY UPDATE" if lock else ""), [given])
        row = cursor.fetchone()
    if row is None:
        raise UnknownSource(f"no source has the {'name' if name is not None else 'number'} {given!r}")
    return Source(
        id=row[0], name=row[1], runtime=row[2], native=row[3], created_at=row[4], mapping=row[5], version=row[6]
    )


def change_mapping(source_id: int, body: str, *, by: str, expected: int | None = None) -> int:
    """Gives the source this mapping (checked JSON text) and marks its runs as behind, so that they are folded again; how many those are.

    An equal mapping changes nothing and answers 0. `expected` is the version that the caller read: another one raises
    `MappingMoved`. Raises `NotAllowed` for a native source, whose workers record what a step is.
    """
    with transaction.atomic():
        found = source(source_id=source_id, lock=True)
        if found.native:
            raise errors.NotAllowed(f"source {found.name!r} holds native runs; their workers say what a step is")
        if expected is not None and expected != found.version:
            raise MappingMoved(
                f"the mapping of {found.name!r} was changed since it was read; look at it again", version=found.version
            )
        if body == found.mapping:
            return 0
        with plain_cursor() as cursor:
            cursor.execute("UPDATE journals_source SET mapping = %s WHERE id = %s", [body, source_id])
            cursor.execute(
                "INSERT INTO journals_mapping (source_id, by, body) VALUES (%s, %s, %s)", [source_id, by, body]
            )
            # Heads that are dirty already too: a fold under way that read the old mapping must not call its run up to date.
            cursor.execute(
                "UPDATE journals_head h SET dirty = true FROM (SELECT id FROM journals_head WHERE source_id = %s ORDER BY id FOR UPDATE) few"
                " WHERE h.id = few.id RETURNING h.id",
                [source_id],
            )
            head_ids = [i for (i,) in cursor.fetchall()]
        signals.announce(head_ids[:FOLDED_AT_ONCE])
    return len(head_ids)


FOLDED_AT_ONCE = 20  # runs; pages and the sweep catch up on the others


def mapping_changes(source_id: int, *, limit: int = 50) -> Sequence[Change]:
    """Changes of the source's mapping, newest first."""
    with plain_cursor() as cursor:
        cursor.execute(
            "SELECT id, at, by, body FROM journals_mapping WHERE source_id = %s ORDER BY id DESC LIMIT %s",
            [source_id, limit],
        )
        return [Change(version=v, at=at, by=by, body=body) for v, at, by, body in cursor]
