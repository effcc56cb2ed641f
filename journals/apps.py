"""Django's handle on this app."""

from django.apps import AppConfig


class JournalsConfig(AppConfig):
    """See ARCHITECTURE.md for what this app owns."""

    name = "journals"
    append_only = ("journals_entry", "journals_payload", "journals_node")  # the web role gets no UPDATE or DELETE on these
