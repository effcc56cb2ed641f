"""``manage.py prepare``: bring a database to this release. Safe to repeat, and quick when there is nothing to do."""

from __future__ import annotations

import secrets
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import BaseCommand, call_command
from django.db import connection, transaction

from config.roles import make_partitions

ADMIN = "admin"


class Command(BaseCommand):
    """Migrate, make the first admin, collect static files (if DRAINBOARD_STATIC names a folder)."""

    help = "Migrate, make the first admin, collect static files."

    def handle(self, *args: Any, **options: Any) -> None:
        with connection.cursor() as cursor:  # two starts on one database: the second waits for the first
            cursor.execute("SELECT pg_advisory_lock(hashtext('drainboard prepare'))")
            try:
                call_command("migrate", interactive=False, verbosity=0)
                make_partitions(settings.DATABASE)
                password = first_admin()
            finally:
                cursor.execute("SELECT pg_advisory_unlock(hashtext('drainboard prepare'))")
        if settings.STATIC_ROOT:
            call_command("collectstatic", interactive=False, verbosity=0)
        if password:
            self.stdout.write(f"\nSign in as {ADMIN!r} with the password {password}")
            self.stdout.write("It is shown this once; change it with: manage.py changepassword admin\n")
        else:
            self.stdout.write("Forgotten the admin's password? manage.py changepassword admin")


@transaction.atomic
def first_admin() -> str:
    """Make the first superuser and return its random password; an empty string if there is a superuser."""
    users = get_user_model()._default_manager
    if users.filter(is_superuser=True).exists():
        return ""
    password = secrets.token_urlsafe(15)
    users.create_superuser(ADMIN, password=password)
    return password
