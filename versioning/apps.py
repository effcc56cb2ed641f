"""Django's handle on this app."""

from django.apps import AppConfig


class VersioningConfig(AppConfig):
    """See ARCHITECTURE.md for what this app owns."""

    name = "versioning"

    def ready(self) -> None:
        """The run pages, which may not import this app, are told what only it knows."""
        from runs import projection, seams
        from versioning import queries, seen

        seams.COUNTS["deploys"] = seen.open_deploys
        seams.CURRENT_BUILDS.append(queries.current_builds)
        seams.NOBODY_RESUMES.append(seen.nobody_resumes)
        seams.DIFFERENCES.append(seen.differences)
        seams.NEEDS.append(seen.needs)
        projection.RETIREMENTS.append(queries.retirements)
