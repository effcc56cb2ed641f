"""The process as a Django app: it brings commands, no models."""

from django.apps import AppConfig


class ConfigConfig(AppConfig):
    """Loads Celery, so that tasks bind to this project's application."""

    name = "config"

    def ready(self) -> None:
        from config import celery  # noqa: F401
