"""Uploads, imports, and what each file brought to each run."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("journals", "0001_journal"),
    ]

    operations = [
        migrations.CreateModel(
            name="Upload",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("sha256", models.TextField(unique=True)),
                ("size", models.BigIntegerField()),
                ("stored", models.BigIntegerField()),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("dropped_at", models.DateTimeField(null=True)),
            ],
            options={
                "db_table": "journals_upload",
            },
        ),
        migrations.CreateModel(
            name="Import",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("state", models.TextField(default="queued")),
                ("format", models.TextField(default="auto")),
                ("source", models.TextField(default="")),
                ("agent", models.TextField(default="")),
                ("environment", models.TextField(default="")),
                ("actor", models.TextField()),
                ("attempts", models.IntegerField(default=0)),
                ("lines_done", models.BigIntegerField(default=0)),
                ("bytes_done", models.BigIntegerField(default=0)),
                ("error", models.TextField(default="")),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("beat_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
            ],
            options={
                "db_table": "journals_import",
                "indexes": [
                    models.Index(
                        condition=models.Q(("state__in", ["queued", "running"])),
                        fields=["created_at"],
                        name="journals_import_open",
                    )
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["queued", "running", "done", "failed"])),
                        name="journals_import_state",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ImportFile",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("n", models.IntegerField()),
                ("path", models.TextField()),
                ("format", models.TextField(default="")),
                ("state", models.TextField(default="")),
                ("reason", models.TextField(default="")),
                ("lines", models.BigIntegerField(default=0)),
                ("entries_read", models.BigIntegerField(default=0)),
                ("unread_count", models.BigIntegerField(default=0)),
                ("notes", models.JSONField(default=list)),
                ("unread", models.JSONField(default=list)),
                (
                    "imported",
                    models.ForeignKey(
                        db_column="import_id",
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="files",
                        to="journals.import",
                    ),
                ),
                (
                    "upload",
                    models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, to="journals.upload"),
                ),
            ],
            options={
                "db_table": "journals_import_file",
            },
        ),
        migrations.CreateModel(
            name="UploadPart",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("n", models.IntegerField()),
                ("body", models.BinaryField()),
                (
                    "upload",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="parts", to="journals.upload"
                    ),
                ),
            ],
            options={
                "db_table": "journals_upload_part",
            },
        ),
        migrations.CreateModel(
            name="ImportRun",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("head_id", models.BigIntegerField()),
                ("new", models.BigIntegerField(default=0)),
                ("existing", models.BigIntegerField(default=0)),
                ("conflicts", models.JSONField(default=list)),
                ("partial", models.JSONField(default=list)),
                ("healed", models.BooleanField(default=False)),
                (
                    "file",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="runs", to="journals.importfile"
                    ),
                ),
            ],
            options={
                "db_table": "journals_import_run",
                "indexes": [
                    models.Index(
                        condition=models.Q(("healed", False), models.Q(("partial", []), _negated=True)),
                        fields=["head_id"],
                        name="journals_import_run_damaged",
                    )
                ],
                "constraints": [models.UniqueConstraint(fields=("file", "head_id"), name="journals_import_run_once")],
            },
        ),
        migrations.AddConstraint(
            model_name="importfile",
            constraint=models.UniqueConstraint(fields=("imported", "n"), name="journals_import_file_once"),
        ),
        migrations.AddConstraint(
            model_name="uploadpart",
            constraint=models.UniqueConstraint(fields=("upload", "n"), name="journals_upload_part_once"),
        ),
    ]
