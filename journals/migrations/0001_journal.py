"""The journal's tables, its append function and the triggers that keep it append-only."""

from pathlib import Path

import django.db.models.functions
from django.db import migrations, models

SQL = Path(__file__).parent / "sql"

STATE = [
    migrations.CreateModel(
        name="Entry",
        fields=[
            (
                "pk",
                models.CompositePrimaryKey(
                    "head_id", "pos", blank=True, editable=False, primary_key=True, serialize=False
                ),
            ),
            ("head_id", models.BigIntegerField()),
            ("pos", models.BigIntegerField()),
            ("recorded_at", models.DateTimeField()),
            ("epoch", models.IntegerField()),
            ("actor", models.TextField()),
            ("token_id", models.BigIntegerField(null=True)),
            ("origin", models.TextField()),
            ("entry_id", models.TextField()),
            ("seq", models.BigIntegerField(null=True)),
            ("kind", models.TextField()),
            ("branch", models.TextField(default="")),
            ("step", models.IntegerField(null=True)),
            ("attempt", models.IntegerField(default=1)),
            ("digest", models.BinaryField()),
            ("hash", models.BinaryField()),
            ("versions", models.BinaryField(null=True)),
            ("size", models.IntegerField()),
            ("line", models.BinaryField()),
            ("slots", models.JSONField(null=True)),
            ("record", models.TextField(default="")),
            ("import_id", models.BigIntegerField(null=True)),
        ],
        options={
            "db_table": "journals_entry",
        },
    ),
    migrations.CreateModel(
        name="Node",
        fields=[
            ("digest", models.BinaryField(primary_key=True, serialize=False)),
            ("parent", models.BinaryField(null=True)),
            ("item", models.BinaryField()),
        ],
        options={
            "db_table": "journals_node",
        },
    ),
    migrations.CreateModel(
        name="Payload",
        fields=[
            ("digest", models.BinaryField(primary_key=True, serialize=False)),
            ("size", models.BigIntegerField()),
            ("body", models.BinaryField()),
        ],
        options={
            "db_table": "journals_payload",
        },
    ),
    migrations.CreateModel(
        name="Source",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("name", models.TextField(unique=True)),
            ("runtime", models.TextField()),
            ("native", models.BooleanField(default=False)),
            ("mapping", models.JSONField(default=dict)),
            ("created_at", models.DateTimeField(db_default=django.db.models.functions.Now())),
        ],
        options={
            "db_table": "journals_source",
        },
    ),
    migrations.CreateModel(
        name="Token",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("name", models.TextField()),
            ("prefix", models.TextField()),
            ("hash", models.BinaryField(unique=True)),
            ("scope", models.TextField()),
            ("agent", models.TextField(default="")),
            ("environment", models.TextField(default="")),
            ("created_by", models.TextField(default="")),
            ("created_at", models.DateTimeField(db_default=django.db.models.functions.Now())),
            ("expires_at", models.DateTimeField(null=True)),
            ("revoked_at", models.DateTimeField(null=True)),
            ("last_used_at", models.DateTimeField(null=True)),
        ],
        options={
            "db_table": "journals_token",
        },
    ),
    migrations.CreateModel(
        name="Gate",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("agent", models.TextField()),
            ("tool", models.TextField()),
        ],
        options={
            "db_table": "journals_gate",
            "constraints": [models.UniqueConstraint(fields=("agent", "tool"), name="journals_gate_once")],
        },
    ),
    migrations.CreateModel(
        name="Head",
        fields=[
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("key", models.TextField(unique=True)),
            ("run", models.TextField()),
            ("agent", models.TextField(default="unnamed")),
            ("environment", models.TextField(default="")),
            ("native", models.BooleanField(default=False)),
            ("created_at", models.DateTimeField(db_default=django.db.models.functions.Now())),
            ("pos", models.BigIntegerField(default=0)),
            ("hash", models.BinaryField(default=b"")),
            ("entries", models.BigIntegerField(default=0)),
            ("bytes", models.BigIntegerField(default=0)),
            ("epoch", models.IntegerField(default=0)),
            ("lease_until", models.DateTimeField(null=True)),
            ("worker", models.TextField(default="")),
            ("open_build", models.TextField(default="")),
            ("open_replaces", models.TextField(default="")),
            ("build", models.TextField(default="")),
            ("pinned_build", models.TextField(default="")),
            ("stop_name", models.TextField(default="")),
            ("stop_message", models.TextField(default="")),
            ("hold_reason", models.TextField(default="")),
            ("ended", models.TextField(default="")),
            ("parked_on", models.TextField(default="")),
            ("wake_at", models.DateTimeField(null=True)),
            ("dirty", models.BooleanField(default=True)),
            ("source", models.ForeignKey(on_delete=models.PROTECT, to="journals.source")),
        ],
        options={
            "db_table": "journals_head",
            "constraints": [models.UniqueConstraint(fields=("source", "run"), name="journals_head_run_once")],
        },
    ),
]


class Migration(migrations.Migration):
    initial = True
    dependencies = []
    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL((SQL / "0001_journal.sql").read_text(), (SQL / "0001_journal.down.sql").read_text()),
            ],
            state_operations=STATE,
        ),
    ]
