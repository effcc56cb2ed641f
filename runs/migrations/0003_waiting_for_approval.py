"""Runs that wait for an approval are few among the parked ones; the overview asks for them every few seconds."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0002_search")]
    operations = [
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("parked_on__startswith", "approval:"), ("status", "parked")),
                fields=["head"],
                name="runs_run_approval",
            ),
        ),
    ]
