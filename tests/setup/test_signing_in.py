"""Guessing a password is slowed down, and nobody can lock somebody else out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

from config.signin import TRIES

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _fresh_counters() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


def sign_in(password: str, *, name: str = "bob", address: str = "10.0.0.1") -> Any:
    return Client(REMOTE_ADDR=address).post("/login/", {"username": name, "password": password})


def test_too_many_wrong_passwords_have_to_wait_even_with_the_right_one(people: Any) -> None:
    for _ in range(TRIES):
        assert sign_in("wrong").status_code == 200
    answer = sign_in("bob-password")
    assert (answer.status_code, b"Too many tries" in answer.content) == (429, True)


def test_others_are_not_locked_out(people: Any) -> None:
    for _ in range(TRIES):
        sign_in("wrong")
    assert sign_in("bob-password", address="10.0.0.2").status_code == 302
    assert sign_in("dora-password", name="dora").status_code == 302


def test_signing_in_forgets_the_tries_before(people: Any) -> None:
    for _ in range(TRIES - 1):
        sign_in("wrong")
    assert sign_in("bob-password").status_code == 302
    assert sign_in("wrong").status_code == 200
    assert sign_in("bob-password").status_code == 302
