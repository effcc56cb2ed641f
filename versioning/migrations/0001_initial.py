"""Builds and their parts, deploys, assessments, decisions and where they were applied, workers seen."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="AgentPolicy",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("agent", models.TextField(unique=True)),
                (
                    "on_mismatch",
                    models.TextField(
                        choices=[("finish_on_old", "Finish On Old"), ("stop", "Stop"), ("ask", "Ask")], default="ask"
                    ),
                ),
                ("code_changes_compatible", models.BooleanField(default=False)),
                ("changed_by", models.TextField(blank=True, default="")),
                ("changed_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "ordering": ["agent"],
            },
        ),
        migrations.CreateModel(
            name="Build",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("agent", models.TextField()),
                ("label", models.TextField()),
                ("app", models.TextField(null=True)),
                ("sdk", models.TextField(null=True)),
                ("body", models.JSONField()),
                ("digest", models.TextField()),
                ("replaces", models.TextField(blank=True, default="")),
                ("first_seen_from", models.TextField(choices=[("worker", "Worker"), ("ci", "Ci")])),
                ("created_by", models.TextField()),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "ordering": ["agent", "-created_at", "-id"],
                "constraints": [
                    models.UniqueConstraint(fields=("agent", "label"), name="versioning_build_label"),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("agent", ""), _negated=True), models.Q(("label", ""), _negated=True)
                        ),
                        name="versioning_build_named",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("replaces", models.F("label")), _negated=True),
                        name="versioning_build_not_own_hotfix",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Deploy",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key", models.TextField(unique=True)),
                ("agent", models.TextField()),
                ("environment", models.TextField()),
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
                        ],
                        default="assess",
                    ),
                ),
                ("version", models.IntegerField(default=1)),
                ("created_by", models.TextField()),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("rolled_out_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "build",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="deploys", to="versioning.build"
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="Decision",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("group", models.TextField(blank=True, default="")),
                ("run_key", models.TextField(blank=True, default="")),
                ("action", models.TextField(choices=[("pin", "Pin"), ("stop", "Stop"), ("continue", "Continue")])),
                ("name", models.TextField(blank=True, default="")),
                ("message", models.TextField(blank=True, default="")),
                ("reason", models.TextField()),
                ("by", models.TextField()),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("verdict", models.TextField(blank=True, default="")),
                ("differences", models.JSONField(default=list)),
                ("version", models.IntegerField(default=0)),
                ("expected", models.IntegerField(default=0)),
                ("superseded_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
                (
                    "deploy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="decisions", to="versioning.deploy"
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
            },
        ),
        migrations.CreateModel(
            name="Assessment",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("version", models.IntegerField()),
                ("assessed_at", models.DateTimeField()),
                ("runs", models.IntegerField()),
                ("groups", models.JSONField()),
                (
                    "deploy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="assessments", to="versioning.deploy"
                    ),
                ),
            ],
            options={
                "ordering": ["deploy", "version"],
            },
        ),
        migrations.CreateModel(
            name="Part",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("component", models.TextField()),
                ("name", models.TextField()),
                ("version", models.TextField()),
                ("digest", models.TextField(blank=True, default="")),
                ("retires_on", models.DateField(null=True)),
                (
                    "build",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="parts", to="versioning.build"
                    ),
                ),
            ],
            options={
                "ordering": ["component", "name", "id"],
            },
        ),
        migrations.CreateModel(
            name="WorkerSeen",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("agent", models.TextField()),
                ("environment", models.TextField()),
                ("build", models.TextField()),
                ("worker", models.TextField()),
                ("seen_at", models.DateTimeField()),
            ],
            options={
                "ordering": ["agent", "environment", "build", "worker"],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("agent", "environment", "build", "worker"), name="versioning_worker_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Applied",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("head_id", models.BigIntegerField()),
                ("pos", models.BigIntegerField(null=True)),
                ("outcome", models.TextField(blank=True, default="")),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "decision",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="applied", to="versioning.decision"
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "indexes": [models.Index(fields=["head_id"], name="versioning_applied_head")],
                "constraints": [
                    models.UniqueConstraint(fields=("decision", "head_id"), name="versioning_applied_once")
                ],
            },
        ),
        migrations.AddIndex(
            model_name="deploy",
            index=models.Index(fields=["agent", "environment", "-id"], name="versioning_deploy_agent"),
        ),
        migrations.AddConstraint(
            model_name="decision",
            constraint=models.CheckConstraint(
                condition=models.Q(("group", ""), ("run_key", ""), _connector="XOR"),
                name="versioning_decision_one_subject",
            ),
        ),
        migrations.AddConstraint(
            model_name="decision",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("action", "stop"), _negated=True),
                    (
                        "name__in",
                        (
                            "PromptChanged",
                            "ModelChanged",
                            "ModelRetired",
                            "ToolSchemaChanged",
                            "ToolRemoved",
                            "CodeChanged",
                            "VersionsUnknown",
                            "NonDeterministicReplay",
                            "DrainDeadlinePassed",
                            "ApprovalDenied",
                            "ApprovalExpired",
                            "ApprovalMismatch",
                            "JournalLimitReached",
                            "UnresolvedGap",
                            "StoppedByOperator",
                        ),
                    ),
                    _connector="OR",
                ),
                name="versioning_decision_stop_name",
            ),
        ),
        migrations.AddConstraint(
            model_name="decision",
            constraint=models.CheckConstraint(
                condition=models.Q(("reason", ""), _negated=True), name="versioning_decision_reason"
            ),
        ),
        migrations.AddConstraint(
            model_name="decision",
            constraint=models.UniqueConstraint(
                condition=models.Q(("superseded_at", None)),
                fields=("deploy", "group", "run_key"),
                name="versioning_decision_standing",
            ),
        ),
        migrations.AddConstraint(
            model_name="assessment",
            constraint=models.UniqueConstraint(fields=("deploy", "version"), name="versioning_assessment_version"),
        ),
        migrations.AddIndex(
            model_name="part",
            index=models.Index(fields=["component", "name", "version"], name="versioning_part_version"),
        ),
        migrations.AddIndex(
            model_name="part",
            index=models.Index(
                condition=models.Q(("retires_on", None), _negated=True),
                fields=["version"],
                name="versioning_part_retires",
            ),
        ),
        migrations.AddConstraint(
            model_name="part",
            constraint=models.UniqueConstraint(fields=("build", "component", "name"), name="versioning_part_once"),
        ),
        migrations.AddConstraint(
            model_name="part",
            constraint=models.CheckConstraint(
                condition=models.Q(("component__in", ["prompt", "model", "tool"])), name="versioning_part_component"
            ),
        ),
    ]
