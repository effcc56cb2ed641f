"""What readers of tables (SQLite files, SQL dumps, JSON) give their rows to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol

from journals.adapters.base import Item, Unread


class Place(NamedTuple):
    """Where a row stands in its file, for the report."""

    line: int  # from 1; the row's number in a SQLite table
    byte: int  # from 0, in the unpacked file
    start: bytes  # its first bytes


class Sink(Protocol):
    """Takes the rows of one file."""

    title: ClassVar[str]  # whose tables it wants, for messages
    path: str
    torn: str  # why the file ends early; empty when it does not
    unread: list[Unread]
    problems: list[Item]

    @property
    def found(self) -> bool:
        """Whether a table that makes the file worth reading was named."""

    @property
    def named(self) -> bool:
        """Whether any wanted table was named."""

    def wants(self, table: str) -> bool:
        """Whether rows of this table are taken."""

    def has(self, table: str, columns: Iterable[str]) -> None:
        """The table is in the file, even when it is empty."""

    def add(self, table: str, fields: Mapping[str, Any], place: Place) -> None:
        """One row."""

    def skip(self, reason: str, place: Place) -> None:
        """A stretch that became no row."""

    def tear(self, reason: str) -> None:
        """The file ends early."""
