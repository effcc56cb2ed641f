"""The rows that the projection writes: runs, steps, distinct sets of versions."""

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("journals", "0001_journal"),
    ]

    operations = [
        migrations.CreateModel(
            name="VersionSet",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("digest", models.TextField(unique=True)),
                ("body", models.JSONField()),
            ],
            options={
                "db_table": "runs_versionset",
            },
        ),
        migrations.CreateModel(
            name="Run",
            fields=[
                (
                    "head",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="journals.head",
                    ),
                ),
                ("key", models.TextField(unique=True)),
                ("source", models.TextField()),
                ("runtime", models.TextField()),
                ("native", models.BooleanField(default=False)),
                ("run", models.TextField()),
                ("agent", models.TextField()),
                ("environment", models.TextField(default="")),
                ("status", models.TextField()),
                ("runtime_status", models.TextField(default="")),
                ("complete", models.BooleanField(default=False)),
                ("in_flight", models.BooleanField(default=True)),
                ("build", models.TextField(default="")),
                ("pinned_to", models.TextField(default="")),
                ("parked_on", models.TextField(default="")),
                ("parked_since", models.DateTimeField(null=True)),
                ("wake_at", models.DateTimeField(null=True)),
                ("waiting_for", models.TextField(default="")),
                ("parent", models.TextField(default="")),
                ("started_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                ("last_at", models.DateTimeField()),
                ("entries", models.BigIntegerField(default=0)),
                ("bytes", models.BigIntegerField(default=0)),
                ("steps", models.IntegerField(default=0)),
                ("current_branch", models.TextField(default="")),
                ("current_step", models.IntegerField(null=True)),
                ("current_kind", models.TextField(default="")),
                ("current_name", models.TextField(default="")),
                ("gap", models.TextField(default="")),
                ("gap_confidence", models.TextField(default="")),
                (
                    "findings",
                    django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), default=list, size=None),
                ),
                ("lease_until", models.DateTimeField(null=True)),
                ("worker", models.TextField(default="")),
                ("folded_pos", models.BigIntegerField(default=0)),
                ("recheck_at", models.DateTimeField(null=True)),
                ("summary", models.JSONField(default=dict)),
                (
                    "versions_set",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="runs",
                        to="runs.versionset",
                    ),
                ),
            ],
            options={
                "db_table": "runs_run",
            },
        ),
        migrations.CreateModel(
            name="Step",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "run_id", "ord", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("ord", models.IntegerField()),
                ("branch", models.TextField(default="")),
                ("step", models.IntegerField()),
                ("kind", models.TextField(default="")),
                ("name", models.TextField(null=True)),
                ("status", models.TextField()),
                ("attempts", models.IntegerField(default=0)),
                ("effect", models.TextField(default="read")),
                ("key", models.TextField(null=True)),
                ("verdict", models.TextField()),
                ("confidence", models.TextField()),
                ("effects", models.TextField()),
                ("versions", models.JSONField(null=True)),
                (
                    "entries",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.BigIntegerField(), default=list, size=None
                    ),
                ),
                ("first_at", models.DateTimeField(null=True)),
                ("last_at", models.DateTimeField(null=True)),
                ("preview", models.TextField(default="")),
                ("error", models.TextField(default="")),
                (
                    "run",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="step_rows",
                        to="runs.run",
                    ),
                ),
            ],
            options={
                "db_table": "runs_step",
                "indexes": [models.Index(fields=["run", "branch", "step"], name="runs_step_place")],
            },
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["-last_at", "-head"], name="runs_run_last"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["status", "head"], name="runs_run_status"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["agent", "environment", "head"], name="runs_run_agent"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["environment", "head"], name="runs_run_environment"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["source", "head"], name="runs_run_source"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["build", "head"], name="runs_run_build"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["status", "ended_at"], name="runs_run_ended"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("in_flight", True)),
                fields=["agent", "environment", "build"],
                name="runs_run_flight",
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(condition=models.Q(("in_flight", True)), fields=["head"], name="runs_run_in_flight"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("in_flight", True), models.Q(("gap", ""), _negated=True)),
                fields=["head"],
                name="runs_run_gap",
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("recheck_at__isnull", False)), fields=["recheck_at"], name="runs_run_recheck"
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("parent", ""), _negated=True), fields=["parent"], name="runs_run_parent"
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=django.contrib.postgres.indexes.GinIndex(
                fastupdate=False, fields=["findings"], name="runs_run_findings"
            ),
        ),
    ]
