"""Settings out of the environment are checked, and a bad one is refused by its name."""

from __future__ import annotations

import psycopg
import pytest

from config.attach import url_of
from config.env import BadSetting, Environment


def env(**variables: str) -> Environment:
    return Environment(variables)


def test_reads_what_is_given() -> None:
    given = env(PORT="9000", DEBUG="yes", ALLOWED_HOSTS="a.example, b.example,", NAME="  x ")
    assert given.integer("PORT", 8765, least=1, most=65535) == 9000
    assert given.flag("DEBUG", default=False) is True
    assert given.words("ALLOWED_HOSTS") == ("a.example", "b.example")
    assert given.text("NAME") == "x"


def test_treats_an_empty_variable_as_absent() -> None:
    given = env(PORT="", DEBUG=" ", ALLOWED_HOSTS=",", DATABASE_URL="")
    assert given.integer("PORT", 8765, least=1, most=65535) == 8765
    assert given.flag("DEBUG", default=True) is True
    assert given.words("ALLOWED_HOSTS", ("localhost",)) == ("localhost",)
    assert given.database("DATABASE_URL") is None


@pytest.mark.parametrize("value", ["0", "65536", "-1", "80a", "8 0", "٣", "1e3", "9" * 30])
def test_refuses_a_bad_port_by_name(value: str) -> None:
    with pytest.raises(BadSetting, match=r"^PORT: ") as refused:
        env(PORT=value).integer("PORT", 8765, least=1, most=65535)
    assert refused.value.name == "PORT"


@pytest.mark.parametrize("value", ["maybe", "2", "tru", "yes\nno"])
def test_refuses_a_bad_flag_by_name(value: str) -> None:
    with pytest.raises(BadSetting, match=r"^DEBUG: "):
        env(DEBUG=value).flag("DEBUG", default=False)


def test_refuses_a_word_that_is_not_on_the_list() -> None:
    with pytest.raises(BadSetting, match="LOG_LEVEL: is 'LOUD'; give one of DEBUG, INFO"):
        env(LOG_LEVEL="LOUD").choice("LOG_LEVEL", "INFO", {"INFO", "DEBUG"})


def test_reads_a_database_address() -> None:
    url = "postgresql://anna:p%40ss@db.example:6432/drain%20board?sslmode=require"
    database = env(DATABASE_URL=url).database("DATABASE_URL")
    assert database is not None
    assert database.conninfo() == {
        "dbname": "drain board",
        "user": "anna",
        "password": "p@ss",
        "host": "db.example",
        "port": 6432,
        "sslmode": "require",
    }


def test_reads_a_database_address_over_a_socket() -> None:
    database = env(U="postgresql://web@/drainboard?host=/run/pg&port=5433").database("U")
    assert database is not None
    assert (database.host, database.port, database.user) == ("/run/pg", 5433, "web")


@pytest.mark.parametrize(
    "url",
    ["mysql://h/x", "db.example/x", "postgresql://h:port/x", "postgresql://h:99999/x", "postgresql://h", "x"],
)
def test_refuses_a_bad_database_address_by_name(url: str) -> None:
    with pytest.raises(BadSetting, match=r"^DATABASE_URL: "):
        env(DATABASE_URL=url).database("DATABASE_URL")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://anna:p%40ss%2F@db.example:6432/drain%20board?sslmode=require",
        "postgresql://web@/drainboard?host=/tmp/a%20b/socket",
        "postgresql:///drainboard",
    ],
)
def test_writes_an_address_that_reads_as_the_same_database(url: str) -> None:
    database = env(U=url).database("U")
    assert database is not None
    assert env(U=url_of(database)).database("U") == database
    assert psycopg.conninfo.conninfo_to_dict(url_of(database))["dbname"] == database.name


def test_never_repeats_a_password() -> None:
    with pytest.raises(BadSetting) as refused:
        env(DATABASE_URL="postgresql://u:geheim@h:port/x").database("DATABASE_URL")
    assert "geheim" not in str(refused.value)
