"""Django's handle on this app."""

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class JournalsConfig(AppConfig):
    """See ARCHITECTURE.md for what this app owns."""

    name = "journals"
    append_only = (
        "journals_entry",
        "journals_payload",
        "journals_node",
        "journals_mapping",
    )  # the web role gets no UPDATE or DELETE on these

    def ready(self) -> None:
        """After migrations the roles are there as groups."""
        post_migrate.connect(make_roles, sender=self)


def make_roles(**_: Any) -> None:
    """One Django group for each role; groups that exist stay as they are."""
    from django.contrib.auth.models import Group

    from journals.access import ROLES

    for role in ROLES:
        Group.objects.get_or_create(name=role)
