"""Django's handle on this app."""

from django.apps import AppConfig


class ApprovalsConfig(AppConfig):
    """See ARCHITECTURE.md for what this app owns."""

    name = "runs.approvals"
    label = "approvals"

    def ready(self) -> None:
        """The top bar counts what waits for the person who looks."""
        from runs import seams
        from runs.approvals import queries

        seams.COUNTS["approvals"] = queries.count_for
