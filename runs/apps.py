"""Django's handle on this app."""

from django.apps import AppConfig


class RunsConfig(AppConfig):
    """See ARCHITECTURE.md for what this app owns."""

    name = "runs"

    def ready(self) -> None:
        from runs import receivers  # noqa: F401
