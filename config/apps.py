"""The process as a Django app: it brings commands and the database's grants, no models."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate, pre_migrate


class ConfigConfig(AppConfig):
    """Binds tasks to this project's Celery application, and migrations to the two roles."""

    name = "config"

    def ready(self) -> None:
        from config import celery, roles  # noqa: F401

        pre_migrate.connect(roles.default_privileges, dispatch_uid="config.default_privileges")
        post_migrate.connect(roles.grant_changes, dispatch_uid="config.grant_changes")
