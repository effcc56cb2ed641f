"""Django's handle on this app."""

from django.apps import AppConfig


class JournalsConfig(AppConfig):
    """See ARCHITECTURE.md for what this app owns."""

    name = "journals"
