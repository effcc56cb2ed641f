"""When a deploy changed its state, and who changed it."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("versioning", "0002_claim_indexes"),
    ]

    operations = [
        migrations.CreateModel(
            name="StateChange",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "state",
                    models.TextField(
                        choices=[
                            ("assess", "Assess"),
                            ("decide", "Decide"),
                            ("rolling_out", "Rolling Out"),
                            ("draining", "Draining"),
                            ("drained", "Drained"),
                            ("rolled_back", "Rolled Back"),
                        ]
                    ),
                ),
                ("reason", models.TextField(blank=True, default="")),
                ("by", models.TextField(blank=True, default="")),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("version", models.IntegerField()),
                ("undecided", models.IntegerField(default=0)),
                (
                    "deploy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="changes", to="versioning.deploy"
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "constraints": [
                    models.UniqueConstraint(fields=("deploy", "version"), name="versioning_state_change_version")
                ],
            },
        ),
    ]
