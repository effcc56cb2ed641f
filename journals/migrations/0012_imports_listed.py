"""The list of imports leaves out batches of spans, of which there are many."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("journals", "0011_standing_conflicts"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="import",
            index=models.Index(
                fields=["id"],
                name="journals_import_listed",
                condition=models.Q(("actor__startswith", "otlp:"), _negated=True),
            ),
        ),
    ]
