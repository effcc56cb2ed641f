"""The people and tokens that tests use; a pytest plugin, named in `tests/conftest.py`."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest


def pytest_configure() -> None:
    """Nudges go nowhere in tests: the job row is the truth, and tests run the job themselves."""
    from config.celery import app

    app.conf.update(broker_url="memory://", broker_transport_options={})


@pytest.fixture(autouse=True)
def _quick_passwords(settings: Any) -> None:
    """Slow hashes are for real passwords."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def people(db: None) -> dict[str, Any]:
    """The cast: alice operates, bob approves, dora administers, vera views; charlie's account is switched off."""
    from django.contrib.auth import get_user_model
    from django.contrib.auth.models import Group

    made = {}
    for name, role in (
        ("alice", "operator"),
        ("bob", "approver"),
        ("dora", "admin"),
        ("vera", "viewer"),
        ("charlie", None),
    ):
        person = get_user_model().objects.create_user(name, password=f"{name}-password", is_active=role is not None)
        if role:
            person.groups.add(Group.objects.get_or_create(name=role)[0])
        made[name] = person
    return made


@pytest.fixture
def token(db: None) -> Callable[..., str]:
    """`token("worker", agent=…)`: the secret of a new token."""
    from journals import access

    names = (f"token-{n}" for n in itertools.count(1))

    def make(scope: str, **limits: str) -> str:
        return access.create_token(next(names), scope=scope, created_by="tests", **limits)[1]  # type: ignore[arg-type]

    return make


@pytest.fixture(autouse=True)
def _fresh_payload_memory() -> None:
    """A process remembers which lists are stored; tests roll the database back under it."""
    from journals import appending

    appending._KNOWN.clear()
