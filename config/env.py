"""Settings out of environment variables: each is read once, checked, and refused by name.

An empty variable counts as absent, so that ``PORT= make run`` gives the default.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
FALSE_WORDS = frozenset({"0", "false", "no", "off"})
POSTGRES_SCHEMES = frozenset({"postgresql", "postgres"})


class BadSetting(ValueError):
    """An environment variable has a value that Drainboard cannot use."""

    def __init__(self, name: str, fact: str) -> None:
        super().__init__(f"{name}: {fact}")
        self.name = name


@dataclass(frozen=True, slots=True)
class Database:
    """Where a PostgreSQL database is and as whom to connect; ``host`` may be a socket's folder."""

    name: str
    user: str
    password: str
    host: str
    port: int
    options: tuple[tuple[str, str], ...] = ()

    def conninfo(self) -> dict[str, Any]:
        """Keyword arguments for ``psycopg.connect``."""
        access = {"user": self.user, "password": self.password, "host": self.host}
        given = {key: value for key, value in access.items() if value}
        return {"dbname": self.name, "port": self.port, **given, **dict(self.options)}


class Environment:
    """A read-only view of environment variables; every reader names the variable it refuses."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables

    def text(self, name: str, default: str = "") -> str:
        """The value without surrounding blanks, else the default."""
        value = self._variables.get(name, "").strip()
        if "\x00" in value or "\n" in value:
            raise BadSetting(name, "contains a line break or a NUL character; give one line of text")
        return value or default

    def flag(self, name: str, *, default: bool) -> bool:
        """True or False out of 1/0, true/false, yes/no, on/off."""
        value = self.text(name).lower()
        if not value:
            return default
        if value in TRUE_WORDS:
            return True
        if value in FALSE_WORDS:
            return False
        raise BadSetting(name, f"is {value!r}; give 1 or 0")

    def integer(self, name: str, default: int, *, least: int, most: int) -> int:
        """A whole number between ``least`` and ``most``, both allowed."""
        value = self.text(name)
        if not value:
            return default
        if not (value.isascii() and value.isdigit()) or len(value) > 20:
            raise BadSetting(name, f"is {value!r}; give a whole number from {least} to {most}")
        number = int(value)
        if not least <= number <= most:
            raise BadSetting(name, f"is {number}; give a whole number from {least} to {most}")
        return number

    def choice(self, name: str, default: str, allowed: Collection[str]) -> str:
        """One of the allowed words."""
        value = self.text(name, default)
        if value not in allowed:
            raise BadSetting(name, f"is {value!r}; give one of {', '.join(sorted(allowed))}")
        return value

    def words(self, name: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """The parts of a comma-separated list, blanks and empty parts left out."""
        parts = tuple(part.strip() for part in self.text(name).split(","))
        return tuple(part for part in parts if part) or default

    def database(self, name: str) -> Database | None:
        """A PostgreSQL address ``postgresql://user:password@host:port/name``, or None if absent."""
        value = self.text(name)
        return parse_database(name, value) if value else None


def parse_database(name: str, value: str) -> Database:
    """Read a PostgreSQL address; ``name`` is the variable to blame. The password is never shown."""
    try:
        parts = urlsplit(value)
        port = parts.port or 5432
    except ValueError:
        raise BadSetting(name, "is not an address; give postgresql://user:password@host:port/database") from None
    if parts.scheme not in POSTGRES_SCHEMES:
        raise BadSetting(name, f"starts with {parts.scheme!r}; Drainboard needs a postgresql:// address")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    host = options.pop("host", "") or unquote(parts.hostname or "")
    if "port" in options:
        port = Environment({name: options.pop("port")}).integer(name, port, least=1, most=65535)
    database = unquote(parts.path.removeprefix("/"))
    if not database:
        raise BadSetting(name, "names no database; end the address with /<database>")
    return Database(
        name=database,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        host=host,
        port=port,
        options=tuple(options.items()),
    )
