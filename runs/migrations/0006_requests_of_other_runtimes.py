"""Runs of other runtimes that wait for an answer: the inbox and the count in the top bar ask for them all the time."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0005_step_said")]
    operations = [
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(
                    ("in_flight", True), ("native", False), ("summary__contains", {"approvals": [{"open": True}]})
                ),
                fields=["head"],
                name="runs_run_asks",
            ),
        ),
    ]
