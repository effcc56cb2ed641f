"""Django's handle on this app."""

from django.apps import AppConfig


class ApprovalsConfig(AppConfig):
    """See ARCHITECTURE.md for what this app owns."""

    name = "runs.approvals"
    label = "approvals"
