"""Which runs have conflicts is asked for each run of a report."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("journals", "0010_imports")]
    operations = [
        AddIndexConcurrently(
            model_name="importrun",
            index=models.Index(
                condition=models.Q(("conflicts", []), _negated=True),
                fields=["head_id"],
                name="journals_import_run_conflicts",
            ),
        )
    ]
